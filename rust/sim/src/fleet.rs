//! A cluster as large as you like around the real controller: agents, workers and callers do nothing but answer, at
//! once. What remains is what the controller itself does and says, which [`Tally`] counts.

use std::collections::{BTreeMap, VecDeque};

use raymesh_core::controller::{Controller, Effect, Event};
use raymesh_wire::control::{Death, FromHost, Stock, ToHost};
use raymesh_wire::placement::Wish;
use raymesh_wire::{
    Environment, FromController, HostId, JobId, LeaseId, ProcId, Quantity, ResourceSet, ToController,
};

/// What the controller has heard and said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages to the controller.
    pub heard: u64,
    /// Messages from it.
    pub said: u64,
    /// What a head would write to its journal, in bytes.
    pub journal: u64,
    /// Nanoseconds inside the controller.
    pub spent: u64,
}

impl Tally {
    /// What has come to it since `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            heard: self.heard - before.heard,
            said: self.said - before.said,
            journal: self.journal - before.journal,
            spent: self.spent - before.spent,
        }
    }

    /// To and from it.
    #[must_use]
    pub const fn messages(self) -> u64 {
        self.heard + self.said
    }
}

/// See the module.
#[derive(Debug)]
pub struct Fleet {
    pub controller: Controller,
    pub tally: Tally,
    /// The cluster's clock, and the one that the controller's work is timed with.
    pub now: u64,
    clock: fn() -> u64,
    /// Workers without a lease or actor, by host.
    idle: BTreeMap<HostId, Vec<ProcId>>,
    busy: BTreeMap<LeaseId, ProcId>,
    /// Leases that callers were granted and have not returned, the oldest first.
    pub granted: VecDeque<(ProcId, LeaseId)>,
    coming: VecDeque<Event>,
}

/// So much of CPU.
#[must_use]
pub fn cpu(n: f64) -> ResourceSet {
    [("CPU", Quantity::from_f64(n))].into_iter().collect()
}

impl Fleet {
    #[must_use]
    pub fn new(clock: fn() -> u64) -> Self {
        Self {
            controller: Controller::new(),
            tally: Tally::default(),
            now: 1_000_000_000,
            clock,
            idle: BTreeMap::new(),
            busy: BTreeMap::new(),
            granted: VecDeque::new(),
            coming: VecDeque::new(),
        }
    }

    /// A host with ten CPUs, without workers yet. One in a hundred has the label `disk=fast`.
    pub fn join(&mut self, host: HostId) {
        let mut labels = vec![("zone".to_owned(), format!("z{}", host.0 % 10))];
        if host.0.is_multiple_of(100) {
            labels.push(("disk".to_owned(), "fast".to_owned()));
        }
        let total = [("CPU", 10.0), ("memory", 64e9)].map(|(name, n)| (name, Quantity::from_f64(n)));
        let total = total.into_iter().collect();
        let name = format!("host-{}", host.0);
        let message = FromHost::Joined { name, total, labels, store_capacity: 1 << 34 };
        self.tell(Event::FromHost { host, message });
    }

    /// A process starts on `host`.
    pub fn start(&mut self, host: HostId, slot: u32, driver: bool) -> ProcId {
        let proc = ProcId::new(host, 1, slot);
        let message = FromHost::ProcStarted { proc, pid: slot, driver };
        if !driver {
            self.idle.entry(host).or_default().push(proc);
        }
        self.tell(Event::FromHost { host, message });
        proc
    }

    /// `caller` wants so many leases of a CPU each.
    pub fn demand(&mut self, caller: ProcId, key: u32, backlog: u32, wish: Wish) {
        self.say(
            caller,
            ToController::Demand {
                key,
                job: JobId(1),
                resources: cpu(1.0),
                backlog,
                env: Environment::default(),
                wish,
                near: None,
            },
        );
    }

    /// The caller that has had a lease for longest gives it back.
    pub fn give_back_oldest(&mut self) {
        if let Some((caller, lease)) = self.granted.pop_front() {
            self.say(caller, ToController::ReturnLease { lease });
        }
    }

    /// A process dies with memory that others may read; what follows from it goes on in [`Self::settle`].
    pub fn die(&mut self, proc: ProcId, death: Death) {
        let message = FromHost::Died { proc, death, memory: true, under_way: false };
        self.idle.entry(proc.host()).or_default().retain(|it| *it != proc);
        self.tell(Event::FromHost { host: proc.host(), message });
    }

    pub fn lose(&mut self, host: HostId) {
        self.idle.remove(&host);
        self.tell(Event::HostLost {
            host,
            end: raymesh_wire::status::HostEnd::unexpected("its process has ended"),
        });
    }

    /// Lets time pass until the controller has nothing to do.
    pub fn settle(&mut self) {
        while let Some(due) = self.controller.next_deadline().filter(|_| self.controller.estates_remain().1) {
            self.now = self.now.max(due);
            self.tell(Event::Tick);
        }
    }

    pub fn say(&mut self, from: ProcId, message: ToController) {
        self.tell(Event::Message { from, message });
    }

    /// The controller hears of this, everybody answers, and so on until all is quiet.
    pub fn tell(&mut self, event: Event) {
        self.coming.push_back(event);
        let mut effects = Vec::new();
        while let Some(event) = self.coming.pop_front() {
            self.tally.heard += u64::from(event != Event::Tick);
            self.tally.journal += postcard::to_allocvec(&(self.now, &event)).map_or(0, |it| it.len() as u64);
            let began = (self.clock)();
            self.controller.handle(self.now, event, &mut effects);
            self.tally.spent += (self.clock)() - began;
            self.tally.said += effects.len() as u64;
            for effect in effects.drain(..) {
                match effect {
                    Effect::Send { to, message } => self.answer(to, message),
                    Effect::ToHost { host, message } => self.obey(host, message),
                }
            }
        }
    }

    fn answer(&mut self, to: ProcId, message: FromController) {
        let message = match message {
            FromController::LeaseGranted { lease, .. } => {
                self.granted.push_back((to, lease));
                return;
            }
            FromController::Mourn { round, .. } | FromController::Flush { round } => {
                ToController::Mourned { round }
            }
            FromController::TakeStock { round } => ToController::Stock(Stock { round, ..Stock::default() }),
            _ => return,
        };
        self.coming.push_back(Event::Message { from: to, message });
    }

    fn obey(&mut self, host: HostId, message: ToHost) {
        match message {
            ToHost::BindLease { lease, .. } => {
                let Some(worker) = self.idle.get_mut(&host).and_then(Vec::pop) else { return };
                self.busy.insert(lease, worker);
                self.coming
                    .push_back(Event::FromHost { host, message: FromHost::LeaseBound { lease, worker } });
            }
            ToHost::EndLease { lease, .. } => {
                if let Some(worker) = self.busy.remove(&lease) {
                    self.idle.entry(host).or_default().push(worker);
                }
            }
            _ => {}
        }
    }

    /// A worker that works for somebody.
    #[must_use]
    pub fn any_busy(&self) -> Option<ProcId> {
        self.busy.values().next().copied()
    }
}
