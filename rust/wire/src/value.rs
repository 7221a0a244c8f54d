//! The value of an object as it travels between processes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::{HostId, ObjectId, ProcId};

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

/// Where the bytes of a large object lie. They stay there for as long as anybody holds the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub object: ObjectId,
    pub block: Block,
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

    /// Where it lies, if it is large.
    #[must_use]
    pub const fn block(&self) -> Option<Block> {
        match self {
            Self::Stored(block) => Some(*block),
            Self::Inline(_) | Self::Error(_) => None,
        }
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

    /// The same as the error of a call that has it as an argument. What user code raised stays as it is;
    /// a failure of the runtime becomes an [`ErrorKind::Argument`].
    #[must_use]
    pub fn of_argument(&self) -> Self {
        if matches!(self.kind, ErrorKind::Task | ErrorKind::ActorInit | ErrorKind::Argument) {
            return self.clone();
        }
        let mut payload = Vec::with_capacity(1 + self.payload.len());
        payload.push(self.kind.code());
        payload.extend_from_slice(&self.payload);
        Self { kind: ErrorKind::Argument, payload: Bytes::from(payload) }
    }

    /// The same as the death of an actor whose constructor was to have it as an argument.
    #[must_use]
    pub fn of_constructor_argument(&self) -> Self {
        match self.kind {
            ErrorKind::Task | ErrorKind::ActorInit => {
                Self { kind: ErrorKind::ActorInit, payload: self.payload.clone() }
            }
            _ => {
                let inner = self.argument();
                let text = String::from_utf8_lossy(&inner.as_ref().unwrap_or(self).payload).into_owned();
                Self::text(
                    ErrorKind::ActorDied,
                    format!("The actor was not made: an argument of its constructor failed: {text}"),
                )
            }
        }
    }

    /// The error inside an [`ErrorKind::Argument`].
    #[must_use]
    pub fn argument(&self) -> Option<Self> {
        let (code, _) = self.payload.split_first().filter(|_| self.kind == ErrorKind::Argument)?;
        Some(Self { kind: ErrorKind::from_code(*code)?, payload: self.payload.slice(1..) })
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
    /// The call's argument failed, otherwise than by user code: `RayTaskError` as an instance of that
    /// error's class. The payload is the code of its kind, then its payload.
    Argument,
    /// `NodeDiedError`.
    NodeDied,
    /// `ObjectReconstructionFailedError`. The first line of the payload is the reason, as Ray names it.
    Unrebuildable,
    /// `TaskPlacementGroupRemoved`.
    GroupRemoved,
    /// `ActorPlacementGroupRemoved`.
    ActorGroupRemoved,
}

/// Error kinds by their code on the wire: append only.
pub(crate) const ERROR_KINDS: [ErrorKind; 18] = [
    ErrorKind::Task,
    ErrorKind::ActorInit,
    ErrorKind::WorkerCrashed,
    ErrorKind::ActorDied,
    ErrorKind::ActorUnavailable,
    ErrorKind::ObjectLost,
    ErrorKind::OwnerDied,
    ErrorKind::StoreFull,
    ErrorKind::Cancelled,
    ErrorKind::Unschedulable,
    ErrorKind::ActorUnschedulable,
    ErrorKind::PendingCallsLimit,
    ErrorKind::System,
    ErrorKind::Argument,
    ErrorKind::NodeDied,
    ErrorKind::Unrebuildable,
    ErrorKind::GroupRemoved,
    ErrorKind::ActorGroupRemoved,
];

impl ErrorKind {
    /// Its code on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        // Every kind stands in the table; a test walks it.
        ERROR_KINDS.iter().position(|known| *known == self).unwrap_or(ERROR_KINDS.len() - 1) as u8
    }

    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        ERROR_KINDS.get(usize::from(code)).copied()
    }
}
