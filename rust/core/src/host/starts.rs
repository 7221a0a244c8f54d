//! Leases and actors that wait for a worker, oldest first.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::control::ActorSpec;
use raymesh_wire::{JobId, LeaseId, ProcId, ResourceSet};

/// What a worker is wanted for.
#[derive(Clone, Debug)]
pub(super) enum Start {
    Lease { caller: ProcId, job: JobId, resources: ResourceSet, gpus: Vec<u32> },
    Actor { spec: Box<ActorSpec>, restarts: u32, gpus: Vec<u32> },
}

impl Start {
    pub fn job(&self) -> JobId {
        match self {
            Self::Lease { job, .. } => *job,
            Self::Actor { spec, .. } => spec.job,
        }
    }
}

/// All that wait. Lease numbers rise, so their order is the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Starts {
    all: BTreeMap<LeaseId, Start>,
    tasks: BTreeSet<(JobId, LeaseId)>,
}

impl Starts {
    pub fn push(&mut self, lease: LeaseId, start: Start) {
        if let Start::Lease { job, .. } = start {
            self.tasks.insert((job, lease));
        }
        self.all.insert(lease, start);
    }

    pub fn remove(&mut self, lease: LeaseId) -> Option<Start> {
        let start = self.all.remove(&lease)?;
        self.tasks.remove(&(start.job(), lease));
        Some(start)
    }

    /// The oldest that a worker can serve that has run tasks of `job`, or nothing yet.
    pub fn first_for(&self, job: Option<JobId>) -> Option<LeaseId> {
        match job {
            None => self.all.first_key_value().map(|(lease, _)| *lease),
            Some(job) => {
                let of_job = (job, LeaseId(0))..=(job, LeaseId(u64::MAX));
                self.tasks.range(of_job).next().map(|(_, lease)| *lease)
            }
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn take_all(&mut self) -> BTreeMap<LeaseId, Start> {
        self.tasks.clear();
        std::mem::take(&mut self.all)
    }
}
