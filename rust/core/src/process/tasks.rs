//! Tasks that this process has submitted: they wait for arguments, then (in [`super::leases`]) for a
//! worker, then for the reply.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;
use raymesh_wire::{
    Call, CallTarget, ErrorKind, ErrorValue, FunctionId, LeaseId, ObjectId, ProcId, Reply, ReplyStatus,
    Return, TaskId, Value,
};

use super::flag::Flag;
use super::{Effect, Nanos, Process};

/// Serialized arguments of a call.
#[derive(Debug)]
pub struct Arguments {
    pub value: Value,
    /// The object that holds them when they lie in shared memory: made by [`Process::put`], held once.
    pub object: Option<ObjectId>,
    /// References passed as arguments themselves, in the order of their placeholders.
    pub deps: Vec<ObjectId>,
    /// References inside arguments.
    pub refs: Vec<ObjectId>,
}

/// A task to submit.
#[derive(Debug)]
pub struct TaskSpec {
    pub function: FunctionId,
    pub arguments: Arguments,
    pub num_returns: u32,
    /// From [`Process::shape`].
    pub shape: u32,
    /// It goes to the placement group of the call that submits it, if that is wished.
    pub inherits: bool,
    /// How often it may run again after its worker crashed (and, where asked for, after it raised);
    /// negative: without end.
    pub max_retries: i32,
    pub options: Bytes,
}

/// A submitted call, of a function or a method, until its reply.
#[derive(Debug)]
pub(super) struct Submitted {
    pub(super) call: Arc<Call>,
    pub(super) route: Route,
    pub(super) retries_left: i32,
    /// Arguments without a value yet.
    pub(super) missing: u32,
    /// The call has the values that its arguments had after so many losses, and one; 0: it has none yet.
    pub(super) filled: u32,
    /// Some of its results may be there: of an earlier run.
    pub(super) again: bool,
    /// What the caller holds besides the arguments until the reply: the handle of the actor it calls.
    pub(super) handle: Option<ObjectId>,
}

impl Submitted {
    /// A call that had ended, and is to run again.
    pub(super) const fn again(
        call: Arc<Call>,
        route: Route,
        retries_left: i32,
        handle: Option<ObjectId>,
    ) -> Self {
        Self { call, route, retries_left, missing: 0, filled: 0, again: true, handle }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Shape(u32),
    Actor(raymesh_wire::ActorId),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) submitted: HashMap<u64, Submitted>,
}

impl Tasks {
    pub(super) fn census(&self) -> [(&'static str, usize); 1] {
        [("calls submitted", self.submitted.len())]
    }
}

impl Process {
    /// Submits a task. Its results are held once each by the caller.
    pub fn submit_task(
        &mut self,
        now: Nanos,
        spec: TaskSpec,
        fx: &mut Vec<Effect>,
    ) -> (TaskId, Vec<Arc<Flag>>) {
        self.now = now;
        let shape = if spec.inherits { self.inherited_shape(spec.shape) } else { spec.shape };
        let target = CallTarget::Function { lease: LeaseId(0), function: spec.function };
        let (task, flags) = self.submit(
            target,
            Route::Shape(shape),
            spec.arguments,
            spec.num_returns,
            spec.max_retries,
            spec.options,
            fx,
        );
        if self.tasks.submitted.get(&task.seq).is_some_and(|record| record.missing == 0) {
            let shape = self.enqueue(task.seq, shape);
            self.dispatch(now, shape, fx);
        }
        self.settle(fx);
        (task, flags)
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn submit(
        &mut self,
        target: CallTarget,
        route: Route,
        arguments: Arguments,
        num_returns: u32,
        retries: i32,
        options: Bytes,
        fx: &mut Vec<Effect>,
    ) -> (TaskId, Vec<Arc<Flag>>) {
        let task = self.next_task();
        let flags = (1..=num_returns).map(|index| self.expect(task.object(index))).collect();
        for object in arguments.deps.iter().chain(&arguments.refs) {
            self.hold(*object);
        }
        let mut missing = 0;
        let mut failed = None;
        for object in &arguments.deps {
            if self.depend(*object, task.seq, fx) {
                missing += 1;
            } else if let (None, Some(Value::Error(error))) = (&failed, self.objects.value(*object)) {
                failed = Some(Value::Error(error.of_argument()));
            }
        }
        if let CallTarget::Function { function, .. } = target {
            self.definitions.hold(function);
        }
        let call = Call {
            task,
            attempt: 0,
            target,
            num_returns,
            args: arguments.value,
            args_object: arguments.object,
            deps: arguments.deps.into_iter().map(|object| (object, Value::Inline(Bytes::new()))).collect(),
            refs: arguments.refs,
            dep_refs: Vec::new(),
            places: Vec::new(),
            options,
        };
        let handle = match route {
            Route::Actor(actor) => self.hold_handle(actor),
            Route::Shape(_) => None,
        };
        let (call, filled, again) = (Arc::new(call), 0, false);
        let record = Submitted { call, route, retries_left: retries, missing, filled, again, handle };
        self.tasks.submitted.insert(task.seq, record);
        if let Some(error) = failed {
            self.fail_call(task.seq, error, fx);
        }
        (task, flags)
    }

    /// Goes on with calls whose arguments have got their values. One that fails may fail others: a loop,
    /// because chains of calls are of any length.
    pub(super) fn wake(&mut self, fx: &mut Vec<Effect>) {
        while let Some((seq, object)) = self.woken.pop_front() {
            self.dependency_ready(seq, object, fx);
        }
    }

    /// An argument of call `seq` has a value now. A failed argument fails the call at once.
    fn dependency_ready(&mut self, seq: u64, object: ObjectId, fx: &mut Vec<Effect>) {
        let Some(record) = self.tasks.submitted.get_mut(&seq) else {
            self.creation_ready(seq, object, fx);
            return;
        };
        record.missing = record.missing.saturating_sub(1);
        let (missing, route) = (record.missing, record.route);
        if let Some(Value::Error(error)) = self.objects.value(object) {
            let error = Value::Error(error.of_argument());
            self.fail_call(seq, error, fx);
            if let Route::Actor(actor) = route {
                self.flush_actor(actor, fx);
            }
            return;
        }
        if missing > 0 {
            return;
        }
        match route {
            Route::Shape(shape) => {
                let shape = self.enqueue(seq, shape);
                self.dispatch(0, shape, fx);
            }
            Route::Actor(actor) => self.flush_actor(actor, fx),
        }
    }

    /// Puts the arguments' values into the call before it is sent, and lets `adjust` the rest.
    pub(super) fn fill(&mut self, seq: u64, adjust: impl FnOnce(&mut Call)) {
        let Some(record) = self.tasks.submitted.get_mut(&seq) else { return };
        let call = Arc::make_mut(&mut record.call);
        adjust(call);
        let now = self.lineage.losses + 1;
        let before = std::mem::replace(&mut record.filled, now);
        if before == now {
            return;
        }
        let mut stale = Vec::new();
        if before != 0 && !call.deps.is_empty() {
            // Something was lost since then, and may have been an argument.
            let inside: usize = call.dep_refs.iter().map(|count| *count as usize).sum();
            stale = call.refs.split_off(call.refs.len().saturating_sub(inside));
            call.dep_refs.clear();
        }
        let mut inner = Vec::new();
        for (object, value) in &mut call.deps {
            if let Some(known) = self.objects.value(*object) {
                *value = known.clone();
            }
            let inside = self.objects.refs(*object);
            inner.extend_from_slice(inside);
            call.dep_refs.push(inside.len() as u32);
        }
        // What an argument's value refers to travels with it, and is held like the call's own.
        call.refs.extend_from_slice(&inner);
        call.places = self.objects.places(&call.refs);
        for object in inner {
            self.hold(object);
        }
        for object in stale {
            self.unhold(object);
        }
    }

    pub(super) fn accept_reply(&mut self, now: Nanos, from: ProcId, reply: Reply, fx: &mut Vec<Effect>) {
        let seq = reply.task.seq;
        let known = self.tasks.submitted.get(&seq).filter(|record| record.call.attempt == reply.attempt);
        let route = known.map(|record| record.route);
        self.lend(&reply.holds, from, fx);
        let Some(route) = route else {
            self.discard(reply.returns, from, fx);
            return;
        };
        let retry = reply.status == ReplyStatus::RaisedRetryable && self.take_retry(seq);
        if retry {
            self.discard(reply.returns, from, fx);
        } else {
            self.complete(seq, reply.returns, from, fx);
            self.learn_places(&reply.places, fx);
            self.wake(fx);
        }
        match route {
            Route::Shape(key) => self.lease_replied(now, key, seq, reply.exec_us, retry, fx),
            Route::Actor(actor) => self.actor_replied(actor, seq, retry, fx),
        }
    }

    /// Uses up one retry of `seq`, if it has one.
    pub(super) fn take_retry(&mut self, seq: u64) -> bool {
        let Some(record) = self.tasks.submitted.get_mut(&seq) else { return false };
        if record.retries_left == 0 {
            return false;
        }
        if record.retries_left > 0 {
            record.retries_left -= 1;
        }
        Arc::make_mut(&mut record.call).attempt += 1;
        true
    }

    /// The call's results are there: hands them out and lets go of the arguments.
    fn complete(&mut self, seq: u64, returns: Vec<Return>, from: ProcId, fx: &mut Vec<Effect>) {
        let Some(record) = self.tasks.submitted.remove(&seq) else { return };
        let (mut index, mut at_risk) = (0, false);
        for item in returns {
            index += 1;
            let object = record.call.task.object(index);
            if record.again && self.objects.value(object).is_some() {
                // This one was not lost.
                self.discard(vec![item], from, fx);
                continue;
            }
            let risk = self.is_at_risk(&item.value).then(|| item.value.clone());
            self.resolve(object, item.value, item.refs, from, fx);
            if let Some(value) = risk {
                at_risk = true;
                self.note_at_risk(object, &value, Self::origin_of(&record), fx);
            }
        }
        for missing in index + 1..=record.call.num_returns {
            let text = format!("the worker sent {index} results, {} were declared", record.call.num_returns);
            let error = Value::Error(ErrorValue::text(ErrorKind::System, text));
            self.set_value(record.call.task.object(missing), error, Vec::new(), fx);
        }
        if let Some(handle) = record.handle {
            self.unhold(handle);
        }
        let may_be_kept = (at_risk || record.again) && record.retries_left != 0;
        let record = if may_be_kept {
            match self.keep_call(record, fx) {
                Ok(()) => return,
                Err(record) => record,
            }
        } else {
            record
        };
        self.let_go(&record.call);
        if let CallTarget::Function { function, .. } = record.call.target {
            self.undefine(function, fx);
        }
    }

    /// The worker that had this call is dead: it may have passed on what the call refers to.
    pub(super) fn keep_arguments_for(&mut self, worker: ProcId, seq: u64) {
        let Some(record) = self.tasks.submitted.get(&seq) else { return };
        let call = &record.call;
        let deps = call.deps.iter().map(|(object, _)| *object);
        let others = call.refs.iter().chain(&call.args_object).chain(&record.handle).copied();
        let objects: Vec<_> = deps.chain(others).collect();
        self.keep_for(worker, objects);
    }

    fn let_go(&mut self, call: &Call) {
        self.let_go_of_references(call);
        if let Some(object) = call.args_object {
            self.unhold(object);
        }
    }

    pub(super) fn let_go_of_references(&mut self, call: &Call) {
        for object in call.deps.iter().map(|(object, _)| object).chain(&call.refs) {
            self.unhold(*object);
        }
    }

    /// Ends a call with an error for each of its results.
    pub(super) fn fail_call(&mut self, seq: u64, error: Value, fx: &mut Vec<Effect>) {
        if self.tasks.submitted.get(&seq).is_some_and(|record| record.again && record.filled == 0) {
            // It may be kept to run once more, and then has to know what its arguments refer to.
            self.fill(seq, |_| {});
        }
        let Some(record) = self.tasks.submitted.get(&seq) else { return };
        let item = Return { value: error, refs: Vec::new() };
        let returns = vec![item; record.call.num_returns as usize];
        self.complete(seq, returns, self.me, fx);
    }

    /// Results that nobody awaits: of an attempt that was given up. Their references were registered for
    /// us and are given back.
    fn discard(&mut self, returns: Vec<Return>, from: ProcId, fx: &mut Vec<Effect>) {
        for item in returns {
            self.give_back_unread(item.refs, from);
            if let Value::Stored(block) = item.value {
                self.free(block, fx);
            }
        }
    }
}
