//! What only the head has: its [`Books`] beside the controller, and the journal of what happens to both.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use raymesh_core::controller::{Controller, Event};
use raymesh_core::head::{self, Books, Record};
use raymesh_net::hub::ConnId;
use raymesh_wire::HostId;

use super::StartError;
use super::journal::{self, Journal};

pub use raymesh_core::head::neighbour;

pub type Due = head::Due<ConnId>;

/// Time between two tries to write a journal that could not be written.
const RETRY: u64 = 5_000_000_000;

/// See the module.
#[derive(Debug)]
pub struct Headship {
    pub(super) books: Books<ConnId>,
    journal: Option<Journal>,
    retry_at: Option<u64>,
    patience: Duration,
    /// It cannot go on: nothing that it decides may leave.
    abandoned: bool,
}

/// A head that goes on where an earlier one was.
#[derive(Debug)]
pub struct Resumed {
    pub headship: Headship,
    pub controller: Controller,
    /// The controller's time so far.
    pub now: u64,
    /// Heads before this one: they have died with all their processes.
    pub formers: Vec<HostId>,
}

impl Headship {
    /// The head of a new cluster.
    pub fn new(me: HostId, patience: Duration) -> Self {
        Self { books: Books::new(me), journal: None, retry_at: None, patience, abandoned: false }
    }

    /// From what an earlier head has left.
    ///
    /// # Errors
    /// When it does not parse.
    pub fn resume(saved: &journal::Saved, patience: Duration) -> Result<Resumed, postcard::Error> {
        let snapshot = saved.snapshot.as_ref().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        let (controller, state): (Controller, head::State) = postcard::from_bytes(&snapshot.1)?;
        let (mut controller, mut books) = (controller, Books::left_by(state));
        for (_, record) in &saved.log {
            books.play(postcard::from_bytes(record)?, &mut controller);
        }
        let formers = books.take_over();
        let now = books.now();
        let headship = Self { books, journal: None, retry_at: None, patience, abandoned: false };
        Ok(Resumed { headship, controller, now, formers })
    }

    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// Keeps a journal from now on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_journal(
        &mut self,
        directory: &Path,
        about: &[u8],
        number: u64,
        controller: &Controller,
        wake: OwnedFd,
    ) -> Result<(), StartError> {
        let state = self.save(controller)?;
        self.journal = Some(Journal::create(directory, about, number, &state, wake)?);
        Ok(())
    }

    fn save(&self, controller: &Controller) -> Result<Vec<u8>, StartError> {
        let saved = postcard::to_allocvec(&(controller, self.books.state()));
        saved.map_err(|error| StartError::System {
            what: "room for a snapshot",
            source: std::io::Error::other(error.to_string()),
        })
    }

    /// Writes nothing more, and lets the hosts wait for another head. Where the journal is.
    pub fn abandon(&mut self) -> Option<PathBuf> {
        self.abandoned = true;
        self.journal.take().map(|journal| journal.file().to_owned())
    }

    pub const fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Removes the journal: the cluster has ended.
    pub fn end_journal(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
    }

    /// A host is let in, as soon as that is in the journal.
    pub fn admit(&mut self, conn: ConnId, remote: IpAddr, port: u16) {
        let host = self.books.next_host();
        let address = (port != 0).then(|| SocketAddr::new(remote, port));
        let number = self.record(&Record::Admitted { host, address });
        self.books.admit(number, conn, host, address);
    }

    /// Notes what happens to the controller, has it decide, and keeps what follows until that is in the journal.
    pub fn decide(
        &mut self,
        now: u64,
        via: Option<(HostId, u64)>,
        event: Event,
        controller: &mut Controller,
    ) {
        let number = self.record(&Record::Event { now, via, event: Cow::Borrowed(&event) });
        self.books.decide(number, now, via, event, controller);
    }

    fn record(&mut self, record: &Record<'_>) -> u64 {
        let Some(journal) = &mut self.journal else { return 0 };
        // Plain data into a growing buffer.
        journal.append(postcard::to_allocvec(record).unwrap_or_default())
    }

    /// Keeps the journal short, and tries again to write one that could not be written: what is wrong with it.
    pub fn tend(&mut self, now: u64, controller: &Controller) -> Option<String> {
        let journal = self.journal.as_ref()?;
        let failure = journal.take_failure();
        if failure.is_some() {
            self.retry_at = Some(now + RETRY);
        }
        let retries = self.retry_at.is_some_and(|at| at <= now);
        if retries || journal.wants_snapshot() {
            self.retry_at = retries.then_some(now + RETRY);
            let state = self.save(controller).ok()?;
            self.journal.as_mut()?.snapshot(state);
        }
        failure.map(|reason| {
            let file = self.journal.as_ref().map_or_else(String::new, |it| it.file().display().to_string());
            format!(
                "The journal {file} cannot be written: {reason}\nThe cluster goes on without it; if the head ends \
                 now, the cluster does.\nhint: make room there. It is tried again every {} s.",
                RETRY / 1_000_000_000
            )
        })
    }

    /// The journal could be written again.
    pub fn has_recovered(&mut self) -> bool {
        let committed = self.journal.as_ref().is_some_and(|journal| journal.committed() != u64::MAX);
        self.retry_at.is_some() && committed && self.retry_at.take().is_some()
    }

    pub const fn next_deadline(&self) -> Option<u64> {
        self.retry_at
    }

    /// What may be done now, and whose word had led to it.
    pub fn next_due(&mut self) -> Option<(Option<HostId>, Vec<Due>)> {
        let committed = self.journal.as_ref().map_or(u64::MAX, Journal::committed);
        if self.abandoned {
            return None;
        }
        self.books.next_due(committed)
    }
}

#[cfg(test)]
mod tests;
