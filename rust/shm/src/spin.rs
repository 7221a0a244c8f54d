//! How many may spin: at most one waiter for each core but one, counted for the whole host, so that
//! waiting never takes the core that the awaited work needs. On a machine with one core nobody spins.
//!
//! The right to spin is a token in the segment that names its holder: the agent takes it back when
//! the holder has died. A process has at most one.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use crate::layout::Token;
use crate::sync::Ordering;

/// Longest spin. A wake-up across cores costs about as much.
const MAX_BUDGET_NS: u32 = 40_000;
const MIN_BUDGET_NS: u32 = 3_000;
/// A gap this long between two looks at the clock: something else took the core.
const PREEMPTED: Duration = Duration::from_micros(100);
/// After that, this process does not spin for so long.
const BACK_OFF: Duration = Duration::from_millis(4);
/// Looks before the first look at the clock; they need no token.
const FREE_LOOKS: u32 = 64;
const LOOKS_PER_CLOCK: u32 = 32;

/// The tokens of the host.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a>(pub &'a [Token]);

impl<'a> Tokens<'a> {
    fn acquire(self, slot: u32) -> Option<Held<'a>> {
        let count = self.0.len();
        // Look from a place of one's own on, so that processes do not fight for the first.
        (0..count.min(8)).find_map(|step| {
            let token = &self.0[(slot as usize + step) % count];
            let free = token.0.load(Ordering::Relaxed) == 0
                && token.0.compare_exchange(0, slot + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            free.then_some(Held(token))
        })
    }

    /// Takes back what a dead process holds.
    pub fn release_of(self, slot: u32) {
        for token in self.0 {
            let _ = token.0.compare_exchange(slot + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether anybody may ever spin here.
    pub fn any(self) -> bool {
        !self.0.is_empty()
    }
}

struct Held<'a>(&'a Token);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Relaxed);
    }
}

/// A process's experience with spinning: spins that do not pay become shorter.
#[derive(Debug)]
pub struct Spinner {
    born: Instant,
    budget_ns: AtomicU32,
    /// No spinning before this time, in nanoseconds after `born`.
    pause_until: AtomicU64,
    /// One thread of the process at a time.
    busy: AtomicBool,
}

impl Spinner {
    pub fn new() -> Self {
        Self {
            born: Instant::now(),
            budget_ns: AtomicU32::new(MAX_BUDGET_NS),
            pause_until: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        }
    }

    /// Looks until `look` finds something or the spin is over.
    pub fn spin<T>(&self, tokens: Tokens<'_>, slot: u32, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if !tokens.any() {
            return None;
        }
        for _ in 0..FREE_LOOKS {
            if let Some(found) = look() {
                return Some(found);
            }
            raymesh_sys::spin_hint();
        }
        let start = Instant::now();
        if self.nanos(start) < self.pause_until.load(Ordering::Relaxed)
            || self.busy.swap(true, Ordering::Acquire)
        {
            return None;
        }
        let found = tokens.acquire(slot).and_then(|_held| self.spin_until_spent(start, look));
        self.busy.store(false, Ordering::Release);
        found
    }

    fn spin_until_spent<T>(&self, start: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let budget = Duration::from_nanos(self.budget_ns.load(Ordering::Relaxed).into());
        let mut last = start;
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                if let Some(found) = look() {
                    return Some(found);
                }
                raymesh_sys::spin_hint();
            }
            let now = Instant::now();
            if now - last > PREEMPTED {
                self.pause_until.store(self.nanos(now + BACK_OFF), Ordering::Relaxed);
                return None;
            }
            if now - start > budget {
                return None;
            }
            last = now;
        }
    }

    /// Learns from a wait that had to park: was it so short that a longer spin would have met it?
    pub fn learn(&self, parked_for: Duration) {
        let budget = self.budget_ns.load(Ordering::Relaxed);
        let short = parked_for < Duration::from_nanos(u64::from(MAX_BUDGET_NS) * 2);
        let next = if short { budget.saturating_mul(2) } else { budget / 2 };
        self.budget_ns.store(next.clamp(MIN_BUDGET_NS, MAX_BUDGET_NS), Ordering::Relaxed);
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from((at - self.born).as_nanos()).unwrap_or(u64::MAX)
    }
}
