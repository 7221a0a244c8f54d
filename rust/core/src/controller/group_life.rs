//! The life of a placement group: asked for, placed, in part lost and placed again, removed.
//!
//! All bundles get their places at once, or none does. Whoever has asked for a group first is tried first,
//! but a group that cannot have its place does not hold up others.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::control::WhichGroups;
use raymesh_wire::placement::{GroupRecord, GroupSpec, GroupState};
use raymesh_wire::{ErrorKind, ErrorValue, FromController, GroupId, HostId, JobId, ProcId};

use super::bundles::Bundle;
use super::groups::Group;
use super::history::Subject;
use super::holds::For;
use super::hosts::{Host, Keeper};
use super::keeping::Rooms;
use super::placing::{self, Places, Room};
use super::shapes::{ResId, Shape};
use super::{Controller, Effects, send, text};

/// How long a group waits before it is told why.
const PATIENCE: u64 = 1_000_000_000;

impl Controller {
    pub(super) fn create_group(&mut self, from: ProcId, spec: GroupSpec, effects: &mut Effects) {
        let id = spec.group;
        let keeper = self.detached_actor_in(from);
        let Some(creator) = self.procs.get_mut(from) else { return };
        if id.creator != from {
            return;
        }
        if !creator.created_groups.insert(id.seq) {
            // Somebody whom it was given to was quicker, and has removed it.
            send(effects, from, state_of(id, GroupState::Removed));
            return;
        }
        creator.job.get_or_insert(spec.job);
        if !spec.name.is_empty() && self.groups.named(&spec.name, &spec.namespace).is_some() {
            let reason = format!("name '{}' already exists", spec.name);
            self.history.add(self.now, Subject::Group(id), "refused", reason.clone());
            send(effects, from, FromController::GroupRefused { group: id, reason });
            self.fail_waiters_of(id, effects);
            return;
        }
        let bundles = spec.bundles.len();
        let record = GroupRecord {
            spec,
            state: GroupState::Pending,
            hosts: vec![None; bundles],
            keeper,
            took: 0,
            attempts: 0,
        };
        let watchers = self.groups.early.remove(&id).unwrap_or_default();
        self.groups.add(Group {
            record,
            bundles: vec![None; bundles],
            watchers,
            wait: None,
            due: None,
            told: None,
            born: self.now,
            turn_to_keep: (0, 0),
        });
        self.history.add(self.now, Subject::Group(id), "pending", ("created by", from));
        self.watch_group(from, id, effects);
        self.groups.wait(id, self.now);
        self.remind_group(id);
        self.reclaim.dirty = true;
        self.group_is_known(id, effects);
    }

    fn detached_actor_in(&self, proc: ProcId) -> Option<raymesh_wire::ActorId> {
        let hold = self.holds.get(self.procs.get(proc)?.hold?)?;
        let For::Actor { actor } = hold.whom else { return None };
        self.actors.get(actor).filter(|actor| actor.spec.detached).map(|_| actor)
    }

    /// Whether a group that nobody knows may still come to be.
    pub(super) fn group_may_come(&self, id: GroupId) -> bool {
        let created = self.procs.get(id.creator).is_some_and(|proc| proc.created_groups.contains(id.seq));
        !created && self.procs.death(id.creator).is_none()
    }

    pub(super) fn watch_group(&mut self, from: ProcId, id: GroupId, effects: &mut Effects) {
        let state = if let Some(group) = self.groups.get_mut(id) {
            group.watchers.insert(from);
            group.record.state
        } else if self.group_may_come(id) {
            self.groups.early.entry(id).or_default().insert(from);
            GroupState::Pending
        } else {
            send(effects, from, state_of(id, GroupState::Removed));
            return;
        };
        if let Some(proc) = self.procs.get_mut(from) {
            proc.watched_groups.insert(id);
        }
        send(effects, from, state_of(id, state));
    }

    pub(super) fn unwatch_group(&mut self, from: ProcId, id: GroupId) {
        if let Some(group) = self.groups.get_mut(id) {
            group.watchers.remove(&from);
        }
        if let Some(early) = self.groups.early.get_mut(&id) {
            early.remove(&from);
        }
        if let Some(proc) = self.procs.get_mut(from) {
            proc.watched_groups.remove(&id);
        }
    }

    pub(super) fn find_groups(&self, which: &WhichGroups) -> Vec<GroupRecord> {
        match which {
            WhichGroups::All => self.groups.records().cloned().collect(),
            WhichGroups::One(id) => {
                let living = self.groups.get(*id).map(|group| &group.record);
                living.or_else(|| self.groups.removed(*id)).cloned().into_iter().collect()
            }
            WhichGroups::Named { name, namespace } => {
                self.groups.named(name, namespace).map(|group| group.record.clone()).into_iter().collect()
            }
        }
    }

    /// Gives places to groups that wait: those not tried yet, and, where hosts have more to give than
    /// before, all that could use any of these hosts.
    pub(super) fn place_groups(&mut self) {
        if !self.groups.any_waits() {
            return;
        }
        let freed = !self.hosts.freed.is_empty();
        for (_, first) in self.groups.firsts(!freed) {
            if self.groups.was_tried(first) && !self.could_use_freed(first) {
                continue;
            }
            let mut next = Some(first);
            while let Some(id) = next {
                let kind = self.groups.get(id).and_then(|group| group.wait).map(|wait| wait.kind);
                if !self.place_group(id) {
                    self.groups.is_tried(id);
                    break;
                }
                next = kind.and_then(|kind| self.groups.next_of(kind));
            }
        }
    }

    /// Whether any bundle of the group that has no place fits on a host that has more free than when it was tried
    /// last. If not, it has no place now either, and a lease that ends does not cost a look at all hosts.
    fn could_use_freed(&mut self, id: GroupId) -> bool {
        let Some(group) = self.groups.get(id) else { return false };
        let bundles = group.record.spec.bundles.iter().zip(&group.record.hosts);
        let missing: BTreeSet<_> =
            bundles.filter(|(_, at)| at.is_none()).map(|(bundle, _)| &bundle.resources).collect();
        let missing: Vec<Shape> = missing.into_iter().map(|set| self.shapes.shape(set)).collect();
        let mut freed = self.hosts.freed.iter().filter_map(|host| self.hosts.get(*host));
        freed.any(|host| missing.iter().any(|shape| host.fits(shape)))
    }

    fn place_group(&mut self, id: GroupId) -> bool {
        let Some(group) = self.groups.get_mut(id) else { return false };
        group.record.attempts += 1;
        let planned = self.plan_fits(id);
        let Some(places) = planned.or_else(|| self.find_places(id, &Rooms::Now)) else { return false };
        self.put_bundles(id, places);
        self.groups.stop_waiting(id);
        self.end_keeping(id);
        let now = self.now;
        if let Some(group) = self.groups.get_mut(id) {
            if group.record.state == GroupState::Pending {
                group.record.took = now.saturating_sub(group.born);
            }
            group.record.state = GroupState::Created;
            group.told = None;
            if let Some(due) = group.due.take() {
                self.groups.notices.remove(&(due, id));
            }
        }
        self.history.add(now, Subject::Group(id), "created", "all bundles have a place");
        self.groups.changed.insert(id);
        true
    }

    /// Lets bundles of a group lie where they fit.
    pub(super) fn put_bundles(&mut self, id: GroupId, places: Places) {
        let spec = self.groups.get(id).map(|group| group.record.spec.bundles.clone()).unwrap_or_default();
        for (index, host) in places {
            let shape = self.shapes.shape(&spec[index].resources);
            let gpus = self.hosts.take(host, &shape);
            let bundle = self.bundles.add(id, index as u32, host, shape, gpus);
            if let Some(group) = self.groups.get_mut(id) {
                group.record.hosts[index] = Some(host);
                group.bundles[index] = Some(bundle);
            }
            // Whoever waits for the bundle is looked at.
            self.hosts.freed.insert(host);
        }
    }

    /// Places for the bundles that have none.
    pub(super) fn find_places(&mut self, id: GroupId, rooms: &Rooms) -> Option<Places> {
        let record = &self.groups.get(id)?.record;
        let missing: Vec<usize> = (0..record.hosts.len()).filter(|at| record.hosts[*at].is_none()).collect();
        let specs: Vec<_> = missing.iter().map(|at| record.spec.bundles[*at].clone()).collect();
        let shapes: Vec<Shape> = specs.iter().map(|spec| self.shapes.shape(&spec.resources)).collect();
        let record = &self.groups.get(id)?.record;
        let resources: BTreeSet<ResId> =
            shapes.iter().flat_map(|shape| shape.amounts.iter().map(|(id, _)| *id)).collect();
        let mut counts: BTreeMap<HostId, u32> = BTreeMap::new();
        record.hosts.iter().flatten().for_each(|host| *counts.entry(*host).or_default() += 1);
        let lies_there = |host| counts.get(&host).copied().unwrap_or(0);
        let room = |(at, host): (HostId, &Host)| {
            let suits: Vec<_> = specs.iter().map(|spec| spec.selector.matches(&host.labels)).collect();
            let (free, gpus) = match rooms {
                Rooms::Now => host.room(&resources, Keeper::Group(id)),
                Rooms::Empty => host.empty_room(&resources),
                Rooms::Without { firm, .. } => {
                    let (mut free, gpus) = host.empty_room(&resources);
                    for (res, n) in firm.get(&at).into_iter().flatten() {
                        free.entry(*res).and_modify(|free| *free = free.saturating_sub(*n));
                    }
                    (free, gpus)
                }
            };
            Room { host: at, gpus, free, suits, bundles: lies_there(at) }
        };
        let takes = |(id, host): &(HostId, &Host)| {
            let among = match rooms {
                Rooms::Now | Rooms::Empty => true,
                Rooms::Without { among, .. } => among.contains(id),
            };
            among && host.takes_work() && host.draining.is_none()
        };
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let (strategy, near) = (record.spec.strategy, record.spec.near);
        let found = if record.spec.same.is_empty() {
            let rooms = self.hosts.iter().filter(takes).map(room).collect();
            placing::place(rooms, &shapes, strategy, near)
        } else {
            // The hosts with one value of the label after those with another.
            let label = |host: &Host| {
                let label = host.labels.iter().find(|(key, _)| *key == record.spec.same);
                label.map(|(_, value)| value.clone())
            };
            let lying: BTreeSet<_> =
                record.hosts.iter().flatten().filter_map(|id| label(self.hosts.get(*id)?)).collect();
            let values: BTreeSet<String> = if lying.is_empty() {
                self.hosts.iter().filter_map(|(_, host)| label(host)).collect()
            } else {
                lying
            };
            values.iter().find_map(|value| {
                let of = self.hosts.iter().filter(|(_, host)| label(host).as_ref() == Some(value));
                placing::place(of.filter(takes).map(room).collect(), &shapes, strategy, near)
            })
        }?;
        Some(found.into_iter().map(|(at, host)| (missing[at], host)).collect())
    }

    /// The group is removed: what runs in it ends.
    pub(super) fn remove_group(&mut self, id: GroupId, effects: &mut Effects) {
        let Some(group) = self.groups.remove(id) else {
            if self.group_may_come(id)
                && let Some(creator) = self.procs.get_mut(id.creator)
            {
                // It overtook the creation: that will count as done already.
                creator.created_groups.insert(id.seq);
                self.tell_early(id, effects);
            }
            return;
        };
        self.end_keeping(id);
        self.history.add(self.now, Subject::Group(id), "removed", "asked to go, or its job ended");
        for watcher in &group.watchers {
            if let Some(proc) = self.procs.get_mut(*watcher) {
                proc.watched_groups.remove(&id);
            }
            send(effects, *watcher, state_of(id, GroupState::Removed));
        }
        self.fail_waiters_of(id, effects);
        let moved = self.draining.iter().flat_map(|host| self.bundles.on_host(*host));
        let moved = moved.filter(|(_, bundle)| bundle.group == id).map(|(bundle, _)| bundle);
        let bundles: BTreeSet<_> = group.bundles.into_iter().flatten().chain(moved).collect();
        // Not all holds of the cluster are looked through, but those where the bundles lie.
        let lie: BTreeSet<HostId> =
            bundles.iter().filter_map(|id| Some(self.bundles.get(*id)?.host)).collect();
        let there: BTreeSet<_> = lie.iter().flat_map(|host| self.holds.on_host(*host)).collect();
        let users = there.into_iter().filter_map(|lease| Some((lease, self.holds.get(lease)?)));
        let users = users.filter(|(_, hold)| hold.bundle.is_some_and(|it| bundles.contains(&it)));
        let users: Vec<_> = users.map(|(lease, hold)| (lease, hold.whom)).collect();
        for (lease, whom) in users {
            match whom {
                For::Task { caller, key, .. } => {
                    let error = removed_for_tasks();
                    send(effects, caller, FromController::Unschedulable { key, error });
                    self.cut_off(lease, effects);
                }
                For::Actor { actor } => self.group_of_actor_removed(actor, effects),
            }
        }
        for bundle in bundles {
            if let Some(bundle) = self.bundles.end(bundle) {
                self.give_back_bundle(&bundle);
            }
        }
    }

    /// Nobody uses the bundle any more: what it held is free.
    pub(super) fn give_back_bundle(&mut self, bundle: &Bundle) {
        self.hosts.give(bundle.host, &bundle.shape, &bundle.gpus, false);
    }

    /// The bundles on this host are lost: they get other places.
    pub(super) fn lose_bundles(&mut self, host: HostId) {
        let lost: Vec<_> = self.bundles.on_host(host).map(|(id, it)| (id, it.group, it.ended)).collect();
        for (bundle, group, ended) in lost {
            // One that has moved is not the group's any more.
            if let Some(state) = self.groups.get_mut(group).filter(|_| !ended) {
                for (place, at) in state.bundles.iter_mut().zip(&mut state.record.hosts) {
                    if *place == Some(bundle) {
                        (*place, *at) = (None, None);
                    }
                }
                state.record.state = GroupState::Rescheduling;
                self.groups.changed.insert(group);
                self.groups.wait(group, self.now);
                self.remind_group(group);
                self.history.add(self.now, Subject::Group(group), "rescheduling", "a host was lost");
            }
            // The host is gone: nothing is given back.
            let _ = self.bundles.end(bundle);
        }
    }

    /// A driver has ended: the groups of its job go with it.
    pub(super) fn remove_groups_of_job(&mut self, job: JobId, effects: &mut Effects) {
        self.remove_groups_if(effects, |record| {
            record.spec.job == job && !record.spec.detached && record.keeper.is_none()
        });
    }

    /// A detached actor is dead: so are the groups that it created.
    pub(super) fn remove_groups_of_actor(&mut self, actor: raymesh_wire::ActorId, effects: &mut Effects) {
        self.remove_groups_if(effects, |record| !record.spec.detached && record.keeper == Some(actor));
    }

    fn remove_groups_if(&mut self, effects: &mut Effects, goes: impl Fn(&GroupRecord) -> bool) {
        let going: Vec<_> =
            self.groups.iter().filter(|(_, group)| goes(&group.record)).map(|(id, _)| id).collect();
        for id in going {
            self.remove_group(id, effects);
        }
    }

    /// Tells the watchers of groups that have changed, and why others wait.
    pub(super) fn tell_of_groups(&mut self, effects: &mut Effects) {
        for id in std::mem::take(&mut self.groups.changed) {
            let Some(group) = self.groups.get(id) else { continue };
            for watcher in &group.watchers {
                send(effects, *watcher, state_of(id, group.record.state));
            }
        }
        while let Some((at, id)) = self.groups.notices.first().copied()
            && at <= self.now
        {
            self.groups.notices.pop_first();
            if let Some(group) = self.groups.get_mut(id) {
                group.due = None;
            }
            self.tell_why_group_waits(id, effects);
        }
    }

    fn remind_group(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let at = self.now + PATIENCE;
        if let Some(due) = group.due.replace(at) {
            self.groups.notices.remove(&(due, id));
        }
        self.groups.notices.insert((at, id));
    }

    fn tell_why_group_waits(&mut self, id: GroupId, effects: &mut Effects) {
        let Some((_, why)) = self.why_group_waits(id) else { return };
        let Some(group) = self.groups.get(id) else { return };
        let spec = &group.record.spec;
        let bundles: Vec<_> = spec.bundles.iter().map(|bundle| text::resources(&bundle.resources)).collect();
        let mut asked = bundles.join(", ");
        if asked.len() > 300 {
            asked = format!("{} and so on ({} bundles)", &bundles[0], bundles.len());
        }
        let name = if spec.name.is_empty() { String::new() } else { format!(" {:?}", spec.name) };
        let why = format!("placement group{name} ({:?}: {asked}) has no place: {why}", spec.strategy);
        let creator = id.creator;
        if group.told.as_ref() != Some(&why) {
            let message =
                FromController::GroupState { group: id, state: group.record.state, why: why.clone() };
            send(effects, creator, message);
        }
        if let Some(group) = self.groups.get_mut(id) {
            group.told = Some(why);
        }
    }

    /// Of a group that waits for a place: whether it can never have one, and why it has none.
    pub(super) fn why_group_waits(&mut self, id: GroupId) -> Option<(bool, String)> {
        self.groups.get(id).filter(|group| group.wait.is_some())?;
        if self.find_places(id, &Rooms::Empty).is_some() {
            return Some((false, "what is free now does not do: it waits".to_owned()));
        }
        let count = self.hosts.len();
        Some((true, format!("the {count} hosts of the cluster could not hold it even if they were empty")))
    }

    /// Whoever watches a group that will not be any more is told.
    pub(super) fn tell_early(&mut self, id: GroupId, effects: &mut Effects) {
        for watcher in self.groups.early.remove(&id).unwrap_or_default() {
            if let Some(proc) = self.procs.get_mut(watcher) {
                proc.watched_groups.remove(&id);
            }
            send(effects, watcher, state_of(id, GroupState::Removed));
        }
        self.fail_waiters_of(id, effects);
    }

    /// A process that might have created groups has died, and will not.
    pub(super) fn never_created_groups(&mut self, creator: ProcId, effects: &mut Effects) {
        let all = GroupId { creator, seq: 0 }..=GroupId { creator, seq: u32::MAX };
        let watched = self.groups.early.range(all).map(|(id, _)| *id);
        let wanted = self.queue.groups_of(creator).into_iter();
        let ids: BTreeSet<_> = watched.chain(wanted.filter(|id| self.groups.get(*id).is_none())).collect();
        for id in ids {
            self.tell_early(id, effects);
        }
    }

    /// How a process died that worked in a bundle of a group that is removed.
    pub(super) fn group_of_actor_removed(&mut self, actor: raymesh_wire::ActorId, effects: &mut Effects) {
        let Some(state) = self.actors.get(actor) else { return };
        let text = format!("The actor {} died because its placement group was removed.", state.title());
        self.end_for_good(actor, ErrorValue::text(ErrorKind::ActorDied, text), effects);
    }
}

fn state_of(group: GroupId, state: GroupState) -> FromController {
    FromController::GroupState { group, state, why: String::new() }
}

/// What tasks of a removed group fail with.
pub(super) fn removed_for_tasks() -> ErrorValue {
    ErrorValue::text(ErrorKind::GroupRemoved, "The placement group of the task has been removed.")
}
