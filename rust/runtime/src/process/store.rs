//! Large values: blocks of the host's shared memory, cut from extents leased to this process.

use raymesh_shm::{Allocation, Heap};
use raymesh_wire::control::{Extent, HeapFull, NoCopy};
use raymesh_wire::{Block, ProcId, ToController};

use super::requests::RequestError;
use super::{Proc, Waited};

/// Extents are asked for in about this size at least, so that small blocks share one.
const MIN_EXTENT: u64 = 4 << 20;
/// So much free memory is kept for the next large values instead of going back to the agent.
const KEEP_FREE: u64 = 256 << 20;

/// What is kept free goes back too when so long nothing was put or dropped.
const GIVE_BACK: u64 = 5_000_000_000;

/// Fresh memory of this size and more is brought in by one call instead of a fault for each page.
const POPULATE: u64 = 64 << 10;

/// Why there is no block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error(
        "the object store is full: {wanted} bytes were asked for, {free} of {capacity} are free\n\
         hint: drop references to objects that are no longer needed (del ref), or give the store more \
         memory with init(object_store_memory=...)"
    )]
    Full { wanted: u64, free: u64, capacity: u64 },
    #[error(
        "the object's bytes lay in the memory of a host that is gone, and no other host has a copy\n\
         hint: make the object again, or keep a copy on another host"
    )]
    HostLost,
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// This process's heap.
#[derive(Debug)]
pub(super) struct Store {
    heap: Heap,
    /// When to see whether memory that is kept free is of any use.
    review: Option<u64>,
    /// Something was put or dropped since the last time.
    used: bool,
}

impl Store {
    pub(super) fn new(me: ProcId) -> Self {
        Self { heap: Heap::new(me), review: None, used: false }
    }

    /// Takes a block back; answers extents to return to the agent.
    pub(super) fn free(&mut self, block: Block) -> Vec<Extent> {
        self.heap.free(&block);
        self.used = true;
        if self.heap.idle_bytes() > KEEP_FREE { self.heap.take_free_extents(KEEP_FREE) } else { Vec::new() }
    }

    pub(super) fn trim(&mut self) -> Vec<Extent> {
        self.heap.take_free_extents(0)
    }

    /// Sees to it that memory that is kept free is looked at again. Answers when, if that is news.
    pub(super) fn plan_review(&mut self, now: u64) -> Option<u64> {
        if self.review.is_some() || self.heap.idle_bytes() == 0 {
            return None;
        }
        self.used = false;
        self.review = Some(now + GIVE_BACK);
        self.review
    }

    /// Takes out what nobody used for long; answers when to look again, too.
    pub(super) fn review(&mut self, now: u64) -> (Vec<Extent>, Option<u64>) {
        let mut extents = Vec::new();
        if self.review.take_if(|at| *at <= now).is_some() {
            if std::mem::take(&mut self.used) {
                self.plan_review(now);
            } else {
                extents = self.trim();
            }
        }
        (extents, self.review)
    }
}

impl Proc {
    /// A block of `len` bytes. Asks the agent for memory if need
    /// be; `interrupted` is called when a signal arrives meanwhile and may give up.
    ///
    /// # Errors
    /// The store is full, or the runtime stops.
    pub fn allocate<E: From<StoreError>>(
        &self,
        len: u64,
        mut interrupted: impl FnMut() -> Result<(), E>,
    ) -> Result<Block, E> {
        loop {
            {
                let mut store = self.store.lock();
                if let Some(Allocation { block, cold }) = store.heap.alloc_tracked(len) {
                    store.used = true;
                    drop(store);
                    if let Some(cold) = cold.filter(|cold| cold.len >= POPULATE) {
                        // Refused for want of memory: then the write itself meets that.
                        let _ = self.segment.populate(cold);
                    }
                    return Ok(block);
                }
            }
            let wanted = extent_for(len);
            let extent = self.grow(wanted, &mut interrupted)?;
            let extent = match extent {
                Ok(extent) => extent,
                Err(_) if wanted > len => self.grow(len, &mut interrupted)?.map_err(|f| E::from(f.into()))?,
                Err(full) => return Err(E::from(full.into())),
            };
            self.store.lock().heap.add_extent(extent);
        }
    }

    fn grow<E: From<StoreError>>(
        &self,
        bytes: u64,
        interrupted: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Result<Extent, HeapFull>, E> {
        let request = self.ask_heap(bytes);
        let waiting = self.waiting(None, false);
        loop {
            let mut grown = None;
            let waited = self.wait_until(waiting, |proc| {
                grown = proc.requests.lock().take_heap(request);
                grown.is_some()
            });
            match (waited, grown) {
                (Waited::Done, Some(grown)) => return Ok(grown),
                (Waited::Interrupted, _) => interrupted()?,
                _ => return Err(E::from(StoreError::Request(self.stopped()))),
            }
        }
    }

    /// Gives back a block that no object came to hold.
    pub fn abandon(&self, block: Block) {
        self.store.lock().free(block);
    }

    /// Tells the controller; the core has no part in it.
    pub fn tell_controller(&self, message: ToController) {
        self.send(self.controller, &raymesh_wire::Message::ToController(message));
    }
}

/// What to ask for when a block of `len` bytes finds no room: blocks of a size tend to come together,
/// so a whole number of them.
fn extent_for(len: u64) -> u64 {
    let block = len.max(1).saturating_add(Heap::ALIGN - 1) / Heap::ALIGN * Heap::ALIGN;
    block.saturating_mul((MIN_EXTENT / block).max(1))
}

impl From<NoCopy> for StoreError {
    fn from(why: NoCopy) -> Self {
        match why {
            NoCopy::Lost => Self::HostLost,
            NoCopy::Full(full) => full.into(),
        }
    }
}

impl From<HeapFull> for StoreError {
    fn from(full: HeapFull) -> Self {
        Self::Full { wanted: full.wanted, free: full.free, capacity: full.capacity }
    }
}

#[cfg(test)]
mod tests;
