//! The agent's brain: which worker process of this host does what, and when to start or end one.
//!
//! - `starts`: leases and actors that wait for a worker.
//! - `workers`: the processes, and which are idle.
//! - `slots`: names for new ones.
//! - `pool`: brings them together: binds, forks, retires, ends.
//!
//! A worker runs the tasks of one job only. An actor gets a worker that has run nothing, and keeps it.

mod pool;
mod slots;
mod starts;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::control::{Death, DeathCause, FromHost, ToHost};
use raymesh_wire::{Block, FromController, HostId, JobId, LeaseId, ProcId, ResourceSet};

use slots::Slots;
use starts::{Start, Starts};
use workers::Workers;

/// What the host is, and how many workers it keeps.
#[derive(Clone, Debug)]
pub struct Config {
    pub host: HostId,
    /// The host's name, for people.
    pub name: String,
    pub total: ResourceSet,
    pub labels: Vec<(String, String)>,
    /// Bytes of the object arena.
    pub store_capacity: u64,
    /// Workers that have run nothing yet, to be kept ready at all times (0: fork on demand).
    pub spare: u32,
    /// Idle workers up to this number are never retired.
    pub keep_idle: u32,
    /// Further ones are retired once they were idle for so many nanoseconds.
    pub idle_timeout: u64,
    /// Workers on their way from fork to `Hello` at one time.
    pub max_starting: u32,
}

impl Config {
    /// The usual settings for a host with these resources.
    #[must_use]
    pub fn new(host: HostId, name: impl Into<String>, total: ResourceSet) -> Self {
        let cpus = total.get("CPU").to_f64().ceil() as u32;
        Self {
            host,
            name: name.into(),
            total,
            labels: Vec::new(),
            store_capacity: 0,
            spare: 0,
            keep_idle: cpus.max(1),
            idle_timeout: 1_000_000_000,
            max_starting: 2 * cpus + 2,
        }
    }
}

/// What happens to a host's agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    FromController(ToHost),
    /// The worker is ready for work; also again, if it cannot end when asked to retire.
    Hello {
        proc: ProcId,
        pid: u32,
    },
    /// [`Effect::Fork`] gave this process. May come after its `Hello`.
    Forked {
        proc: ProcId,
        pid: u32,
    },
    /// No such process came to be; its mailbox slot may be used again.
    ForkFailed {
        proc: ProcId,
        reason: String,
    },
    /// The process has ended, and everything it sent was handled before. Its slot may be used again.
    /// `memory`: it had some of the object arena. `under_way`: see [`FromHost::Died`].
    ProcDied {
        proc: ProcId,
        death: Death,
        memory: bool,
        under_way: bool,
    },
    /// After `ProcDied` with `under_way`: all that it has sent has arrived.
    Heard {
        proc: ProcId,
    },
    /// These workers lack what later ones have from birth (modules imported ahead): those that have run
    /// nothing are replaced. Others may be among them.
    Outdated {
        procs: Vec<ProcId>,
    },
    /// A driver attached itself (see [`Host::driver_slot`]).
    DriverJoined {
        proc: ProcId,
        pid: u32,
    },
    /// So many bytes of the arena are leased to heaps. Only to be shown; need not be exact.
    StoreUsed {
        bytes: u64,
    },
    /// [`Host::next_deadline`] has come.
    Tick,
}

/// What the agent wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// To a process of any host; keeps its place among the sends to the same process.
    Send {
        to: ProcId,
        message: FromController,
    },
    ToController(FromHost),
    /// Fork a worker that calls itself `proc`. Answered by `Forked` or `ForkFailed`, in any case, and
    /// then by `ProcDied` when it ends.
    Fork {
        proc: ProcId,
    },
    /// SIGKILL. Only for processes that `Forked` or `Hello` has told of.
    Kill {
        proc: ProcId,
    },
    /// Free the memory of a dead process, but for these blocks.
    Sweep {
        dead: ProcId,
        except: Vec<Block>,
    },
    /// Of what `Sweep` has left, these are free, too.
    FreeBlocks {
        blocks: Vec<Block>,
    },
    /// The host is drained: it ends.
    Leave,
    /// The controller knows the host.
    Welcomed,
}

/// The agent's state.
#[derive(Debug)]
pub struct Host {
    config: Config,
    now: u64,
    slots: Slots,
    workers: Workers,
    starts: Starts,
    drivers: BTreeMap<ProcId, u32>,
    /// Jobs whose driver is gone: their workers are not kept.
    ended_jobs: BTreeSet<JobId>,
    /// When to end which worker by force.
    deadlines: BTreeSet<(u64, ProcId)>,
    /// Workers that failed to start since the last that did.
    failures: u32,
    /// Workers that nobody waits for are started again at this time: the last one that was to start failed. 0: at
    /// any time.
    spare_at: u64,
    store_used: u64,
}

type Effects = Vec<Effect>;

impl Host {
    /// The driver that starts the runtime: known before there is an agent.
    #[must_use]
    pub const fn driver_slot(host: HostId) -> ProcId {
        ProcId::new(host, 0, 1)
    }

    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            slots: Slots::new(config.host),
            config,
            now: 0,
            workers: Workers::default(),
            starts: Starts::default(),
            drivers: BTreeMap::new(),
            ended_jobs: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            failures: 0,
            spare_at: 0,
            store_used: 0,
        }
    }

    /// Joins the cluster (the first effects of all).
    pub fn start(&mut self, now: u64, effects: &mut Vec<Effect>) {
        self.now = now;
        effects.push(Effect::ToController(FromHost::Joined {
            name: self.config.name.clone(),
            total: self.config.total.clone(),
            labels: self.config.labels.clone(),
            store_capacity: self.config.store_capacity,
        }));
        self.fork_more(effects);
    }

    /// The job that the worker works for, or has worked for last.
    #[must_use]
    pub fn job_of(&self, proc: ProcId) -> Option<JobId> {
        self.workers.get(proc)?.work.as_ref().map(|work| work.job)
    }

    /// A name for a further driver that wants to attach; none if the host has no mailbox left.
    pub fn allocate_driver(&mut self) -> Option<ProcId> {
        self.slots.allocate()
    }

    /// Takes in one event and appends what follows from it.
    pub fn handle(&mut self, now: u64, event: Event, effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        match event {
            Event::FromController(message) => self.on_controller(message, effects),
            Event::Hello { proc, pid } => self.hello(proc, pid, effects),
            Event::Forked { proc, pid } => self.forked(proc, pid, effects),
            Event::ForkFailed { proc, reason } => self.fork_failed(proc, &reason, effects),
            Event::ProcDied { proc, death, memory, under_way } => {
                if let Some(death) = self.died(proc, death, effects) {
                    let report = FromHost::Died { proc, death, memory, under_way };
                    effects.push(Effect::ToController(report));
                }
            }
            Event::Heard { proc } => effects.push(Effect::ToController(FromHost::Heard { proc })),
            Event::Outdated { procs } => procs.into_iter().for_each(|proc| self.workers.outdate(proc)),
            Event::DriverJoined { proc, pid } => {
                self.drivers.insert(proc, pid);
                effects.push(Effect::ToController(FromHost::ProcStarted { proc, pid, driver: true }));
            }
            Event::StoreUsed { bytes } => {
                if bytes != self.store_used {
                    self.store_used = bytes;
                    effects.push(Effect::ToController(FromHost::Usage { store_used: bytes }));
                }
            }
            Event::Tick => {}
        }
        self.on_time(effects);
        self.retire_outdated(effects);
        self.fork_more(effects);
    }

    /// When to call [`Self::handle`] with [`Event::Tick`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let force = self.deadlines.first().map(|(at, _)| *at);
        let spare = (self.spare_at > 0).then_some(self.spare_at);
        [force, spare, self.next_retirement()].into_iter().flatten().min()
    }

    fn on_controller(&mut self, message: ToHost, effects: &mut Effects) {
        match message {
            ToHost::BindLease { lease, caller, job, resources, gpus, env, group } => {
                self.begin(lease, Start::Lease { caller, job, resources, gpus, env, group }, effects);
            }
            ToHost::EndLease { lease, kill } => self.end_lease(lease, kill, effects),
            ToHost::StartActor { start, spec, restarts, gpus } => {
                self.begin(start, Start::Actor { spec, restarts, gpus }, effects);
            }
            ToHost::CancelStart { start } => self.cancel_start(start, effects),
            ToHost::EndWorker { proc, reason } => self.end_worker(proc, reason, effects),
            ToHost::KillWorker { proc } => self.kill(proc, &DeathCause::Killed, effects),
            ToHost::JobEnded { job } => self.job_ended(job, effects),
            ToHost::Sweep { dead, except } => effects.push(Effect::Sweep { dead, except }),
            ToHost::FreeBlocks { blocks } => effects.push(Effect::FreeBlocks { blocks }),
            ToHost::Leave => effects.push(Effect::Leave),
            ToHost::Welcome => effects.push(Effect::Welcomed),
        }
    }

    fn cancel_start(&mut self, start: LeaseId, effects: &mut Effects) {
        if self.starts.remove(start).is_some() {
            let reason = "cancelled".to_owned();
            effects.push(Effect::ToController(FromHost::ActorStartFailed { start, reason }));
        } else if let Some(proc) = self.workers.by_lease.get(&start).copied() {
            self.kill(proc, &DeathCause::Killed, effects);
        }
    }
}
