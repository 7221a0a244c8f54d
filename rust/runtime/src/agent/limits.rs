//! Open files: three a worker, and programs often start with a limit of 1,024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of the agent for one worker: two pipes and a pidfd.
const PER_WORKER: u64 = 3;
/// So many are left to the program: its next import needs one.
const LEFT: u64 = 24;

/// Why no worker is started, and what to do.
pub fn too_many_open() -> String {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(libc::RLIM_INFINITY);
    format!(
        "the driver has too many open files (a worker takes {PER_WORKER} descriptors, the limit is {limit}): raise the \
         hard limit (ulimit -Hn; LimitNOFILE= of a service; --ulimit nofile= of a container), or keep fewer actors \
         at a time"
    )
}

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

    /// Whether a descriptor with this number leaves too few others.
    pub fn is_last(&self, fd: i32) -> bool {
        let limit = self.raised.or(self.original.current).unwrap_or(u64::MAX);
        u64::try_from(fd).unwrap_or(0) + LEFT >= limit
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
