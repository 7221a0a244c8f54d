//! Whether an object has a value, readable without a lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use raymesh_wire::{ObjectId, Value};

/// Shared by all holders in the process: whether the object has a value, readable without a lock.
#[derive(Debug)]
pub struct Flag {
    id: ObjectId,
    /// [`PENDING`], [`LOST`], [`VALUE`] or [`ERROR`].
    state: AtomicU8,
    /// The last list that it was found in.
    listed: AtomicU64,
}

impl Flag {
    pub(super) const fn new(id: ObjectId) -> Self {
        Self { id, state: AtomicU8::new(PENDING), listed: AtomicU64::new(0) }
    }

    #[must_use]
    pub const fn id(&self) -> ObjectId {
        self.id
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) >= VALUE
    }

    /// Whether it had a value that is gone, and nobody here has asked for another one: whoever waits for it
    /// must.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state.load(Ordering::Acquire) == LOST
    }

    /// Whether it is ready, and an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.state.load(Ordering::Acquire) == ERROR
    }

    /// The object has its value.
    pub(super) fn resolve(&self, value: &Value) {
        self.state.store(if value.is_error() { ERROR } else { VALUE }, Ordering::Release);
    }

    /// The object has lost its value, and may get another one.
    pub(super) fn lose(&self) {
        self.state.store(LOST, Ordering::Release);
    }

    /// Another value is under way.
    pub(super) fn expect(&self) {
        let _ = self.state.compare_exchange(LOST, PENDING, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Notes that it stands in the list of this number. False: it was noted there already. Numbers are
    /// not used twice; of lists that threads walk at the same time, some second mentions may be missed.
    #[must_use]
    pub fn note_listed(&self, list: u64) -> bool {
        self.listed.swap(list, Ordering::Relaxed) != list
    }
}

/// States of a [`Flag`].
const PENDING: u8 = 0;
const LOST: u8 = 1;
const VALUE: u8 = 2;
const ERROR: u8 = 3;
