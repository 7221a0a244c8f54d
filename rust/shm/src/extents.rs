//! The agent's allocator: extents of the arena for the heaps of the host's processes.

use raymesh_wire::control::{Extent, HeapFull};

use crate::free_map::FreeMap;

/// Best fit with coalescing over one arena. Pure bookkeeping: bringing memory in and punching it out
/// is for the caller.
#[derive(Clone, Debug)]
pub struct ExtentAllocator {
    free: FreeMap,
    capacity: u64,
}

impl ExtentAllocator {
    /// Extents are multiples of this.
    pub const GRANULE: u64 = 64 << 10;

    /// All of an arena of `capacity` bytes is free and cold.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let capacity = capacity / Self::GRANULE * Self::GRANULE;
        let mut free = FreeMap::default();
        if capacity > 0 {
            free.add(0, capacity);
        }
        Self { free, capacity }
    }

    /// An extent of at least `bytes`, warm if there is such a one.
    ///
    /// # Errors
    /// When no free piece is large enough.
    pub fn alloc(&mut self, bytes: u64) -> Result<Extent, HeapFull> {
        let full = HeapFull { wanted: bytes, free: self.free.bytes(), capacity: self.capacity };
        let len = bytes.max(1).checked_next_multiple_of(Self::GRANULE).ok_or(full)?;
        let taken = self.free.alloc(len).ok_or(full)?;
        Ok(Extent { offset: taken.offset, len })
    }

    /// Takes back an extent, or a part of one in whole granules. False, and nothing done, when it is
    /// none that is in use.
    pub fn free(&mut self, extent: Extent) -> bool {
        let Extent { offset, len } = extent;
        let aligned = offset.is_multiple_of(Self::GRANULE) && len.is_multiple_of(Self::GRANULE) && len > 0;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.capacity);
        if !aligned || !inside || self.free.touches_free(offset, len) {
            return false;
        }
        self.free.free(offset, len);
        true
    }

    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free.bytes()
    }

    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.capacity - self.free.bytes()
    }

    /// Free bytes that still take memory.
    #[must_use]
    pub fn warm_bytes(&self) -> u64 {
        self.free.warm_bytes()
    }

    /// The largest extent that can be had.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.free.largest()
    }

    /// Cold free memory, at most `most` bytes in one piece, that could be brought in ahead of need
    /// ([`crate::Segment::populate`], then [`Self::warmed`]).
    #[must_use]
    pub fn coldest(&self, most: u64) -> Option<Extent> {
        let most = most / Self::GRANULE * Self::GRANULE;
        self.free.coldest(most).filter(|_| most > 0).map(|(offset, len)| Extent { offset, len })
    }

    /// The extent's memory has been brought in: what of it is free now is handed out first.
    pub fn warmed(&mut self, extent: Extent) {
        self.free.warm_up(extent.offset, extent.len.min(self.capacity.saturating_sub(extent.offset)));
    }

    /// What to punch so that at most `keep` free bytes take memory. From now on they count as cold.
    pub fn trim_warm(&mut self, keep: u64) -> Vec<Extent> {
        let keep = keep / Self::GRANULE * Self::GRANULE;
        self.free.cool(keep).into_iter().map(|(offset, len)| Extent { offset, len }).collect()
    }
}

#[cfg(test)]
mod tests;
