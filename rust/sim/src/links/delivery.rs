//! The way of a packet: into a mailbox, over a link, out of it, and when it arrives.

use raymesh_core::between::Word;
use raymesh_wire::control::DeathCause;
use raymesh_wire::{HostId, ToController};

use super::{Mail, Parcel, Wire};
use crate::mutation::Mutation;
use crate::rng::Rng;
use crate::world::{Happening, MICRO, MILLI, Node, Packet, World};

fn delay(rng: &mut Rng) -> u64 {
    match rng.below(100) {
        0 => rng.range(MILLI, 30 * MILLI),
        1..=9 => rng.range(100 * MICRO, 3 * MILLI),
        _ => rng.range(MICRO, 60 * MICRO),
    }
}

impl World {
    pub(super) fn host_of(&self, node: Node) -> HostId {
        match node {
            Node::Controller => self.links.head,
            Node::Host(host) => host,
            Node::Proc(proc) => proc.host(),
        }
    }

    /// When mail that is written now is read.
    pub(super) fn read_at(&mut self, of: Node) -> u64 {
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

    /// A process has mail for another host.
    pub(super) fn outgoing(&mut self, mail: Mail) {
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

    pub(super) fn parcel_arrives(&mut self, from: HostId, to: HostId, parcel: Parcel) {
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

    pub(super) fn take_in(&mut self, from: HostId, here: HostId, parcel: Parcel) {
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

    pub(super) fn put_in_mailbox(&mut self, Mail { from, to, packet }: Mail) {
        let at = self.read_at(to);
        self.at(at, Happening::Arrives { from, to, packet: *packet });
    }
}
