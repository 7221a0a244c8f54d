//! What one caller wants of one shape.

use std::collections::BTreeSet;

use raymesh_wire::{Environment, HostId, JobId};
use serde::{Deserialize, Serialize};

use super::queue::{ClassId, Waiter};

/// Tasks of one shape that wait at one caller, and the leases it has for them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Demand {
    pub class: ClassId,
    /// Rather there: its tasks' arguments lie there.
    pub near: Option<HostId>,
    pub job: JobId,
    pub env: Environment,
    /// Leases still to be granted.
    pub unserved: u32,
    /// Leases granted that have no worker yet: the caller still counts their tasks as waiting.
    pub binding: u32,
    /// Leases in all.
    pub leases: u32,
    /// Its turn, while it waits.
    pub turn: Option<u64>,
    pub notice: Notice,
}

impl Demand {
    pub fn new(class: ClassId, job: JobId, env: Environment) -> Self {
        let notice = Notice::default();
        Self { class, near: None, job, env, unserved: 0, binding: 0, leases: 0, turn: None, notice }
    }
}

/// When a waiter is to be told why it waits.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Notice {
    pub due: Option<u64>,
    /// Time until the next look.
    pub step: u64,
    /// What it was told last.
    pub told: Option<String>,
}

/// How long a demand may wait before it is told why, and how long until the next look.
const FIRST: u64 = 1_000_000_000;
const NEXT: u64 = 5_000_000_000;
const LAST: u64 = 60_000_000_000;

impl Notice {
    /// The waiter begins to wait.
    pub fn start(&mut self, now: u64, waiter: Waiter, due: &mut BTreeSet<(u64, Waiter)>) {
        self.stop(waiter, due);
        self.due = Some(now + FIRST);
        self.step = NEXT;
        due.insert((now + FIRST, waiter));
    }

    /// It was looked at; once more later.
    pub fn again(&mut self, now: u64, waiter: Waiter, due: &mut BTreeSet<(u64, Waiter)>) {
        self.due = Some(now + self.step);
        due.insert((now + self.step, waiter));
        self.step = (self.step * 2).min(LAST);
    }

    /// It waits no more.
    pub fn stop(&mut self, waiter: Waiter, due: &mut BTreeSet<(u64, Waiter)>) {
        if let Some(at) = self.due.take() {
            due.remove(&(at, waiter));
        }
        self.told = None;
    }
}
