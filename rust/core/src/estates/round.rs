//! One round: whom it settles, who has not answered, what was named.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::control::Stock;
use raymesh_wire::{Block, ObjectId, ProcId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    Mourning,
    Stocktaking,
    Telling,
}

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub number: u64,
    pub phase: Phase,
    pub dead: BTreeSet<ProcId>,
    /// Whoever was asked and has not answered.
    pub silent: BTreeSet<ProcId>,
    /// Who takes part: those who lived when it began.
    asked: BTreeSet<ProcId>,
    /// Who has named all that he knows.
    stocked: BTreeSet<ProcId>,
    /// Who needs what, and whether he knows where it is.
    pub needs: BTreeMap<(ObjectId, ProcId), bool>,
    pub places: BTreeMap<ObjectId, (Block, Vec<ObjectId>)>,
    /// Blocks of the living that hold objects of the dead, and what is inside these. Of an object that was
    /// made more than once, there may be several.
    pub homed: BTreeMap<Block, (ObjectId, Vec<ObjectId>)>,
}

impl Round {
    pub fn new(number: u64, dead: BTreeSet<ProcId>, living: &BTreeSet<ProcId>) -> Self {
        Self {
            number,
            phase: Phase::Mourning,
            dead,
            silent: living.clone(),
            asked: living.clone(),
            stocked: BTreeSet::new(),
            needs: BTreeMap::new(),
            places: BTreeMap::new(),
            homed: BTreeMap::new(),
        }
    }

    /// Whether the round cannot do without what `proc` has still to say.
    pub fn needs_answers_of(&self, proc: ProcId) -> bool {
        self.phase != Phase::Telling && self.asked.contains(&proc) && !self.stocked.contains(&proc)
    }

    /// True if it is news.
    pub fn mourned(&mut self, from: ProcId, number: u64) -> bool {
        self.number == number && self.phase != Phase::Stocktaking && self.silent.remove(&from)
    }

    pub fn take_stock(&mut self) {
        self.phase = Phase::Stocktaking;
        self.silent.clone_from(&self.asked);
    }

    /// True if it is news.
    pub fn stock(&mut self, from: ProcId, stock: Stock) -> bool {
        let Stock { round, needs, owned, homed } = stock;
        if self.number != round || self.phase != Phase::Stocktaking || !self.silent.remove(&from) {
            return false;
        }
        self.stocked.insert(from);
        for trace in needs {
            // One who sought it in between knows of it nothing else.
            let knows = self.needs.entry((trace.object, from)).or_default();
            *knows |= trace.block.is_some();
            self.place(trace.object, trace.block, trace.refs);
        }
        for place in owned.into_iter().filter(|place| place.object.owner == from) {
            self.needs.insert((place.object, from), true);
            self.place(place.object, Some(place.block), Vec::new());
        }
        for trace in homed {
            if let Some(block) = trace.block.filter(|block| block.home == from) {
                self.homed.insert(block, (trace.object, trace.refs));
            }
        }
        true
    }

    /// Where it is, says somebody.
    pub fn place(&mut self, object: ObjectId, block: Option<Block>, refs: Vec<ObjectId>) {
        let Some(block) = block else { return };
        let (_, inside) = self.places.entry(object).or_insert_with(|| (block, Vec::new()));
        if inside.is_empty() {
            *inside = refs;
        }
    }

    /// Somebody was told of it just now.
    pub fn need(&mut self, object: ObjectId, who: ProcId) {
        self.needs.insert((object, who), true);
    }

    pub fn let_go(&mut self, object: ObjectId, who: ProcId) {
        self.needs.remove(&(object, who));
    }

    /// These were told of objects with references inside; they answer to this number.
    pub fn tell(&mut self, number: u64, told: BTreeSet<ProcId>) {
        self.number = number;
        self.phase = Phase::Telling;
        self.silent = told;
    }

    /// Its memory has not been swept.
    pub fn is_unswept(&self, home: ProcId) -> bool {
        self.phase != Phase::Telling && self.dead.contains(&home)
    }
}
