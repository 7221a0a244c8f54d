//! What a call refers to: held by the caller until the reply, and by the worker if it says so.

use raymesh_wire::{ErrorKind, Message, ObjectId, ProcId, Reply, Return, Value};

use super::net::{Net, proc};
use super::user::{ONCE, arguments, inline, result};
use crate::process::{Arguments, Lookup};

fn last_reply(net: &Net, from: ProcId) -> Reply {
    let replies = net.log.iter().rev().filter(|sent| sent.0 == from);
    let reply = replies.into_iter().find_map(|sent| match &sent.2 {
        Message::Reply(reply) => Some((**reply).clone()),
        _ => None,
    });
    reply.expect("no reply")
}

fn ownership_messages(net: &Net) -> usize {
    net.count(|sent| matches!(sent.2, Message::Borrow { .. } | Message::Release { .. }))
}

#[test]
fn a_reply_says_what_the_worker_keeps_and_nothing_else() {
    let mut net = Net::new(2);
    let objects: Vec<ObjectId> = (0..3).map(|_| net.put(proc(1), "", &[])).collect();
    let results = net.submit(proc(1), arguments(&objects[..1], &objects[1..]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), objects[2]);
    net.finish(proc(2), task, result(""));
    assert_eq!(last_reply(&net, proc(2)).holds, vec![objects[2]]);
    assert_eq!(net.procs[&proc(2)].object_count(), 1);
    net.let_go(proc(2), &objects[2..]);
    net.let_go(proc(1), &objects);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn arguments_that_nobody_keeps_cost_no_message() {
    let mut net = Net::new(2);
    let inner = net.put(proc(1), "", &[]);
    let outer = net.put(proc(1), "", &[inner, inner]);
    let results = net.submit(proc(1), arguments(&[outer, inner], &[outer, inner]), ONCE);
    net.serve(proc(2));
    assert_eq!(ownership_messages(&net), 0);
    net.let_go(proc(1), &[inner, outer]);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// A worker keeps an argument, and reads a reference out of its value later, when the call is long over.
#[test]
fn references_inside_the_value_of_a_kept_argument_are_kept() {
    let mut net = Net::new(2);
    let inner = net.put_stored(proc(1), &[]);
    let outer = net.put(proc(1), "outer", &[inner]);
    let results = net.submit(proc(1), arguments(&[outer], &[outer]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), outer);
    net.finish(proc(2), task, result(""));
    net.let_go(proc(1), &[inner, outer]);
    // It reads the value that it has, and keeps what is in it instead.
    assert_eq!(net.value(proc(2), outer), inline("outer"));
    net.take(proc(2), inner);
    net.let_go(proc(2), &[outer]);
    assert!(matches!(net.get(proc(2), inner), Lookup::Ready(Value::Stored(_))), "freed while it is held");
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &[inner]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// As above for several arguments, of which one is kept: what the others contain is not.
#[test]
fn only_what_a_kept_argument_contains_is_kept_with_it() {
    let mut net = Net::new(2);
    let inners: Vec<ObjectId> = (0..3).map(|_| net.put_stored(proc(1), &[])).collect();
    let outers: Vec<ObjectId> = inners.iter().map(|inner| net.put(proc(1), "", &[*inner])).collect();
    let results = net.submit(proc(1), arguments(&outers, &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), outers[1]);
    net.finish(proc(2), task, result(""));
    net.let_go(proc(1), &inners);
    net.let_go(proc(1), &outers);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &outers[1..2]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// The value arrives with a call while the answer to a question for it is on its way.
#[test]
fn a_value_that_comes_by_two_ways_is_counted_by_both() {
    let mut net = Net::new(2);
    let inner = net.put_stored(proc(1), &[]);
    let outer = net.put(proc(1), "outer", &[inner]);
    let first = net.submit(proc(1), arguments(&[], &[outer]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), outer);
    net.finish(proc(2), task, result(""));
    let second = net.submit(proc(1), arguments(&[outer], &[]), ONCE);
    net.hold(proc(1), proc(2));
    net.get(proc(2), outer);
    let task = net.start(proc(2)).call.task;
    net.resume(proc(1), proc(2));
    net.finish(proc(2), task, result(""));
    net.let_go(proc(1), &[inner, outer]);
    net.take(proc(2), inner);
    net.let_go(proc(2), &[outer]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &[inner]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &[first[0], second[0]]);
    net.assert_clean();
}

#[test]
fn memory_of_large_arguments_is_kept_by_who_looks_at_it() {
    let mut net = Net::new(2);
    let args = net.put_stored(proc(1), &[]);
    let value = net.value(proc(1), args);
    let call = Arguments { value, object: Some(args), deps: vec![], refs: vec![] };
    let results = net.submit(proc(1), call, ONCE);
    let task = net.start(proc(2)).call.task;
    // A view into the arguments is kept.
    net.take(proc(2), args);
    net.finish(proc(2), task, result(""));
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &[args]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn an_argument_of_a_nested_call_outlives_the_call_that_made_it() {
    let mut net = Net::new(3);
    let object = net.put_stored(proc(1), &[]);
    let outer = net.submit(proc(1), arguments(&[], &[object]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.submit(proc(2), arguments(&[object], &[]), ONCE);
    let answer = Return { value: inline("the inner result inside"), refs: inner.clone() };
    net.with(proc(2), |process, _, fx| {
        process.finish(task, raymesh_wire::ReplyStatus::Ok, 1, vec![answer], fx);
        process.release(inner[0], fx);
    });
    net.run();
    net.let_go(proc(1), &[object]);
    // The argument's value was fetched from its owner by the worker in between, and is there.
    let call = net.start(proc(3)).call;
    assert!(matches!(call.deps[0].1, Value::Stored(_)));
    assert_eq!(net.in_use().len(), 1);
    net.finish(proc(3), call.task, result("inner"));
    assert_eq!(net.in_use().len(), 0);
    net.get(proc(1), inner[0]);
    assert_eq!(net.value(proc(1), inner[0]), inline("inner"));
    net.let_go(proc(1), &outer);
    net.assert_clean();
}

#[test]
fn the_same_reference_as_argument_twice_waits_and_counts_twice() {
    let mut net = Net::new(2);
    let first = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let second = net.submit(proc(1), arguments(&[first, first], &[first]), ONCE)[0];
    net.drop_ref(proc(1), first);
    net.serve(proc(2));
    let call = net.start(proc(2)).call;
    assert_eq!(call.deps, vec![(first, inline("done")), (first, inline("done"))]);
    net.finish(proc(2), call.task, result(""));
    net.let_go(proc(1), &[second]);
    net.assert_clean();
}

/// The same with one that fails: the call fails once.
#[test]
fn a_failed_argument_given_twice_fails_the_call_once() {
    let mut net = Net::new(2);
    let bad = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let call = net.submit(proc(1), arguments(&[bad, bad], &[]), ONCE)[0];
    net.start(proc(2));
    net.kill(proc(2));
    assert_eq!(net.cause(proc(1), call), ErrorKind::WorkerCrashed);
    net.let_go(proc(1), &[bad, call]);
    net.assert_clean();
}

/// A worker that owns what it is given holds it as its own.
#[test]
fn an_argument_that_belongs_to_the_worker_is_not_borrowed() {
    let mut net = Net::new(2);
    let first = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let mine = net.put_stored(proc(2), &[]);
    net.finish(proc(2), task, vec![Return { value: inline("mine inside"), refs: vec![mine] }]);
    net.let_go(proc(2), &[mine]);
    net.take(proc(1), mine);
    let second = net.submit(proc(1), arguments(&[mine], &[mine]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), mine);
    net.finish(proc(2), task, result(""));
    assert_eq!(last_reply(&net, proc(2)).holds, vec![]);
    net.let_go(proc(1), &[mine, first[0], second[0]]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &[mine]);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}
