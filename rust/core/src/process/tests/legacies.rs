//! What outlives its owner or its caller: bytes that are read after the owner's death, references that
//! were got from a process which is dead.

use raymesh_wire::{Block, Message, ObjectId, ProcId, Return, Value};

use super::net::{Net, proc};
use super::user::{ONCE, arguments, inline, result};
use crate::process::Lookup;

fn wants(net: &Net) -> usize {
    net.count(|sent| matches!(sent.2, Message::Want { .. }))
}

fn block_of(net: &Net, id: ProcId, object: ObjectId) -> Block {
    net.value(id, object).block().unwrap_or_else(|| panic!("{object:?} is not large"))
}

/// Process 2 makes `object`s and returns them to process 1 inside its result.
fn returned(net: &mut Net, make: impl FnOnce(&mut Net) -> Vec<ObjectId>) -> (Vec<ObjectId>, ObjectId) {
    let outer = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let task = net.start(proc(2)).call.task;
    let made = make(net);
    net.finish(proc(2), task, vec![Return { value: inline("inside"), refs: made.clone() }]);
    for object in &made {
        net.take(proc(1), *object);
        net.let_go(proc(2), &[*object]);
    }
    (made, outer)
}

#[test]
fn a_large_object_inside_arguments_is_read_without_asking_its_owner() {
    let mut net = Net::new(2);
    let large = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[], &[large]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), large);
    let before = net.log.len();
    assert!(matches!(net.get(proc(2), large), Lookup::Ready(Value::Stored(_))));
    assert_eq!(net.log.len(), before, "nobody is asked");
    net.let_go(proc(2), &[large]);
    net.finish(proc(2), task, result("read"));
    net.let_go(proc(1), &[large, results[0]]);
    net.assert_clean();
}

#[test]
fn a_large_object_inside_a_result_is_read_without_asking_its_owner() {
    let mut net = Net::new(2);
    let (made, outer) = returned(&mut net, |net| vec![net.put_stored(proc(2), &[])]);
    assert!(matches!(net.get(proc(1), made[0]), Lookup::Ready(Value::Stored(_))));
    assert_eq!(wants(&net), 0);
    net.let_go(proc(1), &[made[0], outer]);
    net.assert_clean();
}

#[test]
fn a_large_object_inside_another_is_read_without_asking_again() {
    let mut net = Net::new(2);
    let (made, outer) = returned(&mut net, |net| {
        let large = net.put_stored(proc(2), &[]);
        let holder = net.put(proc(2), "holder", &[large]);
        net.let_go(proc(2), &[large]);
        vec![holder, large]
    });
    // The holder is small, and has to be asked for.
    net.get(proc(1), made[0]);
    assert_eq!(wants(&net), 1);
    assert!(matches!(net.get(proc(1), made[1]), Lookup::Ready(Value::Stored(_))));
    assert_eq!(wants(&net), 1);
    net.let_go(proc(1), &[made[0], made[1], outer]);
    net.assert_clean();
}

/// Whoever reads it is registered for what is inside: the owner must be asked.
#[test]
fn the_place_of_an_object_with_references_inside_is_not_told() {
    let mut net = Net::new(2);
    let inner = net.put_stored(proc(1), &[]);
    let large = net.put_stored(proc(1), &[inner]);
    let results = net.submit(proc(1), arguments(&[], &[large]), ONCE);
    let call = net.start(proc(2)).call;
    assert!(call.places.is_empty());
    net.take(proc(2), large);
    net.get(proc(2), large);
    assert_eq!(wants(&net), 1);
    net.take(proc(2), inner);
    net.let_go(proc(1), &[inner, large]);
    net.let_go(proc(2), &[large]);
    assert_eq!(net.in_use().len(), 2, "the call holds both");
    net.finish(proc(2), call.task, result("keeps what was inside"));
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &[inner]);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn bytes_outlive_their_owner_for_who_has_read_them() {
    let mut net = Net::new(2);
    let (made, outer) = returned(&mut net, |net| vec![net.put_stored(proc(2), &[])]);
    net.get(proc(1), made[0]);
    let block = block_of(&net, proc(1), made[0]);
    net.kill(proc(2));
    assert_eq!(net.in_use(), [block]);
    net.let_go(proc(1), &[made[0], outer]);
    net.assert_clean();
}

#[test]
fn bytes_outlive_their_owner_for_who_has_not_read_them() {
    let mut net = Net::new(2);
    let (made, outer) = returned(&mut net, |net| vec![net.put_stored(proc(2), &[])]);
    net.kill(proc(2));
    assert!(matches!(net.get(proc(1), made[0]), Lookup::Ready(Value::Stored(_))));
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(1), &[made[0], outer]);
    net.assert_clean();
}

/// The result of a dead process's task lies where the task ran.
#[test]
fn an_unread_result_of_a_dead_owners_task_is_found_where_it_was_made() {
    let mut net = Net::new(3);
    let mut inner = None;
    let (made, outer) = returned(&mut net, |net| {
        inner = Some(net.submit(proc(2), arguments(&[], &[]), ONCE)[0]);
        inner.into_iter().collect()
    });
    let task = net.start(proc(3)).call.task;
    net.with(proc(1), |process, _, fx| assert!(process.await_object(made[0], fx)));
    // The answer to process 1 dies with process 2.
    net.hold(proc(1), proc(2));
    let value = Value::Stored(net.allocate(proc(3)));
    net.finish(proc(3), task, vec![Return { value, refs: vec![] }]);
    net.kill(proc(2));
    assert!(net.ready.contains(&(proc(1), made[0])));
    assert_eq!(block_of(&net, proc(1), made[0]).home, proc(3));
    net.let_go(proc(1), &[made[0], outer]);
    net.assert_clean();
}

/// The place of the outer one is known to a reader, and with it what is inside.
#[test]
fn what_is_inside_an_object_that_is_found_is_held_too() {
    let mut net = Net::new(3);
    let inner = net.put_stored(proc(1), &[]);
    let args = net.submit(proc(1), arguments(&[], &[inner]), ONCE)[0];
    let task = net.start(proc(2)).call.task;
    let outer = net.put_stored(proc(2), &[inner]);
    // Process 3 gets it from process 2 and reads it; process 1 gets it, and does not.
    let sub = net.submit(proc(2), arguments(&[outer], &[]), ONCE)[0];
    let sub_task = net.start(proc(3)).call.task;
    net.take(proc(3), outer);
    net.finish(proc(3), sub_task, result("keeps it"));
    net.finish(proc(2), task, vec![Return { value: inline("outer"), refs: vec![outer] }]);
    net.take(proc(1), outer);
    net.let_go(proc(2), &[sub, outer]);
    net.let_go(proc(1), &[inner]);
    net.kill(proc(2));
    assert!(matches!(net.get(proc(1), outer), Lookup::Ready(Value::Stored(_))));
    net.take(proc(1), inner);
    net.let_go(proc(3), &[outer]);
    net.mourn();
    net.let_go(proc(1), &[outer, args]);
    net.mourn();
    assert_eq!(net.in_use(), [block_of(&net, proc(1), inner)]);
    net.let_go(proc(1), &[inner]);
    net.assert_clean();
}

/// The first reader lets go: neither it nor anybody else has registered the second.
#[test]
fn an_object_of_a_dead_owner_is_not_freed_under_who_got_it_from_a_reader() {
    let mut net = Net::new(3);
    let (made, outer) = returned(&mut net, |net| vec![net.put_stored(proc(2), &[])]);
    net.kill(proc(2));
    let results = net.submit(proc(1), arguments(&[], &made), ONCE);
    let call = net.start(proc(3)).call;
    net.take(proc(3), made[0]);
    net.finish(proc(3), call.task, result("kept it"));
    let block = block_of(&net, proc(3), made[0]);
    net.let_go(proc(1), &[made[0], outer, results[0]]);
    net.mourn();
    assert_eq!(net.in_use(), [block]);
    net.let_go(proc(3), &made);
    net.mourn();
    assert_eq!(net.in_use(), []);
    net.assert_clean();
}

/// Process 2 calls process 3 with an object of process 1. Answers the object, and the call of process 1.
fn passed_on(net: &mut Net) -> (ObjectId, ObjectId) {
    let object = net.put_stored(proc(1), &[]);
    let outer = net.submit(proc(1), arguments(&[], &[object]), ONCE)[0];
    net.start(proc(2));
    net.submit(proc(2), arguments(&[], &[object]), ONCE);
    net.let_go(proc(1), &[object]);
    (object, outer)
}

/// The reply says what the worker keeps; nobody reads it any more.
#[test]
fn what_a_worker_keeps_is_not_freed_when_its_caller_dies_before_it_registers_it() {
    let mut net = Net::new(3);
    let (object, outer) = passed_on(&mut net);
    let call = net.start(proc(3)).call;
    net.take(proc(3), object);
    net.hold(proc(3), proc(2));
    net.finish(proc(3), call.task, result("kept it"));
    net.die(proc(2));
    net.let_go(proc(1), &[outer]);
    assert_eq!(net.in_use().len(), 1, "somebody may have got it from the dead one");
    net.mourn();
    assert_eq!(net.in_use().len(), 1, "process 3 has it");
    net.let_go(proc(3), &[object]);
    assert_eq!(net.in_use(), [], "and its count is right");
    net.assert_clean();
}

#[test]
fn what_a_worker_keeps_is_counted_once_when_its_caller_dies_after_it_registered_it() {
    let mut net = Net::new(3);
    let (object, outer) = passed_on(&mut net);
    let call = net.start(proc(3)).call;
    net.take(proc(3), object);
    net.finish(proc(3), call.task, result("kept it"));
    net.kill(proc(2));
    net.let_go(proc(1), &[outer]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(3), &[object]);
    assert_eq!(net.in_use(), []);
    net.assert_clean();
}

#[test]
fn arguments_of_a_running_call_are_held_when_the_caller_dies() {
    let mut net = Net::new(3);
    let (object, outer) = passed_on(&mut net);
    let call = net.start(proc(3)).call;
    net.kill(proc(2));
    net.let_go(proc(1), &[outer]);
    assert_eq!(net.in_use().len(), 1, "the call of process 2 runs still");
    net.take(proc(3), object);
    net.finish(proc(3), call.task, result("kept it"));
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(3), &[object]);
    assert_eq!(net.in_use(), []);
    net.assert_clean();
}

/// It has registered the receiver of a value, and died before the value left.
#[test]
fn a_registration_whose_value_never_came_holds_nothing() {
    let mut net = Net::new(3);
    let (object, outer) = passed_on(&mut net);
    net.send(proc(2), proc(1), Message::Borrow { holds: vec![(object, proc(3))] });
    net.run();
    net.kill(proc(2));
    net.let_go(proc(1), &[outer]);
    assert_eq!(net.in_use(), [], "process 3 lives, and has nothing");
    net.assert_clean();
}

/// The owner's call fails with the worker's death; what the worker was given went on.
#[test]
fn what_a_dead_worker_passed_on_is_not_freed_with_its_call() {
    let mut net = Net::new(3);
    let (_, outer) = passed_on(&mut net);
    net.die(proc(2));
    net.let_go(proc(1), &[outer]);
    assert_eq!(net.in_use().len(), 1);
    net.mourn();
    assert_eq!(net.in_use(), [], "the call had not begun: its caller is dead");
    net.assert_clean();
}

/// Three in a chain, and the two first die.
#[test]
fn the_last_of_a_chain_of_callers_holds_what_the_first_was_given() {
    let mut net = Net::new(4);
    let (object, outer) = passed_on(&mut net);
    net.start(proc(3));
    net.submit(proc(3), arguments(&[], &[object]), ONCE);
    let call = net.start(proc(4)).call;
    net.take(proc(4), object);
    net.die(proc(2));
    net.die(proc(3));
    net.let_go(proc(1), &[outer]);
    net.mourn();
    net.finish(proc(4), call.task, result("kept it"));
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(4), &[object]);
    assert_eq!(net.in_use(), []);
    net.assert_clean();
}
