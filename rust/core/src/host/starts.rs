//! Leases and actors that wait for a worker, oldest first.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::control::ActorSpec;
use raymesh_wire::{Environment, InGroup, JobId, LeaseId, ProcId, ResourceSet};

use super::workers::Work;

/// What a worker is wanted for.
#[derive(Clone, Debug)]
pub(super) enum Start {
    Lease {
        caller: ProcId,
        job: JobId,
        resources: ResourceSet,
        gpus: Vec<u32>,
        env: Environment,
        group: Option<InGroup>,
    },
    Actor {
        spec: Box<ActorSpec>,
        restarts: u32,
        gpus: Vec<u32>,
    },
}

impl Start {
    /// What a worker that serves it is for.
    pub fn work(&self) -> Work {
        match self {
            Self::Lease { job, env, .. } => Work { job: *job, env: env.clone() },
            Self::Actor { spec, .. } => Work { job: spec.job, env: spec.env.clone() },
        }
    }
}

/// All that wait. Lease numbers rise, so their order is the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Starts {
    all: BTreeMap<LeaseId, Start>,
    tasks: BTreeSet<(Work, LeaseId)>,
}

impl Starts {
    pub fn push(&mut self, lease: LeaseId, start: Start) {
        if let Start::Lease { .. } = start {
            self.tasks.insert((start.work(), lease));
        }
        self.all.insert(lease, start);
    }

    pub fn remove(&mut self, lease: LeaseId) -> Option<Start> {
        let start = self.all.remove(&lease)?;
        self.tasks.remove(&(start.work(), lease));
        Some(start)
    }

    /// The oldest that a worker can serve that is for `work`, or has run nothing yet.
    pub fn first_for(&self, work: Option<&Work>) -> Option<LeaseId> {
        match work {
            None => self.all.first_key_value().map(|(lease, _)| *lease),
            Some(work) => {
                let of_work = (work.clone(), LeaseId(0))..=(work.clone(), LeaseId(u64::MAX));
                self.tasks.range(of_work).next().map(|(_, lease)| *lease)
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
