//! Tasks that this process has submitted: they wait for arguments, then in the queue of their
//! resource shape for a leased worker, then for the reply.
//!
//! Workers are leased from the controller per shape and kept while there is work, so that a task costs
//! no decision of its own. Short tasks are pipelined onto a worker; what has not started there can be
//! taken back when another worker has nothing to do.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;
use raymesh_wire::{
    Call, CallTarget, ErrorKind, ErrorValue, FunctionId, JobId, LeaseId, Message, ObjectId, ProcId, Reply,
    ReplyStatus, ResourceSet, Return, TaskId, ToController, Value,
};

use super::objects::Flag;
use super::{Effect, Nanos, Process};

/// An idle lease is kept so long for the next task of its shape.
const LEASE_LINGER: Nanos = 20_000_000;
/// A worker gets at most so much work ahead, by the measured length of the shape's tasks.
const PIPELINE_US: u32 = 2_000;
const PIPELINE_MAX: u32 = 64;

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
    /// What the caller holds besides the arguments until the reply: the handle of the actor it calls.
    pub(super) handle: Option<ObjectId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Shape(u32),
    Actor(raymesh_wire::ActorId),
}

#[derive(Debug)]
struct Shape {
    resources: ResourceSet,
    job: JobId,
    queue: VecDeque<u64>,
    leases: Vec<LeaseId>,
    /// Workers that the controller knows we still want.
    demanded: u32,
    /// Running estimate of a task's length; grows at once, shrinks slowly.
    exec_us: Option<u32>,
    unplaceable: Option<String>,
}

#[derive(Debug)]
struct Lease {
    shape: u32,
    worker: ProcId,
    /// Calls sent, in order.
    inflight: VecDeque<u64>,
    idle_since: Nanos,
    /// The controller wants it back.
    reclaimed: bool,
    recalling: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) submitted: HashMap<u64, Submitted>,
    shapes: Vec<Shape>,
    by_resources: HashMap<(JobId, ResourceSet), u32>,
    leases: HashMap<LeaseId, Lease>,
    /// Leases without work, oldest first (entries may be stale).
    idle: VecDeque<(Nanos, LeaseId)>,
}

impl Tasks {
    /// Where a call on its way to a worker of shape `key` stands.
    pub(super) fn standing(&self, key: u32, seq: u64) -> String {
        let Some(shape) = self.shapes.get(key as usize) else { return String::new() };
        if let Some(reason) = &shape.unplaceable {
            return reason.clone();
        }
        let running = shape.leases.iter().filter_map(|id| self.leases.get(id));
        match running.into_iter().find_map(|lease| lease.inflight.iter().position(|at| *at == seq)) {
            Some(0) => "It is running.".to_owned(),
            Some(before) => format!("It is behind {before} others on its worker."),
            None => "It waits for a worker.".to_owned(),
        }
    }

    pub(super) fn set_unplaceable(&mut self, key: u32, reason: String) {
        if let Some(shape) = self.shapes.get_mut(key as usize) {
            shape.unplaceable = Some(reason);
        }
    }

    pub(super) fn leases_on(&self, worker: ProcId) -> Vec<LeaseId> {
        let on = self.leases.iter().filter(|(_, lease)| lease.worker == worker);
        let mut ids: Vec<_> = on.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Forgets a lease; answers its shape and the calls sent on it, in order.
    pub(super) fn end_lease(&mut self, id: LeaseId) -> Option<(u32, VecDeque<u64>)> {
        let lease = self.leases.remove(&id)?;
        if let Some(shape) = self.shapes.get_mut(lease.shape as usize) {
            shape.leases.retain(|other| *other != id);
        }
        Some((lease.shape, lease.inflight))
    }

    /// The call is the next of its shape to be sent.
    pub(super) fn requeue(&mut self, shape: u32, seq: u64) {
        if let Some(shape) = self.shapes.get_mut(shape as usize) {
            shape.queue.push_front(seq);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.idle.front().map(|(since, _)| since + LEASE_LINGER)
    }
}

impl Process {
    /// The key of a resource shape: tasks of one shape share workers.
    pub fn shape(&mut self, job: JobId, resources: &ResourceSet) -> u32 {
        if let Some(key) = self.tasks.by_resources.get(&(job, resources.clone())) {
            return *key;
        }
        let key = self.tasks.shapes.len() as u32;
        self.tasks.by_resources.insert((job, resources.clone()), key);
        self.tasks.shapes.push(Shape {
            resources: resources.clone(),
            job,
            queue: VecDeque::new(),
            leases: Vec::new(),
            demanded: 0,
            exec_us: None,
            unplaceable: None,
        });
        key
    }

    /// Submits a task. Its results are held once each by the caller.
    pub fn submit_task(
        &mut self,
        now: Nanos,
        spec: TaskSpec,
        fx: &mut Vec<Effect>,
    ) -> (TaskId, Vec<Arc<Flag>>) {
        let target = CallTarget::Function { lease: LeaseId(0), function: spec.function };
        let (task, flags) = self.submit(
            target,
            Route::Shape(spec.shape),
            spec.arguments,
            spec.num_returns,
            spec.max_retries,
            spec.options,
            fx,
        );
        if self.tasks.submitted.get(&task.seq).is_some_and(|record| record.missing == 0) {
            self.enqueue(task.seq, spec.shape);
            self.dispatch(now, spec.shape, fx);
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
            } else if failed.is_none() {
                failed = self.objects.value(*object).filter(|value| value.is_error()).cloned();
            }
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
            options,
        };
        let handle = match route {
            Route::Actor(actor) => self.hold_handle(actor),
            Route::Shape(_) => None,
        };
        let record = Submitted { call: Arc::new(call), route, retries_left: retries, missing, handle };
        self.tasks.submitted.insert(task.seq, record);
        if let Some(error) = failed {
            self.fail_call(task.seq, error, fx);
        }
        (task, flags)
    }

    /// An argument of call `seq` has a value now. A failed argument fails the call at once.
    pub(super) fn dependency_ready(&mut self, seq: u64, object: ObjectId, fx: &mut Vec<Effect>) {
        let Some(record) = self.tasks.submitted.get_mut(&seq) else {
            self.creation_ready(seq, object, fx);
            return;
        };
        record.missing = record.missing.saturating_sub(1);
        let (missing, route) = (record.missing, record.route);
        if let Some(value) = self.objects.value(object)
            && value.is_error()
        {
            let error = value.clone();
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
                self.enqueue(seq, shape);
                self.dispatch(0, shape, fx);
            }
            Route::Actor(actor) => self.flush_actor(actor, fx),
        }
    }

    fn enqueue(&mut self, seq: u64, shape: u32) {
        self.tasks.shapes[shape as usize].queue.push_back(seq);
    }

    /// Sends queued calls of `shape` to its workers and tells the controller how many more it wants.
    pub(super) fn dispatch(&mut self, now: Nanos, key: u32, fx: &mut Vec<Effect>) {
        let depth = self.pipeline_depth(key);
        loop {
            let tasks = &mut self.tasks;
            let shape = &mut tasks.shapes[key as usize];
            if shape.queue.is_empty() {
                break;
            }
            let room = shape
                .leases
                .iter()
                .filter_map(|id| tasks.leases.get(id).map(|lease| (*id, lease)))
                .filter(|(_, lease)| !lease.reclaimed && lease.inflight.len() < depth)
                .min_by_key(|(_, lease)| lease.inflight.len());
            let Some((id, _)) = room else { break };
            let Some(seq) = shape.queue.pop_front() else { break };
            self.push(seq, id, fx);
        }
        self.update_demand(key, fx);
        self.steal(now, key, fx);
    }

    fn pipeline_depth(&self, key: u32) -> usize {
        match self.tasks.shapes[key as usize].exec_us {
            None => 1,
            Some(us) => (PIPELINE_US / us.max(1)).clamp(1, PIPELINE_MAX) as usize,
        }
    }

    fn push(&mut self, seq: u64, id: LeaseId, fx: &mut Vec<Effect>) {
        let Some(lease) = self.tasks.leases.get_mut(&id) else { return };
        lease.inflight.push_back(seq);
        let worker = lease.worker;
        self.fill(seq, |call| {
            if let CallTarget::Function { lease, .. } = &mut call.target {
                *lease = id;
            }
        });
        if let Some(record) = self.tasks.submitted.get(&seq) {
            fx.push(Effect::SendCall { to: worker, call: Arc::clone(&record.call) });
        }
    }

    /// Puts the arguments' values into the call before it is sent, and lets `adjust` the rest.
    pub(super) fn fill(&mut self, seq: u64, adjust: impl FnOnce(&mut Call)) {
        let Some(record) = self.tasks.submitted.get_mut(&seq) else { return };
        let call = Arc::make_mut(&mut record.call);
        adjust(call);
        if call.deps.is_empty() || call.attempt > 0 {
            return;
        }
        let mut inner = Vec::new();
        for (object, value) in &mut call.deps {
            if let Some(known) = self.objects.value(*object) {
                *value = known.clone();
            }
            inner.extend_from_slice(self.objects.refs(*object));
        }
        // What an argument's value refers to travels with it, and is held like the call's own.
        call.refs.extend_from_slice(&inner);
        for object in inner {
            self.hold(object);
        }
    }

    fn update_demand(&mut self, key: u32, fx: &mut Vec<Effect>) {
        let shape = &mut self.tasks.shapes[key as usize];
        let backlog = shape.queue.len() as u32;
        // Grants lower `demanded`; while enough are on their way there is nothing to say. A rising
        // backlog is told when it has doubled: one message for a thousand tasks.
        let due = if backlog == 0 { shape.demanded > 0 } else { shape.demanded < backlog.div_ceil(2) };
        if !due {
            return;
        }
        shape.demanded = backlog;
        if backlog == 0 {
            shape.unplaceable = None;
        }
        let message =
            ToController::Demand { key, job: shape.job, resources: shape.resources.clone(), backlog };
        self.tell_controller(message, fx);
    }

    /// Takes calls back from the fullest worker when another one has nothing to do.
    fn steal(&mut self, _now: Nanos, key: u32, fx: &mut Vec<Effect>) {
        let tasks = &mut self.tasks;
        let shape = &tasks.shapes[key as usize];
        if !shape.queue.is_empty() || shape.leases.len() < 2 {
            return;
        }
        let leases = || shape.leases.iter().filter_map(|id| tasks.leases.get(id).map(|l| (*id, l)));
        if !leases().any(|(_, lease)| lease.inflight.is_empty() && !lease.reclaimed)
            || leases().any(|(_, lease)| lease.recalling)
        {
            return;
        }
        let Some((id, fullest)) = leases().max_by_key(|(_, lease)| lease.inflight.len()) else { return };
        if fullest.inflight.len() < 2 {
            return;
        }
        let max = (fullest.inflight.len() / 2) as u32;
        let worker = fullest.worker;
        if let Some(lease) = tasks.leases.get_mut(&id) {
            lease.recalling = true;
        }
        fx.push(Effect::Send { to: worker, message: Message::Recall { lease: id, max } });
    }

    pub(super) fn accept_recalled(
        &mut self,
        now: Nanos,
        id: LeaseId,
        back: Vec<TaskId>,
        fx: &mut Vec<Effect>,
    ) {
        let Some(lease) = self.tasks.leases.get_mut(&id) else { return };
        lease.recalling = false;
        lease.inflight.retain(|seq| !back.iter().any(|task| task.seq == *seq));
        let key = lease.shape;
        for task in back.iter().rev() {
            if self.tasks.submitted.contains_key(&task.seq) {
                self.tasks.shapes[key as usize].queue.push_front(task.seq);
            }
        }
        // Not to the worker that could not run them: a blocked one is full until it replies.
        self.dispatch_elsewhere(now, key, id, fx);
    }

    fn dispatch_elsewhere(&mut self, now: Nanos, key: u32, not: LeaseId, fx: &mut Vec<Effect>) {
        let was = match self.tasks.leases.get_mut(&not) {
            Some(lease) if !lease.inflight.is_empty() => std::mem::replace(&mut lease.reclaimed, true),
            _ => {
                self.dispatch(now, key, fx);
                return;
            }
        };
        self.dispatch(now, key, fx);
        if let Some(lease) = self.tasks.leases.get_mut(&not) {
            lease.reclaimed = was;
        }
    }

    pub(super) fn accept_lease(
        &mut self,
        now: Nanos,
        key: u32,
        id: LeaseId,
        worker: ProcId,
        fx: &mut Vec<Effect>,
    ) {
        let Some(shape) = self.tasks.shapes.get_mut(key as usize) else { return };
        shape.demanded = shape.demanded.saturating_sub(1);
        shape.unplaceable = None;
        shape.leases.push(id);
        let lease = Lease {
            shape: key,
            worker,
            inflight: VecDeque::new(),
            idle_since: now,
            reclaimed: false,
            recalling: false,
        };
        self.tasks.leases.insert(id, lease);
        self.watch(worker, fx);
        self.dispatch(now, key, fx);
        self.rest_if_idle(now, id, fx);
    }

    /// A lease without work lingers for the next task, unless the controller wants it back.
    fn rest_if_idle(&mut self, now: Nanos, id: LeaseId, fx: &mut Vec<Effect>) {
        let Some(lease) = self.tasks.leases.get_mut(&id) else { return };
        if !lease.inflight.is_empty() {
            return;
        }
        if lease.reclaimed {
            self.return_lease(id, fx);
            return;
        }
        lease.idle_since = now;
        self.tasks.idle.push_back((now, id));
    }

    fn return_lease(&mut self, id: LeaseId, fx: &mut Vec<Effect>) {
        let Some(lease) = self.tasks.leases.remove(&id) else { return };
        self.tasks.shapes[lease.shape as usize].leases.retain(|other| *other != id);
        self.tell_controller(ToController::ReturnLease { lease: id }, fx);
        self.update_demand(lease.shape, fx);
    }

    pub(super) fn return_idle_leases(&mut self, now: Nanos, fx: &mut Vec<Effect>) {
        while let Some((since, id)) = self.tasks.idle.front().copied() {
            if since + LEASE_LINGER > now {
                break;
            }
            self.tasks.idle.pop_front();
            let idle = |lease: &Lease| lease.inflight.is_empty() && lease.idle_since == since;
            if self.tasks.leases.get(&id).is_some_and(idle) {
                self.return_lease(id, fx);
            }
        }
    }

    pub(super) fn accept_reclaim(&mut self, fx: &mut Vec<Effect>) {
        let mut ids: Vec<_> = self.tasks.leases.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if let Some(lease) = self.tasks.leases.get_mut(&id) {
                lease.reclaimed = true;
                if lease.inflight.is_empty() {
                    self.return_lease(id, fx);
                }
            }
        }
    }

    pub(super) fn accept_reply(&mut self, now: Nanos, from: ProcId, reply: Reply, fx: &mut Vec<Effect>) {
        let seq = reply.task.seq;
        let known = self.tasks.submitted.get(&seq).filter(|record| record.call.attempt == reply.attempt);
        let Some(record) = known else {
            self.discard_returns(from, reply, fx);
            return;
        };
        let route = record.route;
        for object in &reply.holds {
            self.lend(std::slice::from_ref(object), from, fx);
        }
        let retry = reply.status == ReplyStatus::RaisedRetryable && self.take_retry(seq);
        if !retry {
            self.complete(seq, reply.returns, fx);
        }
        match route {
            Route::Shape(key) => self.lease_replied(now, key, seq, reply.exec_us, retry, fx),
            Route::Actor(actor) => self.actor_replied(actor, seq, retry, fx),
        }
    }

    fn lease_replied(
        &mut self,
        now: Nanos,
        key: u32,
        seq: u64,
        exec_us: u32,
        retry: bool,
        fx: &mut Vec<Effect>,
    ) {
        let shape = &mut self.tasks.shapes[key as usize];
        let known = shape.exec_us.unwrap_or(exec_us);
        shape.exec_us = Some(exec_us.max(known - known / 8));
        if retry {
            shape.queue.push_front(seq);
        }
        let shape = &self.tasks.shapes[key as usize];
        let leases = &mut self.tasks.leases;
        let done = shape.leases.iter().copied().find(|id| {
            let Some(lease) = leases.get_mut(id) else { return false };
            let at = lease.inflight.iter().position(|other| *other == seq);
            at.is_some_and(|at| lease.inflight.remove(at).is_some())
        });
        self.dispatch(now, key, fx);
        if let Some(id) = done {
            self.rest_if_idle(now, id, fx);
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
    fn complete(&mut self, seq: u64, returns: Vec<Return>, fx: &mut Vec<Effect>) {
        let Some(record) = self.tasks.submitted.remove(&seq) else { return };
        let mut index = 0;
        for item in returns {
            index += 1;
            self.resolve(record.call.task.object(index), item.value, item.refs, fx);
        }
        for missing in index + 1..=record.call.num_returns {
            let text = format!("the worker sent {index} results, {} were declared", record.call.num_returns);
            let error = Value::Error(ErrorValue::text(ErrorKind::System, text));
            self.resolve(record.call.task.object(missing), error, Vec::new(), fx);
        }
        self.let_go(&record.call);
        if let Some(handle) = record.handle {
            self.unhold(handle);
        }
    }

    fn let_go(&mut self, call: &Call) {
        for (object, _) in &call.deps {
            self.unhold(*object);
        }
        for object in call.refs.iter().chain(&call.args_object) {
            self.unhold(*object);
        }
    }

    /// Ends a call with an error for each of its results.
    pub(super) fn fail_call(&mut self, seq: u64, error: Value, fx: &mut Vec<Effect>) {
        let Some(record) = self.tasks.submitted.get(&seq) else { return };
        let item = Return { value: error, refs: Vec::new() };
        let returns = vec![item; record.call.num_returns as usize];
        self.complete(seq, returns, fx);
    }

    /// Results that nobody awaits: an attempt that was given up. Their references were registered for
    /// us and are given back.
    fn discard_returns(&mut self, from: ProcId, reply: Reply, fx: &mut Vec<Effect>) {
        for item in reply.returns {
            for inner in item.refs {
                if inner.owner != self.me {
                    self.releases.entry(inner.owner).or_default().push((inner, 1));
                }
            }
            if let Value::Stored(block) = item.value {
                self.free(block, fx);
            }
        }
        for object in reply.holds {
            self.lend(&[object], from, fx);
        }
    }
}
