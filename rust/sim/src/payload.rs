//! What values and calls of the simulation contain.

use bytes::{BufMut, Bytes};
use raymesh_wire::{Call, ObjectId, ProcId, Quantity, ResourceSet};

/// Serialized references, as a value that contains them.
#[must_use]
pub fn encode_refs(refs: &[ObjectId]) -> Bytes {
    let mut out = Vec::new();
    for id in refs {
        out.put_u64_le(id.owner.as_u64());
        out.put_u64_le(id.seq);
        out.put_u32_le(id.index);
    }
    out.into()
}

#[must_use]
pub fn decode_refs(body: &Bytes) -> Vec<ObjectId> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    body.chunks_exact(20)
        .map(|it| ObjectId {
            owner: ProcId::from_u64(word(&it[..8])),
            seq: word(&it[8..16]),
            index: word(&it[16..]) as u32,
        })
        .collect()
}

/// Options of a call: its seed, its depth, and which of its references may be waited for.
#[must_use]
pub fn options(seed: u64, depth: u64, safe: u64) -> Bytes {
    let mut out = Vec::new();
    for word in [seed, depth, safe] {
        out.put_u64_le(word);
    }
    out.into()
}

#[must_use]
pub fn seed_of(options: &Bytes) -> u64 {
    word(options, 0)
}

/// One of the numbers in the options of a call.
#[must_use]
pub fn word(options: &Bytes, at: usize) -> u64 {
    let bytes = options.get(at * 8..at * 8 + 8).unwrap_or_default();
    bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// What tasks ask for.
#[must_use]
pub fn shapes() -> [ResourceSet; 8] {
    let set = |amounts: &[(&str, u64)]| amounts.iter().map(|(name, n)| (*name, Quantity(*n))).collect();
    let one = Quantity::SCALE;
    [
        set(&[("CPU", one)]),
        set(&[("CPU", one)]),
        set(&[("CPU", one / 2)]),
        set(&[("CPU", 2 * one)]),
        set(&[]),
        set(&[("CPU", one), ("GPU", one)]),
        set(&[("GPU", one / 2)]),
        set(&[("x", one)]),
    ]
}

/// All that a call refers to.
#[must_use]
pub fn arguments(call: &Call) -> Vec<ObjectId> {
    let deps = call.deps.iter().map(|(object, _)| *object);
    deps.chain(call.refs.iter().copied()).chain(call.args_object).collect()
}
