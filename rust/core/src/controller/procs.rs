//! Processes: who lives, who has died and how, and who wants to be told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raymesh_wire::control::{Death, DeathCause};
use raymesh_wire::{ActorId, FunctionId, GroupId, HostId, JobId, LeaseId, ProcId};
use serde::{Deserialize, Serialize};

use super::demand::Demand;

/// How many deaths are remembered with what was told of them.
const DEATHS: usize = 10_000;

/// How many lost hosts are.
const HOSTS: usize = 100;

/// A living process, and all that ends with it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Proc {
    /// 0 until the host has told.
    pub pid: u32,
    pub driver: bool,
    pub job: Option<JobId>,
    /// It waits for objects.
    pub blocked: bool,
    /// While it is blocked: actors whose answers it waits for.
    pub waits_for: Vec<ActorId>,
    /// What it works for: a lease, or the start of an actor.
    pub hold: Option<LeaseId>,
    /// To be told of its death.
    pub watchers: BTreeSet<ProcId>,
    /// Whose deaths it wants to be told of.
    pub watches: BTreeSet<ProcId>,
    /// As a caller: its shapes, and its leases.
    pub demands: BTreeMap<u32, Demand>,
    pub leases: BTreeSet<LeaseId>,
    /// As a creator: its living actors, and the numbers of all it ever created.
    pub actors: BTreeSet<ActorId>,
    pub created: Numbers,
    /// As a creator of placement groups: the numbers of all it ever created.
    pub created_groups: Numbers,
    /// Placement groups whose state it wants to be told.
    pub watched_groups: BTreeSet<GroupId>,
    /// Actors whose state it wants to be told.
    pub watched_actors: BTreeSet<ActorId>,
    /// Functions and classes that it holds.
    pub functions: BTreeSet<FunctionId>,
    /// Functions that it waits for.
    pub wanted_functions: BTreeSet<FunctionId>,
}

/// All processes of the cluster.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Procs {
    living: BTreeMap<ProcId, Proc>,
    /// Latest incarnation that has died, by mailbox slot. Whatever came before is dead as well.
    dead: BTreeMap<(HostId, u32), u32>,
    deaths: BTreeMap<ProcId, Death>,
    order: VecDeque<ProcId>,
    hosts: BTreeSet<HostId>,
    /// Hosts that were lost lately, in words.
    lost: BTreeMap<HostId, String>,
}

impl Procs {
    pub fn host_joined(&mut self, host: HostId) {
        self.hosts.insert(host);
    }

    pub fn host_lost(&mut self, host: HostId, which: String) -> Vec<ProcId> {
        self.hosts.remove(&host);
        self.lost.insert(host, which);
        if self.lost.len() > HOSTS {
            self.lost.pop_first();
        }
        let slots: Vec<_> = self.dead.range((host, 0)..=(host, u32::MAX)).map(|(at, _)| *at).collect();
        for at in slots {
            self.dead.remove(&at);
        }
        self.on_host(host).map(|(id, _)| id).collect()
    }

    pub fn on_host(&self, host: HostId) -> impl Iterator<Item = (ProcId, &Proc)> {
        let from = ProcId::from_u64(u64::from(host.0) << 32);
        let to = ProcId::from_u64(u64::from(host.0) << 32 | u64::from(u32::MAX));
        self.living.range(from..=to).map(|(id, proc)| (*id, proc))
    }

    /// Workers of a host. (Its agent is here, too, if anybody wants to be told when the host is lost.)
    pub fn workers_on(&self, host: HostId) -> u32 {
        let is_worker = |(id, proc): &(ProcId, &Proc)| !proc.driver && *id != ProcId::agent(host);
        self.on_host(host).filter(is_worker).count() as u32
    }

    /// How it died, if it did.
    pub fn death(&self, id: ProcId) -> Option<Death> {
        if self.living.contains_key(&id) {
            return None;
        }
        if !self.hosts.contains(&id.host()) {
            let host = self.lost.get(&id.host()).cloned().unwrap_or_default();
            return Some(Death { host, ..DeathCause::HostLost.into() });
        }
        let latest = self.dead.get(&(id.host(), id.slot()))?;
        (id.incarnation() <= *latest)
            .then(|| self.deaths.get(&id).cloned().unwrap_or(DeathCause::Exited { code: -1 }.into()))
    }

    pub fn get(&self, id: ProcId) -> Option<&Proc> {
        self.living.get(&id)
    }

    pub fn get_mut(&mut self, id: ProcId) -> Option<&mut Proc> {
        self.living.get_mut(&id)
    }

    /// The process, also if this is the first that is heard of it; none if it is dead.
    pub fn meet(&mut self, id: ProcId) -> Option<&mut Proc> {
        if self.death(id).is_some() {
            return None;
        }
        Some(self.living.entry(id).or_default())
    }

    /// Forgets the living process and remembers its death.
    pub fn bury(&mut self, id: ProcId, death: &Death) -> Option<Proc> {
        let proc = self.living.remove(&id);
        if self.hosts.contains(&id.host()) {
            let latest = self.dead.entry((id.host(), id.slot())).or_default();
            *latest = (*latest).max(id.incarnation());
            if self.deaths.insert(id, death.clone()).is_none() {
                self.order.push_back(id);
            }
            if self.order.len() > DEATHS
                && let Some(oldest) = self.order.pop_front()
            {
                self.deaths.remove(&oldest);
            }
        }
        proc
    }

    pub fn iter(&self) -> impl Iterator<Item = (ProcId, &Proc)> {
        self.living.iter().map(|(id, proc)| (*id, proc))
    }
}

/// A set of numbers that come about in order, from 1.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Numbers {
    /// All from 1 up to here (excluded).
    below: u32,
    above: BTreeSet<u32>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { below: 1, above: BTreeSet::new() }
    }
}

impl Numbers {
    pub fn contains(&self, number: u32) -> bool {
        (1..self.below).contains(&number) || self.above.contains(&number)
    }

    /// Adds the number; false if it was there.
    pub fn insert(&mut self, number: u32) -> bool {
        if self.contains(number) {
            return false;
        }
        self.above.insert(number);
        while self.above.remove(&self.below) {
            self.below += 1;
        }
        true
    }
}
