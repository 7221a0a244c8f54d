//! The controller of a cluster: one place, one consistent view, every decision.

use raymesh_wire::control::{FromHost, ToHost};
use raymesh_wire::{FromController, HostId, ProcId, ToController};

/// What happens to the controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A process says something. What one process says arrives in order.
    Message { from: ProcId, message: ToController },
    /// A host's agent says something, in order; `Joined` first.
    FromHost { host: HostId, message: FromHost },
    /// The host is gone with all its processes. It may return only under a new id.
    HostLost { host: HostId },
    /// [`Controller::next_deadline`] has come.
    Tick,
}

/// What the controller wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send { to: ProcId, message: FromController },
    ToHost { host: HostId, message: ToHost },
}

/// The controller's state.
#[derive(Debug, Default)]
pub struct Controller {}

impl Controller {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in one event and appends what follows from it.
    pub fn handle(&mut self, now: u64, event: Event, effects: &mut Vec<Effect>) {
        let _ = (now, event, effects);
    }

    /// When to call [`Self::handle`] with [`Event::Tick`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        None
    }
}
