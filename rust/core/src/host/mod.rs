//! The agent's brain: which worker process of this host does what, and when to start or end one.

use raymesh_wire::control::{DeathCause, FromHost, ToHost};
use raymesh_wire::{FromController, HostId, ProcId, ResourceSet};

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
    ProcDied {
        proc: ProcId,
        cause: DeathCause,
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
}

/// The agent's state.
#[derive(Debug)]
pub struct Host {
    config: Config,
}

impl Host {
    /// Slot and incarnation of the driver that starts the runtime: known before there is an agent.
    #[must_use]
    pub const fn driver_slot(host: HostId) -> ProcId {
        ProcId::new(host, 0, 1)
    }

    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// Joins the cluster (the first effects of all).
    pub fn start(&mut self, now: u64, effects: &mut Vec<Effect>) {
        let _ = (now, effects, &self.config);
    }

    /// A name for a further driver that wants to attach.
    pub fn allocate_driver(&mut self) -> Option<ProcId> {
        None
    }

    /// Takes in one event and appends what follows from it.
    pub fn handle(&mut self, now: u64, event: Event, effects: &mut Vec<Effect>) {
        let _ = (now, event, effects);
    }

    /// When to call [`Self::handle`] with [`Event::Tick`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        None
    }
}
