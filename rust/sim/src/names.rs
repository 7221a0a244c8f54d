//! Actors found by their names: who has found one can call it, whatever its creator does.

use raymesh_core::process::Process;
use raymesh_wire::control::ActorInfo;
use raymesh_wire::{ErrorKind, ErrorValue, Message, ObjectId, ProcId, RequestId, ToController};

use crate::node::CONTROLLER;
use crate::program::{Frame, Ref};
use crate::world::World;

impl World {
    pub fn look_up(&mut self, id: ProcId, frame: &mut Frame) {
        let name = format!("actor-{}", frame.below(3));
        let message = ToController::LookupActor { request: RequestId(0), name, namespace: String::new() };
        self.send_message(id, CONTROLLER, Message::ToController(message));
    }

    /// The program gets a handle, unless it has ended meanwhile or is that actor itself.
    pub fn found(&mut self, id: ProcId, info: &ActorInfo) {
        let handle = Ref { id: Process::actor_handle(info.actor), safe: false };
        let Some(node) = self.procs.get_mut(&id) else { return };
        self.stats.found += 1;
        match &mut node.frame {
            Some(frame) if node.actor != Some(info.actor) => {
                frame.refs.push(handle);
                frame.found.push(handle.id);
            }
            _ => self.drop_refs(id, &[handle]),
        }
    }

    /// A call that was made through a handle does not fail for want of handles.
    pub fn check_held(&mut self, id: ProcId, result: ObjectId, error: &ErrorValue) {
        let text = String::from_utf8_lossy(&error.payload);
        let unheld = error.kind == ErrorKind::ActorDied && text.contains("nobody held a handle to it.");
        // A call that runs again for its result, long after, may find the actor gone.
        let unheld = unheld && !text.contains("was to be called again");
        if let Some(actor) = self.called.get(&result).filter(|_| unheld).copied() {
            self.fail(format!("{id:?} calls {actor:?}, and is told: {text}"));
        }
    }
}
