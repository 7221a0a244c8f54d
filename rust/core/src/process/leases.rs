//! Workers leased from the controller, per resource shape, and what is sent to them.
//!
//! Workers are kept while there is work, so that a task costs no decision of its own. Short tasks are
//! pipelined onto a worker; what has not started there can be taken back when another worker has nothing
//! to do.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use raymesh_wire::{
    CallTarget, Environment, ErrorKind, ErrorValue, HostId, JobId, LeaseId, Message, ProcId, ResourceSet,
    TaskId, ToController, Value, Wish, placement::Strategy,
};

use super::{Effect, Nanos, Process};

/// An idle lease is kept so long for the next task of its shape.
const LEASE_LINGER: Nanos = 20_000_000;
/// A worker gets at most so much work ahead, by the measured length of the shape's tasks.
const PIPELINE_US: u32 = 2_000;
const PIPELINE_MAX: u32 = 64;
/// To another host, more is on its way.
const PIPELINE_MAX_FAR: u32 = 1024;
/// What takes longer than this is not the way.
const LONGEST_WAY: Nanos = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Shape {
    /// Rather there, and the shape of such tasks without that ([`super::nearness`]).
    pub(super) near: Option<HostId>,
    pub(super) base: u32,
    resources: ResourceSet,
    job: JobId,
    env: Environment,
    pub(super) wish: Wish,
    /// Nothing of it will ever run: its placement group was removed.
    doomed: Option<ErrorValue>,
    queue: VecDeque<u64>,
    leases: Vec<LeaseId>,
    /// Workers that the controller knows we still want.
    demanded: u32,
    /// Running estimate of a task's length; grows at once, shrinks slowly.
    exec_us: Option<u32>,
    unplaceable: Option<String>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) shape: u32,
    pub(super) worker: ProcId,
    /// Calls sent, in order.
    pub(super) inflight: VecDeque<u64>,
    idle_since: Nanos,
    /// The controller wants it back.
    reclaimed: bool,
    pub(super) recalling: bool,
    /// Its worker waits for something, or its call takes long: it gets no more until it replies.
    pub(super) engaged: bool,
    /// The first of the calls sent when that was looked at last, and since when it was.
    pub(super) seen: Option<u64>,
    pub(super) seen_since: Nanos,
    /// The call that was sent last while none was on its way, and when.
    alone: Option<(u64, Nanos)>,
    /// Of a worker on another host: how long a call and its reply are on their way, as far as is known.
    pub(super) way: Nanos,
}

impl Lease {
    /// The shortest of all counts: to the others, something else adds (the first call has its function fetched).
    fn measure_way(&mut self, took: Nanos) {
        let took = took.min(LONGEST_WAY);
        self.way = if self.way == 0 { took } else { self.way.min(took) };
    }
}

/// How many calls of that length a worker gets at a time that is so far away.
pub(super) fn pipeline_depth(exec_us: Option<u32>, way: Nanos) -> usize {
    let ahead = u64::from(PIPELINE_US) + way / 1000;
    let most = if way == 0 { PIPELINE_MAX } else { PIPELINE_MAX_FAR };
    exec_us.map_or(1, |us| (ahead / u64::from(us.max(1))).clamp(1, u64::from(most)) as usize)
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Leases {
    pub(super) shapes: Vec<Shape>,
    pub(super) by_place: HashMap<(u32, HostId), u32>,
    by_demand: HashMap<(JobId, Environment, ResourceSet, Wish), u32>,
    pub(super) all: HashMap<LeaseId, Lease>,
    /// Leases without work, oldest first (entries may be stale).
    idle: VecDeque<(Nanos, LeaseId)>,
    /// Tasks of ours have run on this host.
    pub(super) here: bool,
    /// When to look after calls that are behind others.
    pub(super) look_at: Option<Nanos>,
}

impl Shape {
    /// The same, for tasks that would rather be on `host`.
    pub(super) fn near(&self, host: HostId) -> Self {
        Self {
            near: Some(host),
            base: self.base,
            resources: self.resources.clone(),
            job: self.job,
            env: self.env.clone(),
            wish: self.wish.clone(),
            doomed: self.doomed.clone(),
            queue: VecDeque::new(),
            leases: Vec::new(),
            demanded: 0,
            exec_us: self.exec_us,
            unplaceable: None,
        }
    }
}

impl Leases {
    /// Where a call on its way to a worker of shape `key` stands.
    pub(super) fn standing(&self, key: u32, seq: u64) -> String {
        let Some(shape) = self.shapes.get(key as usize) else { return String::new() };
        if let Some(reason) = &shape.unplaceable {
            return reason.clone();
        }
        let running = shape.leases.iter().filter_map(|id| self.all.get(id));
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

    /// Tasks of this shape take too long to be sent ahead to a worker so far away, whatever was known of them.
    pub(super) fn take_long(&mut self, key: u32, way: Nanos) {
        if let Some(shape) = self.shapes.get_mut(key as usize) {
            shape.exec_us = Some(shape.exec_us.unwrap_or(0).max(PIPELINE_US + (way / 1000) as u32));
        }
    }

    pub(super) fn leases_on(&self, worker: ProcId) -> Vec<LeaseId> {
        let on = self.all.iter().filter(|(_, lease)| lease.worker == worker);
        let mut ids: Vec<_> = on.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Forgets a lease; answers its shape and the calls sent on it, in order.
    pub(super) fn end_lease(&mut self, id: LeaseId) -> Option<(u32, VecDeque<u64>)> {
        let lease = self.all.remove(&id)?;
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

    pub(super) fn census(&self) -> [(&'static str, usize); 4] {
        let sum = |count: fn(&Shape) -> usize| self.shapes.iter().map(count).sum();
        [
            ("calls that wait for a worker", sum(|shape| shape.queue.len())),
            ("workers asked for", sum(|shape| shape.demanded as usize)),
            ("leases", self.all.len() + sum(|shape| shape.leases.len())),
            ("leases to return", self.idle.len()),
        ]
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.idle.front().map(|(since, _)| since + LEASE_LINGER).into_iter().chain(self.look_at).min()
    }
}

impl Process {
    /// The key of a shape, which is resources, an environment, and where to run: tasks of one shape share
    /// workers.
    pub fn shape(&mut self, job: JobId, env: &Environment, resources: &ResourceSet, wish: &Wish) -> u32 {
        let demand = (job, env.clone(), resources.clone(), wish.clone());
        if let Some(key) = self.leases.by_demand.get(&demand) {
            return *key;
        }
        let key = self.leases.shapes.len() as u32;
        self.leases.by_demand.insert(demand, key);
        self.leases.shapes.push(Shape {
            near: None,
            base: key,
            resources: resources.clone(),
            job,
            env: env.clone(),
            wish: wish.clone(),
            doomed: None,
            queue: VecDeque::new(),
            leases: Vec::new(),
            demanded: 0,
            exec_us: None,
            unplaceable: None,
        });
        key
    }

    /// The shape of a task of `key` that goes where the call goes that submits it.
    pub(super) fn inherited_shape(&mut self, key: u32) -> u32 {
        let Some(group) = self.executor.captured() else { return key };
        let Some(shape) = self.leases.shapes.get(key as usize) else { return key };
        let (job, env, resources) = (shape.job, shape.env.clone(), shape.resources.clone());
        let wish = Wish { strategy: Strategy::Group(group), selectors: shape.wish.selectors.clone() };
        self.shape(job, &env, &resources, &wish)
    }

    /// Queues a call whose arguments all have values. Answers its shape: that of `shape` which is for where they
    /// lie.
    pub(super) fn enqueue(&mut self, seq: u64, shape: u32) -> u32 {
        let shape = self.shape_near(seq, shape);
        self.leases.shapes[shape as usize].queue.push_back(seq);
        shape
    }

    /// Nothing of the shape can be placed: what waits fails.
    pub(super) fn accept_unschedulable(&mut self, key: u32, error: ErrorValue, fx: &mut Vec<Effect>) {
        let Some(shape) = self.leases.shapes.get_mut(key as usize) else { return };
        shape.demanded = 0;
        if error.kind == ErrorKind::GroupRemoved {
            shape.doomed = Some(error.clone());
        }
        self.fail_queue(key, &error, fx);
    }

    fn fail_queue(&mut self, key: u32, error: &ErrorValue, fx: &mut Vec<Effect>) {
        while let Some(seq) = self.leases.shapes[key as usize].queue.pop_front() {
            self.fail_call(seq, Value::Error(error.clone()), fx);
        }
    }

    /// Why nothing of the shape will ever run.
    fn doom(&self, key: u32) -> Option<ErrorValue> {
        self.leases.shapes.get(key as usize)?.doomed.clone()
    }

    /// Sends queued calls of `shape` to its workers and tells the controller how many more it wants.
    pub(super) fn dispatch(&mut self, now: Nanos, key: u32, fx: &mut Vec<Effect>) {
        if let Some(error) = self.doom(key) {
            self.fail_queue(key, &error, fx);
        }
        let exec_us = self.leases.shapes[key as usize].exec_us;
        loop {
            let leases = &mut self.leases;
            let shape = &mut leases.shapes[key as usize];
            if shape.queue.is_empty() {
                break;
            }
            let room = shape
                .leases
                .iter()
                .filter_map(|id| leases.all.get(id).map(|lease| (*id, lease)))
                .filter(|(_, lease)| !lease.reclaimed && !lease.engaged)
                .filter(|(_, lease)| lease.inflight.len() < pipeline_depth(exec_us, lease.way))
                .min_by_key(|(_, lease)| lease.inflight.len());
            let Some((id, _)) = room else { break };
            let Some(seq) = shape.queue.pop_front() else { break };
            if self.tasks.submitted.contains_key(&seq) && !self.waits_again(seq, fx) {
                self.push(seq, id, fx);
            }
        }
        self.update_demand(key, fx);
        self.steal(now, key, fx);
    }

    fn push(&mut self, seq: u64, id: LeaseId, fx: &mut Vec<Effect>) {
        let Some(lease) = self.leases.all.get_mut(&id) else { return };
        if lease.inflight.is_empty() {
            lease.alone = Some((seq, self.now));
        }
        lease.inflight.push_back(seq);
        // Each task that is to be spread is to be placed.
        lease.reclaimed |= self.leases.shapes[lease.shape as usize].wish.strategy == Strategy::Spread;
        if lease.inflight.len() > 1 && self.leases.look_at.is_none() {
            self.look_later();
        }
        let Some(lease) = self.leases.all.get(&id) else { return };
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

    fn update_demand(&mut self, key: u32, fx: &mut Vec<Effect>) {
        let shape = &mut self.leases.shapes[key as usize];
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
        let (resources, env, wish) = (shape.resources.clone(), shape.env.clone(), shape.wish.clone());
        let (job, near) = (shape.job, shape.near);
        let message = ToController::Demand { key, job, resources, backlog, env, wish, near };
        self.tell_controller(message, fx);
    }

    /// Takes calls back from the fullest worker when another one has nothing to do.
    fn steal(&mut self, _now: Nanos, key: u32, fx: &mut Vec<Effect>) {
        let pool = &mut self.leases;
        let shape = &pool.shapes[key as usize];
        if !shape.queue.is_empty() || shape.leases.len() < 2 {
            return;
        }
        let leases = || shape.leases.iter().filter_map(|id| pool.all.get(id).map(|l| (*id, l)));
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
        if let Some(lease) = pool.all.get_mut(&id) {
            lease.recalling = true;
        }
        fx.push(Effect::Send { to: worker, message: Message::Recall { lease: id, max } });
    }

    pub(super) fn accept_recalled(
        &mut self,
        now: Nanos,
        from: ProcId,
        (id, back): (LeaseId, Vec<TaskId>),
        fx: &mut Vec<Effect>,
    ) {
        let Some(lease) = self.leases.all.get_mut(&id) else {
            self.accept_returned(from, &back);
            return;
        };
        let asked = std::mem::take(&mut lease.recalling);
        let back: HashSet<u64> = back.iter().map(|task| task.seq).collect();
        let (back, rest): (VecDeque<u64>, _) = lease.inflight.iter().partition(|seq| back.contains(seq));
        lease.inflight = rest;
        // A worker that gives calls back unasked waits for something.
        lease.engaged |= !asked && !lease.inflight.is_empty();
        let key = lease.shape;
        for seq in back.into_iter().rev() {
            self.leases.requeue(key, seq);
        }
        self.dispatch(now, key, fx);
        self.rest_if_idle(now, id, fx);
    }

    pub(super) fn accept_lease(
        &mut self,
        now: Nanos,
        key: u32,
        id: LeaseId,
        worker: ProcId,
        fx: &mut Vec<Effect>,
    ) {
        let Some(shape) = self.leases.shapes.get_mut(key as usize) else { return };
        shape.demanded = shape.demanded.saturating_sub(1);
        shape.unplaceable = None;
        if self.dead.contains(worker) {
            // Nobody would tell of its death a second time.
            self.tell_controller(ToController::ReturnLease { lease: id }, fx);
            self.update_demand(key, fx);
            return;
        }
        shape.leases.push(id);
        self.lineage.note_worker_on(worker.host(), self.me.host());
        self.leases.here |= worker.host() == self.me.host();
        let lease = Lease {
            shape: key,
            worker,
            inflight: VecDeque::new(),
            idle_since: now,
            reclaimed: false,
            recalling: false,
            engaged: false,
            seen: None,
            seen_since: 0,
            alone: None,
            way: 0,
        };
        self.leases.all.insert(id, lease);
        self.watch(worker, fx);
        self.dispatch(now, key, fx);
        self.rest_if_idle(now, id, fx);
    }

    /// A lease without work lingers for the next task, unless the controller wants it back.
    fn rest_if_idle(&mut self, now: Nanos, id: LeaseId, fx: &mut Vec<Effect>) {
        let Some(lease) = self.leases.all.get_mut(&id) else { return };
        if !lease.inflight.is_empty() {
            return;
        }
        if lease.reclaimed {
            self.return_lease(id, fx);
            return;
        }
        lease.engaged = false;
        lease.idle_since = now;
        self.leases.idle.push_back((now, id));
    }

    fn return_lease(&mut self, id: LeaseId, fx: &mut Vec<Effect>) {
        let Some(lease) = self.leases.all.remove(&id) else { return };
        self.leases.shapes[lease.shape as usize].leases.retain(|other| *other != id);
        self.tell_controller(ToController::ReturnLease { lease: id }, fx);
        self.update_demand(lease.shape, fx);
    }

    pub(super) fn return_idle_leases(&mut self, now: Nanos, fx: &mut Vec<Effect>) {
        while let Some((since, id)) = self.leases.idle.front().copied() {
            if since + LEASE_LINGER > now {
                break;
            }
            self.leases.idle.pop_front();
            let idle = |lease: &Lease| lease.inflight.is_empty() && lease.idle_since == since;
            if self.leases.all.get(&id).is_some_and(idle) {
                self.return_lease(id, fx);
            }
        }
    }

    pub(super) fn accept_reclaim(&mut self, fx: &mut Vec<Effect>) {
        let mut ids: Vec<_> = self.leases.all.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if let Some(lease) = self.leases.all.get_mut(&id) {
                lease.reclaimed = true;
                if lease.inflight.is_empty() {
                    self.return_lease(id, fx);
                }
            }
        }
    }

    pub(super) fn lease_replied(
        &mut self,
        now: Nanos,
        key: u32,
        seq: u64,
        exec_us: u32,
        retry: bool,
        fx: &mut Vec<Effect>,
    ) {
        let shape = &mut self.leases.shapes[key as usize];
        let known = shape.exec_us.unwrap_or(exec_us);
        shape.exec_us = Some(exec_us.max(known - known / 8));
        if retry {
            shape.queue.push_front(seq);
        }
        let shape = &self.leases.shapes[key as usize];
        let (leases, here) = (&mut self.leases.all, self.me.host());
        let done = shape.leases.iter().copied().find(|id| {
            let Some(lease) = leases.get_mut(id) else { return false };
            let at = lease.inflight.iter().position(|other| *other == seq);
            let found = at.is_some_and(|at| lease.inflight.remove(at).is_some());
            lease.engaged &= !found;
            if let Some((_, sent)) = lease.alone.take_if(|(alone, _)| *alone == seq)
                && lease.worker.host() != here
            {
                lease.measure_way(now.saturating_sub(sent).saturating_sub(u64::from(exec_us) * 1000));
            }
            found
        });
        self.dispatch(now, key, fx);
        if let Some(id) = done {
            self.rest_if_idle(now, id, fx);
        }
    }
}
