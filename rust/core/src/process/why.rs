//! What a waiting process waits for, in words that help.

use bytes::Bytes;
use raymesh_wire::{ActorId, Call, CallTarget, ObjectId};

use super::Process;
use super::tasks::Route;

/// The call behind an object that is not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// `body`: what was made known of the function.
    Function {
        body: Bytes,
        standing: String,
    },
    Method {
        actor: ActorId,
        method: String,
        standing: String,
    },
}

impl Process {
    /// What will make `object`, if a call of this process does.
    #[must_use]
    pub fn awaited(&self, object: ObjectId) -> Option<Awaited> {
        if object.owner != self.me {
            return None;
        }
        let record = self.tasks.submitted.get(&object.seq)?;
        let standing = if record.missing > 0 {
            format!("It waits for {} of its arguments.", record.missing)
        } else {
            match record.route {
                Route::Shape(key) => self.leases.standing(key, object.seq),
                Route::Actor(actor) => self.actors.standing(actor, object.seq),
            }
        };
        Some(match &record.call.target {
            CallTarget::Function { function, .. } => {
                Awaited::Function { body: self.definition(*function).cloned().unwrap_or_default(), standing }
            }
            CallTarget::Method { actor, name } => {
                Awaited::Method { actor: *actor, method: name.clone(), standing }
            }
        })
    }

    /// What people call it.
    pub(super) fn name_of_call(&self, call: &Call) -> String {
        let body = match call.target {
            CallTarget::Function { function, .. } => self.definition(function),
            CallTarget::Method { .. } => None,
        };
        (self.name_of)(call, body.map_or(&[], |body| body))
    }

    /// Actors whose answers will make `objects`.
    pub(super) fn actors_behind(&self, objects: &[ObjectId]) -> Vec<ActorId> {
        let actor = |object: &ObjectId| match self.tasks.submitted.get(&object.seq)?.route {
            Route::Actor(actor) if object.owner == self.me => Some(actor),
            _ => None,
        };
        let mut actors: Vec<_> = objects.iter().filter_map(actor).collect();
        actors.sort_unstable();
        actors.dedup();
        actors
    }
}
