//! What a process and the agent of its host say to each other: memory, and copies of what lies elsewhere.

use serde::{Deserialize, Serialize};

use crate::ids::{HostId, RequestId};
use crate::value::{Block, Place};

/// To the agent of the sender's host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// A worker is ready for work.
    Hello { pid: u32 },
    /// More shared memory, at least `bytes` in one piece. Answered by [`FromAgent::HeapGrown`].
    GrowHeap { request: RequestId, bytes: u64 },
    /// Whole extents that the sender's heap no longer uses.
    ShrinkHeap { extents: Vec<Extent> },
    /// The sender wants to read a block of another host, where the object lies. Answered by
    /// [`FromAgent::Pulled`]; the copy stays until [`ToAgent::Unneeded`].
    Pull { request: RequestId, place: Place },
    /// The sender reads the copy of that block no more, or does not wait for it any more.
    Unneeded { place: Place },
    /// From any process of the cluster: somebody here is about to need these, which lie elsewhere.
    Prefetch { places: Vec<Place> },
    /// Which hosts have the object's bytes. Answered by [`FromAgent::Located`].
    Locate { request: RequestId, place: Place },
}

/// From the agent of the receiver's host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    HeapGrown {
        request: RequestId,
        grown: Result<Extent, HeapFull>,
    },
    /// Memory is short: give back what is free.
    TrimHeap,
    /// Where the copy lies.
    Pulled {
        request: RequestId,
        copy: Result<Block, NoCopy>,
    },
    Located {
        request: RequestId,
        hosts: Vec<HostId>,
    },
}

/// Why there is no copy of a block of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoCopy {
    /// Its host is gone, and no other one has a copy.
    Lost,
    /// There is no room for it here.
    Full(HeapFull),
}

/// A stretch of a host's arena, leased to one process's heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    pub offset: u64,
    pub len: u64,
}

/// The arena has no such piece left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapFull {
    pub wanted: u64,
    pub free: u64,
    pub capacity: u64,
}
