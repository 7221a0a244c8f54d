//! Handles: an actor lives as long as somebody can call it.

use raymesh_wire::control::ActorState;
use raymesh_wire::{ActorId, Message, Return, ToController};

use super::net::{Net, proc};
use super::user::{ONCE, arguments, inline, result};
use crate::process::Process;

fn is_dead(net: &Net, actor: ActorId) -> bool {
    matches!(net.controller.state(actor), Some(ActorState::Dead { .. }))
}

#[test]
fn the_last_handle_takes_the_actor_with_it() {
    let mut net = Net::new(2);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let handle = Process::actor_handle(actor);
    net.take(proc(1), handle);
    net.let_go(proc(1), &[handle]);
    assert!(!is_dead(&net, actor));
    net.let_go(proc(1), &[handle]);
    assert!(is_dead(&net, actor));
    net.kill(net.home(actor));
    net.assert_clean();
}

#[test]
fn outstanding_calls_keep_the_actor() {
    let mut net = Net::new(2);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let first = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let second = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    net.let_go(proc(1), &[Process::actor_handle(actor)]);
    let home = net.home(actor);
    net.serve(home);
    assert!(!is_dead(&net, actor));
    net.serve(home);
    assert!(is_dead(&net, actor));
    assert_eq!(net.value(proc(1), second), inline("done"));
    net.kill(home);
    net.let_go(proc(1), &[first, second]);
    net.assert_clean();
}

#[test]
fn a_handle_that_another_process_keeps_keeps_the_actor() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let handle = Process::actor_handle(actor);
    let home = net.home(actor);
    let worker = if home == proc(2) { proc(3) } else { proc(2) };
    let results = net.submit(proc(1), arguments(&[], &[handle]), ONCE);
    let task = net.start(worker).call.task;
    net.take(worker, handle);
    net.finish(worker, task, result(""));
    net.let_go(proc(1), &[handle]);
    assert!(!is_dead(&net, actor));
    let call = net.call(worker, actor, arguments(&[], &[]), ONCE);
    net.let_go(worker, &[handle]);
    assert!(!is_dead(&net, actor), "its call is outstanding");
    net.serve(home);
    assert!(is_dead(&net, actor));
    net.kill(home);
    net.let_go(worker, &[call]);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn a_handle_in_an_object_keeps_the_actor() {
    let mut net = Net::new(2);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let handle = Process::actor_handle(actor);
    let object = net.put(proc(1), "handle inside", &[handle]);
    net.let_go(proc(1), &[handle]);
    assert!(!is_dead(&net, actor));
    net.let_go(proc(1), &[object]);
    assert!(is_dead(&net, actor));
    net.kill(net.home(actor));
    net.assert_clean();
}

/// A worker makes an actor and gives the handle to its caller, then lets go.
#[test]
fn a_handle_in_a_result_keeps_the_actor() {
    let mut net = Net::new(3);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let actor = net.create(proc(2), arguments(&[], &[]), 0);
    let handle = Process::actor_handle(actor);
    net.finish(proc(2), task, vec![Return { value: inline("handle inside"), refs: vec![handle] }]);
    net.let_go(proc(2), &[handle]);
    assert!(!is_dead(&net, actor));
    let call = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    net.serve(net.home(actor));
    net.let_go(proc(1), &[call]);
    net.let_go(proc(1), &results);
    assert!(is_dead(&net, actor));
    net.kill(net.home(actor));
    net.assert_clean();
}

/// A caller of many actors in a row remembers none of those it cannot call any more.
#[test]
fn actors_that_nobody_here_can_call_are_forgotten() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let handle = Process::actor_handle(actor);
    let home = net.home(actor);
    let worker = if home == proc(2) { proc(3) } else { proc(2) };
    let results = net.submit(proc(1), arguments(&[], &[handle]), ONCE);
    let task = net.start(worker).call.task;
    net.take(worker, handle);
    let call = net.call(worker, actor, arguments(&[], &[]), ONCE);
    net.serve(home);
    assert_eq!(net.controller.watching(actor), 2);
    net.let_go(worker, &[call, handle]);
    net.finish(worker, task, result(""));
    assert_eq!(net.controller.watching(actor), 1, "the worker need not be told any more");
    let unwatched =
        |sent: &(_, _, Message)| matches!(sent.2, Message::ToController(ToController::UnwatchActor { .. }));
    assert_eq!(net.count(unwatched), 1);
    net.let_go(proc(1), &results);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

/// A handle comes back to a process that had forgotten the actor.
#[test]
fn an_actor_that_was_forgotten_can_be_called_again() {
    let mut net = Net::new(3);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let handle = Process::actor_handle(actor);
    let home = net.home(actor);
    let worker = if home == proc(2) { proc(3) } else { proc(2) };
    for _ in 0..3 {
        let results = net.submit(proc(1), arguments(&[], &[handle]), ONCE);
        let task = net.start(worker).call.task;
        net.take(worker, handle);
        let call = net.call(worker, actor, arguments(&[], &[]), ONCE);
        net.serve(home);
        assert_eq!(net.value(worker, call), inline("done"));
        net.let_go(worker, &[call, handle]);
        net.finish(worker, task, result(""));
        net.let_go(proc(1), &results);
    }
    net.end_actor(proc(1), actor);
    net.assert_clean();
}
