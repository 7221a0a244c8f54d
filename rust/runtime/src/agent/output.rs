//! What workers print: from their pipes, in lines, to whoever shows them.
//!
//! - [`lines`]: bytes to lines; whose they are.
//! - [`last`]: what a process printed last.
//! - [`queue`]: from the agent's thread to the one that shows them.

mod last;
mod lines;
mod queue;

#[cfg(test)]
mod tests;

pub(super) use last::LastLines;
pub(super) use lines::{Lines, Unnamed};
pub(super) use queue::OutputQueue;
pub use queue::OutputReader;

use raymesh_wire::ProcId;

/// One line that a process printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// The worker; the agent itself for what a zygote has to say.
    pub proc: ProcId,
    pub pid: u32,
    /// The task or actor class that was running.
    pub name: String,
    pub is_stderr: bool,
    /// Of another host; empty for this one.
    pub ip: String,
    /// Without its end. Bytes that are no UTF-8 are replaced.
    pub text: String,
}
