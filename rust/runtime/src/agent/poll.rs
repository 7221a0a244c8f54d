//! What the agent's thread waits for, all in one place.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use raymesh_wire::ProcId;
use rustix::event::{Timespec, epoll};

use super::nursery;

/// Who has something to say. In the order in which it is listened to: a worker's start is known
/// before what it prints, and what it has printed before its death.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The handle: commands, or room in the output queue.
    Wake,
    /// Messages in the agent's mailbox.
    Mail,
    /// Other hosts.
    Links,
    /// Lanes for large objects.
    Bulk,
    /// A worker's standard output or error.
    Stream,
    /// Reports of a zygote.
    Reports(nursery::Key),
    /// A worker has ended.
    Worker(ProcId),
    /// A zygote has ended.
    Zygote(nursery::Key),
}

/// Names an entry of the poller.
pub type Token = u64;

/// See the module.
pub struct Poller {
    epoll: OwnedFd,
    sources: BTreeMap<Token, Source>,
    next: Token,
    events: Vec<epoll::Event>,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").field("sources", &self.sources).finish_non_exhaustive()
    }
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, sources: BTreeMap::new(), next: 1, events: Vec::with_capacity(256) })
    }

    /// Watches `fd` for input or its end.
    pub fn add(&mut self, fd: impl AsFd, source: Source) -> io::Result<Token> {
        let token = self.next;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        self.next += 1;
        self.sources.insert(token, source);
        Ok(token)
    }

    /// Stops watching. `fd` must still be open: a copy in another process would keep it watched.
    pub fn remove(&mut self, token: Token, fd: impl AsFd) {
        if self.sources.remove(&token).is_some() {
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// Waits for something, at most `timeout`, and tells who it is.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Vec<(Source, Token)> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        let into = rustix::buffer::spare_capacity(&mut self.events);
        // The only error is an interruption by a signal: nothing to tell.
        let _ = epoll::wait(&self.epoll, into, timeout.as_ref());
        let mut ready: Vec<_> = self
            .events
            .iter()
            .filter_map(|event| {
                let token = event.data.u64();
                Some((*self.sources.get(&token)?, token))
            })
            .collect();
        ready.sort_unstable();
        ready
    }
}
