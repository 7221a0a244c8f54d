//! The shared memory of one host: mailboxes between its processes, and the object arena.
//!
//! Mail:
//! - [`segment`]: the memory file, its layout, opening and closing mailboxes, repair after a death.
//! - [`ring`]: the byte ring of a mailbox; [`lock`]: the lock of its producers.
//! - [`doorbell`]: who is woken when, and how no wake-up is lost; [`starved`]: senders that wait for
//!   room; [`spin`]: how many may spin.
//! - [`endpoint`]: what a process uses: send, drain, wait.
//! - [`call_note`]: what a process runs, to be read when it has died.
//!
//! Objects:
//! - [`arena`]: reading and writing blocks, bringing memory in and giving it back.
//! - [`free_map`]: free space, recycled memory first; [`extents`]: the agent's allocator of extents;
//!   [`heap`]: a process's allocator of blocks within its extents.
//!
//! Rule of the house: any process may be killed at any instruction. Whatever a process changes here
//! becomes visible by one atomic store, or can be undone by the agent ([`Segment::release_locks_of`]).
#![allow(unsafe_code)]
// Spinning and parking are about time; nothing here depends on the order of a hash map.
#![allow(clippy::disallowed_methods)]

mod doorbell;
mod lock;
mod starved;
mod sync;

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod call_note;
#[cfg(not(loom))]
mod endpoint;
#[cfg(not(loom))]
mod extents;
#[cfg(not(loom))]
mod free_map;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod ring;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod spin;

#[cfg(not(loom))]
pub use {
    arena::BadBlock,
    endpoint::{Attend, Endpoint, WaitOutcome},
    extents::ExtentAllocator,
    heap::{Allocation, Heap},
    layout::Shape,
    segment::{OpenError, Segment, SegmentError},
};

#[cfg(all(test, loom))]
mod model_tests;
