//! What user code asks others to do: tasks, actors and their methods, with random arguments.

use bytes::Bytes;
use raymesh_core::process::{ActorCallSpec, Arguments, CreateActor, Lookup, Process, TaskSpec};
use raymesh_wire::control::ActorSpec;
use raymesh_wire::{Environment, ObjectId, ProcId, Quantity, ResourceSet, Value, Wish};

use crate::payload::{options, shapes};
use crate::program::{Frame, Kind, LEAF, Ref};
use crate::world::World;

impl World {
    fn arguments(
        &mut self,
        id: ProcId,
        frame: &mut Frame,
        dep: impl Fn(&Process, Ref) -> bool,
    ) -> (Arguments, u64) {
        let mut deps = Vec::new();
        let mut refs = Vec::new();
        let mut safe = 0;
        for it in Self::some(frame, 3) {
            let Some(node) = self.procs.get(&id) else { break };
            if it.actor().is_none() && dep(&node.process, it) && frame.rng.one_in(2) {
                deps.push(it.id);
            } else {
                safe |= u64::from(it.safe) << refs.len();
                refs.push(it.id);
            }
        }
        let mut arguments = Arguments { value: Value::Inline(Bytes::new()), object: None, deps, refs };
        if frame.rng.one_in(6) {
            let value = self.value(id, None, &mut frame.rng, &[]);
            arguments.object = self.put_value(id, value.clone(), Vec::new()).map(|flag| flag.id());
            arguments.value = value;
        }
        (arguments, safe)
    }

    pub(crate) fn submit(&mut self, id: ProcId, frame: &mut Frame) {
        let (arguments, safe) = self.arguments(id, frame, |_, it| it.safe);
        let seed = frame.rng.next_u64();
        let wanted = frame.rng.pick(&shapes()).cloned().unwrap_or_default();
        let (wish, bundle) = self.wish(frame);
        let resources = bundle.unwrap_or(wanted);
        let (num_returns, max_retries) = (frame.rng.below(3) as u32, frame.rng.below(4) as i32 - 1);
        let lent = resources.iter().all(|(name, _)| name == "CPU");
        let depth = if lent { frame.depth + 1 } else { LEAF };
        let Some(job) = self.procs.get(&id).map(|node| node.job) else { return };
        let function = self.define(id, &mut frame.rng);
        let inherits = wish == Wish::default();
        let submitted = self.with_process(id, |process, now, effects| {
            let shape = process.shape(job, &Environment::default(), &resources, &wish);
            let options = options(seed, depth, safe);
            let spec = TaskSpec { function, arguments, num_returns, shape, inherits, max_retries, options };
            process.submit_task(now, spec, effects)
        });
        self.undefine(id, function, frame.rng.one_in(2));
        if let Some((_, flags)) = submitted {
            self.stats.tasks += 1;
            let safe = wish.group().is_none();
            self.took(id, frame, flags.iter().map(|flag| flag.id()), safe);
        }
    }

    /// The frame got results of its own calls. The main program keeps each once more, for its end.
    pub(crate) fn took(
        &mut self,
        id: ProcId,
        frame: &mut Frame,
        results: impl Iterator<Item = ObjectId>,
        safe: bool,
    ) {
        for result in results {
            frame.refs.push(Ref { id: result, safe });
            if frame.kind == Kind::Main {
                self.with_process(id, |process, _, _| process.hold(result));
                frame.results.push(result);
            }
        }
    }

    pub(crate) fn create(&mut self, id: ProcId, frame: &mut Frame) {
        let (arguments, _) = self
            .arguments(id, frame, |process, it| it.safe && matches!(process.lookup(it.id), Lookup::Ready(_)));
        let Some(job) = self.procs.get(&id).map(|node| node.job) else { return };
        let mut resources = ResourceSet::new();
        if frame.rng.one_in(4) {
            resources.set("x", Quantity(1));
        }
        let (wish, bundle) = self.wish(frame);
        if bundle.is_some() {
            resources = ResourceSet::new();
        }
        let mut placement = resources.clone();
        placement.set("CPU", Quantity::ONE);
        let name = if frame.rng.one_in(3) { format!("actor-{}", frame.rng.below(3)) } else { String::new() };
        let max_restarts = frame.rng.below(4) as i64 - 1;
        let handle = options(frame.rng.next_u64(), 0, 0);
        let class = self.define(id, &mut frame.rng);
        let created = self.with_process(id, |process, _, effects| {
            let actor = process.next_actor();
            let spec = ActorSpec {
                actor,
                job,
                class,
                class_name: "Actor".to_owned(),
                args: Value::Inline(Bytes::new()),
                args_object: None,
                deps: Vec::new(),
                refs: Vec::new(),
                resources,
                placement,
                wish,
                name,
                namespace: String::new(),
                detached: false,
                max_restarts,
                max_concurrency: 0,
                handle,
                env: Environment::default(),
            };
            process.create_actor(CreateActor { spec, arguments }, effects);
            Process::actor_handle(actor)
        });
        self.undefine(id, class, frame.rng.one_in(4));
        if let Some(handle) = created {
            self.stats.actors += 1;
            frame.refs.push(Ref { id: handle, safe: false });
        }
    }

    pub(crate) fn call(&mut self, id: ProcId, frame: &mut Frame) {
        let actors: Vec<_> = frame.refs.iter().filter_map(|it| it.actor()).collect();
        let Some(actor) = frame.rng.pick(&actors).copied() else { return };
        let (arguments, safe) = self
            .arguments(id, frame, |process, it| it.safe && matches!(process.lookup(it.id), Lookup::Ready(_)));
        let spec = ActorCallSpec {
            actor,
            method: "m".to_owned(),
            arguments,
            num_returns: frame.rng.below(3) as u32,
            max_retries: frame.rng.below(3) as i32 - 1,
            options: options(frame.rng.next_u64(), frame.depth + 1, safe),
        };
        let submitted = self.with_process(id, |process, _, effects| process.submit_actor_call(spec, effects));
        if let Some((_, flags)) = submitted {
            self.stats.tasks += 1;
            self.called.extend(flags.iter().map(|flag| (flag.id(), actor)));
            self.took(id, frame, flags.iter().map(|flag| flag.id()), true);
        }
    }
}
