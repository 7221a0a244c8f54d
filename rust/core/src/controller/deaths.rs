//! Hosts that come and go, processes that die, and all that follows.

use raymesh_wire::control::{Death, DeathCause, ToHost};
use raymesh_wire::status::{HostEnd, HostEnded};
use raymesh_wire::{FromController, HostId, JobId, ProcId};

use super::history::Subject;
use super::holds::For;
use super::hosts::{Drain, Host, Keeper};
use super::queue::Waiter;
use super::{Controller, Effects, order, send, text};

/// How many lost hosts are remembered.
const LOST: usize = 100;

/// How a host ended that was told to leave.
fn drained_end(drain: &Drain, now: u64) -> HostEnd {
    let how = if drain.deadline.is_some_and(|at| at <= now) { HostEnded::Preempted } else { HostEnded::Idle };
    HostEnd { how, why: drain.reason.clone() }
}

impl Controller {
    pub(super) fn host_joined(&mut self, id: HostId, host: Host, effects: &mut Effects) {
        if self.hosts.get(id).is_some() || self.gone.contains(&id) {
            return;
        }
        self.history.add(self.now, Subject::Host(id), "joined", text::resources(&host.total));
        self.procs.host_joined(id);
        self.hosts.join(id, host, &mut self.shapes);
        for class in self.queue.classes() {
            if self.queue.get(class).wish.is_some() {
                continue;
            }
            let fits = self.could_fit(id, class);
            let state = self.queue.get_mut(class);
            state.feasible += u32::from(fits);
            state.reason = None;
            let starts = fits && state.feasible == 1 && self.queue.stuck().contains(&class);
            if starts {
                self.watch_starvation(class);
            }
        }
        self.review_wishes(effects);
        self.reclaim.dirty = true;
    }

    fn could_fit(&self, host: HostId, class: super::ClassId) -> bool {
        let need = self.shapes.get(self.queue.get(class).need);
        self.hosts.get(host).is_some_and(|host| host.could_fit(need))
    }

    pub(super) fn host_lost(&mut self, id: HostId, end: HostEnd, effects: &mut Effects) {
        self.gone.insert(id);
        let Some(host) = self.hosts.get(id) else { return };
        let drained = host.draining.as_ref().filter(|drain| drain.leaves).map(|drain| drain.reason.clone());
        let which = text::lost_host(id, host, &end.why, drained.as_deref());
        self.history.add(self.now, Subject::Host(id), "lost", which.clone());
        let mut impossible = Vec::new();
        for class in self.queue.classes() {
            if self.queue.get(class).wish.is_none() && self.could_fit(id, class) {
                let state = self.queue.get_mut(class);
                state.feasible -= 1;
                if state.feasible == 0 {
                    impossible.push(class);
                }
            }
        }
        match self.hosts.keeper(id) {
            Some(Keeper::Class(class)) => {
                self.served(class);
                self.watch_starvation(class);
            }
            Some(Keeper::Group(group)) => self.end_keeping(group),
            None => {}
        }
        if let Some(host) = self.hosts.lose(id).filter(Host::takes_work) {
            let end =
                host.draining.filter(|drain| drain.leaves).map_or(end, |drain| drained_end(&drain, self.now));
            self.lost.push((id, host.name, end));
            if self.lost.len() > LOST {
                self.lost.remove(0);
            }
        }
        self.lose_bundles(id);
        self.estates.host_lost(id);
        for proc in self.procs.host_lost(id, which.clone()) {
            let pid = self.procs.get(proc).map_or(0, |proc| proc.pid);
            self.died(
                proc,
                &Death { pid, host: which.clone(), ..DeathCause::HostLost.into() },
                true,
                effects,
            );
        }
        // What had no worker yet is wanted still.
        for lease in self.holds.on_host(id) {
            let Some(hold) = self.holds.get(lease).cloned() else { continue };
            match hold.whom {
                For::Actor { actor } => {
                    self.release(lease, "host lost");
                    self.actor_start_lost(actor, lease, effects);
                }
                For::Task { .. } => self.lease_failed(lease, "host lost"),
            }
        }
        for class in impossible {
            self.tell_all(class, effects);
        }
        self.review_wishes(effects);
        // Only now: what has just died there may have been moved.
        self.draining.remove(&id);
    }

    /// A process has died: everything that it had, was or wanted ends with it.
    pub(super) fn died(&mut self, id: ProcId, death: &Death, memory: bool, effects: &mut Effects) {
        let known = self.procs.get(id).is_none() && self.procs.death(id).is_some();
        if known && death.cause != DeathCause::HostLost {
            return;
        }
        let mut proc = self.procs.bury(id, death).unwrap_or_default();
        let how = text::death(death);
        self.history.add(self.now, Subject::Proc(id), "dead", format!("pid {} {how}", death.pid));
        if proc.hold.is_some()
            && let Some((until, _)) = self.hosts.get_mut(id.host()).and_then(|host| host.backoff.as_mut())
        {
            // What it had may be just what others could not start without.
            *until = self.now;
        }
        if let Some(lease) = proc.hold {
            self.hold_ends(lease, id, death, &mut proc.watchers, effects);
        }
        for watcher in &proc.watchers {
            if let Some(watcher) = self.procs.get_mut(*watcher) {
                watcher.watches.remove(&id);
            }
            send(effects, *watcher, FromController::Died { proc: id, death: death.clone() });
        }
        self.bequeath(id, death, memory, effects);
        for watched in &proc.watches {
            if let Some(watched) = self.procs.get_mut(*watched) {
                watched.watchers.remove(&id);
            }
        }
        for (key, mut demand) in proc.demands {
            let waiter = Waiter::Task(id, key);
            if let Some(turn) = demand.turn {
                self.queue.remove(demand.class, turn, waiter);
            }
            demand.notice.stop(waiter, &mut self.notices);
        }
        self.reclaim.gone(id);
        for lease in proc.leases {
            self.abandon(lease, effects);
        }
        for actor in proc.watched_actors {
            if let Some(actor) = self.actors.get_mut(actor) {
                actor.watchers.remove(&id);
            }
        }
        for group in proc.watched_groups {
            self.unwatch_group(id, group);
        }
        for function in proc.wanted_functions {
            self.functions.forget(id, function);
        }
        for function in proc.functions {
            self.functions.give_up(id, function);
        }
        for actor in proc.actors {
            self.orphaned(actor, &how, effects);
        }
        self.never_created(id, effects);
        self.never_created_groups(id, effects);
        if let Some(job) = proc.job.filter(|_| proc.driver) {
            self.ended_jobs.insert(job);
            for (host, _) in self.hosts.iter() {
                order(effects, host, ToHost::JobEnded { job });
            }
            self.remove_groups_of_job(job, effects);
        }
    }

    /// Before work of a job goes to a host: one that has joined since its driver has died does not know that, and
    /// would keep the worker.
    pub(super) fn recall_end(&self, job: JobId, host: HostId, effects: &mut Effects) {
        if self.ended_jobs.contains(&job) {
            order(effects, host, ToHost::JobEnded { job });
        }
    }

    /// The worker of a lease or actor has died.
    fn hold_ends(
        &mut self,
        lease: raymesh_wire::LeaseId,
        id: ProcId,
        death: &Death,
        told: &mut std::collections::BTreeSet<ProcId>,
        effects: &mut Effects,
    ) {
        let Some(hold) = self.holds.get(lease).filter(|hold| hold.worker == Some(id)) else { return };
        let whom = hold.whom;
        self.release(lease, "its worker died");
        match whom {
            For::Task { caller, .. } => {
                if self.procs.get(caller).is_some() {
                    told.insert(caller);
                }
            }
            For::Actor { actor } => self.actor_worker_died(actor, (lease, id.host()), death, effects),
        }
    }

    /// When the next host that could not start workers is tried again.
    pub(super) fn next_retry(&self) -> Option<u64> {
        let backoff = |id: &HostId| Some(self.hosts.get(*id)?.backoff.as_ref()?.0);
        self.hosts.backing_off.iter().filter_map(backoff).min()
    }

    pub(super) fn retry_hosts(&mut self) {
        let due: Vec<_> = self
            .hosts
            .backing_off
            .iter()
            .copied()
            .filter(|id| {
                let backoff = self.hosts.get(*id).and_then(|host| host.backoff.as_ref());
                backoff.is_none_or(|(until, _)| *until <= self.now)
            })
            .collect();
        for id in due {
            self.hosts.backing_off.remove(&id);
            if let Some(host) = self.hosts.get_mut(id) {
                host.backoff = None;
                self.hosts.freed.insert(id);
            }
        }
    }
}
