//! The object arena: bytes of blocks, memory brought in ahead and given back.
//!
//! Who may touch a block is agreed by messages, not checked here: a block is written by the process
//! that allocated it before it tells anybody, and only read from then on until its home frees it.

use std::os::fd::BorrowedFd;

use raymesh_sys::{Mapping, PAGE, memfd};
use raymesh_wire::Block;
use raymesh_wire::control::Extent;

use crate::segment::Segment;

/// A block or extent that is not inside this host's arena.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no memory at {offset}+{len}: this host's object memory has {arena} bytes")]
pub struct BadBlock {
    pub offset: u64,
    pub len: u64,
    pub arena: u64,
}

impl Segment {
    /// Bytes of object memory.
    #[must_use]
    pub fn arena_len(&self) -> u64 {
        self.shape().arena
    }

    /// The contents of a finished block.
    ///
    /// # Errors
    /// When the block is of another host or outside the arena.
    pub fn block_bytes(&self, block: &Block) -> Result<&[u8], BadBlock> {
        let at = self.locate_block(block)?;
        // SAFETY: inside the mapping, which lives as long as `self`; finished blocks are not written
        // (module docs).
        Ok(unsafe { std::slice::from_raw_parts(self.map().as_ptr().add(at), block.len as usize) })
    }

    /// Lets `write` fill a block that this process has allocated and told nobody about yet.
    ///
    /// # Errors
    /// As [`Self::block_bytes`].
    pub fn write_block<R>(&self, block: &Block, write: impl FnOnce(&mut [u8]) -> R) -> Result<R, BadBlock> {
        let at = self.locate_block(block)?;
        // SAFETY: inside the mapping; until the block is made known, its allocator alone touches it
        // (module docs).
        Ok(write(unsafe { std::slice::from_raw_parts_mut(self.map().as_ptr().add(at), block.len as usize) }))
    }

    /// A private copy of a block's pages, made page by page on the first write. The block's bytes are
    /// at the second answer in the mapping.
    ///
    /// # Errors
    /// When the block is outside the arena, or the system refuses.
    pub fn map_copy_on_write(&self, block: &Block) -> std::io::Result<(Mapping, usize)> {
        let at = self.locate_block(block).map_err(std::io::Error::other)?;
        let skip = at % PAGE;
        let len = skip + (block.len as usize).max(1);
        Ok((Mapping::copy_on_write(self.fd(), (at - skip) as u64, len)?, skip))
    }

    /// The file in which the block lies, and where: for who hands it to the system without looking at it.
    ///
    /// # Errors
    /// As [`Self::block_bytes`].
    pub fn block_in_file(&self, block: &Block) -> Result<(BorrowedFd<'_>, u64), BadBlock> {
        Ok((self.fd(), self.locate_block(block)? as u64))
    }

    /// Brings in the memory of an extent for writing, in one call: far cheaper than by faults.
    ///
    /// # Errors
    /// When memory is short. Then using the extent would be a SIGBUS.
    pub fn populate(&self, extent: Extent) -> std::io::Result<()> {
        let at = self.locate(extent.offset, extent.len).map_err(std::io::Error::other)?;
        self.map().populate_write(at..at + extent.len as usize)
    }

    /// Maps in memory that others have written, in one call.
    ///
    /// # Errors
    /// When the block is outside the arena.
    pub fn populate_for_reading(&self, block: &Block) -> std::io::Result<()> {
        let at = self.locate_block(block).map_err(std::io::Error::other)?;
        self.map().populate_read(at..at + block.len as usize)
    }

    /// Gives an unused extent's memory back to the system.
    ///
    /// # Errors
    /// When the extent is outside the arena.
    pub fn punch(&self, extent: Extent) -> std::io::Result<()> {
        let at = self.locate(extent.offset, extent.len).map_err(std::io::Error::other)?;
        memfd::punch_hole(self.fd(), at as u64, extent.len)
    }

    /// Bytes of memory that the whole segment takes at present, mail included.
    ///
    /// # Errors
    /// Never for a live segment.
    pub fn resident(&self) -> std::io::Result<u64> {
        memfd::resident(self.fd())
    }

    fn locate_block(&self, block: &Block) -> Result<usize, BadBlock> {
        let arena = if block.host() == self.host() { self.arena_len() } else { 0 };
        self.locate_within(block.offset, block.len, arena)
    }

    fn locate(&self, offset: u64, len: u64) -> Result<usize, BadBlock> {
        self.locate_within(offset, len, self.arena_len())
    }

    fn locate_within(&self, offset: u64, len: u64, arena: u64) -> Result<usize, BadBlock> {
        match offset.checked_add(len) {
            Some(end) if end <= arena => Ok(self.shape().arena_at() + offset as usize),
            _ => Err(BadBlock { offset, len, arena }),
        }
    }
}
