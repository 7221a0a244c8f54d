//! Numbered messages that check themselves.
//!
//! A message of a source: its number (u64), then bytes that follow from it. The last one is empty
//! but for [`END`] and the count.

use std::collections::HashMap;
use std::sync::LazyLock;

use raymesh_wire::ProcId;

pub const STOP: &[u8] = b"stop";
pub const PING: &[u8] = b"ping";
const END: &[u8] = b"end of it";

/// Repeatable, and good enough to vary a test.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Cheap to make, so that sources spend their time in sending.
fn filler(number: u64, len: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..600_000).map(|at| (at * 7 + at / 251) as u8).collect());
    &BYTES[(number % 1999) as usize..][..len]
}

pub fn numbered(number: u64, random: &mut Random) -> Vec<u8> {
    let len = match random.below(400) {
        0 => 300_000 + random.below(200_000),
        1..20 => random.below(20_000),
        _ => random.below(300),
    };
    [&number.to_le_bytes()[..], filler(number, len as usize)].concat()
}

pub fn end(count: u64) -> Vec<u8> {
    [END, &count.to_le_bytes()].concat()
}

/// Checks that each sender's messages come whole, in order, each once.
#[derive(Default)]
pub struct Checker {
    next: HashMap<ProcId, u64>,
    complete: HashMap<ProcId, bool>,
}

impl Checker {
    pub fn check(&mut self, from: ProcId, message: &[u8]) {
        let next = self.next.entry(from).or_default();
        if let Some(count) = message.strip_prefix(END) {
            assert_eq!(count, next.to_le_bytes(), "messages of {from:?} are missing at the end");
            self.complete.insert(from, true);
            return;
        }
        let (number, rest) = message.split_first_chunk().expect("a number");
        assert_eq!(u64::from_le_bytes(*number), *next, "of {from:?}");
        assert!(rest == filler(*next, rest.len()), "contents of {next} of {from:?}");
        *next += 1;
    }

    pub fn senders(&self) -> usize {
        self.next.len()
    }

    pub fn assert_complete(&self, from: ProcId) {
        assert!(self.complete.contains_key(&from), "no end from {from:?}, at {:?}", self.next.get(&from));
    }
}
