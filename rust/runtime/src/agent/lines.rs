//! The controller's words to the hosts, and theirs to it, on their [lines](Line); and what becomes of
//! them when the head is started again.

use std::time::Duration;

use bytes::Bytes;
use raymesh_core::between::Line;
use raymesh_core::{controller, host};
use raymesh_wire::between::{Between, Down, Up};
use raymesh_wire::control::FromHost;
use raymesh_wire::{HostId, Message, ProcId, decode};

use super::OutputLine;
use super::headship::Due;
use super::run::{Runner, Todo};

/// A head may be out of reach for so long before anybody is told.
const UNEASY: u64 = 1_000_000_000;

/// What it means that the hosts know more than the head.
const BEHIND: &str =
    "its journal is older than what its hosts have heard (it is a copy, or the disk took no more at the end)";

/// Since when there is no connection to the head.
#[derive(Debug, Default)]
pub struct Absence {
    since: Option<u64>,
    told: bool,
}

impl Runner {
    /// A process of this host has something for the controller: `message` is encoded.
    pub(super) fn pass_up(&mut self, from: ProcId, message: Bytes) {
        if self.hosts_controller() {
            if let Ok(message) = decode(message) {
                self.receive(from, message);
            }
        } else {
            self.say_up(Up::Of { from, message });
        }
    }

    /// This host's agent has something for the controller.
    pub(super) fn report(&mut self, message: FromHost) {
        if self.hosts_controller() {
            let event = controller::Event::FromHost { host: self.segment.host(), message };
            self.todo.push_back(Todo::Controller { event, via: None });
        } else {
            self.say_up(Up::Host(message));
        }
    }

    fn say_up(&mut self, word: Up) {
        let Some(links) = &mut self.links else { return };
        links.line.push(word);
        links.line.release_all();
        self.pour_up();
    }

    fn pour_up(&mut self) {
        let Some(links) = &mut self.links else { return };
        let head = links.head;
        let mut words = Vec::new();
        while let Some((number, says)) = links.line.next_word() {
            words.push((number, says.clone()));
        }
        for (number, says) in words {
            let Some(links) = &mut self.links else { return };
            let heard = links.line.tell();
            self.tell_agent(head, Between::Up { number, heard, says });
        }
    }

    fn pour_down(&mut self, host: HostId) {
        let Some(line) = self.line_to(host) else { return };
        let heard = line.tell();
        let mut words = Vec::new();
        while let Some((number, says)) = line.next_word() {
            words.push(Between::Down { number, heard, says: says.clone() });
        }
        for word in words {
            self.tell_agent(host, word);
        }
    }

    fn line_to(&mut self, host: HostId) -> Option<&mut Line<Down>> {
        self.links.as_mut()?.headship.as_mut()?.books.line(host)
    }

    /// On the head: a host has something for the controller.
    pub(super) fn hear_up(&mut self, host: HostId, number: u64, heard: u64, says: Up) {
        let Some(headship) = self.links.as_mut().and_then(|links| links.headship.as_mut()) else { return };
        if !headship.books.accept(host, number, heard) {
            return;
        }
        let event = match says {
            Up::Host(message) => controller::Event::FromHost { host, message },
            // A host speaks for its own processes only.
            Up::Of { from, message } if from.host() == host => match decode(message) {
                Ok(Message::ToController(message)) => controller::Event::Message { from, message },
                _ => return,
            },
            Up::Of { .. } => return,
        };
        self.todo.push_back(Todo::Controller { event, via: Some((host, number)) });
    }

    /// The controller has something for this host.
    pub(super) fn hear_down(&mut self, number: u64, heard: u64, says: Down) {
        let Some(links) = &mut self.links else { return };
        let (line, head) = (&mut links.line, links.head);
        line.heard(heard);
        if !line.accept(number) {
            return;
        }
        line.settle(number);
        let owes = line.owes_word().then(|| line.tell());
        match says {
            Down::Host(message) => self.todo.push_back(Todo::Host(host::Event::FromController(message))),
            Down::To { to, message } => self.hear_controller(to, message),
        }
        if let Some(number) = owes {
            self.tell_agent(head, Between::Heard { number });
        }
    }

    /// The other end will not forget what it has heard.
    pub(super) fn hear_heard(&mut self, from: HostId, number: u64) {
        if let Some(line) = self.line_to(from) {
            line.heard(number);
        } else if let Some(links) = self.links.as_mut().filter(|links| links.head == from) {
            links.line.heard(number);
        }
    }

    /// On a host: says how far it is, which has the head say how far it is itself.
    pub(super) fn greet_head(&mut self) {
        let Some(links) = self.links.as_mut().filter(|links| links.headship.is_none()) else { return };
        links.line.close();
        let (head, heard) = (links.head, links.line.arrived());
        self.tell_agent(head, Between::Resume { heard });
    }

    /// The other end begins, or begins anew.
    pub(super) fn hear_resume(&mut self, from: HostId, heard: u64) {
        let Some(links) = &mut self.links else { return };
        let Some(headship) = &mut links.headship else {
            if from == links.head && heard < links.line.forgotten() {
                self.lose_cluster(format!(
                    "the head of the cluster has come back without its past: {BEHIND}"
                ));
            } else if from == links.head {
                links.line.open(heard);
                self.pour_up();
            }
            return;
        };
        let hosts = headship.books.neighbours();
        let Some(line) = headship.books.line(from) else { return };
        if heard > line.last() {
            return self.lose_past();
        }
        line.open(heard);
        let heard = line.arrived();
        self.tell_agent(from, Between::Resume { heard });
        self.tell_agent(from, Between::Roll { hosts });
        self.pour_down(from);
    }

    /// On the head: to go on from here would be to decide anew what is decided. The hosts wait for a head that
    /// knows it.
    fn lose_past(&mut self) {
        let Some(headship) = self.links.as_mut().and_then(|links| links.headship.as_mut()) else { return };
        let file = headship.abandon().map_or_else(String::new, |file| file.display().to_string());
        self.lose_cluster(format!(
            "this head cannot go on from {file}: {BEHIND}\nhint: start it with the journal that was written last. If \
             there is none, end all hosts of the cluster (`raymesh stop`), and start it anew"
        ));
    }

    /// The head was started again, and has another number now.
    pub(super) fn head_moved(&mut self, former: HostId, head: HostId) {
        let Some(links) = self.links.as_mut().filter(|links| links.head == former) else { return };
        let address = links.hub.remote(former);
        let patience = links.patience;
        links.head = head;
        links.hub.set_head(head, patience);
        links.hub.know(head, address);
        self.bury_host(former);
        self.greet_head();
    }

    /// Does what was decided and is in the journal.
    pub(super) fn do_what_is_due(&mut self) {
        while let Some(due) = self.next_due() {
            let (via, due) = due;
            for due in due {
                match due {
                    Due::Here(effect) => self.carry_out_here(effect),
                    Due::Release(host, number) => {
                        if let Some(line) = self.line_to(host) {
                            line.release(number);
                        }
                        self.pour_down(host);
                    }
                    Due::Admit { conn, host, address, others } => self.let_in(conn, host, address, others),
                    Due::Gone(host) => self.host_gone(host),
                }
            }
            if let Some(host) = via
                && let Some(line) = self.line_to(host)
                && line.owes_word()
            {
                let number = line.tell();
                self.tell_agent(host, Between::Heard { number });
            }
        }
    }

    fn next_due(&mut self) -> Option<(Option<HostId>, Vec<Due>)> {
        self.links.as_mut()?.headship.as_mut()?.next_due()
    }

    /// Keeps the journal in order.
    pub(super) fn tend_journal(&mut self, now: u64) {
        let Self { links, controller, .. } = self;
        let Some(headship) = links.as_mut().and_then(|links| links.headship.as_mut()) else { return };
        let failure = headship.tend(now, controller);
        let again = headship.has_recovered().then(|| "The journal is written again.".to_owned());
        for text in failure.into_iter().chain(again) {
            self.notify(&text);
        }
    }

    /// A connection to the head has ended, or begun.
    pub(super) fn head_is_absent(&mut self, absent: bool) {
        let now = self.clock.now();
        if !absent {
            self.show_way_to_all();
        }
        let Some(links) = &mut self.links else { return };
        if absent {
            links.absence.since.get_or_insert(now);
            return;
        }
        if std::mem::take(&mut links.absence).told {
            self.notify("The head of the cluster is there again.");
        }
    }

    pub(super) fn next_unease(&self) -> Option<u64> {
        let absence = &self.links.as_ref()?.absence;
        absence.since.filter(|_| !absence.told).map(|since| since + UNEASY)
    }

    /// Tells the user of a head that is out of reach for long.
    pub(super) fn tell_unease(&mut self, now: u64) {
        if self.stopping || self.next_unease().is_none_or(|at| at > now) {
            return;
        }
        let Some(links) = &mut self.links else { return };
        links.absence.told = true;
        let address =
            links.hub.remote(links.head).map_or_else(String::new, |address| format!(" ({address})"));
        let patience = Duration::as_secs(&links.patience);
        self.notify(&format!(
            "The head of the cluster{address} does not answer. Calls between living hosts go on; new workers and actors \
             wait for it, up to {patience} s.\nhint: start it again, with the same port and journal."
        ));
    }

    /// Shows a text to the user, as the runtime's own.
    pub(super) fn notify(&self, text: &str) {
        let (proc, pid) = (self.endpoint.me(), std::process::id());
        for text in text.lines() {
            self.output.push(OutputLine {
                proc,
                pid,
                name: "raymesh".to_owned(),
                is_stderr: true,
                ip: String::new(),
                text: text.to_owned(),
            });
        }
    }
}
