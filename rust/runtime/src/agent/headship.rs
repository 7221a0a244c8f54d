//! What only the head has: the list of hosts, the lines to them, and the journal of what happens to the
//! controller.
//!
//! Nothing that the controller decides leaves before what it decided upon is in the journal. So a head that is
//! started again from it knows all that anybody has heard: it plays the journal, says the same words under
//! the same numbers, and goes on. What was in no journal nobody has heard of; the hosts say it again.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use raymesh_core::controller::{Controller, Effect, Event};
use raymesh_net::hub::ConnId;
use raymesh_wire::between::{Down, Neighbour};
use raymesh_wire::{HostId, Message, encode};
use serde::{Deserialize, Serialize};

use super::StartError;
use super::journal::{self, Journal};
use super::line::Line;

/// Time between two tries to write a journal that could not be written.
const RETRY: u64 = 5_000_000_000;

/// What happened.
#[derive(Debug, Serialize, Deserialize)]
pub enum Record<'a> {
    /// To the controller; `via`: a word of that host, and its number.
    Event { now: u64, via: Option<(HostId, u64)>, event: Cow<'a, Event> },
    /// A host was let in.
    Admitted { host: HostId, address: Option<SocketAddr> },
}

/// What is to be done once what led to it is in the journal.
#[derive(Debug)]
pub enum Due {
    /// For somebody on this host.
    Here(Effect),
    /// The host's words up to this number may leave.
    Release(HostId, u64),
    /// Let the host in, and tell the others.
    Admit { conn: ConnId, host: HostId, address: Option<SocketAddr>, others: Vec<Neighbour> },
    /// Tell all that the host is dead.
    Gone(HostId),
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    via: Option<(HostId, u64)>,
    due: Vec<Due>,
}

/// See the module.
#[derive(Debug)]
pub struct Headship {
    me: HostId,
    state: State,
    journal: Option<Journal>,
    retry_at: Option<u64>,
    /// In the order of the journal.
    waiting: VecDeque<Waiting>,
    patience: Duration,
    /// It cannot go on: nothing that it decides may leave.
    abandoned: bool,
}

/// All that is saved beside the controller.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// The number of the next host.
    next: u32,
    hosts: BTreeMap<HostId, Option<SocketAddr>>,
    lines: BTreeMap<HostId, Line<Down>>,
    /// The controller's time.
    now: u64,
    /// Who is the head.
    head: HostId,
}

/// A head that goes on where an earlier one was.
#[derive(Debug)]
pub struct Resumed {
    pub headship: Headship,
    pub controller: Controller,
    /// The controller's time so far.
    pub now: u64,
    /// The head before this one: it has died with all its processes.
    pub former: HostId,
}

pub fn neighbour(host: HostId, address: Option<SocketAddr>) -> Neighbour {
    Neighbour { host, address: address.map_or_else(String::new, |address| address.to_string()) }
}

impl Headship {
    /// The head of a new cluster.
    pub fn new(me: HostId, patience: Duration) -> Self {
        let (hosts, lines) = (BTreeMap::new(), BTreeMap::new());
        let state = State { next: me.0 + 1, hosts, lines, now: 0, head: me };
        Self {
            me,
            state,
            journal: None,
            retry_at: None,
            waiting: VecDeque::new(),
            patience,
            abandoned: false,
        }
    }

    /// From what an earlier head has left.
    ///
    /// # Errors
    /// When it does not parse.
    pub fn resume(saved: &journal::Saved, patience: Duration) -> Result<Resumed, postcard::Error> {
        let snapshot = saved.snapshot.as_ref().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        let (controller, state) = postcard::from_bytes(&snapshot.1)?;
        let mut controller: Controller = controller;
        let state: State = state;
        let former = state.head;
        let mut headship = Self { state, ..Self::new(former, patience) };
        for (_, record) in &saved.log {
            match postcard::from_bytes(record)? {
                Record::Event { now, via, event } => {
                    let event = event.into_owned();
                    let (lost, mut effects) = (lost_by(&event), Vec::new());
                    controller.handle(now, event, &mut effects);
                    headship.follow(now, via, lost, effects);
                }
                Record::Admitted { host, address } => headship.take_in(host, address),
            }
        }
        // Whoever has heard of it will say so; and nobody waits for what the lost one had to do itself.
        headship.carry_on();
        headship.me = HostId(headship.state.next);
        headship.state.next += 1;
        headship.state.head = headship.me;
        let now = headship.state.now;
        Ok(Resumed { headship, controller, now, former })
    }

    /// As if everything were in the journal: it is where this comes from.
    fn carry_on(&mut self) {
        for line in self.state.lines.values_mut() {
            line.settle(line.arrived());
            line.release_all();
        }
    }

    pub const fn me(&self) -> HostId {
        self.me
    }

    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// Keeps a journal from now on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_journal(
        &mut self,
        directory: &Path,
        about: &[u8],
        number: u64,
        controller: &Controller,
        wake: OwnedFd,
    ) -> Result<(), StartError> {
        let state = self.save(controller)?;
        self.journal = Some(Journal::create(directory, about, number, &state, wake)?);
        Ok(())
    }

    fn save(&self, controller: &Controller) -> Result<Vec<u8>, StartError> {
        let saved = postcard::to_allocvec(&(controller, &self.state));
        saved.map_err(|error| StartError::System {
            what: "room for a snapshot",
            source: std::io::Error::other(error.to_string()),
        })
    }

    /// Writes nothing more, and lets the hosts wait for another head. Where the journal is.
    pub fn abandon(&mut self) -> Option<PathBuf> {
        self.abandoned = true;
        self.journal.take().map(|journal| journal.file().to_owned())
    }

    pub const fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Removes the journal: the cluster has ended.
    pub fn end_journal(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
    }

    /// The hosts, but for this one.
    pub fn hosts(&self) -> Vec<HostId> {
        self.state.hosts.keys().copied().collect()
    }

    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.addresses().map(|(host, address)| neighbour(host, address)).collect()
    }

    pub fn knows(&self, host: HostId) -> bool {
        self.state.hosts.contains_key(&host)
    }

    pub fn addresses(&self) -> impl Iterator<Item = (HostId, Option<SocketAddr>)> {
        self.state.hosts.iter().map(|(host, address)| (*host, *address))
    }

    /// A host is let in, as soon as that is in the journal.
    pub fn admit(&mut self, conn: ConnId, remote: IpAddr, port: u16) {
        let host = HostId(self.state.next);
        let address = (port != 0).then(|| SocketAddr::new(remote, port));
        let others = self.neighbours();
        self.take_in(host, address);
        let number = self.record(&Record::Admitted { host, address });
        self.waiting.push_back(Waiting {
            number,
            via: None,
            due: vec![Due::Admit { conn, host, address, others }],
        });
    }

    fn take_in(&mut self, host: HostId, address: Option<SocketAddr>) {
        self.state.next = self.state.next.max(host.0 + 1);
        self.state.hosts.insert(host, address);
        self.state.lines.insert(host, Line::default());
    }

    /// A word of a host has arrived; false if it is to be dropped.
    pub fn accept(&mut self, host: HostId, number: u64, heard: u64) -> bool {
        let Some(line) = self.state.lines.get_mut(&host) else { return false };
        line.heard(heard);
        line.accept(number)
    }

    pub fn line(&mut self, host: HostId) -> Option<&mut Line<Down>> {
        self.state.lines.get_mut(&host)
    }

    /// Notes what happens to the controller, has it decide, and keeps what follows until that is in the journal.
    pub fn decide(
        &mut self,
        now: u64,
        via: Option<(HostId, u64)>,
        event: Event,
        controller: &mut Controller,
    ) {
        let lost = lost_by(&event);
        let number = self.record(&Record::Event { now, via, event: Cow::Borrowed(&event) });
        let mut effects = Vec::new();
        controller.handle(now, event, &mut effects);
        let due = self.follow(now, via, lost, effects);
        if via.is_some() || !due.is_empty() {
            self.waiting.push_back(Waiting { number, via, due });
        }
    }

    fn follow(
        &mut self,
        now: u64,
        via: Option<(HostId, u64)>,
        lost: Option<HostId>,
        effects: Vec<Effect>,
    ) -> Vec<Due> {
        self.state.now = self.state.now.max(now);
        let mut due = Vec::new();
        if let Some((host, number)) = via
            && let Some(line) = self.state.lines.get_mut(&host)
        {
            // Played from the journal, it has not arrived otherwise. What stood before it and is not there meant nothing.
            line.arrive(number);
        }
        for effect in effects {
            let host = match &effect {
                Effect::Send { to, .. } => to.host(),
                Effect::ToHost { host, .. } => *host,
            };
            if host == self.me {
                due.push(Due::Here(effect));
                continue;
            }
            let Some(line) = self.state.lines.get_mut(&host) else { continue };
            let number = line.push(word(effect));
            match due.last_mut() {
                Some(Due::Release(last, until)) if *last == host => *until = number,
                _ => due.push(Due::Release(host, number)),
            }
        }
        if let Some(host) = lost {
            self.state.lines.remove(&host);
            if self.state.hosts.remove(&host).is_some() {
                due.push(Due::Gone(host));
            }
        }
        due
    }

    fn record(&mut self, record: &Record<'_>) -> u64 {
        let Some(journal) = &mut self.journal else { return 0 };
        // Plain data into a growing buffer.
        journal.append(postcard::to_allocvec(record).unwrap_or_default())
    }

    /// Keeps the journal short, and tries again to write one that could not be written: what is wrong with it.
    pub fn tend(&mut self, now: u64, controller: &Controller) -> Option<String> {
        let journal = self.journal.as_ref()?;
        let failure = journal.take_failure();
        if failure.is_some() {
            self.retry_at = Some(now + RETRY);
        }
        let retries = self.retry_at.is_some_and(|at| at <= now);
        if retries || journal.wants_snapshot() {
            self.retry_at = retries.then_some(now + RETRY);
            let state = self.save(controller).ok()?;
            self.journal.as_mut()?.snapshot(state);
        }
        failure.map(|reason| {
            let file = self.journal.as_ref().map_or_else(String::new, |it| it.file().display().to_string());
            format!(
                "The journal {file} cannot be written: {reason}\nThe cluster goes on without it; if the head ends \
                 now, the cluster does.\nhint: make room there. It is tried again every {} s.",
                RETRY / 1_000_000_000
            )
        })
    }

    /// The journal could be written again.
    pub fn has_recovered(&mut self) -> bool {
        let committed = self.journal.as_ref().is_some_and(|journal| journal.committed() != u64::MAX);
        self.retry_at.is_some() && committed && self.retry_at.take().is_some()
    }

    pub const fn next_deadline(&self) -> Option<u64> {
        self.retry_at
    }

    /// What may be done now, and whose word had led to it.
    pub fn next_due(&mut self) -> Option<(Option<HostId>, Vec<Due>)> {
        let committed = self.journal.as_ref().map_or(u64::MAX, Journal::committed);
        if self.abandoned {
            return None;
        }
        let first = self.waiting.pop_front_if(|waiting| waiting.number <= committed)?;
        if let Some((host, number)) = first.via
            && let Some(line) = self.state.lines.get_mut(&host)
        {
            line.settle(number);
        }
        Some((first.via.map(|(host, _)| host), first.due))
    }
}

fn lost_by(event: &Event) -> Option<HostId> {
    match event {
        Event::HostLost { host, .. } => Some(*host),
        _ => None,
    }
}

/// An effect for a process or the agent of another host.
fn word(effect: Effect) -> Down {
    match effect {
        Effect::Send { to, message } => {
            let mut bytes = Vec::new();
            encode(&Message::FromController(message), &mut bytes);
            Down::To { to, message: bytes.into() }
        }
        Effect::ToHost { message, .. } => Down::Host(message),
    }
}

#[cfg(test)]
mod tests;
