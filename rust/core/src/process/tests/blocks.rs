//! Shared memory of stored values: freed once, by whom it was cut from or by the agent in its place.

use raymesh_wire::{Block, ProcId, Return, Value};

use super::net::{CONTROLLER, Net, proc};
use super::user::{ONCE, arguments, inline, result};
use crate::process::{Lookup, Process};

fn stored(net: &mut Net, home: ProcId) -> (Block, Return) {
    let block = net.allocate(home);
    (block, Return { value: Value::Stored(block), refs: vec![] })
}

fn dropped_by(net: &Net, block: Block) -> Vec<ProcId> {
    net.blocks[&block].dropped_by.clone()
}

#[test]
fn memory_of_a_result_goes_back_to_the_worker() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let (_, value) = stored(&mut net, proc(2));
    net.finish(proc(2), task, vec![value]);
    let more = net.submit(proc(1), arguments(&results, &[]), ONCE);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use().len(), 1);
    net.serve(proc(2));
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &more);
    net.assert_clean();
}

#[test]
fn memory_of_a_dead_worker_goes_back_to_the_agent() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let (block, value) = stored(&mut net, proc(2));
    net.finish(proc(2), task, vec![value]);
    net.kill(proc(2));
    assert_eq!(net.inventory(proc(1), proc(2)), vec![block]);
    net.let_go(proc(1), &results);
    assert_eq!(dropped_by(&net, block), vec![proc(1)]);
    net.assert_clean();
}

/// Nobody tells a caller of the death of an actor's process, but the agent asks about its memory.
#[test]
fn memory_of_a_dead_actor_goes_back_to_the_agent() {
    let mut net = Net::new(2);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let call = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let home = net.home(actor);
    let task = net.start(home).call.task;
    let (block, value) = stored(&mut net, home);
    net.finish(home, task, vec![value]);
    net.kill(home);
    assert_eq!(net.inventory(proc(1), home), vec![block]);
    net.let_go(proc(1), &[call]);
    assert_eq!(dropped_by(&net, block), vec![proc(1)]);
    net.let_go(proc(1), &[Process::actor_handle(actor)]);
    net.assert_clean();
}

/// The bytes outlive their owner for who has read them, until he lets go.
#[test]
fn a_reader_of_a_dead_owners_memory_says_when_it_is_done() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let object = net.put_stored(proc(2), &[]);
    net.finish(proc(2), task, vec![Return { value: inline("object inside"), refs: vec![object] }]);
    net.take(proc(1), object);
    net.let_go(proc(1), &results);
    let Lookup::Ready(Value::Stored(block)) = net.get(proc(1), object) else { panic!("not stored") };
    net.kill(proc(2));
    assert_eq!(net.inventory(proc(1), proc(2)), vec![block]);
    assert!(dropped_by(&net, block).is_empty());
    net.let_go(proc(1), &[object]);
    assert_eq!(dropped_by(&net, block), vec![proc(1)]);
    net.assert_clean();
}

/// The owner dies, the process from whose heap the memory was cut lives: it must not give the memory to
/// others while a third one reads it.
#[test]
fn a_reader_needs_a_dead_owners_object_wherever_its_memory_lies() {
    let mut net = Net::new(3);
    let outer = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.submit(proc(2), arguments(&[], &[]), ONCE)[0];
    let inner_task = net.start(proc(3)).call.task;
    let (block, value) = stored(&mut net, proc(3));
    net.finish(proc(3), inner_task, vec![value]);
    net.finish(proc(2), task, vec![Return { value: inline("inner inside"), refs: vec![inner] }]);
    assert!(matches!(net.get(proc(1), inner), Lookup::Ready(Value::Stored(_))));
    net.kill(proc(2));
    assert_eq!(net.inventory(proc(1), proc(2)), vec![block]);
    net.let_go(proc(1), &outer);
    assert_eq!(dropped_by(&net, block), vec![proc(1)]);
    // The agent tells its home, which frees it.
    net.send(CONTROLLER, proc(3), raymesh_wire::Message::FreeBlocks { blocks: vec![block] });
    net.run();
    net.assert_clean();
}

/// The home is dead, the owner lives, and so does a reader: the owner waits for the reader, and says when
/// both are done.
#[test]
fn the_owner_speaks_for_all_readers_of_a_dead_homes_memory() {
    let mut net = Net::new(3);
    let object = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let task = net.start(proc(2)).call.task;
    let (block, value) = stored(&mut net, proc(2));
    net.finish(proc(2), task, vec![value]);
    net.kill(proc(2));
    let results = net.submit(proc(1), arguments(&[object], &[object]), ONCE);
    let task = net.start(proc(3)).call.task;
    net.take(proc(3), object);
    net.finish(proc(3), task, result(""));
    assert_eq!(net.inventory(proc(1), proc(2)), vec![block]);
    assert_eq!(net.inventory(proc(3), proc(2)), vec![]);
    net.let_go(proc(1), &[object]);
    assert!(dropped_by(&net, block).is_empty());
    net.let_go(proc(3), &[object]);
    assert_eq!(dropped_by(&net, block), vec![proc(1)]);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn memory_that_nobody_asked_about_is_not_reported() {
    let mut net = Net::new(2);
    let object = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let task = net.start(proc(2)).call.task;
    let (block, value) = stored(&mut net, proc(2));
    net.finish(proc(2), task, vec![value]);
    let mine = net.put_stored(proc(1), &[]);
    assert_eq!(net.inventory(proc(1), proc(9)), vec![]);
    net.let_go(proc(1), &[object, mine]);
    assert!(dropped_by(&net, block).is_empty());
    net.assert_clean();
}

impl Net {
    /// The agent asks what is needed of a dead process's memory.
    fn inventory(&mut self, id: ProcId, dead: ProcId) -> Vec<Block> {
        self.with(id, |process, _, _| process.claim_blocks(dead))
    }
}
