//! What user code does: random programs for drivers, tasks and actors.
//!
//! They may do anything that cannot deadlock by itself: a task gets only what it submitted itself and
//! references older than itself; methods of actors get nothing, and neither do tasks that hold more
//! than CPUs; only values that exist are passed to actors as arguments themselves. What runs in a placement
//! group is not waited for before the group is removed.

use raymesh_core::process::{Flag, Lookup};
use raymesh_wire::control::DeathCause;
use raymesh_wire::{
    ActorId, Block, Call, CallTarget, ErrorKind, ErrorValue, GroupId, Message, ObjectId, ProcId, ReplyStatus,
    ResourceSet, Return, TaskId, ToController, Value,
};

use crate::definitions::Loading;
use crate::payload::{arguments, encode_refs, word};
use crate::rng::Rng;
use crate::world::{BLOCK, Happening, MICRO, MILLI, Stored, World};

/// A reference in user code: one hold of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    pub id: ObjectId,
    /// Waiting for it cannot end in a circle.
    pub safe: bool,
}

impl Ref {
    pub fn actor(self) -> Option<ActorId> {
        let handle = self.id.index == u32::MAX;
        handle.then_some(ActorId { creator: self.id.owner, seq: self.id.seq as u32 })
    }
}

/// What a running piece of user code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Main,
    Constructor,
    Task(TaskId),
    Method(TaskId),
}

/// A running piece of user code.
#[derive(Debug)]
pub struct Frame {
    pub(crate) kind: Kind,
    pub rng: Rng,
    steps: usize,
    pub(crate) depth: u64,
    num_returns: u32,
    pub caller: Option<ProcId>,
    /// What its call refers to.
    pub arguments: Vec<ObjectId>,
    pub refs: Vec<Ref>,
    /// Handles of actors that it found by name. It calls these, and passes none on: an actor might get hold of
    /// itself by what its own arguments refer to, and would live for ever.
    pub found: Vec<ObjectId>,
    /// Placement groups that it has made, and their bundles.
    pub groups: Vec<(GroupId, Vec<ResourceSet>)>,
    /// It is in `get`.
    pub waiting: Option<ObjectId>,
    /// Results that the main program looks at in the end, and then what the dead have left.
    pub(crate) results: Vec<ObjectId>,
    legacies: bool,
}

/// Depth of tasks that neither wait nor submit.
pub(crate) const LEAF: u64 = 9;

impl Frame {
    fn new(kind: Kind, seed: u64, steps: usize, depth: u64) -> Self {
        Self {
            kind,
            rng: Rng::new(seed),
            steps,
            depth,
            num_returns: 0,
            caller: None,
            arguments: Vec::new(),
            refs: Vec::new(),
            found: Vec::new(),
            groups: Vec::new(),
            waiting: None,
            results: Vec::new(),
            legacies: false,
        }
    }

    #[must_use]
    pub fn main(seed: u64) -> Self {
        let steps = 5 + Rng::new(seed).below(40);
        Self::new(Kind::Main, seed, steps, 0)
    }

    #[must_use]
    pub fn constructor(seed: u64) -> Self {
        Self::new(Kind::Constructor, seed, 0, LEAF)
    }

    /// A number that the program draws.
    pub fn below(&mut self, end: usize) -> usize {
        self.rng.below(end)
    }

    /// Everything that it refers to.
    pub fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.refs.iter().map(|it| it.id)
    }
}

impl World {
    /// The user code of a process goes on for one step.
    pub fn step(&mut self, id: ProcId) {
        let Some(node) = self.procs.get_mut(&id) else { return };
        let Some(mut frame) = node.frame.take() else { return };
        if frame.waiting.is_some() {
            node.frame = Some(frame);
            return;
        }
        if frame.steps == 0 {
            self.end(id, frame);
            return;
        }
        frame.steps -= 1;
        self.act(id, &mut frame);
        let pause = match frame.rng.below(8) {
            0 => frame.rng.range(MILLI, 20 * MILLI),
            _ => frame.rng.range(MICRO, 500 * MICRO),
        };
        let waits = frame.waiting.is_some();
        if let Some(node) = self.procs.get_mut(&id) {
            node.frame = Some(frame);
            if !waits {
                self.at(self.now + pause, Happening::Step(id));
            }
        }
    }

    fn act(&mut self, id: ProcId, frame: &mut Frame) {
        let gets = !matches!(frame.kind, Kind::Method(_)) && frame.depth < LEAF;
        match frame.rng.below(20) {
            0..=5 if frame.depth < 3 => self.submit(id, frame),
            0..=5 => {}
            6 | 7 => self.put(id, frame),
            8 if frame.depth < 2 => self.create(id, frame),
            8..=10 => self.call(id, frame),
            11 | 12 if gets => {
                let safe: Vec<_> =
                    frame.refs.iter().filter(|it| it.safe && it.actor().is_none()).copied().collect();
                if let Some(it) = frame.rng.pick(&safe).copied() {
                    self.get(id, frame, it.id);
                }
            }
            13 => {
                let at = frame.rng.below(frame.refs.len());
                if at < frame.refs.len() {
                    let gone = frame.refs.swap_remove(at);
                    self.drop_refs(id, &[gone]);
                }
            }
            14 if frame.rng.one_in(4) => {
                let actors: Vec<_> = frame.refs.iter().filter_map(|it| it.actor()).collect();
                if let Some(actor) = frame.rng.pick(&actors).copied() {
                    let no_restart = frame.rng.one_in(2);
                    let message = ToController::KillActor { actor, no_restart };
                    self.send_message(id, ProcId::default(), Message::ToController(message));
                }
            }
            15 if frame.rng.one_in(2) => self.look_up(id, frame),
            16 | 17 => self.get_legacy(id, frame),
            18 if frame.kind == Kind::Main => self.make_group(id, frame),
            19 if frame.rng.one_in(4) => self.remove_a_group(id, frame),
            _ => {}
        }
    }

    /// Some of the frame's references.
    pub(crate) fn some(frame: &mut Frame, max: usize) -> Vec<Ref> {
        let count = frame.rng.below(max + 1);
        let picked = (0..count).filter_map(|_| frame.rng.pick(&frame.refs).copied());
        picked.filter(|it| !frame.found.contains(&it.id)).collect()
    }

    /// A value that contains references; the object of its memory if it is large.
    /// A value (of `object`, if that is known) that contains references, in the memory of `id` if it is large.
    pub(crate) fn value(
        &mut self,
        id: ProcId,
        object: Option<ObjectId>,
        rng: &mut Rng,
        refs: &[ObjectId],
    ) -> Value {
        if rng.one_in(3) {
            self.next_block += 1;
            let block = Block { home: id, offset: self.next_block, len: BLOCK };
            let stored = Stored { object, refs: refs.to_vec(), freed: false, lost: false };
            self.blocks.insert((id, block.offset), stored);
            Value::Stored(block)
        } else {
            Value::Inline(encode_refs(refs))
        }
    }

    fn put(&mut self, id: ProcId, frame: &mut Frame) {
        let refs: Vec<_> = Self::some(frame, 2).iter().map(|it| it.id).collect();
        let value = self.value(id, None, &mut frame.rng, &refs);
        if let Some(flag) = self.put_value(id, value, refs) {
            frame.refs.push(Ref { id: flag.id(), safe: true });
        }
    }

    pub(crate) fn put_value(
        &mut self,
        id: ProcId,
        value: Value,
        refs: Vec<ObjectId>,
    ) -> Option<std::sync::Arc<Flag>> {
        let block = value.block();
        let flag = self.with_process(id, |process, _, effects| process.put(value, refs, effects))?;
        if let Some(stored) = block.and_then(|block| self.blocks.get_mut(&(block.home, block.offset))) {
            stored.object = Some(flag.id());
        }
        Some(flag)
    }

    pub fn get(&mut self, id: ProcId, frame: &mut Frame, object: ObjectId) {
        // What it waits for might need what they hold, or never get a place in them.
        self.remove_groups(id, frame);
        let waits = self.with_process(id, |process, _, effects| {
            process.await_object(object, effects) && !matches!(process.lookup(object), Lookup::Ready(_))
        });
        if waits == Some(true) {
            frame.waiting = Some(object);
            if frame.kind != Kind::Main {
                self.with_process(id, |process, _, effects| process.block(&[object], effects));
            }
        } else {
            self.read(id, frame, object);
        }
    }

    /// Deserializes a value that is there.
    fn read(&mut self, id: ProcId, frame: &mut Frame, object: ObjectId) {
        let Some(node) = self.procs.get(&id) else { return };
        if self.links.is_zombie(id.host()) {
            return;
        }
        let value = match node.process.lookup(object) {
            Lookup::Ready(value) => value,
            other => {
                self.fail(format!("{id:?} holds {object:?} and reads {other:?}"));
                return;
            }
        };
        if let Value::Stored(block) = value
            && self.is_lost(id, block)
        {
            // Whoever reads it finds out, maybe before the controller does.
            self.stats.lost += 1;
            self.lose_bytes(id, object, block);
            self.get(id, frame, object);
            return;
        }
        if let Value::Error(error) = &value {
            self.stats.errors += 1;
            self.check_held(id, object, error);
            if error.kind == ErrorKind::OwnerDied {
                self.check_nowhere(id, object);
            }
            self.stats.unrebuildable += u64::from(error.kind == ErrorKind::Unrebuildable);
            if error.kind == ErrorKind::Unrebuildable && self.stats.hosts_lost == 0 {
                self.fail(format!("{id:?} is told that {object:?} is lost, but no host was"));
            }
            if matches!(error.kind, ErrorKind::ObjectLost | ErrorKind::System) {
                let text = String::from_utf8_lossy(&error.payload).into_owned();
                self.fail(format!("{id:?} holds {object:?} and gets {:?}: {text}", error.kind));
            }
        }
        self.stats.survived += u64::from(!value.is_error() && !self.procs.contains_key(&object.owner));
        if let Value::Stored(block) = &value
            && self.blocks.get(&(block.home, block.offset)).is_none_or(|stored| stored.freed)
        {
            self.fail(format!("{id:?} holds {object:?}, whose memory {block:?} is free"));
        }
        for inner in self.refs_in(&value) {
            self.with_process(id, |process, _, _| process.hold(inner));
            frame.refs.push(Ref { id: inner, safe: false });
        }
    }

    /// What somebody waited for is there.
    pub fn ready(&mut self, id: ProcId, object: ObjectId) {
        let Some(node) = self.procs.get_mut(&id) else { return };
        let Some(mut frame) = node.frame.take() else { return };
        if frame.waiting == Some(object) {
            frame.waiting = None;
            self.with_process(id, |process, _, effects| process.unblock(effects));
            self.read(id, &mut frame, object);
            self.at(self.now + MICRO, Happening::Step(id));
        }
        if let Some(node) = self.procs.get_mut(&id) {
            node.frame = Some(frame);
        }
    }

    pub fn drop_refs(&mut self, id: ProcId, refs: &[Ref]) {
        for it in refs {
            self.with_process(id, |process, _, effects| process.release(it.id, effects));
        }
    }

    /// All actors let go of what they kept.
    pub fn empty_stashes(&mut self) {
        for id in self.procs.keys().copied().collect::<Vec<_>>() {
            let kept = self.procs.get_mut(&id).map(|node| std::mem::take(&mut node.stash));
            self.drop_refs(id, &kept.unwrap_or_default());
        }
    }

    /// Starts the next call, if the process is free.
    pub fn run_next(&mut self, id: ProcId) {
        let Some(node) = self.procs.get(&id) else { return };
        if node.frame.is_some() || node.loading.is_some() || node.exit.is_some() {
            return;
        }
        let next = self.with_process(id, |process, _, effects| process.next_call(effects)).flatten();
        if let Some(incoming) = next {
            let (caller, call) = (incoming.caller, Box::new((*incoming.call).clone()));
            match call.target {
                CallTarget::Function { .. } => self.load(id, Loading::Call { caller, call }),
                CallTarget::Method { .. } => self.begin(id, caller, &call),
            }
        }
    }

    /// The host of the block is gone.
    fn is_lost(&self, reader: ProcId, block: Block) -> bool {
        let lost = || self.blocks.get(&(block.home, block.offset)).is_some_and(|stored| stored.lost);
        self.is_out_of_reach(reader.host(), block.host()) || lost()
    }

    pub fn begin(&mut self, id: ProcId, caller: ProcId, call: &Call) {
        let lost = call.deps.iter().find_map(|(object, value)| {
            let block = value.block().filter(|block| self.is_lost(id, *block))?;
            Some((*object, block))
        });
        if let (CallTarget::Function { lease, .. }, Some(lost)) = (&call.target, lost) {
            self.stats.lost += 1;
            let call = (call.task, *lease);
            self.with_process(id, |process, _, effects| process.give_back_call(call, lost, effects));
            self.rest(id);
            return;
        }
        let kind = match call.target {
            CallTarget::Function { .. } => Kind::Task(call.task),
            CallTarget::Method { .. } => Kind::Method(call.task),
        };
        let (seed, depth, safe) = (word(&call.options, 0), word(&call.options, 1), word(&call.options, 2));
        let steps = Rng::new(seed).below(6);
        let mut frame = Frame::new(kind, seed ^ u64::from(call.attempt), steps, depth);
        frame.num_returns = call.num_returns;
        frame.caller = Some(caller);
        frame.arguments = arguments(call);
        // The user code takes what it was given: values themselves, and references.
        for (object, value) in &call.deps {
            if value.is_error() {
                self.fail(format!("{object:?} is passed as an error: {value:?}"));
            }
            if let Value::Stored(block) = value
                && !self.is_lost(id, *block)
                && !self.links.is_zombie(id.host())
                && self.blocks.get(&(block.home, block.offset)).is_none_or(|stored| stored.freed)
            {
                self.fail(format!("{id:?} is passed {object:?}, whose memory {block:?} is free"));
            }
            for inner in self.refs_in(value) {
                self.with_process(id, |process, _, _| process.hold(inner));
                frame.refs.push(Ref { id: inner, safe: false });
            }
        }
        for (at, object) in call.refs.iter().enumerate() {
            // Those beyond the mask came along inside other arguments.
            let safe = at < 64 && safe >> at & 1 == 1;
            self.with_process(id, |process, _, _| process.hold(*object));
            frame.refs.push(Ref { id: *object, safe });
        }
        let at = self.now + frame.rng.range(MICRO, 200 * MICRO);
        if let Some(node) = self.procs.get_mut(&id) {
            node.frame = Some(frame);
            self.at(at, Happening::Step(id));
        }
    }

    fn end(&mut self, id: ProcId, frame: Frame) {
        match frame.kind {
            Kind::Main => self.end_main(id, frame),
            Kind::Constructor => self.end_constructor(id, frame),
            Kind::Task(task) | Kind::Method(task) => self.end_call(id, frame, task),
        }
    }

    /// The main program looks at every result, one after the other, and lets go of everything.
    fn end_main(&mut self, id: ProcId, mut frame: Frame) {
        if let Some(object) = frame.results.pop() {
            self.get(id, &mut frame, object);
            if frame.waiting.is_none() {
                self.at(self.now + MICRO, Happening::Step(id));
            }
            // The hold goes over to the references.
            frame.refs.push(Ref { id: object, safe: true });
            if let Some(node) = self.procs.get_mut(&id) {
                node.frame = Some(frame);
            }
            return;
        }
        if !std::mem::replace(&mut frame.legacies, true) {
            frame.results = self.left_by_the_dead(frame.refs.iter()).iter().map(|it| it.id).collect();
            for object in &frame.results {
                self.with_process(id, |process, _, _| process.hold(*object));
            }
            return self.end_main(id, frame);
        }
        self.remove_groups(id, &mut frame);
        self.drop_refs(id, &frame.refs);
        self.undefine_all(id);
        if let Some(node) = self.procs.get_mut(&id) {
            node.done = true;
        }
    }

    fn end_constructor(&mut self, id: ProcId, mut frame: Frame) {
        let Some(actor) = self.procs.get(&id).and_then(|node| node.actor) else { return };
        let raises = frame.rng.one_in(12);
        let error = raises.then(|| ErrorValue::text(ErrorKind::ActorInit, "raised"));
        self.send_message(
            id,
            ProcId::default(),
            Message::ToController(ToController::ActorReady { actor, error }),
        );
        self.rest(id);
    }

    fn end_call(&mut self, id: ProcId, mut frame: Frame, task: TaskId) {
        if frame.rng.one_in(40) {
            self.die(id, DeathCause::Exited { code: 7 });
            return;
        }
        if let Kind::Method(_) = frame.kind
            && frame.rng.one_in(30)
            && let Some(actor) = self.procs.get(&id).and_then(|node| node.actor)
        {
            let message = Message::ToController(ToController::ActorExited { actor });
            self.send_message(id, ProcId::default(), message);
            self.die(id, DeathCause::Exited { code: 0 });
            return;
        }
        let raises = frame.rng.one_in(8);
        let mut returns = Vec::new();
        for index in 1..=frame.num_returns {
            let refs: Vec<_> = Self::some(&mut frame, 2).iter().map(|it| it.id).collect();
            returns.push(if raises {
                let error = ErrorValue::text(ErrorKind::Task, "raised");
                Return { value: Value::Error(error), refs: Vec::new() }
            } else {
                Return { value: self.value(id, Some(task.object(index)), &mut frame.rng, &refs), refs }
            });
        }
        let status = match (raises, frame.rng.one_in(2)) {
            (false, _) => ReplyStatus::Ok,
            (true, false) => ReplyStatus::Raised,
            (true, true) => ReplyStatus::RaisedRetryable,
        };
        let micros = frame.rng.range(1, 3000) as u32;
        // An actor keeps some of what it was given.
        let mut kept = Vec::new();
        if matches!(frame.kind, Kind::Method(_)) {
            while frame.rng.one_in(3)
                && let Some(it) = frame.refs.pop()
            {
                kept.push(it);
            }
        }
        let early = frame.rng.one_in(2);
        if !early {
            self.drop_before_reply(id, &frame, &returns);
        }
        self.with_process(id, |process, _, effects| process.finish(task, status, micros, returns, effects));
        if early {
            self.drop_refs(id, &frame.refs);
        }
        let gone = self.procs.get_mut(&id).map(|node| {
            node.stash.extend(kept);
            if node.stash.len() > 4 { node.stash.drain(..2).collect() } else { Vec::new() }
        });
        self.drop_refs(id, &gone.unwrap_or_default());
        self.rest(id);
    }

    /// Lets go of all that the results do not need, before the reply; of the rest after it.
    fn drop_before_reply(&mut self, id: ProcId, frame: &Frame, returns: &[Return]) {
        let needed = |it: &Ref| returns.iter().any(|item| item.refs.contains(&it.id));
        let (later, now): (Vec<Ref>, Vec<Ref>) = frame.refs.iter().partition(|it| needed(it));
        self.drop_refs(id, &now);
        self.later.push((id, later));
    }

    /// Nothing runs any more.
    fn rest(&mut self, id: ProcId) {
        for (of, refs) in std::mem::take(&mut self.later) {
            self.drop_refs(of, &refs);
        }
        self.undefine_all(id);
        let Some(node) = self.procs.get_mut(&id) else { return };
        node.frame = None;
        if node.exit.is_some() {
            self.die(id, DeathCause::Exited { code: 0 });
        } else {
            self.run_next(id);
        }
    }
}
