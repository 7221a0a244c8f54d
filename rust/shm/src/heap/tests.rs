use proptest::prelude::*;
use raymesh_wire::HostId;

use super::*;

fn heap() -> Heap {
    Heap::new(ProcId::new(HostId(0), 1, 2))
}

#[test]
fn freed_memory_is_used_again_before_fresh_memory() {
    let mut heap = heap();
    heap.add_extent(Extent { offset: 0, len: 1 << 20 });
    let first = heap.alloc_tracked(1000).unwrap();
    assert_eq!(first.cold, Some(Extent { offset: 0, len: 1024 }));
    heap.free(&first.block);
    let again = heap.alloc_tracked(900).unwrap();
    assert_eq!((again.block.offset, again.cold), (0, None));
    // 64 bytes of the first are left: not enough, so this one is partly cold.
    heap.free(&again.block);
    let larger = heap.alloc_tracked(2000).unwrap();
    assert_eq!(larger.block.offset, 0);
    assert_eq!(larger.cold, Some(Extent { offset: 1024, len: 1024 }));
}

#[test]
fn blocks_do_not_span_extents_that_happen_to_touch() {
    let mut heap = heap();
    heap.add_extent(Extent { offset: 4096, len: 4096 });
    heap.add_extent(Extent { offset: 0, len: 4096 });
    assert_eq!(heap.alloc(5000), None);
    let block = heap.alloc(4096).unwrap();
    assert!(heap.free(&block));
    let taken = heap.take_free_extents(4096);
    assert_eq!(taken.len(), 1);
    assert_eq!(heap.leased_bytes(), 4096);
    // What is left still has its walls.
    heap.add_extent(taken[0]);
    assert_eq!(heap.alloc(5000), None);
    assert_eq!(heap.take_free_extents(0).len(), 2);
    assert_eq!((heap.leased_bytes(), heap.free_bytes(), heap.idle_bytes()), (0, 0, 0));
}

#[test]
fn wrong_frees_are_refused() {
    let mut heap = heap();
    heap.add_extent(Extent { offset: 0, len: 4096 });
    let block = heap.alloc(100).unwrap();
    assert!(!heap.free(&Block { len: 200, ..block }));
    assert!(!heap.free(&Block { offset: 64, ..block }));
    assert!(heap.free(&block));
    assert!(!heap.free(&block));
    assert!(!heap.free(&Block { len: u64::MAX, ..block }));
    assert_eq!(heap.alloc(u64::MAX), None);
}

#[test]
fn the_heap_of_a_dead_process_is_rebuilt_from_its_blocks() {
    let mut dead = heap();
    dead.add_extent(Extent { offset: 0, len: 1 << 16 });
    let blocks: Vec<_> = (0..10).map(|n| dead.alloc(n * 500).unwrap()).collect();
    let mut rebuilt = heap();
    rebuilt.add_extent(Extent { offset: 0, len: 1 << 16 });
    assert!(blocks.iter().step_by(2).all(|block| rebuilt.reserve(block)));
    assert!(!rebuilt.reserve(&blocks[0]));
    assert_eq!(rebuilt.blocks(), 5);
    assert!(blocks.iter().step_by(2).all(|block| rebuilt.free(block)));
    assert_eq!(rebuilt.take_free_extents(0), [Extent { offset: 0, len: 1 << 16 }]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_never_overlap_stay_inside_extents_and_all_memory_returns(
        steps in prop::collection::vec((0u8..8, 0u64..30_000, any::<prop::sample::Index>()), 1..200)
    ) {
        let mut heap = heap();
        let mut extents: Vec<Extent> = Vec::new();
        let mut held: Vec<Block> = Vec::new();
        let mut touched: Vec<(u64, u64)> = Vec::new();
        let mut next = 0;
        for (what, len, which) in steps {
            match what {
                0 => {
                    let extent = Extent { offset: next, len: 1 << 16 };
                    next += extent.len;
                    heap.add_extent(extent);
                    extents.push(extent);
                }
                1..4 if !held.is_empty() => {
                    prop_assert!(heap.free(&held.swap_remove(which.index(held.len()))));
                }
                4 => for extent in heap.take_free_extents(1 << 16) {
                    extents.retain(|other| *other != extent);
                    touched.retain(|(offset, _)| !(extent.offset..extent.offset + extent.len).contains(offset));
                },
                _ => if let Some(Allocation { block, cold }) = heap.alloc_tracked(len) {
                    let end = block.offset + len.max(1);
                    let inside = |extent: &Extent| {
                        extent.offset <= block.offset && end <= extent.offset + extent.len
                    };
                    prop_assert!(block.offset % 64 == 0 && extents.iter().any(inside));
                    let apart = |other: &Block| {
                        end <= other.offset || other.offset + other.len.max(1) <= block.offset
                    };
                    prop_assert!(held.iter().all(apart));
                    // Whatever was never part of a block is reported cold.
                    let cold = cold.map_or(0..0, |cold| cold.offset..cold.offset + cold.len);
                    for at in (block.offset..end).step_by(64) {
                        let known = touched.iter().any(|(from, to)| (*from..*to).contains(&at));
                        prop_assert!(known || cold.contains(&at));
                    }
                    touched.push((block.offset, end.next_multiple_of(64)));
                    held.push(block);
                },
            }
            prop_assert_eq!(heap.blocks(), held.len());
            let idle = |extent: &&Extent| {
                !held.iter().any(|block| (extent.offset..extent.offset + extent.len).contains(&block.offset))
            };
            prop_assert_eq!(heap.idle_bytes(), extents.iter().filter(idle).map(|extent| extent.len).sum::<u64>());
        }
        for block in held {
            prop_assert!(heap.free(&block));
        }
        prop_assert_eq!(heap.used_bytes(), 0);
        let mut back = heap.take_free_extents(0);
        back.sort_by_key(|extent| extent.offset);
        prop_assert_eq!(back, extents);
    }
}
