//! Anonymous shared memory: no name, so the kernel takes it back with its last user.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

/// A memory file of `len` bytes, all zero and not yet backed by memory. Sealed: nobody can shrink it
/// under a mapping (which would turn a read into a SIGBUS) or let it grow. Closed on `exec`.
///
/// # Errors
/// When the system refuses (descriptors, `len` beyond what it supports).
pub fn create(name: &str, len: u64) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, len)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(fd)
}

/// Size of the file in bytes.
///
/// # Errors
/// When `fd` is no file.
pub fn len(fd: impl AsFd) -> io::Result<u64> {
    Ok(u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or(0))
}

/// Bytes of memory that the file holds at present.
///
/// # Errors
/// When `fd` is no file.
pub fn resident(fd: impl AsFd) -> io::Result<u64> {
    Ok(u64::try_from(rustix::fs::fstat(fd)?.st_blocks).unwrap_or(0) * 512)
}

/// Gives the memory of whole pages in this range back to the system; they read as zero afterwards.
///
/// # Errors
/// When the range is empty or outside the file.
pub fn punch_hole(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    rustix::fs::fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?;
    Ok(())
}

#[cfg(test)]
mod tests;
