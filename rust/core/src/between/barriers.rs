//! Words to the head that must not overtake what was sent to third hosts before.
//!
//! The controller asks all about the dead because all have said that what they sent before is on its way
//! (see `core::estates`). Over one link that is so by itself. What a process of this host has sent to a third
//! host goes another way than what it tells the controller; so that, and the word that a dead process has
//! been heard everywhere, waits here until the third host has answered a question that was sent after
//! it. Only hosts to which something is under way are asked.

use std::collections::BTreeMap;

use bytes::Bytes;
use raymesh_wire::{HostId, ProcId, RequestId};

/// What waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word<M = Bytes> {
    /// A process tells the controller.
    Of { from: ProcId, bytes: M },
    /// All that this dead process has sent has arrived.
    Heard(ProcId),
}

/// See the module.
#[derive(Debug)]
pub struct Barriers<M = Bytes> {
    waiting: Vec<(BTreeMap<HostId, RequestId>, Word<M>)>,
    next: u64,
}

/// Other questions of this agent have smaller numbers.
const FIRST: u64 = 1 << 63;

impl<M> Default for Barriers<M> {
    fn default() -> Self {
        Self { waiting: Vec::new(), next: 0 }
    }
}

impl<M: Clone> Barriers<M> {
    /// Keeps the word until these hosts have answered; what to ask them.
    pub fn hold(&mut self, hosts: Vec<HostId>, word: Word<M>) -> Vec<(HostId, RequestId)> {
        self.next += 1;
        let request = RequestId(FIRST + self.next);
        let asked: BTreeMap<_, _> = hosts.into_iter().map(|host| (host, request)).collect();
        self.waiting.push((asked.clone(), word));
        asked.into_iter().collect()
    }

    /// `host` has answered; what may be said now.
    pub fn answered(&mut self, host: HostId, request: RequestId) -> Vec<Word<M>> {
        self.release(|of, waits_for| of == host && waits_for == request)
    }

    /// `host` is gone: nothing of what is under way to it matters.
    pub fn gone(&mut self, host: HostId) -> Vec<Word<M>> {
        self.release(|of, _| of == host)
    }

    fn release(&mut self, is_due: impl Fn(HostId, RequestId) -> bool) -> Vec<Word<M>> {
        let mut due = Vec::new();
        self.waiting.retain_mut(|(hosts, word)| {
            hosts.retain(|host, request| !is_due(*host, *request));
            if hosts.is_empty() {
                due.push(word.clone());
            }
            !hosts.is_empty()
        });
        due
    }
}

#[cfg(test)]
mod tests;
