//! The controller of a cluster: one place, one consistent view, every decision.
//!
//! What it knows:
//! - `hosts` (with `shapes`, `gpus`): what each host has and what is held of it; which to take next.
//! - `holds`: what is held and for whom: one entry a lease or started actor.
//! - `queue` (with `demand`): demands that wait, in classes of equal ones, served in turn.
//! - `procs`: processes, their deaths, and all that ends with them.
//! - `groups`, `bundles`: placement groups, and what they hold of hosts. `spots`: places for leases and actors.
//! - `actors`, `names`, `functions`: as they say.
//! - `history`: what happened lately, and why.
//!
//! What it does:
//! - `schedule`: grants what fits, and keeps room for those that waited too long (`starvation`).
//! - `wishes`: strategies and labels. `group_life`: placement groups come and go; `placing`: where to.
//! - `leases`: the life of a lease. `lifecycle`: the life of an actor. `deaths`: processes and hosts.
//! - `keeping`: keeps room for groups that waited too long.
//! - `reclaim`: asks callers for leases that others need. `notices`: tells who waits why.
//! - `draining`: hosts that are asked to leave. `moving`: what moves from there.
//! - `unused`: forgets kinds of demands that nobody has any more.
//! - `estates`: what the dead owned and held is settled.
//! - `describe`: answers to questions about the cluster. `audit`: whether the books are right.

mod actors;
mod audit;
mod audit_groups;
mod bundles;
mod deaths;
mod demand;
mod describe;
mod draining;
mod estates;
mod functions;
mod gpus;
mod group_life;
mod groups;
mod history;
mod holds;
mod hosts;
mod keeping;
mod leases;
mod lifecycle;
mod moving;
mod names;
mod notices;
mod placing;
mod procs;
mod queue;
mod reclaim;
mod schedule;
mod shapes;
mod spots;
mod starvation;
mod status;
pub(crate) mod text;
mod unused;
mod waits;
mod wishes;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use raymesh_wire::control::{FromHost, ToHost};
use raymesh_wire::placement::NODE_ID_LABEL;
use raymesh_wire::status::HostEnd;
use raymesh_wire::{FromController, HostId, JobId, ProcId, ToController};
use serde::{Deserialize, Serialize};

pub use history::{Entry, Subject};

use crate::estates::Estates;

use actors::Actors;
use bundles::Bundles;
use functions::Functions;
use groups::Groups;
use history::History;
use holds::Holds;
use hosts::Hosts;
use keeping::Keeping;
use names::Names;
use procs::Procs;
use queue::{ClassId, Queue, Waiter};
use reclaim::Reclaim;
use shapes::Shapes;

/// What happens to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A process says something. What one process says arrives in order.
    Message { from: ProcId, message: ToController },
    /// A host's agent says something, in order; `Joined` first.
    FromHost { host: HostId, message: FromHost },
    /// The host is gone with all its processes. It may return only under a new id.
    HostLost { host: HostId, end: HostEnd },
    /// [`Controller::next_deadline`] has come.
    Tick,
}

/// What the controller wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// To be dropped if the process has died meanwhile.
    Send {
        to: ProcId,
        message: FromController,
    },
    ToHost {
        host: HostId,
        message: ToHost,
    },
}

/// The controller's state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Controller {
    now: u64,
    shapes: Shapes,
    hosts: Hosts,
    /// Name of each host that was lost, and how it ended, latest last; bounded.
    lost: Vec<(HostId, String, HostEnd)>,
    /// All hosts that were lost: none returns under its old id.
    gone: BTreeSet<HostId>,
    /// Jobs whose drivers have died. Some of their processes may live.
    ended_jobs: BTreeSet<JobId>,
    holds: Holds,
    queue: Queue,
    procs: Procs,
    actors: Actors,
    names: Names,
    groups: Groups,
    keeping: Keeping,
    bundles: Bundles,
    /// Hosts that are to leave.
    draining: BTreeSet<HostId>,
    /// Something may have a place now that is to move from them.
    moves_due: bool,
    functions: Functions,
    /// When to tell which waiter why it waits.
    notices: BTreeSet<(u64, Waiter)>,
    /// When to look whether which class starves, and how many have a host reserved.
    checks: BTreeSet<(u64, ClassId)>,
    reservations: u32,
    /// How many classes were in use when that was looked at last.
    classes_left: usize,
    reclaim: Reclaim,
    estates: Estates,
    /// What is only told is not remembered over a restart.
    #[serde(skip)]
    history: History,
}

type Effects = Vec<Effect>;

fn send(effects: &mut Effects, to: ProcId, message: FromController) {
    effects.push(Effect::Send { to, message });
}

fn order(effects: &mut Effects, host: HostId, message: ToHost) {
    effects.push(Effect::ToHost { host, message });
}

impl Controller {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in one event and appends what follows from it.
    pub fn handle(&mut self, now: u64, event: Event, effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        match event {
            Event::Message { from, message } => self.on_message(from, message, effects),
            Event::FromHost { host, message } => self.on_host(host, message, effects),
            Event::HostLost { host, end } => self.host_lost(host, end, effects),
            Event::Tick => {}
        }
        self.settle_estates(effects);
        self.retry_hosts();
        self.schedule(effects);
        self.update_reservations();
        self.update_keeping();
        self.schedule(effects);
        self.move_from_drained(effects);
        self.send_notices(effects);
        self.tell_of_groups(effects);
        self.reclaim_leases(effects);
        self.let_drained_go(effects);
    }

    /// When to call [`Self::handle`] with [`Event::Tick`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let notice = self.notices.first().map(|(due, _)| *due);
        let others =
            [self.next_retry(), self.next_reservation(), self.next_drain(), self.estates.next_deadline()];
        let group = self.groups.notices.first().map(|(due, _)| *due);
        [notice, group, self.reclaim.due, self.keeping.due].into_iter().chain(others).flatten().min()
    }

    /// What happened lately to a process, lease, actor, host or demand, oldest first.
    #[must_use]
    pub fn history(&self, subject: Subject) -> Vec<Entry> {
        self.history.of(subject)
    }

    fn on_message(&mut self, from: ProcId, message: ToController, effects: &mut Effects) {
        match self.procs.meet(from) {
            // Its last words: whatever it had is gone already.
            None => return,
            // It is quicker than what its host says of it.
            Some(proc) if proc.pid == 0 => self.estates.started(from),
            Some(_) => {}
        }
        match message {
            ToController::Demand { key, job, resources, backlog, env, wish, near } => {
                self.demand(from, key, (job, env), (&resources, &wish, near), backlog, effects);
            }
            ToController::ReturnLease { lease } => self.return_lease(from, lease, effects),
            ToController::Blocked => self.blocked(from, true),
            ToController::Unblocked => self.blocked(from, false),
            ToController::Waiting { on } => self.waiting(from, on, effects),
            ToController::CreateActor { spec } => self.create_actor(from, spec, effects),
            ToController::ActorReady { actor, error } => self.actor_ready(from, actor, error, effects),
            ToController::ActorExited { actor } => self.actor_exited(from, actor, effects),
            ToController::KillActor { actor, no_restart } => {
                self.kill_actor(from, actor, no_restart, effects);
            }
            ToController::ActorOutOfScope { actor, given } => {
                self.actor_out_of_scope(from, actor, given, effects);
            }
            ToController::WatchActor { actor } => self.watch_actor(from, actor, effects),
            ToController::UnwatchActor { actor } => self.unwatch_actor(from, actor),
            ToController::LookupActor { request, name, namespace } => {
                let found = self.find_actor(from, &name, &namespace, effects);
                send(effects, from, FromController::ActorFound { request, found });
            }
            ToController::ListActors { request } => {
                let actors = self.list_actors();
                send(effects, from, FromController::Actors { request, actors });
            }
            ToController::PutFunction { id, body } => {
                if let Some(proc) = self.procs.get_mut(from) {
                    proc.functions.insert(id);
                }
                self.functions.put(from, id, body, effects);
            }
            ToController::DropFunction { id } => {
                if let Some(proc) = self.procs.get_mut(from) {
                    proc.functions.remove(&id);
                }
                self.functions.give_up(from, id);
            }
            ToController::GetFunction { request, id } => {
                if self.functions.get(from, request, id, effects)
                    && let Some(proc) = self.procs.get_mut(from)
                {
                    proc.wanted_functions.insert(id);
                }
            }
            ToController::Watch { proc } => self.watch(from, proc, effects),
            ToController::DescribeCluster { request } => {
                let hosts = self.describe();
                send(effects, from, FromController::Cluster { request, hosts });
            }
            ToController::AskStatus { request } => {
                let status = Box::new(self.status());
                send(effects, from, FromController::Status { request, status });
            }
            ToController::CreateGroup { spec } => self.create_group(from, *spec, effects),
            ToController::RemoveGroup { group } => self.remove_group(group, effects),
            ToController::WatchGroup { group } => self.watch_group(from, group, effects),
            ToController::UnwatchGroup { group } => self.unwatch_group(from, group),
            ToController::FindGroups { request, which } => {
                let groups = self.find_groups(&which);
                send(effects, from, FromController::Groups { request, groups });
            }
            ToController::DrainHost { request, host, reason, within } => {
                self.drain_host((from, request), host, reason, within, effects);
            }
            ToController::Mourned { .. }
            | ToController::Stock(_)
            | ToController::Seek { .. }
            | ToController::LetGo { .. } => self.on_estates(from, message, effects),
        }
    }

    fn on_host(&mut self, host: HostId, message: FromHost, effects: &mut Effects) {
        if self.hosts.get(host).is_none() && !matches!(message, FromHost::Joined { .. }) {
            return;
        }
        match message {
            FromHost::Joined { name, total, mut labels, store_capacity } => {
                labels.push((NODE_ID_LABEL.to_owned(), host.0.to_string()));
                let state = hosts::Host::new(name, total, labels, store_capacity);
                self.host_joined(host, state, effects);
                order(effects, host, ToHost::Welcome);
            }
            FromHost::ProcStarted { proc, pid, driver } => {
                if let Some(known) = self.procs.meet(proc) {
                    known.pid = pid;
                    known.driver = driver;
                    self.estates.started(proc);
                }
                self.history.add(self.now, Subject::Proc(proc), "started", format!("pid {pid}"));
            }
            FromHost::LeaseBound { lease, worker } => self.lease_bound(lease, worker, effects),
            FromHost::LeaseFailed { lease, reason } => self.lease_failed(lease, &reason),
            FromHost::ActorStarted { start, proc, pid } => self.actor_started(start, proc, pid),
            FromHost::ActorStartFailed { start, reason } => self.actor_start_failed(start, &reason, effects),
            FromHost::Died { proc, death, memory, under_way } => {
                if under_way {
                    self.estates.is_under_way(proc);
                }
                self.died(proc, &death, memory, effects);
            }
            FromHost::Heard { proc } => self.estates.heard(proc),
            FromHost::Usage { store_used } => {
                if let Some(host) = self.hosts.get_mut(host) {
                    host.store_used = store_used;
                }
            }
        }
    }
}
