//! What moves from a host that is to leave, before it does: actors that may restart, and bundles of placement groups.
//!
//! An actor's new place is held before the old worker is asked to end, so it is never without one. The worker finishes
//! what runs (30 s at most, as every worker that is asked to end), and sends back to its callers what has not begun;
//! they wait for the next one. Who waits in the queue is served first.
//!
//! Bundles move like groups are placed: all of a group that lie on such hosts, or none. The group stays as it is. What
//! runs in an old bundle may end there, and the bundle with it.

use std::collections::BTreeSet;

use raymesh_wire::control::ExitReason;
use raymesh_wire::{ActorId, GroupId, LeaseId, ProcId};

use super::actors::{Phase, Then};
use super::bundles::BundleId;
use super::history::Subject;
use super::holds::For;
use super::keeping::Rooms;
use super::lifecycle::{End, can_move};
use super::{Controller, Effects};

impl Controller {
    /// Moves what has a place elsewhere by now.
    pub(super) fn move_from_drained(&mut self, effects: &mut Effects) {
        if !std::mem::take(&mut self.moves_due) || self.draining.is_empty() {
            return;
        }
        self.move_bundles();
        // Who waits for a place in one that has moved comes first.
        self.schedule(effects);
        let mut stay = BTreeSet::new();
        for lease in self.draining.iter().flat_map(|host| self.holds.on_host(*host)).collect::<Vec<_>>() {
            let Some((id, worker)) = self.mover(lease) else { continue };
            let Some(class) = self.actors.get(id).map(|actor| actor.class) else { continue };
            if stay.contains(&class) {
                continue;
            }
            let Some(spot) = self.find_spot(class, (id.creator.host(), None), false) else {
                stay.insert(class);
                continue;
            };
            let next = self.hold_for_actor(spot, id);
            if let Some(actor) = self.actors.get_mut(id) {
                actor.next = next;
                actor.forgiven = actor.forgiven.saturating_add(1);
            }
            self.order_end(lease, worker, End::Exit(ExitReason::Moved), effects);
            let then = Then::Restart;
            self.set_phase(id, Phase::Ending { start: lease, then }, "moves: its host is drained");
        }
    }

    /// The actor that lives by this hold, if it is to move.
    fn mover(&self, lease: LeaseId) -> Option<(ActorId, ProcId)> {
        let For::Actor { actor: id } = self.holds.get(lease)?.whom else { return None };
        let actor = self.actors.get(id).filter(|actor| can_move(actor))?;
        match actor.phase {
            Phase::Alive { start, worker } if start == lease => Some((id, worker)),
            _ => None,
        }
    }

    fn move_bundles(&mut self) {
        let on = self.draining.iter().flat_map(|host| self.bundles.on_host(*host));
        let groups: BTreeSet<GroupId> = on.filter(|(_, it)| !it.ended).map(|(_, it)| it.group).collect();
        for group in groups {
            self.move_bundles_of(group);
        }
    }

    fn move_bundles_of(&mut self, id: GroupId) {
        let Some(group) = self.groups.get(id).filter(|group| group.wait.is_none()) else { return };
        let hosts = group.record.hosts.clone();
        let leaves = |at: usize| hosts[at].is_some_and(|host| self.draining.contains(&host));
        let moving: Vec<usize> = (0..hosts.len()).filter(|at| leaves(*at)).collect();
        let old: BTreeSet<BundleId> = moving.iter().filter_map(|at| group.bundles[*at]).collect();
        if moving.is_empty() || self.keeps_still(&old) {
            return;
        }
        if let Some(group) = self.groups.get_mut(id) {
            moving.iter().for_each(|at| group.record.hosts[*at] = None);
        }
        let places = self.find_places(id, &Rooms::Now);
        if let Some(group) = self.groups.get_mut(id) {
            group.record.hosts = hosts;
        }
        let Some(places) = places else { return };
        self.put_bundles(id, places);
        for bundle in old {
            if let Some(bundle) = self.bundles.end(bundle) {
                self.give_back_bundle(&bundle);
            }
        }
        self.history.add(self.now, Subject::Group(id), "moved", "a host of it is drained");
    }

    /// Whether an actor lives in any of these bundles that cannot move: what else is in the group stays with it.
    fn keeps_still(&self, bundles: &BTreeSet<BundleId>) -> bool {
        let there: BTreeSet<_> = self.draining.iter().flat_map(|host| self.holds.on_host(*host)).collect();
        let mut there = there.into_iter().filter_map(|lease| self.holds.get(lease));
        there.any(|hold| match hold.whom {
            For::Task { .. } => false,
            For::Actor { actor } => {
                hold.bundle.is_some_and(|bundle| bundles.contains(&bundle))
                    && self.actors.get(actor).is_some_and(|actor| !can_move(actor))
            }
        })
    }
}
