//! Random programs over random orders of delivery: whatever somebody holds, its owner knows.

use std::collections::BTreeMap;

use raymesh_wire::{Call, CallTarget, ObjectId, ProcId, ReplyStatus, Return, Value};

use super::net::{MILLI, Net, proc};
use super::user::{Options, arguments, inline, raised};
use crate::process::{Lookup, Process};

const PROCS: u32 = 5;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        (!items.is_empty()).then(|| items[self.below(items.len())])
    }
}

struct World {
    net: Net,
    rng: Rng,
    /// References in user code.
    held: BTreeMap<ProcId, Vec<ObjectId>>,
    /// What values refer to: only what is older, or they would keep themselves.
    inside: BTreeMap<ObjectId, Vec<ObjectId>>,
    /// Objects in the order in which they were made.
    age: BTreeMap<ObjectId, usize>,
    running: Vec<(ProcId, Box<Call>)>,
}

impl World {
    fn some(&mut self, id: ProcId, max: usize) -> Vec<ObjectId> {
        let held = self.held.get(&id).cloned().unwrap_or_default();
        let count = self.rng.below(max + 1);
        (0..count).filter_map(|_| self.rng.pick(&held)).collect()
    }

    fn made(&mut self, id: ProcId, objects: Vec<ObjectId>) {
        for object in &objects {
            let age = self.age.len();
            self.age.insert(*object, age);
        }
        self.held.entry(id).or_default().extend(objects);
    }

    fn take(&mut self, id: ProcId, object: ObjectId) {
        self.net.take(id, object);
        self.held.entry(id).or_default().push(object);
    }

    fn value(&mut self, home: ProcId) -> Value {
        if self.rng.below(3) == 0 { Value::Stored(self.net.allocate(home)) } else { inline("") }
    }

    fn is_actor(object: ObjectId) -> bool {
        object.index == u32::MAX
    }

    /// User code of `id` does something.
    fn act(&mut self, id: ProcId) {
        match self.rng.below(10) {
            0 | 1 => {
                let refs = self.some(id, 2);
                let value = self.value(id);
                let object = self.net.with(id, |process, _, fx| process.put(value, refs.clone(), fx)).id();
                self.inside.insert(object, refs);
                self.made(id, vec![object]);
            }
            2..=4 => {
                // Only references: a value that waits for a call behind it would wait for ever.
                let there = |net: &Net, object: &ObjectId| {
                    !Self::is_actor(*object) && matches!(net.lookup(id, *object), Lookup::Ready(_))
                };
                let (deps, refs) = (self.some(id, 2), self.some(id, 2));
                let deps: Vec<_> = deps.into_iter().filter(|it| there(&self.net, it)).collect();
                let options =
                    Options { returns: self.rng.below(3) as u32, retries: self.rng.below(3) as i32 };
                let actors: Vec<_> = self.some(id, 3).into_iter().filter(|it| Self::is_actor(*it)).collect();
                let results = match self.rng.pick(&actors) {
                    Some(handle) => {
                        let actor = raymesh_wire::ActorId { creator: handle.owner, seq: handle.seq as u32 };
                        let one = Options { returns: 1, ..options };
                        vec![self.net.call_quietly(id, actor, arguments(&deps, &refs), one)]
                    }
                    None => self.net.submit_quietly(id, arguments(&deps, &refs), options).1,
                };
                self.made(id, results);
            }
            5 => {
                if let Some(object) = self.some(id, 1).pop() {
                    self.net.with(id, |process, _, fx| process.want(object, fx));
                }
            }
            6 => {
                // Reads a value, and keeps a reference that is in it.
                let Some(object) = self.some(id, 1).pop() else { return };
                if matches!(self.net.lookup(id, object), Lookup::Ready(value) if !value.is_error()) {
                    let inside = self.inside.get(&object).cloned().unwrap_or_default();
                    if let Some(inner) = self.rng.pick(&inside) {
                        self.take(id, inner);
                    }
                }
            }
            _ => self.drop_one(id),
        }
    }

    fn drop_one(&mut self, id: ProcId) {
        let held = self.held.entry(id).or_default();
        if !held.is_empty() {
            let at = self.rng.below(held.len());
            // Handles are kept longer than other references.
            if Self::is_actor(held[at]) && self.rng.below(20) > 0 {
                return;
            }
            let object = held.swap_remove(at);
            self.net.drop_ref(id, object);
        }
    }

    /// A worker begins a call, and may keep what it is given.
    fn begin(&mut self, id: ProcId) {
        let Some(incoming) = self.net.try_start(id) else { return };
        let call = incoming.call;
        let inside =
            call.deps.iter().flat_map(|(object, _)| self.inside.get(object).cloned().unwrap_or_default());
        let given: Vec<_> = call.refs.iter().copied().chain(inside).collect();
        for _ in 0..self.rng.below(3) {
            if let Some(object) = self.rng.pick(&given) {
                self.take(id, object);
            }
        }
        self.running.push((id, call));
    }

    fn end(&mut self, at: usize) {
        let (id, call) = self.running.swap_remove(at);
        let fails = self.rng.below(6) == 0;
        let mut returns = Vec::new();
        for index in 1..=call.num_returns {
            let age = self.age.get(&call.task.object(index)).copied();
            let mut refs = self.some(id, 2);
            refs.retain(|object| self.age.get(object).copied() < age);
            let value = if fails { raised("") } else { self.value(id) };
            if !fails {
                self.inside.insert(call.task.object(index), refs.clone());
            }
            returns.push(Return { value, refs });
        }
        let status = if fails { ReplyStatus::RaisedRetryable } else { ReplyStatus::Ok };
        let us = [50, 5_000][self.rng.below(2)];
        self.net.with(id, |process, _, fx| process.finish(call.task, status, us, returns, fx));
    }

    fn check(&self) {
        for (id, held) in &self.held {
            for object in held {
                let known = self.net.knows(object.owner, *object);
                assert!(known, "{id:?} holds {object:?}, which its owner has freed");
            }
        }
    }

    fn step(&mut self) {
        match self.rng.below(8) {
            0 => {
                let id = proc(1 + self.rng.below(PROCS as usize) as u32);
                // Workers act while they run something; the driver always.
                if id == proc(1) || self.running.iter().any(|(worker, _)| *worker == id) {
                    self.act(id);
                }
            }
            1 => {
                let id = proc(2 + self.rng.below(PROCS as usize - 1) as u32);
                if self.running.iter().all(|(worker, _)| *worker != id) {
                    self.begin(id);
                }
            }
            2 if !self.running.is_empty() => {
                let at = self.rng.below(self.running.len());
                self.end(at);
            }
            3 if self.rng.below(20) == 0 => self.net.pass_quietly(MILLI),
            _ => {
                let Self { net, rng, .. } = self;
                net.deliver_one(|count| rng.below(count));
            }
        }
    }
}

impl Net {
    fn pass_quietly(&mut self, time: u64) {
        self.now += time;
        let now = self.now;
        let due = |process: &Process| process.next_deadline().is_some_and(|at| at <= now);
        let ids: Vec<_> = self.procs.iter().filter(|(_, process)| due(process)).map(|(id, _)| *id).collect();
        for id in ids {
            self.with(id, |process, now, fx| process.tick(now, fx));
        }
    }
}

fn world(seed: u64) -> (World, raymesh_wire::ActorId) {
    let rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (held, inside, age) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut world = World { net: Net::new(PROCS), rng, held, inside, age, running: Vec::new() };
    // One of the workers is an actor.
    let actor = world.net.create(proc(1), arguments(&[], &[]), 0);
    world.made(proc(1), vec![Process::actor_handle(actor)]);
    (world, actor)
}

fn run(seed: u64, steps: usize) {
    let (mut world, actor) = world(seed);
    for _ in 0..steps {
        world.step();
        world.check();
    }
    // All that was asked for is done, and everybody lets go of everything.
    let submitted = |process: &Process| process.census().contains(&("calls submitted", 0));
    let mut patience = 100_000;
    while !world.net.procs.values().all(submitted) {
        patience -= 1;
        assert!(patience > 0, "seed {seed}: calls are never answered");
        if world.net.deliver_one(|_| 0) {
            continue;
        }
        if !world.running.is_empty() {
            world.end(0);
        }
        for n in 2..=PROCS {
            if world.running.iter().all(|(worker, _)| *worker != proc(n)) {
                world.begin(proc(n));
            }
        }
        world.net.pass_quietly(MILLI);
        world.check();
    }
    for n in 1..=PROCS {
        while world.held.get(&proc(n)).is_some_and(|held| !held.is_empty()) {
            world.drop_one(proc(n));
        }
    }
    world.net.run();
    assert!(matches!(
        world.net.controller.state(actor),
        Some(raymesh_wire::control::ActorState::Dead { .. })
    ));
    let home = world.net.home(actor);
    world.net.kill(home);
    world.net.assert_clean();
}

#[test]
fn nothing_is_freed_that_somebody_holds_and_nothing_is_left() {
    for seed in 0..400 {
        run(seed, 1_500);
    }
}

#[test]
fn random_programs_call_functions_and_methods() {
    let (mut world, _) = world(1);
    let (mut functions, mut methods) = (0, 0);
    for _ in 0..20_000 {
        world.step();
        functions +=
            world.running.iter().filter(|(_, it)| matches!(it.target, CallTarget::Function { .. })).count();
        methods +=
            world.running.iter().filter(|(_, it)| matches!(it.target, CallTarget::Method { .. })).count();
    }
    assert!(functions > 100 && methods > 100, "{functions} functions, {methods} methods");
}
