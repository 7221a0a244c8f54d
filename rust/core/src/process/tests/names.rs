//! Actors found by name: who has found one holds it, whatever its creator does meanwhile.

use raymesh_wire::control::ActorState;
use raymesh_wire::{ActorId, FromController, Message, ProcId, RequestId, ToController};

use super::net::{CONTROLLER, Net, proc};
use super::user::{ONCE, arguments, inline};
use crate::process::Process;

impl Net {
    /// Asks for the actor of that name; delivers what can be delivered.
    fn find(&mut self, id: ProcId, name: &str) {
        let message = ToController::LookupActor {
            request: RequestId(1),
            name: name.to_owned(),
            namespace: String::new(),
        };
        self.send(id, CONTROLLER, Message::ToController(message));
        self.run();
    }

    /// Whether the latest answer has found something.
    fn has_found(&mut self) -> bool {
        matches!(self.answers.pop(), Some((_, FromController::ActorFound { found: Ok(_), .. })))
    }
}

fn is_dead(net: &Net, actor: ActorId) -> bool {
    matches!(net.controller.state(actor), Some(ActorState::Dead { .. }))
}

/// A driver with a named actor, and a process that is neither its caller nor its home.
fn named() -> (Net, ActorId, ProcId) {
    let mut net = Net::new(3);
    let actor = net.create_named(proc(1), "a", arguments(&[], &[]), 0);
    let other = if net.home(actor) == proc(2) { proc(3) } else { proc(2) };
    (net, actor, other)
}

#[test]
fn an_actor_that_was_found_outlives_its_creators_handle() {
    let (mut net, actor, finder) = named();
    let handle = Process::actor_handle(actor);
    net.find(finder, "a");
    assert!(net.has_found());
    net.let_go(proc(1), &[handle]);
    assert!(!is_dead(&net, actor));
    let call = net.call(finder, actor, arguments(&[], &[]), ONCE);
    net.let_go(finder, &[handle]);
    assert!(!is_dead(&net, actor), "its call is outstanding");
    let home = net.home(actor);
    net.serve(home);
    assert_eq!(net.value(finder, call), inline("done"));
    assert!(is_dead(&net, actor));
    net.kill(home);
    net.let_go(finder, &[call]);
    net.assert_clean();
}

/// The creator lets go before it hears of the finder, and the finder before the creator hears of it.
#[test]
fn a_creator_that_has_not_heard_of_the_finder_cannot_end_the_actor() {
    for finder_lets_go_first in [false, true] {
        let (mut net, actor, finder) = named();
        let handle = Process::actor_handle(actor);
        net.hold(CONTROLLER, proc(1));
        net.find(finder, "a");
        assert!(net.has_found());
        net.let_go(proc(1), &[handle]);
        assert!(!is_dead(&net, actor));
        if finder_lets_go_first {
            net.let_go(finder, &[handle]);
            assert!(!is_dead(&net, actor), "nobody knows yet that all is given back");
            net.resume(CONTROLLER, proc(1));
        } else {
            net.resume(CONTROLLER, proc(1));
            assert!(!is_dead(&net, actor));
            net.let_go(finder, &[handle]);
        }
        assert!(is_dead(&net, actor));
        net.kill(net.home(actor));
        net.assert_clean();
    }
}

#[test]
fn a_finder_that_dies_before_the_creator_hears_of_it_does_not_keep_the_actor() {
    let (mut net, actor, finder) = named();
    net.hold(CONTROLLER, proc(1));
    net.find(finder, "a");
    net.let_go(proc(1), &[Process::actor_handle(actor)]);
    net.kill(finder);
    assert!(!is_dead(&net, actor));
    net.resume(CONTROLLER, proc(1));
    assert!(is_dead(&net, actor));
    net.kill(net.home(actor));
    net.assert_clean();
}

/// Two threads of one process: one drops the last handle while the other looks the name up.
#[test]
fn a_creator_that_finds_its_own_actor_holds_it() {
    let (mut net, actor, _) = named();
    let handle = Process::actor_handle(actor);
    net.hold(CONTROLLER, proc(1));
    net.find(proc(1), "a");
    net.let_go(proc(1), &[handle]);
    net.resume(CONTROLLER, proc(1));
    assert!(net.has_found());
    assert!(!is_dead(&net, actor));
    let call = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    let home = net.home(actor);
    net.serve(home);
    assert_eq!(net.value(proc(1), call), inline("done"));
    net.let_go(proc(1), &[handle]);
    assert!(is_dead(&net, actor));
    net.kill(home);
    net.let_go(proc(1), &[call]);
    net.assert_clean();
}

#[test]
fn a_found_handle_can_be_found_again_and_passed_on() {
    let (mut net, actor, finder) = named();
    let handle = Process::actor_handle(actor);
    net.find(finder, "a");
    net.find(finder, "a");
    let object = net.put(finder, "handle inside", &[handle]);
    net.let_go(proc(1), &[handle]);
    net.let_go(finder, &[handle]);
    net.let_go(finder, &[handle]);
    assert!(!is_dead(&net, actor));
    net.let_go(finder, &[object]);
    assert!(is_dead(&net, actor));
    net.find(finder, "a");
    assert!(!net.has_found(), "the name is free");
    net.kill(net.home(actor));
    net.assert_clean();
}
