//! A process's own allocator: blocks within the extents that the agent leased to it, so that a `put`
//! needs no round trip.

use std::collections::{BTreeMap, HashMap};

use raymesh_wire::control::Extent;
use raymesh_wire::{Block, ProcId};

use crate::free_map::FreeMap;

/// A new block, and what its memory costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub block: Block,
    /// The part, if any, that this heap never used before: bring it in with one call
    /// ([`crate::Segment::populate`]) rather than by a fault for each page.
    pub cold: Option<Extent>,
}

/// Best fit with coalescing inside extents, recycled memory first. Pure bookkeeping.
#[derive(Clone, Debug)]
pub struct Heap {
    home: ProcId,
    free: FreeMap,
    extents: BTreeMap<u64, u64>,
    /// Length in the heap of each block in use, by offset.
    live: HashMap<u64, u64>,
    leased: u64,
    /// Bytes in wholly free extents.
    idle: u64,
}

impl Heap {
    /// Blocks begin and end on multiples of this.
    pub const ALIGN: u64 = 64;

    /// The empty heap of process `home`.
    #[must_use]
    pub fn new(home: ProcId) -> Self {
        Self {
            home,
            free: FreeMap::default(),
            extents: BTreeMap::new(),
            live: HashMap::new(),
            leased: 0,
            idle: 0,
        }
    }

    /// Adds memory that the agent has leased. It overlaps no extent of this heap.
    pub fn add_extent(&mut self, extent: Extent) {
        debug_assert!(extent.offset.is_multiple_of(Self::ALIGN) && extent.len.is_multiple_of(Self::ALIGN));
        if extent.len > 0 {
            self.free.add(extent.offset, extent.len);
            self.extents.insert(extent.offset, extent.len);
            self.leased += extent.len;
            self.idle += extent.len;
        }
    }

    /// A block of `len` bytes; `None` when no extent has room.
    pub fn alloc(&mut self, len: u64) -> Option<Block> {
        self.alloc_tracked(len).map(|allocation| allocation.block)
    }

    /// As [`Self::alloc`], and what of it is cold.
    pub fn alloc_tracked(&mut self, len: u64) -> Option<Allocation> {
        let whole = Self::whole(len)?;
        let taken = self.free.alloc(whole)?;
        self.occupy(taken.offset, whole);
        Some(Allocation {
            block: Block { home: self.home, offset: taken.offset, len },
            cold: taken.cold.map(|(offset, len)| Extent { offset, len }),
        })
    }

    /// Marks a block in use that somebody else had allocated: the agent rebuilds a dead process's heap
    /// from the blocks that are still read. False when that memory is not free.
    pub fn reserve(&mut self, block: &Block) -> bool {
        let Some(whole) = Self::whole(block.len) else { return false };
        let aligned = block.offset.is_multiple_of(Self::ALIGN);
        if !aligned || !self.free.alloc_at(block.offset, whole) {
            return false;
        }
        self.occupy(block.offset, whole);
        true
    }

    /// Gives a block back. False, and nothing done, when it is none in use.
    pub fn free(&mut self, block: &Block) -> bool {
        if Self::whole(block.len).is_none_or(|whole| self.live.get(&block.offset) != Some(&whole)) {
            return false;
        }
        if let Some(whole) = self.live.remove(&block.offset) {
            self.free.free(block.offset, whole);
            self.idle += self.if_idle(block.offset);
        }
        true
    }

    /// A piece of free space has become a block.
    fn occupy(&mut self, offset: u64, whole: u64) {
        self.live.insert(offset, whole);
        let (start, len) = self.extent_at(offset);
        // What is left of the extent was wholly free if nothing but this block is missing.
        let left = self.free.is_free_but(start, len, (offset, whole));
        self.idle -= if left { len } else { 0 };
    }

    /// Length of the extent around `offset` if it is wholly free, else 0.
    fn if_idle(&self, offset: u64) -> u64 {
        let (start, len) = self.extent_at(offset);
        if self.free.is_free(start, len) { len } else { 0 }
    }

    fn extent_at(&self, offset: u64) -> (u64, u64) {
        let found = self.extents.range(..=offset).next_back();
        found.map_or((offset, 0), |(start, len)| (*start, *len))
    }

    /// Takes out wholly free extents, for the agent, until at most `keep` bytes are in such extents.
    pub fn take_free_extents(&mut self, keep: u64) -> Vec<Extent> {
        let mut idle: Vec<Extent> = self.idle_extents().collect();
        // Largest first, so that few go; of the small ones a heap makes use again soon.
        idle.sort_by_key(|extent| std::cmp::Reverse((extent.len, extent.offset)));
        let mut taken = Vec::new();
        for extent in idle {
            if self.idle <= keep {
                break;
            }
            self.idle -= extent.len;
            self.extents.remove(&extent.offset);
            let extents = &self.extents;
            let end_of = |(start, len): (&u64, &u64)| start + len;
            self.free.remove(extent.offset, extent.len, |wall| {
                extents.contains_key(&wall) || extents.range(..wall).next_back().map(end_of) == Some(wall)
            });
            self.leased -= extent.len;
            taken.push(extent);
        }
        taken
    }

    fn idle_extents(&self) -> impl Iterator<Item = Extent> {
        let whole = |(offset, len): (&u64, &u64)| Extent { offset: *offset, len: *len };
        self.extents.iter().map(whole).filter(|extent| self.free.is_free(extent.offset, extent.len))
    }

    /// Bytes in extents.
    #[must_use]
    pub fn leased_bytes(&self) -> u64 {
        self.leased
    }

    /// Bytes in blocks, padding included.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.leased - self.free.bytes()
    }

    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free.bytes()
    }

    /// Bytes in wholly free extents.
    #[must_use]
    pub fn idle_bytes(&self) -> u64 {
        self.idle
    }

    #[must_use]
    pub fn blocks(&self) -> usize {
        self.live.len()
    }

    fn whole(len: u64) -> Option<u64> {
        len.max(1).checked_next_multiple_of(Self::ALIGN)
    }
}

#[cfg(test)]
mod tests;
