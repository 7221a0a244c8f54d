//! Which call a process runs, noted where its agent finds it should the process die.
//!
//! Written by the process at the start and the end of each call, read by the agent after its death:
//! never by both at a time. What was stored before the process was killed is there, in order.

use raymesh_wire::control::LastCall;
use raymesh_wire::{ProcId, TaskId};

use crate::sync::{AtomicU64, Ordering};

const RUNNING: u64 = 1;

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub struct CallNote {
    owner: AtomicU64,
    /// The task's number, doubled, and whether it runs; 0: no call yet, or `owner` is being changed.
    call: AtomicU64,
}

impl CallNote {
    pub fn begin(&self, task: TaskId) {
        let owner = task.owner.as_u64();
        if self.owner.load(Ordering::Relaxed) != owner {
            // The order of the stores is all that counts.
            self.call.store(0, Ordering::Release);
            self.owner.store(owner, Ordering::Release);
        }
        self.call.store(task.seq << 1 | RUNNING, Ordering::Release);
    }

    pub fn end(&self, task: TaskId) {
        // Of calls that run at the same time only the last one is known.
        if self.read() == LastCall::Running(task) {
            self.call.store(task.seq << 1, Ordering::Release);
        }
    }

    pub fn read(&self) -> LastCall {
        let call = self.call.load(Ordering::Acquire);
        let owner = ProcId::from_u64(self.owner.load(Ordering::Acquire));
        let task = TaskId { owner, seq: call >> 1 };
        match call {
            0 => LastCall::None,
            call if call & RUNNING != 0 => LastCall::Running(task),
            _ => LastCall::Finished(task),
        }
    }

    pub fn clear(&self) {
        self.call.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
