//! Free space in an address range, coalesced, with a preference for memory that was used before:
//! fresh pages cost a fault each, recycled ones nothing.

use std::collections::{BTreeMap, BTreeSet};

/// Disjoint intervals, coalesced, found by place and by size.
#[derive(Clone, Debug, Default)]
struct Intervals {
    by_offset: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Intervals {
    fn put(&mut self, offset: u64, len: u64) {
        self.by_offset.insert(offset, len);
        self.by_len.insert((len, offset));
        self.total += len;
    }

    fn take(&mut self, offset: u64) -> Option<u64> {
        let len = self.by_offset.remove(&offset)?;
        self.by_len.remove(&(len, offset));
        self.total -= len;
        Some(len)
    }

    /// Adds an interval that overlaps none, merged with its neighbours except across a wall.
    fn insert(&mut self, mut offset: u64, mut len: u64, walls: &BTreeSet<u64>) {
        let end = offset + len;
        if !walls.contains(&end)
            && let Some(right) = self.take(end)
        {
            len += right;
        }
        if !walls.contains(&offset)
            && let Some((left, left_len)) = self.before(offset)
            && left + left_len == offset
        {
            self.take(left);
            offset = left;
            len += left_len;
        }
        self.put(offset, len);
    }

    /// Takes a range out of whatever intervals it touches.
    fn subtract(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        for (start, length) in self.touching(offset, end) {
            self.take(start);
            if start < offset {
                self.put(start, offset - start);
            }
            if start + length > end {
                self.put(end, start + length - end);
            }
        }
    }

    fn before(&self, offset: u64) -> Option<(u64, u64)> {
        self.by_offset.range(..offset).next_back().map(|(start, len)| (*start, *len))
    }

    fn touching(&self, offset: u64, end: u64) -> Vec<(u64, u64)> {
        let first = self.before(offset).filter(|(start, len)| start + len > offset);
        let rest = self.by_offset.range(offset..end).map(|(start, len)| (*start, *len));
        first.into_iter().chain(rest).collect()
    }

    fn contains(&self, offset: u64, len: u64) -> bool {
        let holder = self.by_offset.range(..=offset).next_back();
        holder.is_some_and(|(start, length)| offset + len <= start + length)
    }

    /// The smallest interval of at least `len`, lowest first.
    fn best_fit(&self, len: u64) -> Option<(u64, u64)> {
        self.by_len.range((len, 0)..).next().map(|(length, offset)| (*offset, *length))
    }
}

/// A piece of free space that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub offset: u64,
    /// The part of it, if any, that contains all its cold memory.
    pub cold: Option<(u64, u64)>,
}

/// The free space of an allocator.
#[derive(Clone, Debug, Default)]
pub struct FreeMap {
    free: Intervals,
    /// Part of `free`: what was used before, so that its memory is there.
    warm: Intervals,
    /// Free space does not coalesce across these places.
    walls: BTreeSet<u64>,
}

impl FreeMap {
    pub fn bytes(&self) -> u64 {
        self.free.total
    }

    pub fn warm_bytes(&self) -> u64 {
        self.warm.total
    }

    pub fn largest(&self) -> u64 {
        self.free.by_len.last().map_or(0, |(len, _)| *len)
    }

    /// Adds fresh space with walls at both ends.
    pub fn add(&mut self, offset: u64, len: u64) {
        self.walls.insert(offset);
        self.walls.insert(offset + len);
        self.free.insert(offset, len, &self.walls);
    }

    /// Takes out wholly free space that was added in one piece.
    pub fn remove(&mut self, offset: u64, len: u64, neighbours: impl Fn(u64) -> bool) {
        self.free.subtract(offset, len);
        self.warm.subtract(offset, len);
        for wall in [offset, offset + len] {
            if !neighbours(wall) {
                self.walls.remove(&wall);
            }
        }
    }

    /// Takes `len` bytes: from warm memory if it has such a piece, else where most of it is warm.
    pub fn alloc(&mut self, len: u64) -> Option<Taken> {
        let offset = match self.warm.best_fit(len) {
            Some((offset, _)) => offset,
            None => {
                let (offset, length) = self.free.best_fit(len)?;
                let last = offset + length - len;
                if self.warm_in(last, len) > self.warm_in(offset, len) { last } else { offset }
            }
        };
        let cold = self.cold_hull(offset, len);
        self.free.subtract(offset, len);
        self.warm.subtract(offset, len);
        Some(Taken { offset, cold })
    }

    /// Takes exactly this piece, if it is free.
    pub fn alloc_at(&mut self, offset: u64, len: u64) -> bool {
        let free = self.free.contains(offset, len);
        if free {
            self.free.subtract(offset, len);
            self.warm.subtract(offset, len);
        }
        free
    }

    /// Gives a piece back, which is warm now.
    pub fn free(&mut self, offset: u64, len: u64) {
        self.free.insert(offset, len, &self.walls);
        self.warm.insert(offset, len, &self.walls);
    }

    /// Whether all of this is free.
    pub fn is_free(&self, offset: u64, len: u64) -> bool {
        self.free.contains(offset, len)
    }

    /// Whether all of this is free, apart from one piece inside it.
    pub fn is_free_but(&self, offset: u64, len: u64, (piece, piece_len): (u64, u64)) -> bool {
        let (end, piece_end) = (offset + len, piece + piece_len);
        (piece == offset || self.is_free(offset, piece - offset))
            && (piece_end == end || self.is_free(piece_end, end - piece_end))
    }

    /// A free piece of at most `most` bytes that is cold, lowest first.
    pub fn coldest(&self, most: u64) -> Option<(u64, u64)> {
        self.free.by_offset.iter().find_map(|(start, len)| {
            let end = start + len;
            let warm = self.warm.touching(*start, end);
            let from = warm.first().filter(|(at, _)| at == start).map_or(*start, |(at, len)| at + len);
            let to = warm.iter().map(|(at, _)| *at).find(|at| *at > from).unwrap_or(end);
            (from < to).then(|| (from, (to - from).min(most)))
        })
    }

    /// What of this is free counts as warm from now on.
    pub fn warm_up(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        for (start, length) in self.free.touching(offset, end) {
            let (from, to) = (start.max(offset), (start + length).min(end));
            self.warm.subtract(from, to - from);
            self.warm.insert(from, to - from, &self.walls);
        }
    }

    /// Whether any of this is free.
    pub fn touches_free(&self, offset: u64, len: u64) -> bool {
        !self.free.touching(offset, offset + len).is_empty()
    }

    /// Declares warm free memory cold until at most `keep` bytes are warm; answers what, highest first
    /// (allocation prefers low places, so high ones are missed least).
    pub fn cool(&mut self, keep: u64) -> Vec<(u64, u64)> {
        let mut cooled = Vec::new();
        while self.warm.total > keep {
            let excess = self.warm.total - keep;
            let Some((start, len)) = self.warm.by_offset.last_key_value().map(|(s, l)| (*s, *l)) else {
                break;
            };
            let cut = len.min(excess);
            self.warm.subtract(start + len - cut, cut);
            cooled.push((start + len - cut, cut));
        }
        cooled
    }

    fn warm_in(&self, offset: u64, len: u64) -> u64 {
        let end = offset + len;
        let parts = self.warm.touching(offset, end).into_iter();
        parts.map(|(start, length)| (start + length).min(end) - start.max(offset)).sum()
    }

    fn cold_hull(&self, offset: u64, len: u64) -> Option<(u64, u64)> {
        let (mut first, mut last) = (offset, offset + len);
        let warm = self.warm.touching(offset, last);
        if let Some((start, length)) = warm.first()
            && *start <= first
        {
            first = last.min(start + length);
        }
        if let Some((start, length)) = warm.last()
            && start + length >= last
        {
            last = first.max(*start);
        }
        (first < last).then_some((first, last - first))
    }
}
