//! What is known of actors: the living, the lately dead, and those heard of before they exist.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raymesh_wire::control::{ActorInfo, ActorSpec, ActorState};
use raymesh_wire::{ActorId, ErrorValue, LeaseId, ProcId};
use serde::{Deserialize, Serialize};

use super::demand::Notice;
use super::queue::ClassId;

/// How many dead actors are remembered, and how much their errors may take together.
const DEAD: usize = 10_000;
const DEAD_BYTES: usize = 16 << 20;

/// A living actor: it has a worker, or will.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Actor {
    pub spec: Box<ActorSpec>,
    pub class: ClassId,
    pub phase: Phase,
    pub restarts: u32,
    /// Restarts that were not its doing: its host was drained.
    pub forgiven: u32,
    /// It moves: what is held for it where it goes on.
    pub next: Option<LeaseId>,
    /// Workers that died before they began to make it.
    pub false_starts: u32,
    /// 0 unless it has a worker.
    pub pid: u32,
    pub watchers: BTreeSet<ProcId>,
    /// Handles given to those that found it by its name. Its creator must know of all before it may
    /// say that nobody holds one.
    pub given: u32,
    /// Its turn, while it waits for resources.
    pub turn: Option<u64>,
    pub notice: Notice,
}

/// Where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// For resources.
    Waiting,
    /// The host finds it a worker, or the constructor runs.
    Starting {
        start: LeaseId,
        worker: Option<ProcId>,
    },
    Alive {
        start: LeaseId,
        worker: ProcId,
    },
    /// Its worker is about to die; what then.
    Ending {
        start: LeaseId,
        then: Then,
    },
}

/// What follows the death of an actor's worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Then {
    Restart,
    Dead(ErrorValue),
}

impl Actor {
    pub fn state(&self) -> ActorState {
        match &self.phase {
            Phase::Alive { worker, .. } => ActorState::Alive { proc: *worker },
            Phase::Waiting | Phase::Starting { .. } if self.restarts == 0 => ActorState::Pending,
            _ => ActorState::Restarting,
        }
    }

    pub fn info(&self, state: ActorState) -> ActorInfo {
        ActorInfo {
            actor: self.spec.actor,
            name: self.spec.name.clone(),
            namespace: self.spec.namespace.clone(),
            class_name: self.spec.class_name.clone(),
            state,
            restarts: self.restarts,
            pid: self.pid,
            handle: self.spec.handle.clone(),
        }
    }

    /// The start of its present life.
    pub fn start(&self) -> Option<LeaseId> {
        match &self.phase {
            Phase::Waiting => None,
            Phase::Starting { start, .. } | Phase::Alive { start, .. } | Phase::Ending { start, .. } => {
                Some(*start)
            }
        }
    }

    /// For people: `Counter "name" (id)`.
    pub fn title(&self) -> String {
        let spec = &self.spec;
        let id = raymesh_wire::ids::hex(&spec.actor.to_ray_bytes(spec.job));
        if spec.name.is_empty() {
            format!("{} ({id})", spec.class_name)
        } else {
            format!("{} {:?} ({id})", spec.class_name, spec.name)
        }
    }
}

/// What others said of an actor before its creator's word arrived.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Early {
    pub watchers: BTreeSet<ProcId>,
    pub kill: Option<Kill>,
}

/// A `kill`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Kill {
    pub by: ProcId,
    pub no_restart: bool,
}

fn error_bytes(info: &ActorInfo) -> usize {
    match &info.state {
        ActorState::Dead { error } => error.payload.len(),
        _ => 0,
    }
}

/// All actors.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Actors {
    living: BTreeMap<ActorId, Actor>,
    dead: BTreeMap<ActorId, ActorInfo>,
    order: VecDeque<ActorId>,
    dead_bytes: usize,
    early: BTreeMap<ActorId, Early>,
}

impl Actors {
    pub fn get(&self, id: ActorId) -> Option<&Actor> {
        self.living.get(&id)
    }

    pub fn get_mut(&mut self, id: ActorId) -> Option<&mut Actor> {
        self.living.get_mut(&id)
    }

    pub fn insert(&mut self, actor: Actor) {
        self.living.insert(actor.spec.actor, actor);
    }

    pub fn remove(&mut self, id: ActorId) -> Option<Actor> {
        self.living.remove(&id)
    }

    pub fn living(&self) -> impl Iterator<Item = &Actor> {
        self.living.values()
    }

    pub fn dead(&self) -> impl Iterator<Item = &ActorInfo> {
        self.dead.values()
    }

    pub fn dead_info(&self, id: ActorId) -> Option<&ActorInfo> {
        self.dead.get(&id)
    }

    /// Remembers how it ended, until it is one of too many.
    pub fn bury(&mut self, mut info: ActorInfo) {
        // No new handles are made of it.
        info.handle = bytes::Bytes::new();
        let id = info.actor;
        self.dead_bytes += error_bytes(&info);
        match self.dead.insert(id, info) {
            None => self.order.push_back(id),
            Some(before) => self.dead_bytes -= error_bytes(&before),
        }
        // The latest stays, whatever it takes.
        while (self.order.len() > DEAD || self.dead_bytes > DEAD_BYTES) && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front().and_then(|oldest| self.dead.remove(&oldest)) else {
                break;
            };
            self.dead_bytes -= error_bytes(&oldest);
        }
    }

    pub fn early(&mut self, id: ActorId) -> &mut Early {
        self.early.entry(id).or_default()
    }

    pub fn take_early(&mut self, id: ActorId) -> Option<Early> {
        self.early.remove(&id)
    }

    /// Those that this process was to create.
    pub fn early_of(&self, creator: ProcId) -> Vec<ActorId> {
        let all = ActorId { creator, seq: 0 }..=ActorId { creator, seq: u32::MAX };
        self.early.range(all).map(|(id, _)| *id).collect()
    }
}
