//! Calls to actors: in order, over restarts, and when the actor ends.

use raymesh_wire::control::{ActorState, ExitReason};
use raymesh_wire::{CallTarget, ErrorKind, ErrorValue, FromController, ObjectId, ReplyStatus, Return, Value};

use super::net::{CONTROLLER, Net, proc};
use super::user::{ONCE, Options, arguments, inline, raised, result};
use crate::process::{Lookup, Process};

const AGAIN: Options = Options { returns: 1, retries: -1 };

fn dies(net: &mut Net, actor: raymesh_wire::ActorId, text: &str) {
    for (to, message) in net.controller.ends(actor, ErrorValue::text(ErrorKind::ActorDied, text)) {
        net.tell(to, message);
    }
    net.run();
}

#[test]
fn calls_arrive_in_order_though_one_waits_for_its_argument() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let slow = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let first = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let second = net.call(proc(1), actor, arguments(&[slow], &[]), ONCE);
    let third = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let home = net.home(actor);
    let other = if home == proc(2) { proc(3) } else { proc(2) };
    assert_eq!(net.serve(home), first.task());
    assert!(net.try_start(home).is_none());
    net.serve(other);
    let call = net.start(home).call;
    assert_eq!((call.task, call.deps[0].1.clone()), (second.task(), inline("done")));
    assert!(matches!(call.target, CallTarget::Method { .. }));
    net.finish(home, call.task, result(""));
    assert_eq!(net.serve(home), third.task());
    net.let_go(proc(1), &[slow, first, second, third]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn a_call_whose_argument_fails_lets_the_later_ones_pass() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let bad = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let first = net.call(proc(1), actor, arguments(&[bad], &[]), ONCE);
    let second = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let home = net.home(actor);
    let other = if home == proc(2) { proc(3) } else { proc(2) };
    let task = net.start(other).call.task;
    net.end(other, task, ReplyStatus::Raised, 1, vec![Return { value: raised("bad"), refs: vec![] }]);
    assert_eq!(net.value(proc(1), first), raised("bad"));
    assert_eq!(net.serve(home), second.task());
    let third = net.call(proc(1), actor, arguments(&[bad], &[]), ONCE);
    assert_eq!(net.value(proc(1), third), raised("bad"));
    net.let_go(proc(1), &[bad, first, second, third]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn calls_wait_for_the_constructor() {
    let mut net = Net::new(2);
    net.controller.slow_constructors = true;
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let first = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    assert!(net.try_start(proc(2)).is_none());
    for (to, message) in net.controller.started(actor, proc(2)) {
        net.tell(to, message);
    }
    net.run();
    assert_eq!(net.serve(proc(2)), first.task());
    net.let_go(proc(1), &[first]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn a_restart_fails_calls_on_their_way_and_keeps_those_that_may_run_again() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 1);
    let object = net.put_stored(proc(1), &[]);
    let calls: Vec<ObjectId> = [ONCE, AGAIN, ONCE, AGAIN]
        .into_iter()
        .map(|options| net.call(proc(1), actor, arguments(&[object], &[]), options))
        .collect();
    net.let_go(proc(1), &[object]);
    let home = net.home(actor);
    net.start(home);
    net.kill(home);
    assert_eq!(net.error(proc(1), calls[0]), ErrorKind::ActorUnavailable);
    assert_eq!(net.error(proc(1), calls[2]), ErrorKind::ActorUnavailable);
    let later = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let home = net.home(actor);
    for (expected, attempt) in [(calls[1], 1), (calls[3], 1), (later, 0)] {
        let call = net.start(home).call;
        assert_eq!((call.task.object(1), call.attempt), (expected, attempt));
        net.finish(home, call.task, result(""));
    }
    net.let_go(proc(1), &calls);
    net.let_go(proc(1), &[later]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn retries_of_calls_are_used_up_by_restarts() {
    let mut net = Net::new(5);
    let actor = net.create(proc(1), arguments(&[], &[]), -1);
    let call = net.call(proc(1), actor, arguments(&[], &[]), Options { returns: 1, retries: 2 });
    for attempt in 0..3 {
        let home = net.home(actor);
        assert_eq!(net.start(home).call.attempt, attempt);
        net.kill(home);
    }
    assert_eq!(net.error(proc(1), call), ErrorKind::ActorUnavailable);
    net.let_go(proc(1), &[call]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn death_for_good_fails_what_waits_and_what_comes() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let slow = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let object = net.put_stored(proc(1), &[]);
    let sent = net.call(proc(1), actor, arguments(&[], &[object]), AGAIN);
    let waits = net.call(proc(1), actor, arguments(&[slow], &[object]), AGAIN);
    let behind = net.call(proc(1), actor, arguments(&[], &[object]), AGAIN);
    let home = net.home(actor);
    net.kill(home);
    for call in [sent, waits, behind] {
        assert_eq!(net.error(proc(1), call), ErrorKind::ActorDied);
    }
    let late = net.call(proc(1), actor, arguments(&[slow], &[object]), AGAIN);
    assert_eq!(net.error(proc(1), late), ErrorKind::ActorDied);
    net.serve(if home == proc(2) { proc(3) } else { proc(2) });
    net.let_go(proc(1), &[slow, object, sent, waits, behind, late, Process::actor_handle(actor)]);
    net.assert_clean();
}

#[test]
fn death_before_the_constructor_is_done_fails_the_calls_that_wait() {
    let mut net = Net::new(2);
    net.controller.slow_constructors = true;
    let object = net.put_stored(proc(1), &[]);
    let actor = net.create(proc(1), arguments(&[object], &[]), 0);
    let call = net.call(proc(1), actor, arguments(&[], &[]), AGAIN);
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 1, "a restart would need it");
    dies(&mut net, actor, "its constructor raised");
    assert_eq!(net.error(proc(1), call), ErrorKind::ActorDied);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &[call, Process::actor_handle(actor)]);
    net.assert_clean();
}

#[test]
fn constructor_arguments_are_kept_for_restarts() {
    let mut net = Net::new(3);
    let inner = net.put_stored(proc(1), &[]);
    let (dep, nested) = (net.put(proc(1), "dep", &[inner]), net.put_stored(proc(1), &[]));
    let actor = net.create(proc(1), arguments(&[dep], &[nested]), 1);
    net.let_go(proc(1), &[inner, dep, nested]);
    let first = net.home(actor);
    net.kill(first);
    let second = net.home(actor);
    assert_ne!(first, second);
    assert_eq!(net.value(second, dep), inline("dep"));
    assert!(matches!(net.get(second, inner), Lookup::Ready(Value::Stored(_))));
    assert!(matches!(net.get(second, nested), Lookup::Ready(Value::Stored(_))));
    assert_eq!(net.in_use().len(), 2);
    net.end_actor(proc(1), actor);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

/// Others who call the actor are told as well, whether they hear of it before or after.
#[test]
fn an_actor_whose_argument_fails_is_dead_for_everybody() {
    let death = Value::Error(ErrorValue::text(ErrorKind::ActorInit, "bad"));
    for late in [false, true] {
        let mut net = Net::new(4);
        let bad = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
        let actor = net.create(proc(1), arguments(&[bad], &[]), 0);
        let handle = Process::actor_handle(actor);
        let mine = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
        let other = net.submit(proc(1), arguments(&[], &[handle]), ONCE)[0];
        let task = net.start(proc(2)).call.task;
        let (worker, caller) = (proc(2), net.start(proc(3)).caller);
        assert_eq!(caller, proc(1));
        net.take(proc(3), handle);
        let early = (!late).then(|| net.call(proc(3), actor, arguments(&[], &[]), ONCE));
        net.end(worker, task, ReplyStatus::Raised, 1, vec![Return { value: raised("bad"), refs: vec![] }]);
        assert_eq!(net.value(proc(1), mine), death);
        let theirs = early.unwrap_or_else(|| net.call(proc(3), actor, arguments(&[], &[]), ONCE));
        assert_eq!(net.value(proc(3), theirs), death);
        net.let_go(proc(3), &[theirs]);
        net.finish(proc(3), other.task(), result(""));
        // Created after its argument failed: the same.
        let second = net.create(proc(1), arguments(&[bad], &[]), 0);
        assert!(matches!(net.controller.state(second), Some(ActorState::Dead { .. })));
        net.let_go(proc(3), &[handle]);
        net.let_go(proc(1), &[bad, mine, other, handle, Process::actor_handle(second)]);
        net.assert_clean();
    }
}

/// Nobody wants the actor any more before its arguments are there.
#[test]
fn an_actor_given_up_before_its_arguments_are_there_is_not_created() {
    let mut net = Net::new(2);
    let object = net.put_stored(proc(1), &[]);
    let slow = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let actor = net.create(proc(1), arguments(&[slow], &[object]), 0);
    net.let_go(proc(1), &[object]);
    net.let_go(proc(1), &[Process::actor_handle(actor)]);
    assert!(matches!(net.controller.state(actor), Some(ActorState::Dead { .. })));
    assert_eq!(net.in_use().len(), 0);
    net.serve(proc(2));
    let created = net.count(|sent| {
        use raymesh_wire::{Message, ToController};
        matches!(&sent.2, Message::ToController(ToController::CreateActor { .. }))
    });
    assert_eq!(created, 0);
    net.let_go(proc(1), &[slow]);
    net.assert_clean();
}

/// The actor's process changes without a word in between, as for who watched anew meanwhile.
#[test]
fn calls_to_a_process_that_was_replaced_unseen_do_not_wait_for_ever() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), -1);
    let again = net.call(proc(1), actor, arguments(&[], &[]), AGAIN);
    let once = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let home = net.home(actor);
    let other = if home == proc(2) { proc(3) } else { proc(2) };
    net.tell(proc(1), FromController::ActorState { actor, state: ActorState::Alive { proc: other } });
    net.run();
    assert_eq!(net.error(proc(1), once), ErrorKind::ActorUnavailable);
    assert_eq!(net.serve(other), again.task());
    net.let_go(proc(1), &[again, once]);
    // What the first process answers is for nobody.
    let task = net.start(home).call.task;
    net.finish(home, task, result("late"));
    net.start(home);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn a_stale_reply_of_an_earlier_life_is_discarded() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), -1);
    let call = net.call(proc(1), actor, arguments(&[], &[]), AGAIN);
    let first = net.home(actor);
    let task = net.start(first).call.task;
    net.tell(proc(1), FromController::ActorState { actor, state: ActorState::Restarting });
    net.run();
    let (inner, block) = (net.put_stored(first, &[]), net.allocate(first));
    net.finish(first, task, vec![Return { value: Value::Stored(block), refs: vec![inner] }]);
    net.let_go(first, &[inner]);
    assert!(matches!(net.lookup(proc(1), call), Lookup::Pending));
    assert_eq!(net.in_use().len(), 0);
    net.tell(proc(1), FromController::ActorState { actor, state: ActorState::Alive { proc: first } });
    net.run();
    let again = net.start(first).call;
    assert_eq!((again.task, again.attempt), (task, 1));
    net.finish(first, task, result("second"));
    assert_eq!(net.value(proc(1), call), inline("second"));
    net.let_go(proc(1), &[call]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn an_exception_to_be_tried_again_runs_before_the_calls_behind_it() {
    let mut net = Net::new(2);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let first = net.call(proc(1), actor, arguments(&[], &[]), Options { returns: 1, retries: 1 });
    net.hold(CONTROLLER, proc(1));
    let home = net.home(actor);
    let task = net.start(home).call.task;
    let inner = net.put_stored(home, &[]);
    let error = Return { value: raised("boom"), refs: vec![inner] };
    net.end(home, task, ReplyStatus::RaisedRetryable, 1, vec![error]);
    net.let_go(home, &[inner]);
    assert_eq!(net.in_use().len(), 0, "the error is not kept");
    let call = net.start(home).call;
    assert_eq!((call.task, call.attempt), (task, 1));
    net.finish(home, task, result("second"));
    assert_eq!(net.value(proc(1), first), inline("second"));
    net.resume(CONTROLLER, proc(1));
    net.let_go(proc(1), &[first]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn queued_calls_of_a_dead_caller_do_not_run() {
    let mut net = Net::new(4);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let handle = Process::actor_handle(actor);
    let home = net.home(actor);
    let outer = net.submit(proc(1), arguments(&[], &[handle]), ONCE)[0];
    let caller = [proc(2), proc(3), proc(4)].into_iter().find(|id| net.procs[id].has_calls()).unwrap();
    net.start(caller);
    let object = net.put_stored(caller, &[]);
    let running = net.call(caller, actor, arguments(&[], &[object]), ONCE);
    net.call(caller, actor, arguments(&[], &[object]), ONCE);
    let mine = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    assert_eq!(net.start(home).call.task, running.task());
    net.kill(caller);
    // The result of the running call is for nobody; its memory is free.
    let block = net.allocate(home);
    net.finish(home, running.task(), vec![Return { value: Value::Stored(block), refs: vec![] }]);
    assert!(!net.in_use().contains(&block), "a result for a dead caller is lost memory");
    assert_eq!(net.serve(home), mine.task());
    net.let_go(proc(1), &[outer, mine]);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn calls_that_a_moving_actor_has_not_begun_run_once_and_in_order_in_its_next_process() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 1);
    let mut calls: Vec<ObjectId> =
        (0..3).map(|_| net.call(proc(1), actor, arguments(&[], &[]), ONCE)).collect();
    let home = net.home(actor);
    let running = net.start(home).call.task;
    // One is on its way when it is asked to move, and one is made after that was heard of.
    net.hold(proc(1), home);
    calls.push(net.call(proc(1), actor, arguments(&[], &[]), ONCE));
    net.tell(home, FromController::Exit { reason: ExitReason::Moved });
    net.run();
    net.resume(proc(1), home);
    calls.push(net.call(proc(1), actor, arguments(&[], &[]), ONCE));
    assert!(!net.procs[&home].has_calls());
    net.finish(home, running, result("done"));
    net.kill(home);
    assert_eq!(net.value(proc(1), calls[0]), inline("done"));
    let home = net.home(actor);
    for expected in &calls[1..] {
        let call = net.start(home).call;
        assert_eq!((call.task.object(1), call.attempt), (*expected, 0));
        net.finish(home, call.task, result(""));
    }
    net.let_go(proc(1), &calls);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}
