//! How agents keep what goes over two links in order: by barriers, and by holding back news.

use std::collections::BTreeSet;

use raymesh_core::between::Word;
use raymesh_core::host::Event as HostEvent;
use raymesh_wire::{FromController, HostId, ProcId};

use super::{Links, Mail, Parcel};
use crate::mutation::Mutation;
use crate::world::{Node, Packet, World};

impl Links {
    #[must_use]
    pub fn is_under_way(&self, host: HostId, now: u64) -> bool {
        self.played && !self.third_hosts(host, now).is_empty()
    }

    /// Third hosts to which something is under way, so far as `host` knows.
    pub(super) fn third_hosts(&self, host: HostId, now: u64) -> Vec<HostId> {
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
    /// A process here has died, and the head was told: it is told once more when all that the dead one has sent is
    /// there.
    pub fn leave_last_words(&mut self, dead: ProcId) {
        self.say_afterwards(dead.host(), Word::Heard(dead));
    }

    pub(super) fn say_afterwards(&mut self, host: HostId, word: Word<Mail>) {
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

    pub(super) fn let_go_on(&mut self, here: HostId, news: Vec<(ProcId, Mail)>, words: Vec<Word<Mail>>) {
        news.into_iter().for_each(|(_, mail)| self.put_in_mailbox(mail));
        words.into_iter().for_each(|word| self.say(here, word));
    }
}
