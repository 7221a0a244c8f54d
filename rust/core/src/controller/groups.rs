//! What is known of placement groups: the living, and the lately removed.
//!
//! Groups that wait for a place are sorted into kinds of equal ones: one attempt decides for all of a kind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raymesh_wire::placement::{GroupRecord, GroupSpec, GroupState, GroupStrategy, Selector};
use raymesh_wire::{GroupId, HostId, ProcId, ResourceSet};
use serde::{Deserialize, Serialize};

use super::bundles::BundleId;

/// How many removed groups are remembered.
const REMOVED: usize = 1_000;

/// A living group.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Group {
    /// All that has to be remembered of it.
    pub record: GroupRecord,
    /// Its bundles, where they lie.
    pub bundles: Vec<Option<BundleId>>,
    pub watchers: BTreeSet<ProcId>,
    /// Since when it waits, its turn and its kind, while bundles have no place.
    pub wait: Option<Wait>,
    /// When to tell why it waits, and what was told last.
    pub due: Option<u64>,
    pub told: Option<String>,
    /// When it was asked for.
    pub born: u64,
    /// When room may be kept for it, and for how long then.
    pub turn_to_keep: (u64, u64),
}

/// A group's place in the queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Wait {
    pub turn: u64,
    pub kind: KindId,
    /// The time when it began.
    pub since: u64,
}

/// Index of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct KindId(u64);

/// What is equal for groups of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    strategy: GroupStrategy,
    bundles: Vec<(ResourceSet, Selector, Option<HostId>)>,
    near: Option<HostId>,
    same: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kind {
    key: Key,
    waiting: BTreeSet<(u64, GroupId)>,
    /// It was not tried yet since its first group came.
    fresh: bool,
}

/// All groups.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Groups {
    all: BTreeMap<GroupId, Group>,
    names: BTreeMap<(String, String), GroupId>,
    removed: BTreeMap<GroupId, GroupRecord>,
    order: VecDeque<GroupId>,
    kinds: BTreeMap<KindId, Kind>,
    by_key: BTreeMap<Key, KindId>,
    last: u64,
    /// Who wants to be told of groups whose creators have not spoken of them yet.
    pub early: BTreeMap<GroupId, BTreeSet<ProcId>>,
    /// Groups whose watchers have not been told yet how they stand.
    pub changed: BTreeSet<GroupId>,
    /// When to tell of which why it waits.
    pub notices: BTreeSet<(u64, GroupId)>,
}

impl Groups {
    pub fn get(&self, id: GroupId) -> Option<&Group> {
        self.all.get(&id)
    }

    pub fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.all.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.all.iter().map(|(id, group)| (*id, group))
    }

    /// Of each kind of groups that wait: the first, and how many there are.
    pub fn waiting_kinds(&self) -> impl Iterator<Item = (GroupId, u32)> {
        self.kinds.values().filter_map(|kind| {
            let (_, first) = kind.waiting.first()?;
            Some((*first, u32::try_from(kind.waiting.len()).unwrap_or(u32::MAX)))
        })
    }

    pub fn removed(&self, id: GroupId) -> Option<&GroupRecord> {
        self.removed.get(&id)
    }

    /// The living group of that name.
    pub fn named(&self, name: &str, namespace: &str) -> Option<&Group> {
        self.all.get(self.names.get(&(name.to_owned(), namespace.to_owned()))?)
    }

    /// All records: of the living, then of the removed.
    pub fn records(&self) -> impl Iterator<Item = &GroupRecord> {
        self.all.values().map(|group| &group.record).chain(self.removed.values())
    }

    pub fn add(&mut self, group: Group) {
        let spec = &group.record.spec;
        if !spec.name.is_empty() {
            self.names.insert((spec.name.clone(), spec.namespace.clone()), spec.group);
        }
        self.all.insert(spec.group, group);
    }

    /// Takes a group out, remembers it as removed, and returns what it had.
    pub fn remove(&mut self, id: GroupId) -> Option<Group> {
        self.stop_waiting(id);
        let mut group = self.all.remove(&id)?;
        if let Some(due) = group.due.take() {
            self.notices.remove(&(due, id));
        }
        group.record.state = GroupState::Removed;
        let spec = &group.record.spec;
        if !spec.name.is_empty() {
            self.names.remove(&(spec.name.clone(), spec.namespace.clone()));
        }
        self.removed.insert(id, group.record.clone());
        self.order.push_back(id);
        if self.order.len() > REMOVED
            && let Some(oldest) = self.order.pop_front()
        {
            self.removed.remove(&oldest);
        }
        Some(group)
    }

    /// Lets a group wait for a place, behind all others.
    pub fn wait(&mut self, id: GroupId, now: u64) {
        self.stop_waiting(id);
        let Some(group) = self.all.get_mut(&id) else { return };
        self.last += 1;
        let turn = self.last;
        let key = key(&group.record.spec, &group.record.hosts);
        let kind = *self.by_key.entry(key.clone()).or_insert(KindId(turn));
        let waiting = BTreeSet::new();
        let state = self.kinds.entry(kind).or_insert(Kind { key, waiting, fresh: true });
        state.waiting.insert((turn, id));
        group.wait = Some(Wait { turn, kind, since: now });
        group.turn_to_keep = (now + super::keeping::PATIENCE, super::keeping::FIRST);
    }

    pub fn stop_waiting(&mut self, id: GroupId) {
        let Some(wait) = self.all.get_mut(&id).and_then(|group| group.wait.take()) else { return };
        let Some(kind) = self.kinds.get_mut(&wait.kind) else { return };
        kind.waiting.remove(&(wait.turn, id));
        if kind.waiting.is_empty()
            && let Some(kind) = self.kinds.remove(&wait.kind)
        {
            self.by_key.remove(&kind.key);
        }
    }

    /// Whether any group waits.
    pub fn any_waits(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// The first group of each kind that waits, in order of turns; `fresh`: only of kinds not tried yet.
    pub fn firsts(&self, fresh: bool) -> Vec<(u64, GroupId)> {
        let kinds = self.kinds.values().filter(|kind| kind.fresh || !fresh);
        let mut firsts: Vec<_> = kinds.filter_map(|kind| kind.waiting.first().copied()).collect();
        firsts.sort_unstable();
        firsts
    }

    /// The group's kind has no place now.
    pub fn is_tried(&mut self, id: GroupId) {
        let kind = self.all.get(&id).and_then(|group| group.wait).map(|wait| wait.kind);
        if let Some(kind) = kind.and_then(|kind| self.kinds.get_mut(&kind)) {
            kind.fresh = false;
        }
    }

    /// Whether the group's kind has no place unless some host has more free than before.
    pub fn was_tried(&self, id: GroupId) -> bool {
        let wait = self.all.get(&id).and_then(|group| group.wait);
        wait.and_then(|wait| self.kinds.get(&wait.kind)).is_some_and(|kind| !kind.fresh)
    }

    /// The next of the same kind, after this one has got its place.
    pub fn next_of(&self, kind: KindId) -> Option<GroupId> {
        self.kinds.get(&kind)?.waiting.first().map(|(_, id)| *id)
    }
}

fn key(spec: &GroupSpec, hosts: &[Option<HostId>]) -> Key {
    let place = |at: usize| hosts.get(at).copied().flatten();
    let bundles = spec.bundles.iter().enumerate();
    Key {
        strategy: spec.strategy,
        bundles: bundles.map(|(at, it)| (it.resources.clone(), it.selector.clone(), place(at))).collect(),
        near: spec.near,
        same: spec.same.clone(),
    }
}
