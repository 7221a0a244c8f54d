//! Other hosts: their messages in, this host's out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use raymesh_core::between::Line;
use raymesh_core::{controller, host};
use raymesh_net::{Event, Hub};
use raymesh_wire::between::{Between, Neighbour, Printed, Up};
use raymesh_wire::status::{HostEnd, HostEnded};
use raymesh_wire::{FromController, HostId, Message, ProcId, decode, encode};

use super::OutputLine;
use super::barriers::{Barriers, Word};
use super::config::Secret;
use super::guide::Guide;
use super::headship::Headship;
use super::lines::Absence;
use super::news::News;
use super::run::{Runner, Todo};

/// What the agent knows of the others.
#[derive(Debug)]
pub struct Links {
    pub(super) hub: Hub,
    pub(super) head: HostId,
    /// Of the head, and how long it is waited for.
    pub(super) patience: Duration,
    pub(super) absence: Absence,
    /// On the head.
    pub(super) headship: Option<Headship>,
    pub(super) secret: Secret,
    /// On the others.
    pub(super) guide: Option<Guide>,
    /// Heads before this one, which have died.
    pub(super) formers: Vec<HostId>,
    /// On the others: to the controller, and from it.
    pub(super) line: Line<Up>,
    /// Hosts that are out of reach of this one, and whether their processes have ended: for the head to decide.
    unreachable: BTreeMap<HostId, bool>,
    pub(super) news: News,
    barriers: Barriers,
}

impl Links {
    /// `headship`: of the head itself.
    pub fn new(hub: Hub, head: HostId, headship: Option<Headship>, secret: Secret) -> Self {
        Self {
            patience: hub.patience_with_head(),
            hub,
            head,
            absence: Absence::default(),
            headship,
            secret,
            guide: None,
            formers: Vec::new(),
            line: Line::default(),
            unreachable: BTreeMap::new(),
            news: News::default(),
            barriers: Barriers::default(),
        }
    }

    pub const fn address(&self) -> SocketAddr {
        self.hub.address()
    }
}

impl Runner {
    /// Whether the controller is here.
    pub(super) fn hosts_controller(&self) -> bool {
        self.links.as_ref().is_none_or(|links| links.headship.is_some())
    }

    /// Another host takes up less than is sent to it: nothing more is taken from the processes here.
    pub(super) fn is_congested(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.hub.is_congested())
    }

    /// Passes on a message to a process of another host. One that is gone is buried by its host's report.
    pub(super) fn send_far(&mut self, from: ProcId, to: ProcId, message: Bytes) {
        if let Some(links) = &mut self.links {
            links.hub.send(to.host(), from, to, message);
        }
    }

    pub(super) fn tell_agent(&mut self, host: HostId, message: Between) {
        let mut bytes = Vec::new();
        encode(&Message::Between(message), &mut bytes);
        self.send_far(self.endpoint.me(), ProcId::agent(host), bytes.into());
    }

    /// Takes in what other hosts have sent.
    pub(super) fn tend_links(&mut self) {
        let Some(links) = &mut self.links else { return };
        let mut events = Vec::new();
        links.hub.tend(&mut events);
        for event in events {
            self.take_in_link_event(event);
        }
    }

    fn take_in_link_event(&mut self, event: Event) {
        match event {
            // A host speaks for its own processes only.
            Event::Message { host, message } if message.from.host() == host => {
                self.deliver(message.from, message.to, message.bytes);
            }
            Event::Asked { conn, remote, purpose } => self.asked(conn, remote, purpose),
            Event::Knock { host } => {
                if let Some(head) =
                    self.links.as_ref().map(|links| links.head).filter(|_| !self.hosts_controller())
                {
                    self.tell_agent(head, Between::Knock { host });
                }
            }
            Event::Dead { host, silent_for } if silent_for.is_zero() => {
                self.out_of_reach(host, true, HostEnd::unexpected("its process has ended"));
            }
            Event::Dead { host, silent_for } => {
                let silent_for = silent_for.as_secs_f64();
                let why = format!("nothing was heard of it for {silent_for:.1} s");
                self.out_of_reach(host, false, HostEnd::unexpected(why));
            }
            Event::Left { host, reason } if self.is_head(host) || self.hosts_controller() => {
                self.out_of_reach(host, true, HostEnd { how: HostEnded::Expected, why: reason });
            }
            Event::Moved { host, to } => self.head_moved(host, to),
            Event::Up { host } if self.is_head(host) => self.head_is_absent(false),
            Event::Down { host, .. } if self.is_head(host) => self.head_is_absent(true),
            Event::Left { host, .. } => self.bury_host(host),
            Event::Lane { host, sends, lane } => self.take_lane(host, sends, lane),
            Event::NoLane { host, sends, .. } => self.no_lane(host, sends),
            Event::Fenced { .. } => self.lose_cluster(
                "the head has declared this host dead: nothing was heard of it for too long".to_owned(),
            ),
            Event::Message { .. } | Event::Up { .. } | Event::Down { .. } | Event::Rejected { .. } => {}
        }
    }

    /// Hands a message of another host's process to its receiver.
    fn deliver(&mut self, from: ProcId, to: ProcId, bytes: Bytes) {
        if to == self.endpoint.me() {
            // Of a host of another build, or broken; there is nobody to tell.
            if let Ok(message) = decode(bytes) {
                self.receive(from, message);
            }
            return;
        }
        self.endpoint.forward(from, to, &bytes);
    }

    fn is_head(&self, host: HostId) -> bool {
        self.links.as_ref().is_some_and(|links| links.head == host)
    }

    /// Hands a word of the controller to its receiver.
    pub(super) fn hear_controller(&mut self, to: ProcId, bytes: Bytes) {
        let Some(links) = &mut self.links else { return };
        let of_third = match decode(bytes.clone()) {
            Ok(Message::FromController(FromController::Died { proc, .. })) => {
                let host = proc.host();
                let third = host != self.segment.host() && host != links.head && links.hub.is_alive(host);
                third.then_some(host)
            }
            _ => None,
        };
        match of_third {
            Some(host) => {
                let request = links.news.hold(to, host, bytes);
                self.tell_agent(host, Between::Flush { request });
            }
            None => {
                if let Some(bytes) = links.news.pass(to, bytes) {
                    self.endpoint.forward(ProcId::CONTROLLER, to, &bytes);
                }
            }
        }
    }

    fn spread(&mut self, news: Vec<(ProcId, Bytes)>) {
        for (to, bytes) in news {
            self.endpoint.forward(ProcId::CONTROLLER, to, &bytes);
        }
    }

    /// Another host's agent says something.
    pub(super) fn hear_agent(&mut self, from: ProcId, message: Between) {
        let host = from.host();
        let Some(links) = &mut self.links else { return };
        let from_head = host == links.head;
        match message {
            Between::Up { number, heard, says } => self.hear_up(host, number, heard, says),
            Between::Down { number, heard, says } if from_head => self.hear_down(number, heard, says),
            Between::Heard { number } => self.hear_heard(host, number),
            Between::Resume { heard } => self.hear_resume(host, heard),
            Between::Roll { hosts } if from_head => self.call_roll(hosts),
            Between::Hosts { joined, gone } if from_head => {
                for neighbour in joined {
                    links.hub.know(neighbour.host, neighbour.address.parse().ok());
                }
                for host in gone {
                    self.bury_host(host);
                }
            }
            Between::Knock { host: wanted } if links.headship.is_some() => {
                self.tell_agent(wanted, Between::Wanted { by: host });
            }
            Between::Wanted { by } if from_head => links.hub.want(by),
            Between::Unreachable { host: other, ended } if links.hub.is_alive(other) => {
                // Two that live and cannot hear each other cannot both stay: the cluster keeps the one that
                // it has had for longer.
                let lives = !ended && links.hub.is_heard(other);
                let why = match (lives, ended) {
                    (true, _) => "the link between it and another host is cut",
                    (_, true) => "its process has ended",
                    _ => "another host heard nothing of it any more",
                };
                self.lose_host(if lives { host.max(other) } else { other }, HostEnd::unexpected(why));
            }
            Between::Flush { request } => self.tell_agent(host, Between::Flushed { request }),
            Between::Flushed { request } => {
                let words = links.barriers.answered(host, request);
                let news = links.news.answered(host, request);
                self.spread(news);
                words.into_iter().for_each(|word| self.say_to_head(word));
            }
            Between::Fetch { request, place, pieces, avoid } => {
                self.fetch(host, request, place, &pieces, avoid);
            }
            Between::Unfetch { request } => self.bulk.cancel(host, request),
            Between::NoBlock { request } => self.no_block(host, request),
            Between::Elsewhere { request, host: other } => self.elsewhere(host, request, other),
            Between::Copied { place } => self.spread.copied(&place, host),
            Between::Dropped { place } => self.spread.dropped(&place, host),
            Between::Seek { request, place } => self.seek(host, request, &place),
            Between::Sought { request, has } => self.sought(host, request, has),
            Between::DialLanes { count } => self.asked_to_dial(host, count),
            Between::LaneLost => self.ask_again(host),
            Between::Output { lines } if self.config.driver => self.show(host, lines),
            // Not this host's to hear.
            _ => {}
        }
    }

    /// Nothing is heard of the host any more.
    fn out_of_reach(&mut self, host: HostId, ended: bool, end: HostEnd) {
        let Some(links) = &mut self.links else { return };
        let head = links.head;
        if links.headship.is_some() {
            self.lose_host(host, end);
        } else if host == head {
            self.lose_cluster(format!("the head of the cluster is gone: {}", end.why));
        } else {
            links.unreachable.insert(host, ended);
            self.bury_host(host);
            self.tell_agent(head, Between::Unreachable { host, ended });
        }
    }

    pub(super) fn lose_cluster(&mut self, reason: String) {
        if !self.config.driver {
            self.notify(&reason);
        }
        self.lost = Some(reason);
        self.stopping = true;
    }

    /// The head decides that the host is dead.
    fn lose_host(&mut self, host: HostId, end: HostEnd) {
        let Some(headship) = self.links.as_ref().and_then(|links| links.headship.as_ref()) else { return };
        if !headship.books.knows(host) {
            return;
        }
        self.bury_host(host);
        let event = controller::Event::HostLost { host, end };
        self.todo.push_back(Todo::Controller { event, via: None });
    }

    /// The head tells everyone of that.
    pub(super) fn host_gone(&mut self, host: HostId) {
        let Some(headship) = self.links.as_ref().and_then(|links| links.headship.as_ref()) else { return };
        for other in headship.books.hosts() {
            self.tell_agent(other, Between::Hosts { joined: Vec::new(), gone: vec![host] });
        }
    }

    /// A head that was started again says who lives.
    fn call_roll(&mut self, hosts: Vec<Neighbour>) {
        let Some(links) = &mut self.links else { return };
        let head = links.head;
        let named: BTreeSet<HostId> = hosts.iter().map(|neighbour| neighbour.host).chain([head]).collect();
        for neighbour in hosts.into_iter().filter(|neighbour| neighbour.host != self.segment.host()) {
            links.hub.know(neighbour.host, neighbour.address.parse().ok());
        }
        links.unreachable.retain(|host, _| named.contains(host));
        let unreachable = links.unreachable.clone();
        // Those with larger numbers are yet to be named.
        let missing: Vec<HostId> =
            links.hub.living().filter(|host| *host < head && !named.contains(host)).collect();
        links.hub.set_horizon(head);
        for host in missing {
            self.bury_host(host);
        }
        for (host, ended) in unreachable {
            self.tell_agent(head, Between::Unreachable { host, ended });
        }
    }

    pub(super) fn bury_host(&mut self, host: HostId) {
        let Some(links) = &mut self.links else { return };
        links.hub.declare_dead(host);
        let news = links.news.gone(host);
        let words = links.barriers.gone(host);
        self.forget_source(host);
        self.forget_users_of(host);
        self.spread(news);
        words.into_iter().for_each(|word| self.say_to_head(word));
    }

    /// Whether something that was sent from here is under way to a third host: what is told the head may
    /// arrive before it.
    pub(super) fn is_under_way(&self) -> bool {
        !self.third_hosts().is_empty()
    }

    fn third_hosts(&self) -> Vec<HostId> {
        let Some(links) = self.links.as_ref().filter(|_| !self.hosts_controller()) else { return Vec::new() };
        links.hub.unacknowledged().into_iter().filter(|host| *host != links.head).collect()
    }

    /// Tells the head, after what is under way to third hosts has arrived.
    pub(super) fn say_afterwards(&mut self, word: Word) {
        let hosts = self.third_hosts();
        let Some(links) = self.links.as_mut().filter(|_| !hosts.is_empty()) else {
            return self.say_to_head(word);
        };
        for (host, request) in links.barriers.hold(hosts, word) {
            self.tell_agent(host, Between::Flush { request });
        }
    }

    fn say_to_head(&mut self, word: Word) {
        match word {
            Word::Of { from, bytes } => self.pass_up(from, bytes),
            Word::Heard(proc) => self.todo.push_back(Todo::Host(host::Event::Heard { proc })),
        }
    }

    /// Lines that workers here have printed go to the driver of their job. A job is called after its
    /// driver's host.
    pub(super) fn spread_output(&mut self) {
        if self.config.driver {
            return;
        }
        let (lines, resume) = self.lines.take(Duration::ZERO);
        if resume {
            self.streams.resume(&mut self.poller);
        }
        let mut far: BTreeMap<HostId, Vec<Printed>> = BTreeMap::new();
        for line in lines.into_iter().flatten() {
            let home = self.host.job_of(line.proc).map(|job| HostId(job.0));
            let links = self.links.as_ref();
            match home.filter(|home| links.is_some_and(|links| links.hub.is_alive(*home))) {
                Some(home) => {
                    let OutputLine { proc, pid, name, is_stderr, text, .. } = line;
                    far.entry(home).or_default().push(Printed { proc, pid, name, is_stderr, text });
                }
                None => {
                    self.output.push(line);
                }
            }
        }
        for (home, lines) in far {
            self.tell_agent(home, Between::Output { lines });
        }
    }

    fn show(&mut self, host: HostId, lines: Vec<Printed>) {
        let address = self.links.as_ref().and_then(|links| links.hub.remote(host));
        let ip = address.map_or_else(String::new, |address| address.ip().to_string());
        for Printed { proc, pid, name, is_stderr, text } in lines {
            self.output.push(OutputLine { proc, pid, name, is_stderr, ip: ip.clone(), text });
        }
    }

    /// Says farewell to the others.
    pub(super) fn leave(&mut self) {
        if let Some(links) = &mut self.links {
            if links.headship.as_ref().is_some_and(Headship::is_abandoned) {
                return;
            }
            links.hub.leave("it was shut down");
            if let Some(headship) = &mut links.headship {
                headship.end_journal();
            }
        }
    }
}
