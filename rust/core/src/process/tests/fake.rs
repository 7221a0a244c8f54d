//! A controller that has as many workers as the test says, and places everything at once if it can.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raymesh_wire::control::{ActorInfo, ActorNotFound, ActorSpec, ActorState, Death};
use raymesh_wire::{
    ActorId, ErrorKind, ErrorValue, FromController, FunctionId, LeaseId, ProcId, ToController,
};

type Out = Vec<(ProcId, FromController)>;

#[derive(Debug)]
struct Actor {
    spec: Box<ActorSpec>,
    state: ActorState,
    worker: Option<ProcId>,
    restarts: i64,
    given: u32,
}

fn info(spec: &ActorSpec, state: ActorState) -> ActorInfo {
    ActorInfo {
        actor: spec.actor,
        name: spec.name.clone(),
        namespace: spec.namespace.clone(),
        class_name: spec.class_name.clone(),
        state,
        restarts: 0,
        pid: 0,
        handle: spec.handle.clone(),
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fake {
    idle: VecDeque<ProcId>,
    /// Unserved demand by caller and shape.
    demands: BTreeMap<(ProcId, u32), u32>,
    leases: BTreeMap<LeaseId, (ProcId, u32, ProcId)>,
    next_lease: u64,
    watchers: BTreeMap<ProcId, BTreeSet<ProcId>>,
    dead: BTreeMap<ProcId, Death>,
    actors: BTreeMap<ActorId, Actor>,
    actor_watchers: BTreeMap<ActorId, BTreeSet<ProcId>>,
    starts: Vec<(ProcId, Box<ActorSpec>)>,
    lived: BTreeMap<ActorId, ProcId>,
    /// Actors that died before they were created, with their errors.
    never: BTreeMap<ActorId, ErrorValue>,
    /// Constructors do not return until told to.
    pub slow_constructors: bool,
    /// Grants nothing for now.
    pub stingy: bool,
    pub blocked: BTreeSet<ProcId>,
    /// Who holds which functions and classes.
    pub functions: BTreeSet<(ProcId, FunctionId)>,
}

impl Fake {
    pub fn new(workers: impl Iterator<Item = ProcId>) -> Self {
        Self { idle: workers.collect(), ..Self::default() }
    }

    pub fn add_worker(&mut self, worker: ProcId) -> Out {
        self.idle.push_back(worker);
        self.place()
    }

    pub fn handle(&mut self, from: ProcId, message: ToController) -> Out {
        let mut out = Vec::new();
        match message {
            ToController::Demand { key, backlog, .. } => {
                self.demands.insert((from, key), backlog);
            }
            ToController::ReturnLease { lease } => {
                if let Some((caller, _, worker)) = self.leases.remove(&lease) {
                    assert_eq!(caller, from, "a lease is returned by another caller");
                    if !self.dead.contains_key(&worker) {
                        self.idle.push_back(worker);
                    }
                }
            }
            ToController::Watch { proc } => match self.dead.get(&proc) {
                Some(death) => out.push((from, FromController::Died { proc, death: death.clone() })),
                None => {
                    assert!(self.watchers.entry(proc).or_default().insert(from), "watched twice");
                }
            },
            ToController::WatchActor { actor } => {
                self.actor_watchers.entry(actor).or_default().insert(from);
                let state = self.actors.get(&actor).map(|actor| actor.state.clone());
                let never = || self.never.get(&actor).map(|error| ActorState::Dead { error: error.clone() });
                if let Some(state) = state.or_else(never) {
                    out.push((from, FromController::ActorState { actor, state }));
                }
            }
            ToController::UnwatchActor { actor } => {
                if let Some(watchers) = self.actor_watchers.get_mut(&actor) {
                    watchers.remove(&from);
                }
            }
            ToController::CreateActor { spec } if self.never.contains_key(&spec.actor) => {}
            ToController::CreateActor { spec } => {
                let actor = spec.actor;
                let state = ActorState::Pending;
                self.actors.insert(actor, Actor { spec, state, worker: None, restarts: 0, given: 0 });
                out.extend(self.announce(actor));
            }
            ToController::ActorReady { actor, error: Some(error) } => out.extend(self.ends(actor, error)),
            ToController::ActorOutOfScope { actor, given } if given == self.given(actor) => {
                out.extend(self.ends(actor, ErrorValue::text(ErrorKind::ActorDied, "out of scope")));
            }
            ToController::ActorOutOfScope { .. } => {}
            ToController::LookupActor { request, name, .. } => {
                let lives = |it: &&mut Actor| !matches!(it.state, ActorState::Dead { .. });
                let found = self.actors.values_mut().filter(lives).find(|it| it.spec.name == name);
                let found = found.map(|it| {
                    it.given += 1;
                    info(&it.spec, it.state.clone())
                });
                if let Some(info) = &found
                    && info.actor.creator != from
                {
                    out.push((
                        info.actor.creator,
                        FromController::HandleGiven { actor: info.actor, to: from },
                    ));
                }
                let found = found.ok_or(ActorNotFound { elsewhere: Vec::new() });
                out.push((from, FromController::ActorFound { request, found }));
            }
            ToController::Blocked => {
                self.blocked.insert(from);
            }
            ToController::PutFunction { id, .. } => {
                assert!(self.functions.insert((from, id)), "made known twice");
            }
            ToController::DropFunction { id } => {
                assert!(self.functions.remove(&(from, id)), "taken back, and was not known");
            }
            ToController::Unblocked => {
                self.blocked.remove(&from);
            }
            other => panic!("a process tells the controller {other:?}"),
        }
        out.extend(self.place());
        out
    }

    fn place(&mut self) -> Out {
        let mut out = Vec::new();
        if self.stingy {
            return out;
        }
        for actor in self.actors.values_mut() {
            let waits = matches!(actor.state, ActorState::Pending | ActorState::Restarting);
            if waits
                && actor.worker.is_none()
                && let Some(worker) = self.idle.pop_front()
            {
                actor.worker = Some(worker);
                self.starts.push((worker, actor.spec.clone()));
            }
        }
        while let Some(worker) = self.idle.front().copied() {
            let wants = self.demands.iter_mut().find(|(_, backlog)| **backlog > 0);
            let Some((&(caller, key), backlog)) = wants else { break };
            self.idle.pop_front();
            *backlog -= 1;
            self.next_lease += 1;
            let lease = LeaseId(self.next_lease);
            self.leases.insert(lease, (caller, key, worker));
            out.push((caller, FromController::LeaseGranted { key, lease, worker }));
        }
        out
    }

    /// Grants again.
    pub fn relent(&mut self) -> Out {
        self.stingy = false;
        self.place()
    }

    pub fn take_starts(&mut self) -> Vec<(ProcId, Box<ActorSpec>)> {
        if self.slow_constructors { Vec::new() } else { std::mem::take(&mut self.starts) }
    }

    /// The constructor has returned.
    pub fn started(&mut self, id: ActorId, worker: ProcId) -> Out {
        self.lived.insert(id, worker);
        let Some(actor) = self.actors.get_mut(&id) else { return Vec::new() };
        actor.state = ActorState::Alive { proc: worker };
        self.announce(id)
    }

    fn announce(&self, id: ActorId) -> Out {
        let Some(actor) = self.actors.get(&id) else { return Vec::new() };
        let watchers = self.actor_watchers.get(&id).into_iter().flatten();
        let state = |to: &ProcId| (*to, FromController::ActorState { actor: id, state: actor.state.clone() });
        watchers.map(state).collect()
    }

    /// The actor is dead for good. Its worker, if it has one, is the test's to kill.
    pub fn ends(&mut self, id: ActorId, error: ErrorValue) -> Out {
        match self.actors.get_mut(&id) {
            Some(actor) if matches!(actor.state, ActorState::Dead { .. }) => Vec::new(),
            Some(actor) => {
                actor.state = ActorState::Dead { error };
                self.announce(id)
            }
            None => {
                self.never.insert(id, error.clone());
                let state = ActorState::Dead { error };
                let watchers = self.actor_watchers.get(&id).into_iter().flatten();
                let tell =
                    |to: &ProcId| (*to, FromController::ActorState { actor: id, state: state.clone() });
                watchers.map(tell).collect()
            }
        }
    }

    fn given(&self, id: ActorId) -> u32 {
        self.actors.get(&id).map_or(0, |actor| actor.given)
    }

    /// Where the actor lives, or lived last.
    pub fn lived_in(&self, id: ActorId) -> Option<ProcId> {
        self.lived.get(&id).copied()
    }

    pub fn state(&self, id: ActorId) -> Option<ActorState> {
        let dead = || self.never.get(&id).map(|error| ActorState::Dead { error: error.clone() });
        self.actors.get(&id).map(|actor| actor.state.clone()).or_else(dead)
    }

    /// Processes that are told of the actor.
    pub fn watching(&self, id: ActorId) -> usize {
        self.actor_watchers.get(&id).map_or(0, BTreeSet::len)
    }

    pub fn died(&mut self, id: ProcId, death: &Death) -> Out {
        self.dead.insert(id, death.clone());
        self.idle.retain(|worker| *worker != id);
        self.demands.retain(|(caller, _), _| *caller != id);
        self.actor_watchers.values_mut().for_each(|watchers| {
            watchers.remove(&id);
        });
        self.watchers.values_mut().for_each(|watchers| {
            watchers.remove(&id);
        });
        let mut told = self.watchers.remove(&id).unwrap_or_default();
        told.extend(self.leases.values().filter(|(_, _, worker)| *worker == id).map(|(caller, ..)| *caller));
        let mut out: Out = told
            .into_iter()
            .filter(|to| !self.dead.contains_key(to))
            .map(|to| (to, FromController::Died { proc: id, death: death.clone() }))
            .collect();
        // Leases of a dead caller end, and their workers with them: the test kills those that matter.
        self.leases.retain(|_, (caller, ..)| *caller != id);
        let lived: Vec<_> =
            self.actors.iter().filter(|(_, actor)| actor.worker == Some(id)).map(|(id, _)| *id).collect();
        for actor_id in lived {
            let Some(actor) = self.actors.get_mut(&actor_id) else { continue };
            actor.worker = None;
            if matches!(actor.state, ActorState::Dead { .. }) {
                continue;
            }
            if actor.spec.max_restarts < 0 || actor.restarts < actor.spec.max_restarts {
                actor.restarts += 1;
                actor.state = ActorState::Restarting;
                out.extend(self.announce(actor_id));
            } else {
                out.extend(self.ends(actor_id, ErrorValue::text(ErrorKind::ActorDied, "its worker died")));
            }
        }
        out.extend(self.place());
        out
    }

    pub fn lease_count(&self) -> usize {
        self.leases.len()
    }

    pub fn worker_of(&self, lease: LeaseId) -> Option<ProcId> {
        self.leases.get(&lease).map(|(_, _, worker)| *worker)
    }

    /// Asks a caller for what it does not need.
    pub fn reclaim(caller: ProcId) -> Out {
        vec![(caller, FromController::ReclaimLeases)]
    }

    /// Nobody has or wants anything.
    pub fn assert_idle(&self) {
        assert!(self.leases.is_empty(), "leases are kept for ever: {:?}", self.leases);
        assert!(self.demands.values().all(|backlog| *backlog == 0), "demand is not withdrawn");
        let alive = self.actors.values().filter(|actor| !matches!(actor.state, ActorState::Dead { .. }));
        assert_eq!(alive.count(), 0, "actors live that nobody can call");
    }
}
