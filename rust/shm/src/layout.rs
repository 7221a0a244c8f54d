//! Where what lies in the segment. All positions are offsets from its start.
//!
//! ```text
//! header | spin tokens | mailbox 0 | mailbox 1 | mailbox 2 ... | (to 2 MiB) | arena
//!                         each: header page, ring
//! ```
//!
//! The file is sparse: a mailbox that was never opened costs no memory.

use raymesh_sys::PAGE;
use raymesh_wire::{HostId, ProcId};

use crate::call_note::CallNote;
use crate::doorbell::Doorbell;
use crate::lock::OwnerLock;
use crate::starved::Starved;
use crate::sync::{AtomicU32, AtomicU64, Line};

pub const MAGIC: u64 = u64::from_le_bytes(*b"raymesh\0");
/// Of this layout and of the protocols on it.
pub const VERSION: u32 = 3;

/// Ring of the agent and of the driver: everybody talks to them.
pub const LARGE_RING: usize = 1 << 20;
/// Ring of a worker.
pub const SMALL_RING: usize = 128 << 10;
/// Slots with a large ring: the agent's and the first driver's.
const LARGE_SLOTS: usize = 2;
/// Spinning beyond this many cores helps nobody.
pub const MAX_TOKENS: usize = 256;
/// The arena starts on a huge page.
const ARENA_ALIGN: usize = 2 << 20;

const TOKENS_AT: usize = PAGE;
const MAILBOXES_AT: usize = TOKENS_AT + MAX_TOKENS * size_of::<Token>();
const MAILBOX_HEADER: usize = PAGE;

/// What a segment is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub host: HostId,
    /// Processes at once, agent and driver included; at most [`ProcId::MAX_SLOTS`].
    pub slots: u32,
    /// Bytes of object memory; rounded up to whole 64 KiB.
    pub arena: u64,
}

impl Shape {
    pub const fn ring_len(slot: u32) -> usize {
        if (slot as usize) < LARGE_SLOTS { LARGE_RING } else { SMALL_RING }
    }

    pub const fn mailbox_at(slot: u32) -> usize {
        let slot = slot as usize;
        let large = if slot < LARGE_SLOTS { slot } else { LARGE_SLOTS };
        MAILBOXES_AT + large * (MAILBOX_HEADER + LARGE_RING) + (slot - large) * (MAILBOX_HEADER + SMALL_RING)
    }

    pub const fn ring_at(slot: u32) -> usize {
        Self::mailbox_at(slot) + MAILBOX_HEADER
    }

    pub const fn tokens_at() -> usize {
        TOKENS_AT
    }

    pub const fn arena_at(&self) -> usize {
        Self::mailbox_at(self.slots).next_multiple_of(ARENA_ALIGN)
    }

    pub const fn total(&self) -> usize {
        self.arena_at() + self.arena as usize
    }

    pub const fn is_valid(&self) -> bool {
        self.slots >= 2 && self.slots <= ProcId::MAX_SLOTS && self.arena < 1 << 46
    }
}

/// Start of the segment. Written once, before anybody else sees it, but for the atomics.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    pub magic: u64,
    pub version: u32,
    pub host: u32,
    pub slots: u32,
    /// How many of the tokens are in use on this host.
    pub tokens: u32,
    pub arena: u64,
    /// One more than the largest slot ever opened: where scans end.
    pub slots_seen: Line<AtomicU32>,
}

/// The right to spin: holds the slot + 1 of the process that spins, or 0. A token each, and not a
/// counter, because a counter that a killed spinner has incremented cannot be put right.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Token(pub AtomicU32);

/// First page of a mailbox.
#[derive(Debug)]
#[repr(C)]
pub struct MailboxHeader {
    /// [`owner_word`] of the process that reads this mailbox; 0: closed. Changed by the agent only.
    pub owner: Line<AtomicU64>,
    pub producers: Line<Producers>,
    /// Bytes ever published. Written under the lock.
    pub tail: Line<AtomicU64>,
    /// Bytes ever taken. Written by the receiver.
    pub head: Line<AtomicU64>,
    pub doorbell: Doorbell,
    /// Somebody made room for this process's outbox, or otherwise wants it to look.
    pub nudge: Line<AtomicU32>,
    /// Threads of this process that have taken names out of some `starved` and not yet told them all:
    /// if it dies meanwhile, nobody knows whom.
    pub waking: Line<AtomicU32>,
    /// Senders that wait for room in this ring.
    pub starved: Line<Starved>,
    /// What this process runs.
    pub call: Line<CallNote>,
}

/// A process as the owner of a mailbox: never 0.
pub const fn owner_word(proc: ProcId) -> u64 {
    proc.as_u64().wrapping_add(1)
}

/// What only producers touch.
#[derive(Debug)]
#[repr(C)]
pub struct Producers {
    pub lock: OwnerLock,
    /// `head` as last seen: saves reading the receiver's line for every message. Under the lock.
    pub head_seen: AtomicU64,
}

const _: () = assert!(size_of::<MailboxHeader>() <= MAILBOX_HEADER);
const _: () = assert!(size_of::<Header>() <= TOKENS_AT);
const _: () = assert!(MAILBOXES_AT.is_multiple_of(PAGE));
