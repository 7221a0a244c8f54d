//! The living are played by hand: each test says who names what.

use raymesh_wire::control::{Stock, Trace};
use raymesh_wire::{Block, FromController, HostId, ObjectId, Place, ProcId};

use super::{DELAY, Estates, Outcome, PATIENCE, REST};

fn proc(slot: u32) -> ProcId {
    ProcId::new(HostId(1), 0, slot)
}

fn block(home: u32, offset: u64) -> Block {
    Block { home: proc(home), offset, len: 64 }
}

fn object(owner: u32, seq: u64) -> ObjectId {
    ObjectId { owner: proc(owner), seq, index: 1 }
}

/// `object` is held; `block`: and it is known where it lies.
fn trace(object: ObjectId, block: Option<Block>) -> Trace {
    Trace { object, block, refs: Vec::new() }
}

#[derive(Debug, Default)]
struct Bench {
    estates: Estates,
    now: u64,
    out: Vec<Outcome>,
}

impl Bench {
    /// Processes 1 to `count`.
    fn new(count: u32) -> Self {
        let mut bench = Self::default();
        (1..=count).for_each(|slot| bench.estates.started(proc(slot)));
        bench
    }

    fn die(&mut self, slot: u32) {
        self.estates.died(proc(slot), true, self.now, &mut self.out);
    }

    fn tick(&mut self, after: u64) {
        self.now += after;
        self.estates.tick(self.now, &mut self.out);
    }

    fn mourned(&mut self, slots: &[u32]) {
        let round = self.estates.last_round;
        for slot in slots {
            self.estates.mourned(proc(*slot), round, self.now, &mut self.out);
        }
    }

    /// A round begins, and all these have mourned.
    fn mourn(&mut self, slots: &[u32]) {
        self.tick(DELAY);
        self.mourned(slots);
        self.out.clear();
    }

    fn stock(&mut self, slot: u32, needs: &[Trace], homed: &[Trace]) {
        self.stock_with(slot, needs, &[], homed);
    }

    fn stock_with(&mut self, slot: u32, needs: &[Trace], owned: &[Place], homed: &[Trace]) {
        let round = self.estates.last_round;
        let (needs, owned, homed) = (needs.to_vec(), owned.to_vec(), homed.to_vec());
        self.estates.stock(proc(slot), Stock { round, needs, owned, homed }, self.now, &mut self.out);
    }

    /// A whole round in which only `slot` has something to say.
    fn round(&mut self, slots: &[u32], slot: u32, needs: &[Trace]) {
        self.mourn(slots);
        for other in slots {
            self.stock(*other, if *other == slot { needs } else { &[] }, &[]);
        }
    }

    fn let_go(&mut self, slot: u32, object: ObjectId) {
        self.estates.let_go(proc(slot), &[object], self.now, &mut self.out);
    }

    fn seek(&mut self, slot: u32, object: ObjectId) {
        self.estates.seek(proc(slot), object, self.now, &mut self.out);
    }

    /// What `slot` was told of `object`.
    fn found(&self, slot: u32, object: ObjectId) -> Option<Option<Block>> {
        self.out.iter().find_map(|outcome| match outcome {
            Outcome::Send { to, message: FromController::Found { object: it, found } }
                if *to == proc(slot) && *it == object =>
            {
                Some(found.as_ref().map(|(block, _)| *block))
            }
            _ => None,
        })
    }

    /// Memory that has become free one by one, at living homes and dead ones.
    fn freed(&self) -> Vec<Block> {
        let freed = |outcome: &Outcome| match outcome {
            Outcome::Send { message: FromController::FreeBlocks { blocks }, .. } => blocks.clone(),
            Outcome::Free(block) => vec![*block],
            _ => Vec::new(),
        };
        self.out.iter().flat_map(freed).collect()
    }

    fn swept(&self, home: u32) -> Option<Vec<Block>> {
        self.out.iter().find_map(|outcome| match outcome {
            Outcome::Sweep { dead, except } if *dead == proc(home) => Some(except.clone()),
            _ => None,
        })
    }

    fn is_settled(&self, dead: u32) -> bool {
        let settled = |outcome: &Outcome| {
            matches!(outcome, Outcome::Send { message: FromController::Settled { dead: all }, .. }
                if all.contains(&proc(dead)))
        };
        self.out.iter().any(settled)
    }

    fn sent(&self, slot: u32) -> usize {
        self.out
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Send { to, .. } if *to == proc(slot)))
            .count()
    }
}

#[test]
fn bytes_that_only_their_home_knows_are_found_for_who_holds_the_reference() {
    let mut bench = Bench::new(4);
    let (it, place) = (object(2, 7), block(3, 0));
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(1, &[trace(it, None)], &[]);
    bench.stock(4, &[], &[]);
    assert_eq!(bench.found(1, it), None, "not all have been heard");
    bench.stock(3, &[], &[trace(it, Some(place))]);
    assert_eq!(bench.found(1, it), Some(Some(place)));
    assert_eq!(bench.freed(), []);
    bench.let_go(1, it);
    bench.round(&[1, 3, 4], 0, &[]);
    assert_eq!(bench.freed(), [place]);
}

#[test]
fn bytes_in_the_heap_of_the_dead_that_one_reader_knows_are_found_for_another() {
    let mut bench = Bench::new(4);
    let (it, place) = (object(2, 7), block(2, 0));
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(1, &[trace(it, None)], &[]);
    bench.stock(3, &[trace(it, Some(place))], &[]);
    bench.stock(4, &[], &[]);
    assert_eq!(bench.found(1, it), Some(Some(place)));
    assert_eq!(bench.found(3, it), None, "it knows");
    assert_eq!(bench.swept(2), Some(vec![place]));
    bench.let_go(3, it);
    bench.let_go(1, it);
    bench.round(&[1, 3, 4], 0, &[]);
    assert_eq!(bench.freed(), [place]);
    assert_eq!(bench.estates.remains(), (0, false));
}

#[test]
fn what_nobody_knows_is_told_to_be_gone() {
    let mut bench = Bench::new(3);
    let it = object(2, 7);
    bench.die(2);
    bench.seek(3, it);
    assert_eq!(bench.found(3, it), None);
    bench.round(&[1, 3], 1, &[trace(it, None)]);
    assert_eq!(bench.found(1, it), Some(None));
    assert_eq!(bench.found(3, it), Some(None));
    bench.out.clear();
    bench.seek(3, it);
    assert_eq!(bench.found(3, it), Some(None), "at once, when all have been asked");
}

#[test]
fn nothing_is_freed_before_everybody_has_answered() {
    let mut bench = Bench::new(3);
    let (kept, mine) = (block(2, 0), block(1, 4096));
    bench.die(2);
    bench.mourn(&[1, 3]);
    bench.stock(1, &[], &[trace(object(2, 2), Some(mine))]);
    assert_eq!((bench.freed(), bench.swept(2)), (vec![], None));
    bench.stock(3, &[trace(object(2, 1), Some(kept))], &[]);
    assert_eq!((bench.freed(), bench.swept(2)), (vec![mine], Some(vec![kept])));
    assert!(bench.is_settled(2));
}

/// Who passes an object of a dead owner on registers nobody: all are asked before it goes.
#[test]
fn an_object_passed_on_by_its_last_known_reader_is_not_freed_under_the_new_one() {
    let mut bench = Bench::new(4);
    let (it, place) = (object(2, 7), block(2, 0));
    bench.die(2);
    bench.round(&[1, 3, 4], 3, &[trace(it, Some(place))]);
    bench.out.clear();
    bench.let_go(3, it);
    assert_eq!(bench.freed(), []);
    bench.round(&[1, 3, 4], 4, &[trace(it, Some(place))]);
    assert_eq!(bench.freed(), []);
    bench.let_go(4, it);
    bench.round(&[1, 3, 4], 0, &[]);
    assert_eq!(bench.freed(), [place]);
}

/// A process that started after the death does not know that the owner is dead.
#[test]
fn all_are_told_whose_objects_are_asked_for() {
    let mut bench = Bench::new(3);
    let it = object(2, 7);
    bench.die(2);
    bench.round(&[1, 3], 3, &[trace(it, Some(block(2, 0)))]);
    bench.estates.started(proc(9));
    bench.let_go(3, it);
    bench.out.clear();
    bench.tick(DELAY);
    let told = |outcome: &Outcome| {
        matches!(outcome, Outcome::Send { to, message: FromController::Mourn { owners, .. } }
            if *to == proc(9) && *owners == [proc(2)])
    };
    assert!(bench.out.iter().any(told), "{:?}", bench.out);
}

#[test]
fn one_that_dies_before_it_took_stock_is_settled_together_with_the_first() {
    let mut bench = Bench::new(4);
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(1, &[], &[]);
    // 3 may have passed on what it has not named.
    bench.die(3);
    bench.stock(4, &[], &[]);
    assert_eq!(bench.swept(2), None);
    assert!(!bench.is_settled(2));
    bench.round(&[1, 4], 0, &[]);
    assert!(bench.swept(2).is_some() && bench.swept(3).is_some());
    assert!(bench.is_settled(2) && bench.is_settled(3));
}

#[test]
fn one_that_dies_after_it_took_stock_needs_what_it_named_until_it_is_settled() {
    let mut bench = Bench::new(4);
    let (it, place) = (object(2, 7), block(2, 0));
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(3, &[trace(it, Some(place))], &[]);
    bench.die(3);
    bench.stock(1, &[], &[]);
    bench.stock(4, &[], &[]);
    assert_eq!(bench.swept(2), Some(vec![place]));
    assert!(!bench.is_settled(3));
    bench.round(&[1, 4], 0, &[]);
    assert_eq!(bench.freed(), [place]);
}

/// Else somebody may be asked what he has through it before he has got it.
#[test]
fn a_round_does_not_begin_before_the_last_words_of_the_dead_have_arrived_everywhere() {
    let mut bench = Bench::new(3);
    bench.estates.is_under_way(proc(2));
    bench.die(2);
    bench.tick(DELAY);
    assert_eq!(bench.estates.next_deadline(), None);
    assert!(bench.out.is_empty(), "{:?}", bench.out);
    bench.estates.heard(proc(2));
    assert_eq!(bench.estates.next_deadline(), Some(DELAY));
    bench.tick(0);
    assert_eq!(bench.sent(1), 1);
    // The host may be gone before it can say so.
    bench.estates.is_under_way(proc(3));
    bench.die(3);
    bench.estates.host_lost(HostId(1));
    bench.tick(DELAY);
    assert_eq!(bench.sent(1), 2);
}

#[test]
fn a_burst_of_deaths_does_not_make_a_burst_of_rounds() {
    let mut bench = Bench::new(100);
    bench.die(2);
    bench.tick(DELAY);
    for slot in 3..=90 {
        bench.die(slot);
        bench.tick(1);
    }
    let before = bench.sent(1);
    bench.tick(DELAY);
    assert_eq!(bench.sent(1), before + 1);
    assert_eq!(before, 1);
}

#[test]
fn the_owner_of_an_object_in_a_dead_heap_frees_it_without_asking_anybody() {
    let mut bench = Bench::new(3);
    let place = Place { object: object(1, 7), block: block(2, 0) };
    bench.die(2);
    bench.mourn(&[1, 3]);
    bench.stock_with(1, &[], &[place], &[]);
    bench.stock(3, &[], &[]);
    assert_eq!(bench.swept(2), Some(vec![place.block]));
    bench.let_go(1, place.object);
    assert_eq!(bench.freed(), [place.block]);
    assert_eq!(bench.estates.remains(), (0, false));
}

#[test]
fn an_owner_that_dies_too_leaves_the_block_to_its_readers() {
    let mut bench = Bench::new(4);
    let place = Place { object: object(3, 7), block: block(2, 0) };
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock_with(3, &[], &[place], &[]);
    bench.stock(1, &[], &[]);
    bench.stock(4, &[], &[]);
    bench.die(3);
    bench.round(&[1, 4], 4, &[trace(place.object, None)]);
    assert_eq!(bench.found(4, place.object), Some(Some(place.block)), "it was known from the owner");
    assert_eq!(bench.freed(), []);
}

#[test]
fn a_reader_keeps_a_block_also_when_its_home_dies_after_its_owner() {
    let mut bench = Bench::new(4);
    let (it, kept) = (object(2, 7), block(3, 0));
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(3, &[], &[trace(it, Some(kept))]);
    bench.stock(4, &[trace(it, Some(kept))], &[]);
    bench.stock(1, &[], &[]);
    assert_eq!(bench.freed(), []);
    bench.die(3);
    bench.round(&[1, 4], 4, &[trace(it, Some(kept))]);
    assert_eq!(bench.swept(3), Some(vec![kept]));
    assert_eq!(bench.freed(), []);
}

#[test]
fn what_was_let_go_of_between_two_answers_is_not_kept() {
    let mut bench = Bench::new(3);
    let it = object(2, 7);
    bench.die(2);
    bench.mourn(&[1, 3]);
    bench.stock(3, &[trace(it, Some(block(2, 0)))], &[]);
    bench.let_go(3, it);
    bench.stock(1, &[], &[]);
    assert_eq!(bench.swept(2), Some(vec![]));
}

#[test]
fn who_finds_an_object_while_all_are_asked_for_it_keeps_it() {
    let mut bench = Bench::new(4);
    let (it, place) = (object(2, 7), block(2, 0));
    bench.die(2);
    bench.round(&[1, 3, 4], 3, &[trace(it, Some(place))]);
    bench.let_go(3, it);
    bench.mourn(&[1, 3, 4]);
    bench.stock(1, &[], &[]);
    bench.seek(1, it);
    assert_eq!(bench.found(1, it), Some(Some(place)));
    bench.stock(3, &[], &[]);
    bench.stock(4, &[], &[]);
    assert_eq!(bench.freed(), []);
}

/// A task that ran again has left its result in two heaps: one of them is read.
#[test]
fn of_two_results_of_one_call_the_one_that_is_read_is_kept() {
    let mut bench = Bench::new(5);
    let (it, first, second) = (object(2, 7), block(3, 0), block(4, 0));
    bench.die(2);
    bench.mourn(&[1, 3, 4, 5]);
    bench.stock(3, &[], &[trace(it, Some(first))]);
    bench.stock(4, &[], &[trace(it, Some(second))]);
    bench.stock(5, &[trace(it, Some(second))], &[]);
    bench.stock(1, &[trace(it, None)], &[]);
    assert_eq!(bench.freed(), [first]);
    assert_eq!(bench.found(1, it), Some(Some(second)));
}

/// Else their owners would forget them with the dead one's holds.
#[test]
fn who_is_told_of_an_object_registers_for_what_is_inside_before_the_death_is_settled() {
    let mut bench = Bench::new(4);
    let it = object(2, 7);
    let found = Trace { object: it, block: Some(block(3, 0)), refs: vec![object(4, 1)] };
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(1, &[trace(it, None)], &[]);
    bench.stock(3, &[], &[found]);
    bench.stock(4, &[], &[]);
    assert!(bench.found(1, it).is_some() && !bench.is_settled(2));
    bench.mourned(&[1]);
    assert!(bench.is_settled(2));
}

#[test]
fn a_stopped_process_does_not_hold_up_who_looks_for_an_object() {
    let mut bench = Bench::new(4);
    let (here, gone) = (object(2, 7), object(2, 8));
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(3, &[trace(here, Some(block(2, 0)))], &[]);
    bench.stock(1, &[trace(here, None), trace(gone, None)], &[]);
    bench.seek(1, here);
    bench.seek(1, gone);
    assert_eq!(bench.estates.next_deadline(), Some(bench.now + PATIENCE));
    bench.tick(PATIENCE);
    assert_eq!(bench.found(1, here), Some(Some(block(2, 0))));
    assert_eq!(bench.found(1, gone), Some(None));
    assert_eq!(bench.swept(2), None, "the stopped one may read anything");
    assert_eq!(bench.estates.next_deadline(), None);
    bench.stock(4, &[], &[]);
    assert_eq!(bench.swept(2), Some(vec![block(2, 0)]));
}

/// A worker that is about to end names what its constructor was given; that was freed, and its memory holds
/// something else by now.
#[test]
fn what_its_home_knows_nothing_of_is_neither_kept_nor_freed() {
    let mut bench = Bench::new(4);
    let it = object(2, 7);
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.stock(1, &[trace(it, Some(block(3, 0)))], &[]);
    bench.stock(4, &[trace(it, None)], &[]);
    bench.stock(3, &[], &[]);
    assert_eq!(bench.found(4, it), Some(None));
    assert_eq!((bench.freed(), bench.estates.remains()), (vec![], (0, false)));
    // In the same way after its home is dead and swept.
    bench.die(3);
    bench.round(&[1, 4], 0, &[]);
    bench.die(4);
    bench.round(&[1], 1, &[trace(it, Some(block(3, 0)))]);
    assert_eq!((bench.freed(), bench.estates.remains()), (vec![], (0, false)));
}

#[test]
fn memory_of_a_lost_host_is_nowhere() {
    let mut bench = Bench::new(3);
    let it = object(2, 7);
    let there = Block { home: ProcId::new(HostId(8), 0, 1), offset: 0, len: 64 };
    bench.estates.host_lost(HostId(8));
    bench.die(2);
    bench.mourn(&[1, 3]);
    bench.stock(1, &[trace(it, None)], &[]);
    bench.stock(3, &[trace(it, Some(there))], &[]);
    assert_eq!(bench.found(1, it), Some(None));
    assert_eq!(bench.estates.remains(), (0, false));
}

/// Whoever reads it would ask again and again.
#[test]
fn memory_whose_home_has_named_it_and_was_then_lost_is_nowhere() {
    let mut bench = Bench::new(2);
    let (it, home) = (object(2, 7), ProcId::new(HostId(8), 0, 1));
    bench.estates.started(home);
    let there = Block { home, offset: 0, len: 64 };
    bench.die(2);
    bench.mourn(&[1]);
    let round = bench.estates.last_round;
    bench.estates.mourned(home, round, bench.now, &mut bench.out);
    bench.out.clear();
    let stock = Stock { round, homed: vec![trace(it, Some(there))], ..Stock::default() };
    bench.estates.stock(home, stock, bench.now, &mut bench.out);
    bench.estates.host_lost(HostId(8));
    bench.estates.died(home, true, bench.now, &mut bench.out);
    bench.stock(1, &[trace(it, None)], &[]);
    assert_eq!(bench.found(1, it), Some(None));
    bench.tick(DELAY);
    bench.mourned(&[1]);
    bench.stock(1, &[], &[]);
    assert_eq!(bench.estates.remains(), (0, false));
}

/// In a cluster in which somebody dies at any time, else the controller would do nothing but ask.
#[test]
fn after_a_long_round_others_have_as_much_time_as_it_took() {
    let mut bench = Bench::new(4);
    bench.die(2);
    bench.mourn(&[1, 3, 4]);
    bench.now += 20 * DELAY;
    bench.die(3);
    bench.die(4);
    assert_eq!(bench.estates.next_deadline(), Some(bench.now + 20 * DELAY), "given up, and begun anew later");
    bench.tick(20 * DELAY);
    bench.now += 100 * REST;
    bench.mourned(&[1]);
    bench.stock(1, &[], &[]);
    assert!(bench.is_settled(3));
    bench.estates.started(proc(5));
    bench.die(5);
    assert_eq!(
        bench.estates.next_deadline(),
        Some(bench.now + REST),
        "one that was held up is not waited for"
    );
}
