//! The value of an object as it travels between processes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::{HostId, ProcId};

/// A piece of a host's object arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block {
    /// The process whose heap the piece was cut from and is given back to; its host's agent once
    /// that process has died.
    pub home: ProcId,
    /// Bytes from the start of the arena.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Block {
    /// The host whose memory this is.
    #[must_use]
    pub const fn host(&self) -> HostId {
        self.home.host()
    }
}

/// A finished object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Small: the serialized frame itself.
    Inline(Bytes),
    /// Large: the serialized frame in shared memory.
    Stored(Block),
    /// The task failed; whoever reads the object meets the error.
    Error(ErrorValue),
}

impl Value {
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorValue {
    pub kind: ErrorKind,
    /// [`ErrorKind::Task`] and [`ErrorKind::ActorInit`]: a serialized exception. Other kinds: UTF-8
    /// text for the user.
    pub payload: Bytes,
}

impl ErrorValue {
    #[must_use]
    pub fn text(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, payload: Bytes::from(text.into().into_bytes()) }
    }
}

/// Kinds of error values, each a class of `raymesh.exceptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// User code raised: `RayTaskError` as an instance of the cause.
    Task,
    /// The actor's constructor raised: `ActorDiedError` that shows the cause.
    ActorInit,
    /// `WorkerCrashedError`.
    WorkerCrashed,
    /// `ActorDiedError`.
    ActorDied,
    /// `ActorUnavailableError`.
    ActorUnavailable,
    /// `ObjectLostError`.
    ObjectLost,
    /// `OwnerDiedError`.
    OwnerDied,
    /// `ObjectStoreFullError`.
    StoreFull,
    /// `TaskCancelledError`.
    Cancelled,
    /// `TaskUnschedulableError`.
    Unschedulable,
    /// `ActorUnschedulableError`.
    ActorUnschedulable,
    /// `PendingCallsLimitExceeded`.
    PendingCallsLimit,
    /// `RaySystemError`: raymesh itself failed.
    System,
}
