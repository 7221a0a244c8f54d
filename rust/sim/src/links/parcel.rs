//! What goes over a link.

use raymesh_wire::between::Down;
use raymesh_wire::{HostId, RequestId};

use crate::world::{Node, Packet};

/// Somebody's mail on the wire.
#[derive(Clone, Debug)]
pub struct Mail {
    pub from: Node,
    pub to: Node,
    pub packet: Box<Packet>,
}

/// What goes over a link.
#[derive(Clone, Debug)]
pub enum Parcel {
    Mail(Mail),
    /// For the controller, and from it.
    Up {
        number: u64,
        heard: u64,
        says: Mail,
    },
    Down {
        number: u64,
        heard: u64,
        says: Down,
    },
    Heard(u64),
    /// The first word to a head, and its answer.
    Resume(u64),
    /// From the head, after that: who lives.
    Roll(Vec<HostId>),
    Flush(RequestId),
    Flushed(RequestId),
    /// The head has let that host in.
    Joined(HostId),
    /// The head has declared that host dead.
    Gone(HostId),
    /// To the head: nothing is heard of that host.
    Unreachable {
        host: HostId,
        ended: bool,
    },
}
