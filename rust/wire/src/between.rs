//! Agents of two hosts. What processes of two hosts say to each other goes along the same way, in an
//! [envelope](crate::envelope).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::control::{FromHost, ToHost};
use crate::ids::{HostId, ProcId, RequestId};
use crate::value::Block;

/// From one host's agent to another's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Between {
    /// To the head: for the controller. Its words to one host, and those of a host to it, are numbered:
    /// they go on where they were when the head has been started again. `heard`: the last of the receiver's
    /// that has arrived, as in [`Between::Heard`].
    Up {
        number: u64,
        heard: u64,
        says: Up,
    },
    /// From the head: the controller's.
    Down {
        number: u64,
        heard: u64,
        says: Down,
    },
    /// Everything up to this number has arrived, and will not be forgotten.
    Heard {
        number: u64,
    },
    /// The first word to a head, and its answer: the last number that has arrived.
    Resume {
        heard: u64,
    },
    /// From the head, after [`Between::Resume`]: all hosts that live, but for the head.
    Roll {
        hosts: Vec<Neighbour>,
    },
    /// From the head: hosts that have joined, and such as are dead.
    Hosts {
        joined: Vec<Neighbour>,
        gone: Vec<HostId>,
    },
    /// To the head: the sender has something for `host`, which is the one to dial.
    Knock {
        host: HostId,
    },
    /// From the head: that host has knocked.
    Wanted {
        by: HostId,
    },
    /// To the head: nothing is heard of that host any more. `ended`: its system says that its process has ended.
    Unreachable {
        host: HostId,
        ended: bool,
    },
    /// Answered at once: what the receiver's processes have sent before arrives before the answer.
    Flush {
        request: RequestId,
    },
    Flushed {
        request: RequestId,
    },
    /// So many bytes of a block of the receiver's host, from `at` on.
    Fetch {
        request: RequestId,
        block: Block,
        at: u64,
        len: u32,
    },
    Chunk {
        request: RequestId,
        at: u64,
        bytes: Bytes,
    },
    /// Answer to [`Between::Fetch`]: there is no such block.
    NoBlock {
        request: RequestId,
    },
    /// To the host of a driver: what workers of its job have printed.
    Output {
        lines: Vec<Printed>,
    },
}

/// What a host has for the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Up {
    /// Of one of its processes: an encoded [`crate::Message::ToController`].
    Of {
        from: ProcId,
        message: Bytes,
    },
    Host(FromHost),
}

/// What the controller has for a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Down {
    /// For one of its processes: an encoded [`crate::Message::FromController`].
    To {
        to: ProcId,
        message: Bytes,
    },
    Host(ToHost),
}

/// A line that a worker printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    pub proc: ProcId,
    pub pid: u32,
    pub name: String,
    pub is_stderr: bool,
    pub text: String,
}

/// A host, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    pub host: HostId,
    /// Empty: it cannot be dialed.
    pub address: String,
}

/// What a host says of itself when it asks to be taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The port that it listens on; the head sees its address. 0: it cannot be dialed.
    pub port: u16,
}

/// What it is told then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// Who it is from now on.
    pub host: HostId,
    pub head: HostId,
    /// Milliseconds that hosts wait for a head that is gone.
    pub patience_ms: u64,
    /// The others, without the head.
    pub hosts: Vec<Neighbour>,
}
