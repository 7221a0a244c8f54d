//! Pickled functions and classes by content hash: who holds them, and who waits for one that nobody has put.
//!
//! One is kept for the processes that hold it (see [`crate::process`]), and for the actors that may yet be made
//! of it, also again.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use raymesh_wire::{ActorId, FromController, FunctionId, ProcId, RequestId};
use serde::{Deserialize, Serialize};

use super::{Effects, send};

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    body: Bytes,
    holders: BTreeSet<ProcId>,
    actors: BTreeSet<ActorId>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Functions {
    kept: BTreeMap<FunctionId, Kept>,
    waiting: BTreeMap<FunctionId, BTreeSet<(ProcId, RequestId)>>,
}

impl Functions {
    pub fn put(&mut self, from: ProcId, id: FunctionId, body: Bytes, effects: &mut Effects) {
        for (proc, request) in self.waiting.remove(&id).unwrap_or_default() {
            send(effects, proc, FromController::Function { request, id, body: body.clone() });
        }
        let new = || Kept { body, holders: BTreeSet::new(), actors: BTreeSet::new() };
        self.kept.entry(id).or_insert_with(new).holders.insert(from);
    }

    /// `from` holds it no longer.
    pub fn give_up(&mut self, from: ProcId, id: FunctionId) {
        self.update(id, |kept| kept.holders.remove(&from));
    }

    /// The actor is to be made of it.
    pub fn needed(&mut self, id: FunctionId, by: ActorId) {
        self.update(id, |kept| kept.actors.insert(by));
    }

    /// The actor will not be made of it again.
    pub fn not_needed(&mut self, id: FunctionId, by: ActorId) {
        self.update(id, |kept| kept.actors.remove(&by));
    }

    fn update(&mut self, id: FunctionId, change: impl FnOnce(&mut Kept) -> bool) {
        let Some(kept) = self.kept.get_mut(&id) else { return };
        change(kept);
        if kept.holders.is_empty() && kept.actors.is_empty() {
            self.kept.remove(&id);
        }
    }

    /// Answers now, or once somebody puts it; whether it has to wait.
    pub fn get(&mut self, from: ProcId, request: RequestId, id: FunctionId, effects: &mut Effects) -> bool {
        if let Some(kept) = self.kept.get(&id) {
            send(effects, from, FromController::Function { request, id, body: kept.body.clone() });
            return false;
        }
        self.waiting.entry(id).or_default().insert((from, request));
        true
    }

    /// The process has died and waits no more.
    pub fn forget(&mut self, proc: ProcId, id: FunctionId) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.retain(|(it, _)| *it != proc);
            if waiting.is_empty() {
                self.waiting.remove(&id);
            }
        }
    }

    /// How many are kept, and how many are waited for.
    pub fn count(&self) -> (usize, usize) {
        (self.kept.len(), self.waiting.len())
    }
}
