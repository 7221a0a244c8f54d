//! Which senders wait for room in a ring: one bit a slot, in two levels.
//!
//! A sender sets its bit, fences, and looks for room once more; the receiver makes room, fences, and
//! looks for bits. So either the sender sees the room or the receiver sees the bit.

use crate::sync::{AtomicU64, Ordering};

const WORD: usize = 64;
/// One bit for each of 16,384 slots.
#[cfg(not(loom))]
const WORDS: usize = 256;
#[cfg(loom)]
const WORDS: usize = 1;

/// Lies in shared memory; all zero is empty.
#[derive(Debug)]
#[repr(C)]
pub struct Starved {
    /// One bit for each word that may have bits.
    summary: [AtomicU64; WORDS.div_ceil(WORD)],
    words: [AtomicU64; WORDS],
}

impl Starved {
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            summary: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub fn set(&self, slot: u32) {
        let slot = slot as usize;
        let (word, bit) = (slot / WORD, slot % WORD);
        self.words[word].fetch_or(1 << bit, Ordering::SeqCst);
        self.summary[word / WORD].fetch_or(1 << (word % WORD), Ordering::SeqCst);
    }

    pub fn is_empty(&self) -> bool {
        self.summary.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Takes all bits out and calls `found` for each.
    pub fn take(&self, mut found: impl FnMut(u32)) {
        for (high, summary) in self.summary.iter().enumerate() {
            if summary.load(Ordering::Relaxed) == 0 {
                continue;
            }
            for middle in bits(summary.swap(0, Ordering::SeqCst)) {
                let word = high * WORD + middle;
                for low in bits(self.words[word].swap(0, Ordering::SeqCst)) {
                    found((word * WORD + low) as u32);
                }
            }
        }
    }
}

fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            bit
        })
    })
}
