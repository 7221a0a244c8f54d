//! Lines on their way from the agent's thread to the one that shows them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use raymesh_sys::fd::eventfd_signal;

use super::OutputLine;

/// More bytes than this waiting: the agent stops reading, so that the workers' pipes fill and they
/// wait, as they would for a slow terminal.
const HIGH: usize = 16 << 20;
/// Fewer than this: it goes on.
const LOW: usize = 4 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct OutputQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<OutputLine>,
    bytes: usize,
    /// The agent waits for room.
    full: bool,
    closed: bool,
}

impl OutputQueue {
    /// Appends. False: enough for now; [`Self::take`] will tell when to go on.
    pub fn push(&self, line: OutputLine) -> bool {
        let mut state = self.state.lock();
        state.bytes += cost(&line);
        state.lines.push_back(line);
        if state.bytes > HIGH {
            state.full = true;
        }
        self.changed.notify_one();
        !state.full
    }

    /// Whether the agent may read on.
    pub fn has_room(&self) -> bool {
        !self.state.lock().full
    }

    /// No more lines will come.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// All lines that there are, in order; waits for the first one up to `timeout`. None: closed, and
    /// everything was taken. The flag says that the agent waits to be told that there is room again.
    pub fn take(&self, timeout: Duration) -> (Option<Vec<OutputLine>>, bool) {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state.lock();
        while state.lines.is_empty() && !state.closed {
            match deadline {
                Some(deadline) if self.changed.wait_until(&mut state, deadline).timed_out() => break,
                Some(_) => {}
                None => self.changed.wait(&mut state),
            }
        }
        if state.lines.is_empty() && state.closed {
            return (None, false);
        }
        let mut lines = Vec::new();
        while let Some(line) = state.lines.pop_front() {
            state.bytes -= cost(&line);
            lines.push(line);
            if lines.len() == 4096 {
                break;
            }
        }
        let resume = state.full && state.bytes <= LOW;
        if resume {
            state.full = false;
        }
        (Some(lines), resume)
    }
}

/// The taking end, which outlives the agent: what was printed last is taken after its end.
#[derive(Clone, Debug)]
pub struct OutputReader {
    queue: Arc<OutputQueue>,
    /// Tells the agent that there is room.
    wake: Arc<OwnedFd>,
    /// The process that started the agent.
    pid: u32,
}

impl OutputReader {
    pub(in crate::agent) fn new(queue: Arc<OutputQueue>, wake: Arc<OwnedFd>) -> Self {
        Self { queue, wake, pid: std::process::id() }
    }

    /// What processes have printed since the last call; waits up to `timeout` for the first line.
    /// None: the agent has ended and everything was handed out, or this is a fork of the process that
    /// started it.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<Vec<OutputLine>> {
        if self.pid != std::process::id() {
            return None;
        }
        let (lines, resume) = self.queue.take(timeout);
        if resume {
            eventfd_signal(&*self.wake);
        }
        lines
    }

    /// Adds a line as if it had been printed.
    pub fn add(&self, line: OutputLine) {
        if self.pid == std::process::id() {
            self.queue.push(line);
        }
    }
}

fn cost(line: &OutputLine) -> usize {
    size_of::<OutputLine>() + line.text.len() + line.name.len()
}
