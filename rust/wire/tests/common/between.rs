//! Messages between agents: names of their kinds, one of each, and random ones.

use proptest::prelude::*;
use raymesh_wire::between::{Between, Down, Neighbour, Printed, Up};
use raymesh_wire::control::{FromHost, ToHost};
use raymesh_wire::{Block, HostId, LeaseId, Message, ObjectId, Place, ProcId, RequestId};

const REQUEST: RequestId = RequestId(7);
const BLOCK: Block = Block { home: ProcId::new(HostId(2), 1, 5), offset: 1 << 33, len: 1 << 20 };
const PLACE: Place =
    Place { object: ObjectId { owner: ProcId::new(HostId(1), 2, 3), seq: 44, index: 1 }, block: BLOCK };

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
        Between::Unfetch { .. } => "between_unfetch",
        Between::NoBlock { .. } => "between_no_block",
        Between::Output { .. } => "between_output",
        Between::Elsewhere { .. } => "between_elsewhere",
        Between::Copied { .. } => "between_copied",
        Between::Dropped { .. } => "between_dropped",
        Between::Seek { .. } => "between_seek",
        Between::Sought { .. } => "between_sought",
        Between::DialLanes { .. } => "between_dial_lanes",
        Between::LaneLost => "between_lane_lost",
    }
}

/// How many kinds [`kind`] tells apart.
pub const KINDS: usize = 22;

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
        Between::Fetch {
            request: REQUEST,
            place: PLACE,
            pieces: vec![(0, 3), (700, 1)],
            avoid: Some(HostId(4)),
        },
        Between::Unfetch { request: REQUEST },
        Between::NoBlock { request: REQUEST },
        Between::Output { lines: vec![printed] },
        Between::Elsewhere { request: REQUEST, host: HostId(3) },
        Between::Copied { place: PLACE },
        Between::Dropped { place: PLACE },
        Between::Seek { request: REQUEST, place: PLACE },
        Between::Sought { request: REQUEST, has: true },
        Between::DialLanes { count: 2 },
        Between::LaneLost,
    ];
    all.map(Message::Between).to_vec()
}

pub fn any() -> impl Strategy<Value = Message> {
    let request = || proptest::num::u64::ANY.prop_map(RequestId);
    let host = || proptest::num::u32::ANY.prop_map(HostId);
    let count = || proptest::num::u32::ANY;
    let neighbour = || (host(), ".{0,12}").prop_map(|(host, address)| Neighbour { host, address });
    let gone = proptest::collection::vec(host(), 0..4);
    prop_oneof![
        (proptest::collection::vec(neighbour(), 0..4), gone)
            .prop_map(|(joined, gone)| Between::Hosts { joined, gone }),
        host().prop_map(|host| Between::Knock { host }),
        request().prop_map(|request| Between::Flush { request }),
        (request(), proptest::collection::vec((count(), count()), 0..4), proptest::option::of(host()))
            .prop_map(|(request, pieces, avoid)| Between::Fetch { request, place: PLACE, pieces, avoid }),
        request().prop_map(|request| Between::Unfetch { request }),
        (request(), host()).prop_map(|(request, host)| Between::Elsewhere { request, host }),
        (request(), proptest::bool::ANY).prop_map(|(request, has)| Between::Sought { request, has }),
        count().prop_map(|count| Between::DialLanes { count }),
        request().prop_map(|request| Between::NoBlock { request }),
    ]
    .prop_map(Message::Between)
}
