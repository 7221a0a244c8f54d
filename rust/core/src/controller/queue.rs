//! Demands that wait, grouped into classes of equal ones, served in turn.
//!
//! A waiter takes a turn number when it starts to wait and a new one after each grant; the lowest is
//! served first. That is first come, first served for those that wait once, and round robin for
//! those that always want more. A class that fits on no host is set aside as stuck, and looked at
//! again only when some host has more to give: a thousand equal demands cost one decision.

use raymesh_wire::{ActorId, GroupId, HostId, InGroup, ProcId, Wish};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::shapes::ShapeId;

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Waiter {
    /// A caller, for leases of its shape `key`.
    Task(ProcId, u32),
    Actor(ActorId),
}

/// How often in a row the first of a class may be passed over by those that would rather be where something
/// is free. Each time it is served again or passed over less than so often: nobody waits for ever.
const PASSES: u32 = 8;

/// Index of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ClassId(u32);

/// Demands that are equal for placement.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Class {
    /// Must be free on the host.
    pub need: ShapeId,
    /// Is held from then on.
    pub hold: ShapeId,
    pub is_task: bool,
    /// Where it wants to run, if that matters to it.
    pub wish: Option<Box<Wish>>,
    /// The last host that one of it was granted: the next one goes to the next, if they want to be spread.
    pub spread_at: HostId,
    /// In order of turns.
    pub waiting: BTreeSet<(u64, Waiter)>,
    /// Of those that wait: who would rather be on which host, by its turn.
    near: BTreeSet<(HostId, u64)>,
    /// How often in a row others of the class were served before the first of it.
    passed: u32,
    /// Hosts that could ever hold it.
    pub feasible: u32,
    /// When a waiter of it was last granted something, or the first began to wait.
    pub served_at: u64,
    /// A host is kept free for it, or was and may be again.
    pub reservation: Option<Reservation>,
    /// When to look again whether it starves.
    pub check: Option<u64>,
    /// Why it waits, and when that was found out.
    pub reason: Option<(u64, String)>,
    stuck: bool,
    /// Nobody is of it any more: its place is for another.
    vacant: bool,
}

impl Class {
    /// The bundles that it may be placed in, if it is to be placed in a group.
    pub fn group(&self) -> Option<InGroup> {
        self.wish.as_ref()?.group()
    }

    /// Whom to serve with what is free on `host`: the first, unless another one would rather be there than
    /// anywhere and the first was not passed over too often.
    pub fn first_for(&self, host: HostId) -> Option<Waiter> {
        let first = self.waiting.first()?;
        if self.passed < PASSES
            && let Some((_, turn)) = self.near.range((host, 0)..=(host, u64::MAX)).next()
            && let Some((_, waiter)) =
                self.waiting.range((*turn, Waiter::Task(ProcId::default(), 0))..).next()
        {
            return Some(*waiter);
        }
        Some(first.1)
    }
}

/// What makes demands equal.
pub(super) type Key = (ShapeId, ShapeId, bool, Option<Box<Wish>>);

/// A host kept free, see `starvation.rs`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Reservation {
    pub host: HostId,
    pub active: bool,
    pub length: u64,
}

/// All classes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Queue {
    classes: Vec<Class>,
    ids: BTreeMap<Key, ClassId>,
    by_group: BTreeSet<(GroupId, ClassId)>,
    vacant: Vec<ClassId>,
    /// Classes with waiters that may fit somewhere, by the turn of their first.
    ready: BTreeSet<(u64, ClassId)>,
    /// Classes with waiters that fit nowhere at present.
    stuck: BTreeSet<ClassId>,
    /// Where those that wait would rather be, by turn.
    near: BTreeMap<u64, HostId>,
    turn: u64,
}

impl Queue {
    /// The class of such demands, if there is one.
    pub fn known(&self, key: &Key) -> Option<ClassId> {
        self.ids.get(key).copied()
    }

    /// A new class, which so many hosts could ever serve.
    pub fn add(&mut self, key: Key, feasible: u32) -> ClassId {
        let (need, hold, is_task, wish) = key.clone();
        let class = Class {
            need,
            hold,
            is_task,
            wish,
            spread_at: HostId::default(),
            waiting: BTreeSet::new(),
            near: BTreeSet::new(),
            passed: 0,
            feasible,
            served_at: 0,
            reservation: None,
            check: None,
            reason: None,
            stuck: false,
            vacant: false,
        };
        let id = if let Some(id) = self.vacant.pop() {
            self.classes[id.0 as usize] = class;
            id
        } else {
            self.classes.push(class);
            ClassId(self.classes.len() as u32 - 1)
        };
        if let Some(place) = self.get(id).group() {
            self.by_group.insert((place.group, id));
        }
        self.ids.insert(key, id);
        id
    }

    pub fn get(&self, id: ClassId) -> &Class {
        &self.classes[id.0 as usize]
    }

    pub fn get_mut(&mut self, id: ClassId) -> &mut Class {
        &mut self.classes[id.0 as usize]
    }

    pub fn classes(&self) -> impl Iterator<Item = ClassId> + use<> {
        let present = self.classes.iter().zip(0..).filter(|(class, _)| !class.vacant);
        present.map(|(_, id)| ClassId(id)).collect::<Vec<_>>().into_iter()
    }

    /// The classes of demands that want a place in this group.
    pub fn classes_of(&self, group: GroupId) -> Vec<ClassId> {
        let all = (group, ClassId(0))..=(group, ClassId(u32::MAX));
        self.by_group.range(all).map(|(_, class)| *class).collect()
    }

    /// Groups that any class wants a place in.
    pub fn groups_of(&self, creator: ProcId) -> Vec<GroupId> {
        let first = (GroupId { creator, seq: 0 }, ClassId(0));
        let last = (GroupId { creator, seq: u32::MAX }, ClassId(u32::MAX));
        self.by_group.range(first..=last).map(|(group, _)| *group).collect()
    }

    /// How many classes there are.
    pub fn class_count(&self) -> usize {
        self.ids.len()
    }

    /// Forgets a class that nobody is of.
    pub fn forget(&mut self, id: ClassId) {
        let class = &mut self.classes[id.0 as usize];
        class.vacant = true;
        class.reason = None;
        if let Some(place) = class.group() {
            self.by_group.remove(&(place.group, id));
        }
        self.ids.remove(&(class.need, class.hold, class.is_task, class.wish.take()));
        self.vacant.push(id);
    }

    /// Lets `waiter` wait behind all others; its turn. `near`: it would rather be there.
    pub fn push(&mut self, id: ClassId, waiter: Waiter, near: Option<HostId>) -> u64 {
        self.turn += 1;
        let turn = self.turn;
        if let Some(host) = near {
            self.near.insert(turn, host);
            self.get_mut(id).near.insert((host, turn));
        }
        self.update(id, |waiting| waiting.insert((turn, waiter)));
        turn
    }

    pub fn remove(&mut self, id: ClassId, turn: u64, waiter: Waiter) {
        if let Some(host) = self.near.remove(&turn) {
            self.get_mut(id).near.remove(&(host, turn));
        }
        self.update(id, |waiting| waiting.remove(&(turn, waiter)));
    }

    fn update(&mut self, id: ClassId, change: impl FnOnce(&mut BTreeSet<(u64, Waiter)>) -> bool) {
        let class = &mut self.classes[id.0 as usize];
        let before = class.waiting.first().map(|first| first.0);
        change(&mut class.waiting);
        let after = class.waiting.first().map(|first| first.0);
        if before == after {
            return;
        }
        if let Some(turn) = before {
            self.ready.remove(&(turn, id));
        }
        match after {
            Some(turn) if !class.stuck => {
                self.ready.insert((turn, id));
            }
            Some(_) => {
                self.stuck.insert(id);
            }
            None => {
                self.stuck.remove(&id);
                class.stuck = false;
            }
        }
    }

    /// The class whose turn it is, and its first waiter.
    pub fn next(&self) -> Option<(ClassId, u64, Waiter)> {
        let (_, id) = self.ready.first()?;
        let (turn, waiter) = self.get(*id).waiting.first()?;
        Some((*id, *turn, *waiter))
    }

    /// A waiter of the class is about to be served.
    pub fn serve(&mut self, id: ClassId, waiter: Waiter) {
        let class = self.get_mut(id);
        let first = class.waiting.first().is_some_and(|first| first.1 == waiter);
        class.passed = if first { 0 } else { class.passed + 1 };
    }

    /// Sets the class aside: it fits nowhere.
    pub fn set_stuck(&mut self, id: ClassId, stuck: bool) {
        let class = &mut self.classes[id.0 as usize];
        if class.stuck == stuck {
            return;
        }
        let Some((turn, _)) = class.waiting.first().copied() else { return };
        class.stuck = stuck;
        if stuck {
            self.ready.remove(&(turn, id));
            self.stuck.insert(id);
        } else {
            self.stuck.remove(&id);
            self.ready.insert((turn, id));
        }
    }

    /// Classes with waiters that fit nowhere at present.
    pub fn stuck(&self) -> &BTreeSet<ClassId> {
        &self.stuck
    }
}
