//! How many may spin: at most one waiter for each core but one, counted for the whole host, so that
//! waiting never takes the core that the awaited work needs. On a machine with one core nobody spins.
//!
//! The right to spin is a token in the segment that names its holder: the agent takes it back when
//! the holder has died. A process has at most one.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use crate::layout::Token;
use crate::sync::Ordering;

/// Longest spin in nanoseconds: more than it takes to wake a process on an idle core and get its
/// answer, so that one side that spins finds the other, and both come out of parking.
const FULL: u32 = 70_000;
/// A spin to find out whether spinning pays again.
const PROBE: u32 = 140_000;
/// Waits from one probe to the next: at first, and at most.
const PROBE_EVERY: u32 = 16;
const PROBE_AT_LEAST_EVERY: u32 = 64;
/// A gap this long between two looks at the clock: something else took the core.
const PREEMPTED: Duration = Duration::from_micros(100);
/// Looks before the first look at the clock; they need no token.
const FREE_LOOKS: u32 = 32;
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

/// A process's experience with spinning: it spins as long as that pays. Where it does not (the
/// awaited work takes longer, or needs this very core because others keep the machine busy), it parks
/// at once, and probes now and then.
#[derive(Debug)]
pub struct Spinner {
    budget_ns: AtomicU32,
    /// Waits until the next probe, once the budget is 0.
    skip: AtomicU32,
    /// Waits between probes.
    interval: AtomicU32,
    /// One thread of the process at a time.
    busy: AtomicBool,
}

impl Spinner {
    pub fn new() -> Self {
        Self {
            budget_ns: AtomicU32::new(FULL),
            skip: AtomicU32::new(0),
            interval: AtomicU32::new(PROBE_EVERY),
            busy: AtomicBool::new(false),
        }
    }

    /// Looks until `look` finds something, or spinning does not seem worth it. `most`: no longer.
    pub fn spin<T>(
        &self,
        tokens: Tokens<'_>,
        slot: u32,
        most: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if !tokens.any() {
            return None;
        }
        for _ in 0..FREE_LOOKS {
            if let Some(found) = look() {
                self.paid();
                return Some(found);
            }
            raymesh_sys::spin_hint();
        }
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        let found = self.budget().and_then(|budget| {
            let _held = tokens.acquire(slot)?;
            let most = most.map_or(budget, |most| budget.min(most));
            let found = spin_for(most, look);
            match found {
                Some(_) => self.paid(),
                None => self.failed(),
            }
            found
        });
        self.busy.store(false, Ordering::Release);
        found
    }

    fn budget(&self) -> Option<Duration> {
        let mut budget = self.budget_ns.load(Ordering::Relaxed);
        if budget == 0 {
            let skip = self.skip.load(Ordering::Relaxed);
            self.skip.store(skip.saturating_sub(1), Ordering::Relaxed);
            budget = if skip == 0 { PROBE } else { return None };
        }
        Some(Duration::from_nanos(budget.into()))
    }

    fn paid(&self) {
        if self.budget_ns.load(Ordering::Relaxed) != FULL {
            self.budget_ns.store(FULL, Ordering::Relaxed);
            self.interval.store(PROBE_EVERY, Ordering::Relaxed);
        }
    }

    fn failed(&self) {
        let budget = self.budget_ns.load(Ordering::Relaxed);
        let interval = self.interval.load(Ordering::Relaxed);
        if budget == 0 {
            self.interval.store((interval * 2).min(PROBE_AT_LEAST_EVERY), Ordering::Relaxed);
        }
        let next = budget / 4;
        self.budget_ns.store(if next < FULL / 20 { 0 } else { next }, Ordering::Relaxed);
        self.skip.store(interval, Ordering::Relaxed);
    }
}

fn spin_for<T>(budget: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    let mut last = start;
    loop {
        for _ in 0..LOOKS_PER_CLOCK {
            if let Some(found) = look() {
                return Some(found);
            }
            raymesh_sys::spin_hint();
        }
        let now = Instant::now();
        if now - last > PREEMPTED || now - start > budget {
            return None;
        }
        last = now;
    }
}
