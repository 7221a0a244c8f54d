//! The lock that producers of one ring take turns by: a word that names its owner, so that the
//! agent can break it when the owner has died.
//!
//! Nobody ever sleeps on it. Who finds it taken spins for a moment, then leaves a mark and goes
//! away with the message in its outbox; the owner sees the mark when it unlocks, and wakes those
//! that registered. So a producer that is stopped or killed inside holds up nobody's thread, not
//! even the agent's.

use crate::sync::{AtomicU32, Ordering};

const CONTENDED: u32 = 1 << 31;

/// Lies in shared memory; zero is free.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct OwnerLock(AtomicU32);

impl OwnerLock {
    /// Takes the lock for the process in `slot`, trying `spins` more times.
    pub fn try_lock(&self, slot: u32, spins: u32) -> bool {
        let mut left = spins;
        loop {
            if self.0.load(Ordering::Relaxed) == 0
                && self.0.compare_exchange(0, slot + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return true;
            }
            if left == 0 {
                return false;
            }
            left -= 1;
            #[cfg(not(loom))]
            raymesh_sys::spin_hint();
        }
    }

    /// Takes the lock, or marks it so that its owner's [`Self::unlock`] answers true. The caller has
    /// registered before what it wants to be woken for.
    pub fn lock_or_mark(&self, slot: u32) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = if word == 0 { slot + 1 } else { word | CONTENDED };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(0) => return true,
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
    }

    /// Frees the lock. True: somebody left a mark, and waits to be woken.
    pub fn unlock(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) & CONTENDED != 0
    }

    /// Frees the lock if the process in `slot`, which is dead, holds it.
    #[cfg(not(loom))]
    pub fn break_if_owned(&self, slot: u32) -> bool {
        let word = self.0.load(Ordering::Acquire);
        // A dead owner cannot unlock, so only marks can come in between.
        if word & !CONTENDED == slot + 1 {
            self.0.store(0, Ordering::Release);
            return true;
        }
        false
    }
}
