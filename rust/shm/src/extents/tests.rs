use proptest::prelude::*;

use super::*;

const GRANULE: u64 = ExtentAllocator::GRANULE;

#[test]
fn recently_freed_memory_is_handed_out_first() {
    let mut arena = ExtentAllocator::new(100 * GRANULE);
    let first = arena.alloc(10 * GRANULE).unwrap();
    let second = arena.alloc(10 * GRANULE).unwrap();
    arena.free(first);
    // The remaining 80 would be as good a fit, but cold.
    assert_eq!(arena.alloc(8 * GRANULE).unwrap().offset, first.offset);
    assert!(arena.free(second));
    assert!(!arena.free(second), "freed twice");
    assert!(!arena.free(Extent { offset: 1, len: GRANULE }));
    assert!(!arena.free(Extent { offset: 100 * GRANULE, len: GRANULE }));
    assert!(!arena.free(Extent { offset: u64::MAX - GRANULE + 1, len: GRANULE }));
}

#[test]
fn trimming_tells_what_to_punch() {
    let mut arena = ExtentAllocator::new(100 * GRANULE);
    let all: Vec<_> = (0..4).map(|_| arena.alloc(10 * GRANULE).unwrap()).collect();
    all.iter().for_each(|extent| assert!(arena.free(*extent)));
    assert_eq!(arena.warm_bytes(), 40 * GRANULE);
    let punched = arena.trim_warm(15 * GRANULE);
    assert_eq!(punched, [Extent { offset: 15 * GRANULE, len: 25 * GRANULE }]);
    assert_eq!(arena.warm_bytes(), 15 * GRANULE);
    assert!(arena.trim_warm(15 * GRANULE).is_empty());
}

#[test]
fn memory_brought_in_ahead_is_handed_out_first() {
    let mut arena = ExtentAllocator::new(100 * GRANULE);
    let used = arena.alloc(10 * GRANULE).unwrap();
    let ahead = arena.coldest(20 * GRANULE + 3).unwrap();
    assert_eq!(ahead, Extent { offset: 10 * GRANULE, len: 20 * GRANULE });
    arena.warmed(ahead);
    assert_eq!(arena.warm_bytes(), 20 * GRANULE);
    arena.free(used);
    assert_eq!(arena.coldest(1 << 30).unwrap(), Extent { offset: 30 * GRANULE, len: 70 * GRANULE });
    // Half of it is in use by the time it is there.
    let late = arena.coldest(20 * GRANULE).unwrap();
    assert_eq!(arena.alloc(40 * GRANULE).unwrap().offset, 0);
    arena.warmed(late);
    assert_eq!(arena.warm_bytes(), 10 * GRANULE);
    assert_eq!(arena.alloc(10 * GRANULE).unwrap().offset, 40 * GRANULE);
    arena.warmed(Extent { offset: 0, len: u64::MAX });
    assert_eq!(arena.coldest(1 << 30), None);
    assert_eq!(arena.coldest(5), None);
}

#[test]
fn a_full_arena_says_how_full() {
    let mut arena = ExtentAllocator::new(10 * GRANULE + 5);
    arena.alloc(4 * GRANULE).unwrap();
    let full = arena.alloc(7 * GRANULE).unwrap_err();
    let sizes = HeapFull { wanted: 7 * GRANULE, free: 6 * GRANULE, capacity: 10 * GRANULE };
    assert_eq!(full, sizes);
    assert!(arena.alloc(u64::MAX).is_err());
    assert!(ExtentAllocator::new(0).alloc(1).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extents_never_overlap_and_all_memory_returns(
        steps in prop::collection::vec((any::<bool>(), 1u64..40, any::<prop::sample::Index>()), 1..200)
    ) {
        let mut arena = ExtentAllocator::new(256 * GRANULE);
        let mut held: Vec<Extent> = Vec::new();
        for (take, granules, which) in steps {
            if take || held.is_empty() {
                match arena.alloc(granules * GRANULE - 7) {
                    Ok(extent) => {
                        prop_assert_eq!(extent.len, granules * GRANULE);
                        let apart = |other: &Extent| {
                            extent.offset + extent.len <= other.offset || other.offset + other.len <= extent.offset
                        };
                        prop_assert!(held.iter().all(apart));
                        held.push(extent);
                    }
                    Err(_) => prop_assert!(arena.largest_free() < granules * GRANULE),
                }
            } else {
                prop_assert!(arena.free(held.swap_remove(which.index(held.len()))));
            }
            prop_assert!(arena.warm_bytes() <= arena.free_bytes());
            prop_assert_eq!(arena.used_bytes(), held.iter().map(|extent| extent.len).sum::<u64>());
        }
        for extent in held {
            prop_assert!(arena.free(extent));
        }
        prop_assert_eq!(arena.largest_free(), 256 * GRANULE);
    }
}
