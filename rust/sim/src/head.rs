//! The head, in runs with links: what it decides leaves when it is written; it is lost with what it had not written,
//! and with all that ran on its host, and another host goes on from its journal.
//!
//! The books are the real ones (`raymesh_core::head`). Here is the disk, and what agents do when the head is another one.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};

use raymesh_core::controller::{Controller, Effect as Decision, Event};
use raymesh_core::head::{Books, Due, Record, State};
use raymesh_wire::HostId;
use raymesh_wire::control::ToHost;

use crate::links::{LIMIT, Parcel, Wire};
use crate::mutation::Mutation;
use crate::world::{Happening, MICRO, MILLI, Node, Packet, World};

/// Hosts have so long to come to a new head.
const GRACE: u64 = 2 * LIMIT;
/// A snapshot is written, or the journal compared with what it should give, once in so many events.
const SNAPSHOTS: usize = 100;
const LOOKS: usize = 300;

#[derive(Clone, Debug)]
enum Work {
    Append(Record<'static>),
    Snapshot(Vec<u8>),
}

/// See the module.
#[derive(Debug)]
pub struct Head {
    pub books: Books<()>,
    /// Hosts that have said how far they are.
    pub came: BTreeSet<HostId>,
    snapshot: Vec<u8>,
    log: Vec<Record<'static>>,
    unwritten: VecDeque<Work>,
    last: u64,
    committed: u64,
    writes: bool,
}

impl Head {
    /// Begins a journal.
    #[must_use]
    pub fn new(books: Books<()>, controller: &Controller) -> Self {
        let snapshot = save(controller, books.state());
        let (came, log, unwritten) = (BTreeSet::new(), Vec::new(), VecDeque::new());
        Self { books, came, snapshot, log, unwritten, last: 0, committed: 0, writes: false }
    }

    fn append(&mut self, record: Record<'static>) -> u64 {
        self.unwritten.push_back(Work::Append(record));
        self.last += 1;
        self.last
    }

    fn write(&mut self, count: usize) {
        for work in self.unwritten.drain(..count) {
            match work {
                Work::Append(record) => self.log.push(record),
                Work::Snapshot(snapshot) => {
                    self.snapshot = snapshot;
                    self.log.clear();
                }
            }
        }
    }

    /// What another head finds.
    ///
    /// # Panics
    /// When what was written cannot be read.
    #[must_use]
    pub fn play(&self) -> (Controller, Books<()>) {
        let Ok((controller, state)) = postcard::from_bytes::<(Controller, State)>(&self.snapshot) else {
            panic!("the snapshot of a head cannot be read");
        };
        let (mut controller, mut books) = (controller, Books::left_by(state));
        for record in &self.log {
            books.play(record.clone(), &mut controller);
        }
        (controller, books)
    }

    /// Whether the journal, with what is not written yet, gives this controller.
    fn gives(&self, controller: &Controller) -> bool {
        let (snapshot, log, unwritten) = (self.snapshot.clone(), self.log.clone(), self.unwritten.clone());
        let (came, books) = (BTreeSet::new(), Books::new(HostId(0)));
        let mut all = Self { books, came, snapshot, log, unwritten, last: 0, committed: 0, writes: false };
        all.write(all.unwritten.len());
        let (again, _) = all.play();
        postcard::to_allocvec(&again) == postcard::to_allocvec(controller)
    }
}

fn save(controller: &Controller, state: &State) -> Vec<u8> {
    let saved = postcard::to_allocvec(&(controller, state));
    assert!(saved.is_ok(), "a head cannot be saved: {saved:?}");
    saved.unwrap_or_default()
}

impl World {
    /// There is a head, and it knows these hosts.
    pub fn begin_headship(&mut self) {
        let head = self.links.head;
        let mut books = Books::new(head);
        let hosts: BTreeSet<HostId> = self.hosts.keys().copied().collect();
        for host in hosts.iter().filter(|host| **host != head) {
            books.take_in(*host, None);
        }
        self.links.headship = Some(Head::new(books, &self.controller));
        for host in hosts.iter().copied() {
            hosts.iter().for_each(|other| self.know(host, *other));
            if host != head {
                self.greet_head(host);
            }
        }
    }

    /// Something happens to the controller. What follows from it waits for the journal.
    pub fn decide(&mut self, via: Option<(HostId, u64)>, event: Event) {
        let now = self.now;
        let Some(head) = &mut self.links.headship else { return };
        let record = Record::Event { now, via, event: Cow::Owned(event.clone()) };
        let number = head.append(record);
        head.books.decide(number, now, via, event, self.controller.inner());
        if self.rng.one_in(SNAPSHOTS) {
            head.unwritten.push_back(Work::Snapshot(save(&self.controller, head.books.state())));
        }
        if self.rng.one_in(LOOKS) && !head.gives(&self.controller) {
            self.fail("the journal does not give the controller that wrote it");
        }
        let deadline = self.controller.next_deadline();
        self.wake_at(Node::Controller, deadline);
        self.have_it_written();
    }

    fn have_it_written(&mut self) {
        if self.is_mutated(Mutation::EffectsBeforeJournal) {
            self.do_what_is_due();
        }
        let Some(head) = self.links.headship.as_mut().filter(|head| !head.writes) else { return };
        head.writes = true;
        let at = self.now
            + match self.rng.below(40) {
                0 => self.rng.range(MILLI, 30 * MILLI),
                _ => self.rng.range(50 * MICRO, 500 * MICRO),
            };
        self.at(at, Happening::Wire(Wire::Written(self.links.head)));
    }

    /// All that had gathered is on disk.
    pub fn written(&mut self, of: HostId) {
        let Some(head) = self.links.headship.as_mut().filter(|_| of == self.links.head) else { return };
        head.write(head.unwritten.len());
        (head.committed, head.writes) = (head.last, false);
        self.do_what_is_due();
    }

    fn do_what_is_due(&mut self) {
        let here = self.links.head;
        let early = self.is_mutated(Mutation::EffectsBeforeJournal);
        while let Some(head) = &mut self.links.headship
            && let Some((via, due)) = head.books.next_due(if early { head.last } else { head.committed })
        {
            due.into_iter().for_each(|due| self.do_due(here, due));
            let line = |head: &mut Head| head.books.line(via?)?.owes_word().then_some(via?);
            let Some(owed) = self.links.headship.as_mut().and_then(line) else { continue };
            let line = self.links.headship.as_mut().and_then(|head| head.books.line(owed));
            let number = line.map_or(0, raymesh_core::between::Line::tell);
            self.put_on_link(here, owed, Parcel::Heard(number));
        }
    }

    fn do_due(&mut self, here: HostId, due: Due<()>) {
        let hosts = |world: &Self| world.links.headship.as_ref().map(|head| head.books.hosts());
        match due {
            Due::Here(Decision::Send { to, message }) => {
                self.send(Node::Controller, Node::Proc(to), Packet::FromController(message));
            }
            Due::Here(Decision::ToHost { host, message }) => {
                self.send(Node::Controller, Node::Host(host), Packet::ToHost(message));
            }
            Due::Release(host, number) => {
                if let Some(line) = self.links.headship.as_mut().and_then(|head| head.books.line(host)) {
                    line.release(number);
                }
                self.pour_down(host);
            }
            Due::Admit { host, others, .. } => {
                self.know(here, host);
                let known: BTreeSet<_> = others.iter().map(|other| other.host).chain([here, host]).collect();
                self.add_host(host, known);
                self.greet_head(host);
                self.stats.rejoined += 1;
                for other in others {
                    if self.storm && self.rng.one_in(3) {
                        self.cut_link((here, other.host));
                    }
                    self.put_on_link(here, other.host, Parcel::Joined(host));
                }
            }
            Due::Gone(host) => {
                for other in hosts(self).unwrap_or_default() {
                    self.put_on_link(here, other, Parcel::Gone(host));
                }
            }
        }
    }

    /// A host wants to join. One that gets no answer asks again.
    pub fn ask_to_join(&mut self) {
        let Some(head) = &mut self.links.headship else {
            let at = self.now + self.rng.range(MILLI, LIMIT);
            return self.at(at, Happening::Wire(Wire::Join));
        };
        let host = head.books.next_host();
        let number = head.append(Record::Admitted { host, address: None });
        head.books.admit(number, (), host, None);
        self.have_it_written();
    }

    /// Nothing is left of it but what is on its disk.
    pub fn lose_head(&mut self) {
        let Some(mut head) = self.links.headship.take() else { return };
        self.stats.heads_lost += 1;
        self.stats.hosts_lost += 1;
        // It may have come further than it knew.
        let written = self.rng.below(head.unwritten.len() + 1);
        head.write(written);
        self.links.lost = Some(head);
        self.crash(self.links.head);
        let away = match self.rng.below(4) {
            0 => self.rng.range(MICRO, MILLI),
            _ => self.rng.range(MILLI, 2 * LIMIT),
        };
        self.at(self.now + away, Happening::Wire(Wire::HeadReturns));
    }

    pub fn head_returns(&mut self) {
        let Some(lost) = self.links.lost.take() else { return };
        let (controller, mut books) = lost.play();
        let mut formers = books.take_over();
        if self.is_mutated(Mutation::OnlyTheLastHeadDied) {
            formers.drain(..formers.len() - 1);
        }
        let (here, hosts) = (books.me(), books.hosts());
        // Whom nobody has written down as dead is not.
        self.links.zombies.retain(|host| !books.knows(*host));
        self.links.head = here;
        self.links.headship = Some(Head::new(books, &controller));
        *self.controller.inner() = controller;
        self.add_host(here, hosts.iter().copied().chain([here]).collect());
        for host in formers {
            self.at(self.now, Happening::HostLost(host));
        }
        let deadline = self.controller.next_deadline();
        self.wake_at(Node::Controller, deadline);
        for host in self.hosts.keys().copied().filter(|host| *host != here).collect::<Vec<_>>() {
            let within = if self.rng.one_in(15) { 2 * GRACE } else { LIMIT };
            let at = self.now + self.rng.range(10 * MICRO, within);
            self.at(at, Happening::Wire(Wire::Moved { host, to: here }));
        }
        for host in hosts {
            self.at(self.now + GRACE, Happening::Wire(Wire::Late { host, to: here }));
        }
        // The second loss is the one that nobody has thought of.
        if self.rng.one_in(3) && self.stats.heads_lost < 4 {
            let at = self.now + self.rng.range(0, 3 * MILLI);
            self.at(at, Happening::Wire(Wire::HeadLost));
        }
    }

    /// The host learns who is the head now.
    pub fn head_moved(&mut self, host: HostId, to: HostId) {
        if self.links.head != to || !self.hosts.contains_key(&host) {
            return;
        }
        let Some(head) = &self.links.headship else { return };
        if !head.books.knows(host) {
            self.links.zombies.insert(host);
            return self.fenced(host);
        }
        let Some(agent) = self.links.agents.get_mut(&host) else { return };
        let former = std::mem::replace(&mut agent.head, to);
        self.know(host, to);
        self.bury(host, former);
        self.greet_head(host);
    }

    /// Who has not come to the new head is dead.
    pub fn late(&mut self, host: HostId, to: HostId) {
        let came = self.links.headship.as_ref().is_none_or(|head| head.came.contains(&host));
        if !came && self.links.head == to {
            self.declare_dead(host);
        }
    }

    /// Whether a host is granted more than it has.
    pub fn check_grant(&mut self, host: HostId, message: &ToHost) {
        if let ToHost::BindLease { resources, group: None, .. } = message
            && resources.get("CPU").0 > 0
            && self.controller.owes_cpu(host)
        {
            self.fail(format!("{host:?} is granted more CPU than it has: {message:?}"));
        }
    }
}
