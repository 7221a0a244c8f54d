//! Futexes in memory shared between processes (never `FUTEX_PRIVATE`).

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

/// Why [`wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Woken, or for no reason at all: look again.
    Woken,
    /// The word did not hold the expected value any more.
    Changed,
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, for at most `timeout` from now (`None`: without end).
///
/// # Errors
/// What the kernel refuses for other reasons (never seen on a valid word).
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> io::Result<Woken> {
    let timeout = timeout.map(timespec);
    outcome(futex::wait(word, Flags::empty(), expected, timeout.as_ref()))
}

/// As [`wait`], until an instant on the monotonic clock, given as time since that clock's zero.
///
/// # Errors
/// As [`wait`].
pub fn wait_until(word: &AtomicU32, expected: u32, deadline: Duration) -> io::Result<Woken> {
    let deadline = timespec(deadline);
    let any = std::num::NonZeroU32::MAX;
    let result = futex::wait_bitset(word, Flags::empty(), expected, Some(&deadline), any);
    outcome(result.map(|_| ()))
}

/// Wakes at most `count` waiters; answers how many.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    // The kernel reads the count as a signed number. A wake-up on a mapped, aligned word cannot fail.
    futex::wake(word, Flags::empty(), count.min(i32::MAX as u32)).unwrap_or(0)
}

/// Wakes all waiters; answers how many.
pub fn wake_all(word: &AtomicU32) -> usize {
    wake(word, u32::MAX)
}

/// Time since the zero of the monotonic clock, as [`wait_until`] wants it.
#[must_use]
pub fn now() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

fn outcome(result: rustix::io::Result<()>) -> io::Result<Woken> {
    match result {
        Ok(()) => Ok(Woken::Woken),
        Err(Errno::AGAIN) => Ok(Woken::Changed),
        Err(Errno::TIMEDOUT) => Ok(Woken::TimedOut),
        Err(Errno::INTR) => Ok(Woken::Interrupted),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests;
