use std::collections::BTreeSet;

use raymesh_wire::{Block, HostId, ProcId};

use super::{DELAY, Orphans, Outcome};

fn proc(slot: u32) -> ProcId {
    ProcId::new(HostId(1), 0, slot)
}

fn block(home: u32, offset: u64) -> Block {
    Block { home: proc(home), offset, len: 64 }
}

/// `dead` dies; `living` are asked.
fn die(orphans: &mut Orphans, dead: u32, living: &[u32]) -> Vec<Outcome> {
    let mut out = Vec::new();
    orphans.died(proc(dead), true, 0, &mut out);
    let living: BTreeSet<ProcId> = living.iter().map(|slot| proc(*slot)).collect();
    orphans.ask(&living, DELAY, &mut out);
    out.retain(|outcome| !matches!(outcome, Outcome::Ask { .. }));
    out
}

fn answer(orphans: &mut Orphans, from: u32, dead: u32, needs: &[Block], homed: &[Block]) -> Vec<Outcome> {
    let mut out = Vec::new();
    orphans.answered(proc(from), proc(dead), needs.to_vec(), homed.to_vec(), &mut out);
    out
}

fn freed(orphans: &mut Orphans, from: u32, block: Block) -> Vec<Outcome> {
    let mut out = Vec::new();
    orphans.freed(proc(from), &[block], &mut out);
    out
}

#[test]
fn nothing_is_freed_before_everybody_has_answered() {
    let mut orphans = Orphans::default();
    assert_eq!(die(&mut orphans, 2, &[1, 3]), []);
    let (kept, mine) = (block(2, 0), block(1, 4096));
    assert_eq!(answer(&mut orphans, 1, 2, &[], &[mine]), []);
    let swept = answer(&mut orphans, 3, 2, &[kept], &[]);
    let extents = Outcome::FreeExtents { dead: proc(2), except: vec![kept] };
    assert_eq!(swept, [extents, Outcome::FreeBlock(mine)]);
    assert_eq!(freed(&mut orphans, 3, kept), [Outcome::FreeBlock(kept)]);
    assert!(!orphans.is_settling());
}

#[test]
fn a_block_of_a_living_heap_stays_while_another_process_reads_it() {
    let mut orphans = Orphans::default();
    die(&mut orphans, 2, &[1, 3]);
    let mine = block(1, 0);
    answer(&mut orphans, 3, 2, &[mine], &[]);
    let swept = answer(&mut orphans, 1, 2, &[], &[mine]);
    assert_eq!(swept, [Outcome::FreeExtents { dead: proc(2), except: vec![] }]);
    assert_eq!(freed(&mut orphans, 3, mine), [Outcome::FreeBlock(mine)]);
}

#[test]
fn the_last_of_several_readers_frees() {
    let mut orphans = Orphans::default();
    die(&mut orphans, 2, &[1, 3]);
    let kept = block(2, 0);
    answer(&mut orphans, 1, 2, &[kept], &[]);
    answer(&mut orphans, 3, 2, &[kept], &[]);
    assert_eq!(freed(&mut orphans, 1, kept), []);
    assert_eq!(freed(&mut orphans, 1, kept), []);
    assert_eq!(freed(&mut orphans, 3, kept), [Outcome::FreeBlock(kept)]);
}

#[test]
fn an_owner_that_dies_leaves_the_block_to_its_readers() {
    let mut orphans = Orphans::default();
    die(&mut orphans, 2, &[3, 4]);
    let kept = block(2, 0);
    answer(&mut orphans, 3, 2, &[kept], &[]);
    answer(&mut orphans, 4, 2, &[], &[]);
    // 3 owns it, 4 reads it: 3 alone has claimed it. Now 3 dies.
    assert_eq!(die(&mut orphans, 3, &[4]), []);
    let swept = answer(&mut orphans, 4, 3, &[kept], &[]);
    assert_eq!(swept, [Outcome::FreeExtents { dead: proc(3), except: vec![] }]);
    assert_eq!(freed(&mut orphans, 4, kept), [Outcome::FreeBlock(kept)]);
}

#[test]
fn a_reader_keeps_a_block_also_when_its_home_dies_after_its_owner() {
    let mut orphans = Orphans::default();
    die(&mut orphans, 2, &[3, 4]);
    let kept = block(3, 0);
    answer(&mut orphans, 4, 2, &[kept], &[]);
    answer(&mut orphans, 3, 2, &[], &[kept]);
    die(&mut orphans, 3, &[4]);
    let swept = answer(&mut orphans, 4, 3, &[], &[]);
    assert_eq!(swept, [Outcome::FreeExtents { dead: proc(3), except: vec![kept] }]);
}

#[test]
fn what_the_last_reader_held_is_free_when_it_dies() {
    let mut orphans = Orphans::default();
    die(&mut orphans, 2, &[3]);
    let kept = block(2, 0);
    answer(&mut orphans, 3, 2, &[kept], &[]);
    let swept = die(&mut orphans, 3, &[]);
    assert_eq!(swept, [Outcome::FreeBlock(kept), Outcome::FreeExtents { dead: proc(3), except: vec![] }]);
}

#[test]
fn one_that_dies_instead_of_answering_is_not_waited_for() {
    let mut orphans = Orphans::default();
    die(&mut orphans, 2, &[3]);
    let swept = die(&mut orphans, 3, &[]);
    assert_eq!(swept.len(), 2, "{swept:?}");
    assert!(!orphans.is_settling());
}

#[test]
fn a_block_let_go_between_two_answers_is_not_kept() {
    let mut orphans = Orphans::default();
    die(&mut orphans, 2, &[3, 4]);
    let kept = block(2, 0);
    answer(&mut orphans, 3, 2, &[kept], &[]);
    freed(&mut orphans, 3, kept);
    let swept = answer(&mut orphans, 4, 2, &[], &[]);
    assert_eq!(swept, [Outcome::FreeExtents { dead: proc(2), except: vec![] }]);
}
