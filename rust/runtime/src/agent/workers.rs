//! Worker processes, from fork to burial.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use raymesh_core::host;
use raymesh_sys::process::pidfd_kill;
use raymesh_wire::ProcId;
use raymesh_wire::control::{Death, DeathCause};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::barriers::Word;
use super::limits;
use super::nursery::{self, Fork, News};
use super::poll::{Source, Token};
use super::run::{Runner, Todo};
use super::streams::{self, Origin};
use super::sweep::kill_left_behind;

/// The zygote reports how a worker ended this soon after the kernel has told that it did.
const REPORT: u64 = 2_000_000_000;
/// Workers whose zygote was killed are killed by the kernel within this time.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// A worker process, wanted or living.
#[derive(Debug, Default)]
pub struct Worker {
    /// None: not forked yet, as far as is known.
    pub pid: Option<u32>,
    pub pidfd: Option<(OwnedFd, Token)>,
    /// Its own word for its pid, which may come before the zygote's.
    pub greeted: Option<u32>,
    /// Reading ends, until its pid is known.
    streams: Option<[OwnedFd; 2]>,
    /// To be killed as soon as there is something to kill.
    doomed: bool,
    /// It has ended, and how is to be known by then.
    ended: Option<u64>,
}

impl Runner {
    pub(super) fn fork(&mut self, proc: ProcId) {
        if let Err(reason) = self.try_fork(proc) {
            self.not_forked(proc, reason);
        }
    }

    fn try_fork(&mut self, proc: ProcId) -> Result<(), String> {
        self.segment.open_mailbox(proc).map_err(|error| error.to_string())?;
        let mut worker = Worker::default();
        let mut theirs = None;
        if self.config.capture_output {
            self.limits.reserve(self.workers.len() + 1);
            let pipe = || {
                streams::pipe().map_err(|error| match error.raw_os_error() {
                    Some(libc::EMFILE) => limits::too_many_open(),
                    _ => format!("no pipe for a worker's output: {error}"),
                })
            };
            let ((out, their_out), (err, their_err)) = (pipe()?, pipe()?);
            // Numbers are given out from the lowest: what is close to the limit is one of the last.
            if self.limits.is_last(their_err.as_raw_fd()) {
                return Err(limits::too_many_open());
            }
            worker.streams = Some([out, err]);
            theirs = Some([their_out, their_err]);
        }
        self.workers.insert(proc, worker);
        self.nursery.fork(Fork { proc, streams: theirs });
        Ok(())
    }

    fn not_forked(&mut self, proc: ProcId, reason: String) {
        self.workers.remove(&proc);
        self.segment.close_mailbox(proc);
        self.todo.push_back(Todo::Host(host::Event::ForkFailed { proc, reason }));
    }

    fn forked(&mut self, proc: ProcId, pid: u32, pidfd: OwnedFd) {
        let Some(worker) = self.workers.get_mut(&proc) else { return };
        worker.pid = Some(pid);
        for (fd, is_stderr) in worker.streams.take().into_iter().flatten().zip([false, true]) {
            let origin = Origin { proc, pid, is_stderr };
            // Refused only for want of memory: then this output is lost, not the program.
            let segment = Arc::clone(&self.segment);
            let unnamed = Box::new(move || match segment.noted_name(proc) {
                none if none.is_empty() => "worker".to_owned(),
                name => name,
            });
            let _ = self.streams.add(&mut self.poller, fd, origin, unnamed);
        }
        if worker.doomed || self.stopping {
            let _ = pidfd_kill(&pidfd);
        }
        if let Ok(token) = self.poller.add(&pidfd, Source::Worker(proc)) {
            worker.pidfd = Some((pidfd, token));
        }
        self.todo.push_back(Todo::Host(host::Event::Forked { proc, pid }));
    }

    pub(super) fn kill(&mut self, proc: ProcId) {
        if let Some(worker) = self.workers.get_mut(&proc) {
            worker.doomed = true;
            if let Some((pidfd, _)) = &worker.pidfd {
                let _ = pidfd_kill(pidfd);
            }
        }
    }

    /// The kernel says that the worker has ended. How, its zygote will say.
    pub(super) fn worker_ended(&mut self, proc: ProcId) {
        let Some(worker) = self.workers.get_mut(&proc) else { return };
        if let Some((pidfd, token)) = worker.pidfd.take() {
            self.poller.remove(token, &pidfd);
        }
        if worker.pid.is_some_and(|pid| self.nursery.watches(pid)) {
            worker.ended = Some(self.clock.now() + REPORT);
        } else {
            self.bury(proc, DeathCause::Signaled { signal: libc::SIGKILL });
        }
    }

    pub(super) fn next_burial(&self) -> Option<u64> {
        self.workers.values().filter_map(|worker| worker.ended).min()
    }

    /// Workers whose zygote does not say how they ended.
    pub(super) fn bury_overdue(&mut self, now: u64) {
        let overdue = self.workers.iter().filter(|(_, worker)| worker.ended.is_some_and(|at| at <= now));
        let overdue: Vec<ProcId> = overdue.map(|(proc, _)| *proc).collect();
        for proc in overdue {
            self.bury(proc, DeathCause::Exited { code: -1 });
        }
    }

    /// The process is dead. Everything it said is heard before anybody learns of it.
    fn bury(&mut self, proc: ProcId, cause: DeathCause) {
        let Some(worker) = self.workers.remove(&proc) else { return };
        if let Some((pidfd, token)) = worker.pidfd {
            self.poller.remove(token, &pidfd);
        }
        self.streams.drain(&mut self.poller, |origin| origin.proc == proc);
        let death = Death {
            cause,
            pid: worker.pid.or(worker.greeted).unwrap_or(0),
            last_call: self.segment.last_call(proc),
            last_output: self.streams.take_last(proc),
            host: String::new(),
        };
        self.segment.release_locks_of(proc);
        self.drain_mail();
        self.endpoint.forget_sender(proc);
        self.segment.close_mailbox(proc);
        self.forget_user(proc);
        let memory = self.memory.forget(proc);
        let under_way = self.is_under_way();
        self.todo.push_back(Todo::Host(host::Event::ProcDied { proc, death, memory, under_way }));
        if under_way {
            self.say_afterwards(Word::Heard(proc));
        }
    }

    /// Takes in what a zygote reports.
    pub(super) fn hear_zygote(&mut self, key: nursery::Key) {
        let now = self.clock.now();
        while let Some(heard) = self.nursery.receive(key, now) {
            match heard {
                nursery::Heard::Nothing => {}
                nursery::Heard::News(news) => self.take_in(news),
                nursery::Heard::End => return self.zygote_gone(key),
            }
        }
        let procs = self.nursery.take_outdated();
        if !procs.is_empty() {
            self.todo.push_back(Todo::Host(host::Event::Outdated { procs }));
        }
    }

    fn take_in(&mut self, news: News) {
        match news {
            News::Forked { proc, pid, pidfd } => self.forked(proc, pid, pidfd),
            News::NotForked { proc, reason } => self.not_forked(proc, reason),
            News::Died { proc, status } => self.bury(proc, cause_of(status)),
        }
    }

    /// The zygote has ended, and with it, by the kernel's hand, its workers.
    pub(super) fn zygote_gone(&mut self, key: nursery::Key) {
        if let Some((reports, end)) = self.zygote_tokens.remove(&key) {
            if let Some(control) = self.nursery.control(key) {
                self.poller.remove(reports, control);
            }
            if let Some(pidfd) = self.nursery.pidfd(key) {
                self.poller.remove(end, pidfd);
            }
        }
        let Some(lost) = self.nursery.gone(key) else { return };
        let mut pids: BTreeSet<u32> = lost.workers.keys().copied().collect();
        self.await_end_of(&lost.workers);
        for proc in lost.in_flight {
            // It may have come to be without the zygote's having said so; then it ended with it.
            match self.workers.get(&proc).and_then(|worker| worker.greeted) {
                Some(pid) => {
                    pids.insert(pid);
                    self.todo.push_back(Todo::Host(host::Event::Forked { proc, pid }));
                    self.bury(proc, DeathCause::Signaled { signal: libc::SIGKILL });
                }
                None => self.not_forked(proc, "the process that forks workers was killed".to_owned()),
            }
        }
        for proc in lost.workers.into_values() {
            self.bury(proc, DeathCause::Signaled { signal: libc::SIGKILL });
        }
        if !pids.is_empty() {
            kill_left_behind(&pids);
        }
    }

    /// Waits until these are dead; they are dying.
    fn await_end_of(&self, workers: &BTreeMap<u32, ProcId>) {
        let limit = self.clock.now() + crate::clock::nanos(LAST_BREATH);
        for proc in workers.values() {
            let Some((pidfd, _)) = self.workers.get(proc).and_then(|worker| worker.pidfd.as_ref()) else {
                continue;
            };
            let _ = pidfd_kill(pidfd);
            let left = Duration::from_nanos(limit.saturating_sub(self.clock.now()));
            let timeout = Timespec::try_from(left).ok();
            let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], timeout.as_ref());
        }
    }

    /// Nothing more is started.
    pub(super) fn abandon_forks(&mut self) {
        for proc in self.nursery.abandon() {
            self.workers.remove(&proc);
        }
    }

    pub(super) fn tend_nursery(&mut self) {
        if self.stopping {
            return;
        }
        let now = self.clock.now();
        let mut news = Vec::new();
        let (nursery, mut nest) = self.nest();
        nursery.tend(now, &mut nest, &mut news);
        for news in news {
            self.take_in(news);
        }
    }
}

/// From the status that `wait` gives.
fn cause_of(status: i32) -> DeathCause {
    match status & 0x7f {
        0 => DeathCause::Exited { code: (status >> 8) & 0xff },
        signal => DeathCause::Signaled { signal },
    }
}
