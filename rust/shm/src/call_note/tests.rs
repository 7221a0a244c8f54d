use raymesh_wire::HostId;
use raymesh_wire::control::LastCall;

use super::*;
use crate::{Endpoint, Segment, Shape};

const HOST: HostId = HostId(1);

fn task(slot: u32, seq: u64) -> TaskId {
    TaskId { owner: ProcId::new(HOST, 1, slot), seq }
}

#[test]
fn a_name_is_that_of_the_mailbox_as_it_is_now() {
    let segment = Segment::create(Shape { host: HOST, slots: 8, arena: 1 << 16 }).unwrap();
    let (first, second) = (ProcId::new(HOST, 1, 3), ProcId::new(HOST, 2, 3));
    segment.open_mailbox(first).unwrap();
    Endpoint::new(segment.clone(), first).note_name(&"long".repeat(100));
    assert_eq!(segment.noted_name(first), "long".repeat(16));
    Endpoint::new(segment.clone(), first).note_name("short");
    assert_eq!(segment.noted_name(first), "short");
    segment.close_mailbox(first);
    segment.open_mailbox(second).unwrap();
    assert_eq!((segment.noted_name(first), segment.noted_name(second)), (String::new(), String::new()));
}

#[test]
fn the_agent_sees_what_ran_last_and_nothing_of_who_was_there_before() {
    let segment = Segment::create(Shape { host: HOST, slots: 8, arena: 1 << 16 }).unwrap();
    let proc = ProcId::new(HOST, 1, 3);
    assert_eq!(segment.last_call(proc), LastCall::Unknown);
    segment.open_mailbox(proc).unwrap();
    assert_eq!(segment.last_call(proc), LastCall::None);
    let endpoint = Endpoint::new(segment.clone(), proc);
    endpoint.begin_call(task(1, 7));
    assert_eq!(segment.last_call(proc), LastCall::Running(task(1, 7)));
    endpoint.end_call(task(1, 7));
    assert_eq!(segment.last_call(proc), LastCall::Finished(task(1, 7)));
    endpoint.begin_call(task(2, 7));
    endpoint.begin_call(task(2, 8));
    endpoint.end_call(task(2, 7));
    assert_eq!(segment.last_call(proc), LastCall::Running(task(2, 8)));
    segment.close_mailbox(proc);
    let next = ProcId::new(HOST, 2, 3);
    segment.open_mailbox(next).unwrap();
    assert_eq!(segment.last_call(next), LastCall::None);
    assert_eq!(segment.last_call(proc), LastCall::Unknown);
}
