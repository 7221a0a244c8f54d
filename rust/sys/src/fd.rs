//! Descriptors that cross `fork` and `exec`, and eventfds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::event::EventfdFlags;
use rustix::io::FdFlags;

/// Takes up a descriptor that this process inherited under a number, as a duplicate of its own
/// (closed on `exec`). The inherited one stays open.
///
/// # Errors
/// When nothing is open under that number.
pub fn from_inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicating takes any number, and refuses one that is not open.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, so owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether the descriptor stays open across `exec`.
///
/// # Errors
/// Never for an open descriptor.
pub fn set_inheritable(fd: impl AsFd, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable { FdFlags::empty() } else { FdFlags::CLOEXEC };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// A new event counter, non-blocking, closed on `exec`.
///
/// # Errors
/// When the process has too many descriptors.
pub fn eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Makes the eventfd readable.
pub fn eventfd_signal(fd: impl AsFd) {
    // Fails only when the counter is full: then it is readable already.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Takes back what was signalled; answers whether there was anything.
pub fn eventfd_clear(fd: impl AsFd) -> bool {
    rustix::io::read(fd, &mut [0; 8]).is_ok()
}

/// A counter with a file descriptor: readable while signalled. Not inherited by other programs.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        eventfd().map(Self)
    }

    pub fn signal(&self) {
        eventfd_signal(&self.0);
    }

    /// Takes the signal away. True if there was one.
    pub fn clear(&self) -> bool {
        eventfd_clear(&self.0)
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests;
