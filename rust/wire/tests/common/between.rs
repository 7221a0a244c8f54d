//! Messages between agents: names of their kinds, one of each, and random ones.

use bytes::Bytes;
use proptest::prelude::*;
use raymesh_wire::between::{Between, Down, Neighbour, Printed, Up};
use raymesh_wire::control::{FromHost, ToHost};
use raymesh_wire::{Block, HostId, LeaseId, Message, ProcId, RequestId};

const REQUEST: RequestId = RequestId(7);
const BLOCK: Block = Block { home: ProcId::new(HostId(2), 1, 5), offset: 1 << 33, len: 1 << 20 };

#[must_use]
pub fn kind(message: &Between) -> &'static str {
    match message {
        Between::Up { .. } => "between_up",
        Between::Down { .. } => "between_down",
        Between::Heard { .. } => "between_heard",
        Between::Resume { .. } => "between_resume",
        Between::Roll { .. } => "between_roll",
        Between::Hosts { .. } => "between_hosts",
        Between::Knock { .. } => "between_knock",
        Between::Wanted { .. } => "between_wanted",
        Between::Unreachable { .. } => "between_unreachable",
        Between::Flush { .. } => "between_flush",
        Between::Flushed { .. } => "between_flushed",
        Between::Fetch { .. } => "between_fetch",
        Between::Chunk { .. } => "between_chunk",
        Between::NoBlock { .. } => "between_no_block",
        Between::Output { .. } => "between_output",
    }
}

/// How many kinds [`kind`] tells apart.
pub const KINDS: usize = 15;

#[must_use]
pub fn samples() -> Vec<Message> {
    let neighbour = Neighbour { host: HostId(3), address: "10.0.0.3:6380".to_owned() };
    let printed = Printed {
        proc: ProcId::new(HostId(3), 1, 9),
        pid: 4321,
        name: "f".to_owned(),
        is_stderr: true,
        text: "l\u{ed}ne".to_owned(),
    };
    let all = [
        Between::Up { number: 7, heard: 300, says: Up::Host(FromHost::Usage { store_used: 1 << 40 }) },
        Between::Down { number: 300, heard: 7, says: Down::Host(ToHost::CancelStart { start: LeaseId(1) }) },
        Between::Heard { number: 300 },
        Between::Resume { heard: 299 },
        Between::Roll { hosts: vec![neighbour.clone()] },
        Between::Hosts { joined: vec![neighbour], gone: vec![HostId(2)] },
        Between::Knock { host: HostId(3) },
        Between::Wanted { by: HostId(2) },
        Between::Unreachable { host: HostId(3), ended: true },
        Between::Flush { request: REQUEST },
        Between::Flushed { request: REQUEST },
        Between::Fetch { request: REQUEST, block: BLOCK, at: 1 << 19, len: 1 << 19 },
        Between::Chunk { request: REQUEST, at: 1 << 19, bytes: Bytes::from_static(b"bytes") },
        Between::NoBlock { request: REQUEST },
        Between::Output { lines: vec![printed] },
    ];
    all.map(Message::Between).to_vec()
}

pub fn any() -> impl Strategy<Value = Message> {
    let request = || proptest::num::u64::ANY.prop_map(RequestId);
    let host = || proptest::num::u32::ANY.prop_map(HostId);
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..40).prop_map(Bytes::from);
    let neighbour = || (host(), ".{0,12}").prop_map(|(host, address)| Neighbour { host, address });
    let gone = proptest::collection::vec(host(), 0..4);
    prop_oneof![
        (proptest::collection::vec(neighbour(), 0..4), gone)
            .prop_map(|(joined, gone)| Between::Hosts { joined, gone }),
        host().prop_map(|host| Between::Knock { host }),
        request().prop_map(|request| Between::Flush { request }),
        (request(), proptest::num::u64::ANY, proptest::num::u32::ANY)
            .prop_map(|(request, at, len)| { Between::Fetch { request, block: BLOCK, at, len } }),
        (request(), proptest::num::u64::ANY, bytes).prop_map(|(request, at, bytes)| Between::Chunk {
            request,
            at,
            bytes
        }),
        request().prop_map(|request| Between::NoBlock { request }),
    ]
    .prop_map(Message::Between)
}
