//! The doorbell of a mailbox: one state word that says who, if anybody, must be woken for mail.
//!
//! | receiver is | state | a sender |
//! |---|---|---|
//! | attended, spinning | count > 0 | makes no system call |
//! | attended, parked | count > 0, `MAIN_PARKED` | clears the bit, wakes futex A |
//! | in user code, helper parked | count = 0, `HELPER_ARMED` | clears the bit, wakes futex B |
//! | in user code, helper awake | count = 0 | makes no system call: the helper will look |
//! | an agent in `epoll` | `EVENT_ARMED` | clears the bit, signals the eventfd |
//!
//! No wake-up is lost because both sides first write, then fence, then read what the other wrote:
//! the receiver sets its bit and then looks for mail once more; the sender publishes mail and then
//! looks at the state. In any order at least one of them sees the other. A futex word is a counter:
//! the receiver reads it before it sets its bit, so a wake-up between the last look and the system
//! call changes the word and the call returns at once.
//!
//! The count of attending threads lives in the same word as the bits, so that a thread that leaves
//! can clear `MAIN_PARKED` only while nobody else attends.

use crate::sync::{AtomicU32, Line, Ordering, fence};

const MAIN_PARKED: u32 = 1;
const HELPER_ARMED: u32 = 1 << 1;
const EVENT_ARMED: u32 = 1 << 2;
/// One attending thread. The count takes the upper bits.
const ATTENDED_ONE: u32 = 1 << 8;

/// Whom a sender has to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    Nobody,
    /// Those parked on [`Doorbell::main_word`].
    Main,
    /// The one parked on [`Doorbell::helper_word`].
    Helper,
    /// The eventfd.
    Event,
}

/// Lies in shared memory; all zero is a valid initial state.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Doorbell {
    state: Line<AtomicU32>,
    parking: Line<Parking>,
}

#[derive(Debug, Default)]
#[repr(C)]
struct Parking {
    main: AtomicU32,
    helper: AtomicU32,
}

#[cfg_attr(loom, allow(dead_code))]
impl Doorbell {
    /// After mail (or room, or a kick) has been published: whom to wake. The answer's bit is cleared
    /// and its futex word advanced: the caller owes the wake-up. `has_event` tells that the caller
    /// can signal the eventfd.
    pub fn ring(&self, has_event: bool) -> Wake {
        fence(Ordering::SeqCst);
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let (bit, wake) = if state & EVENT_ARMED != 0 && has_event {
                (EVENT_ARMED, Wake::Event)
            } else if state >= ATTENDED_ONE && state & MAIN_PARKED != 0 {
                (MAIN_PARKED, Wake::Main)
            } else if state < ATTENDED_ONE && state & HELPER_ARMED != 0 {
                (HELPER_ARMED, Wake::Helper)
            } else {
                return Wake::Nobody;
            };
            match self.state.compare_exchange_weak(state, state & !bit, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    self.advance(wake);
                    return wake;
                }
                Err(now) => state = now,
            }
        }
    }

    /// As [`Self::ring`], for the attending threads only.
    pub fn ring_main(&self) -> Wake {
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) & MAIN_PARKED == 0
            || self.state.fetch_and(!MAIN_PARKED, Ordering::SeqCst) & MAIN_PARKED == 0
        {
            return Wake::Nobody;
        }
        self.advance(Wake::Main);
        Wake::Main
    }

    /// As [`Self::ring`], for the helper only, attended or not. The helper may be parked without
    /// having armed its bit, so it is always to be woken.
    pub fn ring_helper(&self) -> Wake {
        self.advance(Wake::Helper);
        Wake::Helper
    }

    /// Advances both futex words, for when a process died that may have owed a wake-up: the caller
    /// wakes both.
    pub fn ring_all(&self) {
        self.advance(Wake::Main);
        self.advance(Wake::Helper);
    }

    fn advance(&self, wake: Wake) {
        match wake {
            Wake::Main => self.parking.main.fetch_add(1, Ordering::SeqCst),
            Wake::Helper => self.parking.helper.fetch_add(1, Ordering::SeqCst),
            Wake::Event | Wake::Nobody => 0,
        };
    }

    /// A thread begins to attend.
    pub fn enter(&self) {
        self.state.fetch_add(ATTENDED_ONE, Ordering::SeqCst);
    }

    /// A thread ceases to attend. Afterwards, mail that came meanwhile rang for nobody: when this
    /// answers true (nobody attends any more), the caller fences, looks for mail and rings for it.
    pub fn leave(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            debug_assert!(state >= ATTENDED_ONE, "leave without enter");
            let mut next = state.wrapping_sub(ATTENDED_ONE);
            let last = next < ATTENDED_ONE;
            if last {
                next &= !MAIN_PARKED;
            }
            match self.state.compare_exchange_weak(state, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return last,
                Err(now) => state = now,
            }
        }
    }

    pub fn is_attended(&self) -> bool {
        self.state.load(Ordering::SeqCst) >= ATTENDED_ONE
    }

    /// First step of parking an attending thread: the caller now looks for mail once more, and either
    /// waits on [`Self::main_word`] while it holds the answer, or calls [`Self::unpark_main`].
    pub fn park_main(&self) -> u32 {
        let word = self.parking.main.load(Ordering::Acquire);
        self.state.fetch_or(MAIN_PARKED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        word
    }

    /// Takes back [`Self::park_main`], if no other thread can be parked.
    pub fn unpark_main(&self) {
        let state = self.state.load(Ordering::Relaxed);
        if state & MAIN_PARKED != 0 && state / ATTENDED_ONE == 1 {
            // Fails only if somebody came or rang: then the bit is theirs.
            let _ =
                self.state.compare_exchange(state, state & !MAIN_PARKED, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// What attending threads park on.
    pub fn main_word(&self) -> &AtomicU32 {
        &self.parking.main
    }

    /// Value of the helper's word, to be read before the look that decides whether to park.
    pub fn helper_ticket(&self) -> u32 {
        self.parking.helper.load(Ordering::SeqCst)
    }

    /// First step of parking the helper: as [`Self::park_main`], on [`Self::helper_word`] and the
    /// ticket read before.
    pub fn arm_helper(&self) {
        self.state.fetch_or(HELPER_ARMED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub fn disarm_helper(&self) {
        if self.state.load(Ordering::Relaxed) & HELPER_ARMED != 0 {
            self.state.fetch_and(!HELPER_ARMED, Ordering::SeqCst);
        }
    }

    /// What the helper parks on.
    pub fn helper_word(&self) -> &AtomicU32 {
        &self.parking.helper
    }

    /// First step of sleeping on the eventfd: the caller now looks for mail once more, and if there
    /// is some, calls [`Self::disarm_event`] and does not sleep.
    pub fn arm_event(&self) {
        self.state.fetch_or(EVENT_ARMED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub fn disarm_event(&self) {
        self.state.fetch_and(!EVENT_ARMED, Ordering::SeqCst);
    }

    /// For the next owner of the mailbox. Futex words go on counting.
    #[cfg(not(loom))]
    pub fn reset(&self) {
        self.state.store(0, Ordering::SeqCst);
    }
}
