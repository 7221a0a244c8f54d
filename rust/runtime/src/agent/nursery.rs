//! Which zygote forks the next worker, and which modules zygotes import ahead.
//!
//! There is always one zygote to fork from. Modules are never imported into a zygote that has
//! workers, since an import can crash, hang, or start threads: another zygote is started for it,
//! takes over once it is warm and known to be sound, and the former one ends with its last worker.
//! Workers of the former one that have run nothing are then replaced ([`Nursery::take_outdated`]).
//!
//! While a zygote is warming, the cold one forks no more workers than there are cores: more would
//! only compete with the warming for them, each importing the same modules for itself.

mod warming;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use raymesh_wire::ProcId;

use super::limits;
use super::zygote::{Report, Zygote};
use warming::Warming;

/// Names a zygote; larger for a later one.
pub type Key = u64;

/// Forks sent to one zygote and not yet answered.
const MAX_IN_FLIGHT: usize = 32;
/// Zygotes that end before they are ready, one after the other, until forks fail.
const MAX_FAILURES: u32 = 3;

/// What the nursery needs from outside to start a zygote: the process and its standard error, which
/// becomes one of the agent's streams.
pub trait Spawn {
    fn spawn(&mut self, key: Key) -> io::Result<Zygote>;
}

/// What a report means for the agent.
#[derive(Debug)]
pub enum News {
    Forked { proc: ProcId, pid: u32, pidfd: OwnedFd },
    NotForked { proc: ProcId, reason: String },
    Died { proc: ProcId, status: i32 },
}

/// What a zygote had to say.
#[derive(Debug)]
pub enum Heard {
    /// It concerns only the nursery.
    Nothing,
    News(News),
    /// Nothing more: it has ended. Tell [`Nursery::gone`].
    End,
}

/// Who was lost with a zygote.
#[derive(Debug)]
pub struct Lost {
    pub workers: BTreeMap<u32, ProcId>,
    /// Asked for; may have come to be.
    pub in_flight: BTreeSet<ProcId>,
}

/// A fork that waits for a zygote.
#[derive(Debug)]
pub struct Fork {
    pub proc: ProcId,
    /// Pipes for standard output and error, if wanted.
    pub streams: Option<[OwnedFd; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    /// Imports; `sound` until it reports otherwise.
    Warming,
    Ready,
    /// Told to end.
    Ending,
}

#[derive(Debug)]
struct Entry {
    zygote: Zygote,
    stage: Stage,
    /// What it is to import before it forks. Empty: nothing, it is a cold one.
    modules: Vec<String>,
    importing: String,
    in_flight: BTreeSet<ProcId>,
    workers: BTreeMap<u32, ProcId>,
}

/// See the module.
#[derive(Debug)]
pub struct Nursery {
    entries: BTreeMap<Key, Entry>,
    next_key: Key,
    waiting: VecDeque<Fork>,
    warming: Warming,
    /// What every zygote may import.
    early: Vec<String>,
    /// There is always one, also before anything is to be forked.
    eager: bool,
    failures: u32,
    /// Last words of a zygote that ended before it was ready.
    last_words: String,
    /// Workers of zygotes that a warmer one has replaced lately.
    outdated: Vec<ProcId>,
}

impl Nursery {
    pub fn new(cores: usize, preload: bool) -> Self {
        Self {
            entries: BTreeMap::new(),
            next_key: 1,
            waiting: VecDeque::new(),
            warming: Warming::new(cores, preload),
            early: Vec::new(),
            eager: false,
            failures: 0,
            last_words: String::new(),
            outdated: Vec::new(),
        }
    }

    /// Starts a zygote that imports nothing ahead.
    pub fn start(&mut self, spawn: &mut dyn Spawn) -> io::Result<()> {
        self.eager = true;
        self.spawn(Vec::new(), spawn)
    }

    fn spawn(&mut self, modules: Vec<String>, spawn: &mut dyn Spawn) -> io::Result<()> {
        let key = self.next_key;
        self.next_key += 1;
        let zygote = spawn.spawn(key)?;
        zygote.import_early(&self.early)?;
        let (importing, in_flight, workers) = (String::new(), BTreeSet::new(), BTreeMap::new());
        let entry = Entry { zygote, stage: Stage::Starting, modules, importing, in_flight, workers };
        self.entries.insert(key, entry);
        Ok(())
    }

    /// Wants a worker forked. Answered by [`News`].
    pub fn fork(&mut self, fork: Fork) {
        self.waiting.push_back(fork);
    }

    /// Wants these imported ahead, some time soon.
    pub fn preload(&mut self, modules: Vec<String>, now: u64) {
        self.warming.want(modules, now);
    }

    /// Such as every zygote may import, also one with workers: quick, and without effects.
    pub fn import_early(&mut self, modules: Vec<String>) {
        for entry in self.entries.values().filter(|entry| entry.stage != Stage::Ending) {
            let _ = entry.zygote.import_early(&modules);
        }
        self.early.extend(modules);
    }

    /// Something that a zygote wrote to its standard error.
    pub fn said(&mut self, line: &str) {
        line.clone_into(&mut self.last_words);
    }

    pub fn control(&self, key: Key) -> Option<BorrowedFd<'_>> {
        Some(self.entries.get(&key)?.zygote.control())
    }

    pub fn pidfd(&self, key: Key) -> Option<BorrowedFd<'_>> {
        Some(self.entries.get(&key)?.zygote.pidfd())
    }

    /// Whether a zygote is left that will report the end of this worker.
    pub fn watches(&self, pid: u32) -> bool {
        self.entries.values().any(|entry| entry.workers.contains_key(&pid))
    }

    /// Next thing that a zygote reports, if there is any.
    pub fn receive(&mut self, key: Key, now: u64) -> Option<Heard> {
        match self.entries.get(&key)?.zygote.receive()? {
            Report::Gone => Some(Heard::End),
            report => Some(self.take_in(key, report, now).map_or(Heard::Nothing, Heard::News)),
        }
    }

    fn take_in(&mut self, key: Key, report: Report, now: u64) -> Option<News> {
        let entry = self.entries.get_mut(&key)?;
        match report {
            Report::Ready => {
                self.failures = 0;
                if entry.stage == Stage::Starting && !entry.modules.is_empty() {
                    entry.stage = Stage::Warming;
                    let _ = entry.zygote.preload(&entry.modules);
                } else if entry.stage != Stage::Ending {
                    entry.stage = Stage::Ready;
                    if self.warming.ready(key, now) {
                        self.outdate(key);
                    }
                }
                None
            }
            Report::Importing(module) => {
                entry.importing = module;
                None
            }
            Report::NotImported { module, reason } => {
                self.warming.leave_out(&module, reason);
                None
            }
            Report::Unsound { module, reason } => {
                entry.zygote.kill();
                entry.stage = Stage::Ending;
                self.warming.failed(key, &module, reason);
                None
            }
            Report::Forked { proc, pid, pidfd } => {
                entry.in_flight.remove(&proc);
                entry.workers.insert(pid, proc);
                Some(News::Forked { proc, pid, pidfd })
            }
            Report::Unheld { proc, pid } => {
                entry.in_flight.remove(&proc);
                entry.zygote.kill_worker(pid);
                Some(News::NotForked { proc, reason: limits::too_many_open() })
            }
            Report::NotForked { proc, error } => {
                entry.in_flight.remove(&proc);
                Some(News::NotForked { proc, reason: format!("cannot fork a worker: {error}") })
            }
            Report::Exited { pid, status } => {
                let proc = entry.workers.remove(&pid)?;
                Some(News::Died { proc, status })
            }
            Report::Gone => None,
        }
    }

    /// Workers of zygotes before this one lack modules.
    fn outdate(&mut self, key: Key) {
        for (_, entry) in self.entries.range(..key) {
            self.outdated.extend(entry.workers.values().chain(&entry.in_flight));
        }
    }

    /// Workers that lack modules which later ones have. Told once.
    pub fn take_outdated(&mut self) -> Vec<ProcId> {
        std::mem::take(&mut self.outdated)
    }

    /// The zygote's socket or process has come to its end; its workers are ending by the kernel's hand.
    pub fn gone(&mut self, key: Key) -> Option<Lost> {
        let mut entry = self.entries.remove(&key)?;
        entry.zygote.kill();
        entry.zygote.reap();
        match entry.stage {
            Stage::Warming => {
                self.warming.failed(key, &entry.importing, "the import ended the process".to_owned());
            }
            Stage::Starting => {
                self.warming.failed(key, "", String::new());
                self.failures += 1;
            }
            Stage::Ready | Stage::Ending => {}
        }
        Some(Lost { workers: entry.workers, in_flight: entry.in_flight })
    }

    /// Hands waiting forks to zygotes, and starts and ends zygotes as needed. Appends forks that are
    /// given up.
    pub fn tend(&mut self, now: u64, spawn: &mut dyn Spawn, news: &mut Vec<News>) {
        let usable = self.entries.values().any(|entry| matches!(entry.stage, Stage::Starting | Stage::Ready));
        if !usable && (self.eager || !self.waiting.is_empty()) {
            self.replace(spawn, news);
        }
        self.hand_out(news);
        self.warm(now, spawn);
        self.end_former();
    }

    /// The last usable zygote is gone.
    fn replace(&mut self, spawn: &mut dyn Spawn, news: &mut Vec<News>) {
        let mut reason = format!(
            "the process that forks workers ended {} times at its start; last it said: {}",
            self.failures, self.last_words
        );
        if self.failures < MAX_FAILURES {
            match self.start(spawn) {
                Ok(()) => return,
                Err(error) => reason = format!("cannot start the process that forks workers: {error}"),
            }
        } else if !self.waiting.is_empty() {
            // Each further wish for a worker is one more try.
            self.failures = MAX_FAILURES - 1;
        }
        let failed = self.waiting.drain(..);
        news.extend(failed.map(|fork| News::NotForked { proc: fork.proc, reason: reason.clone() }));
    }

    fn hand_out(&mut self, news: &mut Vec<News>) {
        let Some((key, entry)) = self.entries.iter_mut().rfind(|(_, entry)| entry.stage == Stage::Ready)
        else {
            return;
        };
        while entry.in_flight.len() < MAX_IN_FLIGHT && self.warming.allows(*key) {
            let Some(fork) = self.waiting.pop_front() else { return };
            let streams: Vec<BorrowedFd<'_>> = fork.streams.iter().flatten().map(AsFd::as_fd).collect();
            match entry.zygote.fork(fork.proc, &streams) {
                Ok(()) => {
                    entry.in_flight.insert(fork.proc);
                    self.warming.forked(*key);
                }
                // Room comes with its next report.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !entry.in_flight.is_empty() => {
                    self.waiting.push_front(fork);
                    return;
                }
                Err(error) => {
                    let reason = format!("cannot ask for a worker: {error}");
                    news.push(News::NotForked { proc: fork.proc, reason });
                }
            }
        }
    }

    fn warm(&mut self, now: u64, spawn: &mut dyn Spawn) {
        if let Some(key) = self.warming.overdue(now)
            && let Some(entry) = self.entries.get_mut(&key)
        {
            entry.zygote.kill();
            entry.stage = Stage::Ending;
            let module = std::mem::take(&mut entry.importing);
            self.warming.failed(key, &module, "takes too long to import".to_owned());
        }
        let calm = self.waiting.is_empty()
            && self.entries.values().any(|entry| entry.stage == Stage::Ready)
            && self.entries.values().all(|entry| entry.in_flight.is_empty());
        let Some(modules) = self.warming.due(now, calm) else { return };
        let key = self.next_key;
        if self.spawn(modules, spawn).is_ok() {
            self.warming.started(key, now);
        }
    }

    /// Zygotes that were replaced end with their last worker.
    fn end_former(&mut self) {
        let Some(newest) = self.entries.iter().rfind(|(_, entry)| entry.stage == Stage::Ready) else {
            return;
        };
        let newest = *newest.0;
        for (_, entry) in self.entries.range_mut(..newest) {
            let unused = entry.workers.is_empty() && entry.in_flight.is_empty();
            if entry.stage == Stage::Ready && unused {
                entry.stage = Stage::Ending;
                entry.zygote.quit();
            }
        }
    }

    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        self.warming.next_deadline(now)
    }

    /// Forgets the forks that wait, and tells which they were.
    pub fn abandon(&mut self) -> Vec<ProcId> {
        self.waiting.drain(..).map(|fork| fork.proc).collect()
    }

    /// Tells all zygotes to end.
    pub fn quit(&mut self) {
        for entry in self.entries.values_mut() {
            entry.stage = Stage::Ending;
            entry.zygote.quit();
        }
    }

    /// Ends by force what is left.
    pub fn kill(&mut self) {
        for entry in self.entries.values() {
            entry.zygote.kill();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
