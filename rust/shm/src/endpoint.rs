//! What a process uses to talk to the others of its host.
//!
//! - this file: the endpoint, and sending.
//! - [`outbox`]: what a full ring could not take.
//! - [`inbox`]: draining, and messages that came in pieces.
//! - [`wait`]: attending, parking, the helper, kicks.

mod inbox;
mod outbox;
mod wait;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use raymesh_sys::fork::ForkMark;
use raymesh_wire::{ProcId, TaskId, envelope};

use crate::doorbell::Doorbell;
use crate::layout::MailboxHeader;
use crate::ring::{Refused, Ring};
use crate::segment::{Segment, ring_bell};
use crate::spin::Spinner;
use crate::sync::{Ordering, fence};
use inbox::Inbox;
use outbox::Outboxes;

pub use wait::{Attend, WaitOutcome};

/// One process's end of all its mail. Shared by the threads of the process.
///
/// A forked child inherits a copy that is dead: it sends nothing, drains nothing and disturbs nobody
/// ([`Endpoint::is_forked`]).
#[derive(Debug)]
pub struct Endpoint {
    segment: Arc<Segment>,
    me: ProcId,
    slot: u32,
    /// `None`: the system has no such mark; then forked children must not touch the endpoint.
    mark: Option<ForkMark>,
    /// Wakes the agent in its `epoll`.
    agent_event: OnceLock<OwnedFd>,
    outboxes: Mutex<Outboxes>,
    /// Messages in outboxes: lets a send skip the lock while there are none.
    outboxed: AtomicUsize,
    inbox: Mutex<Inbox>,
    /// A thread holds `inbox`. Apart from it, so that waiting threads can look.
    draining: AtomicBool,
    /// Senders whose half-received messages are to be dropped.
    forgotten: Mutex<Vec<ProcId>>,
    kicks: AtomicU32,
    helper_kicks: AtomicU32,
    /// Value of `helper_kicks` that the helper has answered.
    helper_answered: AtomicU32,
    /// Counts what the main thread does with mail: how the helper knows that it is not needed.
    activity: AtomicU32,
    /// The main thread sleeps elsewhere.
    away: AtomicBool,
    spinner: Spinner,
}

/// How a try to write into a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Push {
    Done,
    Full,
    Busy,
    Gone,
}

impl Endpoint {
    /// The endpoint of `me`, whose mailbox the agent has opened. One per process and mailbox.
    ///
    /// # Panics
    /// When `me` is not of this segment's host.
    #[must_use]
    pub fn new(segment: Arc<Segment>, me: ProcId) -> Self {
        assert!(me.host() == segment.host() && me.slot() < segment.slots(), "{me:?} is not of this host");
        Self {
            segment,
            me,
            slot: me.slot(),
            mark: ForkMark::new().ok(),
            agent_event: OnceLock::new(),
            outboxes: Mutex::default(),
            outboxed: AtomicUsize::new(0),
            inbox: Mutex::default(),
            draining: AtomicBool::new(false),
            forgotten: Mutex::default(),
            kicks: AtomicU32::new(0),
            helper_kicks: AtomicU32::new(0),
            helper_answered: AtomicU32::new(0),
            activity: AtomicU32::new(0),
            away: AtomicBool::new(false),
            spinner: Spinner::new(),
        }
    }

    #[must_use]
    pub fn me(&self) -> ProcId {
        self.me
    }

    #[must_use]
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Whether this is the copy of a forked child. Waiting on it ends at once, as interrupted.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| !mark.is_here())
    }

    /// The eventfd that the agent of this host sleeps on. Without it, this process cannot wake the
    /// agent. Set once; later calls change nothing.
    pub fn set_agent_eventfd(&self, fd: OwnedFd) {
        let _ = self.agent_event.set(fd);
    }

    /// Sends, never blocking: what the ring cannot take now waits in an outbox of this process, in
    /// order, and leaves when there is room. False: the receiver is gone, and the message dropped.
    ///
    /// To a process of another host it goes through the agent of this one; whether it is there, this
    /// process cannot know.
    pub fn send(&self, to: ProcId, message: &[u8]) -> bool {
        if to.host() == self.me.host() {
            return self.send_as(self.me, to, message);
        }
        self.send_as(self.me, self.agent(), &enclosed(to, message))
    }

    /// Agent: hands a message of another host's process to its receiver here.
    pub fn forward(&self, from: ProcId, to: ProcId, message: &[u8]) -> bool {
        self.send_as(from, to, message)
    }

    fn send_as(&self, from: ProcId, to: ProcId, message: &[u8]) -> bool {
        let Some(ring) = self.ring_to(to) else { return false };
        if self.outboxed.load(Ordering::Acquire) == 0 && message.len() <= ring.max_piece() {
            match self.push_whole(ring, from, to, message) {
                Push::Done => return true,
                Push::Gone => return false,
                Push::Full | Push::Busy => {}
            }
        }
        self.send_slowly(&[], from, to, message)
    }

    fn agent(&self) -> ProcId {
        ProcId::agent(self.me.host())
    }

    /// The process of this host into whose ring a message for `to` goes.
    fn via(&self, to: ProcId) -> ProcId {
        if to.host() == self.me.host() { to } else { self.agent() }
    }

    /// As [`Self::send`], but `message` leaves this process only after all that was sent to `after`
    /// before has left it.
    pub fn send_after(&self, after: &[ProcId], to: ProcId, message: &[u8]) -> bool {
        if self.outboxed.load(Ordering::Acquire) == 0 {
            return self.send(to, message);
        }
        let after: Vec<ProcId> = after.iter().map(|proc| self.via(*proc)).collect();
        if to.host() == self.me.host() {
            return self.ring_to(to).is_some() && self.send_slowly(&after, self.me, to, message);
        }
        self.send_slowly(&after, self.me, self.agent(), &enclosed(to, message))
    }

    /// As [`Self::send_after`], after all that was sent to anybody.
    pub fn send_last(&self, to: ProcId, message: &[u8]) -> bool {
        if self.outboxed.load(Ordering::Acquire) == 0 {
            return self.send(to, message);
        }
        let after = self.lock_outboxes().receivers();
        self.send_after(&after, to, message)
    }

    fn send_slowly(&self, after: &[ProcId], from: ProcId, to: ProcId, message: &[u8]) -> bool {
        if self.is_forked() {
            return false;
        }
        let mut outboxes = self.lock_outboxes();
        let delivered = outboxes.send(self, after, from, to, message);
        self.outboxed.store(outboxes.len(), Ordering::Release);
        delivered
    }

    /// Notes that this process begins a call, for [`Segment::last_call`] should it die of it.
    pub fn begin_call(&self, task: TaskId) {
        if !self.is_forked() {
            self.my_mailbox().call.begin(task);
        }
    }

    /// Notes what this process's output is shown under, for [`Segment::noted_name`].
    pub fn note_name(&self, name: &str) {
        if !self.is_forked() {
            self.my_mailbox().call.set_name(name);
        }
    }

    /// Notes that the call has ended and that its reply is sent.
    pub fn end_call(&self, task: TaskId) {
        if !self.is_forked() {
            self.my_mailbox().call.end(task);
        }
    }

    /// Bytes that wait in outboxes: for the sender's own restraint.
    #[must_use]
    pub fn outbox_bytes(&self) -> usize {
        if self.outboxed.load(Ordering::Acquire) == 0 || self.is_forked() {
            0
        } else {
            self.lock_outboxes().bytes()
        }
    }

    /// Sends what outboxes hold and rings can take.
    fn flush(&self) {
        if self.outboxed.load(Ordering::Acquire) != 0 {
            let mut outboxes = self.lock_outboxes();
            outboxes.flush(self, None);
            self.outboxed.store(outboxes.len(), Ordering::Release);
        }
    }

    fn push_whole(&self, ring: Ring<'_>, from: ProcId, to: ProcId, message: &[u8]) -> Push {
        match ring.writer(to, self.slot, self.segment.tokens().any()) {
            Ok(mut writer) => {
                let pushed = writer.push(from, 0, &[], message);
                self.settle(ring, writer.finish());
                if pushed { Push::Done } else { Push::Full }
            }
            Err(Refused::Busy) => Push::Busy,
            Err(Refused::Gone) => {
                self.segment.wake_starved(ring, self.slot, self.event());
                Push::Gone
            }
        }
    }

    /// Gives the wake-ups that are owed after writing.
    fn settle(&self, ring: Ring<'_>, finished: crate::ring::Finished) {
        if finished.published {
            ring_bell(&ring.mailbox.doorbell, self.event());
        }
        if finished.contended {
            self.segment.wake_starved(ring, self.slot, self.event());
        }
    }

    fn ring_to(&self, to: ProcId) -> Option<Ring<'_>> {
        if to.host() == self.me.host() && !self.is_forked() { self.segment.ring(to.slot()) } else { None }
    }

    fn event(&self) -> Option<&OwnedFd> {
        self.agent_event.get()
    }

    fn lock_outboxes(&self) -> MutexGuard<'_, Outboxes> {
        // A panic in between leaves queues that are still in order.
        self.outboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn my_ring(&self) -> Ring<'_> {
        self.segment.ring(self.slot).unwrap_or_else(|| unreachable!("checked by new"))
    }

    fn my_mailbox(&self) -> &MailboxHeader {
        self.my_ring().mailbox
    }

    fn my_bell(&self) -> &Doorbell {
        &self.my_mailbox().doorbell
    }

    /// Whether there is anything to drain or to flush.
    #[must_use]
    pub fn has_mail(&self) -> bool {
        if self.is_forked() {
            return false;
        }
        let ring = self.my_ring();
        !ring.is_empty() || ring.mailbox.nudge.load(Ordering::Relaxed) != 0
    }

    /// Mail that no thread is taking already.
    fn has_loose_mail(&self) -> bool {
        self.has_mail() && !self.draining.load(Ordering::SeqCst)
    }

    /// Mail came while nobody was to be woken for it: wakes who is there for it now.
    fn ring_myself_if_mail(&self) {
        fence(Ordering::SeqCst);
        if self.has_loose_mail() {
            ring_bell(self.my_bell(), self.event());
        }
    }
}

fn enclosed(to: ProcId, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    envelope::enclose(to, message, &mut out);
    out
}

#[cfg(test)]
mod tests;
