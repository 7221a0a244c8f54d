//! Binds waiting starts to workers, forks what is missing, retires what is too much.

use raymesh_wire::control::{Death, DeathCause, ExitReason, FromHost};
use raymesh_wire::{FromController, JobId, LeaseId, ProcId};

use super::starts::Start;
use super::workers::State;
use super::{Effect, Effects, Host};

/// Workers that may fail to start in a row before those that wait are told.
const MAX_FAILURES: u32 = 3;
/// After a start that failed, no worker is started ahead of need for so long.
const SPARE_PAUSE: u64 = 1_000_000_000;
/// How long a worker may take to end in an orderly way.
const GRACE: u64 = 30_000_000_000;
/// A worker that declined to retire is not asked again for so long.
const DECLINED: u64 = 30_000_000_000;

impl Host {
    /// A lease or actor needs a worker.
    pub(super) fn begin(&mut self, lease: LeaseId, start: Start, effects: &mut Effects) {
        let idle = match &start {
            Start::Lease { .. } => self.workers.idle_for_task(&start.work()),
            Start::Actor { .. } => self.workers.idle_fresh(),
        };
        match idle {
            Some(proc) => self.bind(proc, lease, start, effects),
            None => self.starts.push(lease, start),
        }
    }

    fn bind(&mut self, proc: ProcId, lease: LeaseId, start: Start, effects: &mut Effects) {
        let pid = self.workers.get(proc).map_or(0, |worker| worker.pid);
        let work = start.work();
        // It leaves the idle ones, which are found by what it was for, before it takes on the new.
        match start {
            Start::Lease { caller, job, resources, gpus, env, group } => {
                self.workers.set_state(proc, State::Leased(lease));
                if let Some(worker) = self.workers.get_mut(proc) {
                    worker.work = Some(work);
                }
                let leased = FromController::Leased { lease, caller, job, resources, gpus, env, group };
                effects.push(Effect::Send { to: proc, message: leased });
                effects.push(Effect::ToController(FromHost::LeaseBound { lease, worker: proc }));
            }
            Start::Actor { spec, restarts, gpus } => {
                self.workers.set_state(proc, State::Actor(lease));
                if let Some(worker) = self.workers.get_mut(proc) {
                    worker.work = Some(work);
                }
                effects.push(Effect::ToController(FromHost::ActorStarted { start: lease, proc, pid }));
                let message = FromController::StartActor { spec, restarts, gpus };
                effects.push(Effect::Send { to: proc, message });
            }
        }
    }

    /// The worker has nothing to do: it gets the oldest start that it may serve, or idles.
    fn available(&mut self, proc: ProcId, since: u64, effects: &mut Effects) {
        let Some(work) = self.workers.get(proc).map(|worker| &worker.work) else { return };
        if work.as_ref().is_some_and(|work| self.ended_jobs.contains(&work.job)) {
            self.end_worker(proc, ExitReason::Shutdown, effects);
            return;
        }
        let next = self.starts.first_for(work.as_ref());
        match next.and_then(|lease| Some((lease, self.starts.remove(lease)?))) {
            Some((lease, start)) => self.bind(proc, lease, start, effects),
            None => self.workers.set_state(proc, State::Idle(since)),
        }
    }

    /// Forks as many workers as are missing.
    pub(super) fn fork_more(&mut self, effects: &mut Effects) {
        if self.spare_at <= self.now {
            self.spare_at = 0;
        }
        let spare = if self.spare_at == 0 { self.config.spare as usize } else { 0 };
        let spare = spare.saturating_sub(self.workers.fresh());
        let wanted = (self.starts.len() + spare).min(self.config.max_starting.max(1) as usize);
        while (self.workers.starting as usize) < wanted {
            let Some(proc) = self.slots.allocate() else {
                if self.workers.starting == 0 {
                    self.fail_starts("the host has no room for more processes", effects);
                }
                return;
            };
            self.workers.add(proc);
            effects.push(Effect::Fork { proc });
        }
    }

    pub(super) fn hello(&mut self, proc: ProcId, pid: u32, effects: &mut Effects) {
        self.forked(proc, pid, effects);
        let now = self.now;
        let Some(worker) = self.workers.get_mut(proc) else { return };
        match worker.state {
            State::Starting if !worker.doomed => {
                self.failures = 0;
                self.available(proc, now, effects);
            }
            State::Retiring => {
                // It cannot go yet.
                worker.cause = None;
                if let Some(at) = worker.deadline.take() {
                    self.deadlines.remove(&(at, proc));
                }
                self.available(proc, now + DECLINED, effects);
            }
            _ => {}
        }
    }

    pub(super) fn forked(&mut self, proc: ProcId, pid: u32, effects: &mut Effects) {
        let Some(worker) = self.workers.get_mut(proc) else { return };
        if worker.pid == 0 {
            worker.pid = pid;
            effects.push(Effect::ToController(FromHost::ProcStarted { proc, pid, driver: false }));
            if worker.doomed {
                effects.push(Effect::Kill { proc });
            }
        }
    }

    pub(super) fn fork_failed(&mut self, proc: ProcId, reason: &str, effects: &mut Effects) {
        if self.workers.remove(proc).is_some() {
            self.slots.release(proc);
            self.start_failed(reason, effects);
        }
    }

    fn start_failed(&mut self, reason: &str, effects: &mut Effects) {
        self.spare_at = self.now + SPARE_PAUSE;
        self.failures += 1;
        if self.failures >= MAX_FAILURES {
            self.failures = 0;
            self.fail_starts(reason, effects);
        }
    }

    fn fail_starts(&mut self, reason: &str, effects: &mut Effects) {
        for (lease, start) in self.starts.take_all() {
            let reason = reason.to_owned();
            effects.push(Effect::ToController(match start {
                Start::Lease { .. } => FromHost::LeaseFailed { lease, reason },
                Start::Actor { .. } => FromHost::ActorStartFailed { start: lease, reason },
            }));
        }
    }

    /// What is to be said of it; none if it is not known.
    pub(super) fn died(&mut self, proc: ProcId, mut death: Death, effects: &mut Effects) -> Option<Death> {
        if let Some(pid) = self.drivers.remove(&proc) {
            self.slots.release(proc);
            death.pid = pid;
            return Some(death);
        }
        let state = self.workers.get(proc).map(|worker| worker.state);
        let worker = self.workers.remove(proc)?;
        self.slots.release(proc);
        if let Some(at) = worker.deadline {
            self.deadlines.remove(&(at, proc));
        }
        death.cause = ours(worker.cause, death.cause);
        death.pid = worker.pid;
        if state == Some(State::Starting) && !worker.doomed {
            self.start_failed(&format!("worker process (pid {}) ended as it started", worker.pid), effects);
        }
        Some(death)
    }

    pub(super) fn end_lease(&mut self, lease: LeaseId, kill: bool, effects: &mut Effects) {
        if self.starts.remove(lease).is_some() {
            if kill {
                let reason = "ended before it had a worker".to_owned();
                effects.push(Effect::ToController(FromHost::LeaseFailed { lease, reason }));
            }
            return;
        }
        let Some(proc) = self.workers.by_lease.get(&lease).copied() else { return };
        if kill {
            let reason = ExitReason::Shutdown;
            self.kill(proc, &DeathCause::Requested { reason }, effects);
        } else {
            self.available(proc, self.now, effects);
        }
    }

    /// SIGKILL, now or as soon as the process exists.
    pub(super) fn kill(&mut self, proc: ProcId, cause: &DeathCause, effects: &mut Effects) {
        let Some(worker) = self.workers.get_mut(proc) else { return };
        let again = worker.doomed;
        worker.doomed = true;
        worker.cause = Some(cause.clone());
        if worker.pid != 0 && !again {
            effects.push(Effect::Kill { proc });
        }
        if worker.state != State::Starting {
            self.workers.set_state(proc, State::Ending);
        }
    }

    /// Asks the worker to end, and sees to it that it does.
    pub(super) fn end_worker(&mut self, proc: ProcId, reason: ExitReason, effects: &mut Effects) {
        let state = if reason == ExitReason::Retired { State::Retiring } else { State::Ending };
        let now = self.now;
        let Some(worker) = self.workers.get_mut(proc) else { return };
        if worker.doomed {
            return;
        }
        worker.cause = Some(DeathCause::Requested { reason });
        if worker.deadline.is_none() {
            worker.deadline = Some(now + GRACE);
            self.deadlines.insert((now + GRACE, proc));
        }
        self.workers.set_state(proc, state);
        effects.push(Effect::Send { to: proc, message: FromController::Exit { reason } });
    }

    pub(super) fn job_ended(&mut self, job: JobId, effects: &mut Effects) {
        self.ended_jobs.insert(job);
        for proc in self.workers.idle_of_job(job) {
            self.end_worker(proc, ExitReason::Shutdown, effects);
        }
    }

    pub(super) fn next_retirement(&self) -> Option<u64> {
        if self.workers.idle() <= self.config.keep_idle as usize {
            return None;
        }
        let (since, _) = self.workers.oldest_idle(self.config.spare as usize)?;
        Some(since + self.config.idle_timeout)
    }

    /// Once there are enough spare workers without them. Till then they serve, if need be.
    pub(super) fn retire_outdated(&mut self, effects: &mut Effects) {
        while self.workers.fresh() >= self.config.spare as usize
            && let Some(proc) = self.workers.oldest_outdated(self.now)
        {
            self.end_worker(proc, ExitReason::Retired, effects);
        }
    }

    /// Retires workers that idled for long, and ends by force those that do not end.
    pub(super) fn on_time(&mut self, effects: &mut Effects) {
        while self.next_retirement().is_some_and(|at| at <= self.now) {
            let Some((_, proc)) = self.workers.oldest_idle(self.config.spare as usize) else { return };
            self.end_worker(proc, ExitReason::Retired, effects);
        }
        while let Some((at, proc)) = self.deadlines.first().copied()
            && at <= self.now
        {
            self.deadlines.pop_first();
            let cause = self.workers.get(proc).and_then(|worker| worker.cause.clone());
            if let Some(worker) = self.workers.get_mut(proc) {
                worker.deadline = None;
            }
            self.kill(proc, &cause.unwrap_or(DeathCause::Killed), effects);
        }
    }
}

/// How a process ended that we wanted to end: our doing, unless something else came first.
fn ours(wanted: Option<DeathCause>, seen: DeathCause) -> DeathCause {
    const SIGKILL: i32 = 9;
    match (wanted, seen) {
        (Some(wanted), DeathCause::Signaled { signal: SIGKILL } | DeathCause::Exited { code: 0 }) => wanted,
        (_, seen) => seen,
    }
}
