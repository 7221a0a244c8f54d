//! The controller alone: its hosts and processes are played by the tests.
//!
//! - `leases`: demands, grants, blocking. `fairness`: turns, reclaiming, starvation.
//! - `draining`: hosts that are asked to leave.
//! - `nearness`: tasks whose arguments lie somewhere.
//! - `groups`: placement groups; `keeping`: room for them. `wishes`: strategies and labels.
//! - `status`: what those are told who ask how the cluster stands.
//! - `actors`: life cycles and names. `functions`: what they are made of. `deaths`: processes and hosts. `scale`: cost.

mod actors;
mod deaths;
mod draining;
mod fairness;
mod functions;
mod groups;
mod keeping;
mod leases;
mod nearness;
mod scale;
mod status;
mod wishes;

use raymesh_wire::control::{ActorSpec, ActorState, Death, DeathCause, FromHost, HostInfo, Stock, ToHost};
use raymesh_wire::placement::{BundleSpec, GroupSpec, GroupStrategy, Selector};
use raymesh_wire::status::HostEnd;
use raymesh_wire::{
    ActorId, FromController, FunctionId, GroupId, HostId, JobId, LeaseId, ProcId, Quantity, RequestId,
    ResourceSet, ToController, Value, Wish,
};

use super::{Controller, Effect, Event};

const HOST: HostId = HostId(0);
const SECOND: u64 = 1_000_000_000;

fn proc(host: u32, slot: u32) -> ProcId {
    ProcId::new(HostId(host), 1, slot)
}

const fn driver() -> ProcId {
    ProcId::new(HOST, 0, 1)
}

fn set(amounts: &[(&str, f64)]) -> ResourceSet {
    amounts.iter().map(|(name, n)| (*name, Quantity::from_f64(*n))).collect()
}

fn cpu(n: f64) -> ResourceSet {
    set(&[("CPU", n)])
}

fn host_lost(host: u32) -> Event {
    Event::HostLost { host: HostId(host), end: HostEnd::unexpected("nothing was heard of it") }
}

fn host_ended(host: u32) -> Event {
    Event::HostLost { host: HostId(host), end: HostEnd::unexpected("its process has ended") }
}

/// A group of the driver without a name, whose bundles may lie anywhere.
fn group(seq: u32, strategy: GroupStrategy, bundles: &[&[(&str, f64)]]) -> GroupSpec {
    let bundle =
        |amounts: &&[(&str, f64)]| BundleSpec { resources: set(amounts), selector: Selector::default() };
    GroupSpec {
        group: GroupId { creator: driver(), seq },
        job: JobId(1),
        name: String::new(),
        namespace: String::new(),
        detached: false,
        strategy,
        bundles: bundles.iter().map(bundle).collect(),
        near: None,
        same: String::new(),
    }
}

/// A controller, the time, and what it said in answer to the last event.
struct World {
    controller: Controller,
    now: u64,
    said: Vec<Effect>,
}

impl World {
    /// One host with these resources, and a driver on it.
    fn new(total: &[(&str, f64)]) -> Self {
        let mut world = Self { controller: Controller::new(), now: SECOND, said: Vec::new() };
        world.join(0, total);
        world.host(HOST, FromHost::ProcStarted { proc: driver(), pid: 1, driver: true });
        world
    }

    fn event(&mut self, event: Event) -> &[Effect] {
        self.said.clear();
        self.controller.handle(self.now, event, &mut self.said);
        &self.said
    }

    fn join(&mut self, host: u32, total: &[(&str, f64)]) {
        self.join_as(host, total, &[]);
    }

    fn join_as(&mut self, host: u32, total: &[(&str, f64)], labels: &[(&str, &str)]) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let message = FromHost::Joined {
            name: format!("host-{host}"),
            total: set(total),
            labels: labels.collect(),
            store_capacity: 0,
        };
        self.host(HostId(host), message);
    }

    fn host(&mut self, host: HostId, message: FromHost) -> &[Effect] {
        self.event(Event::FromHost { host, message })
    }

    fn say(&mut self, from: ProcId, message: ToController) -> &[Effect] {
        self.event(Event::Message { from, message })
    }

    fn tick(&mut self, after: u64) -> &[Effect] {
        self.now += after;
        self.event(Event::Tick)
    }

    /// All processes say what they know of the dead: nothing.
    fn settle_estates(&mut self) {
        self.tick(SECOND);
        loop {
            let mut answers = Vec::new();
            for effect in &self.said {
                if let Effect::Send { to, message } = effect {
                    match message {
                        FromController::Mourn { round, .. } => {
                            answers.push((*to, ToController::Mourned { round: *round }));
                        }
                        FromController::TakeStock { round } => {
                            let stock = Stock { round: *round, ..Stock::default() };
                            answers.push((*to, ToController::Stock(stock)));
                        }
                        _ => {}
                    }
                }
            }
            let mut said = Vec::new();
            for (from, answer) in answers {
                self.say(from, answer);
                said.append(&mut self.said);
            }
            if said.is_empty() {
                return;
            }
            self.said = said;
        }
    }

    fn demand(&mut self, from: ProcId, key: u32, resources: &ResourceSet, backlog: u32) -> Vec<Bind> {
        self.wish(from, key, resources, backlog, Wish::default())
    }

    fn wish(
        &mut self,
        from: ProcId,
        key: u32,
        resources: &ResourceSet,
        backlog: u32,
        wish: Wish,
    ) -> Vec<Bind> {
        let resources = resources.clone();
        let env = raymesh_wire::Environment::default();
        self.say(
            from,
            ToController::Demand { key, job: JobId(1), resources, backlog, env, wish, near: None },
        );
        self.binds()
    }

    /// Leases granted in answer to the last event.
    fn binds(&self) -> Vec<Bind> {
        let bind = |effect: &Effect| match effect {
            Effect::ToHost { host, message: ToHost::BindLease { lease, caller, gpus, resources, .. } } => {
                let (host, lease, caller) = (*host, *lease, *caller);
                Some(Bind { host, lease, caller, gpus: gpus.clone(), resources: resources.clone() })
            }
            _ => None,
        };
        self.said.iter().filter_map(bind).collect()
    }

    fn bound(&mut self, bind: &Bind, worker: ProcId) {
        self.host(bind.host, FromHost::ProcStarted { proc: worker, pid: worker.slot(), driver: false });
        self.host(bind.host, FromHost::LeaseBound { lease: bind.lease, worker });
    }

    fn give_back(&mut self, bind: &Bind) -> Vec<Bind> {
        self.say(bind.caller, ToController::ReturnLease { lease: bind.lease });
        self.binds()
    }

    fn die(&mut self, proc: ProcId, cause: DeathCause) -> &[Effect] {
        self.host(
            proc.host(),
            FromHost::Died { proc, death: death_of(proc, cause), memory: false, under_way: false },
        )
    }

    /// What the last event made the controller tell `to`.
    fn told(&self, to: ProcId) -> Vec<FromController> {
        self.said
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send { to: it, message } if *it == to => Some(message.clone()),
                _ => None,
            })
            .collect()
    }

    /// What the last event made the controller tell hosts.
    fn ordered(&self) -> Vec<ToHost> {
        self.said
            .iter()
            .filter_map(|effect| match effect {
                Effect::ToHost { message, .. } => Some(message.clone()),
                Effect::Send { .. } => None,
            })
            .collect()
    }

    fn describe(&mut self) -> Vec<HostInfo> {
        self.say(driver(), ToController::DescribeCluster { request: RequestId(1) });
        match self.told(driver()).pop() {
            Some(FromController::Cluster { hosts, .. }) => hosts,
            other => panic!("no description: {other:?}"),
        }
    }

    fn free(&mut self, name: &str) -> f64 {
        self.describe()[0].available.get(name).to_f64()
    }

    fn create(&mut self, spec: ActorSpec) -> &[Effect] {
        self.say(spec.actor.creator, ToController::CreateActor { spec: Box::new(spec) })
    }

    /// The start ordered by the last event.
    fn start(&self) -> Option<LeaseId> {
        self.ordered().into_iter().find_map(|message| match message {
            ToHost::StartActor { start, .. } => Some(start),
            _ => None,
        })
    }

    /// Creates an actor and lets it come alive in `worker`.
    fn alive(&mut self, spec: ActorSpec, worker: ProcId) -> LeaseId {
        let actor = spec.actor;
        self.create(spec);
        let start = self.start().expect("placed");
        self.come_alive(actor, start, worker);
        start
    }

    fn come_alive(&mut self, actor: ActorId, start: LeaseId, worker: ProcId) {
        let pid = worker.slot();
        self.host(worker.host(), FromHost::ProcStarted { proc: worker, pid, driver: false });
        self.host(worker.host(), FromHost::ActorStarted { start, proc: worker, pid });
        self.say(worker, ToController::ActorReady { actor, error: None });
    }

    /// States of `actor` told to `to` by the last event.
    fn states(&self, to: ProcId, actor: ActorId) -> Vec<ActorState> {
        self.told(to)
            .into_iter()
            .filter_map(|message| match message {
                FromController::ActorState { actor: it, state } if it == actor => Some(state),
                _ => None,
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
struct Bind {
    host: HostId,
    lease: LeaseId,
    caller: ProcId,
    gpus: Vec<u32>,
    resources: ResourceSet,
}

fn actor(creator: ProcId, seq: u32) -> ActorSpec {
    ActorSpec {
        actor: ActorId { creator, seq },
        job: JobId(1),
        class: FunctionId([0; 16]),
        class_name: "Counter".to_owned(),
        args: Value::Inline(bytes::Bytes::new()),
        args_object: None,
        deps: Vec::new(),
        refs: Vec::new(),
        resources: cpu(1.0),
        placement: cpu(1.0),
        wish: Wish::default(),
        name: String::new(),
        namespace: "ns".to_owned(),
        detached: false,
        max_restarts: 0,
        max_concurrency: 0,
        handle: bytes::Bytes::new(),
        env: raymesh_wire::Environment::default(),
    }
}

fn named(creator: ProcId, seq: u32, name: &str) -> ActorSpec {
    ActorSpec { name: name.to_owned(), ..actor(creator, seq) }
}

/// The text of a death.
fn text(state: &ActorState) -> String {
    match state {
        ActorState::Dead { error } => String::from_utf8_lossy(&error.payload).into_owned(),
        other => panic!("not dead: {other:?}"),
    }
}

fn death_of(proc: ProcId, cause: DeathCause) -> Death {
    Death { pid: proc.slot(), ..cause.into() }
}

const SIGKILL: DeathCause = DeathCause::Signaled { signal: 9 };
