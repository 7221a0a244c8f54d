//! Open files: three a worker, and programs often start with a limit of 1,024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of the agent for one worker: two pipes and a pidfd.
const PER_WORKER: u64 = 3;

/// Raises the soft limit as workers come, and puts it back.
#[derive(Debug)]
pub struct OpenFiles {
    /// As the program had it; workers get this one.
    original: Rlimit,
    /// What was set last.
    raised: Option<u64>,
}

impl OpenFiles {
    pub fn new() -> Self {
        Self { original: getrlimit(Resource::Nofile), raised: None }
    }

    /// The soft limit that the program started with.
    pub fn original(&self) -> u64 {
        self.original.current.unwrap_or(libc::RLIM_INFINITY)
    }

    /// Makes sure that so many workers leave the program half of its descriptors.
    pub fn reserve(&mut self, workers: usize) {
        let Some(soft) = self.raised.or(self.original.current) else { return };
        let ours = (workers as u64 + 16) * PER_WORKER;
        if ours <= soft / 2 {
            return;
        }
        let wanted = (ours * 4).min(self.original.maximum.unwrap_or(u64::MAX));
        if wanted > soft && self.set(wanted) {
            self.raised = Some(wanted);
        }
    }

    /// Puts the limit back, unless the program has changed it since.
    pub fn restore(&mut self) {
        if let Some(raised) = self.raised.take()
            && getrlimit(Resource::Nofile).current == Some(raised)
        {
            let _ = setrlimit(Resource::Nofile, self.original);
        }
    }

    fn set(&self, soft: u64) -> bool {
        setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: self.original.maximum }).is_ok()
    }
}
