//! Reference counts: what keeps an object, and that nothing else does.

use raymesh_wire::{ErrorKind, Message, Value};

use super::net::{Net, proc};
use super::user::{ONCE, arguments, inline, result};
use crate::process::Lookup;

#[test]
fn freed_with_the_last_of_its_local_holders() {
    let mut net = Net::new(1);
    let object = net.put_stored(proc(1), &[]);
    net.take(proc(1), object);
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

#[test]
fn kept_by_the_object_that_contains_it() {
    let mut net = Net::new(1);
    let inner = net.put_stored(proc(1), &[]);
    let outer = net.put(proc(1), "outer", &[inner]);
    net.let_go(proc(1), &[inner]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(1), &[outer]);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

#[test]
fn a_chain_of_containers_is_freed_without_recursion() {
    let mut net = Net::new(1);
    let mut last = net.put_stored(proc(1), &[]);
    for _ in 0..200_000 {
        let outer = net.put(proc(1), "", &[last]);
        net.drop_ref(proc(1), last);
        last = outer;
    }
    net.let_go(proc(1), &[last]);
    net.assert_clean();
}

#[test]
fn kept_by_a_call_on_its_way_that_refers_to_it() {
    let mut net = Net::new(2);
    let (dep, nested) = (net.put_stored(proc(1), &[]), net.put_stored(proc(1), &[]));
    let results = net.submit(proc(1), arguments(&[dep], &[nested]), ONCE);
    net.let_go(proc(1), &[dep, nested]);
    assert_eq!(net.in_use().len(), 2);
    net.serve(proc(2));
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn kept_by_a_borrower_of_another_process() {
    let mut net = Net::new(2);
    let object = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[], &[object]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), object);
    net.finish(proc(2), task, result("kept it"));
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 1);
    assert!(matches!(net.get(proc(2), object), Lookup::Ready(Value::Stored(_))));
    net.let_go(proc(2), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// A worker keeps an argument and the reference goes on to a third process, which gives it back before the
/// owner has heard that it has it.
#[test]
fn not_freed_by_a_give_back_that_overtakes_its_registration() {
    let mut net = Net::new(3);
    let object = net.put_stored(proc(1), &[]);
    let outer = net.submit(proc(1), arguments(&[], &[object]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), object);
    // What process 2 tells the owner is late: the registration of process 3 among it.
    net.hold(proc(2), proc(1));
    let inner = net.submit(proc(2), arguments(&[], &[object]), ONCE);
    let inner_task = net.start(proc(3)).call.task;
    net.take(proc(3), object);
    net.finish(proc(3), inner_task, result("kept it"));
    net.let_go(proc(3), &[object]);
    let early = net.count(|(from, to, message)| {
        *from == proc(3) && *to == proc(1) && matches!(message, Message::Release { .. })
    });
    assert_eq!(early, 1);
    net.let_go(proc(2), &inner);
    net.finish(proc(2), task, result("done"));
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 1, "process 2 and the call hold it still");
    net.resume(proc(2), proc(1));
    assert_eq!(net.in_use().len(), 1, "process 2 holds it still");
    net.let_go(proc(2), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &outer);
    net.assert_clean();
}

#[test]
fn holds_of_a_dead_borrower_are_void() {
    let mut net = Net::new(2);
    let object = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[], &[object]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), object);
    net.finish(proc(2), task, result("kept it"));
    net.let_go(proc(1), &[object]);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use().len(), 1);
    net.kill(proc(2));
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

/// The owner hears of a borrower from a third process after the borrower's death.
#[test]
fn a_borrower_registered_after_its_death_holds_nothing() {
    let mut net = Net::new(3);
    let object = net.put_stored(proc(1), &[]);
    let outer = net.submit(proc(1), arguments(&[], &[object]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.submit(proc(2), arguments(&[], &[object]), ONCE);
    let inner_task = net.start(proc(3)).call.task;
    net.take(proc(3), object);
    net.hold(proc(2), proc(1));
    net.finish(proc(3), inner_task, result("kept it"));
    net.kill(proc(3));
    net.resume(proc(2), proc(1));
    net.let_go(proc(2), &inner);
    net.finish(proc(2), task, result("done"));
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &outer);
    net.assert_clean();
}

#[test]
fn pending_object_of_a_dead_owner_is_an_error_and_a_known_value_is_kept() {
    let mut net = Net::new(3);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let call = net.start(proc(2)).call;
    let there = net.put(proc(2), "there", &[]);
    let never = net.submit(proc(2), arguments(&[], &[]), ONCE)[0];
    let asked = net.submit(proc(2), arguments(&[], &[]), ONCE)[0];
    let values = vec![raymesh_wire::Return { value: inline("three"), refs: vec![there, never, asked] }];
    net.finish(proc(2), call.task, values);
    for object in [there, never, asked] {
        net.take(proc(1), object);
    }
    net.get(proc(1), there);
    net.with(proc(1), |process, _, fx| assert!(process.await_object(asked, fx)));
    net.run();
    net.kill(proc(2));
    assert_eq!(net.value(proc(1), there), inline("there"));
    assert_eq!(net.error(proc(1), asked), ErrorKind::OwnerDied);
    assert!(net.ready.contains(&(proc(1), asked)));
    net.get(proc(1), never);
    assert_eq!(net.error(proc(1), never), ErrorKind::OwnerDied);
    net.let_go(proc(1), &[there, never, asked, results[0]]);
    net.kill(proc(3));
    net.assert_clean();
}

/// Its owner's death is found out only when somebody asks for the value.
#[test]
fn asking_a_dead_owner_is_answered() {
    let mut net = Net::new(3);
    let outer = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let lost = net.put(proc(2), "lost", &[]);
    let inner = net.submit(proc(2), arguments(&[], &[lost]), ONCE);
    net.start(proc(3));
    net.take(proc(3), lost);
    net.die(proc(2));
    net.with(proc(3), |process, _, fx| assert!(process.await_object(lost, fx)));
    net.mourn();
    assert!(net.ready.contains(&(proc(3), lost)));
    assert_eq!(net.error(proc(3), lost), ErrorKind::OwnerDied);
    net.let_go(proc(3), &[lost]);
    net.finish(proc(3), inner[0].task(), result("for nobody"));
    assert_eq!(net.error(proc(1), task.object(1)), ErrorKind::WorkerCrashed);
    net.let_go(proc(1), &outer);
    net.assert_clean();
}

#[test]
fn a_reference_that_comes_home_is_counted_as_the_owners_own() {
    let mut net = Net::new(2);
    let object = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[], &[object]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), object);
    net.let_go(proc(1), &[object]);
    // It comes back inside the result; the worker keeps nothing.
    let value = raymesh_wire::Return { value: inline("back"), refs: vec![object] };
    net.with(proc(2), |process, _, fx| {
        process.finish(task, raymesh_wire::ReplyStatus::Ok, 1, vec![value], fx);
        process.release(object, fx);
    });
    net.run();
    assert_eq!(net.in_use().len(), 1, "the result contains it");
    net.take(proc(1), object);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use().len(), 1, "user code holds it");
    net.let_go(proc(1), &[object]);
    net.assert_clean();
}

/// A reference goes out twice and comes back by two ways.
#[test]
fn counts_of_several_registrations_add_up() {
    let mut net = Net::new(2);
    let object = net.put_stored(proc(1), &[]);
    let mut results = Vec::new();
    for _ in 0..3 {
        results.extend(net.submit(proc(1), arguments(&[object], &[object, object]), ONCE));
        let task = net.start(proc(2)).call.task;
        net.take(proc(2), object);
        net.finish(proc(2), task, result("kept it"));
    }
    net.let_go(proc(1), &[object]);
    net.let_go(proc(2), &[object, object]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn an_object_that_is_awaited_stays_until_its_value_has_come() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    net.with(proc(1), |process, _, fx| assert!(process.await_object(results[0], fx)));
    net.let_go(proc(1), &results);
    net.serve(proc(2));
    assert!(net.ready.contains(&(proc(1), results[0])), "whoever awaits it is told");
    net.assert_clean();
}

/// Known to no call of ours and without a value: nobody will ever give it one.
#[test]
fn an_own_object_that_is_gone_is_lost_not_awaited_for_ever() {
    let mut net = Net::new(1);
    let object = net.put(proc(1), "gone", &[]);
    net.let_go(proc(1), &[object]);
    // A reference restored from bytes that the user kept.
    net.take(proc(1), object);
    net.with(proc(1), |process, _, fx| process.await_object(object, fx));
    assert!(net.ready.contains(&(proc(1), object)));
    assert_eq!(net.error(proc(1), object), ErrorKind::ObjectLost);
    net.let_go(proc(1), &[object]);
    net.assert_clean();
}

#[test]
fn a_borrower_of_an_object_that_is_gone_is_told_so() {
    let mut net = Net::new(2);
    let object = net.put(proc(1), "gone", &[]);
    net.let_go(proc(1), &[object]);
    net.take(proc(2), object);
    net.get(proc(2), object);
    assert_eq!(net.error(proc(2), object), ErrorKind::ObjectLost);
    // Also when the owner counts holds of it that were registered too late.
    net.send(proc(2), proc(1), Message::Borrow { holds: vec![(object, proc(2))] });
    net.let_go(proc(2), &[object]);
    net.take(proc(2), object);
    net.get(proc(2), object);
    assert_eq!(net.error(proc(2), object), ErrorKind::ObjectLost);
    net.send(proc(2), proc(1), Message::Release { holds: vec![(object, proc(2), 1)] });
    net.let_go(proc(2), &[object]);
    net.assert_clean();
}

#[test]
fn a_value_that_comes_when_nobody_holds_the_object_gives_its_references_back() {
    let mut net = Net::new(3);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.put_stored(proc(2), &[]);
    let outer = net.put(proc(2), "outer", &[inner]);
    net.let_go(proc(2), &[inner]);
    let value = raymesh_wire::Return { value: inline("outer inside"), refs: vec![outer] };
    net.finish(proc(2), task, vec![value]);
    net.let_go(proc(2), &[outer]);
    net.take(proc(1), outer);
    net.hold(proc(2), proc(1));
    net.get(proc(1), outer);
    net.let_go(proc(1), &[outer]);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use().len(), 1, "the inner object is registered for who asked");
    net.resume(proc(2), proc(1));
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

#[test]
fn the_same_value_twice_counts_its_references_twice_and_gives_both_back() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.put_stored(proc(2), &[]);
    let outer = net.put(proc(2), "outer", &[inner]);
    net.let_go(proc(2), &[inner]);
    net.finish(
        proc(2),
        task,
        vec![raymesh_wire::Return { value: inline("outer inside"), refs: vec![outer] }],
    );
    net.let_go(proc(2), &[outer]);
    // It asks, lets go, and asks again before the first answer.
    net.take(proc(1), outer);
    net.hold(proc(2), proc(1));
    net.send(proc(1), proc(2), Message::Want { object: outer });
    net.get(proc(1), outer);
    net.resume(proc(2), proc(1));
    assert_eq!(net.value(proc(1), outer), inline("outer"));
    net.let_go(proc(1), &[outer]);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

/// Both a dead wanter and one that lives wait for a result.
#[test]
fn who_died_waiting_for_a_value_is_not_sent_it() {
    let mut net = Net::new(4);
    let inner = net.put_stored(proc(1), &[]);
    let slow = net.submit(proc(1), arguments(&[], &[inner]), ONCE)[0];
    let slow_task = net.start(proc(2)).call.task;
    let first = net.submit(proc(1), arguments(&[], &[slow]), ONCE)[0];
    net.start(proc(3));
    net.get(proc(3), slow);
    net.kill(proc(3));
    let value = raymesh_wire::Return { value: inline("inner inside"), refs: vec![inner] };
    net.finish(proc(2), slow_task, vec![value]);
    assert_eq!(net.count(|(_, to, message)| *to == proc(3) && matches!(message, Message::Value { .. })), 0);
    net.let_go(proc(1), &[inner, slow, first]);
    net.assert_clean();
}
