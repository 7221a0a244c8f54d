//! The host's worker processes and what each is doing.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::control::DeathCause;
use raymesh_wire::{Environment, JobId, LeaseId, ProcId};

/// What a worker is for: the tasks of one job that need one environment. It runs no others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Work {
    pub job: JobId,
    pub env: Environment,
}

/// One worker process.
#[derive(Debug)]
pub(super) struct Worker {
    /// 0 until known.
    pub pid: u32,
    pub state: State,
    /// None: it has run nothing.
    pub work: Option<Work>,
    /// Others have more from birth: of those that have run nothing, it is taken last and retired first.
    outdated: bool,
    /// To be killed as soon as the process exists.
    pub doomed: bool,
    /// When it is ended by force, if it has not ended by then.
    pub deadline: Option<u64>,
    /// Why it dies, if it dies of our doing.
    pub cause: Option<DeathCause>,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not ready yet.
    Starting,
    /// Since then. A time to come: it is not to be retired for long.
    Idle(u64),
    Leased(LeaseId),
    Actor(LeaseId),
    /// Asked to retire; may decline.
    Retiring,
    /// Asked to end, or killed.
    Ending,
}

/// All workers, and the idle ones among them.
#[derive(Debug, Default)]
pub(super) struct Workers {
    all: BTreeMap<ProcId, Worker>,
    pub by_lease: BTreeMap<LeaseId, ProcId>,
    pub starting: u32,
    /// Idle ones that have run nothing, outdated or not; those that have, by what they are for; and these by
    /// time.
    fresh: BTreeSet<(u64, ProcId)>,
    outdated: BTreeSet<(u64, ProcId)>,
    used: BTreeSet<(Work, u64, ProcId)>,
    used_since: BTreeSet<(u64, ProcId)>,
}

impl Workers {
    pub fn add(&mut self, proc: ProcId) {
        let worker = Worker {
            pid: 0,
            state: State::Starting,
            work: None,
            outdated: false,
            doomed: false,
            deadline: None,
            cause: None,
        };
        self.starting += 1;
        self.all.insert(proc, worker);
    }

    pub fn get(&self, proc: ProcId) -> Option<&Worker> {
        self.all.get(&proc)
    }

    pub fn get_mut(&mut self, proc: ProcId) -> Option<&mut Worker> {
        self.all.get_mut(&proc)
    }

    pub fn remove(&mut self, proc: ProcId) -> Option<Worker> {
        self.set_state(proc, State::Ending);
        self.all.remove(&proc)
    }

    pub fn idle(&self) -> usize {
        self.fresh.len() + self.outdated.len() + self.used.len()
    }

    /// Idle ones that have run nothing and are up to date.
    pub fn fresh(&self) -> usize {
        self.fresh.len()
    }

    /// The best idle worker for such a task: one that has run others of them, lately.
    pub fn idle_for_task(&self, work: &Work) -> Option<ProcId> {
        let least = (work.clone(), 0, ProcId::from_u64(0));
        let most = (work.clone(), u64::MAX, ProcId::from_u64(u64::MAX));
        self.used.range(least..=most).next_back().map(|(_, _, proc)| *proc).or_else(|| self.idle_fresh())
    }

    /// An idle worker that has run nothing yet.
    pub fn idle_fresh(&self) -> Option<ProcId> {
        self.fresh.last().or_else(|| self.outdated.last()).map(|(_, proc)| *proc)
    }

    pub fn idle_of_job(&self, job: JobId) -> Vec<ProcId> {
        let least = Work { job, env: Environment::default() };
        let from = self.used.range((least, 0, ProcId::from_u64(0))..);
        from.take_while(|(work, ..)| work.job == job).map(|(_, _, proc)| *proc).collect()
    }

    /// The idle worker that may be retired first, and since when it idles; `spare` fresh ones stay.
    pub fn oldest_idle(&self, spare: usize) -> Option<(u64, ProcId)> {
        let fresh = (self.fresh.len() > spare).then(|| self.fresh.first()).flatten();
        self.used_since.first().or_else(|| self.outdated.first()).or(fresh).copied()
    }

    /// An idle worker that is outdated, unless it has declined to go.
    pub fn oldest_outdated(&self, now: u64) -> Option<ProcId> {
        self.outdated.first().filter(|(since, _)| *since <= now).map(|(_, proc)| *proc)
    }

    pub fn outdate(&mut self, proc: ProcId) {
        let Some(worker) = self.all.get_mut(&proc) else { return };
        worker.outdated = true;
        if let (State::Idle(since), None) = (worker.state, &worker.work)
            && self.fresh.remove(&(since, proc))
        {
            self.outdated.insert((since, proc));
        }
    }

    pub fn set_state(&mut self, proc: ProcId, state: State) {
        let Some(worker) = self.all.get_mut(&proc) else { return };
        match worker.state {
            State::Starting => self.starting -= 1,
            State::Idle(since) => match &worker.work {
                None => {
                    self.fresh.remove(&(since, proc));
                    self.outdated.remove(&(since, proc));
                }
                Some(work) => {
                    self.used.remove(&(work.clone(), since, proc));
                    self.used_since.remove(&(since, proc));
                }
            },
            State::Leased(lease) | State::Actor(lease) => {
                self.by_lease.remove(&lease);
            }
            State::Retiring | State::Ending => {}
        }
        match state {
            State::Starting => self.starting += 1,
            State::Idle(since) => match &worker.work {
                None if worker.outdated => {
                    self.outdated.insert((since, proc));
                }
                None => {
                    self.fresh.insert((since, proc));
                }
                Some(work) => {
                    self.used.insert((work.clone(), since, proc));
                    self.used_since.insert((since, proc));
                }
            },
            State::Leased(lease) | State::Actor(lease) => {
                self.by_lease.insert(lease, proc);
            }
            State::Retiring | State::Ending => {}
        }
        worker.state = state;
    }
}
