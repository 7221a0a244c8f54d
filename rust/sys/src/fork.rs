//! Whether this is the process that it was, or a forked child of it: for state that a child inherits
//! as a copy but must not act on. Costs one load to ask.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;

/// Made by a process for itself.
#[derive(Debug)]
pub struct ForkMark {
    page: Mapping,
}

impl ForkMark {
    /// # Errors
    /// When memory is short, or the kernel is older than 4.14.
    pub fn new() -> io::Result<Self> {
        let mark = Self { page: Mapping::wiped_on_fork()? };
        mark.word().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// Whether the caller is the process that made the mark.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 1
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped as long as `self` lives, aligned, and only used as this word.
        unsafe { &*self.page.as_ptr().cast() }
    }
}

#[cfg(test)]
mod tests;
