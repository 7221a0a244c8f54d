//! What hosts have for the controller, and the controller for them, on their lines; as the agent does it
//! (`raymesh-runtime`, `agent/lines.rs`).

use std::collections::BTreeSet;

use raymesh_core::controller::Event;
use raymesh_wire::between::Down;
use raymesh_wire::{HostId, Message, decode};

use crate::links::{Mail, Parcel};
use crate::mutation::Mutation;
use crate::world::{Node, Packet, World};

impl World {
    /// A host has something for the controller.
    pub fn say_up(&mut self, host: HostId, mail: Mail) {
        let Some(agent) = self.links.agents.get_mut(&host) else { return };
        agent.line.push(mail);
        agent.line.release_all();
        self.pour_up(host);
    }

    fn pour_up(&mut self, host: HostId) {
        let Some(agent) = self.links.agents.get_mut(&host) else { return };
        let (head, mut words) = (agent.head, Vec::new());
        while let Some((number, says)) = agent.line.next_word() {
            words.push((number, says.clone()));
        }
        for (number, says) in words {
            let Some(agent) = self.links.agents.get_mut(&host) else { return };
            let heard = agent.line.tell();
            self.put_on_link(host, head, Parcel::Up { number, heard, says });
        }
    }

    pub fn pour_down(&mut self, host: HostId) {
        let head = self.links.head;
        let Some(line) = self.links.headship.as_mut().and_then(|head| head.books.line(host)) else { return };
        let (heard, mut words) = (line.tell(), Vec::new());
        while let Some((number, says)) = line.next_word() {
            words.push(Parcel::Down { number, heard, says: says.clone() });
        }
        words.into_iter().for_each(|word| self.put_on_link(head, host, word));
    }

    pub fn hear_up(&mut self, host: HostId, here: HostId, (number, heard): (u64, u64), says: Mail) {
        let again = self.is_mutated(Mutation::NoNumbers);
        let Some(head) = self.links.headship.as_mut().filter(|_| here == self.links.head) else { return };
        if !head.books.accept(host, number, heard) && !again {
            return;
        }
        let event = match (*says.packet, says.from) {
            (Packet::ToController(message), Node::Proc(from)) => Event::Message { from, message },
            (Packet::FromHost(message), Node::Host(host)) => Event::FromHost { host, message },
            (packet, from) => return self.fail(format!("the controller cannot read {packet:?} of {from:?}")),
        };
        self.decide(Some((host, number)), event);
    }

    pub fn hear_down(&mut self, here: HostId, (number, heard): (u64, u64), says: Down) {
        let again = self.is_mutated(Mutation::NoNumbers);
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        agent.line.heard(heard);
        if !agent.line.accept(number) && !again {
            return;
        }
        agent.line.settle(number);
        let (head, owes) = (agent.head, agent.line.owes_word().then(|| agent.line.tell()));
        let (to, packet) = match says {
            Down::Host(message) => (Node::Host(here), Packet::ToHost(message)),
            Down::To { to, message } => match decode(message) {
                Ok(Message::FromController(message)) => (Node::Proc(to), Packet::FromController(message)),
                other => return self.fail(format!("the controller says {other:?}")),
            },
        };
        self.hand_out(here, Mail { from: Node::Controller, to, packet: Box::new(packet) });
        if let Some(number) = owes {
            self.put_on_link(here, head, Parcel::Heard(number));
        }
    }

    pub fn hear_heard(&mut self, from: HostId, here: HostId, number: u64) {
        if here == self.links.head {
            if let Some(line) = self.links.headship.as_mut().and_then(|head| head.books.line(from)) {
                line.heard(number);
            }
        } else if let Some(agent) = self.links.agents.get_mut(&here).filter(|agent| agent.head == from) {
            agent.line.heard(number);
        }
    }

    /// Says how far it is, which has the head say how far it is itself.
    pub fn greet_head(&mut self, host: HostId) {
        let Some(agent) = self.links.agents.get_mut(&host) else { return };
        agent.line.close();
        let (head, heard) = (agent.head, agent.line.arrived());
        let heard = self.understate(heard);
        self.put_on_link(host, head, Parcel::Resume(heard));
    }

    /// Who says too little is told again what he has heard, and drops it.
    fn understate(&mut self, heard: u64) -> u64 {
        if self.rng.one_in(3) { self.rng.range(0, heard + 1) } else { heard }
    }

    pub fn hear_resume(&mut self, from: HostId, here: HostId, heard: u64) {
        if here != self.links.head {
            let Some(agent) = self.links.agents.get_mut(&here).filter(|agent| agent.head == from) else {
                return;
            };
            agent.line.open(heard);
            return self.pour_up(here);
        }
        let Some(head) = &mut self.links.headship else { return };
        let hosts = head.books.hosts();
        let Some(line) = head.books.line(from) else { return };
        line.open(heard);
        let heard = line.arrived();
        let heard = self.understate(heard);
        let Some(head) = &mut self.links.headship else { return };
        head.came.insert(from);
        self.put_on_link(here, from, Parcel::Resume(heard));
        self.put_on_link(here, from, Parcel::Roll(hosts));
        self.pour_down(from);
    }

    /// A head says who lives.
    pub fn call_roll(&mut self, here: HostId, hosts: Vec<HostId>) {
        let Some(head) = self.links.agents.get(&here).map(|agent| agent.head) else { return };
        let named: BTreeSet<HostId> = hosts.into_iter().chain([head, here]).collect();
        named.iter().for_each(|host| self.know(here, *host));
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        agent.horizon = agent.horizon.max(head);
        agent.unreachable.retain(|host, _| named.contains(host));
        let unreachable = agent.unreachable.clone();
        let missing: Vec<HostId> = agent.all_heard_of().filter(|host| !named.contains(host)).collect();
        missing.into_iter().for_each(|host| self.bury(here, host));
        for (host, ended) in unreachable {
            self.put_on_link(here, head, Parcel::Unreachable { host, ended });
        }
    }
}
