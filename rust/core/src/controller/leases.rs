//! The life of a task lease: wanted, granted, bound to a worker, returned.

use raymesh_wire::control::ToHost;
use raymesh_wire::{Environment, FromController, HostId, JobId, LeaseId, ProcId, ResourceSet, Wish};

use super::demand::Demand;
use super::history::{Cause, Subject};
use super::holds::{For, Hold};
use super::queue::{ClassId, Waiter};
use super::spots::Spot;
use super::{Controller, Effects, order, send};

/// First pause after a host could not start a worker; doubles up to the second figure.
const BACKOFF: u64 = 50_000_000;
const BACKOFF_MAX: u64 = 5_000_000_000;

impl Controller {
    /// The class of such demands, known or new.
    pub(super) fn class(
        &mut self,
        need: &ResourceSet,
        hold: &ResourceSet,
        is_task: bool,
        wish: &Wish,
    ) -> ClassId {
        self.forget_unused();
        let (need, hold) = (self.shapes.intern(need), self.shapes.intern(hold));
        let wish = (*wish != Wish::default()).then(|| Box::new(wish.clone()));
        let key = (need, hold, is_task, wish);
        if let Some(known) = self.queue.known(&key) {
            return known;
        }
        let feasible = self.feasible(need, key.3.as_deref());
        self.queue.add(key, feasible)
    }

    pub(super) fn demand(
        &mut self,
        from: ProcId,
        key: u32,
        (job, env): (JobId, Environment),
        (resources, wish, near): (&ResourceSet, &Wish, Option<HostId>),
        backlog: u32,
        effects: &mut Effects,
    ) {
        let class = self.class(resources, resources, true, wish);
        let Some(proc) = self.procs.get_mut(from) else { return };
        proc.job.get_or_insert(job);
        let demand = proc.demands.entry(key).or_insert_with(|| Demand::new(class, job, env));
        let waiter = Waiter::Task(from, key);
        if (demand.class, demand.near) != (class, near)
            && let Some(turn) = demand.turn.take()
        {
            self.queue.remove(demand.class, turn, waiter);
        }
        demand.class = class;
        demand.near = near;
        demand.job = job;
        demand.unserved = backlog.saturating_sub(demand.binding);
        self.requeue(from, key, false);
        self.reclaim.dirty = true;
        self.hurry(from);
        self.tell_if_never(waiter, effects);
    }

    /// Puts a demand into the queue or takes it out, as it has or has not something unserved. `served`:
    /// it goes behind the others.
    pub(super) fn requeue(&mut self, from: ProcId, key: u32, served: bool) {
        let Some(proc) = self.procs.get_mut(from) else { return };
        let Some(demand) = proc.demands.get_mut(&key) else { return };
        let waiter = Waiter::Task(from, key);
        let (class, near, waits) = (demand.class, demand.near, demand.unserved > 0);
        if (served || !waits)
            && let Some(turn) = demand.turn.take()
        {
            self.queue.remove(class, turn, waiter);
            demand.notice.stop(waiter, &mut self.notices);
        }
        if waits && demand.turn.is_none() {
            demand.turn = Some(self.queue.push(class, waiter, near));
            demand.notice.start(self.now, waiter, &mut self.notices);
        }
        if !waits && demand.leases == 0 {
            proc.demands.remove(&key);
        }
    }

    /// Grants one lease to a demand that fits there.
    pub(super) fn grant_lease(&mut self, spot: Spot, caller: ProcId, key: u32, effects: &mut Effects) {
        let Some(proc) = self.procs.get_mut(caller) else { return };
        let Some(demand) = proc.demands.get_mut(&key) else { return };
        let class = self.queue.get(demand.class);
        let (shape_id, group) = (class.hold, class.group());
        let shape = self.shapes.get(shape_id);
        let host = spot.host;
        let gpus = spot.take(&mut self.hosts, &mut self.bundles, shape);
        if shape.cpu == 0
            && let Some(host) = self.hosts.get_mut(host)
        {
            host.weightless += 1;
        }
        let (job, env) = (demand.job, demand.env.clone());
        let lease = self.holds.add(Hold {
            host,
            bundle: spot.bundle,
            shape: shape_id,
            class: demand.class,
            gpus: gpus.clone(),
            whom: For::Task { caller, key, job },
            env: env.clone(),
            worker: None,
            cpu_lent: false,
            ending: false,
        });
        demand.unserved -= 1;
        demand.binding += 1;
        demand.leases += 1;
        proc.leases.insert(lease);
        self.reclaim.holds(caller);
        let resources = shape.set.clone();
        self.recall_end(job, host, effects);
        order(effects, host, ToHost::BindLease { lease, caller, job, resources, gpus, env, group });
        self.history.add(self.now, Subject::Lease(lease), "granted", ("wanted by", caller));
        self.requeue(caller, key, true);
    }

    pub(super) fn lease_bound(&mut self, lease: LeaseId, worker: ProcId, effects: &mut Effects) {
        let Some(hold) = self.holds.get_mut(lease) else { return };
        if hold.worker.is_some() {
            return;
        }
        hold.worker = Some(worker);
        let (host, shape, whom) = (hold.host, hold.shape, hold.whom);
        self.leave_binding(host, self.shapes.get(shape).cpu == 0);
        let For::Task { caller, key, job } = whom else { return };
        if let Some(demand) = self.procs.get_mut(caller).and_then(|proc| proc.demands.get_mut(&key)) {
            demand.binding = demand.binding.saturating_sub(1);
        }
        if let Some(host) = self.hosts.get_mut(host) {
            host.backoff_step = 0;
        }
        self.history.add(self.now, Subject::Lease(lease), "bound", ("to", worker));
        self.employ(worker, lease, job);
        if self.procs.get(caller).is_some() {
            send(effects, caller, FromController::LeaseGranted { key, lease, worker });
        }
    }

    /// The worker works for this hold from now on.
    pub(super) fn employ(&mut self, worker: ProcId, lease: LeaseId, job: JobId) {
        let Some(proc) = self.procs.meet(worker) else { return };
        proc.hold = Some(lease);
        proc.job = Some(job);
        if proc.blocked {
            self.set_lent(lease, true);
        }
    }

    /// No worker could be had for the lease, or it was ended before it had one.
    pub(super) fn lease_failed(&mut self, lease: LeaseId, reason: &str) {
        let Some(hold) = self.holds.get(lease).cloned() else { return };
        self.release(lease, reason.to_owned());
        if hold.ending {
            return;
        }
        self.back_off(hold.host, reason);
        if let For::Task { caller, key, job } = hold.whom
            && let Some(proc) = self.procs.get_mut(caller)
        {
            let demand = proc.demands.entry(key).or_insert_with(|| Demand::new(hold.class, job, hold.env));
            demand.unserved += 1;
            self.requeue(caller, key, false);
        }
    }

    /// The host cannot start workers: it gets nothing for a while.
    pub(super) fn back_off(&mut self, host: HostId, reason: &str) {
        let now = self.now;
        if let Some(state) = self.hosts.get_mut(host) {
            state.backoff_step = (state.backoff_step * 2).clamp(BACKOFF, BACKOFF_MAX);
            state.backoff = Some((now + state.backoff_step, reason.to_owned()));
            self.hosts.backing_off.insert(host);
            self.history.add(now, Subject::Host(host), "backs off", reason.to_owned());
        }
    }

    pub(super) fn return_lease(&mut self, from: ProcId, lease: LeaseId, effects: &mut Effects) {
        let Some(hold) = self.holds.get(lease) else { return };
        if !matches!(hold.whom, For::Task { caller, .. } if caller == from) || hold.ending {
            return;
        }
        let (host, whom) = (hold.host, hold.whom);
        self.release(lease, "returned");
        if let For::Task { caller, key, .. } = whom {
            // Whoever gives a lease back and wants more waits behind those it was given back for.
            self.requeue(caller, key, true);
        }
        order(effects, host, ToHost::EndLease { lease, kill: false });
    }

    /// The caller has died: its lease ends, and its worker with it.
    pub(super) fn abandon(&mut self, lease: LeaseId, effects: &mut Effects) {
        let Some(hold) = self.holds.get_mut(lease) else { return };
        hold.ending = true;
        order(effects, hold.host, ToHost::EndLease { lease, kill: true });
        self.history.add(self.now, Subject::Lease(lease), "ending", "its caller died");
    }

    /// What it runs in is no more: its worker is killed, and the caller hears of that death.
    pub(super) fn cut_off(&mut self, lease: LeaseId, effects: &mut Effects) {
        let Some(hold) = self.holds.get(lease).filter(|hold| !hold.ending) else { return };
        order(effects, hold.host, ToHost::EndLease { lease, kill: true });
        self.history.add(self.now, Subject::Lease(lease), "cut off", "its placement group was removed");
    }

    /// Gives back what a lease or start holds.
    pub(super) fn release(&mut self, lease: LeaseId, why: impl Into<Cause>) {
        let Some(hold) = self.holds.remove(lease) else { return };
        let shape = self.shapes.get(hold.shape);
        hold.spot().give(&mut self.hosts, &mut self.bundles, shape, &hold.gpus, hold.cpu_lent);
        let weightless = shape.cpu == 0;
        self.history.add(self.now, Subject::Lease(lease), "over", why);
        if let Some(proc) = hold.worker.and_then(|worker| self.procs.get_mut(worker))
            && proc.hold == Some(lease)
        {
            proc.hold = None;
        }
        let For::Task { caller, key, .. } = hold.whom else { return };
        if hold.worker.is_none() {
            self.leave_binding(hold.host, weightless);
        }
        let Some(proc) = self.procs.get_mut(caller) else { return };
        proc.leases.remove(&lease);
        if proc.leases.is_empty() {
            self.reclaim.gone(caller);
        }
        if let Some(demand) = proc.demands.get_mut(&key) {
            demand.leases = demand.leases.saturating_sub(1);
            if hold.worker.is_none() {
                demand.binding = demand.binding.saturating_sub(1);
            }
            self.requeue(caller, key, false);
        }
    }

    fn leave_binding(&mut self, host: HostId, weightless: bool) {
        if weightless && let Some(state) = self.hosts.get_mut(host) {
            state.weightless = state.weightless.saturating_sub(1);
            self.hosts.freed.insert(host);
        }
    }

    /// A worker waits for objects, or goes on.
    pub(super) fn blocked(&mut self, from: ProcId, blocked: bool) {
        let Some(proc) = self.procs.get_mut(from) else { return };
        proc.blocked = blocked;
        proc.waits_for.clear();
        if let Some(lease) = proc.hold {
            self.set_lent(lease, blocked);
        }
        self.hurry(from);
    }

    fn set_lent(&mut self, lease: LeaseId, lent: bool) {
        let Some(hold) = self.holds.get_mut(lease) else { return };
        let cpu = self.shapes.get(hold.shape).cpu;
        if hold.cpu_lent == lent || cpu == 0 {
            return;
        }
        hold.cpu_lent = lent;
        hold.spot().lend_cpu(&mut self.hosts, &mut self.bundles, cpu, lent);
        let state = if lent { "blocked" } else { "unblocked" };
        self.history.add(self.now, Subject::Lease(lease), state, "its worker waits or goes on");
    }

    pub(super) fn watch(&mut self, from: ProcId, proc: ProcId, effects: &mut Effects) {
        if let Some(death) = self.procs.death(proc) {
            send(effects, from, FromController::Died { proc, death });
            self.tell_settled(from, proc, effects);
            return;
        }
        if let Some(known) = self.procs.meet(proc) {
            known.watchers.insert(from);
        }
        if let Some(watcher) = self.procs.get_mut(from) {
            watcher.watches.insert(proc);
        }
    }
}
