//! Time as the state machines see it.

use std::time::{Duration, Instant};

/// Nanoseconds, from zero or where another clock was; never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    ahead: u64,
}

impl Clock {
    #[must_use]
    pub fn new() -> Self {
        Self::from(0)
    }

    /// One that goes on from there.
    #[must_use]
    pub fn from(now: u64) -> Self {
        Self { start: Instant::now(), ahead: now }
    }

    #[must_use]
    pub fn now(&self) -> u64 {
        self.ahead + nanos(self.start.elapsed())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// How long the calling thread has run, in nanoseconds.
#[must_use]
pub fn thread_ran() -> u64 {
    let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(ran).map_or(0, nanos)
}

/// As nanoseconds; centuries saturate.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
