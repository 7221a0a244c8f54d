//! Blocks of the object arena that outlive a process: the one whose heap they were cut from, or the one
//! that owned the object in them.
//!
//! When a process has died, all others are asked for what they know (mark): which blocks they still
//! need of those that the dead one was to free, and which blocks of their own heaps it owned. What
//! nobody needs is freed (sweep). What somebody needs has the agent for its owner until the last
//! of them has said [`raymesh_wire::Message::FreeBlocks`] to the agent, or has died too.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::{Block, ProcId};

/// Asked so long after a death: what the dead one had sent around has arrived by then.
const DELAY: u64 = 50_000_000;

/// What follows from an answer or a death.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Ask this process about the dead one.
    Ask { whom: ProcId, dead: ProcId },
    /// The extents of the dead one are free, but for these blocks.
    FreeExtents { dead: ProcId, except: Vec<Block> },
    /// This block is needed by nobody: tell its home, or free it if that is dead.
    FreeBlock(Block),
}

#[derive(Debug)]
struct Inquiry {
    /// When to ask. None: everybody was asked.
    ask_at: Option<u64>,
    /// Have not answered.
    silent: BTreeSet<ProcId>,
    needs: BTreeSet<(Block, ProcId)>,
    homed: BTreeSet<Block>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Orphans {
    inquiries: BTreeMap<ProcId, Inquiry>,
    /// Blocks that the agent is the owner of, and who needs them.
    adopted: BTreeMap<Block, BTreeSet<ProcId>>,
}

impl Orphans {
    /// A process has died that may have had blocks, as home or as owner. `inquire`: ask about it.
    pub fn died(&mut self, dead: ProcId, inquire: bool, now: u64, out: &mut Vec<Outcome>) {
        if inquire {
            let inquiry = Inquiry {
                ask_at: Some(now + DELAY),
                silent: BTreeSet::new(),
                needs: BTreeSet::new(),
                homed: BTreeSet::new(),
            };
            self.inquiries.insert(dead, inquiry);
        }
        for other in self.inquiries.values_mut() {
            other.silent.remove(&dead);
        }
        if !inquire {
            self.needs_no_more(dead, None, out);
        }
        self.conclude(out);
    }

    /// What the dead one needed is needed no more. Not before others were asked about it: it may have
    /// needed it for them.
    fn needs_no_more(&mut self, dead: ProcId, home: Option<ProcId>, out: &mut Vec<Outcome>) {
        for inquiry in self.inquiries.values_mut() {
            inquiry.needs.retain(|(_, who)| *who != dead);
        }
        self.adopted.retain(|block, needed_by| {
            needed_by.remove(&dead);
            if needed_by.is_empty() && Some(block.home) != home {
                out.push(Outcome::FreeBlock(*block));
            }
            !needed_by.is_empty()
        });
    }

    /// Asks `living` about those who died a moment ago.
    pub fn ask(&mut self, living: &BTreeSet<ProcId>, now: u64, out: &mut Vec<Outcome>) {
        for (dead, inquiry) in &mut self.inquiries {
            if inquiry.ask_at.take_if(|at| *at <= now).is_some() {
                inquiry.silent.clone_from(living);
                out.extend(living.iter().map(|whom| Outcome::Ask { whom: *whom, dead: *dead }));
            }
        }
        self.conclude(out);
    }

    /// What a process knows about `dead`.
    pub fn answered(
        &mut self,
        from: ProcId,
        dead: ProcId,
        needs: Vec<Block>,
        homed: Vec<Block>,
        out: &mut Vec<Outcome>,
    ) {
        let Some(inquiry) = self.inquiries.get_mut(&dead) else { return };
        if inquiry.silent.remove(&from) {
            inquiry.needs.extend(needs.into_iter().map(|block| (block, from)));
            inquiry.homed.extend(homed.into_iter().filter(|block| block.home == from));
        }
        self.conclude(out);
    }

    /// `from` does not need these blocks any more.
    pub fn freed(&mut self, from: ProcId, blocks: &[Block], out: &mut Vec<Outcome>) {
        for block in blocks {
            for inquiry in self.inquiries.values_mut() {
                inquiry.needs.remove(&(*block, from));
            }
            if let Some(needed_by) = self.adopted.get_mut(block) {
                needed_by.remove(&from);
                if needed_by.is_empty() {
                    self.adopted.remove(block);
                    out.push(Outcome::FreeBlock(*block));
                }
            }
        }
    }

    /// Sweeps where everybody has answered.
    fn conclude(&mut self, out: &mut Vec<Outcome>) {
        let is_done = |inquiry: &Inquiry| inquiry.ask_at.is_none() && inquiry.silent.is_empty();
        let done: Vec<ProcId> =
            self.inquiries.iter().filter(|(_, inquiry)| is_done(inquiry)).map(|(dead, _)| *dead).collect();
        for dead in done {
            let Some(inquiry) = self.inquiries.remove(&dead) else { continue };
            for (block, who) in inquiry.needs {
                self.adopted.entry(block).or_default().insert(who);
            }
            // The extents that are freed below take these blocks with them.
            self.needs_no_more(dead, Some(dead), out);
            let except = self.adopted.keys().filter(|block| block.home == dead).copied().collect();
            out.push(Outcome::FreeExtents { dead, except });
            let unneeded = inquiry.homed.into_iter().filter(|block| !self.adopted.contains_key(block));
            out.extend(unneeded.map(Outcome::FreeBlock));
        }
    }

    /// Whether memory may become free by an answer that is still to come.
    pub fn is_settling(&self) -> bool {
        !self.inquiries.is_empty()
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.inquiries.values().filter_map(|inquiry| inquiry.ask_at).min()
    }
}

#[cfg(test)]
mod tests;
