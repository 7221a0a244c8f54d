//! Agents of two hosts. What processes of two hosts say to each other goes along the same way, in an
//! [envelope](crate::envelope).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::control::{FromHost, ToHost};
use crate::ids::{HostId, ProcId, RequestId};
use crate::value::Place;

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
    /// These pieces of an object that lies in a block, for which the sender makes a copy: first and count, in
    /// pieces of [`PIECE`]. The receiver has the block or a copy of it. It sends them by lanes, under the
    /// request's number. `avoid`: who was to have a copy and has none.
    Fetch {
        request: RequestId,
        place: Place,
        pieces: Vec<(u32, u32)>,
        avoid: Option<HostId>,
    },
    /// What is left of that request is not wanted any more.
    Unfetch {
        request: RequestId,
    },
    /// Answer to [`Between::Fetch`]: it is not here (any more).
    NoBlock {
        request: RequestId,
    },
    /// To the host of a driver: what workers of its job have printed.
    Output {
        lines: Vec<Printed>,
    },
    /// Answer to [`Between::Fetch`] from the block's host: others get it from here at present; that host has it,
    /// or is getting it.
    Elsewhere {
        request: RequestId,
        host: HostId,
    },
    /// To the block's host: the sender has a whole copy.
    Copied {
        place: Place,
    },
    /// To the block's host: the sender has no copy any more.
    Dropped {
        place: Place,
    },
    /// Answered by [`Between::Sought`].
    Seek {
        request: RequestId,
        place: Place,
    },
    /// Whether the sender has the bytes of that place, all of them.
    Sought {
        request: RequestId,
        has: bool,
    },
    /// Dial so many connections on which the sender of this can send large things.
    DialLanes {
        count: u32,
    },
    /// One on which the sender sent has broken: ask again for what is missing.
    LaneLost,
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

/// Large objects travel in pieces of so many bytes; the last one has the rest.
pub const PIECE: u64 = 1 << 20;

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
    /// The head did not answer where the receiver had said that it is: say it again when it is heard of.
    pub unreached: bool,
}

/// What it is told then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinAnswer {
    In(Admission),
    /// By a host that is not the head: ask that one.
    Ask(HeadAt),
}

/// Where the head is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadAt {
    /// As the host sees it that says so.
    pub address: String,
    /// What the head's certificate must hash to. None: links are not encrypted.
    pub fingerprint: Option<[u8; 32]>,
    /// The head is not there at present; the cluster waits for it.
    pub away: bool,
}

/// A host is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Who it is from now on.
    pub host: HostId,
    pub head: HostId,
    /// Milliseconds that hosts wait for a head that is gone.
    pub patience_ms: u64,
    /// The others, without the head.
    pub hosts: Vec<Neighbour>,
}
