//! Memory maps of a file that unmap themselves when dropped.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The page size that layouts rely on. Larger kernel pages are refused when mapping (offsets must
/// be multiples of the kernel's page size).
pub const PAGE: usize = 4096;

/// A mapped range of a file. Forked children inherit it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is memory of the whole process; what is done with it through `as_ptr` is for
// the user of the pointer to order.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method writes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first `len` bytes, readable and writable, shared with everybody who maps the file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn shared(fd: impl AsFd, len: usize) -> io::Result<Self> {
        Self::new(fd, 0, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    /// A range to read only: a write through it is a SIGSEGV. `offset` is a multiple of [`PAGE`].
    ///
    /// # Errors
    /// When the system refuses, for example because of an unaligned offset.
    pub fn read_only(fd: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        Self::new(fd, offset, len, ProtFlags::READ, MapFlags::SHARED)
    }

    /// A range to read and write, in which the first write to a page makes a private copy of it.
    /// `offset` is a multiple of [`PAGE`].
    ///
    /// # Errors
    /// As [`Self::read_only`].
    pub fn copy_on_write(fd: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        Self::new(fd, offset, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    /// One page of zeros of this process alone, that reads as zero again in forked children.
    pub(crate) fn wiped_on_fork() -> io::Result<Self> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE, prot, flags)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let page = Self { base, len: PAGE };
        page.advise(0..PAGE, Advice::LinuxWipeOnFork)?;
        Ok(page)
    }

    fn new(fd: impl AsFd, offset: u64, len: usize, prot: ProtFlags, flags: MapFlags) -> io::Result<Self> {
        let flags = flags | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, fd, offset)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    /// Start of the mapped memory, valid for [`Self::len`] bytes as long as `self` lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Faults in all pages of the range for writing, in one call; contents stay.
    ///
    /// # Errors
    /// When memory is short, or the kernel is older than 5.14.
    pub fn populate_write(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(range, Advice::LinuxPopulateWrite)
    }

    /// Faults in all pages of the range for reading, in one call.
    ///
    /// # Errors
    /// As [`Self::populate_write`].
    pub fn populate_read(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(range, Advice::LinuxPopulateRead)
    }

    /// Lets the kernel back the range with huge pages, where it is configured to.
    ///
    /// # Errors
    /// When the kernel has no huge pages.
    pub fn prefer_huge_pages(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(range, Advice::LinuxHugepage)
    }

    /// Keeps the whole mapping out of core dumps.
    ///
    /// # Errors
    /// When the kernel does not know how.
    pub fn exclude_from_core_dumps(&self) -> io::Result<()> {
        self.advise(0..self.len, Advice::LinuxDontDump)
    }

    fn advise(&self, range: Range<usize>, advice: Advice) -> io::Result<()> {
        let (start, len) = self.pages(range)?;
        // SAFETY: the range lies in this mapping; none of the advices used here changes contents.
        unsafe { rustix::mm::madvise(start, len, advice)? };
        Ok(())
    }

    /// The pages that hold `range`.
    fn pages(&self, range: Range<usize>) -> io::Result<(*mut c_void, usize)> {
        if range.start > range.end || range.end > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let start = range.start & !(PAGE - 1);
        // SAFETY: `start` is inside the mapping.
        let pointer = unsafe { self.as_ptr().add(start) };
        Ok((pointer.cast(), range.end - start))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, unmapped only here; borrowers of `self` are gone.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap: {result:?}");
    }
}

#[cfg(test)]
mod tests;
