//! Pickled functions and classes by content hash, and who waits for one that nobody has put yet.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use raymesh_wire::{FromController, FunctionId, ProcId, RequestId};

use super::{Effects, send};

#[derive(Debug, Default)]
pub(super) struct Functions {
    bodies: BTreeMap<FunctionId, Bytes>,
    waiting: BTreeMap<FunctionId, BTreeSet<(ProcId, RequestId)>>,
}

impl Functions {
    pub fn put(&mut self, id: FunctionId, body: Bytes, effects: &mut Effects) {
        for (proc, request) in self.waiting.remove(&id).unwrap_or_default() {
            send(effects, proc, FromController::Function { request, id, body: body.clone() });
        }
        self.bodies.insert(id, body);
    }

    /// Answers now, or once somebody puts it; whether it has to wait.
    pub fn get(&mut self, from: ProcId, request: RequestId, id: FunctionId, effects: &mut Effects) -> bool {
        if let Some(body) = self.bodies.get(&id) {
            send(effects, from, FromController::Function { request, id, body: body.clone() });
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
}
