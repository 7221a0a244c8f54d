//! What happened lately, to whom, and why.

use std::collections::VecDeque;

use raymesh_wire::{ActorId, GroupId, HostId, LeaseId, ProcId};

/// How many transitions are remembered.
const LENGTH: usize = 8_192;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Host(HostId),
    Proc(ProcId),
    Lease(LeaseId),
    Actor(ActorId),
    Group(GroupId),
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

/// What is kept of an entry: what happens often costs no memory of its own.
#[derive(Debug)]
struct Record {
    at: u64,
    subject: Subject,
    state: &'static str,
    cause: Cause,
}

/// Why.
#[derive(Debug)]
pub(super) enum Cause {
    Plain(&'static str),
    Proc(&'static str, ProcId),
    Text(String),
}

impl From<&'static str> for Cause {
    fn from(text: &'static str) -> Self {
        Self::Plain(text)
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<(&'static str, ProcId)> for Cause {
    fn from((text, proc): (&'static str, ProcId)) -> Self {
        Self::Proc(text, proc)
    }
}

/// A bounded log.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: VecDeque<Record>,
}

impl History {
    pub fn add(&mut self, at: u64, subject: Subject, state: &'static str, cause: impl Into<Cause>) {
        if self.entries.len() == LENGTH {
            self.entries.pop_front();
        }
        self.entries.push_back(Record { at, subject, state, cause: cause.into() });
    }

    pub fn of(&self, subject: Subject) -> Vec<Entry> {
        let of_subject = self.entries.iter().filter(|entry| entry.subject == subject);
        let entry = |it: &Record| Entry {
            at: it.at,
            subject: it.subject,
            state: it.state,
            cause: match &it.cause {
                Cause::Plain(text) => (*text).to_owned(),
                Cause::Proc(text, proc) => format!("{text} {proc:?}"),
                Cause::Text(text) => text.clone(),
            },
        };
        of_subject.map(entry).collect()
    }
}
