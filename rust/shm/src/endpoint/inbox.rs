//! Draining: records out of the ring, pieces put together, messages handed out in order.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use raymesh_wire::ProcId;

use super::Endpoint;
use crate::ring::{FIRST, FRAGMENT, MORE, Record};
use crate::sync::Ordering;

/// What outlives a drain.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Messages of which some pieces are here, by sender.
    pub(super) partial: HashMap<ProcId, Vec<u8>>,
}

/// Reserved for a message in pieces before the pieces are here; beyond, memory grows with them.
const MAX_RESERVE: u64 = 64 << 20;

impl Inbox {
    /// The whole message, if this record completes one.
    fn accept(&mut self, record: Record) -> Option<(ProcId, Bytes)> {
        let Record { sender, flags, payload } = record;
        if flags & FRAGMENT == 0 {
            return Some((sender, Bytes::from(payload)));
        }
        let mut whole = if flags & FIRST != 0 {
            let (total, rest) = payload.split_first_chunk()?;
            let mut whole = Vec::with_capacity(u64::from_le_bytes(*total).min(MAX_RESERVE) as usize);
            whole.extend_from_slice(rest);
            whole
        } else {
            // None: the beginning was dropped with a forgotten sender.
            let mut whole = self.partial.remove(&sender)?;
            whole.extend_from_slice(&payload);
            whole
        };
        if flags & MORE != 0 {
            self.partial.insert(sender, whole);
            return None;
        }
        whole.shrink_to_fit();
        Some((sender, Bytes::from(whole)))
    }
}

impl Endpoint {
    /// Takes the mail that is there, hands it out in order, and sends what outboxes hold and rings can
    /// now take. Answers how many messages were handed out; `None` when another thread is at it.
    /// Bounded by what was there at the start. `deliver` may send.
    pub fn try_drain(&self, deliver: &mut dyn FnMut(ProcId, Bytes)) -> Option<usize> {
        if self.is_forked() {
            return Some(0);
        }
        let mut draining = Draining::begin(self)?;
        self.activity.fetch_add(1, Ordering::Relaxed);
        let ring = self.my_ring();
        if ring.mailbox.nudge.load(Ordering::Relaxed) != 0 {
            ring.mailbox.nudge.swap(0, Ordering::SeqCst);
        }
        let forgotten = std::mem::take(&mut *self.lock_forgotten());
        let mut count = 0;
        let mut reader = ring.reader();
        while let Some(record) = reader.next() {
            if let Some((sender, message)) = draining.inbox.accept(record) {
                count += 1;
                deliver(sender, message);
            }
        }
        drop(reader);
        // All that they ever sent was in the ring when this drain began.
        for sender in forgotten {
            draining.inbox.partial.remove(&sender);
        }
        if ring.half_is_free() {
            self.segment.wake_starved(ring, self.slot, self.event());
        }
        self.flush();
        Some(count)
    }

    /// Drops what a dead process left unfinished.
    pub fn forget_sender(&self, dead: ProcId) {
        if !self.is_forked() {
            self.lock_forgotten().push(dead);
        }
    }

    fn lock_forgotten(&self) -> MutexGuard<'_, Vec<ProcId>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one thread to drain. When it ends, whoever slept because of it is woken.
struct Draining<'a> {
    endpoint: &'a Endpoint,
    inbox: MutexGuard<'a, Inbox>,
}

impl<'a> Draining<'a> {
    fn begin(endpoint: &'a Endpoint) -> Option<Self> {
        let free = endpoint.draining.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed);
        free.ok()?;
        let inbox = endpoint.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { endpoint, inbox })
    }
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        self.endpoint.draining.store(false, Ordering::SeqCst);
        self.endpoint.ring_myself_if_mail();
    }
}
