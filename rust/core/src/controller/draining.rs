//! Hosts that are asked to leave: nothing new goes there, what runs may end, and then the host ends.
//!
//! Tasks may end there, and actors that may restart move as soon as there is a place for them (`moving.rs`). It waits
//! for both, and for actors that would not be started again elsewhere; at the deadline for nothing. What follows is the
//! loss of a host, but that a restart because of it costs an actor none of its restarts (as in Ray, where one that has
//! used them up is moved, too).

use raymesh_wire::control::ToHost;
use raymesh_wire::{FromController, HostId, LeaseId, ProcId, RequestId};

use super::history::Subject;
use super::holds::{For, Hold};
use super::hosts::{Drain, Keeper};
use super::{Controller, Effects, order, send};

/// The resource that only the host of the controller has.
const HEAD: &str = "node:__internal_head__";

impl Controller {
    pub(super) fn drain_host(
        &mut self,
        (from, request): (ProcId, RequestId),
        host: HostId,
        reason: String,
        within: Option<u64>,
        effects: &mut Effects,
    ) {
        let deadline = within.map(|within| self.now.saturating_add(within));
        let refused = match self.hosts.get_mut(host) {
            Some(state) if state.total.get(HEAD).0 > 0 => {
                Some("the head cannot leave: the cluster would end with it".to_owned())
            }
            Some(state) if state.takes_work() => {
                self.history.add(self.now, Subject::Host(host), "draining", reason.clone());
                // Asked again, it has the new deadline; what was ordered stays ordered.
                let leaves = state.draining.as_ref().is_some_and(|drain| drain.leaves);
                state.draining = Some(Drain { reason, deadline, leaves });
                self.draining.insert(host);
                None
            }
            _ => Some("the cluster has no such host".to_owned()),
        };
        if refused.is_none() {
            self.moves_due = true;
            if let Some(Keeper::Group(group)) = self.hosts.keeper(host) {
                self.end_keeping(group);
            }
            // Idle workers there are given back at once.
            for lease in self.holds.on_host(host) {
                if let Some(For::Task { caller, .. }) = self.holds.get(lease).map(|hold| hold.whom) {
                    send(effects, caller, FromController::ReclaimLeases);
                }
            }
        }
        send(effects, from, FromController::Draining { request, refused });
    }

    /// Lets hosts go that nothing keeps any more.
    pub(super) fn let_drained_go(&mut self, effects: &mut Effects) {
        for host in self.draining.clone() {
            let kept = self.is_kept(host);
            let Some(drain) = self.hosts.get_mut(host).and_then(|state| state.draining.as_mut()) else {
                continue;
            };
            let due = drain.deadline.is_some_and(|at| at <= self.now);
            if !drain.leaves && (due || !kept) {
                drain.leaves = true;
                order(effects, host, ToHost::Leave);
                let why = if due { "its time is up" } else { "nothing keeps it" };
                self.history.add(self.now, Subject::Host(host), "leaving", why);
            }
        }
    }

    /// Whether what dies on the host now dies because it was drained.
    pub(super) fn makes_move(&self, host: HostId) -> bool {
        let drain = self.hosts.get(host).map(|state| &state.draining);
        match drain {
            // Before it is told to leave, a crash is a crash.
            Some(drain) => drain.as_ref().is_some_and(|drain| drain.leaves),
            None => self.draining.contains(&host),
        }
    }

    pub(super) fn next_drain(&self) -> Option<u64> {
        let drains = self.draining.iter().filter_map(|host| self.hosts.get(*host)?.draining.as_ref());
        drains.filter(|drain| !drain.leaves).filter_map(|drain| drain.deadline).min()
    }

    /// Whether anything runs there: an actor that can go on elsewhere does so as soon as there is a place for it.
    fn is_kept(&self, host: HostId) -> bool {
        let at_work = |lease: &LeaseId| {
            self.holds.get(*lease).is_some_and(|hold| !self.is_place_of_mover(hold, *lease))
        };
        self.holds.on_host(host).iter().any(at_work)
    }

    /// What is held for an actor that is still elsewhere keeps no host.
    fn is_place_of_mover(&self, hold: &Hold, lease: LeaseId) -> bool {
        let For::Actor { actor } = hold.whom else { return false };
        self.actors.get(actor).is_some_and(|actor| actor.next == Some(lease))
    }
}
