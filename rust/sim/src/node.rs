//! Controller, hosts and processes as the world sees them: events in, effects out.

use std::collections::BTreeSet;

use raymesh_core::controller::{Effect as Decision, Event as ControllerEvent};
use raymesh_core::host::{Config, Effect as Order, Event as HostEvent, Host};
use raymesh_core::process::{Effect, Process};
use raymesh_wire::control::{ActorSpec, Death, DeathCause, ExitReason, FromHost, ToHost};
use raymesh_wire::{
    ActorId, Block, FromController, FunctionId, HostId, JobId, Message, ObjectId, ProcId, Quantity,
    RequestId, ResourceSet, ToController,
};

use crate::definitions::Loading;
use crate::program::{Frame, Ref};
use crate::world::{Happening, MICRO, MILLI, Node, Packet, SECOND, World};

/// Where the controller lives.
pub const CONTROLLER: ProcId = ProcId::agent(HostId(0));

/// A host with its agent.
#[derive(Debug)]
pub struct HostNode {
    pub host: Host,
    pub total: ResourceSet,
    /// Resources of the leases and starts that it was told of and that are not over.
    pub bound: std::collections::BTreeMap<u64, (ResourceSet, Vec<u32>, Option<ProcId>)>,
}

/// A driver or worker.
#[derive(Debug)]
pub struct ProcNode {
    pub process: Process,
    pub pid: u32,
    pub job: JobId,
    /// It runs the main program, and has come to its end.
    pub driver: bool,
    pub done: bool,
    /// What runs, and what runs on top of it.
    pub frame: Option<Frame>,
    pub actor: Option<ActorId>,
    /// What the actor keeps between calls.
    pub stash: Vec<Ref>,
    /// Functions and classes that the program holds until nothing runs any more.
    pub defined: Vec<FunctionId>,
    /// What waits for its function or class.
    pub loading: Option<Loading>,
    /// Asked to end.
    pub exit: Option<ExitReason>,
}

impl World {
    /// A host that knows of these others.
    pub fn add_host(&mut self, id: HostId, known: BTreeSet<HostId>) {
        let (cpus, special) = (2 + self.rng.below(3) as u64, id == self.links.head || self.rng.one_in(2));
        let mut total = ResourceSet::new();
        total.set("CPU", Quantity(cpus * Quantity::SCALE));
        if special {
            total.set("GPU", Quantity(2 * Quantity::SCALE));
            total.set("x", Quantity(3 * Quantity::SCALE));
        }
        let mut config = Config::new(id, format!("host-{}", id.0), total.clone());
        config.labels = vec![("zone".to_owned(), ["a", "b"][self.rng.below(2)].to_owned())];
        config.spare = self.rng.below(3) as u32;
        config.keep_idle = self.rng.below(4) as u32;
        config.idle_timeout = self.rng.range(MILLI, SECOND);
        config.max_starting = 1 + self.rng.below(6) as u32;
        let mut node = HostNode { host: Host::new(config), total, bound: std::collections::BTreeMap::new() };
        let mut orders = Vec::new();
        node.host.start(self.now, &mut orders);
        self.hosts.insert(id, node);
        self.links.joined(id, known);
        self.carry_out(id, orders);
    }

    pub fn add_driver(&mut self, host: HostId, job: JobId) {
        let first = !self.drivers.contains(&Host::driver_slot(host));
        let node = self.hosts.get_mut(&host);
        let other = node.and_then(|node| node.host.allocate_driver());
        let id = if first { Host::driver_slot(host) } else { other.unwrap_or_default() };
        self.drivers.push(id);
        let mut node = self.new_proc(id, job);
        node.driver = true;
        node.frame = Some(Frame::main(self.rng.next_u64()));
        let pid = node.pid;
        self.procs.insert(id, node);
        self.host_event(host, HostEvent::DriverJoined { proc: id, pid });
        self.at(self.now + 100 * MILLI, Happening::Step(id));
    }

    fn new_proc(&mut self, id: ProcId, job: JobId) -> ProcNode {
        ProcNode {
            process: Process::new(id, CONTROLLER),
            pid: 1000 * id.host().0 + 100 * id.incarnation() + id.slot(),
            job,
            driver: false,
            done: false,
            frame: None,
            actor: None,
            stash: Vec::new(),
            defined: Vec::new(),
            loading: None,
            exit: None,
        }
    }

    pub fn arrives(&mut self, from: Node, to: Node, packet: Packet) {
        // A head that is lost takes along what it has not read.
        let of_head = |node| {
            matches!(node, Node::Proc(proc) if proc.host() == self.links.head)
                || node == Node::Host(self.links.head)
        };
        if self.links.played && to == Node::Controller && !of_head(from) {
            return;
        }
        match (to, packet) {
            (Node::Controller, Packet::ToController(message)) => {
                let Node::Proc(from) = from else { return };
                if let ToController::Mourned { .. } = message {
                    self.heed_all_sent(from);
                }
                self.controller_event(ControllerEvent::Message { from, message });
            }
            (Node::Controller, Packet::FromHost(message)) => {
                let Node::Host(host) = from else { return };
                self.controller_event(ControllerEvent::FromHost { host, message });
            }
            (Node::Host(host), Packet::ToHost(message)) => self.controller_orders(host, message),
            (Node::Host(host), Packet::Hello { pid }) => {
                let Node::Proc(proc) = from else { return };
                self.host_event(host, HostEvent::Hello { proc, pid });
            }
            (Node::Proc(id), Packet::FromController(message)) => self.controller_says(id, message),
            (Node::Proc(id), Packet::Message(message)) => {
                let Node::Proc(from) = from else { return };
                if self.procs.contains_key(&id) {
                    self.heard_of(from, id);
                }
                self.with_process(id, |process, now, effects| process.receive(now, from, message, effects));
            }
            (to, packet) => self.fail(format!("{to:?} cannot read {packet:?}")),
        }
    }

    pub fn tick(&mut self, node: Node) {
        match node {
            Node::Controller => self.controller_event(ControllerEvent::Tick),
            Node::Host(host) => self.host_event(host, HostEvent::Tick),
            Node::Proc(id) => {
                self.with_process(id, |process, now, effects| process.tick(now, effects));
            }
        }
    }

    fn controller_event(&mut self, event: ControllerEvent) {
        if self.links.played {
            return self.decide(None, event);
        }
        let mut decisions = Vec::new();
        self.controller.handle(self.now, event, &mut decisions);
        for decision in decisions {
            match decision {
                Decision::Send { to, message } => {
                    self.send(Node::Controller, Node::Proc(to), Packet::FromController(message));
                }
                Decision::ToHost { host, message } => {
                    self.check_grant(host, &message);
                    self.send(Node::Controller, Node::Host(host), Packet::ToHost(message));
                }
            }
        }
        let deadline = self.controller.next_deadline();
        self.wake_at(Node::Controller, deadline);
    }

    fn controller_orders(&mut self, host: HostId, message: ToHost) {
        let Some(node) = self.hosts.get_mut(&host) else { return };
        match &message {
            ToHost::BindLease { lease, resources, gpus, .. } => {
                let before = node.bound.insert(lease.0, (resources.clone(), gpus.clone(), None));
                if before.is_some() {
                    return self.fail(format!("{host:?} is told twice of {lease:?}"));
                }
            }
            ToHost::StartActor { start, spec, gpus, .. } => {
                node.bound.insert(start.0, (spec.resources.clone(), gpus.clone(), None));
            }
            ToHost::EndLease { lease, kill: false } => {
                node.bound.remove(&lease.0);
            }
            _ => {}
        }
        self.check_host(host);
        self.host_event(host, HostEvent::FromController(message));
    }

    pub fn host_event(&mut self, id: HostId, event: HostEvent) {
        let Some(node) = self.hosts.get_mut(&id) else { return };
        let mut orders = Vec::new();
        node.host.handle(self.now, event, &mut orders);
        self.carry_out(id, orders);
    }

    fn carry_out(&mut self, id: HostId, orders: Vec<Order>) {
        for order in orders {
            if self.traced() {
                self.note(format!("    {id:?}: {order:?}"));
            }
            match order {
                Order::Send { to, message } => {
                    self.send(Node::Host(id), Node::Proc(to), Packet::FromController(message));
                }
                Order::ToController(message) => {
                    self.note_binding(id, &message);
                    self.send(Node::Host(id), Node::Controller, Packet::FromHost(message));
                }
                Order::Fork { proc } => {
                    let at = self.now + self.rng.range(MILLI, 12 * MILLI);
                    self.at(at, Happening::Forks(proc));
                }
                Order::Kill { proc } => self.die(proc, DeathCause::Signaled { signal: 9 }),
                Order::Sweep { dead, except } => self.sweep(dead, &except),
                Order::Leave => self.host_ends(id),
                Order::Welcomed => {}
                Order::FreeBlocks { blocks } => blocks.into_iter().for_each(|block| self.left(block)),
            }
        }
        let deadline = self.hosts.get(&id).and_then(|node| node.host.next_deadline());
        self.wake_at(Node::Host(id), deadline);
    }

    fn note_binding(&mut self, id: HostId, message: &FromHost) {
        let Some(node) = self.hosts.get_mut(&id) else { return };
        match message {
            FromHost::LeaseBound { lease, worker }
            | FromHost::ActorStarted { start: lease, proc: worker, .. } => {
                if let Some(bound) = node.bound.get_mut(&lease.0) {
                    bound.2 = Some(*worker);
                }
            }
            FromHost::LeaseFailed { lease, .. } | FromHost::ActorStartFailed { start: lease, .. } => {
                node.bound.remove(&lease.0);
            }
            FromHost::Died { proc, .. } => node.bound.retain(|_, bound| bound.2 != Some(*proc)),
            _ => {}
        }
    }

    pub fn forks(&mut self, id: ProcId) {
        if !self.hosts.contains_key(&id.host()) {
            return;
        }
        let risky = self.now < self.calm_at;
        if risky && self.rng.one_in(20) {
            let reason = "no memory".to_owned();
            self.host_event(id.host(), HostEvent::ForkFailed { proc: id, reason });
            return;
        }
        let node = self.new_proc(id, JobId::default());
        let pid = node.pid;
        self.procs.insert(id, node);
        let late = self.rng.one_in(3);
        let said = Node::Proc(id);
        self.send(said, Node::Host(id.host()), Packet::Hello { pid });
        if risky && self.rng.one_in(20) {
            self.die(id, DeathCause::Signaled { signal: 11 });
        }
        if !late {
            self.host_event(id.host(), HostEvent::Forked { proc: id, pid });
        }
    }

    /// The process ends, now.
    pub fn die(&mut self, id: ProcId, cause: DeathCause) {
        let Some(node) = self.procs.remove(&id) else { return };
        self.stats.deaths += 1;
        if self.hosts.contains_key(&id.host()) {
            let at = self.now + self.rng.range(20 * MICRO, MILLI);
            let at = self.after_last_words(id, Node::Host(id.host()), at);
            let death = Death { last_call: node.process.last_call(), ..cause.into() };
            self.at(at, Happening::Noticed(id, death));
        }
    }

    pub fn noticed(&mut self, id: ProcId, death: Death) {
        let under_way = self.links.is_under_way(id.host(), self.now);
        let memory = self.blocks.iter().any(|((home, _), stored)| *home == id && !stored.freed);
        self.host_event(id.host(), HostEvent::ProcDied { proc: id, death, memory, under_way });
        if under_way {
            self.leave_last_words(id);
        }
    }

    pub fn fault(&mut self) {
        let host_goes = self.hosts.len() > 1 && self.rng.one_in(5);
        if self.links.played && self.rng.one_in(6) {
            return self.lose_head();
        }
        if host_goes {
            let head = self.links.head;
            let ids: Vec<_> = self.hosts.keys().copied().filter(|id| *id != head).collect();
            let Some(host) = self.rng.pick(&ids).copied() else { return };
            if self.rng.one_in(3) {
                self.drain(host);
            } else {
                self.host_ends(host);
            }
            return;
        }
        let driver_goes = self.rng.one_in(6);
        let ids: Vec<_> =
            self.procs.iter().filter(|(_, node)| node.driver == driver_goes).map(|(id, _)| *id).collect();
        if let Some(id) = self.rng.pick(&ids).copied() {
            self.die(id, DeathCause::Signaled { signal: 9 });
        }
    }

    /// The host is asked to leave.
    fn drain(&mut self, host: HostId) {
        let Some(from) = self.drivers.iter().copied().find(|id| self.procs.contains_key(id)) else { return };
        let within = Some(self.rng.range(0, 50 * MILLI));
        let message = ToController::DrainHost {
            request: RequestId(u64::MAX),
            host,
            reason: "asked".to_owned(),
            within,
        };
        self.send_message(from, ProcId::default(), Message::ToController(message));
    }

    /// All that is on the host ends, and some time later the controller learns of it.
    fn host_ends(&mut self, host: HostId) {
        if !self.hosts.contains_key(&host) {
            return;
        }
        self.stats.hosts_lost += 1;
        if self.links.played {
            return self.crash(host);
        }
        self.end_host(host);
        let at = self.now + self.rng.range(MILLI, 30 * MILLI);
        self.at(at, Happening::HostLost(host));
    }

    pub fn host_lost(&mut self, host: HostId) {
        self.controller_event(ControllerEvent::HostLost {
            host,
            end: raymesh_wire::status::HostEnd::unexpected("its process has ended"),
        });
    }

    fn controller_says(&mut self, id: ProcId, message: FromController) {
        let Some(node) = self.procs.get_mut(&id) else { return };
        match &message {
            FromController::Leased { job, .. } => node.job = *job,
            FromController::StartActor { spec, .. } => node.job = spec.job,
            FromController::Died { proc, .. } => self.told_of_death(id, *proc),
            FromController::Mourn { dead, .. } => {
                dead.iter().for_each(|dead| self.told_of_death(id, *dead));
            }
            FromController::TakeStock { round } => self.asked_for_stock(id, *round),
            FromController::ActorState { actor, state } => {
                self.told.insert((id, *actor), state.clone());
            }
            FromController::Unplaceable { key, never, reason }
                if self.hosts.contains_key(&HostId(0)) && *never =>
            {
                let text = format!("{id:?} is told that shape {key} can never be placed: {reason}");
                self.fail(text);
                return;
            }
            _ => {}
        }
        let message = Message::FromController(message);
        self.with_process(id, |process, now, effects| process.receive(now, CONTROLLER, message, effects));
    }

    /// Lets a process handle something, and carries out what follows.
    pub fn with_process<T>(
        &mut self,
        id: ProcId,
        act: impl FnOnce(&mut Process, u64, &mut Vec<Effect>) -> T,
    ) -> Option<T> {
        let node = self.procs.get_mut(&id)?;
        let mut effects = Vec::new();
        let result = act(&mut node.process, self.now, &mut effects);
        for effect in effects {
            self.effect(id, effect);
        }
        let deadline = self.procs.get(&id).and_then(|node| node.process.next_deadline());
        self.wake_at(Node::Proc(id), deadline);
        Some(result)
    }

    fn effect(&mut self, id: ProcId, effect: Effect) {
        match effect {
            Effect::Send { to, message } | Effect::SendAfter { to, message, .. } => {
                self.send_message(id, to, message);
            }
            Effect::SendLast { to, message } => {
                if let Message::ToController(ToController::Mourned { round }) = &message {
                    self.promise_all_sent(id, *round);
                }
                self.note_all_sent(id);
                self.send_message(id, to, message);
            }
            Effect::SendCall { to, call } => {
                self.send_message(id, to, Message::Call(Box::new((*call).clone())));
            }
            Effect::Ready { object } => self.ready(id, object),
            Effect::Runnable => self.run_next(id),
            Effect::Free { block } => self.freed(block),
            // Copies are the runtime's. Here there are none: what lay on a lost host is lost.
            Effect::Unneeded { .. } => {}
            Effect::Lost { object, block } => {
                self.stats.lost += 1;
                self.lose_bytes(id, object, block);
            }
            Effect::Answer(answer) => self.answer(id, *answer),
            Effect::Exit { reason } => self.exit(id, reason),
            #[allow(unreachable_patterns)]
            other => self.fail(format!("{id:?}: the simulation does not know {other:?}")),
        }
    }

    /// A process finds that the bytes of an object are nowhere.
    pub fn lose_bytes(&mut self, id: ProcId, object: ObjectId, block: Block) {
        let mut effects = Vec::new();
        if let Some(node) = self.procs.get_mut(&id) {
            node.process.bytes_lost(object, block, &mut effects);
        }
        effects.into_iter().for_each(|effect| self.effect(id, effect));
    }

    pub fn send_message(&mut self, id: ProcId, to: ProcId, message: Message) {
        match message {
            Message::ToController(message) => {
                match &message {
                    ToController::ActorReady { actor, error: None } => {
                        self.lived.insert(*actor, id);
                    }
                    ToController::WatchActor { actor } => {
                        self.watching.insert((id, *actor));
                    }
                    ToController::UnwatchActor { actor } => {
                        self.watching.remove(&(id, *actor));
                    }
                    _ => {}
                }
                self.send(Node::Proc(id), Node::Controller, Packet::ToController(message));
            }
            message => {
                self.promise(id, to);
                self.send(Node::Proc(id), Node::Proc(to), Packet::Message(message));
            }
        }
    }

    fn answer(&mut self, id: ProcId, answer: FromController) {
        match answer {
            FromController::StartActor { spec, restarts, .. } => {
                self.load(id, Loading::Construction { spec, restarts });
            }
            FromController::Function { .. } => self.loaded(id, &answer),
            FromController::ActorFound { found: Ok(info), .. } => self.found(id, &info),
            _ => {}
        }
    }

    pub fn construct(&mut self, id: ProcId, spec: &ActorSpec, restarts: u32) {
        self.with_process(id, |process, _, effects| process.hold_arguments(spec, effects));
        let seed = crate::payload::seed_of(&spec.handle).wrapping_add(u64::from(restarts));
        let Some(node) = self.procs.get_mut(&id) else { return };
        node.actor = Some(spec.actor);
        node.frame = Some(Frame::constructor(seed));
        let at = self.now + self.rng.range(10 * MICRO, 2 * MILLI);
        self.at(at, Happening::Step(id));
    }

    /// Asked to end, once what runs is over.
    pub fn exit(&mut self, id: ProcId, reason: ExitReason) {
        let Some(node) = self.procs.get_mut(&id) else { return };
        let busy = node.frame.is_some() || node.loading.is_some();
        if reason == ExitReason::Retired && (node.process.object_count() > 0 || busy) {
            let pid = node.pid;
            self.send(Node::Proc(id), Node::Host(id.host()), Packet::Hello { pid });
            return;
        }
        node.exit = Some(reason);
        if !busy {
            self.die(id, DeathCause::Exited { code: 0 });
        }
    }
}
