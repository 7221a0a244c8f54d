//! What user code and the binding do with a process.

use bytes::Bytes;
use raymesh_wire::control::ActorSpec;
use raymesh_wire::{
    ActorId, ErrorKind, ErrorValue, FunctionId, JobId, ObjectId, ProcId, Quantity, ReplyStatus, ResourceSet,
    Return, TaskId, Value, Wish,
};

use super::net::Net;
use crate::process::{ActorCallSpec, Arguments, CreateActor, Incoming, Lookup, Process, TaskSpec};

/// A small value.
pub(super) fn inline(text: &str) -> Value {
    Value::Inline(Bytes::copy_from_slice(text.as_bytes()))
}

/// What user code raised.
pub(super) fn raised(text: &str) -> Value {
    Value::Error(ErrorValue::text(ErrorKind::Task, text))
}

/// One small result without references.
pub(super) fn result(text: &str) -> Vec<Return> {
    vec![Return { value: inline(text), refs: vec![] }]
}

/// Arguments: references passed as arguments themselves, and inside others.
pub(super) fn arguments(deps: &[ObjectId], refs: &[ObjectId]) -> Arguments {
    Arguments { value: inline("args"), object: None, deps: deps.to_vec(), refs: refs.to_vec() }
}

/// CPUs, in whole ones.
pub(super) fn cpus(count: u64) -> ResourceSet {
    [("CPU", Quantity(count * Quantity::SCALE))].into_iter().collect()
}

/// A call of one function: results and retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub returns: u32,
    pub retries: i32,
}

pub(super) const ONCE: Options = Options { returns: 1, retries: 0 };

impl Net {
    /// `put` of a small value.
    pub fn put(&mut self, id: ProcId, text: &str, refs: &[ObjectId]) -> ObjectId {
        self.with(id, |process, _, fx| process.put(inline(text), refs.to_vec(), fx)).id()
    }

    /// `put` of a large value.
    pub fn put_stored(&mut self, id: ProcId, refs: &[ObjectId]) -> ObjectId {
        let value = Value::Stored(self.allocate(id));
        self.with(id, |process, _, fx| process.put(value, refs.to_vec(), fx)).id()
    }

    /// One more reference in user code.
    pub fn take(&mut self, id: ProcId, object: ObjectId) {
        self.with(id, |process, _, _| process.hold(object));
    }

    /// One reference less.
    pub fn drop_ref(&mut self, id: ProcId, object: ObjectId) {
        self.with(id, |process, _, fx| process.release(object, fx));
    }

    /// As [`Self::drop_ref`], and all that follows.
    pub fn let_go(&mut self, id: ProcId, objects: &[ObjectId]) {
        for object in objects {
            self.drop_ref(id, *object);
        }
        self.run();
    }

    pub fn lookup(&self, id: ProcId, object: ObjectId) -> Lookup {
        self.procs.get(&id).map_or(Lookup::Unknown, |process| process.lookup(object))
    }

    /// The value of an object, which must be there.
    pub fn value(&self, id: ProcId, object: ObjectId) -> Value {
        match self.lookup(id, object) {
            Lookup::Ready(value) => value,
            other => panic!("{id:?} has no value of {object:?}: {other:?}"),
        }
    }

    /// The kind of error in which an argument of the call behind `object` ended.
    pub fn cause(&self, id: ProcId, object: ObjectId) -> ErrorKind {
        match self.value(id, object) {
            Value::Error(error) => error.argument().map_or(error.kind, |inner| inner.kind),
            other => panic!("{object:?} is no error: {other:?}"),
        }
    }

    /// Whether the process knows of the object at all.
    pub fn knows(&self, id: ProcId, object: ObjectId) -> bool {
        !matches!(self.lookup(id, object), Lookup::Unknown)
    }

    /// The kind of error in which an object ended.
    /// Why `object` has no value: of a failed argument, the failure behind it.
    pub fn error(&self, id: ProcId, object: ObjectId) -> ErrorKind {
        match self.value(id, object) {
            Value::Error(error) => error.argument().unwrap_or(error).kind,
            other => panic!("{object:?} is no error: {other:?}"),
        }
    }

    /// `get`: asks for the value and delivers what can be delivered.
    pub fn get(&mut self, id: ProcId, object: ObjectId) -> Lookup {
        self.with(id, |process, _, fx| process.want(object, fx));
        self.run();
        self.lookup(id, object)
    }

    /// A task of the one-CPU shape; delivers what can be delivered.
    pub fn submit(&mut self, id: ProcId, arguments: Arguments, options: Options) -> Vec<ObjectId> {
        let (_, results) = self.submit_quietly(id, arguments, options);
        self.run();
        results
    }

    /// A task of the one-CPU shape; nothing is delivered.
    pub fn submit_quietly(
        &mut self,
        id: ProcId,
        arguments: Arguments,
        options: Options,
    ) -> (TaskId, Vec<ObjectId>) {
        let (task, flags) = self.with(id, |process, now, fx| {
            let env = raymesh_wire::Environment::default();
            let shape = process.shape(JobId(1), &env, &cpus(1), &Wish::default());
            let spec = TaskSpec {
                function: FunctionId([7; 16]),
                arguments,
                num_returns: options.returns,
                shape,
                inherits: false,
                max_retries: options.retries,
                options: Bytes::new(),
            };
            process.submit_task(now, spec, fx)
        });
        (task, flags.iter().map(|flag| flag.id()).collect())
    }

    /// The next call that arrived.
    pub fn start(&mut self, worker: ProcId) -> Incoming {
        self.try_start(worker).unwrap_or_else(|| panic!("{worker:?} has no call"))
    }

    pub fn try_start(&mut self, worker: ProcId) -> Option<Incoming> {
        self.with(worker, |process, _, fx| process.next_call(fx))
    }

    /// Ends a call.
    pub fn finish(&mut self, worker: ProcId, task: TaskId, returns: Vec<Return>) {
        self.end(worker, task, ReplyStatus::Ok, 10_000, returns);
    }

    pub fn end(&mut self, worker: ProcId, task: TaskId, status: ReplyStatus, us: u32, returns: Vec<Return>) {
        self.with(worker, |process, _, fx| process.finish(task, status, us, returns, fx));
        self.run();
    }

    /// Runs the next call of a worker to its end.
    pub fn serve(&mut self, worker: ProcId) -> TaskId {
        let call = self.start(worker).call;
        let returns = (0..call.num_returns).flat_map(|_| result("done")).collect();
        self.finish(worker, call.task, returns);
        call.task
    }

    /// Creates an actor; the caller holds its handle once.
    pub fn create(&mut self, id: ProcId, arguments: Arguments, max_restarts: i64) -> ActorId {
        self.create_named(id, "", arguments, max_restarts)
    }

    pub fn create_named(
        &mut self,
        id: ProcId,
        name: &str,
        arguments: Arguments,
        max_restarts: i64,
    ) -> ActorId {
        let actor = self.with(id, |process, _, fx| {
            let actor = process.next_actor();
            let spec = ActorSpec {
                actor,
                job: JobId(1),
                class: FunctionId([9; 16]),
                class_name: "Actor".to_owned(),
                args: inline(""),
                args_object: None,
                deps: vec![],
                refs: vec![],
                resources: ResourceSet::new(),
                placement: cpus(1),
                wish: Wish::default(),
                name: name.to_owned(),
                namespace: String::new(),
                detached: false,
                max_restarts,
                max_concurrency: 1,
                handle: Bytes::new(),
                env: raymesh_wire::Environment::default(),
            };
            process.create_actor(CreateActor { spec, arguments }, fx);
            actor
        });
        self.run();
        actor
    }

    /// Calls a method; delivers what can be delivered.
    pub fn call(&mut self, id: ProcId, actor: ActorId, arguments: Arguments, options: Options) -> ObjectId {
        let result = self.call_quietly(id, actor, arguments, options);
        self.run();
        result
    }

    /// Calls a method; nothing is delivered.
    pub fn call_quietly(
        &mut self,
        id: ProcId,
        actor: ActorId,
        arguments: Arguments,
        options: Options,
    ) -> ObjectId {
        let spec = ActorCallSpec {
            actor,
            method: "m".to_owned(),
            arguments,
            num_returns: options.returns,
            max_retries: options.retries,
            options: Bytes::new(),
        };
        let (task, _) = self.with(id, |process, _, fx| process.submit_actor_call(spec, fx));
        task.object(1)
    }

    /// The worker in which an actor lives.
    pub fn home(&self, actor: ActorId) -> ProcId {
        self.controller.lived_in(actor).unwrap_or_else(|| panic!("{actor:?} never lived"))
    }

    /// An actor is over: its last handle is gone, and so is its process.
    pub fn end_actor(&mut self, id: ProcId, actor: ActorId) {
        self.let_go(id, &[Process::actor_handle(actor)]);
        self.kill(self.home(actor));
    }
}

impl Process {
    /// Whether somebody here holds an object that lies there.
    pub(super) fn reads(&self, block: raymesh_wire::Block) -> bool {
        let lies = |value: Option<&Value>| value.and_then(Value::block) == Some(block);
        self.objects.all().any(|(object, value, _)| lies(value) && self.holders(object) > 0)
    }
}
