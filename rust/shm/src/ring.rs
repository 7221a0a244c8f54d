//! The byte ring of a mailbox: many producers in turn, one consumer.
//!
//! Positions count bytes for ever; the offset in the ring is the position modulo its length. A
//! record is a 16-byte header and the payload, padded to 8 bytes; both may wrap around the end. What
//! lies between `head` and `tail` is published: written before the release-store of `tail`, read
//! after the acquire-load. A producer that dies before that store has written into free space only.

use std::ptr;

use raymesh_wire::ProcId;

use crate::layout::{MailboxHeader, owner_word};
use crate::sync::Ordering;

const HEADER: usize = 16;
const ALIGN: usize = 8;

/// More fragments of this message follow.
pub const MORE: u8 = 1;
/// A piece of a message. Whole messages of other threads may come between the pieces.
pub const FRAGMENT: u8 = 2;
/// The first piece; begins with the length of the whole message (u64).
pub const FIRST: u8 = 4;

/// Why a producer cannot write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The receiver is not there any more. The caller wakes the starved: they may have left a mark
    /// on the lock that was taken to find out.
    Gone,
    /// Another producer is at it.
    Busy,
}

/// Times a producer looks for the lock before it leaves the message in its outbox: a few
/// microseconds, longer than a copy into the ring takes.
const LOCK_SPINS: u32 = 150;

/// A mailbox, seen by producers and its consumer.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    pub mailbox: &'a MailboxHeader,
    data: *mut u8,
    len: usize,
}

impl<'a> Ring<'a> {
    /// # Safety
    /// `data` is valid for reads and writes of `len` bytes (a power of two) for `'a`, belongs to
    /// `mailbox`, and is otherwise touched only through `Ring`s.
    pub unsafe fn new(mailbox: &'a MailboxHeader, data: *mut u8, len: usize) -> Self {
        debug_assert!(len.is_power_of_two());
        Self { mailbox, data, len }
    }

    /// Largest payload that goes in one piece.
    pub fn max_piece(&self) -> usize {
        self.len / 4 - HEADER
    }

    pub fn is_empty(&self) -> bool {
        self.mailbox.head.load(Ordering::Relaxed) == self.mailbox.tail.load(Ordering::Acquire)
    }

    /// Bytes that can be written; 0 when positions make no sense.
    pub fn room(&self) -> usize {
        let head = self.mailbox.head.load(Ordering::Acquire);
        self.room_after(self.mailbox.tail.load(Ordering::Relaxed), head)
    }

    fn room_after(&self, tail: u64, head: u64) -> usize {
        self.len.saturating_sub(usize::try_from(tail.wrapping_sub(head)).unwrap_or(usize::MAX))
    }

    /// Whether a payload of `len` bytes has room now.
    pub fn fits(&self, len: usize) -> bool {
        self.room() >= record_len(len)
    }

    pub fn half_is_free(&self) -> bool {
        self.room() >= self.len / 2
    }

    /// Starts to write to `to` as the process in `slot`. `spin`: whether waiting for another producer
    /// can help (it runs on another core).
    pub fn writer(self, to: ProcId, slot: u32, spin: bool) -> Result<Writer<'a>, Refused> {
        if !self.is_owned_by(to) {
            return Err(Refused::Gone);
        }
        if !self.mailbox.producers.lock.try_lock(slot, if spin { LOCK_SPINS } else { 0 }) {
            return Err(Refused::Busy);
        }
        self.locked(to)
    }

    /// As [`Self::writer`] after `Busy`, and after the slot was registered as starved: if the lock is
    /// still taken, its owner will see to it that the registered are woken.
    pub fn writer_or_mark(self, to: ProcId, slot: u32) -> Result<Writer<'a>, Refused> {
        if !self.mailbox.producers.lock.lock_or_mark(slot) {
            return Err(Refused::Busy);
        }
        self.locked(to)
    }

    fn locked(self, to: ProcId) -> Result<Writer<'a>, Refused> {
        let tail = self.mailbox.tail.load(Ordering::Relaxed);
        let writer = Writer { ring: self, start: tail, tail };
        // Again, under the lock: the agent resets a closed ring under the lock only.
        if self.is_owned_by(to) { Ok(writer) } else { Err(Refused::Gone) }
    }

    pub fn is_owned_by(&self, to: ProcId) -> bool {
        self.mailbox.owner.load(Ordering::Acquire) == owner_word(to)
    }

    /// Consumer only: what is published now.
    pub fn reader(self) -> Reader<'a> {
        let end = self.mailbox.tail.load(Ordering::Acquire);
        let head = self.mailbox.head.load(Ordering::Relaxed);
        Reader { ring: self, at: head, released: head, end }
    }

    /// # Safety
    /// The caller holds the lock, and `len` bytes from `at` on are free.
    unsafe fn copy_in(&self, at: u64, from: &[u8]) {
        let offset = at as usize & (self.len - 1);
        let first = from.len().min(self.len - offset);
        // SAFETY: both pieces lie in the ring; nobody reads free space.
        unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), self.data.add(offset), first);
            ptr::copy_nonoverlapping(from.as_ptr().add(first), self.data, from.len() - first);
        }
    }

    /// # Safety
    /// The caller is the consumer, `len` bytes from `at` on are published, and `into` is valid for
    /// writes of `len` bytes.
    unsafe fn copy_out(&self, at: u64, into: *mut u8, len: usize) {
        let offset = at as usize & (self.len - 1);
        let first = len.min(self.len - offset);
        // SAFETY: both pieces lie in the ring; nobody writes to what is published.
        unsafe {
            ptr::copy_nonoverlapping(self.data.add(offset), into, first);
            ptr::copy_nonoverlapping(self.data, into.add(first), len - first);
        }
    }
}

fn record_len(payload: usize) -> usize {
    HEADER + payload.next_multiple_of(ALIGN)
}

/// Holds the lock of a ring. Publishes and unlocks when dropped.
#[derive(Debug)]
pub struct Writer<'a> {
    ring: Ring<'a>,
    start: u64,
    tail: u64,
}

impl Writer<'_> {
    /// Writes one record, if it has room. `payload` comes in two parts, for the sake of prefixes.
    pub fn push(&mut self, sender: ProcId, flags: u8, prefix: &[u8], payload: &[u8]) -> bool {
        let len = prefix.len() + payload.len();
        let need = record_len(len);
        let head_seen = &self.ring.mailbox.producers.head_seen;
        if self.ring.room_after(self.tail, head_seen.load(Ordering::Relaxed)) < need {
            let head = self.ring.mailbox.head.load(Ordering::Acquire);
            head_seen.store(head, Ordering::Relaxed);
            if self.ring.room_after(self.tail, head) < need {
                return false;
            }
        }
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&(len as u32).to_le_bytes());
        header[4] = flags;
        header[8..].copy_from_slice(&sender.as_u64().to_le_bytes());
        // SAFETY: this writer holds the lock, and `need` bytes are free.
        unsafe {
            self.ring.copy_in(self.tail, &header);
            self.ring.copy_in(self.tail + HEADER as u64, prefix);
            self.ring.copy_in(self.tail + (HEADER + prefix.len()) as u64, payload);
        }
        self.tail += need as u64;
        true
    }

    /// Bytes written and not yet published.
    pub fn written(&self) -> u64 {
        self.tail - self.start
    }

    /// Publishes, unlocks. The caller then rings the doorbell if `published`, and wakes the starved
    /// if `contended`.
    pub fn finish(mut self) -> Finished {
        let finished = self.unlock();
        std::mem::forget(self);
        finished
    }

    fn unlock(&mut self) -> Finished {
        let published = self.tail != self.start;
        if published {
            self.ring.mailbox.tail.store(self.tail, Ordering::Release);
        }
        Finished { published, contended: self.ring.mailbox.producers.lock.unlock() }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}

/// What a producer still owes others.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Finished {
    pub published: bool,
    pub contended: bool,
}

/// A record taken from the ring.
#[derive(Debug)]
pub struct Record {
    pub sender: ProcId,
    pub flags: u8,
    pub payload: Vec<u8>,
}

/// Takes records up to what was published when it was made. Gives the room back in large steps, and
/// when dropped.
#[derive(Debug)]
pub struct Reader<'a> {
    ring: Ring<'a>,
    at: u64,
    released: u64,
    end: u64,
}

impl Reader<'_> {
    /// The next record. A ring that makes no sense (some process wrote wildly) is emptied.
    pub fn next(&mut self) -> Option<Record> {
        if self.at == self.end {
            return None;
        }
        let published = usize::try_from(self.end.wrapping_sub(self.at)).unwrap_or(usize::MAX);
        let record = if published <= self.ring.len { self.take(published) } else { None };
        if record.is_none() {
            self.at = self.end;
        }
        if self.at.wrapping_sub(self.released) >= self.ring.len as u64 / 4 {
            self.release();
        }
        record
    }

    fn take(&mut self, published: usize) -> Option<Record> {
        if published < HEADER {
            return None;
        }
        let mut header = [0u8; HEADER];
        // SAFETY: the consumer reads published bytes.
        unsafe { self.ring.copy_out(self.at, header.as_mut_ptr(), HEADER) };
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let whole = record_len(len);
        if whole > published {
            return None;
        }
        let mut sender = [0; 8];
        sender.copy_from_slice(&header[8..]);
        let mut payload = Vec::with_capacity(len);
        // SAFETY: `len` bytes after the header are published, and `payload` has room for them, so
        // they are initialized afterwards.
        unsafe {
            self.ring.copy_out(self.at + HEADER as u64, payload.as_mut_ptr(), len);
            payload.set_len(len);
        }
        self.at += whole as u64;
        Some(Record { sender: ProcId::from_u64(u64::from_le_bytes(sender)), flags: header[4], payload })
    }

    fn release(&mut self) {
        self.ring.mailbox.head.store(self.at, Ordering::Release);
        self.released = self.at;
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if self.released != self.at {
            self.release();
        }
    }
}
