//! Shared memory of stored values: freed once, by whom it was cut from or by the agent in its place.

use raymesh_wire::{Block, ProcId, Return, Value};

use super::net::{Net, proc};
use super::user::{ONCE, arguments, result};
use crate::process::Process;

fn stored(net: &mut Net, home: ProcId) -> (Block, Return) {
    let block = net.allocate(home);
    (block, Return { value: Value::Stored(block), refs: vec![] })
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
fn memory_of_a_dead_worker_is_kept_for_the_owner() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let (block, value) = stored(&mut net, proc(2));
    net.finish(proc(2), task, vec![value]);
    net.kill(proc(2));
    assert_eq!(net.in_use(), [block]);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use(), []);
    net.assert_clean();
}

/// Nobody tells a caller of the death of an actor's process, but all are asked about its memory.
#[test]
fn memory_of_a_dead_actor_is_kept_for_the_owner() {
    let mut net = Net::new(2);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let call = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let home = net.home(actor);
    let task = net.start(home).call.task;
    let (block, value) = stored(&mut net, home);
    net.finish(home, task, vec![value]);
    net.kill(home);
    assert_eq!(net.in_use(), [block]);
    net.let_go(proc(1), &[call]);
    assert_eq!(net.in_use(), []);
    net.let_go(proc(1), &[Process::actor_handle(actor)]);
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
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use(), [block]);
    net.let_go(proc(3), &[object]);
    assert_eq!(net.in_use(), []);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn memory_that_the_owner_drops_before_anybody_asks_goes_with_the_heap() {
    let mut net = Net::new(2);
    let object = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let task = net.start(proc(2)).call.task;
    let (_, value) = stored(&mut net, proc(2));
    net.finish(proc(2), task, vec![value]);
    let mine = net.put_stored(proc(1), &[]);
    net.die(proc(2));
    net.let_go(proc(1), &[object, mine]);
    net.mourn();
    assert_eq!(net.in_use(), []);
    net.assert_clean();
}
