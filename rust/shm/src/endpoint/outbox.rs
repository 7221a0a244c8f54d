//! What rings could not take: a queue for each receiver, and barriers between queues.
//!
//! Every parcel has a ticket, counted over all queues. A barrier "after all that was sent to P" is
//! the pair (P, ticket at that time): it is passed once P's queue holds nothing older. Barriers point
//! to older parcels only, so they cannot form a cycle.

use std::collections::{HashMap, VecDeque};

use bytes::{Buf, Bytes};
use raymesh_wire::ProcId;

use super::{Endpoint, Push};
use crate::ring::{FIRST, FRAGMENT, MORE, Refused, Ring, Writer};
use crate::sync::{Ordering, fence};

/// Bytes written before the lock of a ring is given up to others: some microseconds of copying.
const TURN: u64 = 32 << 10;

#[derive(Debug, Default)]
pub struct Outboxes {
    queues: HashMap<ProcId, VecDeque<Parcel>>,
    next_ticket: u64,
    len: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Parcel {
    ticket: u64,
    /// Who sends it: this process, or another host's for which it is the agent.
    from: ProcId,
    /// What of the message has not left.
    rest: Bytes,
    /// The beginning has left, as a fragment.
    began: bool,
    after: Vec<Barrier>,
}

#[derive(Clone, Copy, Debug)]
struct Barrier {
    proc: ProcId,
    before: u64,
}

impl Outboxes {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// For whom messages wait.
    pub fn receivers(&self) -> Vec<ProcId> {
        self.queues.keys().copied().collect()
    }

    /// Sends or queues a message. False: the receiver is gone.
    pub fn send(
        &mut self,
        endpoint: &Endpoint,
        after: &[ProcId],
        from: ProcId,
        to: ProcId,
        message: &[u8],
    ) -> bool {
        let barriers = after.iter().filter(|proc| self.queues.contains_key(proc));
        let ticket = self.next_ticket;
        let after: Vec<_> = barriers.map(|proc| Barrier { proc: *proc, before: ticket }).collect();
        if self.queues.contains_key(&to) || !after.is_empty() {
            let rest = Bytes::copy_from_slice(message);
            self.enqueue(to, Parcel { ticket, from, rest, began: false, after });
            return self.flush(endpoint, Some(to));
        }
        // Nothing is before it: what has room goes straight from the caller's memory.
        let Some(ring) = endpoint.ring_to(to) else { return false };
        let mut left = Left { rest: message, began: false };
        loop {
            let next = left.next_len(ring);
            match write(endpoint, ring, to, next, |writer| left.push_some(ring, from, writer)) {
                Push::Gone => return false,
                Push::Done if left.is_done() => return true,
                Push::Done => {}
                Push::Full | Push::Busy => break,
            }
        }
        let rest = Bytes::copy_from_slice(left.rest);
        self.enqueue(to, Parcel { ticket, from, rest, began: left.began, after });
        true
    }

    fn enqueue(&mut self, to: ProcId, parcel: Parcel) {
        self.next_ticket += 1;
        self.len += 1;
        self.bytes += parcel.rest.len();
        self.queues.entry(to).or_default().push_back(parcel);
    }

    /// Sends what can be sent: to `only`, and to those that waited for it; or to all. False when
    /// `only` is gone.
    pub fn flush(&mut self, endpoint: &Endpoint, only: Option<ProcId>) -> bool {
        let mut there = true;
        let mut due: Vec<ProcId> = match only {
            Some(proc) => vec![proc],
            None => self.queues.keys().copied().collect(),
        };
        while let Some(to) = due.pop() {
            let before = self.len;
            let gone = self.flush_one(endpoint, to) == Push::Gone;
            if gone {
                self.drop_queue(to);
                there &= only != Some(to);
            }
            if self.len != before {
                // Passing a barrier is rare, and so are queues: look at all that wait at one.
                due.extend(self.barred().filter(|proc| *proc != to));
            }
        }
        there
    }

    /// Receivers whose queue begins with a parcel whose barriers are now passed.
    fn barred(&self) -> impl Iterator<Item = ProcId> {
        let passed = |queue: &VecDeque<Parcel>| {
            queue.front().is_some_and(|parcel| !parcel.after.is_empty() && self.is_due(parcel))
        };
        self.queues.iter().filter(move |(_, queue)| passed(queue)).map(|(proc, _)| *proc)
    }

    fn is_due(&self, parcel: &Parcel) -> bool {
        parcel.after.iter().all(|barrier| {
            let oldest = self.queues.get(&barrier.proc).and_then(VecDeque::front);
            oldest.is_none_or(|oldest| oldest.ticket >= barrier.before)
        })
    }

    fn flush_one(&mut self, endpoint: &Endpoint, to: ProcId) -> Push {
        let Some(ring) = endpoint.ring_to(to) else { return Push::Gone };
        loop {
            let Some(front) = self.queues.get(&to).and_then(VecDeque::front) else { return Push::Done };
            if !self.is_due(front) {
                return Push::Done;
            }
            let next = front.left().next_len(ring);
            match write(endpoint, ring, to, next, |writer| self.fill(to, ring, writer)) {
                Push::Done => {}
                other => return other,
            }
        }
    }

    /// Writes parcels to `to` as long as they are due and have room.
    fn fill(&mut self, to: ProcId, ring: Ring<'_>, writer: &mut Writer<'_>) {
        while let Some(front) = self.queues.get(&to).and_then(VecDeque::front) {
            if !self.is_due(front) || writer.written() >= TURN {
                return;
            }
            let mut left = front.left();
            left.push_some(ring, front.from, writer);
            let (done, began, rest) = (left.is_done(), left.began, left.rest.len());
            let Some(queue) = self.queues.get_mut(&to) else { return };
            let Some(front) = queue.front_mut() else { return };
            self.bytes -= front.rest.len() - rest;
            if !done {
                front.began = began;
                front.rest.advance(front.rest.len() - rest);
                return;
            }
            self.len -= 1;
            queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&to);
            }
        }
    }

    fn drop_queue(&mut self, to: ProcId) {
        for parcel in self.queues.remove(&to).unwrap_or_default() {
            self.len -= 1;
            self.bytes -= parcel.rest.len();
        }
    }
}

impl Parcel {
    fn left(&self) -> Left<'_> {
        Left { rest: &self.rest, began: self.began }
    }
}

/// What of a message has not left yet.
struct Left<'a> {
    rest: &'a [u8],
    began: bool,
}

impl Left<'_> {
    fn is_whole(&self, ring: Ring<'_>) -> bool {
        !self.began && self.rest.len() <= ring.max_piece()
    }

    /// Nothing is left. (An empty message leaves as a record, too: then it counts as begun.)
    fn is_done(&self) -> bool {
        self.began && self.rest.is_empty()
    }

    /// Payload of the next record.
    fn next_len(&self, ring: Ring<'_>) -> usize {
        let prefix = if self.began || self.is_whole(ring) { 0 } else { size_of::<u64>() };
        (prefix + self.rest.len()).min(ring.max_piece())
    }

    /// Writes pieces until all is written, or the ring is full, or it is somebody else's turn.
    fn push_some(&mut self, ring: Ring<'_>, from: ProcId, writer: &mut Writer<'_>) {
        while !self.is_done() && writer.written() < TURN {
            let total = (self.rest.len() as u64).to_le_bytes();
            let (flags, prefix): (u8, &[u8]) = match (self.is_whole(ring), self.began) {
                (true, _) => (0, &[]),
                (false, false) => (FRAGMENT | FIRST, &total),
                (false, true) => (FRAGMENT, &[]),
            };
            let (piece, rest) = self.rest.split_at(self.next_len(ring) - prefix.len());
            let more = if rest.is_empty() { 0 } else { MORE };
            if !writer.push(from, flags | more, prefix, piece) {
                return;
            }
            self.rest = rest;
            self.began = true;
        }
    }
}

/// Lets `fill` write into `ring`, once a payload of `next` bytes has room. `Full` and `Busy`: this
/// process is registered, and will be told when to try again.
fn write(
    endpoint: &Endpoint,
    ring: Ring<'_>,
    to: ProcId,
    next: usize,
    fill: impl FnOnce(&mut Writer<'_>),
) -> Push {
    if !ring.fits(next) && ring.is_owned_by(to) {
        // Register, then look once more: the receiver looks for us after it made room.
        ring.mailbox.starved.set(endpoint.slot);
        fence(Ordering::SeqCst);
        if !ring.fits(next) {
            return Push::Full;
        }
    }
    let writer = match ring.writer(to, endpoint.slot, endpoint.segment.tokens().any()) {
        Err(Refused::Busy) => {
            ring.mailbox.starved.set(endpoint.slot);
            ring.writer_or_mark(to, endpoint.slot)
        }
        other => other,
    };
    match writer {
        Ok(mut writer) => {
            fill(&mut writer);
            endpoint.settle(ring, writer.finish());
            Push::Done
        }
        Err(Refused::Busy) => Push::Busy,
        Err(Refused::Gone) => {
            endpoint.segment.wake_starved(ring, endpoint.slot, endpoint.event());
            Push::Gone
        }
    }
}
