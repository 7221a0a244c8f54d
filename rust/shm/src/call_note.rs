//! Which call a process runs, noted where its agent finds it should the process die.
//!
//! Written by the process at the start and the end of each call, read by the agent after its death:
//! never by both at a time. What was stored before the process was killed is there, in order.

use raymesh_wire::control::LastCall;
use raymesh_wire::{ProcId, TaskId};

use crate::sync::{AtomicU64, Ordering};

const RUNNING: u64 = 1;

/// Words of a noted name: a longer one is cut.
const NAME_WORDS: usize = 8;

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub struct CallNote {
    owner: AtomicU64,
    /// The task's number, doubled, and whether it runs; 0: no call yet, or `owner` is being changed.
    call: AtomicU64,
    /// What the process's output is shown under; UTF-8, filled up with zeros. A reader may find parts of
    /// two names: good enough for a label.
    name: [AtomicU64; NAME_WORDS],
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

    pub fn set_name(&self, name: &str) {
        let mut bytes = [0; NAME_WORDS * 8];
        let len = name.len().min(bytes.len());
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        for (word, chunk) in self.name.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
    }

    pub fn name(&self) -> String {
        let bytes: Vec<u8> =
            self.name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    pub fn clear(&self) {
        self.call.store(0, Ordering::Release);
        self.set_name("");
    }
}

#[cfg(test)]
mod tests;
