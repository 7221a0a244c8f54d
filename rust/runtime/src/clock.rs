//! Time as the state machines see it.

use std::time::{Duration, Instant};

/// Nanoseconds since the clock was made; never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    #[must_use]
    pub fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// As nanoseconds; centuries saturate.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
