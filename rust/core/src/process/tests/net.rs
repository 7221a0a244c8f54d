//! The network between the processes of a test, and what they leave behind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raymesh_wire::control::{ActorState, Death, DeathCause, ExitReason};
use raymesh_wire::{Block, FromController, HostId, Message, ObjectId, ProcId, ToController, decode, encode};

use super::fake::Fake;
use crate::estates::{DELAY, Estates, Outcome};
use crate::process::{Effect, Process};

/// Where the controller lives, and the agent of the one host.
pub(super) const CONTROLLER: ProcId = ProcId::agent(HostId(0));

pub(super) const MILLI: u64 = 1_000_000;

/// The `n`-th process of the test, from 1.
pub(super) const fn proc(n: u32) -> ProcId {
    ProcId::new(HostId(0), 0, n)
}

/// A block and what became of it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub freed: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Net {
    pub now: u64,
    pub procs: BTreeMap<ProcId, Process>,
    pub controller: Fake,
    pub estates: Estates,
    pub blocks: BTreeMap<Block, Memory>,
    pub ready: BTreeSet<(ProcId, ObjectId)>,
    pub answers: Vec<(ProcId, FromController)>,
    pub exits: Vec<(ProcId, ExitReason)>,
    /// Everything that was sent, in order.
    pub log: Vec<(ProcId, ProcId, Message)>,
    channels: BTreeMap<(ProcId, ProcId), VecDeque<Message>>,
    held: BTreeSet<(ProcId, ProcId)>,
    next_offset: u64,
}

impl Net {
    /// Processes 1 to `count`: the first is a driver, the others are workers.
    pub fn new(count: u32) -> Self {
        let procs = (1..=count).map(|n| (proc(n), Process::new(proc(n), CONTROLLER))).collect();
        let mut estates = Estates::default();
        (1..=count).for_each(|n| estates.started(proc(n)));
        Self {
            now: MILLI,
            procs,
            controller: Fake::new((2..=count).map(proc)),
            estates,
            blocks: BTreeMap::new(),
            ready: BTreeSet::new(),
            answers: Vec::new(),
            exits: Vec::new(),
            log: Vec::new(),
            channels: BTreeMap::new(),
            held: BTreeSet::new(),
            next_offset: 0,
        }
    }

    /// Lets a process do something, and takes what it sends.
    pub fn with<R>(&mut self, id: ProcId, act: impl FnOnce(&mut Process, u64, &mut Vec<Effect>) -> R) -> R {
        let mut effects = Vec::new();
        let process = self.procs.get_mut(&id).unwrap_or_else(|| panic!("{id:?} is dead"));
        let result = act(process, self.now, &mut effects);
        self.carry_out(id, effects);
        result
    }

    fn carry_out(&mut self, id: ProcId, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                // Nobody has a copy.
                Effect::Lost { object, block } => self.lose(id, object, block),
                Effect::Send { to, message }
                | Effect::SendAfter { to, message, .. }
                | Effect::SendLast { to, message } => {
                    self.send(id, to, message);
                }
                Effect::SendCall { to, call } => self.send(id, to, Message::Call(Box::new((*call).clone()))),
                Effect::Ready { object } => assert!(self.ready.insert((id, object)), "{object:?} twice"),
                Effect::Runnable => {}
                Effect::Free { block } => self.free(id, block),
                Effect::Unneeded { .. } => {}
                Effect::Answer(answer) => self.answers.push((id, *answer)),
                Effect::Exit { reason } => self.exits.push((id, reason)),
            }
        }
    }

    /// A process finds that the bytes of an object are nowhere any more.
    pub fn lose(&mut self, id: ProcId, object: ObjectId, block: Block) {
        self.ready.remove(&(id, object));
        let mut effects = Vec::new();
        if let Some(process) = self.procs.get_mut(&id) {
            process.bytes_lost(object, block, &mut effects);
        }
        self.carry_out(id, effects);
    }

    pub fn send(&mut self, from: ProcId, to: ProcId, message: Message) {
        self.log.push((from, to, message.clone()));
        self.channels.entry((from, to)).or_default().push_back(message);
    }

    /// Messages from `from` to `to` stay on their way until [`Self::resume`].
    pub fn hold(&mut self, from: ProcId, to: ProcId) {
        self.held.insert((from, to));
    }

    pub fn resume(&mut self, from: ProcId, to: ProcId) {
        self.held.remove(&(from, to));
        self.run();
    }

    /// Delivers until nothing can be delivered.
    pub fn run(&mut self) {
        let mut patience = 1_000_000;
        while self.deliver_one(|_| 0) {
            patience -= 1;
            assert!(patience > 0, "messages go round for ever: {:?}", &self.log[self.log.len() - 8..]);
        }
    }

    /// Delivers the next message of one of the pairs that have any: `choose` says of which. False: there
    /// is none.
    pub fn deliver_one(&mut self, choose: impl FnOnce(usize) -> usize) -> bool {
        let open: Vec<_> = self.open_channels().collect();
        if open.is_empty() {
            return false;
        }
        self.deliver(open[choose(open.len())]);
        true
    }

    fn open_channels(&self) -> impl Iterator<Item = (ProcId, ProcId)> {
        let open = move |(channel, queue): &(&(ProcId, ProcId), &VecDeque<Message>)| {
            let Some(front) = queue.front() else { return false };
            // News of a death comes after the last words of the dead.
            let silent =
                |from: &ProcId| self.channels.get(&(*from, channel.1)).is_none_or(VecDeque::is_empty);
            let spoken = self.dead_in(front).iter().all(silent);
            spoken && !self.held.contains(channel)
        };
        self.channels.iter().filter(open).map(|(channel, _)| *channel)
    }

    /// Whose messages arrive before this one: those of the dead that it tells of; and, once all have said
    /// that what they sent before is on its way, everybody's.
    fn dead_in(&self, message: &Message) -> Vec<ProcId> {
        match message {
            Message::FromController(FromController::Died { proc, .. }) => vec![*proc],
            Message::FromController(FromController::Mourn { dead, .. }) => dead.clone(),
            Message::FromController(FromController::TakeStock { .. } | FromController::Settled { .. }) => {
                self.channels.keys().map(|(from, _)| *from).filter(|from| *from != CONTROLLER).collect()
            }
            Message::FromController(FromController::ActorState {
                actor,
                state: ActorState::Restarting | ActorState::Dead { .. },
            }) => self.controller.lived_in(*actor).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn deliver(&mut self, (from, to): (ProcId, ProcId)) {
        let Some(message) = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return };
        let mut bytes = Vec::new();
        encode(&message, &mut bytes);
        assert_eq!(decode(bytes.into()).as_ref(), Ok(&message));
        match message {
            Message::ToController(message) => self.ask(from, message),
            message if self.procs.contains_key(&to) => {
                self.with(to, |process, now, fx| process.receive(now, from, message, fx));
            }
            _ => {}
        }
    }

    fn ask(&mut self, from: ProcId, message: ToController) {
        if !self.procs.contains_key(&from) && !matches!(message, ToController::ActorReady { .. }) {
            return;
        }
        let (now, mut out) = (self.now, Vec::new());
        match message {
            ToController::Mourned { round } => self.estates.mourned(from, round, now, &mut out),
            ToController::Stock(stock) => self.estates.stock(from, stock, now, &mut out),
            ToController::Seek { object } => self.estates.seek(from, object, now, &mut out),
            ToController::LetGo { objects } => self.estates.let_go(from, &objects, now, &mut out),
            message => {
                for (to, message) in self.controller.handle(from, message) {
                    self.tell(to, message);
                }
                self.start_actors();
            }
        }
        self.execute(out);
    }

    fn execute(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Send { to, message } => self.tell(to, message),
                Outcome::Sweep { dead, except } => {
                    let of = |block: &Block| block.home == dead && !except.contains(block);
                    let blocks: Vec<_> = self.in_use().into_iter().filter(of).collect();
                    blocks.into_iter().for_each(|block| self.reclaim(block));
                }
                Outcome::Free(block) => self.reclaim(block),
            }
        }
    }

    /// The agent frees memory of the dead.
    fn reclaim(&mut self, block: Block) {
        assert!(!self.procs.contains_key(&block.home), "{block:?} is not the agent's to free");
        self.free(block.home, block);
    }

    /// The controller sends.
    pub fn tell(&mut self, to: ProcId, message: FromController) {
        self.send(CONTROLLER, to, Message::FromController(message));
    }

    /// Workers that became actors run their constructors.
    pub fn start_actors(&mut self) {
        for (worker, spec) in self.controller.take_starts() {
            if self.procs.contains_key(&worker) {
                self.with(worker, |process, _, fx| process.hold_arguments(&spec, fx));
                for (to, message) in self.controller.started(spec.actor, worker) {
                    self.tell(to, message);
                }
            }
        }
    }

    /// `kill -9`. What it has sent arrives still, then the news of its death, and all that follows.
    pub fn kill(&mut self, id: ProcId) {
        self.die(id);
        self.mourn();
    }

    /// A round settles the deaths so far.
    pub fn mourn(&mut self) {
        self.now += DELAY;
        let mut out = Vec::new();
        self.estates.tick(self.now, &mut out);
        self.execute(out);
        self.run();
    }

    /// As [`Self::kill`], but nobody has been asked yet what he has to do with it.
    pub fn die(&mut self, id: ProcId) {
        let process = self.procs.remove(&id).unwrap_or_else(|| panic!("{id:?} is dead already"));
        let cause = DeathCause::Signaled { signal: 9 };
        let death = Death { last_call: process.last_call(), ..cause.into() };
        for (to, message) in self.controller.died(id, &death) {
            self.tell(to, message);
        }
        let mut out = Vec::new();
        self.estates.died(id, true, self.now, &mut out);
        self.execute(out);
        self.start_actors();
        self.run();
    }

    /// A host is gone with its processes and its memory, and all that follows.
    pub fn lose_host(&mut self, host: HostId) {
        let death = Death::from(DeathCause::HostLost);
        self.blocks.retain(|block, _| block.host() != host);
        self.estates.host_lost(host);
        let of_host = |id: &ProcId| id.host() == host;
        let gone: Vec<ProcId> = self.procs.keys().copied().filter(of_host).collect();
        self.procs.retain(|id, _| !of_host(id));
        for id in gone.into_iter().chain([ProcId::agent(host)]) {
            for (to, message) in self.controller.died(id, &death) {
                self.tell(to, message);
            }
            let mut out = Vec::new();
            self.estates.died(id, true, self.now, &mut out);
            self.execute(out);
        }
        self.start_actors();
        self.run();
        self.mourn();
    }

    /// Time passes, and what is due is done.
    pub fn pass(&mut self, time: u64) {
        let end = self.now + time;
        loop {
            let due = self.procs.iter().filter_map(|(id, process)| Some((process.next_deadline()?, *id)));
            let Some((at, id)) = due.min().filter(|(at, _)| *at <= end) else { break };
            self.now = self.now.max(at);
            self.with(id, |process, now, fx| process.tick(now, fx));
            let next = self.procs.get(&id).and_then(Process::next_deadline);
            assert!(next.is_none_or(|next| next > self.now), "{id:?} asks for the time in a circle");
            self.run();
        }
        self.now = end;
    }

    /// New memory of `home`.
    pub fn allocate(&mut self, home: ProcId) -> Block {
        self.allocate_len(home, 64)
    }

    pub fn allocate_len(&mut self, home: ProcId, len: u64) -> Block {
        self.next_offset += 64;
        let block = Block { home, offset: self.next_offset, len };
        self.blocks.insert(block, Memory::default());
        block
    }

    fn free(&mut self, by: ProcId, block: Block) {
        let memory = self.blocks.get_mut(&block).unwrap_or_else(|| panic!("{block:?} was never there"));
        assert_eq!(block.home, by, "memory is freed by who did not allocate it");
        assert_eq!(memory.freed, 0, "{block:?} is freed twice");
        memory.freed += 1;
        let reads = |process: &Process| process.reads(block);
        let reader = self.procs.iter().find(|(_, process)| reads(process)).map(|(id, _)| *id);
        assert_eq!(reader, None, "{block:?} is freed, and somebody reads it");
    }

    /// Memory that is in use.
    pub fn in_use(&self) -> Vec<Block> {
        self.blocks.iter().filter(|(_, memory)| memory.freed == 0).map(|(block, _)| *block).collect()
    }

    /// How many messages matched, since the test began.
    pub fn count(&self, mut matches: impl FnMut(&(ProcId, ProcId, Message)) -> bool) -> usize {
        self.log.iter().filter(|sent| matches(sent)).count()
    }

    /// Nothing is left: no object, no message, no memory but that of the dead, no lease, no timer.
    pub fn assert_clean(mut self) {
        self.held.clear();
        self.run();
        self.pass(10_000 * MILLI);
        while self.estates.next_deadline().is_some() {
            self.mourn();
        }
        for (id, process) in &self.procs {
            assert_eq!(process.object_count(), 0, "{id:?} knows something still: {process:#?}");
            assert_eq!(process.next_deadline(), None, "{id:?} waits for something still");
            let left: Vec<_> = process.census().into_iter().filter(|(_, count)| *count > 0).collect();
            assert!(left.is_empty(), "{id:?} keeps something: {left:?} in {process:#?}");
        }
        let leaked = self.in_use();
        assert!(leaked.is_empty(), "memory is lost: {leaked:?}");
        assert_eq!(self.estates.remains(), (0, false), "{:?}", self.estates);
        self.controller.assert_idle();
    }
}
