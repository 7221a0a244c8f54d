//! Keeps room for placement groups that smaller demands would overtake for ever.
//!
//! A group that has waited for a second has its bundles planned on hosts where they would fit if what runs there
//! ended: rather where only tasks are in the way, and where the least is held. What the plan needs is kept free there:
//! others get what is left beyond it, and the group has its place when all of it is free. Until then or for a while:
//! what runs there might wait for those others. Each time is twice as long as the one before, and as long a pause
//! follows. So a group whose room never comes free costs at most half of the time of a part of the hosts, and one that
//! no hosts could hold costs nothing.
//!
//! Room is kept for one group at a time, in order of turns, all of the plan at once: two can never have half each.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::{GroupId, HostId};
use serde::{Deserialize, Serialize};

use super::Controller;
use super::holds::For;
use super::hosts::{Keeper, Kept};
use super::placing::Places;
use super::shapes::{ResId, Shape};

/// How long a group waits before room is kept for it.
pub(super) const PATIENCE: u64 = 1_000_000_000;
/// For how long at first, and at most.
pub(super) const FIRST: u64 = 1_000_000_000;
const LONGEST: u64 = 60_000_000_000;
/// So many groups are planned for at a time, if there is no plan for the first ones.
const FEW: usize = 4;

/// For which group room is kept, and how its bundles are to lie.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Keeping {
    active: Option<GroupId>,
    plan: Places,
    /// When to look again.
    pub due: Option<u64>,
}

/// What is to be kept of which host.
type Amounts = Vec<(HostId, Vec<(ResId, u64)>)>;

/// What is thought to be free of hosts.
pub(super) enum Rooms {
    /// What is free now.
    Now,
    /// All.
    Empty,
    /// All of those `among` them, without what `firm` says.
    Without { among: BTreeSet<HostId>, firm: BTreeMap<HostId, BTreeMap<ResId, u64>> },
}

impl Controller {
    /// Begins and ends to keep room, when it is time.
    pub(super) fn update_keeping(&mut self) {
        if !self.groups.any_waits() {
            self.keeping.due = None;
            return;
        }
        let due = *self.keeping.due.get_or_insert(self.now + PATIENCE);
        if self.now < due {
            return;
        }
        if let Some(group) = self.keeping.active {
            self.end_keeping(group);
        }
        let length = self.begin_keeping().unwrap_or(PATIENCE);
        self.keeping.due = Some(self.now + length);
    }

    /// Keeps room for the first group that has waited for long and that hosts could hold. For how long.
    fn begin_keeping(&mut self) -> Option<u64> {
        let now = self.now;
        let firsts = self.groups.firsts(false).into_iter().map(|(_, id)| id);
        let waits = |id: &GroupId| self.groups.get(*id).is_some_and(|group| group.turn_to_keep.0 <= now);
        let few: Vec<_> = firsts.filter(waits).take(FEW).collect();
        for id in few {
            let plan = self.plan(id);
            let group = self.groups.get_mut(id)?;
            let length = group.turn_to_keep.1;
            let busy = if plan.is_some() { length } else { 0 };
            group.turn_to_keep = (now + busy + length, (length * 2).min(LONGEST));
            if let Some((plan, amounts)) = plan {
                for (host, amounts) in amounts {
                    if let Some(host) = self.hosts.get_mut(host) {
                        host.kept = Some(Kept { whom: Keeper::Group(id), amounts });
                    }
                }
                self.reservations += 1;
                self.keeping = Keeping { active: Some(id), plan, due: None };
                return Some(length);
            }
        }
        None
    }

    /// Nothing is kept for the group any more.
    pub(super) fn end_keeping(&mut self, id: GroupId) {
        if self.keeping.active != Some(id) {
            return;
        }
        let Keeping { plan, .. } = std::mem::take(&mut self.keeping);
        // Another one's turn.
        self.keeping.due = Some(self.now);
        self.reservations -= 1;
        for (_, host) in plan {
            if let Some(state) = self.hosts.get_mut(host).filter(|host| host.kept.is_some()) {
                state.kept = None;
                self.hosts.freed.insert(host);
            }
        }
    }

    /// The plan of the group for which room is kept, if all that it needs is free.
    pub(super) fn plan_fits(&mut self, id: GroupId) -> Option<Places> {
        if self.keeping.active != Some(id) {
            return None;
        }
        let shapes = self.shapes_of(id, &self.keeping.plan.clone());
        let resources: BTreeSet<ResId> =
            shapes.iter().flat_map(|shape| shape.amounts.iter().map(|(id, _)| *id)).collect();
        let mut rooms = BTreeMap::new();
        for ((_, host), shape) in self.keeping.plan.iter().zip(&shapes) {
            let state = self.hosts.get(*host).filter(|state| state.draining.is_none())?;
            let (free, gpus) =
                rooms.entry(*host).or_insert_with(|| state.room(&resources, Keeper::Group(id)));
            for (res, n) in &shape.amounts {
                let free = free.get_mut(res)?;
                *free = free.checked_sub(*n)?;
            }
            if !gpus.fits(shape.gpu) {
                return None;
            }
            gpus.take(shape.gpu);
        }
        Some(self.keeping.plan.clone())
    }

    fn shapes_of(&mut self, id: GroupId, places: &Places) -> Vec<Shape> {
        let Some(group) = self.groups.get(id) else { return Vec::new() };
        let bundles = &group.record.spec.bundles;
        places.iter().map(|(at, _)| self.shapes.shape(&bundles[*at].resources)).collect()
    }

    /// Where the bundles of a group could lie, and what that would take of each host.
    fn plan(&mut self, id: GroupId) -> Option<(Places, Amounts)> {
        let firm = self.firm();
        let mut hosts: Vec<_> = self
            .hosts
            .iter()
            .filter(|(_, host)| host.kept.is_none())
            .map(|(id, host)| ((sum(firm.get(&id)), host.books().map(|(_, _, held)| held).sum::<u64>()), id))
            .collect();
        hosts.sort_unstable();
        let all: Vec<HostId> = hosts.into_iter().map(|(_, id)| id).collect();
        let places = [firm, BTreeMap::new()].into_iter().find_map(|firm| {
            // Of few hosts first: those where the least is in the way.
            let mut rooms = Rooms::Without { among: BTreeSet::new(), firm };
            let mut count = 1;
            loop {
                if let Rooms::Without { among, .. } = &mut rooms {
                    among.extend(all.iter().take(count));
                }
                let found = self.find_places(id, &rooms);
                if found.is_some() || count >= all.len() {
                    return found;
                }
                count *= 2;
            }
        })?;
        let shapes = self.shapes_of(id, &places);
        let mut amounts: BTreeMap<HostId, BTreeMap<ResId, u64>> = BTreeMap::new();
        for ((_, host), shape) in places.iter().zip(&shapes) {
            let of_host = amounts.entry(*host).or_default();
            for (res, n) in &shape.amounts {
                *of_host.entry(*res).or_default() += n;
            }
        }
        let amounts = amounts.into_iter().map(|(host, amounts)| (host, amounts.into_iter().collect()));
        Some((places, amounts.collect()))
    }

    /// What actors and other groups hold of hosts: it may stay for long.
    fn firm(&self) -> BTreeMap<HostId, BTreeMap<ResId, u64>> {
        let actors = self.holds.iter().map(|(_, hold)| hold);
        let actors = actors.filter(|hold| matches!(hold.whom, For::Actor { .. }) && hold.bundle.is_none());
        let actors = actors.map(|hold| (hold.host, self.shapes.get(hold.shape)));
        let bundles = self.bundles.iter().map(|(_, bundle)| (bundle.host, &bundle.shape));
        let mut firm: BTreeMap<HostId, BTreeMap<ResId, u64>> = BTreeMap::new();
        for (host, shape) in actors.chain(bundles) {
            let of_host = firm.entry(host).or_default();
            for (res, n) in &shape.amounts {
                *of_host.entry(*res).or_default() += n;
            }
        }
        firm
    }

    /// Whether what is kept on hosts is what the plan says: part of [`Controller::audit`].
    pub(super) fn audit_keeping(&self) -> Result<(), String> {
        let Keeping { active, plan, .. } = &self.keeping;
        let planned: BTreeSet<HostId> = plan.iter().map(|(_, host)| *host).collect();
        let kept: BTreeSet<HostId> = self
            .hosts
            .iter()
            .filter(|(_, host)| matches!(&host.kept, Some(Kept { whom: Keeper::Group(_), .. })))
            .map(|(id, _)| id)
            .collect();
        let waits = active.is_none_or(|id| self.groups.get(id).is_some_and(|group| group.wait.is_some()));
        if planned != kept || active.is_none() != plan.is_empty() || !waits {
            return Err(format!("room is kept on {kept:?} for {active:?}, planned is {plan:?}"));
        }
        Ok(())
    }
}

fn sum(amounts: Option<&BTreeMap<ResId, u64>>) -> u64 {
    amounts.map_or(0, |amounts| amounts.values().fold(0, |sum, n| sum.saturating_add(*n)))
}
