//! Processes that have ended are remembered, whatever comes after them in their mailboxes.

use raymesh_wire::control::DeathCause;
use raymesh_wire::{ErrorKind, FromController, HostId, Message, ObjectId, ProcId, ToController};

use super::net::{CONTROLLER, MILLI, Net, proc};
use super::user::{ONCE, arguments};
use crate::process::{Effect, Process};

/// The `n`-th process in one mailbox.
const fn successor(n: u32) -> ProcId {
    ProcId::new(HostId(0), n, 7)
}

/// Answers what the process looks for because of that.
fn dies(process: &mut Process, proc: ProcId) -> Vec<ObjectId> {
    let death = DeathCause::Exited { code: 0 }.into();
    let message = Message::FromController(FromController::Died { proc, death });
    let mut effects = Vec::new();
    process.receive(MILLI, CONTROLLER, message, &mut effects);
    sought(&effects)
}

fn sought(effects: &[Effect]) -> Vec<ObjectId> {
    let seek = |effect: &Effect| match effect {
        Effect::Send { message: Message::ToController(ToController::Seek { object }), .. } => Some(*object),
        _ => None,
    };
    effects.iter().filter_map(seek).collect()
}

fn wants(process: &mut Process, object: ObjectId) -> Vec<ObjectId> {
    let mut effects = Vec::new();
    process.hold(object);
    process.want(object, &mut effects);
    sought(&effects)
}

#[test]
fn late_news_of_a_death_still_has_what_waits_for_the_dead_looked_for() {
    let mut process = Process::new(proc(1), CONTROLLER);
    let object = ObjectId { owner: successor(1), seq: 1, index: 1 };
    assert_eq!(wants(&mut process, object), []);
    // Of its successor the process hears first: the question about the former one was on its way.
    assert_eq!(dies(&mut process, successor(2)), []);
    assert_eq!(dies(&mut process, successor(1)), [object]);
}

#[test]
fn what_belongs_to_one_before_the_latest_dead_is_looked_for_at_once() {
    let mut process = Process::new(proc(1), CONTROLLER);
    dies(&mut process, successor(5));
    for n in 1..=5 {
        let object = ObjectId { owner: successor(n), seq: 1, index: 1 };
        assert_eq!(wants(&mut process, object), [object], "{n}");
    }
    let object = ObjectId { owner: successor(6), seq: 1, index: 1 };
    assert_eq!(wants(&mut process, object), [], "the next one lives");
}

#[test]
fn the_error_of_a_dead_actor_names_the_method() {
    let mut net = Net::new(2);
    let actor = net.create(proc(1), arguments(&[], &[]), 0);
    let sent = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    net.kill(net.home(actor));
    let late = net.call(proc(1), actor, arguments(&[], &[]), ONCE);
    for (call, words) in [(sent, "`m` had been called"), (late, "`m` was not called")] {
        assert_eq!(net.error(proc(1), call), ErrorKind::ActorDied);
        let raymesh_wire::Value::Error(error) = net.value(proc(1), call) else { panic!("no error") };
        let text = String::from_utf8_lossy(&error.payload).into_owned();
        assert!(text.contains(words), "{text}");
    }
    net.let_go(proc(1), &[sent, late, Process::actor_handle(actor)]);
    net.assert_clean();
}
