//! The clock, the network, and who is there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use crate::journal::Journalled;
use raymesh_wire::control::{ActorState, Death, FromHost, ToHost};
use raymesh_wire::{ActorId, FromController, HostId, JobId, Message, ObjectId, ProcId, ToController, Value};

use crate::links::{Links, Wire};
use crate::mutation::Mutation;
use crate::node::{HostNode, ProcNode};
use crate::promises::Promises;
use crate::rng::Rng;
use crate::stats::Stats;

pub const MICRO: u64 = 1_000;
pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// How long a trace is kept.
const TRACE: usize = 20_000;
/// How long a phase may take; far longer than any program runs and any timer in the system.
const PATIENCE: u64 = 200 * SECOND;
/// More events than any sound run has.
const MAX_EVENTS: u64 = 3_000_000;

/// Somebody who sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Controller,
    Host(HostId),
    Proc(ProcId),
}

/// What travels.
#[derive(Clone, Debug)]
pub enum Packet {
    ToController(ToController),
    FromHost(FromHost),
    ToHost(ToHost),
    FromController(FromController),
    Message(Message),
    Hello { pid: u32 },
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Happening {
    Arrives {
        from: Node,
        to: Node,
        packet: Packet,
    },
    Tick(Node),
    /// The zygote forks, or cannot.
    Forks(ProcId),
    /// A process is gone; its host notices.
    Noticed(ProcId, Death),
    /// The user code of a process goes on.
    Step(ProcId),
    Fault,
    HostLost(HostId),
    /// Something happens to a link between hosts.
    Wire(Wire),
}

/// The length of all stored values: tasks rather go where such an argument lies.
pub const BLOCK: u64 = 200 << 10;

/// What the memory behind a stored value holds.
#[derive(Clone, Debug)]
pub struct Stored {
    pub object: Option<ObjectId>,
    pub refs: Vec<ObjectId>,
    pub freed: bool,
    /// Its host is gone.
    pub lost: bool,
}

/// One cluster.
#[derive(Debug)]
pub struct World {
    pub now: u64,
    pub rng: Rng,
    pub controller: Journalled,
    pub links: Links,
    pub hosts: BTreeMap<HostId, HostNode>,
    pub procs: BTreeMap<ProcId, ProcNode>,
    /// What drivers there will ever be.
    pub drivers: Vec<ProcId>,
    pub blocks: BTreeMap<(ProcId, u64), Stored>,
    pub next_block: u64,
    /// The latest state of an actor that each process was told.
    pub told: BTreeMap<(ProcId, ActorId), ActorState>,
    /// Where each actor lived last.
    pub lived: BTreeMap<ActorId, ProcId>,
    pub watching: BTreeSet<(ProcId, ActorId)>,
    /// The actor that each result of a method comes from.
    pub called: BTreeMap<ObjectId, ActorId>,
    /// References to be dropped as soon as a reply is out.
    pub later: Vec<(ProcId, Vec<crate::program::Ref>)>,
    pub promises: Promises,
    pub stats: Stats,
    pub failure: Option<String>,
    /// More hosts, more faults, and some links are slow all the time.
    pub storm: bool,
    /// Faults happen until then.
    pub calm_at: u64,
    events: BTreeMap<(u64, u64), Happening>,
    next_event: u64,
    /// When the last packet of each channel arrives.
    channels: BTreeMap<(Node, Node), u64>,
    /// Of each process, when the last that it sent arrives where, up to its last [`World::note_all_sent`]s.
    all_sent: BTreeMap<ProcId, VecDeque<Vec<(Node, u64)>>>,
    /// What a round of the controller asks a process arrives after this.
    fences: BTreeMap<Node, u64>,
    ticks: BTreeMap<Node, u64>,
    trace: Option<VecDeque<String>>,
}

impl World {
    #[must_use]
    pub fn new(seed: u64, mutation: Option<Mutation>, trace: bool) -> Self {
        let mut world = Self {
            now: SECOND,
            rng: Rng::new(seed),
            controller: Journalled::new(seed),
            links: Links::new(seed.is_multiple_of(2), mutation),
            hosts: BTreeMap::new(),
            procs: BTreeMap::new(),
            drivers: Vec::new(),
            blocks: BTreeMap::new(),
            next_block: 0,
            told: BTreeMap::new(),
            lived: BTreeMap::new(),
            watching: BTreeSet::new(),
            called: BTreeMap::new(),
            later: Vec::new(),
            promises: Promises::default(),
            stats: Stats::default(),
            failure: None,
            storm: false,
            calm_at: 0,
            events: BTreeMap::new(),
            next_event: 0,
            channels: BTreeMap::new(),
            all_sent: BTreeMap::new(),
            fences: BTreeMap::new(),
            ticks: BTreeMap::new(),
            trace: trace.then(VecDeque::new),
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        self.storm = self.rng.one_in(3);
        let storm = usize::from(self.storm);
        let hosts = 1 + 2 * storm as u32 + self.rng.below(4) as u32;
        for id in 0..hosts {
            self.add_host(HostId(id), BTreeSet::from([HostId(id)]));
        }
        if self.links.played {
            self.begin_headship();
        }
        for _ in 0..1 + storm + self.rng.below(3) {
            let host = HostId(self.rng.below(hosts as usize) as u32);
            let job = JobId(self.drivers.len() as u32 + 1);
            self.add_driver(host, job);
        }
        let faults = if self.rng.one_in(4) { 0 } else { 1 + self.rng.below(12) + 8 * storm };
        let span = 300 * MILLI;
        for _ in 0..faults {
            let at = self.now + self.rng.range(0, span);
            self.at(at, Happening::Fault);
        }
        self.calm_at = self.now + span;
        if self.links.played {
            self.plan_cuts(self.now, self.calm_at);
            if self.storm {
                self.plan_storm(self.now + 100 * MILLI, self.calm_at);
            }
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What must not happen, in words.
    pub fn run(&mut self) -> Result<(), String> {
        self.run_until_quiet()?;
        self.check_drivers_done()?;
        // Actors that keep handles to each other in a circle live on; now they let go.
        self.empty_stashes();
        self.run_until_quiet()?;
        self.check_quiet()?;
        self.end_drivers();
        self.run_until_quiet()?;
        self.stats.restarts = self.controller.restarts;
        self.check_empty()
    }

    fn run_until_quiet(&mut self) -> Result<(), String> {
        let end = self.now + PATIENCE;
        while let Some(((at, _), happening)) = self.events.pop_first() {
            self.now = self.now.max(at);
            if self.now > end {
                // Something goes round for ever: the checks will find out what.
                break;
            }
            self.stats.events += 1;
            if self.stats.events > MAX_EVENTS {
                return Err(format!("no end in sight at {} ms: {}", self.now / MILLI, self.waiting()));
            }
            self.happen(happening);
            if self.stats.events.is_multiple_of(16)
                && let Err(what) = self.controller.audit()
            {
                self.fail(what);
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
        self.controller.audit()
    }

    fn happen(&mut self, happening: Happening) {
        if self.trace.is_some() && !matches!(happening, Happening::Tick(_)) {
            self.note(format!("{happening:?}"));
        }
        match happening {
            Happening::Arrives { from, to, packet } => self.arrives(from, to, packet),
            Happening::Tick(node) => {
                if self.ticks.get(&node).is_some_and(|at| *at <= self.now) {
                    self.ticks.remove(&node);
                    self.tick(node);
                }
            }
            Happening::Forks(proc) => self.forks(proc),
            Happening::Noticed(proc, death) => self.noticed(proc, death),
            Happening::Step(proc) => self.step(proc),
            Happening::Fault => self.fault(),
            Happening::HostLost(host) => self.host_lost(host),
            Happening::Wire(wire) => self.wire(wire),
        }
    }

    pub fn at(&mut self, at: u64, happening: Happening) {
        self.next_event += 1;
        self.events.insert((at, self.next_event), happening);
    }

    /// Sends: in order between two nodes, with a delay of any length.
    pub fn send(&mut self, from: Node, to: Node, packet: Packet) {
        if self.links.played {
            return self.send_by_link(from, to, packet);
        }
        let slow = match (from, to) {
            (Node::Proc(from), Node::Proc(to)) => {
                from.host() != to.host() && self.is_slow(from.host(), to.host())
            }
            _ => false,
        };
        let delay = match self.rng.below(100) {
            _ if slow => self.rng.range(MILLI, 15 * MILLI),
            0 => self.rng.range(MILLI, 60 * MILLI),
            1..=9 => self.rng.range(100 * MICRO, 3 * MILLI),
            _ => self.rng.range(MICRO, 60 * MICRO),
        };
        let last = |channel| self.channels.get(&channel).copied().unwrap_or(0);
        let heeds = !self.is_mutated(Mutation::UnheardNews);
        let news = self.news_of(&packet).into_iter().filter(|_| heeds);
        let last_words = news.map(|dead| last((Node::Proc(dead), to)));
        let mut earliest = last_words.chain([last((from, to))]).max().unwrap_or(0);
        if let Packet::FromController(FromController::TakeStock { .. } | FromController::Settled { .. }) =
            packet
            && !self.is_mutated(Mutation::NoRounds)
        {
            earliest = earliest.max(self.fences.get(&to).copied().unwrap_or(0));
        }
        let at = (self.now + delay).max(earliest + 1);
        self.channels.insert((from, to), at);
        self.at(at, Happening::Arrives { from, to, packet });
    }

    /// Whose deaths a packet tells of.
    fn news_of(&self, packet: &Packet) -> Vec<ProcId> {
        match packet {
            Packet::FromHost(FromHost::Died { proc, .. })
            | Packet::FromController(FromController::Died { proc, .. }) => vec![*proc],
            Packet::FromController(FromController::Mourn { dead, .. } | FromController::Settled { dead }) => {
                dead.clone()
            }
            Packet::FromController(FromController::ActorState {
                actor,
                state: ActorState::Dead { .. } | ActorState::Restarting,
            }) => self.lived.get(actor).copied().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// `from` is about to say that all it sent is on its way.
    pub fn note_all_sent(&mut self, from: ProcId) {
        let of = |(channel, at): (&(Node, Node), &u64)| {
            (channel.0 == Node::Proc(from)).then_some((channel.1, *at))
        };
        let sent = self.channels.iter().filter_map(of).collect();
        self.all_sent.entry(from).or_default().push_back(sent);
    }

    /// The controller hears it: what it asks others because of that arrives after what was on its way.
    pub fn heed_all_sent(&mut self, from: ProcId) {
        let sent = self.all_sent.get_mut(&from).and_then(VecDeque::pop_front);
        for (to, at) in sent.unwrap_or_default() {
            let fence = self.fences.entry(to).or_default();
            *fence = (*fence).max(at);
        }
    }

    /// The earliest that `to` may notice the death of `proc`.
    pub fn after_last_words(&mut self, proc: ProcId, to: Node, at: u64) -> u64 {
        if self.links.played {
            return self.after_last_mail(proc.host(), at);
        }
        let last = self.channels.get(&(Node::Proc(proc), to)).copied().unwrap_or(0);
        at.max(last + 1)
    }

    pub fn wake_at(&mut self, node: Node, deadline: Option<u64>) {
        let Some(at) = deadline.map(|at| at.max(self.now + 1)) else { return };
        if self.ticks.get(&node).is_none_or(|known| *known > at) {
            self.ticks.insert(node, at);
            self.at(at, Happening::Tick(node));
        }
    }

    pub fn fail(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(format!("FAILURE: {what}"));
        self.failure.get_or_insert(what);
    }

    pub fn note(&mut self, text: String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACE {
                trace.pop_front();
            }
            trace.push_back(format!("{:>10.3} ms  {text}", now as f64 / 1e6));
        }
    }

    /// Whether anybody reads notes.
    #[must_use]
    pub const fn traced(&self) -> bool {
        self.trace.is_some()
    }

    #[must_use]
    pub fn trace_text(&self) -> String {
        let mut out = String::new();
        for line in self.trace.iter().flatten() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{line}");
        }
        out
    }

    /// The references inside a value, as a deserializer would find them.
    #[must_use]
    pub fn refs_in(&self, value: &Value) -> Vec<ObjectId> {
        match value {
            Value::Inline(body) => crate::payload::decode_refs(body),
            Value::Stored(block) => self
                .blocks
                .get(&(block.home, block.offset))
                .map(|stored| stored.refs.clone())
                .unwrap_or_default(),
            Value::Error(_) => Vec::new(),
        }
    }
}
