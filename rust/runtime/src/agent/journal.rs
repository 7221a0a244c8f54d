//! The head's journal on disk: what happened to the controller, before anybody hears of what follows from it.
//!
//! A thread of its own commits what has gathered since its last commit, all at once. When the disk does not
//! take it (it is full), the cluster goes on without a journal, says so, and begins a new one from a
//! [snapshot](Journal::snapshot) as soon as it can.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use raymesh_sys::fd::eventfd_signal;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::StartError;
use super::error::Trouble;

/// What happened, by number.
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// One row: all that had happened up to its number.
const SNAPSHOT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshot");
/// What the cluster is; and who wrote this.
const ABOUT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("about");

/// The file in the head's directory.
const FILE: &str = "journal.redb";
/// Snapshots and events are of this form.
const FORM: &str = concat!("raymesh ", env!("CARGO_PKG_VERSION"), " 2");

/// A number that nothing reaches: everything counts as committed.
const ALL: u64 = u64::MAX;

/// What an earlier head has left.
#[derive(Debug, Default)]
pub struct Saved {
    /// What [`Journal::create`] was told of the cluster.
    pub about: Vec<u8>,
    pub snapshot: Option<(u64, Vec<u8>)>,
    /// Later than the snapshot, in order.
    pub log: Vec<(u64, Vec<u8>)>,
}

enum Work {
    Append { number: u64, record: Vec<u8> },
    Snapshot { number: u64, state: Vec<u8> },
}

impl Saved {
    /// The number of what happened last.
    pub fn last(&self) -> u64 {
        let snapshot = self.snapshot.as_ref().map_or(0, |(number, _)| *number);
        self.log.last().map_or(snapshot, |(number, _)| *number)
    }

    /// Whether nothing is missing between the snapshot and the last record.
    fn is_whole(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|(first, _)| {
            self.log.iter().zip(first + 1..).all(|((number, _), expected)| *number == expected)
        })
    }
}

/// A journal that is written.
#[derive(Debug)]
pub struct Journal {
    to: Option<Sender<Work>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    file: PathBuf,
    last: u64,
    /// Bytes since the last snapshot, and of that.
    grown: usize,
    snapshot: usize,
}

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    committed: AtomicU64,
    /// Why it is not written any more.
    failed: Mutex<Option<String>>,
    wake: OwnedFd,
}

/// A snapshot is due when the log is longer than this, and longer than the last snapshot.
const GROWTH: usize = 16 << 20;

fn failed(path: &Path, error: redb::Error) -> StartError {
    let trouble = match &error {
        redb::Error::DatabaseAlreadyOpen => Trouble::Busy,
        redb::Error::Io(error) if error.kind() == ErrorKind::StorageFull => Trouble::Full,
        // It was cut to nothing.
        redb::Error::Io(error)
            if !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            Trouble::System
        }
        _ => Trouble::Damaged,
    };
    StartError::Journal { path: path.to_owned(), reason: error.to_string(), trouble }
}

fn damaged(path: &Path) -> StartError {
    let reason = "parts of it are missing".to_owned();
    StartError::Journal { path: path.to_owned(), reason, trouble: Trouble::Damaged }
}

/// What an earlier head has left in the directory, if it is one's journal.
///
/// # Errors
/// When another head is at work on it, when it is of another version, or the system refuses.
pub fn read(directory: &Path) -> Result<Option<Saved>, StartError> {
    let file = directory.join(FILE);
    if !file.exists() {
        return Ok(None);
    }
    let fail = |error: redb::Error| failed(&file, error);
    // All of it is looked at: a file that has changed is not believed, and does no harm.
    let opened = Database::builder().set_check_integrity_on_open(true).open(&file);
    let database = opened.map_err(|error| fail(error.into()))?;
    let saved = read_from(&database).map_err(fail)?;
    match saved {
        None => Ok(None),
        Some((_, saved)) if !saved.is_whole() => Err(damaged(&file)),
        Some((form, saved)) if form == FORM.as_bytes() => Ok(Some(saved)),
        Some((form, _)) => Err(StartError::ForeignJournal {
            path: file,
            theirs: String::from_utf8_lossy(&form).into_owned(),
            ours: FORM.to_owned(),
        }),
    }
}

/// None: it was made and nothing was written.
fn read_from(database: &Database) -> Result<Option<(Vec<u8>, Saved)>, redb::Error> {
    let read = database.begin_read()?;
    let about = match read.open_table(ABOUT) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let entry = |name| Ok::<_, redb::Error>(about.get(name)?.map(|bytes| bytes.value().to_vec()));
    let (Some(form), Some(cluster)) = (entry("form")?, entry("cluster")?) else { return Ok(None) };
    let mut saved = Saved { about: cluster, ..Saved::default() };
    if let Some((number, state)) = read.open_table(SNAPSHOT)?.last()? {
        saved.snapshot = Some((number.value(), state.value().to_vec()));
    }
    for row in read.open_table(LOG)?.iter()? {
        let (number, record) = row?;
        saved.log.push((number.value(), record.value().to_vec()));
    }
    Ok(Some((form, saved)))
}

impl Journal {
    /// Begins to write into the directory, which is made if need be: a new journal with this state, whatever
    /// was there. `wake` is signalled when something was committed.
    ///
    /// # Errors
    /// When another head is at work on it, or the system refuses.
    pub fn create(
        directory: &Path,
        about: &[u8],
        number: u64,
        state: &[u8],
        wake: OwnedFd,
    ) -> Result<Self, StartError> {
        use std::os::unix::fs::DirBuilderExt;
        let file = directory.join(FILE);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| failed(directory, error.into()))?;
        let fail = |error: redb::Error| failed(&file, error);
        let database = Database::create(&file).map_err(|error| fail(error.into()))?;
        begin(&database, about, number, state).map_err(fail)?;
        let shared = Arc::new(Shared {
            file: file.clone(),
            committed: AtomicU64::new(number),
            failed: Mutex::new(None),
            wake,
        });
        let (to, work) = mpsc::channel();
        let about = about.to_vec();
        let writer = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("raymesh-journal".to_owned())
            .spawn(move || {
                raymesh_sys::signals::block_all();
                write(database, &about, &work, &writer);
            })
            .map_err(StartError::system("a thread"))?;
        let (thread, snapshot) = (Some(thread), state.len());
        Ok(Self { to: Some(to), shared, thread, file, last: number, grown: 0, snapshot })
    }

    /// Takes on what happens next; its number.
    pub fn append(&mut self, record: Vec<u8>) -> u64 {
        self.last += 1;
        self.grown += record.len();
        self.give(Work::Append { number: self.last, record });
        self.last
    }

    /// Whether the log has become long enough for a snapshot, or there is none.
    pub fn wants_snapshot(&self) -> bool {
        self.grown > GROWTH.max(self.snapshot)
    }

    /// The state after all that was taken on so far: the log before it may go.
    pub fn snapshot(&mut self, state: Vec<u8>) {
        (self.grown, self.snapshot) = (0, state.len());
        self.give(Work::Snapshot { number: self.last, state });
    }

    fn give(&self, work: Work) {
        if let Some(to) = &self.to {
            // Its thread lives as long as this.
            let _ = to.send(work);
        }
    }

    /// Everything up to this number is on disk, or will never be.
    pub fn committed(&self) -> u64 {
        self.shared.committed.load(Ordering::Acquire)
    }

    /// The number of what was taken on last.
    #[cfg(test)]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Why it is not written any more, once.
    pub fn take_failure(&self) -> Option<String> {
        self.shared.failed.lock().take()
    }

    /// Ends it, and removes what was written: the cluster has ended.
    pub fn remove(self) {
        let file = self.file.clone();
        drop(self);
        let _ = std::fs::remove_file(&file);
        // If there is nothing else in it.
        let _ = file.parent().map(std::fs::remove_dir);
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn begin(database: &Database, about: &[u8], number: u64, state: &[u8]) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(ABOUT)?;
        table.insert("form", FORM.as_bytes())?;
        table.insert("cluster", about)?;
        let mut snapshots = write.open_table(SNAPSHOT)?;
        snapshots.retain(|_, _| false)?;
        snapshots.insert(number, state)?;
        write.open_table(LOG)?.retain(|_, _| false)?;
    }
    write.commit()?;
    Ok(())
}

/// The thread: until nobody can give it work any more.
fn write(database: Database, about: &[u8], work: &Receiver<Work>, shared: &Shared) {
    // None after a failure: a database that could not write once refuses from then on.
    let mut open = Some(database);
    while let Ok(first) = work.recv() {
        let mut batch = vec![first];
        batch.extend(work.try_iter());
        // After a failure there is a gap: only a snapshot makes sense of what follows.
        let from = batch.iter().rposition(|work| matches!(work, Work::Snapshot { .. }));
        let result = match (open.take(), from) {
            (Some(database), None) => commit(&database, &batch).map(|()| database),
            (database, Some(at)) => {
                let Work::Snapshot { number, state } = &batch[at] else { continue };
                let database = database.map_or_else(|| Ok(Database::create(&shared.file)?), Ok);
                database.and_then(|database| {
                    begin(&database, about, *number, state)?;
                    commit(&database, &batch[at + 1..])?;
                    Ok(database)
                })
            }
            (None, None) => continue,
        };
        match result {
            Ok(database) => {
                let last = batch.iter().map(|work| match work {
                    Work::Append { number, .. } | Work::Snapshot { number, .. } => *number,
                });
                shared.committed.store(last.max().unwrap_or(0), Ordering::Release);
                open = Some(database);
            }
            Err(error) => {
                if shared.committed.swap(ALL, Ordering::Release) != ALL {
                    *shared.failed.lock() = Some(error.to_string());
                }
            }
        }
        eventfd_signal(&shared.wake);
    }
}

fn commit(database: &Database, batch: &[Work]) -> Result<(), redb::Error> {
    if batch.is_empty() {
        return Ok(());
    }
    let write = database.begin_write()?;
    {
        let mut log = write.open_table(LOG)?;
        for work in batch {
            if let Work::Append { number, record } = work {
                log.insert(*number, record.as_slice())?;
            }
        }
    }
    write.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests;
