//! Process to process: calls and replies, object ownership, shared memory.
//!
//! Between two processes messages arrive in the order sent, each once. There is no order between
//! messages of different senders.

use bytes::Bytes;

use crate::between::Between;
use crate::control::{FromAgent, FromController, ToAgent, ToController};
use crate::ids::{ActorId, FunctionId, LeaseId, ObjectId, ProcId, TaskId};
use crate::value::{Block, Place, Value};

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Caller to worker: run this.
    Call(Box<Call>),
    /// Worker to caller: how it ended.
    Reply(Box<Reply>),
    /// Borrower to owner: tell me the value of `object` once there is one.
    Want {
        object: ObjectId,
    },
    /// Owner to borrower, in answer to [`Message::Want`].
    Value {
        object: ObjectId,
        value: Value,
        refs: Vec<ObjectId>,
        /// As [`Call::places`], of `refs`.
        places: Vec<Place>,
    },
    /// To the owner of these objects: `ProcId` holds one more reference to each, registered through the
    /// sender.
    Borrow {
        holds: Vec<(ObjectId, ProcId)>,
    },
    /// Borrower to owner: gives back so many references that were registered through that process (the
    /// owner, where it did so itself).
    Release {
        holds: Vec<(ObjectId, ProcId, u32)>,
    },
    /// Caller to worker: hand back at most `max` calls of `lease` that have not started, newest first.
    Recall {
        lease: LeaseId,
        max: u32,
    },
    /// Worker to caller: these calls of `lease` did not run and will not. Also sent unasked by a
    /// worker that blocks.
    Recalled {
        lease: LeaseId,
        tasks: Vec<TaskId>,
    },
    /// To the home of these blocks: nobody reads them any more.
    FreeBlocks {
        blocks: Vec<Block>,
    },
    ToController(ToController),
    FromController(FromController),
    ToAgent(ToAgent),
    FromAgent(FromAgent),
    Between(Between),
    /// Borrower to owner: the bytes of `object` that lay in `block` are nowhere any more. Answered as
    /// [`Message::Want`], with another value.
    Lost {
        object: ObjectId,
        block: Block,
    },
}

/// What a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallTarget {
    /// A remote function, on a leased worker.
    Function { lease: LeaseId, function: FunctionId },
    /// A method of the actor that lives in the worker.
    Method { actor: ActorId, name: String },
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub task: TaskId,
    /// 0 at first, then counts the retries.
    pub attempt: u32,
    pub target: CallTarget,
    /// How many objects the caller awaits.
    pub num_returns: u32,
    /// The serialized positional and keyword arguments.
    pub args: Value,
    /// The object that holds `args` when they are [`Value::Stored`]: readers of its memory hold it.
    pub args_object: Option<ObjectId>,
    /// Values of the references passed as arguments themselves, in the order of their placeholders.
    pub deps: Vec<(ObjectId, Value)>,
    /// References inside arguments, then those inside the values of `deps`. The caller holds them, and
    /// `deps`, until the reply.
    pub refs: Vec<ObjectId>,
    /// How many of the last `refs` are inside the value of each of `deps`, in their order.
    pub dep_refs: Vec<u32>,
    /// Where those of `refs` lie of which the sender knows it, and which have no references inside: no
    /// need to ask their owners, who may be dead by then.
    pub places: Vec<Place>,
    /// Opaque options for the executing side (concurrency group, tracing), possibly empty.
    pub options: Bytes,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    Ok,
    /// User code raised; every return is the error.
    Raised,
    /// As `Raised`, and the caller's `retry_exceptions` names the exception's class.
    RaisedRetryable,
    /// The runtime could not run it (arguments gone, function unknown); every return is the error.
    Failed,
}

/// A call's end.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub task: TaskId,
    pub attempt: u32,
    pub status: ReplyStatus,
    /// Time in user code, in microseconds.
    pub exec_us: u32,
    pub returns: Vec<Return>,
    /// References of the call (`deps`, `refs`, `args_object`) that the worker still holds: from now
    /// on it is their borrower, registered once more for each mention.
    pub holds: Vec<ObjectId>,
    /// As [`Call::places`], of what is inside `returns`.
    pub places: Vec<Place>,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    pub value: Value,
    /// References inside the value. The worker has registered the caller with their owners.
    pub refs: Vec<ObjectId>,
}
