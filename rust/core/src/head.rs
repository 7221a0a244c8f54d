//! What only the head has: the list of hosts and the lines to them, beside the controller. Pure: who keeps the journal
//! says what is in it.
//!
//! Nothing that the controller decides leaves before what it decided upon is in the journal. So a head that is
//! started again from it knows all that anybody has heard: it plays the journal, says the same words under
//! the same numbers, and goes on. What was in no journal nobody has heard of; the hosts say it again.
//!
//! `C` is whoever asks to be let in: a connection for the agent.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use raymesh_wire::between::{Down, Neighbour};
use raymesh_wire::{HostId, Message, encode};
use serde::{Deserialize, Serialize};

use crate::between::Line;
use crate::controller::{Controller, Effect, Event};

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record<'a> {
    /// To the controller; `via`: a word of that host, and its number.
    Event { now: u64, via: Option<(HostId, u64)>, event: Cow<'a, Event> },
    /// A host was let in.
    Admitted { host: HostId, address: Option<SocketAddr> },
}

/// What is to be done once what led to it is in the journal.
#[derive(Debug)]
pub enum Due<C> {
    /// For somebody on this host.
    Here(Effect),
    /// The host's words up to this number may leave.
    Release(HostId, u64),
    /// Let the host in, and tell the others.
    Admit { conn: C, host: HostId, address: Option<SocketAddr>, others: Vec<Neighbour> },
    /// Tell all that the host is dead.
    Gone(HostId),
}

#[derive(Debug)]
struct Waiting<C> {
    number: u64,
    via: Option<(HostId, u64)>,
    due: Vec<Due<C>>,
}

/// See the module.
#[derive(Debug)]
pub struct Books<C> {
    me: HostId,
    state: State,
    /// In the order of the journal.
    waiting: VecDeque<Waiting<C>>,
}

/// All that is saved beside the controller.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// The number of the next host.
    next: u32,
    hosts: BTreeMap<HostId, Option<SocketAddr>>,
    lines: BTreeMap<HostId, Line<Down>>,
    /// The controller's time.
    now: u64,
    /// Who is the head.
    head: HostId,
    /// Heads before it whose loss the controller may not have been told yet: one may be lost before it has written
    /// that the one before it was.
    formers: BTreeSet<HostId>,
}

#[must_use]
pub fn neighbour(host: HostId, address: Option<SocketAddr>) -> Neighbour {
    Neighbour { host, address: address.map_or_else(String::new, |address| address.to_string()) }
}

impl<C> Books<C> {
    /// Of the head of a new cluster.
    #[must_use]
    pub fn new(me: HostId) -> Self {
        let (hosts, lines, formers) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let state = State { next: me.0 + 1, hosts, lines, now: 0, head: me, formers };
        Self { me, state, waiting: VecDeque::new() }
    }

    /// As an earlier head has left them. What it wrote after that is to be [played](Self::play), and then
    /// [taken over](Self::take_over).
    #[must_use]
    pub fn left_by(state: State) -> Self {
        Self { me: state.head, state, waiting: VecDeque::new() }
    }

    /// What is to be saved beside the controller.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Does again what an earlier head has done.
    pub fn play(&mut self, record: Record<'_>, controller: &mut Controller) {
        match record {
            Record::Event { now, via, event } => {
                let event = event.into_owned();
                let (lost, mut effects) = (lost_by(&event), Vec::new());
                controller.handle(now, event, &mut effects);
                self.follow(now, via, lost, effects);
            }
            Record::Admitted { host, address } => self.take_in(host, address),
        }
    }

    /// The head is another one from now on. Heads before it of whose loss the controller is to be told.
    pub fn take_over(&mut self) -> Vec<HostId> {
        // As if everything were in the journal: it is where this comes from. Whoever has heard of it will say so; and
        // nobody waits for what the lost one had to do itself.
        for line in self.state.lines.values_mut() {
            line.settle(line.arrived());
            line.release_all();
        }
        self.state.formers.insert(self.state.head);
        self.me = HostId(self.state.next);
        self.state.next += 1;
        self.state.head = self.me;
        self.state.formers.iter().copied().collect()
    }

    pub const fn me(&self) -> HostId {
        self.me
    }

    /// The controller's time so far.
    pub const fn now(&self) -> u64 {
        self.state.now
    }

    /// The hosts, but for this one.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostId> {
        self.state.hosts.keys().copied().collect()
    }

    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.addresses().map(|(host, address)| neighbour(host, address)).collect()
    }

    #[must_use]
    pub fn knows(&self, host: HostId) -> bool {
        self.state.hosts.contains_key(&host)
    }

    pub fn addresses(&self) -> impl Iterator<Item = (HostId, Option<SocketAddr>)> {
        self.state.hosts.iter().map(|(host, address)| (*host, *address))
    }

    /// The number of the host that joins next.
    #[must_use]
    pub const fn next_host(&self) -> HostId {
        HostId(self.state.next)
    }

    /// A host is let in, as soon as [`Record::Admitted`], under that number in the journal, is written.
    pub fn admit(&mut self, number: u64, conn: C, host: HostId, address: Option<SocketAddr>) {
        let others = self.neighbours();
        self.take_in(host, address);
        let due = vec![Due::Admit { conn, host, address, others }];
        self.waiting.push_back(Waiting { number, via: None, due });
    }

    pub fn take_in(&mut self, host: HostId, address: Option<SocketAddr>) {
        self.state.next = self.state.next.max(host.0 + 1);
        self.state.hosts.insert(host, address);
        self.state.lines.insert(host, Line::default());
    }

    /// A word of a host has arrived; false if it is to be dropped.
    #[must_use]
    pub fn accept(&mut self, host: HostId, number: u64, heard: u64) -> bool {
        let Some(line) = self.state.lines.get_mut(&host) else { return false };
        line.heard(heard);
        line.accept(number)
    }

    pub fn line(&mut self, host: HostId) -> Option<&mut Line<Down>> {
        self.state.lines.get_mut(&host)
    }

    /// Has the controller decide, and keeps what follows until [`Record::Event`], under that number in the
    /// journal, is written.
    pub fn decide(
        &mut self,
        number: u64,
        now: u64,
        via: Option<(HostId, u64)>,
        event: Event,
        controller: &mut Controller,
    ) {
        let (lost, mut effects) = (lost_by(&event), Vec::new());
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
    ) -> Vec<Due<C>> {
        self.state.now = self.state.now.max(now);
        let mut due = Vec::new();
        if let Some((host, number)) = via
            && let Some(line) = self.state.lines.get_mut(&host)
        {
            // Played from the journal, it has not arrived otherwise. What stood before it and is not there meant nothing.
            line.arrive(number);
        }
        if let Some(host) = lost {
            self.state.formers.remove(&host);
            self.state.lines.remove(&host);
            if self.state.hosts.remove(&host).is_some() {
                // First: a host that lives, and was declared dead, answers others until they hear of it, and speaks
                // after that. Who is told of the deaths there must not hear it any more.
                due.push(Due::Gone(host));
            }
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
        due
    }

    /// What may be done when everything up to `committed` is in the journal, and whose word had led to it.
    pub fn next_due(&mut self, committed: u64) -> Option<(Option<HostId>, Vec<Due<C>>)> {
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
