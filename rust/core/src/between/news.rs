//! What is told about a process never overtakes what it has said itself.
//!
//! What a process of another host has sent here comes over the link of that host; that it has died, the
//! controller tells over the head's. So such news waits until the other host has answered a question that
//! was sent after it: what the dead one had sent is here by then. What the controller has for the same
//! receiver waits behind it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use raymesh_wire::{HostId, ProcId, RequestId};

#[derive(Debug)]
enum Item<M> {
    /// The host's answer is awaited.
    Waits {
        request: RequestId,
        host: HostId,
        message: M,
    },
    Ready(M),
}

/// The controller's words that wait, by receiver.
#[derive(Debug)]
pub struct News<M = Bytes> {
    queues: BTreeMap<ProcId, VecDeque<Item<M>>>,
    next: u64,
}

impl<M> Default for News<M> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), next: 0 }
    }
}

impl<M: Clone> News<M> {
    /// Holds back the news of a death on `host`; what to ask that host.
    pub fn hold(&mut self, to: ProcId, host: HostId, message: M) -> RequestId {
        self.next += 1;
        let request = RequestId(self.next);
        self.queues.entry(to).or_default().push_back(Item::Waits { request, host, message });
        request
    }

    /// Lets a word pass, or has it wait behind others. Answers back what passes.
    pub fn pass(&mut self, to: ProcId, message: M) -> Option<M> {
        match self.queues.get_mut(&to) {
            Some(queue) => {
                queue.push_back(Item::Ready(message));
                None
            }
            None => Some(message),
        }
    }

    /// `host` has answered; what may be told now, in order.
    pub fn answered(&mut self, host: HostId, request: RequestId) -> Vec<(ProcId, M)> {
        self.release(|of, waits_for| of == host && waits_for == request)
    }

    /// `host` is gone: nothing more comes from there.
    pub fn gone(&mut self, host: HostId) -> Vec<(ProcId, M)> {
        self.release(|of, _| of == host)
    }

    fn release(&mut self, is_due: impl Fn(HostId, RequestId) -> bool) -> Vec<(ProcId, M)> {
        let mut due = Vec::new();
        for (to, queue) in &mut self.queues {
            for item in queue.iter_mut() {
                if let Item::Waits { request, host, message } = item
                    && is_due(*host, *request)
                {
                    *item = Item::Ready(message.clone());
                }
            }
            while let Some(Item::Ready(message)) = queue.pop_front_if(|item| matches!(item, Item::Ready(_))) {
                due.push((*to, message));
            }
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        due
    }
}

#[cfg(test)]
mod tests;
