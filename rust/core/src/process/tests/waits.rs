//! Calls that wait for their arguments, and arguments that fail.

use raymesh_wire::{ErrorKind, ReplyStatus, Return};

use super::net::{Net, proc};
use super::user::{ONCE, arguments, inline, raised};
use crate::process::Lookup;

#[test]
fn a_call_waits_for_all_its_arguments() {
    let mut net = Net::new(3);
    let first = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let second = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let sum = net.submit(proc(1), arguments(&[first, second], &[]), ONCE)[0];
    net.serve(proc(3));
    assert!(net.try_start(proc(3)).is_none());
    net.serve(proc(2));
    let worker = if net.procs[&proc(2)].has_calls() { proc(2) } else { proc(3) };
    let call = net.start(worker).call;
    assert_eq!(call.deps, vec![(first, inline("done")), (second, inline("done"))]);
    net.finish(worker, call.task, vec![Return { value: inline("sum"), refs: vec![] }]);
    net.let_go(proc(1), &[first, second, sum]);
    net.assert_clean();
}

#[test]
fn a_borrowed_argument_is_asked_for() {
    let mut net = Net::new(3);
    let outer = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let slow = net.submit(proc(2), arguments(&[], &[]), ONCE);
    net.finish(proc(2), task, vec![Return { value: inline("slow inside"), refs: slow.clone() }]);
    net.let_go(proc(2), &slow);
    let after = net.submit(proc(1), arguments(&slow, &[]), ONCE)[0];
    assert!(net.try_start(proc(2)).is_none());
    net.serve(proc(3));
    assert_eq!(net.start(proc(2)).call.deps, vec![(slow[0], inline("done"))]);
    net.finish(proc(2), after.task(), vec![Return { value: inline(""), refs: vec![] }]);
    net.let_go(proc(1), &[outer[0], after]);
    net.assert_clean();
}

#[test]
fn a_failed_argument_fails_its_calls_at_once_and_later_ones_too() {
    let mut net = Net::new(3);
    let bad = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let slow = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    // It would wait for another argument, and what depends on it in turn for one more.
    let before = net.submit(proc(1), arguments(&[bad, slow], &[slow]), ONCE)[0];
    let next = net.submit(proc(1), arguments(&[before, slow], &[]), ONCE)[0];
    let task = net.start(proc(2)).call.task;
    net.end(proc(2), task, ReplyStatus::Raised, 1, vec![Return { value: raised("bad"), refs: vec![] }]);
    assert_eq!(net.value(proc(1), before), raised("bad"));
    assert_eq!(net.value(proc(1), next), raised("bad"));
    let after = net.submit(proc(1), arguments(&[slow, bad], &[]), ONCE)[0];
    assert_eq!(net.value(proc(1), after), raised("bad"));
    net.serve(proc(3));
    assert!(net.try_start(proc(2)).is_none() && net.try_start(proc(3)).is_none());
    net.let_go(proc(1), &[bad, slow, before, next, after]);
    net.assert_clean();
}

/// Each fails the next: by a loop, not by recursion, which would end the process.
#[test]
fn a_long_chain_of_calls_fails_without_recursion() {
    let mut net = Net::new(2);
    let mut objects = net.submit(proc(1), arguments(&[], &[]), ONCE);
    for _ in 0..200_000 {
        let last = objects[objects.len() - 1];
        let (_, results) = net.submit_quietly(proc(1), arguments(&[last], &[]), ONCE);
        objects.extend(results);
    }
    net.start(proc(2));
    net.kill(proc(2));
    assert_eq!(net.cause(proc(1), objects[objects.len() - 1]), ErrorKind::WorkerCrashed);
    net.let_go(proc(1), &objects);
    net.assert_clean();
}

/// The same where each is another actor's: calls to a dead actor fail one another.
#[test]
fn a_long_chain_of_method_calls_fails_without_recursion() {
    let mut net = Net::new(3);
    let first = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let mut objects = vec![first];
    for _ in 0..50_000 {
        let last = objects[objects.len() - 1];
        objects.push(net.call(proc(1), actor, arguments(&[last], &[]), ONCE));
    }
    let worker = if net.home(actor) == proc(2) { proc(3) } else { proc(2) };
    net.start(worker);
    net.kill(worker);
    assert_eq!(net.cause(proc(1), objects[objects.len() - 1]), ErrorKind::WorkerCrashed);
    net.let_go(proc(1), &objects);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn an_argument_whose_owner_died_fails_the_call() {
    let mut net = Net::new(3);
    let outer = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let slow = net.submit(proc(2), arguments(&[], &[]), ONCE);
    net.finish(proc(2), task, vec![Return { value: inline("slow inside"), refs: slow.clone() }]);
    let before = net.submit(proc(1), arguments(&slow, &[]), ONCE)[0];
    net.kill(proc(2));
    let after = net.submit(proc(1), arguments(&slow, &[]), ONCE)[0];
    assert_eq!(net.cause(proc(1), before), ErrorKind::OwnerDied);
    assert_eq!(net.cause(proc(1), after), ErrorKind::OwnerDied);
    net.let_go(proc(1), &[outer[0], before, after]);
    net.kill(proc(3));
    net.assert_clean();
}

/// Its value was never asked for: that its owner is dead is known when a call needs it.
#[test]
fn an_argument_of_an_owner_known_to_be_dead_fails_the_call_once() {
    let mut net = Net::new(3);
    let outer = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let lost = net.put(proc(2), "", &[]);
    net.finish(proc(2), task, vec![Return { value: inline("lost inside"), refs: vec![lost] }]);
    net.kill(proc(2));
    net.take(proc(1), lost);
    net.let_go(proc(1), &outer);
    // The value was never asked for; the process is known to be dead, because it was leased.
    assert!(matches!(net.lookup(proc(1), lost), Lookup::Ready(_)));
    net.let_go(proc(1), &[lost]);
    net.take(proc(1), lost);
    let late = net.submit(proc(1), arguments(&[lost, lost], &[]), ONCE)[0];
    assert_eq!(net.cause(proc(1), late), ErrorKind::OwnerDied);
    net.let_go(proc(1), &[lost, late]);
    net.assert_clean();
}

#[test]
fn a_call_of_a_lost_object_fails() {
    let mut net = Net::new(2);
    let lost = net.put(proc(1), "", &[]);
    net.let_go(proc(1), &[lost]);
    net.take(proc(1), lost);
    let call = net.submit(proc(1), arguments(&[lost], &[]), ONCE)[0];
    assert_eq!(net.cause(proc(1), call), ErrorKind::ObjectLost);
    net.let_go(proc(1), &[lost, call]);
    net.assert_clean();
}
