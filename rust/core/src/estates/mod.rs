//! What the dead leave behind: memory that others read, and references that they held for others.
//!
//! The books of a process die with it. So the living are asked, in rounds, of which one runs at a time
//! and settles all deaths since the last:
//!
//! 1. *Mourn.* All learn who has died. Whoever holds something that only a dead one stood for (an
//!    argument of its call, what it was to register) registers itself. The answer leaves a process after
//!    everything that it sent before.
//! 2. *Take stock.* All name the objects of dead owners that they hold, or held since they mourned; their
//!    own objects in heaps of the dead; and blocks of their heaps that hold objects of the dead. What is
//!    named has its place kept and told to those who do not know it. What is not named is free.
//! 3. *Settled.* Owners and callers drop what they kept in the name of the dead. (If somebody was told of
//!    an object with references inside, he registers for these first: a second, small "mourn".)
//!
//! - this file: [`Estates`], and what goes on between rounds.
//! - [`round`]: one round.
//!
//! # Why nothing is freed that somebody holds
//!
//! Between the sending of an answer in 1 and a question in 2 lie all answers in 1: whatever was sent before
//! one of these has arrived before the question (processes have one mailbox each, and it is first in,
//! first out). So a reference that arrives *after* its receiver took stock was sent after its sender
//! mourned, and the sender names it. One that goes on and on is named by the first who sent it. And who
//! dies before he has taken stock ends the round: the next one settles his death as well.
//!
//! So an object of a dead owner needs no counts: its readers may pass it on without a word. When the last
//! who named it has let go, a round asks whether anybody else holds it.

mod round;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::control::Stock;
use raymesh_wire::{Block, FromController, HostId, ObjectId, ProcId};
use serde::{Deserialize, Serialize};

use round::{Phase, Round};

/// Deaths that come so close together are settled in one round.
pub(crate) const DELAY: u64 = 10_000_000;
/// Who looks for an object is told after so long that it is gone, although somebody has not answered: it
/// may be stopped, in a debugger for instance. Nothing is freed meanwhile.
pub(crate) const PATIENCE: u64 = 2_000_000_000;

/// After a round there is none for as long as it took, up to this: however many processes there are and however often
/// some of them die, half of the time is left for other things.
pub(crate) const REST: u64 = 500_000_000;

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Send {
        to: ProcId,
        message: FromController,
    },
    /// The memory of `dead` is free, but for these blocks.
    Sweep {
        dead: ProcId,
        except: Vec<Block>,
    },
    /// What was left by an earlier sweep is free as well: one block, by its home.
    Free(Block),
}

/// An object whose owner or whose memory's home is dead, and that is in use.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    block: Block,
    refs: Vec<ObjectId>,
    /// Who named it. There may be others who hold it, but not without one of these.
    needed_by: BTreeSet<ProcId>,
}

/// See the module.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Estates {
    living: BTreeSet<ProcId>,
    /// Died, and in no round yet.
    unsettled: BTreeSet<ProcId>,
    /// Dead ones of whose last words some may be under way to third hosts: no round begins before they are
    /// there.
    under_way: BTreeSet<ProcId>,
    /// When the next round is to begin.
    due: Option<u64>,
    last_round: u64,
    /// When the last round began, and until when there is no other.
    began: u64,
    rest_until: u64,
    round: Option<Round>,
    kept: BTreeMap<ObjectId, Kept>,
    /// Hosts that are gone with their memory.
    lost: BTreeSet<HostId>,
    /// Who asked for objects of owners that are not settled.
    seekers: BTreeSet<(ObjectId, ProcId)>,
    /// When they are told what is known by then.
    impatient_at: Option<u64>,
}

impl Estates {
    /// A process is there, and will answer.
    pub fn started(&mut self, proc: ProcId) {
        self.living.insert(proc);
    }

    /// Of one that is about to die, for us: what it sent to other hosts may not be there yet.
    pub fn is_under_way(&mut self, dead: ProcId) {
        if self.living.contains(&dead) {
            self.under_way.insert(dead);
        }
    }

    /// Now it is.
    pub fn heard(&mut self, dead: ProcId) {
        self.under_way.remove(&dead);
    }

    /// `urgent`: it may have left something behind.
    pub fn died(&mut self, dead: ProcId, urgent: bool, now: u64, out: &mut Vec<Outcome>) {
        if !self.living.remove(&dead) {
            return;
        }
        self.seekers.retain(|(_, who)| *who != dead);
        self.unsettled.insert(dead);
        if let Some(round) = self.round.take_if(|round| round.needs_answers_of(dead)) {
            // A new one, in a moment: many may be dying.
            self.unsettled.extend(round.dead);
            self.rest(now);
            self.want_round(now);
            return;
        }
        if urgent || self.kept.values().any(|kept| kept.needed_by.contains(&dead)) {
            self.want_round(now);
        }
        if let Some(round) = &mut self.round {
            round.silent.remove(&dead);
            self.go_on(now, out);
        }
    }

    /// The host is gone, and all its memory.
    pub fn host_lost(&mut self, host: HostId) {
        self.lost.insert(host);
        self.under_way.retain(|dead| dead.host() != host);
        self.kept.retain(|_, kept| kept.block.host() != host);
    }

    fn want_round(&mut self, now: u64) {
        self.due.get_or_insert((now + DELAY).max(self.rest_until));
    }

    /// A round is over, or was given up.
    fn rest(&mut self, now: u64) {
        self.rest_until = now + now.saturating_sub(self.began).min(REST);
        if let Some(due) = &mut self.due {
            *due = (*due).max(self.rest_until);
        }
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.due.filter(|_| self.may_begin()).into_iter().chain(self.impatient_at).min()
    }

    fn may_begin(&self) -> bool {
        self.round.is_none() && self.under_way.is_empty()
    }

    /// Begins a round, if one is due.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Outcome>) {
        if self.may_begin() && self.due.is_some_and(|at| at <= now) {
            self.due = None;
            self.began = now;
            self.begin(out);
            self.go_on(now, out);
        }
        if self.impatient_at.take_if(|at| *at <= now).is_some() {
            for (object, who) in std::mem::take(&mut self.seekers) {
                let place = self.round.as_ref().and_then(|round| round.places.get(&object));
                let found = place.filter(|(block, _)| !self.lost.contains(&block.host())).cloned();
                if let Some(round) = &mut self.round {
                    round.need(object, who);
                }
                out.push(Outcome::Send { to: who, message: FromController::Found { object, found } });
            }
        }
    }

    fn begin(&mut self, out: &mut Vec<Outcome>) {
        self.last_round += 1;
        let dead = std::mem::take(&mut self.unsettled);
        let round = self.round.insert(Round::new(self.last_round, dead, &self.living));
        let owners: BTreeSet<ProcId> = self
            .kept
            .keys()
            .map(|object| object.owner)
            .filter(|owner| !self.living.contains(owner))
            .collect();
        let message = FromController::Mourn {
            round: round.number,
            dead: round.dead.iter().copied().collect(),
            owners: owners.into_iter().collect(),
        };
        out.extend(self.living.iter().map(|to| Outcome::Send { to: *to, message: message.clone() }));
    }

    pub fn mourned(&mut self, from: ProcId, number: u64, now: u64, out: &mut Vec<Outcome>) {
        if self.round.as_mut().is_some_and(|round| round.mourned(from, number)) {
            self.go_on(now, out);
        }
    }

    pub fn stock(&mut self, from: ProcId, stock: Stock, now: u64, out: &mut Vec<Outcome>) {
        if self.round.as_mut().is_some_and(|round| round.stock(from, stock)) {
            self.go_on(now, out);
        }
    }

    /// Goes over to the next phases, as long as nobody has to be waited for.
    fn go_on(&mut self, now: u64, out: &mut Vec<Outcome>) {
        while let Some(round) = &mut self.round
            && round.silent.is_empty()
        {
            match round.phase {
                Phase::Mourning => {
                    round.take_stock();
                    let message = FromController::TakeStock { round: round.number };
                    out.extend(
                        round.silent.iter().map(|to| Outcome::Send { to: *to, message: message.clone() }),
                    );
                }
                Phase::Stocktaking => self.distribute(out),
                Phase::Telling => self.settle(now, out),
            }
        }
    }

    /// All have named what they know: keeps what is needed, tells where it is, and frees the rest.
    fn distribute(&mut self, out: &mut Vec<Outcome>) {
        let Some(round) = &mut self.round else { return };
        let before = std::mem::take(&mut self.kept);
        let before_in: BTreeSet<Block> = before.values().map(|kept| kept.block).collect();
        let mut homed = std::mem::take(&mut round.homed);
        // Whoever named them may have been lost with its host since.
        homed.retain(|block, _| !self.lost.contains(&block.host()));
        // One who is about to end may name what was freed already: then its home knows nothing of it, or has
        // been swept.
        round.places.retain(|_, (block, _)| {
            let (home, swept) = (block.home, || before_in.contains(block));
            let unswept = round.dead.contains(&home) || self.unsettled.contains(&home);
            !self.lost.contains(&block.host())
                && if self.living.contains(&home) { homed.contains_key(block) } else { unswept || swept() }
        });
        for (object, kept) in &before {
            round.place(*object, Some(kept.block), kept.refs.clone());
        }
        for (block, (object, refs)) in &homed {
            // Readers know better in which it is.
            round.place(*object, Some(*block), refs.clone());
        }
        let places = std::mem::take(&mut round.places);
        let mut needs = std::mem::take(&mut round.needs);
        let settled = |object: &ObjectId| !self.unsettled.contains(&object.owner);
        let (found, later) = std::mem::take(&mut self.seekers).into_iter().partition(|(it, _)| settled(it));
        self.seekers = later;
        self.impatient_at.take_if(|_| self.seekers.is_empty());
        let found: BTreeSet<(ObjectId, ProcId)> = found;
        needs.extend(found.into_iter().map(|need| (need, false)));
        // Who was told of something that has references inside registers for these.
        let mut told = BTreeSet::new();
        for ((object, who), knows) in needs {
            let place = places.get(&object);
            if let Some((block, refs)) = place {
                let kept = || Kept { block: *block, refs: refs.clone(), needed_by: BTreeSet::new() };
                self.kept.entry(object).or_insert_with(kept).needed_by.insert(who);
            }
            if !knows && self.living.contains(&who) {
                if place.is_some_and(|(_, refs)| !refs.is_empty()) {
                    told.insert(who);
                }
                let message = FromController::Found { object, found: place.cloned() };
                out.push(Outcome::Send { to: who, message });
            }
        }
        let kept: BTreeSet<Block> = self.kept.values().map(|kept| kept.block).collect();
        let spare = before.into_values().map(|kept| kept.block).chain(homed.into_keys());
        let spare: BTreeSet<Block> = spare.filter(|block| !kept.contains(block)).collect();
        let dead = round.dead.clone();
        self.last_round += 1;
        round.tell(self.last_round, told);
        let message = FromController::Flush { round: round.number };
        out.extend(round.silent.iter().map(|to| Outcome::Send { to: *to, message: message.clone() }));
        for block in spare.into_iter().filter(|block| !dead.contains(&block.home)) {
            self.free(block, out);
        }
        let mut in_heap: BTreeMap<ProcId, Vec<Block>> = BTreeMap::new();
        for block in kept {
            in_heap.entry(block.home).or_default().push(block);
        }
        for home in dead {
            let except = in_heap.remove(&home).unwrap_or_default();
            out.push(Outcome::Sweep { dead: home, except });
        }
    }

    fn free(&self, block: Block, out: &mut Vec<Outcome>) {
        if self.living.contains(&block.home) {
            let message = FromController::FreeBlocks { blocks: vec![block] };
            out.push(Outcome::Send { to: block.home, message });
        } else if !self.is_unswept(block.home) {
            out.push(Outcome::Free(block));
        }
    }

    /// The home is dead, and the sweep of its memory is still to come: it will take the block along.
    fn is_unswept(&self, home: ProcId) -> bool {
        let in_round = self.round.as_ref();
        self.unsettled.contains(&home) || in_round.is_some_and(|round| round.is_unswept(home))
    }

    fn settle(&mut self, now: u64, out: &mut Vec<Outcome>) {
        let Some(round) = self.round.take() else { return };
        self.rest(now);
        let dead: Vec<ProcId> = round.dead.into_iter().collect();
        let message = FromController::Settled { dead };
        out.extend(self.living.iter().map(|to| Outcome::Send { to: *to, message: message.clone() }));
        // Who named something may have let go of it, or died, meanwhile.
        if self.kept.values().any(|kept| kept.needed_by.is_empty()) {
            self.want_round(now);
        }
    }

    /// Whether all was done for `dead`, and all the living were told so.
    pub fn is_settled(&self, dead: ProcId) -> bool {
        !self.unsettled.contains(&dead) && self.round.as_ref().is_none_or(|round| !round.dead.contains(&dead))
    }

    /// `from` looks for an object of a dead owner.
    pub fn seek(&mut self, from: ProcId, object: ObjectId, now: u64, out: &mut Vec<Outcome>) {
        if let Some(kept) = self.kept.get_mut(&object) {
            kept.needed_by.insert(from);
            let found = Some((kept.block, kept.refs.clone()));
            if let Some(round) = &mut self.round {
                round.need(object, from);
            }
            out.push(Outcome::Send { to: from, message: FromController::Found { object, found } });
        } else if self.is_settled(object.owner) {
            out.push(Outcome::Send { to: from, message: FromController::Found { object, found: None } });
        } else {
            self.seekers.insert((object, from));
            self.impatient_at.get_or_insert(now + PATIENCE);
        }
    }

    /// `from` holds these no more.
    pub fn let_go(&mut self, from: ProcId, objects: &[ObjectId], now: u64, out: &mut Vec<Outcome>) {
        for object in objects {
            self.seekers.remove(&(*object, from));
            if let Some(round) = &mut self.round {
                round.let_go(*object, from);
            }
            let Some(kept) = self.kept.get_mut(object) else { continue };
            kept.needed_by.remove(&from);
            if !kept.needed_by.is_empty() {
                continue;
            }
            if from == object.owner {
                // It has counted all others.
                let block = kept.block;
                self.kept.remove(object);
                self.free(block, out);
            } else {
                self.want_round(now);
            }
        }
    }

    /// Objects that are kept, and whether anything is still to be done: for tests and audits.
    #[must_use]
    pub fn remains(&self) -> (usize, bool) {
        (self.kept.len(), self.due.is_some() || self.round.is_some())
    }
}
