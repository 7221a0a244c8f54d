//! What is held of the hosts: one entry a lease or started actor, from the grant until its end.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::{ActorId, Environment, HostId, JobId, LeaseId, ProcId};
use serde::{Deserialize, Serialize};

use super::bundles::BundleId;
use super::queue::ClassId;
use super::shapes::ShapeId;
use super::spots::Spot;

/// For whom something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum For {
    Task { caller: ProcId, key: u32, job: JobId },
    Actor { actor: ActorId },
}

/// Something held.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hold {
    pub host: HostId,
    /// The bundle of a placement group that it is taken from, instead of from the host itself.
    pub bundle: Option<BundleId>,
    pub shape: ShapeId,
    pub class: ClassId,
    pub gpus: Vec<u32>,
    pub whom: For,
    /// Of a task: what its worker takes up.
    pub env: Environment,
    /// The worker, once the host has said which.
    pub worker: Option<ProcId>,
    /// The worker waits, and its CPUs are free meanwhile.
    pub cpu_lent: bool,
    /// Over, as soon as the worker's death is known.
    pub ending: bool,
}

impl Hold {
    /// Where it is held.
    pub const fn spot(&self) -> Spot {
        Spot { host: self.host, bundle: self.bundle }
    }
}

/// All holds, by lease or start.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Holds {
    last: u64,
    all: BTreeMap<LeaseId, Hold>,
    by_host: BTreeSet<(HostId, LeaseId)>,
}

impl Holds {
    pub fn add(&mut self, hold: Hold) -> LeaseId {
        self.last += 1;
        let id = LeaseId(self.last);
        self.by_host.insert((hold.host, id));
        self.all.insert(id, hold);
        id
    }

    pub fn remove(&mut self, id: LeaseId) -> Option<Hold> {
        let hold = self.all.remove(&id)?;
        self.by_host.remove(&(hold.host, id));
        Some(hold)
    }

    pub fn get(&self, id: LeaseId) -> Option<&Hold> {
        self.all.get(&id)
    }

    pub fn get_mut(&mut self, id: LeaseId) -> Option<&mut Hold> {
        self.all.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, &Hold)> {
        self.all.iter().map(|(id, hold)| (*id, hold))
    }

    pub fn on_host(&self, host: HostId) -> Vec<LeaseId> {
        let all = (host, LeaseId(0))..=(host, LeaseId(u64::MAX));
        self.by_host.range(all).map(|(_, id)| *id).collect()
    }
}
