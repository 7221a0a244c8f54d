use raymesh_wire::Block;
use raymesh_wire::control::Extent;

use super::*;

const HOST: HostId = HostId(4);

fn segment() -> Arc<Segment> {
    Segment::create(Shape { host: HOST, slots: 64, arena: 1 << 20 }).unwrap()
}

#[test]
fn an_unused_segment_of_all_slots_takes_almost_no_memory() {
    let shape = Shape { host: HOST, slots: ProcId::MAX_SLOTS, arena: 1 << 40 };
    let segment = Segment::create(shape).unwrap();
    segment.open_mailbox(ProcId::new(HOST, 1, 5000)).unwrap();
    assert!(segment.resident().unwrap() < 100_000, "{:?}", segment.resident());
}

#[test]
fn attach_sees_what_create_made_and_refuses_other_files() {
    let segment = segment();
    let twin = Segment::attach(segment.fd().try_clone_to_owned().unwrap()).unwrap();
    let proc = ProcId::new(HOST, 1, 3);
    segment.open_mailbox(proc).unwrap();
    assert!(twin.is_open(proc));
    assert_eq!((twin.host(), twin.slots(), twin.arena_len()), (HOST, 64, 1 << 20));
    for len in [0, 100, 1 << 20] {
        let foreign = memfd::create("foreign", len);
        assert!(foreign.is_err() || Segment::attach(foreign.unwrap()).is_err());
    }
    assert!(Segment::create(Shape { host: HOST, slots: 1, arena: 0 }).is_err());
    assert!(Segment::create(Shape { host: HOST, slots: 64, arena: u64::MAX / 2 }).is_err());
}

#[test]
fn a_slot_has_one_owner_at_a_time() {
    let segment = segment();
    let (old, new) = (ProcId::new(HOST, 1, 3), ProcId::new(HOST, 2, 3));
    segment.open_mailbox(old).unwrap();
    assert_eq!(segment.open_mailbox(new), Err(OpenError::InUse { slot: 3 }));
    segment.close_mailbox(new);
    assert!(segment.is_open(old));
    segment.close_mailbox(old);
    segment.open_mailbox(new).unwrap();
    assert!(segment.is_open(new) && !segment.is_open(old));
    let beyond = ProcId::new(HOST, 1, 64);
    assert_eq!(segment.open_mailbox(beyond), Err(OpenError::NoSuchSlot { slot: 64, slots: 64 }));
}

#[test]
fn a_slot_is_not_reused_while_a_sender_is_inside() {
    let segment = segment();
    let proc = ProcId::new(HOST, 1, 3);
    segment.open_mailbox(proc).unwrap();
    let sender = segment.ring(3).unwrap().writer(proc, 9, false).unwrap();
    segment.close_mailbox(proc);
    let next = ProcId::new(HOST, 2, 3);
    assert_eq!(segment.open_mailbox(next), Err(OpenError::Busy { slot: 3 }));
    drop(sender);
    segment.open_mailbox(next).unwrap();
}

#[test]
fn closing_gives_the_ring_back_to_the_system() {
    let segment = segment();
    let proc = ProcId::new(HOST, 1, 3);
    segment.open_mailbox(proc).unwrap();
    let before = segment.resident().unwrap();
    let mut writer = segment.ring(3).unwrap().writer(proc, 9, false).unwrap();
    while writer.push(proc, 0, &[], &[1; 5000]) {}
    let _ = writer.finish();
    assert!(segment.resident().unwrap() > before + 100_000);
    segment.close_mailbox(proc);
    assert_eq!(segment.resident().unwrap(), before);
}

#[test]
fn a_killed_spinner_does_not_keep_its_token() {
    let segment = segment();
    let tokens = segment.tokens();
    for token in tokens.0 {
        token.0.store(4, Ordering::Relaxed);
    }
    segment.release_locks_of(ProcId::new(HOST, 1, 3));
    assert!(tokens.0.iter().all(|token| token.0.load(Ordering::Relaxed) == 0));
}

#[test]
fn a_ring_that_was_scribbled_over_is_emptied_not_followed() {
    let segment = segment();
    let proc = ProcId::new(HOST, 1, 3);
    segment.open_mailbox(proc).unwrap();
    let ring = segment.ring(3).unwrap();
    for tail in [8, 16, 1 << 40, u64::MAX] {
        ring.mailbox.tail.store(tail, Ordering::Relaxed);
        let mut reader = ring.reader();
        while reader.next().is_some() {}
        drop(reader);
        assert!(ring.is_empty());
    }
}

#[test]
fn blocks_are_checked_against_the_arena() {
    let segment = segment();
    let block = Block { home: ProcId::new(HOST, 1, 3), offset: 4096 - 64, len: 128 };
    segment.write_block(&block, |bytes| bytes.fill(3)).unwrap();
    assert_eq!(segment.block_bytes(&block).unwrap(), &[3; 128]);
    let (copy, at) = segment.map_copy_on_write(&block).unwrap();
    assert_eq!((copy.len(), at), (4096 - 64 + 128, 4096 - 64));
    for bad in [
        Block { offset: 1 << 20, ..block },
        Block { len: u64::MAX, ..block },
        Block { home: ProcId::new(HostId(1), 1, 3), ..block },
    ] {
        assert!(segment.block_bytes(&bad).is_err());
    }
    let extent = Extent { offset: 0, len: 1 << 16 };
    segment.populate(extent).unwrap();
    segment.punch(extent).unwrap();
    assert_eq!(segment.block_bytes(&block).unwrap(), &[0; 128]);
    assert!(segment.populate(Extent { offset: 1 << 20, len: 1 }).is_err());
}
