use raymesh_wire::{Block, ObjectId, ProcId};

use super::*;

const ME: HostId = HostId(1);

fn place() -> Place {
    let home = ProcId::new(ME, 1, 1);
    let block = Block { home, offset: 0, len: 100 << 20 };
    Place { object: ObjectId { owner: home, seq: 1, index: 1 }, block }
}

fn host(id: u32) -> HostId {
    HostId(id)
}

#[test]
fn nobody_serves_more_than_its_branches_at_once() {
    let mut spread = Spread::new(ME);
    let parents: Vec<u32> = (2..10).map(|id| spread.source(place(), host(id), None).0).collect();
    assert_eq!(parents, [1, 1, 2, 2, 3, 3, 4, 4]);
}

#[test]
fn who_has_all_of_it_frees_its_source() {
    let mut spread = Spread::new(ME);
    for id in 2..4 {
        assert_eq!(spread.source(place(), host(id), None), ME);
        spread.copied(&place(), host(id));
    }
    assert_eq!(spread.source(place(), host(4), None), ME);
}

#[test]
fn nobody_is_sent_to_who_gets_it_from_him() {
    let mut spread = Spread::new(ME);
    for id in 2..8 {
        spread.source(place(), host(id), None);
    }
    // 2 feeds 4 and 5. It asks again, since a lane broke, and must not get it from these.
    for _ in 0..10 {
        let source = spread.source(place(), host(2), None);
        assert!(![2, 4, 5].contains(&source.0), "{source:?}");
    }
}

#[test]
fn the_dead_and_those_that_have_none_are_nobodys_source() {
    let mut spread = Spread::new(ME);
    for id in 2..6 {
        spread.source(place(), host(id), None);
    }
    spread.host_gone(host(2));
    spread.dropped(&place(), host(3));
    // Those that it fed come back, and are served in turn.
    for id in [4, 5, 6, 7] {
        let source = spread.source(place(), host(id), Some(host(2)));
        assert!(![2, 3].contains(&source.0), "{source:?}");
    }
}

#[test]
fn a_block_that_nobody_copies_any_more_is_forgotten() {
    let mut spread = Spread::new(ME);
    spread.source(place(), host(2), None);
    spread.source(place(), host(3), None);
    spread.dropped(&place(), host(2));
    spread.host_gone(host(3));
    assert!(spread.trees.is_empty());
}
