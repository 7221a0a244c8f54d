use raymesh_wire::control::{ActorInfo, ActorNotFound, ExitReason};
use raymesh_wire::{ErrorKind, ErrorValue};

use super::*;

fn find(world: &mut World, name: &str, namespace: &str) -> Result<ActorInfo, ActorNotFound> {
    let (name, namespace) = (name.to_owned(), namespace.to_owned());
    world.say(driver(), ToController::LookupActor { request: RequestId(5), name, namespace });
    match world.told(driver()).pop() {
        Some(FromController::ActorFound { found, .. }) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn watchers_follow_an_actor_from_creation_to_death() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let spec = actor(driver(), 1);
    let id = spec.actor;
    world.create(spec);
    assert_eq!(world.states(driver(), id), [ActorState::Pending]);
    let start = world.start().unwrap();
    world.come_alive(id, start, proc(0, 2));
    assert_eq!(world.states(driver(), id), [ActorState::Alive { proc: proc(0, 2) }]);
    world.die(proc(0, 2), SIGKILL);
    let states = world.states(driver(), id);
    assert!(text(&states[0]).contains("worker process (pid 2) was killed by SIGKILL"), "{states:?}");
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn a_dead_actor_shows_what_its_worker_printed_last() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let spec = actor(driver(), 1);
    let id = spec.actor;
    world.create(spec);
    let start = world.start().unwrap();
    world.come_alive(id, start, proc(0, 2));
    let death = Death { last_output: "one\ntwo".to_owned(), ..death_of(proc(0, 2), SIGKILL) };
    world.host(HOST, FromHost::Died { proc: proc(0, 2), death, memory: false, under_way: false });
    let states = world.states(driver(), id);
    assert!(text(&states[0]).ends_with("SIGKILL.\nIts last output:\n  one\n  two"), "{states:?}");
}

#[test]
fn placement_needs_more_than_it_holds() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let spec = |seq| ActorSpec { resources: ResourceSet::new(), ..actor(driver(), seq) };
    world.alive(spec(1), proc(0, 2));
    world.alive(spec(2), proc(0, 3));
    world.demand(driver(), 0, &cpu(1.0), 1);
    assert_eq!(world.binds().len(), 1);
    world.create(spec(3));
    assert!(world.start().is_none());
}

#[test]
fn a_taken_name_is_refused_and_the_first_actor_is_unharmed() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.alive(named(driver(), 1, "a"), proc(0, 2));
    world.create(named(driver(), 2, "a"));
    let told = world.told(driver());
    assert!(matches!(&told[..], [FromController::CreateRefused { actor, .. }] if actor.seq == 2), "{told:?}");
    assert_eq!(find(&mut world, "a", "ns").unwrap().actor.seq, 1);
    assert_eq!(find(&mut world, "a", "other").unwrap_err().elsewhere, ["ns"]);
}

#[test]
fn who_finds_an_actor_holds_it_and_its_creator_is_told() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(named(driver(), 1, "a"), proc(0, 2));
    let (finder, id) = (proc(0, 3), ActorId { creator: driver(), seq: 1 });
    let (request, name, namespace) = (RequestId(1), "a".to_owned(), "ns".to_owned());
    world.say(finder, ToController::LookupActor { request, name, namespace });
    assert_eq!(world.told(driver()), [FromController::HandleGiven { actor: id, to: finder }]);
    // The creator has not heard of that yet.
    world.say(driver(), ToController::ActorOutOfScope { actor: id, given: 0 });
    assert!(world.ordered().is_empty());
    assert!(find(&mut world, "a", "ns").is_ok(), "it lives, and is found once more");
    world.say(driver(), ToController::ActorOutOfScope { actor: id, given: 1 });
    assert!(world.ordered().is_empty());
    world.say(driver(), ToController::ActorOutOfScope { actor: id, given: 2 });
    assert!(matches!(world.ordered()[..], [ToHost::EndWorker { .. }]));
    assert!(find(&mut world, "a", "ns").is_err(), "what is being collected is not found");
}

#[test]
fn the_name_of_a_killed_actor_is_free_at_once() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.alive(named(driver(), 1, "a"), proc(0, 2));
    let kill = |seq| ToController::KillActor { actor: ActorId { creator: driver(), seq }, no_restart: true };
    world.say(driver(), kill(1));
    assert!(find(&mut world, "a", "ns").is_err());
    let mut names = || {
        world.say(driver(), ToController::ListActors { request: RequestId(1) });
        let listed = world.told(driver()).into_iter().find_map(|message| match message {
            FromController::Actors { actors, .. } => Some(actors),
            _ => None,
        });
        let names = listed.unwrap().into_iter().map(|info| (info.actor.seq, info.name));
        names.filter(|(_, name)| !name.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(names(), []);
    world.create(named(driver(), 2, "a"));
    assert!(world.start().is_some());
    assert_eq!(find(&mut world, "a", "ns").unwrap().actor.seq, 2);
    // The end of the first does not free the name of the second.
    world.die(proc(0, 2), DeathCause::Killed);
    assert_eq!(find(&mut world, "a", "ns").unwrap().actor.seq, 2);
}

#[test]
fn restarts_are_counted_and_end_in_death() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let spec = ActorSpec { max_restarts: 1, ..actor(driver(), 1) };
    let id = spec.actor;
    world.alive(spec, proc(0, 2));
    world.die(proc(0, 2), SIGKILL);
    assert_eq!(world.states(driver(), id), [ActorState::Restarting]);
    let start = world.start().unwrap();
    world.come_alive(id, start, proc(0, 3));
    world.die(proc(0, 3), DeathCause::Exited { code: 3 });
    let states = world.states(driver(), id);
    assert!(text(&states[0]).contains("exited with code 3. It had been restarted once."), "{states:?}");
}

#[test]
fn a_kill_that_allows_restarts_restarts() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let spec = ActorSpec { max_restarts: -1, ..named(driver(), 1, "a") };
    let id = spec.actor;
    world.alive(spec, proc(0, 2));
    world.say(driver(), ToController::KillActor { actor: id, no_restart: false });
    assert!(matches!(world.ordered()[..], [ToHost::KillWorker { .. }]));
    world.die(proc(0, 2), DeathCause::Killed);
    assert_eq!(world.states(driver(), id), [ActorState::Restarting]);
    assert!(find(&mut world, "a", "ns").is_ok());
}

#[test]
fn a_pending_actor_can_be_killed() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    world.create(actor(driver(), 2));
    let id = ActorId { creator: driver(), seq: 2 };
    world.say(driver(), ToController::KillActor { actor: id, no_restart: true });
    assert!(text(&world.states(driver(), id)[0]).contains("killed by ray.kill"));
    world.die(proc(0, 2), SIGKILL);
    assert!(world.start().is_none());
}

#[test]
fn an_actor_killed_while_its_worker_is_sought_gives_its_resources_back() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.create(actor(driver(), 1));
    let (start, id) = (world.start().unwrap(), ActorId { creator: driver(), seq: 1 });
    world.say(driver(), ToController::KillActor { actor: id, no_restart: true });
    assert_eq!(world.ordered(), [ToHost::CancelStart { start }]);
    assert_eq!(world.free("CPU"), 0.0);
    world.host(HOST, FromHost::ActorStartFailed { start, reason: "cancelled".to_owned() });
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn an_actor_cancelled_too_late_gives_its_resources_back_when_its_worker_dies() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.create(actor(driver(), 1));
    let (start, id) = (world.start().unwrap(), ActorId { creator: driver(), seq: 1 });
    world.say(driver(), ToController::KillActor { actor: id, no_restart: true });
    world.host(HOST, FromHost::ActorStarted { start, proc: proc(0, 2), pid: 2 });
    world.die(proc(0, 2), DeathCause::Killed);
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn a_constructor_that_raises_is_not_repeated() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.create(ActorSpec { max_restarts: 5, ..actor(driver(), 1) });
    let (start, id) = (world.start().unwrap(), ActorId { creator: driver(), seq: 1 });
    world.host(HOST, FromHost::ActorStarted { start, proc: proc(0, 2), pid: 2 });
    let error = ErrorValue::text(ErrorKind::ActorInit, "boom");
    world.say(proc(0, 2), ToController::ActorReady { actor: id, error: Some(error.clone()) });
    assert_eq!(world.states(driver(), id), [ActorState::Dead { error }]);
    assert!(matches!(world.ordered()[..], [ToHost::EndWorker { .. }]));
    assert_eq!(world.free("CPU"), 0.0);
    world.die(proc(0, 2), DeathCause::Exited { code: 0 });
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn a_constructor_that_crashes_counts_as_a_death() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.create(ActorSpec { max_restarts: 1, ..actor(driver(), 1) });
    let start = world.start().unwrap();
    world.host(HOST, FromHost::ActorStarted { start, proc: proc(0, 2), pid: 2 });
    world.die(proc(0, 2), SIGKILL);
    assert!(world.start().is_some());
}

#[test]
fn readiness_that_overtakes_the_hosts_word_counts() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.create(actor(driver(), 1));
    let (start, id) = (world.start().unwrap(), ActorId { creator: driver(), seq: 1 });
    world.say(proc(0, 2), ToController::ActorReady { actor: id, error: None });
    assert_eq!(world.states(driver(), id), [ActorState::Alive { proc: proc(0, 2) }]);
    world.host(HOST, FromHost::ActorStarted { start, proc: proc(0, 2), pid: 77 });
    world.die(proc(0, 2), SIGKILL);
    assert_eq!(world.states(driver(), id).len(), 1);
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn exit_actor_ends_without_restart() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let spec = ActorSpec { max_restarts: 5, ..named(driver(), 1, "a") };
    let id = spec.actor;
    world.alive(spec, proc(0, 2));
    world.say(proc(0, 2), ToController::ActorExited { actor: id });
    assert!(find(&mut world, "a", "ns").is_err());
    world.die(proc(0, 2), DeathCause::Exited { code: 0 });
    assert!(text(&world.states(driver(), id)[0]).contains("ended itself"));
}

#[test]
fn actors_without_handles_end_unless_detached() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.alive(ActorSpec { detached: true, ..actor(driver(), 1) }, proc(0, 2));
    world.alive(ActorSpec { max_restarts: 3, ..actor(driver(), 2) }, proc(0, 3));
    let id = |seq| ActorId { creator: driver(), seq };
    world.say(driver(), ToController::ActorOutOfScope { actor: id(1), given: 0 });
    assert!(world.ordered().is_empty());
    world.say(driver(), ToController::ActorOutOfScope { actor: id(2), given: 0 });
    let (proc, reason) = (proc(0, 3), ExitReason::OutOfScope);
    assert_eq!(world.ordered(), [ToHost::EndWorker { proc, reason }]);
    world.die(proc, DeathCause::Requested { reason });
    assert!(matches!(world.states(driver(), id(2))[..], [ActorState::Dead { .. }]));
    assert!(world.start().is_none());
}

#[test]
fn a_watch_may_arrive_before_the_creation() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (watcher, id) = (proc(0, 9), ActorId { creator: driver(), seq: 1 });
    world.say(watcher, ToController::WatchActor { actor: id });
    assert!(world.told(watcher).is_empty());
    world.create(actor(driver(), 1));
    assert_eq!(world.states(watcher, id), [ActorState::Pending]);
}

#[test]
fn a_kill_may_arrive_before_the_creation() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let id = ActorId { creator: driver(), seq: 1 };
    world.say(proc(0, 9), ToController::KillActor { actor: id, no_restart: true });
    world.create(actor(driver(), 1));
    assert!(matches!(world.states(driver(), id).last(), Some(ActorState::Dead { .. })));
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn creations_may_arrive_out_of_order() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.create(actor(driver(), 2));
    assert!(world.start().is_some());
    world.create(actor(driver(), 1));
    assert!(world.start().is_some());
    world.create(actor(driver(), 1));
    assert!(world.start().is_none());
}

#[test]
fn a_watch_after_death_is_answered() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    world.die(proc(0, 2), SIGKILL);
    let id = ActorId { creator: driver(), seq: 1 };
    world.say(proc(0, 9), ToController::WatchActor { actor: id });
    assert!(text(&world.states(proc(0, 9), id)[0]).contains("SIGKILL"));
    // Also of one whose creator has died without having created it.
    world.say(proc(0, 9), ToController::WatchActor { actor: ActorId { creator: proc(0, 2), seq: 1 } });
    assert_eq!(world.told(proc(0, 9)).len(), 1);
}

#[test]
fn an_actor_that_no_host_can_hold_is_told_to_its_creator() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let much = set(&[("CPU", 2.0)]);
    world.create(ActorSpec { resources: much.clone(), placement: much, ..actor(driver(), 1) });
    let told = world.told(driver());
    assert!(told.iter().any(|m| matches!(m, FromController::ActorUnplaceable { never: true, .. })));
}

#[test]
fn a_blocked_actor_lends_its_cpu() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    world.say(proc(0, 2), ToController::Blocked);
    assert_eq!(world.demand(proc(0, 2), 0, &cpu(1.0), 1).len(), 1);
}

#[test]
fn history_tells_the_story_with_causes() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    world.die(proc(0, 2), SIGKILL);
    let story = world.controller.history(super::super::Subject::Actor(ActorId { creator: driver(), seq: 1 }));
    let states: Vec<_> = story.iter().map(|entry| entry.state).collect();
    assert_eq!(states, ["pending", "starting", "alive", "dead"]);
    assert!(story[3].cause.contains("SIGKILL"));
}

#[test]
fn an_actor_that_its_creator_gives_up_is_dead_for_all_who_heard_of_it() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (early, late) = (proc(0, 8), proc(0, 9));
    let id = ActorId { creator: driver(), seq: 1 };
    world.say(early, ToController::WatchActor { actor: id });
    let error = ErrorValue::text(ErrorKind::Task, "argument");
    world.say(driver(), ToController::ActorReady { actor: id, error: Some(error.clone()) });
    assert_eq!(world.states(early, id), [ActorState::Dead { error: error.clone() }]);
    world.say(late, ToController::WatchActor { actor: id });
    assert_eq!(world.states(late, id), [ActorState::Dead { error }]);
    // Its handle goes out of scope before its arguments are there.
    let second = ActorId { creator: driver(), seq: 2 };
    world.say(early, ToController::WatchActor { actor: second });
    world.say(driver(), ToController::ActorOutOfScope { actor: second, given: 0 });
    assert!(matches!(world.states(early, second)[..], [ActorState::Dead { .. }]));
    world.create(actor(driver(), 2));
    assert!(world.start().is_none());
}
