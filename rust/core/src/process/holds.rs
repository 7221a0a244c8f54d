//! References across processes: who holds what, so far as an owner knows, and through whom.
//!
//! A hold is registered by the owner itself (it sent the borrower a value), by a third process (it sent a
//! value, or read in a reply what was kept of its arguments), or by the borrower. The owner counts by
//! both, and the borrower gives back by both: when a third one dies, it is not known which of its
//! registrations have arrived, so the borrower registers itself for all of them, and the owner drops
//! what the dead one has registered ([`super::estates`]).

use foldhash::{HashMap, HashSet};
use raymesh_wire::{ObjectId, ProcId};
use smallvec::SmallVec;

use super::{Effect, Process};

/// Of an owned object: holds of one borrower that one process has registered.
#[derive(Debug)]
pub(super) struct Hold {
    pub borrower: ProcId,
    pub through: ProcId,
    /// Giving back may overtake the registration.
    count: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Owned objects by who is mentioned in their holds, so that a death costs what it concerns.
    mentioned: HashMap<ProcId, HashSet<ObjectId>>,
    /// Borrowed objects: what was registered for us by others than their owner.
    through: HashMap<ObjectId, SmallVec<[(ProcId, u32); 1]>>,
}

impl Holds {
    pub fn census(&self) -> [(&'static str, usize); 2] {
        [
            ("objects that others hold", self.mentioned.values().map(HashSet::len).sum()),
            ("objects held through others", self.through.len()),
        ]
    }

    /// Owned objects that `proc` holds, or that others hold through it.
    pub fn mentioning(&self, proc: ProcId) -> Vec<ObjectId> {
        let mut objects: Vec<_> = self.mentioned.get(&proc).into_iter().flatten().copied().collect();
        objects.sort_unstable();
        objects
    }

    /// What is registered for us of `object`, beside what its owner has registered.
    pub fn take_through(&mut self, object: ObjectId) -> SmallVec<[(ProcId, u32); 1]> {
        if self.through.is_empty() {
            SmallVec::new()
        } else {
            self.through.remove(&object).unwrap_or_default()
        }
    }
}

impl Process {
    /// Registers `to` as a holder of each of `refs`, which this process holds. Answers the owners that
    /// must hear of it before `to` does.
    pub(super) fn lend(&mut self, refs: &[ObjectId], to: ProcId, fx: &mut Vec<Effect>) -> Vec<ProcId> {
        let mut owners = Vec::new();
        if self.is_dead(to) {
            return owners;
        }
        for object in refs {
            if object.owner == to || self.is_dead(object.owner) {
                // It comes home: the owner counts it as its own. A dead one counts nothing.
                continue;
            }
            if object.owner == self.me {
                self.register(*object, to, self.me, 1, fx);
            } else {
                self.borrows.entry(object.owner).or_default().push((*object, to));
                if !owners.contains(&object.owner) {
                    owners.push(object.owner);
                }
            }
        }
        owners
    }

    pub(super) fn register(
        &mut self,
        object: ObjectId,
        borrower: ProcId,
        through: ProcId,
        count: i64,
        fx: &mut Vec<Effect>,
    ) {
        if borrower == self.me || self.is_settled(borrower) || self.is_settled(through) {
            return;
        }
        let holds = self.objects.holds_of(object);
        let at = holds.iter().position(|hold| hold.borrower == borrower && hold.through == through);
        let Some(at) = at else {
            holds.push(Hold { borrower, through, count });
            for proc in [borrower, through] {
                if proc != self.me {
                    self.holds.mentioned.entry(proc).or_default().insert(object);
                }
            }
            self.watch(borrower, fx);
            return;
        };
        holds[at].count += count;
        if holds[at].count == 0 {
            holds.swap_remove(at);
            self.unmention(object, &[borrower, through]);
            self.doomed.push(object);
        }
    }

    /// Those of `procs` whom no hold of `object` mentions any more.
    fn unmention(&mut self, object: ObjectId, procs: &[ProcId]) {
        let holds = self.objects.holds_of(object);
        for proc in procs {
            if holds.iter().all(|hold| hold.borrower != *proc && hold.through != *proc)
                && let Some(objects) = self.holds.mentioned.get_mut(proc)
            {
                objects.remove(&object);
            }
        }
    }

    pub(super) fn accept_borrow(
        &mut self,
        from: ProcId,
        holds: Vec<(ObjectId, ProcId)>,
        fx: &mut Vec<Effect>,
    ) {
        for (object, borrower) in holds {
            self.register(object, borrower, from, 1, fx);
            self.doomed.push(object);
        }
    }

    pub(super) fn accept_release(
        &mut self,
        from: ProcId,
        holds: Vec<(ObjectId, ProcId, u32)>,
        fx: &mut Vec<Effect>,
    ) {
        for (object, through, count) in holds {
            self.register(object, from, through, -i64::from(count), fx);
        }
    }

    /// We have been registered with the owner of `object`, by `through`.
    pub(super) fn borrowed(&mut self, object: ObjectId, through: ProcId) {
        if object.owner == self.me || self.is_dead(object.owner) {
            return;
        }
        if through == object.owner {
            self.objects.borrowed_from_owner(object);
            return;
        }
        let list = self.holds.through.entry(object).or_default();
        match list.iter_mut().find(|(proc, _)| *proc == through) {
            Some((_, count)) => *count += 1,
            None => list.push((through, 1)),
        }
    }

    /// Registers this process with the owner of `object`, which it holds.
    pub(super) fn borrow_myself(&mut self, object: ObjectId) {
        if object.owner != self.me && !self.is_dead(object.owner) {
            self.borrowed(object, self.me);
            self.borrows.entry(object.owner).or_default().push((object, self.me));
        }
    }

    /// `dead` may or may not have registered us, as it was to: we do it ourselves.
    pub(super) fn inherit_from(&mut self, dead: ProcId) {
        let mut mine: Vec<(ObjectId, u32)> = Vec::new();
        self.holds.through.retain(|object, list| {
            if let Some(at) = list.iter().position(|(proc, _)| *proc == dead) {
                mine.push((*object, list.swap_remove(at).1));
            }
            !list.is_empty()
        });
        mine.sort_unstable();
        for (object, count) in mine {
            for _ in 0..count {
                self.borrow_myself(object);
            }
        }
    }

    /// Nobody holds anything through `dead` any more: its registrations and its own holds are void.
    pub(super) fn drop_holds_of(&mut self, dead: ProcId) {
        for object in self.holds.mentioning(dead) {
            let mut others = Vec::new();
            self.objects.holds_of(object).retain(|hold| {
                let gone = hold.borrower == dead || hold.through == dead;
                if gone {
                    others.extend([hold.borrower, hold.through]);
                }
                !gone
            });
            self.unmention(object, &others);
            self.doomed.push(object);
        }
        self.holds.mentioned.remove(&dead);
    }

    /// Gives back all that was registered for us of `object`, which nobody here holds any more.
    pub(super) fn give_back(&mut self, object: ObjectId, by_owner: u32) {
        let through = self.holds.take_through(object);
        let direct = (by_owner > 0).then_some((object.owner, by_owner));
        if through.is_empty() && direct.is_none() {
            return;
        }
        let releases = self.releases.entry(object.owner).or_default();
        releases.extend(direct.into_iter().chain(through).map(|(through, count)| (object, through, count)));
    }

    /// References of a value that nobody awaits: `from` has registered us for them.
    pub(super) fn give_back_unread(&mut self, refs: Vec<ObjectId>, from: ProcId) {
        for inner in refs {
            if inner.owner != self.me && !self.is_dead(inner.owner) {
                self.releases.entry(inner.owner).or_default().push((inner, from, 1));
            }
        }
    }
}
