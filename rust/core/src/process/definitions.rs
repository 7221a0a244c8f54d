//! Functions and classes that this process has made known: each as long as something here names it.
//!
//! Holders are the objects of the user's program that stand for one, calls until their reply, and actors until the
//! controller has been told to make them. The controller keeps it for all processes that have a holder.

use bytes::Bytes;
use foldhash::HashMap;
use raymesh_wire::{FunctionId, ToController};

use super::{Effect, Process};

#[derive(Debug, Default)]
struct Definition {
    holders: u32,
    /// None: never made known here, so nothing is to be taken back.
    body: Option<Bytes>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    held: HashMap<FunctionId, Definition>,
}

impl Definitions {
    pub(super) fn hold(&mut self, id: FunctionId) {
        self.held.entry(id).or_default().holders += 1;
    }

    pub(super) fn census(&self) -> [(&'static str, usize); 1] {
        [("functions and classes", self.held.len())]
    }
}

impl Process {
    /// Makes a function or class known to the cluster. The caller holds it once.
    pub fn define(&mut self, id: FunctionId, body: &Bytes, fx: &mut Vec<Effect>) {
        let definition = self.definitions.held.entry(id).or_default();
        definition.holders += 1;
        if definition.body.is_none() {
            definition.body = Some(body.clone());
            self.tell_controller(ToController::PutFunction { id, body: body.clone() }, fx);
        }
    }

    /// One holder less.
    pub fn undefine(&mut self, id: FunctionId, fx: &mut Vec<Effect>) {
        let Some(definition) = self.definitions.held.get_mut(&id) else { return };
        debug_assert!(definition.holders > 0, "{id:?} released more often than held");
        definition.holders = definition.holders.saturating_sub(1);
        if definition.holders > 0 {
            return;
        }
        if let Some(Definition { body: Some(_), .. }) = self.definitions.held.remove(&id) {
            self.tell_controller(ToController::DropFunction { id }, fx);
        }
    }

    /// What was made known under `id`, as long as something here names it.
    #[must_use]
    pub fn definition(&self, id: FunctionId) -> Option<&Bytes> {
        self.definitions.held.get(&id)?.body.as_ref()
    }
}
