//! The object arena of the host: which process's heap has which extents.
//!
//! Fresh pages are slow. While the agent has nothing else to do, it brings them in, a little at a time:
//! first those of a large extent that was just taken, from its end while the taker begins at its start;
//! then as many again, since who takes much soon takes more. What nobody comes for is given back. Where
//! others need the processor, it leaves that.
//!
//! No I/O but bringing pages in and giving them back: what is to be said is handed to `say`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raymesh_shm::{ExtentAllocator, Segment};
use raymesh_wire::control::{Extent, FromAgent, HeapFull};
use raymesh_wire::{Block, ProcId, RequestId};

/// Free memory goes back to the system when so long nothing was freed or taken.
const COOL: u64 = 2_000_000_000;
/// Longest wait for memory that others may give back.
const PATIENCE: u64 = 500_000_000;

/// A heap that grows by so much at once has memory brought in ahead: for twice as much, within limits.
const NOTABLE: u64 = 4 << 20;
const MOST_AHEAD: u64 = 256 << 20;
/// Brought in at a time: it takes less than a millisecond.
const STEP: u64 = 512 << 10;

/// Tells a process something.
pub type Say<'a> = dyn FnMut(ProcId, FromAgent) + 'a;

/// See the module.
#[derive(Debug)]
pub struct Memory {
    free: ExtentAllocator,
    /// By process, offset to length.
    held: BTreeMap<ProcId, BTreeMap<u64, u64>>,
    /// The dead whose extents are not swept yet.
    unswept: BTreeSet<ProcId>,
    /// Extents of the dead: granule to number of blocks in it that somebody needs.
    needed: BTreeMap<u64, u32>,
    waiting: VecDeque<Wish>,
    /// Have been told to give back, and have not answered.
    asked: BTreeSet<ProcId>,
    /// What is left to bring in of the large extent that was taken last.
    taken: Option<Extent>,
    /// So much free memory is to be there ahead of need.
    ahead: u64,
    /// When free memory has cooled.
    cool_at: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Wish {
    from: ProcId,
    request: RequestId,
    bytes: u64,
    deadline: u64,
}

impl Memory {
    pub fn new(capacity: u64) -> Self {
        Self {
            free: ExtentAllocator::new(capacity),
            held: BTreeMap::new(),
            unswept: BTreeSet::new(),
            needed: BTreeMap::new(),
            waiting: VecDeque::new(),
            asked: BTreeSet::new(),
            taken: None,
            ahead: 0,
            cool_at: None,
        }
    }

    pub fn used(&self) -> u64 {
        self.free.used_bytes()
    }

    /// A heap wants an extent of at least `bytes`.
    pub fn grow(&mut self, from: ProcId, request: RequestId, bytes: u64, now: u64, say: &mut Say<'_>) {
        let wish = Wish { from, request, bytes, deadline: now + PATIENCE };
        match self.take(from, bytes) {
            Ok(extent) => {
                say(from, FromAgent::HeapGrown { request, grown: Ok(extent) });
                if extent.len >= NOTABLE {
                    self.taken = Some(extent);
                    self.ahead = self.ahead.max((2 * extent.len).min(MOST_AHEAD));
                    self.cool_at = Some(now + COOL);
                }
            }
            Err(full) if bytes > full.capacity => {
                say(from, FromAgent::HeapGrown { request, grown: Err(full) });
            }
            Err(_) => {
                self.waiting.push_back(wish);
                self.ask_back(say);
            }
        }
    }

    /// Has all processes give back what they keep free.
    fn ask_back(&mut self, say: &mut Say<'_>) {
        // The agent's own heap keeps nothing.
        for proc in self.held.keys().filter(|proc| proc.slot() != ProcId::AGENT_SLOT) {
            if self.asked.insert(*proc) {
                say(*proc, FromAgent::TrimHeap);
            }
        }
    }

    /// An extent at once, or none. With `insist`, what processes keep free is asked back then.
    pub fn take_now(
        &mut self,
        from: ProcId,
        bytes: u64,
        insist: bool,
        say: &mut Say<'_>,
    ) -> Result<Extent, HeapFull> {
        let taken = self.take(from, bytes);
        if insist && taken.is_err_and(|full| bytes <= full.capacity) {
            self.ask_back(say);
        }
        taken
    }

    /// Whether so much is to be had in one piece.
    pub fn fits(&self, bytes: u64) -> bool {
        self.free.largest_free() >= bytes
    }

    fn take(&mut self, from: ProcId, bytes: u64) -> Result<Extent, HeapFull> {
        let extent = self.free.alloc(bytes)?;
        self.held.entry(from).or_default().insert(extent.offset, extent.len);
        Ok(extent)
    }

    /// A heap gives extents back: by itself, or because it was asked to.
    pub fn shrink(&mut self, from: ProcId, extents: &[Extent], now: u64) {
        self.asked.remove(&from);
        let Some(held) = self.held.get_mut(&from) else { return };
        for extent in extents {
            // Whatever it does not hold, it cannot give.
            if held.get(&extent.offset) == Some(&extent.len) {
                held.remove(&extent.offset);
                self.taken = None;
                self.free.free(*extent);
                self.cool_at = Some(now + COOL);
            }
        }
        if held.is_empty() {
            self.held.remove(&from);
        }
    }

    /// The process is dead: it waits for nothing and answers nothing. Its extents stay until
    /// [`Self::sweep`]. Answers whether it has any.
    pub fn forget(&mut self, dead: ProcId) -> bool {
        self.asked.remove(&dead);
        self.waiting.retain(|wish| wish.from != dead);
        let has_some = self.held.contains_key(&dead);
        if has_some {
            self.unswept.insert(dead);
        }
        has_some
    }

    /// Frees the extents of the dead but for what these blocks touch.
    pub fn sweep(&mut self, dead: ProcId, needed: &[Block], now: u64) {
        self.unswept.remove(&dead);
        for granule in needed.iter().flat_map(granules) {
            *self.needed.entry(granule).or_default() += 1;
        }
        self.taken = None;
        for (offset, len) in self.held.remove(&dead).unwrap_or_default() {
            self.free_unneeded(offset, len, now);
        }
    }

    /// Nobody needs this block of a dead process any more.
    pub fn release_block(&mut self, block: &Block, now: u64) {
        for granule in granules(block) {
            if let Some(count) = self.needed.get_mut(&granule) {
                *count -= 1;
                if *count == 0 {
                    self.needed.remove(&granule);
                    self.free_unneeded(granule, ExtentAllocator::GRANULE, now);
                }
            }
        }
    }

    fn free_unneeded(&mut self, offset: u64, len: u64, now: u64) {
        let end = offset + len;
        let walls: Vec<u64> = self.needed.range(offset..end).map(|(granule, _)| *granule).collect();
        let mut start = offset;
        for wall in walls.into_iter().chain([end]) {
            if wall > start {
                self.free.free(Extent { offset: start, len: wall - start });
                self.cool_at = Some(now + COOL);
            }
            start = wall + ExtentAllocator::GRANULE;
        }
    }

    /// Answers the wishes that can be fulfilled now, in order, and those that cannot and will not. Memory of
    /// dead processes may still become free, also what was kept: whether it is needed yet takes a round to
    /// find out.
    pub fn answer(&mut self, now: u64, say: &mut Say<'_>) {
        let hopeless = self.asked.is_empty() && self.unswept.is_empty() && self.needed.is_empty();
        for wish in std::mem::take(&mut self.waiting) {
            let Wish { from, request, bytes, deadline } = wish;
            let grown = match self.take(from, bytes) {
                Err(_) if !hopeless && deadline > now => {
                    self.waiting.push_back(wish);
                    continue;
                }
                grown => grown,
            };
            say(from, FromAgent::HeapGrown { request, grown });
        }
        if self.waiting.is_empty() {
            // Whoever answers late only gives memory back.
            self.asked.clear();
        }
    }

    /// Whether memory is to be brought in.
    pub fn wants_warmth(&self) -> bool {
        self.taken.is_some() || self.free.warm_bytes() < self.ahead.min(self.free.free_bytes())
    }

    /// Brings in a little memory.
    pub fn warm(&mut self, segment: &Segment) {
        let extent = match self.taken.take() {
            Some(Extent { offset, len }) => {
                let left = len.saturating_sub(STEP);
                self.taken = (left > 0).then_some(Extent { offset, len: left });
                Some(Extent { offset: offset + left, len: len - left })
            }
            None => self.free.coldest(STEP),
        };
        match extent {
            // Only what is free of it is marked.
            Some(extent) if segment.populate(extent).is_ok() => self.free.warmed(extent),
            // The system has none to give: whoever needs some will meet that.
            _ => self.rest(),
        }
    }

    /// Brings in nothing more until another large extent is taken.
    pub fn rest(&mut self) {
        (self.taken, self.ahead) = (None, 0);
    }

    /// Gives the pages of memory that has cooled back to the system.
    pub fn cool(&mut self, segment: &Segment, now: u64) {
        if self.cool_at.is_some_and(|at| at <= now) {
            self.cool_at = None;
            self.ahead = 0;
            for extent in self.free.trim_warm(0) {
                // Failing costs only the memory.
                let _ = segment.punch(extent);
            }
        }
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.waiting.iter().map(|wish| wish.deadline).chain(self.cool_at).min()
    }
}

/// The granules that a block touches.
fn granules(block: &Block) -> impl Iterator<Item = u64> + use<> {
    let granule = ExtentAllocator::GRANULE;
    let first = block.offset / granule;
    let end = block.offset.saturating_add(block.len.max(1)).div_ceil(granule);
    (first..end).map(move |number| number * granule)
}

#[cfg(test)]
mod tests;
