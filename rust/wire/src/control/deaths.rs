//! How a process ends: what it is asked for, and what can be said of it afterwards.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;

/// Why a worker is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitReason {
    /// Idle for long.
    Retired,
    /// The last handle of its actor is gone.
    OutOfScope,
    /// The job ends.
    Shutdown,
    /// Its actor goes on elsewhere, because its host is drained: what it has not begun goes back to the callers.
    Moved,
}

/// The end of a process, and what can be said of its last moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    pub cause: DeathCause,
    /// 0: not known.
    pub pid: u32,
    pub last_call: LastCall,
    /// The last few lines that it printed; empty if it printed nothing or nobody knows.
    pub last_output: String,
    /// Of a lost host: which one, and why it is gone; empty if nobody knows.
    pub host: String,
}

impl From<DeathCause> for Death {
    /// A death of which no more than its cause is known.
    fn from(cause: DeathCause) -> Self {
        Self { cause, pid: 0, last_call: LastCall::Unknown, last_output: String::new(), host: String::new() }
    }
}

/// The last call that a process began on its main thread. Calls run in the order in which they arrive:
/// what arrived after it was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LastCall {
    Unknown,
    None,
    /// It had not ended.
    Running(TaskId),
    /// It had ended, and its reply was on its way.
    Finished(TaskId),
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeathCause {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    /// Asked to end by the runtime.
    Requested {
        reason: ExitReason,
    },
    /// `kill` of its actor.
    Killed,
    HostLost,
}
