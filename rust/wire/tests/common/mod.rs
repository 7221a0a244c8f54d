//! Messages for tests.
//!
//! - [`samples`]: one of each kind, the same for ever: what the golden vectors are made of.
//! - [`any`]: random ones. [`between`]: those between agents. [`placement`]: of
//!   placement groups and wishes.

#![allow(dead_code, clippy::unwrap_used)] // each test binary uses its part

pub mod any;
pub mod between;
pub mod placement;
pub mod samples;

use bytes::Bytes;
use raymesh_wire::{Message, encode};

#[must_use]
pub fn encoded(message: &Message) -> Bytes {
    let mut out = Vec::new();
    encode(message, &mut out);
    out.into()
}

/// Bytes from a file of hexadecimal digits; `#` begins a comment.
#[must_use]
pub fn from_hex(text: &str) -> Vec<u8> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let digits: Vec<u8> = lines
        .flat_map(|line| line.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>())
        .collect();
    assert!(digits.len().is_multiple_of(2), "an odd number of hexadecimal digits");
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Bytes as lines of hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.chunks(32).map(|line| raymesh_wire::ids::hex(line) + "\n").collect()
}
