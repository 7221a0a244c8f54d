//! Links between hosts, and the agents' part in the order of what goes over them.
//!
//! A process writes into the mailbox of its receiver, first in, first out; what is for another host goes
//! into its agent's, which puts it on the link to that host. A link keeps its order, whatever happens to it:
//! it may be slow, or cut (one way or both) for some time, and resends then. Two links know nothing of each
//! other. So here nothing but the agents' barriers and news (`raymesh_core::between`) keeps what goes over
//! two links in order.
//!
//! Silence over a limit ends in a death that the head declares: of the later of two hosts that cannot hear
//! each other, or of the one that the head does not hear. Who is declared dead goes on until he learns of it
//! (a *zombie*), and comes back under another number, if at all. A host that crashes takes along
//! what its agent has not read, and the end of what is on the wire.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_core::between::{Barriers, News, Word};
use raymesh_core::host::Event as HostEvent;
use raymesh_wire::control::DeathCause;
use raymesh_wire::{FromController, HostId, ProcId, RequestId, ToController};

use crate::rng::Rng;
use crate::world::{Happening, MICRO, MILLI, Node, Packet, World};

const HEAD: HostId = HostId(0);
/// Silence of so long is taken for death.
const LIMIT: u64 = 50 * MILLI;

/// Somebody's mail on the wire.
#[derive(Clone, Debug)]
pub struct Mail {
    from: Node,
    to: Node,
    packet: Box<Packet>,
}

/// What goes over a link.
#[derive(Clone, Debug)]
pub enum Parcel {
    Mail(Mail),
    Flush(RequestId),
    Flushed(RequestId),
    /// The head has declared that host dead.
    Gone(HostId),
    /// To the head: nothing is heard of that host.
    Unreachable {
        host: HostId,
        ended: bool,
    },
}

/// What happens to links.
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
}

/// A host's agent, so far as it deals with others.
#[derive(Debug, Default)]
struct Agent {
    barriers: Barriers<Mail>,
    news: News<Mail>,
    /// Hosts that are dead in its eyes.
    buried: BTreeSet<HostId>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Links {
    /// Whether they are played: else packets go any way they like, within the promises of `crate`.
    pub played: bool,
    agents: BTreeMap<HostId, Agent>,
    /// When the last mail of a mailbox is read.
    mailboxes: BTreeMap<Node, u64>,
    /// When the last parcel of a link arrives, and when the sender knows that.
    last: BTreeMap<(HostId, HostId), (u64, u64)>,
    cut_until: BTreeMap<(HostId, HostId), u64>,
    /// Nothing arrives from a crashed host after this.
    ends: BTreeMap<(HostId, HostId), u64>,
    zombies: BTreeSet<HostId>,
    next_host: u32,
}

fn host_of(node: Node) -> HostId {
    match node {
        Node::Controller => HEAD,
        Node::Host(host) => host,
        Node::Proc(proc) => proc.host(),
    }
}

/// Whose mailbox it is.
fn mailbox(node: Node) -> Node {
    match node {
        Node::Controller => Node::Host(HEAD),
        other => other,
    }
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
    pub fn new(played: bool) -> Self {
        Self { played, ..Self::default() }
    }

    /// A host is there. It is told of nobody who is dead by then.
    pub fn joined(&mut self, host: HostId) {
        let buried = self.agents.get(&HEAD).map(|head| head.buried.clone()).unwrap_or_default();
        self.agents.insert(host, Agent { buried, ..Agent::default() });
        self.next_host = self.next_host.max(host.0 + 1);
    }

    /// It was declared dead, and does not know that yet: what it does concerns nobody.
    #[must_use]
    pub fn is_zombie(&self, host: HostId) -> bool {
        self.zombies.contains(&host)
    }

    fn has_buried(&self, host: HostId, other: HostId) -> bool {
        self.agents.get(&host).is_some_and(|agent| agent.buried.contains(&other))
    }

    #[must_use]
    pub fn is_under_way(&self, host: HostId, now: u64) -> bool {
        self.played && !self.third_hosts(host, now).is_empty()
    }

    /// Third hosts to which something is under way, so far as `host` knows.
    fn third_hosts(&self, host: HostId, now: u64) -> Vec<HostId> {
        if host == HEAD {
            return Vec::new();
        }
        let under_way = |(link, (_, known)): (&(HostId, HostId), &(u64, u64))| {
            let third = link.0 == host && link.1 != HEAD && *known > now;
            (third && !self.has_buried(host, link.1)).then_some(link.1)
        };
        self.last.iter().filter_map(under_way).collect()
    }
}

impl World {
    /// Plans what happens to links between `from` and `to`.
    pub fn plan_cuts(&mut self, from: u64, to: u64) {
        for _ in 0..self.rng.below(60) {
            let at = self.rng.range(from, to);
            self.at(at, Happening::Wire(Wire::Cut));
        }
    }

    /// When mail that is written now is read.
    fn read_at(&mut self, of: Node) -> u64 {
        let at = self.now + delay(&mut self.rng);
        let last = self.links.mailboxes.entry(mailbox(of)).or_default();
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
        let (here, there) = (host_of(from), host_of(to));
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
            _ => self.put_on_link(here, there, Parcel::Mail(mail)),
        }
    }

    fn put_on_link(&mut self, from: HostId, to: HostId, parcel: Parcel) {
        if self.links.has_buried(from, to) {
            return;
        }
        let (arrives, acknowledged) = (delay(&mut self.rng), delay(&mut self.rng));
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
        let third = self.links.third_hosts(host, self.now);
        let Some(agent) = self.links.agents.get_mut(&host).filter(|_| !third.is_empty()) else {
            return self.say(host, word);
        };
        for (to, request) in agent.barriers.hold(third, word) {
            self.put_on_link(host, to, Parcel::Flush(request));
        }
    }

    fn say(&mut self, host: HostId, word: Word<Mail>) {
        match word {
            Word::Of { bytes: mail, .. } => self.put_on_link(host, HEAD, Parcel::Mail(mail)),
            Word::Heard(proc) => self.host_event(host, HostEvent::Heard { proc }),
        }
    }

    pub fn wire(&mut self, wire: Wire) {
        match wire {
            Wire::Outgoing(mail) => {
                let (host, to) = (host_of(mail.from), host_of(mail.to));
                let Node::Proc(from) = mail.from else { return };
                if !self.hosts.contains_key(&host) {
                    return;
                }
                if let Packet::ToController(ToController::Mourned { .. }) = *mail.packet {
                    self.say_afterwards(host, Word::Of { from, bytes: mail });
                } else {
                    self.put_on_link(host, to, Parcel::Mail(mail));
                }
            }
            Wire::Arrives { from, to, parcel } => {
                let over = self.links.ends.get(&(from, to)).is_some_and(|end| self.now > *end);
                if !over && self.hosts.contains_key(&to) && !self.links.has_buried(to, from) {
                    self.take_in(from, to, parcel);
                }
            }
            Wire::Silent { by, of, ended } => self.silent(by, of, ended),
            Wire::Fenced(host) => self.fenced(host),
            Wire::Cut => self.cut(),
        }
    }

    fn take_in(&mut self, from: HostId, here: HostId, parcel: Parcel) {
        match parcel {
            Parcel::Mail(mail) => self.hand_out(here, mail),
            Parcel::Flush(request) => self.put_on_link(here, from, Parcel::Flushed(request)),
            Parcel::Flushed(request) => {
                let Some(agent) = self.links.agents.get_mut(&here) else { return };
                let words = agent.barriers.answered(from, request);
                let news = agent.news.answered(from, request);
                self.let_go_on(here, news, words);
            }
            Parcel::Gone(host) => self.bury(here, host),
            Parcel::Unreachable { host, ended } => {
                let lives = !ended && self.hosts.contains_key(&host);
                if !self.links.has_buried(here, host) {
                    self.declare_dead(if lives { host.max(from) } else { host });
                }
            }
        }
    }

    /// What came over a link, to its receiver.
    fn hand_out(&mut self, here: HostId, mail: Mail) {
        let Node::Proc(to) = mail.to else {
            let Mail { from, to, packet } = mail;
            return self.arrives(from, to, *packet);
        };
        if mail.from != Node::Controller {
            return self.put_in_mailbox(mail);
        }
        let third = match &*mail.packet {
            Packet::FromController(FromController::Died { proc, .. }) => {
                let host = proc.host();
                let third = host != here && host != HEAD && !self.links.has_buried(here, host);
                third.then_some(host)
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

    fn bury(&mut self, here: HostId, dead: HostId) {
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        if here == dead || !agent.buried.insert(dead) {
            return;
        }
        let (news, words) = (agent.news.gone(dead), agent.barriers.gone(dead));
        self.let_go_on(here, news, words);
    }

    fn silent(&mut self, by: HostId, of: HostId, ended: bool) {
        if !self.hosts.contains_key(&by) || self.links.has_buried(by, of) {
            return;
        }
        if by == HEAD {
            self.declare_dead(of);
        } else if of != HEAD {
            self.bury(by, of);
            self.put_on_link(by, HEAD, Parcel::Unreachable { host: of, ended });
        }
    }

    /// The head decides.
    fn declare_dead(&mut self, host: HostId) {
        if host == HEAD || self.links.has_buried(HEAD, host) {
            return;
        }
        for other in self.hosts.keys().copied().filter(|other| *other != HEAD).collect::<Vec<_>>() {
            self.put_on_link(HEAD, other, Parcel::Gone(host));
        }
        self.bury(HEAD, host);
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
    fn fenced(&mut self, host: HostId) {
        self.end_host(host);
        if self.rng.one_in(2) {
            self.add_host(HostId(self.links.next_host));
            self.stats.rejoined += 1;
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

    /// A host crashes: others notice, some sooner than others.
    pub fn crash(&mut self, host: HostId) {
        self.end_host(host);
        for other in self.hosts.keys().copied().collect::<Vec<_>>() {
            let end = self.now + self.rng.range(0, 200 * MICRO);
            self.links.ends.insert((host, other), end);
            let at = end + self.rng.range(MICRO, 30 * MILLI);
            self.at(at, Happening::Wire(Wire::Silent { by: other, of: host, ended: true }));
        }
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
        for link in [(a, b), (b, a)].into_iter().take(if both { 2 } else { 1 }) {
            let cut = self.links.cut_until.entry(link).or_default();
            *cut = until.max(*cut);
            if until >= self.now + LIMIT {
                let at = self.now + LIMIT;
                self.at(at, Happening::Wire(Wire::Silent { by: link.1, of: link.0, ended: false }));
                // Who does not hear the head ends by itself, and the head gets no answers from it.
                if link.0 == HEAD {
                    self.at(at, Happening::Wire(Wire::Silent { by: HEAD, of: link.1, ended: false }));
                }
            }
        }
    }

    /// Whether the bytes that lie on `home` can be had on `host`.
    #[must_use]
    pub fn is_out_of_reach(&self, host: HostId, home: HostId) -> bool {
        self.links.has_buried(host, home)
    }
}
