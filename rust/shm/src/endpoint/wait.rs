//! Waiting for mail: attending threads, the helper thread, the agent's `epoll`.
//!
//! The helper takes over while the main thread runs user code. It does not come for every message:
//! only when the main thread has not looked after its mail for [`GRACE`]. Short calls in a row then
//! cost one wake-up of the helper each grace period, not one each.

use std::cell::Cell;
use std::time::{Duration, Instant};

use raymesh_sys::futex::{self, Woken};

use super::Endpoint;
use crate::segment::wake;
use crate::sync::{AtomicU32, Ordering};

/// How long mail may lie while the main thread seems to come back soon.
const GRACE: Duration = Duration::from_micros(300);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// There is mail, or room for an outbox: drain.
    Mail,
    /// Look again at what you wait for.
    Kicked,
    TimedOut,
    /// A signal handler ran in this thread.
    Interrupted,
}

/// While it lives, its thread looks after the mail: senders wake nobody unless the thread is parked
/// in [`Attend::wait`]. Make it before looking at what you wait for.
#[derive(Debug)]
pub struct Attend<'a> {
    endpoint: &'a Endpoint,
    /// Kicks that this thread has answered.
    answered: Cell<u32>,
}

impl Attend<'_> {
    /// Spins, then parks, until there is mail that no other thread is taking, a kick since the last
    /// look, the timeout, or a signal.
    pub fn wait(&self, timeout: Option<Duration>) -> WaitOutcome {
        let endpoint = self.endpoint;
        if endpoint.is_forked() {
            return WaitOutcome::Interrupted;
        }
        let look = || {
            if endpoint.has_loose_mail() {
                return Some(WaitOutcome::Mail);
            }
            let kicks = endpoint.kicks.load(Ordering::SeqCst);
            (self.answered.replace(kicks) != kicks).then_some(WaitOutcome::Kicked)
        };
        if let Some(found) = look() {
            return found;
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return WaitOutcome::TimedOut;
        }
        let spun = endpoint.spinner.spin(endpoint.segment.tokens(), endpoint.slot, timeout, look);
        spun.unwrap_or_else(|| self.park(timeout, look))
    }

    /// Spins as [`Self::wait`] does, but does not park. True: there is mail.
    pub fn glance(&self) -> bool {
        let endpoint = self.endpoint;
        let look = || endpoint.has_loose_mail().then_some(());
        let spin = || endpoint.spinner.spin(endpoint.segment.tokens(), endpoint.slot, None, look);
        look().or_else(spin).is_some()
    }

    fn park(&self, timeout: Option<Duration>, look: impl Fn() -> Option<WaitOutcome>) -> WaitOutcome {
        let start = Instant::now();
        let bell = self.endpoint.my_bell();
        loop {
            let word = bell.park_main();
            if let Some(found) = look() {
                bell.unpark_main();
                return found;
            }
            if let Some(ended) = sleep(bell.main_word(), word, start, timeout) {
                bell.unpark_main();
                return look().unwrap_or(ended);
            }
        }
    }
}

impl Drop for Attend<'_> {
    fn drop(&mut self) {
        if !self.endpoint.is_forked() && self.endpoint.my_bell().leave() {
            self.endpoint.ring_myself_if_mail();
        }
    }
}

impl Endpoint {
    /// From now on the calling thread looks after the mail, until the guard is dropped. Several
    /// threads may, and one thread may more than once.
    pub fn attend(&self) -> Attend<'_> {
        self.activity.fetch_add(1, Ordering::Relaxed);
        if !self.is_forked() {
            self.my_bell().enter();
        }
        Attend { endpoint: self, answered: Cell::new(self.kicks.load(Ordering::SeqCst)) }
    }

    /// Whether the main thread sleeps where mail does not wake it, as in an event loop: then the helper
    /// comes at once.
    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// Makes every attending thread of this process look again at what it waits for.
    pub fn kick(&self) {
        if self.is_forked() {
            return;
        }
        self.kicks.fetch_add(1, Ordering::SeqCst);
        let bell = self.my_bell();
        wake(bell, bell.ring_main(), None);
    }

    /// Makes the helper come back from [`Self::helper_wait`].
    pub fn kick_helper(&self) {
        if self.is_forked() {
            return;
        }
        self.helper_kicks.fetch_add(1, Ordering::SeqCst);
        let bell = self.my_bell();
        wake(bell, bell.ring_helper(), None);
    }

    /// For one helper thread: parks until there is mail that nobody attends to, a kick of the helper,
    /// the timeout, or a signal.
    pub fn helper_wait(&self, timeout: Option<Duration>) -> WaitOutcome {
        if self.is_forked() {
            return WaitOutcome::Interrupted;
        }
        let start = Instant::now();
        let bell = self.my_bell();
        let mut seen = self.activity.load(Ordering::Relaxed);
        loop {
            let word = bell.helper_ticket();
            if self.take_helper_kick() {
                return WaitOutcome::Kicked;
            }
            bell.arm_helper();
            if !self.has_unattended_mail() {
                if let Some(ended) = sleep(bell.helper_word(), word, start, timeout) {
                    bell.disarm_helper();
                    return ended;
                }
                continue;
            }
            bell.disarm_helper();
            let now = self.activity.load(Ordering::Relaxed);
            if now == seen || self.away.load(Ordering::SeqCst) {
                return WaitOutcome::Mail;
            }
            seen = now;
            match futex::wait(bell.helper_word(), word, Some(GRACE)) {
                Ok(Woken::Interrupted) => return WaitOutcome::Interrupted,
                _ if timeout.is_some_and(|timeout| start.elapsed() >= timeout) => {
                    return WaitOutcome::TimedOut;
                }
                _ => {}
            }
        }
    }

    fn take_helper_kick(&self) -> bool {
        let kicks = self.helper_kicks.load(Ordering::SeqCst);
        self.helper_answered.swap(kicks, Ordering::Relaxed) != kicks
    }

    fn has_unattended_mail(&self) -> bool {
        self.has_loose_mail() && !self.my_bell().is_attended()
    }

    /// For the agent, before it sleeps on its eventfd: from now on mail signals it, once. True: there
    /// is mail already, do not sleep.
    pub fn arm_eventfd(&self) -> bool {
        let bell = self.my_bell();
        bell.arm_event();
        let mail = self.has_mail();
        if mail {
            bell.disarm_event();
        }
        mail
    }
}

/// Sleeps once on a futex word. `None`: look again.
fn sleep(word: &AtomicU32, expected: u32, start: Instant, timeout: Option<Duration>) -> Option<WaitOutcome> {
    let left = match timeout {
        None => None,
        Some(timeout) => {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Some(WaitOutcome::TimedOut);
            }
            Some(left)
        }
    };
    match futex::wait(word, expected, left) {
        Ok(Woken::Interrupted) => Some(WaitOutcome::Interrupted),
        // A word that cannot be waited for would be a bug; looking again is safe.
        _ => None,
    }
}
