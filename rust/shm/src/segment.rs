//! The segment: one memory file a host, made by the host's agent and mapped by all its processes.
//!
//! Only the agent opens and closes mailboxes, one at a time, and repairs what dead processes left.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use raymesh_sys::futex::wake_all;
use raymesh_sys::{Mapping, memfd};
use raymesh_wire::control::LastCall;
use raymesh_wire::{HostId, ProcId};

use crate::doorbell::{Doorbell, Wake};
use crate::layout::{Header, MAGIC, MAX_TOKENS, MailboxHeader, Shape, Token, VERSION, owner_word};
use crate::ring::Ring;
use crate::spin::Tokens;
use crate::sync::{Ordering, fence};

/// Why there is no segment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    #[error("cannot make a segment with {slots} slots and {arena} bytes of object memory")]
    Shape { slots: u32, arena: u64 },
    #[error(
        "cannot get shared memory ({0})\nhint: lower object_store_memory, or raise the limits of this process"
    )]
    Memory(#[from] std::io::Error),
    #[error(
        "the descriptor is not a raymesh segment of layout {VERSION}: agent and worker are of different versions"
    )]
    Foreign,
}

/// Why a mailbox cannot be opened.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    #[error("slot {slot} is beyond the {slots} slots of this host")]
    NoSuchSlot { slot: u32, slots: u32 },
    #[error("slot {slot} is in use by another process")]
    InUse { slot: u32 },
    #[error(
        "a sender still holds the ring of slot {slot}\nhint: use another slot; this one becomes free when the sender goes on or dies"
    )]
    Busy { slot: u32 },
}

/// The host's shared memory, as mapped by this process.
#[derive(Debug)]
pub struct Segment {
    fd: OwnedFd,
    map: Mapping,
    shape: Shape,
    tokens: usize,
}

impl Segment {
    /// Makes the segment of a host. All mailboxes are closed.
    ///
    /// # Errors
    /// When the shape makes no sense or the system refuses.
    pub fn create(shape: Shape) -> Result<Arc<Self>, SegmentError> {
        let shape = Shape { arena: shape.arena.next_multiple_of(64 << 10), ..shape };
        if !shape.is_valid() {
            return Err(SegmentError::Shape { slots: shape.slots, arena: shape.arena });
        }
        let fd = memfd::create("raymesh", shape.total() as u64)?;
        let map = Mapping::shared(&fd, shape.total())?;
        let tokens = (raymesh_sys::online_cpus() - 1).min(MAX_TOKENS);
        // SAFETY: the mapping is page-aligned, larger than a header, and nobody else knows it yet.
        let header = unsafe { &mut *map.as_ptr().cast::<Header>() };
        header.version = VERSION;
        header.host = shape.host.0;
        header.slots = shape.slots;
        header.tokens = tokens as u32;
        header.arena = shape.arena;
        header.magic = MAGIC;
        Ok(Arc::new(Self::new(fd, map, shape, tokens)))
    }

    /// Maps a segment that another process made.
    ///
    /// # Errors
    /// When the descriptor is no segment of this version.
    pub fn attach(fd: OwnedFd) -> Result<Arc<Self>, SegmentError> {
        let len = usize::try_from(memfd::len(&fd)?).map_err(|_| SegmentError::Foreign)?;
        if len < size_of::<Header>() {
            return Err(SegmentError::Foreign);
        }
        let map = Mapping::shared(&fd, len)?;
        // SAFETY: the mapping is page-aligned and larger than a header; these fields never change.
        let header = unsafe { &*map.as_ptr().cast::<Header>() };
        let shape = Shape { host: HostId(header.host), slots: header.slots, arena: header.arena };
        let tokens = header.tokens as usize;
        let known = header.magic == MAGIC && header.version == VERSION && tokens <= MAX_TOKENS;
        if !known || !shape.is_valid() || shape.total() != len {
            return Err(SegmentError::Foreign);
        }
        Ok(Arc::new(Self::new(fd, map, shape, tokens)))
    }

    fn new(fd: OwnedFd, map: Mapping, shape: Shape, tokens: usize) -> Self {
        // Best effort: a core dump need not contain the store, a huge page saves faults.
        let _ = map.exclude_from_core_dumps();
        let _ = map.prefer_huge_pages(shape.arena_at()..shape.total());
        Self { fd, map, shape, tokens }
    }

    /// What [`Self::attach`] takes. Inherited over `fork`; closed by `exec` unless made inheritable.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    #[must_use]
    pub fn host(&self) -> HostId {
        self.shape.host
    }

    #[must_use]
    pub fn slots(&self) -> u32 {
        self.shape.slots
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn map(&self) -> &Mapping {
        &self.map
    }

    fn header(&self) -> &Header {
        // SAFETY: checked by `create` or `attach`; from then on only its atomics change.
        unsafe { &*self.map.as_ptr().cast() }
    }

    pub(crate) fn tokens(&self) -> Tokens<'_> {
        // SAFETY: the tokens lie in the mapping, aligned, and are atomics, valid for any bytes.
        Tokens(unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(Shape::tokens_at()).cast::<Token>(), self.tokens)
        })
    }

    pub(crate) fn ring(&self, slot: u32) -> Option<Ring<'_>> {
        if slot >= self.shape.slots {
            return None;
        }
        // SAFETY: the slot's mailbox lies in the mapping; its header is page-aligned and made of
        // atomics, valid for any bytes; its data are touched only through `Ring`.
        unsafe {
            let mailbox = &*self.map.as_ptr().add(Shape::mailbox_at(slot)).cast::<MailboxHeader>();
            let data = self.map.as_ptr().add(Shape::ring_at(slot));
            Some(Ring::new(mailbox, data, Shape::ring_len(slot)))
        }
    }

    fn ring_of(&self, proc: ProcId) -> Option<Ring<'_>> {
        self.ring(proc.slot()).filter(|_| proc.host() == self.shape.host)
    }

    /// Whether `proc` has an open mailbox here.
    #[must_use]
    pub fn is_open(&self, proc: ProcId) -> bool {
        self.ring_of(proc).is_some_and(|ring| ring.is_owned_by(proc))
    }

    /// Agent: what `proc`, which has died, ran last ([`crate::Endpoint::begin_call`]). Ask before its
    /// mailbox is closed.
    #[must_use]
    pub fn last_call(&self, proc: ProcId) -> LastCall {
        let ring = self.ring_of(proc).filter(|ring| ring.is_owned_by(proc));
        ring.map_or(LastCall::Unknown, |ring| ring.mailbox.call.read())
    }

    /// Agent: what `proc` said that its output is shown under; empty if it said nothing yet.
    #[must_use]
    pub fn noted_name(&self, proc: ProcId) -> String {
        let ring = self.ring_of(proc).filter(|ring| ring.is_owned_by(proc));
        ring.map_or_else(String::new, |ring| ring.mailbox.call.name())
    }

    /// Agent: opens the mailbox of `proc`, empty.
    ///
    /// # Errors
    /// When the slot is taken.
    pub fn open_mailbox(&self, proc: ProcId) -> Result<(), OpenError> {
        let slot = proc.slot();
        let no_such = OpenError::NoSuchSlot { slot, slots: self.shape.slots };
        let ring = self.ring_of(proc).ok_or(no_such)?;
        if ring.mailbox.owner.load(Ordering::Acquire) != 0 {
            return Err(OpenError::InUse { slot });
        }
        if !self.reset(slot, ring) {
            return Err(OpenError::Busy { slot });
        }
        self.header().slots_seen.fetch_max(slot + 1, Ordering::Relaxed);
        ring.mailbox.owner.store(owner_word(proc), Ordering::Release);
        Ok(())
    }

    /// Agent: from now on sends to `proc` answer that it is gone; its ring's memory goes back to the
    /// system. The slot can be opened for another process. `proc` must have ended, or be the caller.
    pub fn close_mailbox(&self, proc: ProcId) {
        let Some(ring) = self.ring_of(proc) else { return };
        let closed =
            ring.mailbox.owner.compare_exchange(owner_word(proc), 0, Ordering::SeqCst, Ordering::Relaxed);
        if closed.is_ok() {
            // If a producer is inside, `open_mailbox` will do it.
            self.reset(proc.slot(), ring);
            // They learn that the receiver is gone.
            self.wake_starved(ring, ProcId::AGENT_SLOT, None);
        }
    }

    /// Empties a closed ring, under its lock. False when a producer does not leave it.
    fn reset(&self, slot: u32, ring: Ring<'_>) -> bool {
        const SPINS: u32 = 20_000;
        let mailbox = ring.mailbox;
        if !mailbox.producers.lock.try_lock(ProcId::AGENT_SLOT, SPINS) {
            return false;
        }
        if mailbox.tail.load(Ordering::Relaxed) != 0 {
            let (at, len) = (Shape::ring_at(slot) as u64, Shape::ring_len(slot) as u64);
            // Failing costs only the memory.
            let _ = memfd::punch_hole(&self.fd, at, len);
            mailbox.tail.store(0, Ordering::Relaxed);
            mailbox.head.store(0, Ordering::Relaxed);
            mailbox.producers.head_seen.store(0, Ordering::Relaxed);
        }
        mailbox.nudge.store(0, Ordering::Relaxed);
        mailbox.waking.store(0, Ordering::Relaxed);
        mailbox.doorbell.reset();
        mailbox.call.clear();
        if mailbox.producers.lock.unlock() {
            self.wake_starved(ring, ProcId::AGENT_SLOT, None);
        }
        true
    }

    /// Agent, after the death of a process: breaks the locks that it held, takes back its right to
    /// spin, and gives all wake-ups that it may have owed. Call it before [`Self::close_mailbox`] of
    /// the dead, then drain the agent's own endpoint.
    pub fn release_locks_of(&self, dead: ProcId) {
        if dead.host() != self.shape.host {
            return;
        }
        self.tokens().release_of(dead.slot());
        let died_waking =
            self.ring(dead.slot()).is_some_and(|ring| ring.mailbox.waking.load(Ordering::Acquire) != 0);
        for slot in 0..self.header().slots_seen.load(Ordering::Relaxed).min(self.shape.slots) {
            let Some(ring) = self.ring(slot) else { continue };
            ring.mailbox.producers.lock.break_if_owned(dead.slot());
            self.wake_starved(ring, ProcId::AGENT_SLOT, None);
            if died_waking {
                ring.mailbox.nudge.store(1, Ordering::SeqCst);
            }
            if !ring.is_empty() || ring.mailbox.nudge.load(Ordering::Relaxed) != 0 {
                let bell = &ring.mailbox.doorbell;
                bell.ring_all();
                wake_all(bell.main_word());
                wake_all(bell.helper_word());
            }
        }
    }

    /// Tells all that wait for room in `ring` to try again, on behalf of the process in slot `me`.
    pub(crate) fn wake_starved(&self, ring: Ring<'_>, me: u32, event: Option<&OwnedFd>) {
        fence(Ordering::SeqCst);
        if ring.mailbox.starved.is_empty() {
            return;
        }
        let waking = self.ring(me).map(|mine| &mine.mailbox.waking);
        if let Some(waking) = waking {
            waking.fetch_add(1, Ordering::AcqRel);
        }
        ring.mailbox.starved.take(|slot| {
            if let Some(theirs) = self.ring(slot) {
                theirs.mailbox.nudge.store(1, Ordering::SeqCst);
                ring_bell(&theirs.mailbox.doorbell, event);
            }
        });
        if let Some(waking) = waking {
            waking.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Rings a doorbell, and wakes whom it says.
pub fn ring_bell(bell: &Doorbell, event: Option<&OwnedFd>) {
    wake(bell, bell.ring(event.is_some()), event);
}

/// Does what a doorbell says.
pub fn wake(bell: &Doorbell, whom: Wake, event: Option<&OwnedFd>) {
    match whom {
        Wake::Nobody => {}
        Wake::Main => {
            wake_all(bell.main_word());
        }
        Wake::Helper => {
            wake_all(bell.helper_word());
        }
        Wake::Event => {
            if let Some(event) = event {
                raymesh_sys::fd::eventfd_signal(event);
            }
        }
    }
}

#[cfg(test)]
mod tests;
