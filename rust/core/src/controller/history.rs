//! What happened lately, to whom, and why.

use std::collections::VecDeque;

use raymesh_wire::{ActorId, HostId, LeaseId, ProcId};

/// How many transitions are remembered.
const LENGTH: usize = 8_192;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Host(HostId),
    Proc(ProcId),
    Lease(LeaseId),
    Actor(ActorId),
    /// What a caller wants of its shape `key`.
    Demand(ProcId, u32),
}

/// One transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds, on the clock of [`super::Controller::handle`].
    pub at: u64,
    pub subject: Subject,
    /// The state entered.
    pub state: &'static str,
    pub cause: String,
}

/// A bounded log.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: VecDeque<Entry>,
}

impl History {
    pub fn add(&mut self, at: u64, subject: Subject, state: &'static str, cause: impl FnOnce() -> String) {
        if self.entries.len() == LENGTH {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { at, subject, state, cause: cause() });
    }

    pub fn of(&self, subject: Subject) -> Vec<Entry> {
        self.entries.iter().filter(|entry| entry.subject == subject).cloned().collect()
    }
}
