//! Waiting. The thread that waits reads the mail; when several wait, one leads and the others follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use raymesh_core::process::Flag;
use raymesh_shm::WaitOutcome;

use super::Proc;

/// A call that waits so long is blocked: its CPUs are lent out.
const BLOCKED_AFTER: Duration = Duration::from_millis(1);

/// A wait looks for a signal that it was not told of after so long, and less and less often then.
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    Done,
    TimedOut,
    /// A signal arrived, or may have: look after it, then wait again.
    Interrupted,
    /// The runtime stops.
    Stopped,
    /// What this thread waits for waits for this thread: [`Process::wait_cycle`] names the circle.
    Cycle,
}

/// A wait that may be continued after an interruption.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Nanoseconds of the process's clock.
    deadline: Option<u64>,
    /// The waiting thread runs a call, whose CPUs others may use meanwhile.
    in_call: bool,
    /// All of these are waited for.
    all_of: &'a [Arc<Flag>],
    /// When it began, if signals have to be looked after.
    began: Option<u64>,
}

impl<'a> Waiting<'a> {
    /// A wait that only ends when all of `flags` are ready: that it can never end may be found out.
    #[must_use]
    pub const fn all_of(self, flags: &'a [Arc<Flag>]) -> Self {
        Self { all_of: flags, ..self }
    }

    /// When to come back for a signal that nothing told of: one that arrives after the caller has last
    /// looked, and before the kernel lets the thread sleep, interrupts no sleep. The pauses grow with the
    /// wait, so it is not polling: such a signal is seen after as long again as the wait has lasted.
    fn look_at(&self, now: u64) -> Option<u64> {
        let lasted = now.saturating_sub(self.began?);
        // Coming back tells the controller that a call goes on and is blocked again.
        let growth = if self.in_call { 8 } else { 1 };
        Some(now.saturating_add(lasted.saturating_mul(growth).max(FIRST_LOOK.as_nanos() as u64)))
    }
}

impl Proc {
    /// A wait of at most `timeout`, from now.
    #[must_use]
    pub fn waiting(&self, timeout: Option<Duration>, in_call: bool) -> Waiting<'static> {
        let nanos = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = timeout.map(|timeout| self.clock.now().saturating_add(nanos(timeout)));
        Waiting { deadline, in_call, all_of: &[], began: None }
    }

    /// As [`Proc::waiting`], for a caller that looks after signals whenever the wait is interrupted. To be
    /// made once for a wait, however often that is continued.
    #[must_use]
    pub fn waiting_for_signals_too(&self, timeout: Option<Duration>, in_call: bool) -> Waiting<'static> {
        Waiting { began: Some(self.clock.now()), ..self.waiting(timeout, in_call) }
    }

    /// Waits until `done` says so. `done` is asked after every batch of mail.
    pub fn wait_until(&self, waiting: Waiting<'_>, mut done: impl FnMut(&Self) -> bool) -> Waited {
        if done(self) {
            return Waited::Done;
        }
        let mut blocked = Blocked { proc: self, since: None, all_of: waiting.all_of };
        let result = self.wait_loop(waiting, &mut done, &mut blocked);
        drop(blocked);
        result
    }

    fn wait_loop(
        &self,
        waiting: Waiting<'_>,
        done: &mut impl FnMut(&Self) -> bool,
        blocked: &mut Blocked<'_>,
    ) -> Waited {
        let now = self.clock.now();
        let times = Times {
            block_at: waiting.in_call.then(|| now.saturating_add(BLOCKED_AFTER.as_nanos() as u64)),
            look_at: waiting.look_at(now),
        };
        loop {
            if self.leader.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                let outcome = self.lead(waiting, done, &times, blocked);
                self.leader.store(false, Ordering::SeqCst);
                // One of them leads from now on.
                self.followers.notify_all();
                return outcome;
            }
            if let Some(outcome) = self.follow(waiting, done, &times, blocked) {
                return outcome;
            }
        }
    }

    fn lead(
        &self,
        waiting: Waiting<'_>,
        done: &mut impl FnMut(&Self) -> bool,
        times: &Times,
        blocked: &mut Blocked<'_>,
    ) -> Waited {
        let attend = self.endpoint.attend();
        loop {
            self.take_mail();
            if done(self) {
                return Waited::Done;
            }
            if self.is_stopping() {
                return Waited::Stopped;
            }
            let now = self.clock.now();
            if let Some(outcome) = self.give_up(waiting, now, times, blocked) {
                return outcome;
            }
            let due = blocked.due(times.block_at, now);
            match attend.wait(earliest([waiting.deadline, due, times.look_at], now)) {
                WaitOutcome::Interrupted => return Waited::Interrupted,
                WaitOutcome::Mail | WaitOutcome::Kicked | WaitOutcome::TimedOut => {}
            }
        }
    }

    /// Waits for the leader's news. None: try to lead.
    fn follow(
        &self,
        waiting: Waiting<'_>,
        done: &mut impl FnMut(&Self) -> bool,
        times: &Times,
        blocked: &mut Blocked<'_>,
    ) -> Option<Waited> {
        let now = self.clock.now();
        let due = blocked.due(times.block_at, now);
        let following = self.followers.join();
        if done(self) {
            return Some(Waited::Done);
        }
        if self.is_stopping() {
            return Some(Waited::Stopped);
        }
        if self.leader.load(Ordering::SeqCst)
            && following.sleep(earliest([waiting.deadline, due, times.look_at], now))
        {
            return Some(Waited::Interrupted);
        }
        if done(self) {
            return Some(Waited::Done);
        }
        self.give_up(waiting, self.clock.now(), times, blocked)
    }

    fn give_up(
        &self,
        waiting: Waiting<'_>,
        now: u64,
        times: &Times,
        blocked: &Blocked<'_>,
    ) -> Option<Waited> {
        if times.look_at.is_some_and(|at| now >= at) {
            return Some(Waited::Interrupted);
        }
        match waiting.deadline {
            Some(deadline) => (now >= deadline).then_some(Waited::TimedOut),
            // Whoever waits with a time limit may have a plan for then; others would wait for ever.
            None if blocked.since.is_some() => {
                self.read_core(|core| core.wait_cycle().is_some()).then_some(Waited::Cycle)
            }
            None => None,
        }
    }

    /// Waits until `count` of `flags` are ready.
    pub fn wait_some(&self, waiting: Waiting<'_>, flags: &[Arc<Flag>], count: usize) -> Waited {
        self.fetch_all(flags);
        self.wait_until(waiting, |proc| {
            let mut ready = 0;
            flags.iter().any(|flag| {
                ready += usize::from(proc.is_ready(flag));
                ready >= count
            })
        })
    }

    /// Spins for mail as a wait does, but does not sleep. False: none came, and the caller is about to
    /// sleep elsewhere, until [`Proc::back`].
    pub fn glance(&self) -> bool {
        let came = self.endpoint.attend().glance();
        if !came {
            self.endpoint.set_away(true);
        }
        self.drain();
        came
    }

    /// The thread that slept elsewhere is awake.
    pub fn back(&self) {
        self.endpoint.set_away(false);
    }

    /// Takes what mail there is about `flags`, without waiting.
    pub fn poll(&self, flags: &[Arc<Flag>]) {
        self.fetch_all(flags);
        self.drain();
    }

    /// Asks the owners of borrowed objects for their values.
    pub fn fetch_all(&self, flags: &[Arc<Flag>]) {
        if flags.iter().any(|flag| flag.is_lost() || flag.id().owner != self.me && !flag.is_ready()) {
            self.with_core(|core, _, fx| {
                for flag in flags.iter().filter(|flag| !flag.is_ready()) {
                    core.want(flag.id(), fx);
                }
            });
        }
    }

    /// Whether the object has its value. One that was lost is asked for again: it may have had it when the wait
    /// began.
    #[must_use]
    pub fn is_ready(&self, flag: &Flag) -> bool {
        if flag.is_lost() {
            self.with_core(|core, _, fx| core.want(flag.id(), fx));
        }
        flag.is_ready()
    }

    /// Wakes a waiting thread of this process to look at its condition again.
    pub fn kick(&self) {
        self.endpoint.kick();
    }
}

/// Moments of a wait, on the process's clock.
struct Times {
    /// When the call that waits is blocked.
    block_at: Option<u64>,
    /// When to come back for signals.
    look_at: Option<u64>,
}

/// Tells the core when the wait of a running call has lasted, and when it is over.
struct Blocked<'a> {
    proc: &'a Proc,
    since: Option<u64>,
    all_of: &'a [Arc<Flag>],
}

impl Blocked<'_> {
    /// When to declare the call blocked; does so once that moment has come.
    fn due(&mut self, block_at: Option<u64>, now: u64) -> Option<u64> {
        let at = block_at.filter(|_| self.since.is_none())?;
        if now < at {
            return Some(at);
        }
        self.since = Some(now);
        let missing = self.all_of.iter().filter(|flag| !flag.is_ready());
        let missing: Vec<_> = missing.map(|flag| flag.id()).collect();
        self.proc.with_core(|core, _, fx| core.block(&missing, fx));
        None
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        if self.since.is_some() {
            self.proc.with_core(|core, _, fx| core.unblock(fx));
        }
    }
}

fn earliest(times: [Option<u64>; 3], now: u64) -> Option<Duration> {
    let at = times.into_iter().flatten().min()?;
    Some(Duration::from_nanos(at.saturating_sub(now)))
}
