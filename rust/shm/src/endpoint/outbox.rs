//! What rings could not take: a queue for each receiver, and barriers between queues.
//!
//! Every parcel has a ticket, counted over all queues. A barrier "after all that was sent to P" is
//! the pair (P, ticket at that time): it is passed once P's queue holds nothing older. Barriers point
//! to older parcels only, so they cannot form a cycle.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use raymesh_wire::ProcId;

use super::{Endpoint, Push};
use crate::ring::{FIRST, FRAGMENT, MORE, Refused, Ring, Writer};
use crate::sync::{Ordering, fence};

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
    message: Bytes,
    /// Bytes of `message` that have left in fragments.
    sent: usize,
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

    pub fn enqueue(&mut self, after: &[ProcId], to: ProcId, message: Bytes) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let barriers = after.iter().filter(|proc| self.queues.contains_key(proc));
        let after = barriers.map(|proc| Barrier { proc: *proc, before: ticket }).collect();
        self.len += 1;
        self.bytes += message.len();
        self.queues.entry(to).or_default().push_back(Parcel { ticket, message, sent: 0, after });
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
            let next = next_piece(front, ring).1;
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
                    self.fill(endpoint.me, to, ring, &mut writer);
                    endpoint.settle(ring, writer.finish());
                }
                Err(Refused::Busy) => return Push::Busy,
                Err(Refused::Gone) => {
                    endpoint.segment.wake_starved(ring, endpoint.event());
                    return Push::Gone;
                }
            }
        }
    }

    /// Writes parcels to `to` as long as they are due and have room.
    fn fill(&mut self, me: ProcId, to: ProcId, ring: Ring<'_>, writer: &mut Writer<'_>) {
        while let Some(front) = self.queues.get(&to).and_then(VecDeque::front) {
            if !self.is_due(front) || !push_piece(front, ring, me, writer) {
                return;
            }
            let end = next_piece(front, ring).0;
            let Some(queue) = self.queues.get_mut(&to) else { return };
            let Some(front) = queue.front_mut() else { return };
            front.sent = end;
            if end < front.message.len() {
                continue;
            }
            self.len -= 1;
            self.bytes -= front.message.len();
            queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&to);
            }
        }
    }

    fn drop_queue(&mut self, to: ProcId) {
        for parcel in self.queues.remove(&to).unwrap_or_default() {
            self.len -= 1;
            self.bytes -= parcel.message.len();
        }
    }
}

/// Where the next piece of a parcel ends, and how long its record's payload is.
fn next_piece(parcel: &Parcel, ring: Ring<'_>) -> (usize, usize) {
    let (total, most) = (parcel.message.len(), ring.max_piece());
    if total <= most {
        return (total, total);
    }
    let prefix = if parcel.sent == 0 { size_of::<u64>() } else { 0 };
    let end = total.min(parcel.sent + most - prefix);
    (end, end - parcel.sent + prefix)
}

fn push_piece(parcel: &Parcel, ring: Ring<'_>, me: ProcId, writer: &mut Writer<'_>) -> bool {
    let total = parcel.message.len();
    if total <= ring.max_piece() {
        return writer.push(me, 0, &[], &parcel.message);
    }
    let end = next_piece(parcel, ring).0;
    let piece = &parcel.message[parcel.sent..end];
    let more = if end < total { MORE } else { 0 };
    if parcel.sent == 0 {
        writer.push(me, FRAGMENT | FIRST | more, &(total as u64).to_le_bytes(), piece)
    } else {
        writer.push(me, FRAGMENT | more, &[], piece)
    }
}
