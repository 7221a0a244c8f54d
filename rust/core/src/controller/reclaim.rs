//! Asks callers for leases that others need.

use std::collections::BTreeSet;

use raymesh_wire::{FromController, GroupId, ProcId};
use serde::{Deserialize, Serialize};

use super::queue::Waiter;
use super::shapes::Shape;
use super::{Controller, Effects, send};

/// At most one round of requests in this time: a caller that shares its workers with others keeps
/// each for a while, or they would do nothing but change hands.
const SPACING: u64 = 2_000_000;

/// So many callers are looked at without a second thought.
const FEW: usize = 16;

/// Something that others might give back.
struct Unmet {
    /// None: a placement group.
    waiter: Option<Waiter>,
    /// Leases that it has already.
    has: u32,
    need: Shape,
    /// It is wanted of what this group holds; else of hosts.
    group: Option<GroupId>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reclaim {
    /// Callers with leases that were not asked since they got the latest of them.
    unasked: BTreeSet<ProcId>,
    /// Somebody's wishes or possessions have changed since the last round.
    pub dirty: bool,
    last: Option<u64>,
    /// When the next round is due.
    pub due: Option<u64>,
}

impl Reclaim {
    /// The caller has got a lease.
    pub fn holds(&mut self, caller: ProcId) {
        self.unasked.insert(caller);
        self.dirty = true;
    }

    /// The caller has no leases any more.
    pub fn gone(&mut self, caller: ProcId) {
        self.unasked.remove(&caller);
    }
}

impl Controller {
    pub(super) fn reclaim_leases(&mut self, effects: &mut Effects) {
        if (self.queue.stuck().is_empty() && !self.groups.any_waits()) || self.reclaim.unasked.is_empty() {
            self.reclaim.due = None;
            return;
        }
        if !self.reclaim.dirty {
            return;
        }
        let due = self.reclaim.last.map_or(0, |last| last + SPACING);
        if self.now < due {
            self.reclaim.due = Some(due);
            return;
        }
        self.reclaim.dirty = false;
        self.reclaim.due = None;
        let unmet = self.unmet();
        if unmet.is_empty() {
            return;
        }
        let asked: Vec<_> =
            self.reclaim.unasked.iter().copied().filter(|it| self.should_give(*it, &unmet)).collect();
        // A round that had many to look at, or changed something, is not repeated at once.
        if !asked.is_empty() || self.reclaim.unasked.len() > FEW {
            self.reclaim.last = Some(self.now);
        }
        for caller in asked {
            self.reclaim.unasked.remove(&caller);
            send(effects, caller, FromController::ReclaimLeases);
        }
    }

    /// Of each class that could be placed if others gave something back, the next two waiters, with the
    /// number of leases they have already; and the placement groups that wait, the first of each kind.
    fn unmet(&mut self) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        for class in self.queue.stuck() {
            let class = self.queue.get(*class);
            if class.feasible > 0 {
                let need = self.shapes.get(class.need);
                let group = class.group().map(|place| place.group);
                unmet.extend(class.waiting.iter().take(2).map(|(_, waiter)| {
                    let (waiter, has) = (Some(*waiter), self.leases_of(*waiter));
                    Unmet { waiter, has, need: need.clone(), group }
                }));
            }
        }
        for (_, id) in self.groups.firsts(false) {
            let Some(group) = self.groups.get(id) else { continue };
            let record = &group.record;
            let missing = record.spec.bundles.iter().zip(&record.hosts).filter(|(_, host)| host.is_none());
            let mut all = raymesh_wire::ResourceSet::new();
            missing.for_each(|(bundle, _)| all.add(&bundle.resources));
            unmet.push(Unmet { waiter: None, has: 0, need: self.shapes.shape(&all), group: None });
        }
        unmet
    }

    fn leases_of(&self, waiter: Waiter) -> u32 {
        match waiter {
            Waiter::Task(caller, key) => {
                self.procs.get(caller).and_then(|proc| proc.demands.get(&key)).map_or(0, |d| d.leases)
            }
            Waiter::Actor(_) => 0,
        }
    }

    /// Whether the caller has leases that may be idle, or more than its share.
    fn should_give(&self, caller: ProcId, unmet: &[Unmet]) -> bool {
        let Some(proc) = self.procs.get(caller) else { return false };
        proc.demands.iter().filter(|(_, demand)| demand.leases > 0).any(|(key, demand)| {
            let class = self.queue.get(demand.class);
            let (held, group) = (self.shapes.get(class.hold), class.group().map(|place| place.group));
            unmet.iter().any(|unmet| {
                unmet.waiter != Some(Waiter::Task(caller, *key))
                    && unmet.group == group
                    && held.overlaps(&unmet.need)
                    && (demand.unserved == 0 || demand.leases > unmet.has + u32::from(unmet.has > 0))
            })
        })
    }
}
