//! What the agent's thread waits for, all in one place.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use raymesh_net::{FOREIGN, Hub};
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
    /// One that waits for what the hub of links waits for, too.
    pub fn new(hub: Option<&Hub>) -> io::Result<Self> {
        let epoll = match hub {
            Some(hub) => raymesh_sys::fd::from_inherited(hub.fd())?,
            None => epoll::create(epoll::CreateFlags::CLOEXEC)?,
        };
        Ok(Self { epoll, sources: BTreeMap::new(), next: FOREIGN, events: Vec::with_capacity(256) })
    }

    /// Watches `fd` for input or its end.
    pub fn add(&mut self, fd: impl AsFd, source: Source) -> io::Result<Token> {
        self.watch(fd, source, epoll::EventFlags::IN)
    }

    /// Watches an eventfd. Each signal is told once: nobody has to read it.
    pub fn add_bell(&mut self, fd: impl AsFd, source: Source) -> io::Result<Token> {
        self.watch(fd, source, epoll::EventFlags::IN | epoll::EventFlags::ET)
    }

    fn watch(&mut self, fd: impl AsFd, source: Source, flags: epoll::EventFlags) -> io::Result<Token> {
        let token = self.next;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags)?;
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

    /// Waits for something, at most `timeout`, and tells who it is. The hub is to be tended then: it is the one
    /// that this was made with.
    pub fn wait(&mut self, hub: Option<&mut Hub>, timeout: Option<Duration>) -> Vec<(Source, Token)> {
        let Self { epoll, sources, events, .. } = self;
        let mut ready = Vec::new();
        let mut add = |token| ready.extend(sources.get(&token).map(|source| (*source, token)));
        // The only error is an interruption by a signal: nothing to tell.
        let _ = match hub {
            Some(hub) => hub.wait(timeout, add),
            None => wait(epoll, events, timeout).map(|()| {
                events.iter().for_each(|event| add(event.data.u64()));
            }),
        };
        ready.sort_unstable();
        ready
    }
}

fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>, timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    events.clear();
    epoll::wait(epoll, rustix::buffer::spare_capacity(events), timeout.as_ref())?;
    Ok(())
}
