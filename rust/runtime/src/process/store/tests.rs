use raymesh_wire::HostId;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn store() -> Store {
    let mut store = Store::new(ProcId::new(HostId(0), 1, 2));
    store.heap.add_extent(Extent { offset: 0, len: MIN_EXTENT });
    store.heap.add_extent(Extent { offset: MIN_EXTENT, len: MIN_EXTENT });
    store
}

fn put(store: &mut Store) -> Block {
    store.used = true;
    store.heap.alloc(MIN_EXTENT).unwrap()
}

#[test]
fn what_is_kept_free_goes_back_when_nobody_came_for_it() {
    let mut store = store();
    let blocks = [put(&mut store), put(&mut store)];
    assert_eq!(store.plan_review(0), None, "nothing is free");
    assert!(store.free(blocks[0]).is_empty());
    assert_eq!(store.plan_review(0), Some(GIVE_BACK));
    assert_eq!(store.plan_review(SECOND), None, "planned already");
    assert_eq!(store.review(SECOND), (Vec::new(), Some(GIVE_BACK)));
    // In use meanwhile: later.
    let again = put(&mut store);
    store.free(again);
    assert_eq!(store.review(GIVE_BACK), (Vec::new(), Some(2 * GIVE_BACK)));
    let (extents, next) = store.review(2 * GIVE_BACK);
    assert_eq!(extents.len(), 1);
    assert_eq!(next, None);
    store.free(blocks[1]);
    assert!(store.plan_review(0).is_some());
}

#[test]
fn extents_hold_whole_numbers_of_blocks() {
    assert_eq!(extent_for(0), MIN_EXTENT);
    assert_eq!(extent_for(3 << 20), 3 << 20);
    assert_eq!(extent_for((3 << 20) + 1), (3 << 20) + 64);
    assert_eq!(extent_for((1 << 20) + 64), 3 * ((1 << 20) + 64));
    assert_eq!(extent_for(1 << 30), 1 << 30);
    assert!(extent_for(u64::MAX) >= u64::MAX - 64);
}
