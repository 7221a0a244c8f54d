//! Links between hosts, and the agents' part in the order of what goes over them.
//!
//! A process writes into the mailbox of its receiver, first in, first out; what is for another host goes
//! into its agent's, which puts it on the link to that host. A link keeps its order, whatever happens to it:
//! it may be slow, or cut (one way or both) for some time, and resends then. Two links know nothing of each
//! other. So here nothing but the agents' barriers and news (`raymesh_core::between`) keeps what goes over
//! two links in order.
//!
//! What a host has for the controller, and the controller for it, goes on a line above the link ([`crate::lines`]), since
//! the head may be lost and come back as another host ([`crate::head`]).
//!
//! Silence over a limit ends in a death that the head declares: of the later of two hosts that cannot hear
//! each other, or of the one that the head does not hear. Who is declared dead goes on until he learns of it
//! (a *zombie*), and comes back under another number, if at all. A host that crashes takes along
//! what its agent has not read, and the end of what is on the wire.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_core::between::{Barriers, Line, News, Word};
use raymesh_core::host::Event as HostEvent;
use raymesh_wire::between::Down;
use raymesh_wire::control::DeathCause;
use raymesh_wire::{FromController, HostId, ProcId, RequestId, ToController};

use crate::head::Head;
use crate::mutation::Mutation;
use crate::rng::Rng;
use crate::world::{Happening, MICRO, MILLI, Node, Packet, World};

/// The head of a new cluster.
pub const FIRST: HostId = HostId(0);
/// Silence of so long is taken for death.
pub const LIMIT: u64 = 50 * MILLI;

/// Somebody's mail on the wire.
#[derive(Clone, Debug)]
pub struct Mail {
    pub from: Node,
    pub to: Node,
    pub packet: Box<Packet>,
}

/// What goes over a link.
#[derive(Clone, Debug)]
pub enum Parcel {
    Mail(Mail),
    /// For the controller, and from it.
    Up {
        number: u64,
        heard: u64,
        says: Mail,
    },
    Down {
        number: u64,
        heard: u64,
        says: Down,
    },
    Heard(u64),
    /// The first word to a head, and its answer.
    Resume(u64),
    /// From the head, after that: who lives.
    Roll(Vec<HostId>),
    Flush(RequestId),
    Flushed(RequestId),
    /// The head has let that host in.
    Joined(HostId),
    /// The head has declared that host dead.
    Gone(HostId),
    /// To the head: nothing is heard of that host.
    Unreachable {
        host: HostId,
        ended: bool,
    },
}

/// What happens to links, and to the head.
#[derive(Clone, Debug)]
pub enum Wire {
    /// A process has mail for another host; its agent reads that now.
    Outgoing(Mail),
    Arrives {
        from: HostId,
        to: HostId,
        parcel: Parcel,
    },
    /// Nothing was heard for too long, or the system of the other said that nobody is there.
    Silent {
        by: HostId,
        of: HostId,
        ended: bool,
    },
    /// It learns that it was declared dead.
    Fenced(HostId),
    /// Two hosts cannot hear each other, or one the other, for a while.
    Cut,
    /// Another host wants to join.
    Join,
    /// The head has written what there was to write.
    Written(HostId),
    /// The head is lost.
    HeadLost,
    /// Another one goes on from its journal.
    HeadReturns,
    /// The host has dialed the head under its old number, and learns who it is now.
    Moved {
        host: HostId,
        to: HostId,
    },
    /// The host should have come to the new head by now.
    Late {
        host: HostId,
        to: HostId,
    },
}

/// A host's agent, so far as it deals with others.
#[derive(Debug)]
pub struct Agent {
    barriers: Barriers<Mail>,
    news: News<Mail>,
    /// Who is the head, so far as it knows.
    pub head: HostId,
    /// To the controller, and from it.
    pub line: Line<Mail>,
    /// Hosts that it has heard of.
    pub known: BTreeSet<HostId>,
    /// Of those with smaller numbers, it knows all that live.
    pub horizon: HostId,
    /// For hosts that it will hear of, and from such.
    early: BTreeMap<HostId, Vec<Parcel>>,
    early_in: BTreeMap<HostId, Vec<Parcel>>,
    /// Hosts that are dead in its eyes.
    buried: BTreeSet<HostId>,
    /// Those of which it has told the head, and whether they have ended.
    pub unreachable: BTreeMap<HostId, bool>,
}

impl Agent {
    /// Hosts that it may have something for, or from.
    pub fn all_heard_of(&self) -> impl Iterator<Item = HostId> {
        let early = self.early.keys().chain(self.early_in.keys()).filter(|host| **host < self.horizon);
        self.known.iter().chain(early).copied().filter(|host| !self.buried.contains(host))
    }
}

/// See the module.
#[derive(Debug)]
pub struct Links {
    /// Whether they are played: else packets go any way they like, within the promises of `crate`.
    pub played: bool,
    /// Where the controller is, or was last.
    pub head: HostId,
    /// What that has beside it, while there is a head.
    pub headship: Option<Head>,
    /// While there is none: what it had written.
    pub lost: Option<Head>,
    pub agents: BTreeMap<HostId, Agent>,
    /// When the last mail of a mailbox is read.
    mailboxes: BTreeMap<Node, u64>,
    /// When the last parcel of a link arrives, and when the sender knows that.
    last: BTreeMap<(HostId, HostId), (u64, u64)>,
    cut_until: BTreeMap<(HostId, HostId), u64>,
    /// Nothing arrives from a crashed host after this.
    ends: BTreeMap<(HostId, HostId), u64>,
    /// Links that are slow all the time.
    slow: BTreeMap<(HostId, HostId), bool>,
    pub zombies: BTreeSet<HostId>,
    pub mutation: Option<Mutation>,
}

fn delay(rng: &mut Rng) -> u64 {
    match rng.below(100) {
        0 => rng.range(MILLI, 30 * MILLI),
        1..=9 => rng.range(100 * MICRO, 3 * MILLI),
        _ => rng.range(MICRO, 60 * MICRO),
    }
}

impl Links {
    #[must_use]
    pub fn new(played: bool, mutation: Option<Mutation>) -> Self {
        Self {
            played,
            head: FIRST,
            headship: None,
            lost: None,
            agents: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            last: BTreeMap::new(),
            cut_until: BTreeMap::new(),
            ends: BTreeMap::new(),
            slow: BTreeMap::new(),
            zombies: BTreeSet::new(),
            mutation,
        }
    }

    /// A host is there, and knows of all others that are.
    pub fn joined(&mut self, host: HostId, known: BTreeSet<HostId>) {
        let agent = Agent {
            barriers: Barriers::default(),
            news: News::default(),
            head: self.head,
            line: Line::default(),
            known,
            horizon: host,
            early: BTreeMap::new(),
            early_in: BTreeMap::new(),
            buried: BTreeSet::new(),
            unreachable: BTreeMap::new(),
        };
        self.agents.insert(host, agent);
    }

    /// It was declared dead, and does not know that yet: what it does concerns nobody.
    #[must_use]
    pub fn is_zombie(&self, host: HostId) -> bool {
        self.zombies.contains(&host)
    }

    /// Whether `other` is dead in the eyes of `host`.
    #[must_use]
    pub fn has_buried(&self, host: HostId, other: HostId) -> bool {
        self.agents.get(&host).is_some_and(|agent| {
            let unknown = !agent.known.contains(&other) && other < agent.horizon;
            agent.buried.contains(&other) || unknown
        })
    }

    /// Whether `host` has not heard of `other` yet.
    fn is_early(&self, host: HostId, other: HostId) -> bool {
        self.agents.get(&host).is_some_and(|agent| host != other && !agent.known.contains(&other))
    }

    #[must_use]
    pub fn is_under_way(&self, host: HostId, now: u64) -> bool {
        self.played && !self.third_hosts(host, now).is_empty()
    }

    /// Third hosts to which something is under way, so far as `host` knows.
    fn third_hosts(&self, host: HostId, now: u64) -> Vec<HostId> {
        let Some(agent) = self.agents.get(&host).filter(|agent| agent.head != host) else {
            return Vec::new();
        };
        let third = |other: HostId| other != agent.head && !self.has_buried(host, other);
        let under_way = |(link, (_, known)): (&(HostId, HostId), &(u64, u64))| {
            (link.0 == host && *known > now && third(link.1)).then_some(link.1)
        };
        let early = agent.early.keys().copied().filter(|other| third(*other));
        let hosts: BTreeSet<HostId> = self.last.iter().filter_map(under_way).chain(early).collect();
        hosts.into_iter().collect()
    }
}

impl World {
    /// Plans what else happens in a storm: hosts come, and heads go.
    pub fn plan_storm(&mut self, from: u64, to: u64) {
        for what in [Wire::Join, Wire::Join, Wire::HeadLost] {
            for _ in 0..self.rng.below(3) {
                let at = self.rng.range(from, to);
                self.at(at, Happening::Wire(what.clone()));
            }
        }
    }

    /// Plans what happens to links between `from` and `to`.
    pub fn plan_cuts(&mut self, from: u64, to: u64) {
        for _ in 0..self.rng.below(60) {
            let at = self.rng.range(from, to);
            self.at(at, Happening::Wire(Wire::Cut));
        }
    }

    #[must_use]
    pub fn is_mutated(&self, mutation: Mutation) -> bool {
        self.links.mutation == Some(mutation)
    }

    fn host_of(&self, node: Node) -> HostId {
        match node {
            Node::Controller => self.links.head,
            Node::Host(host) => host,
            Node::Proc(proc) => proc.host(),
        }
    }

    /// When mail that is written now is read.
    fn read_at(&mut self, of: Node) -> u64 {
        let at = self.now + delay(&mut self.rng);
        let mailbox = match of {
            Node::Controller => Node::Host(self.links.head),
            other => other,
        };
        let last = self.links.mailboxes.entry(mailbox).or_default();
        *last = at.max(*last + 1);
        *last
    }

    /// The earliest that an agent may notice the death of one of its processes: it has read its mail then.
    pub fn after_last_mail(&mut self, host: HostId, at: u64) -> u64 {
        let last = self.links.mailboxes.entry(Node::Host(host)).or_default();
        *last = at.max(*last + 1);
        *last
    }

    pub fn send_by_link(&mut self, from: Node, to: Node, packet: Packet) {
        let (here, there) = (self.host_of(from), self.host_of(to));
        if here == there {
            // The agent and the controller of the head are one thread: between them nothing lies in a mailbox.
            let at = match (from, to) {
                (Node::Controller | Node::Host(_), Node::Controller | Node::Host(_)) => self.now,
                _ => self.read_at(to),
            };
            self.at(at, Happening::Arrives { from, to, packet });
            return;
        }
        let mail = Mail { from, to, packet: Box::new(packet) };
        match from {
            Node::Proc(_) => {
                let at = self.read_at(Node::Host(here));
                self.at(at, Happening::Wire(Wire::Outgoing(mail)));
            }
            _ if to == Node::Controller => self.say_up(here, mail),
            _ => self.put_on_link(here, there, Parcel::Mail(mail)),
        }
    }

    /// Whether all that goes that way takes long: it is a storm, and this is one of its links.
    pub fn is_slow(&mut self, from: HostId, to: HostId) -> bool {
        let Self { links, rng, storm, .. } = self;
        *storm && *links.slow.entry((from, to)).or_insert_with(|| rng.one_in(3))
    }

    pub fn put_on_link(&mut self, from: HostId, to: HostId, parcel: Parcel) {
        if self.links.has_buried(from, to) {
            return;
        }
        if self.links.is_early(from, to) {
            if let Some(agent) = self.links.agents.get_mut(&from) {
                agent.early.entry(to).or_default().push(parcel);
                self.stats.early += 1;
            }
            return;
        }
        let (mut arrives, acknowledged) = (delay(&mut self.rng), delay(&mut self.rng));
        if self.is_slow(from, to) {
            arrives += self.rng.range(MILLI, 15 * MILLI);
        }
        let until = |link| self.links.cut_until.get(&link).copied().unwrap_or(0);
        let (there, back) = (until((from, to)), until((to, from)));
        let last = self.links.last.entry((from, to)).or_default();
        let at = (self.now + arrives).max(last.0 + 1).max(there);
        *last = (at, (at + acknowledged).max(last.1).max(back));
        self.at(at, Happening::Wire(Wire::Arrives { from, to, parcel }));
    }

    /// A process here has died, and the head was told: it is told once more when all that the dead one has sent is
    /// there.
    pub fn leave_last_words(&mut self, dead: ProcId) {
        self.say_afterwards(dead.host(), Word::Heard(dead));
    }

    fn say_afterwards(&mut self, host: HostId, word: Word<Mail>) {
        let mut third = self.links.third_hosts(host, self.now);
        if self.is_mutated(Mutation::NoBarriers) {
            third.clear();
        }
        let Some(agent) = self.links.agents.get_mut(&host).filter(|_| !third.is_empty()) else {
            return self.say(host, word);
        };
        for (to, request) in agent.barriers.hold(third, word) {
            self.put_on_link(host, to, Parcel::Flush(request));
        }
    }

    fn say(&mut self, host: HostId, word: Word<Mail>) {
        match word {
            Word::Of { bytes: mail, .. } => self.say_up(host, mail),
            Word::Heard(proc) => self.host_event(host, HostEvent::Heard { proc }),
        }
    }

    pub fn wire(&mut self, wire: Wire) {
        match wire {
            Wire::Outgoing(mail) => {
                let Node::Proc(from) = mail.from else { return };
                let host = from.host();
                if !self.hosts.contains_key(&host) {
                    return;
                }
                match (&*mail.packet, mail.to) {
                    (Packet::ToController(ToController::Mourned { .. }), _) => {
                        self.say_afterwards(host, Word::Of { from, bytes: mail });
                    }
                    (_, Node::Controller) => self.say_up(host, mail),
                    (_, to) => {
                        let there = self.host_of(to);
                        self.put_on_link(host, there, Parcel::Mail(mail));
                    }
                }
                // Some die with words on their way.
                if self.storm && self.now < self.calm_at && self.rng.one_in(300) {
                    self.die(from, DeathCause::Signaled { signal: 9 });
                }
            }
            Wire::Arrives { from, to, parcel } => self.parcel_arrives(from, to, parcel),
            Wire::Silent { by, of, ended } => self.silent(by, of, ended),
            Wire::Fenced(host) => self.fenced(host),
            Wire::Cut => self.cut(),
            Wire::Join => self.ask_to_join(),
            Wire::Written(head) => self.written(head),
            Wire::HeadLost => self.lose_head(),
            Wire::HeadReturns => self.head_returns(),
            Wire::Moved { host, to } => self.head_moved(host, to),
            Wire::Late { host, to } => self.late(host, to),
        }
    }

    fn parcel_arrives(&mut self, from: HostId, to: HostId, parcel: Parcel) {
        let over = self.links.ends.get(&(from, to)).is_some_and(|end| self.now > *end);
        let refused = self.links.has_buried(to, from) && !self.is_mutated(Mutation::NoFencing);
        if over || refused || !self.hosts.contains_key(&to) {
            return;
        }
        if self.links.is_early(to, from) {
            // Who has not heard of a host refuses its connection for now.
            if let Some(agent) = self.links.agents.get_mut(&to) {
                agent.early_in.entry(from).or_default().push(parcel);
            }
            return;
        }
        self.take_in(from, to, parcel);
    }

    fn take_in(&mut self, from: HostId, here: HostId, parcel: Parcel) {
        let from_head = self.links.agents.get(&here).is_some_and(|agent| agent.head == from);
        match parcel {
            Parcel::Mail(mail) => self.hand_out(here, mail),
            Parcel::Up { number, heard, says } => self.hear_up(from, here, (number, heard), says),
            Parcel::Down { number, heard, says } if from_head => self.hear_down(here, (number, heard), says),
            Parcel::Heard(number) => self.hear_heard(from, here, number),
            Parcel::Resume(heard) => self.hear_resume(from, here, heard),
            Parcel::Roll(hosts) if from_head => self.call_roll(here, hosts),
            Parcel::Flush(request) => self.put_on_link(here, from, Parcel::Flushed(request)),
            Parcel::Flushed(request) => {
                let Some(agent) = self.links.agents.get_mut(&here) else { return };
                let words = agent.barriers.answered(from, request);
                let news = agent.news.answered(from, request);
                self.let_go_on(here, news, words);
            }
            Parcel::Joined(host) if from_head => self.know(here, host),
            Parcel::Gone(host) if from_head => self.bury(here, host),
            Parcel::Unreachable { host, ended } if here == self.links.head => {
                let lives = !ended && self.hosts.contains_key(&host);
                if !self.links.has_buried(here, host) {
                    self.declare_dead(if lives { host.max(from) } else { host });
                }
            }
            // Of one that is not the head any more.
            _ => {}
        }
    }

    /// `here` hears of a host.
    pub fn know(&mut self, here: HostId, host: HostId) {
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        if agent.buried.contains(&host) || !agent.known.insert(host) {
            return;
        }
        let (out, arrived) = (agent.early.remove(&host), agent.early_in.remove(&host));
        for parcel in out.into_iter().flatten() {
            self.put_on_link(here, host, parcel);
        }
        for parcel in arrived.into_iter().flatten() {
            self.take_in(host, here, parcel);
        }
    }

    /// What came over a link, to its receiver.
    pub fn hand_out(&mut self, here: HostId, mail: Mail) {
        let Node::Proc(to) = mail.to else {
            let Mail { from, to, packet } = mail;
            return self.arrives(from, to, *packet);
        };
        if mail.from != Node::Controller {
            return self.put_in_mailbox(mail);
        }
        let Some(head) = self.links.agents.get(&here).map(|agent| agent.head) else { return };
        let third = match &*mail.packet {
            Packet::FromController(FromController::Died { proc, .. }) => {
                let host = proc.host();
                let third = host != here && host != head && !self.links.has_buried(here, host);
                (third && !self.is_mutated(Mutation::NoNews)).then_some(host)
            }
            _ => None,
        };
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        if let Some(host) = third {
            let request = agent.news.hold(to, host, mail);
            self.put_on_link(here, host, Parcel::Flush(request));
        } else if let Some(mail) = agent.news.pass(to, mail) {
            self.put_in_mailbox(mail);
        }
    }

    fn put_in_mailbox(&mut self, Mail { from, to, packet }: Mail) {
        let at = self.read_at(to);
        self.at(at, Happening::Arrives { from, to, packet: *packet });
    }

    fn let_go_on(&mut self, here: HostId, news: Vec<(ProcId, Mail)>, words: Vec<Word<Mail>>) {
        news.into_iter().for_each(|(_, mail)| self.put_in_mailbox(mail));
        words.into_iter().for_each(|word| self.say(here, word));
    }

    pub fn bury(&mut self, here: HostId, dead: HostId) {
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        if here == dead || !agent.buried.insert(dead) {
            return;
        }
        agent.early.remove(&dead);
        agent.early_in.remove(&dead);
        let (news, words) = (agent.news.gone(dead), agent.barriers.gone(dead));
        self.let_go_on(here, news, words);
    }

    fn silent(&mut self, by: HostId, of: HostId, ended: bool) {
        if !self.hosts.contains_key(&by) || self.links.has_buried(by, of) {
            return;
        }
        let Some(agent) = self.links.agents.get_mut(&by) else { return };
        let head = agent.head;
        if by == head {
            self.declare_dead(of);
        } else if of != head && agent.known.contains(&of) {
            agent.unreachable.insert(of, ended);
            self.bury(by, of);
            self.put_on_link(by, head, Parcel::Unreachable { host: of, ended });
        }
    }

    /// The head decides.
    pub fn declare_dead(&mut self, host: HostId) {
        let head = self.links.head;
        let knows = self.links.headship.as_ref().is_some_and(|head| head.books.knows(host));
        if host == head || !knows || self.links.has_buried(head, host) {
            return;
        }
        self.bury(head, host);
        if self.hosts.contains_key(&host) {
            self.stats.hosts_lost += 1;
            self.stats.fenced += 1;
            self.links.zombies.insert(host);
            let at = self.now + self.rng.range(MICRO, LIMIT);
            self.at(at, Happening::Wire(Wire::Fenced(host)));
        }
        self.host_lost(host);
    }

    /// It ends, and may come back as another one.
    pub fn fenced(&mut self, host: HostId) {
        if !self.links.is_zombie(host) || !self.hosts.contains_key(&host) {
            return;
        }
        self.end_host(host);
        if self.rng.one_in(2) {
            self.ask_to_join();
        }
    }

    /// All of it is gone at once.
    pub fn end_host(&mut self, host: HostId) {
        self.hosts.remove(&host);
        for ((home, _), stored) in &mut self.blocks {
            stored.lost |= home.host() == host;
        }
        let procs: Vec<_> = self.procs.keys().copied().filter(|id| id.host() == host).collect();
        for id in procs {
            self.die(id, DeathCause::HostLost);
        }
    }

    /// A host crashes: others notice, some sooner than others. For a head they have patience.
    pub fn crash(&mut self, host: HostId) {
        self.end_host(host);
        for other in self.hosts.keys().copied().collect::<Vec<_>>() {
            let end = self.now + self.rng.range(0, 200 * MICRO);
            self.links.ends.insert((host, other), end);
            if host != self.links.head {
                let at = end + self.rng.range(MICRO, 30 * MILLI);
                self.at(at, Happening::Wire(Wire::Silent { by: other, of: host, ended: true }));
            }
        }
    }

    /// One way, for a short while.
    pub fn cut_link(&mut self, link: (HostId, HostId)) {
        let until = self.now + self.rng.range(MILLI, LIMIT);
        let cut = self.links.cut_until.entry(link).or_default();
        *cut = until.max(*cut);
        self.stats.cuts += 1;
    }

    /// A link is cut for a while, one way or both; longer than the limit, now and then.
    fn cut(&mut self) {
        let hosts: Vec<_> = self.hosts.keys().copied().collect();
        let (Some(a), Some(b)) = (self.rng.pick(&hosts).copied(), self.rng.pick(&hosts).copied()) else {
            return;
        };
        if a == b {
            return;
        }
        self.stats.cuts += 1;
        let until = self.now
            + match self.rng.below(20) {
                0 => LIMIT + self.rng.range(0, LIMIT),
                1..=9 => self.rng.range(MILLI, LIMIT),
                _ => self.rng.range(10 * MICRO, 5 * MILLI),
            };
        let both = self.rng.one_in(2);
        let head = self.links.head;
        for link in [(a, b), (b, a)].into_iter().take(if both { 2 } else { 1 }) {
            let cut = self.links.cut_until.entry(link).or_default();
            *cut = until.max(*cut);
            if until >= self.now + LIMIT {
                let at = self.now + LIMIT;
                self.at(at, Happening::Wire(Wire::Silent { by: link.1, of: link.0, ended: false }));
                // Who does not hear the head gives it no answers.
                if link.0 == head {
                    self.at(at, Happening::Wire(Wire::Silent { by: head, of: link.1, ended: false }));
                }
            }
        }
    }

    /// Whether the bytes that lie on `home` can be had on `host`.
    #[must_use]
    pub fn is_out_of_reach(&self, host: HostId, home: HostId) -> bool {
        self.links.played && self.links.has_buried(host, home)
    }
}
