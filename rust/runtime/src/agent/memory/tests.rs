use raymesh_shm::{ExtentAllocator, Segment, Shape};
use raymesh_wire::control::{Extent, FromAgent, HeapFull};
use raymesh_wire::{Block, HostId, ProcId, RequestId};

use super::{MOST_AHEAD, Memory, PATIENCE};

const GRANULE: u64 = ExtentAllocator::GRANULE;

fn proc(slot: u32) -> ProcId {
    ProcId::new(HostId(1), 0, slot)
}

/// Ten granules, and what was said.
struct Bench {
    memory: Memory,
    said: Vec<(ProcId, FromAgent)>,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        Self { memory: Memory::new(10 * GRANULE), said: Vec::new(), now: 0 }
    }

    fn grow(&mut self, slot: u32, granules: u64) -> Option<Result<Extent, HeapFull>> {
        let request = RequestId(u64::from(slot));
        let said = &mut self.said;
        let say = &mut |to, message| said.push((to, message));
        self.memory.grow(proc(slot), request, granules * GRANULE, self.now, say);
        self.grown(slot)
    }

    fn shrink(&mut self, slot: u32, extents: &[Extent]) {
        self.memory.shrink(proc(slot), extents, self.now);
        self.answer();
    }

    fn answer(&mut self) {
        let said = &mut self.said;
        self.memory.answer(self.now, &mut |to, message| said.push((to, message)));
    }

    /// What the process was answered, if it was.
    fn grown(&mut self, slot: u32) -> Option<Result<Extent, HeapFull>> {
        let at = self
            .said
            .iter()
            .position(|(to, message)| *to == proc(slot) && matches!(message, FromAgent::HeapGrown { .. }))?;
        match self.said.remove(at).1 {
            FromAgent::HeapGrown { grown, .. } => Some(grown),
            _ => None,
        }
    }
}

fn block(home: u32, offset: u64, len: u64) -> Block {
    Block { home: proc(home), offset, len }
}

#[test]
fn everybody_is_asked_once_and_a_wish_is_granted_as_soon_as_enough_came_back() {
    let mut bench = Bench::new();
    let first = bench.grow(2, 5).unwrap().unwrap();
    bench.grow(3, 5).unwrap().unwrap();
    assert_eq!(bench.grow(4, 3), None);
    assert_eq!(bench.grow(5, 3), None);
    let asked: Vec<_> = bench.said.drain(..).map(|(to, _)| to).collect();
    assert_eq!(asked, [proc(2), proc(3)]);
    bench.shrink(2, &[first]);
    assert!(bench.grown(4).unwrap().is_ok());
    assert_eq!(bench.grown(5), None, "3 may still answer");
    bench.shrink(3, &[]);
    let full = bench.grown(5).unwrap().unwrap_err();
    assert_eq!(full, HeapFull { wanted: 3 * GRANULE, free: 2 * GRANULE, capacity: 10 * GRANULE });
}

#[test]
fn a_process_that_does_not_answer_does_not_hold_up_the_others_for_ever() {
    let mut bench = Bench::new();
    bench.grow(2, 10).unwrap().unwrap();
    assert_eq!(bench.grow(3, 1), None);
    assert_eq!(bench.memory.next_deadline(), Some(PATIENCE));
    bench.now = PATIENCE;
    bench.answer();
    assert!(bench.grown(3).unwrap().is_err());
    assert_eq!(bench.memory.next_deadline(), None);
}

#[test]
fn a_wish_waits_for_memory_of_the_dead() {
    let mut bench = Bench::new();
    bench.grow(2, 10).unwrap().unwrap();
    assert_eq!(bench.grow(3, 4), None);
    bench.memory.forget(proc(2));
    bench.answer();
    assert_eq!(bench.grown(3), None);
    bench.memory.sweep(proc(2), &[], 0);
    bench.answer();
    assert!(bench.grown(3).unwrap().is_ok());
}

/// Its last reader has let go, and the controller asks whether there is another one.
#[test]
fn a_wish_waits_for_what_was_kept_of_the_dead() {
    let mut bench = Bench::new();
    bench.grow(2, 10).unwrap().unwrap();
    bench.memory.forget(proc(2));
    let kept = Block { home: proc(2), offset: 0, len: 10 * GRANULE };
    bench.memory.sweep(proc(2), &[kept], 0);
    assert_eq!(bench.grow(3, 4), None);
    bench.answer();
    assert_eq!(bench.grown(3), None);
    bench.memory.release_block(&kept, 0);
    bench.answer();
    assert!(bench.grown(3).unwrap().is_ok());
}

#[test]
fn what_was_never_had_cannot_be_given_back() {
    let mut bench = Bench::new();
    let extent = bench.grow(2, 4).unwrap().unwrap();
    bench.shrink(3, &[extent]);
    bench.shrink(2, &[Extent { len: GRANULE, ..extent }]);
    assert_eq!(bench.memory.used(), 4 * GRANULE);
    bench.shrink(2, &[extent, extent]);
    assert_eq!(bench.memory.used(), 0);
}

#[test]
fn blocks_that_are_needed_outlive_their_process_and_nothing_else_does() {
    let mut bench = Bench::new();
    let extent = bench.grow(2, 8).unwrap().unwrap();
    // Two in one granule, one over two granules.
    let one = block(2, extent.offset + 10, 100);
    let two = block(2, extent.offset + 200, 100);
    let wide = block(2, extent.offset + 3 * GRANULE - 1, 2);
    bench.memory.sweep(proc(2), &[one, two, wide], 0);
    assert_eq!(bench.memory.used(), 3 * GRANULE);
    bench.memory.release_block(&one, 0);
    assert_eq!(bench.memory.used(), 3 * GRANULE, "the other block of the granule is needed");
    bench.memory.release_block(&two, 0);
    bench.memory.release_block(&two, 0);
    assert_eq!(bench.memory.used(), 2 * GRANULE);
    bench.memory.release_block(&wide, 0);
    assert_eq!(bench.memory.used(), 0);
}

/// Brings in what is wanted; how many bytes are there then.
fn warm_all(memory: &mut Memory, segment: &Segment) -> u64 {
    while memory.wants_warmth() {
        memory.warm(segment);
    }
    segment.resident().unwrap()
}

#[test]
fn who_takes_much_finds_it_there_and_as_much_again_until_it_cools() {
    let shape = Shape { host: HostId(0), slots: 2, arena: 256 << 20 };
    let segment = Segment::create(shape).unwrap();
    let mut memory = Memory::new(segment.arena_len());
    memory.grow(ProcId::new(HostId(0), 1, 2), RequestId(1), 1 << 20, 0, &mut |_, _| {});
    assert!(!memory.wants_warmth(), "a small extent is no reason");
    memory.grow(ProcId::new(HostId(0), 1, 2), RequestId(2), 32 << 20, 0, &mut |_, _| {});
    let resident = warm_all(&mut memory, &segment);
    assert!((96 << 20..98 << 20).contains(&resident), "{resident}");
    let cool = memory.next_deadline().unwrap();
    memory.cool(&segment, cool);
    assert!(!memory.wants_warmth());
    assert_eq!(memory.next_deadline(), None);
    let resident = segment.resident().unwrap();
    assert!((32 << 20..34 << 20).contains(&resident), "{resident}");
}

#[test]
fn no_more_is_brought_in_than_there_is_or_than_is_sensible() {
    let shape = Shape { host: HostId(0), slots: 2, arena: 40 << 20 };
    let segment = Segment::create(shape).unwrap();
    let mut memory = Memory::new(segment.arena_len());
    memory.grow(ProcId::new(HostId(0), 1, 2), RequestId(1), 32 << 20, 0, &mut |_, _| {});
    assert!(warm_all(&mut memory, &segment) <= 41 << 20);
    let mut memory = Memory::new(1 << 40);
    memory.grow(ProcId::new(HostId(0), 1, 2), RequestId(1), 1 << 39, 0, &mut |_, _| {});
    assert_eq!(memory.ahead, MOST_AHEAD);
    memory.rest();
    assert!(!memory.wants_warmth());
}
