//! Hosts that are asked to leave.

use raymesh_wire::control::ExitReason;
use raymesh_wire::placement::{InGroup, Strategy};

use super::*;

impl World {
    fn drain(&mut self, host: u32, within: Option<u64>) -> Option<String> {
        let (request, host, reason) = (RequestId(1), HostId(host), "preemption".to_owned());
        self.say(driver(), ToController::DrainHost { request, host, reason, within });
        self.controller.audit().unwrap();
        let told = self.told(driver()).into_iter().find_map(|message| match message {
            FromController::Draining { refused, .. } => Some(refused),
            _ => None,
        });
        told.expect("answered")
    }

    fn leaves(&self) -> bool {
        self.said.iter().any(|effect| matches!(effect, Effect::ToHost { message: ToHost::Leave, .. }))
    }
}

fn world() -> World {
    let mut world = World::new(&[("CPU", 1.0), ("node:__internal_head__", 1.0)]);
    world.join(1, &[("CPU", 1.0), ("x", 1.0)]);
    world
}

#[test]
fn a_draining_host_gets_nothing_new_and_leaves_when_its_tasks_have_ended() {
    let mut world = world();
    let x = set(&[("x", 1.0)]);
    let bind = world.demand(driver(), 1, &x, 1).remove(0);
    assert_eq!(world.drain(1, None), None);
    assert!(world.told(driver()).contains(&FromController::ReclaimLeases));
    assert!(!world.leaves());
    assert!(world.demand(driver(), 2, &x, 1).is_empty());
    assert!(world.describe().iter().any(|host| host.draining.is_some()));
    assert!(world.give_back(&bind).is_empty(), "what waits for it is not served there");
    assert!(world.leaves());
    world.event(host_ended(1));
    world.controller.audit().unwrap();
}

#[test]
fn a_drained_actor_restarts_elsewhere_at_no_cost() {
    let mut world = world();
    let spec = ActorSpec { max_restarts: 1, ..actor(driver(), 1) };
    let held = world.demand(driver(), 1, &cpu(1.0), 1);
    world.alive(spec, proc(1, 6));
    assert_eq!(world.drain(1, Some(SECOND)), None);
    assert!(!world.leaves(), "it has no place elsewhere yet");
    world.tick(SECOND);
    assert!(world.leaves(), "its time is up");
    world.event(host_ended(1));
    world.give_back(&held[0]);
    let start = world.start().expect("it has a place on the other host");
    let id = ActorId { creator: driver(), seq: 1 };
    world.come_alive(id, start, proc(0, 7));
    // That was not its one restart.
    world.die(proc(0, 7), SIGKILL);
    assert!(world.start().is_some());
    world.controller.audit().unwrap();
}

#[test]
fn at_the_deadline_the_host_goes_whatever_runs() {
    let mut world = world();
    world.demand(driver(), 1, &set(&[("x", 1.0)]), 1);
    world.drain(1, Some(5 * SECOND));
    assert!(world.controller.next_deadline().is_some());
    world.tick(SECOND);
    assert!(!world.leaves());
    world.tick(4 * SECOND);
    assert!(world.leaves());
    world.tick(SECOND);
    assert!(!world.leaves(), "it is told once");
}

#[test]
fn the_head_and_hosts_that_are_not_there_cannot_be_drained() {
    let mut world = world();
    assert!(world.drain(0, None).is_some_and(|why| why.contains("head")));
    assert!(world.drain(7, None).is_some_and(|why| why.contains("no such host")));
    assert_eq!(world.demand(driver(), 1, &cpu(1.0), 2).len(), 2);
}

/// An actor with one restart that lives on host 1 (host 0 is full until what is returned is given back).
fn living_there(world: &mut World) -> (ActorId, Bind) {
    let held = world.demand(driver(), 1, &cpu(1.0), 1).remove(0);
    world.alive(ActorSpec { max_restarts: 1, ..actor(driver(), 1) }, proc(1, 6));
    (ActorId { creator: driver(), seq: 1 }, held)
}

#[test]
fn a_worker_that_ends_before_its_drained_host_is_lost_costs_no_restart() {
    let mut world = world();
    let (id, held) = living_there(&mut world);
    world.drain(1, Some(SECOND));
    world.tick(SECOND);
    assert!(world.leaves());
    world.give_back(&held);
    world.die(proc(1, 6), SIGKILL);
    let start = world.start().expect("it is moved");
    world.event(host_ended(1));
    world.come_alive(id, start, proc(0, 7));
    world.die(proc(0, 7), SIGKILL);
    assert!(world.start().is_some(), "its one restart is left");
}

#[test]
fn an_actor_without_restarts_left_is_moved_too() {
    let mut world = world();
    let (id, held) = living_there(&mut world);
    world.die(proc(1, 6), SIGKILL);
    let start = world.start().expect("its one restart");
    world.come_alive(id, start, proc(1, 7));
    world.drain(1, Some(SECOND));
    world.tick(SECOND);
    assert!(world.leaves());
    world.event(host_ended(1));
    world.give_back(&held);
    let start = world.start().expect("it is moved");
    world.come_alive(id, start, proc(0, 8));
    world.die(proc(0, 8), SIGKILL);
    assert!(world.start().is_none(), "it has none left");
    world.controller.audit().unwrap();
}

#[test]
fn a_crash_before_the_host_leaves_is_no_move() {
    let mut world = world();
    let (id, held) = living_there(&mut world);
    world.demand(driver(), 2, &set(&[("x", 1.0)]), 1);
    world.drain(1, None);
    assert!(!world.leaves(), "a task keeps it");
    world.die(proc(1, 6), SIGKILL);
    world.give_back(&held);
    let start = world.start().expect("its one restart");
    world.come_alive(id, start, proc(0, 7));
    world.die(proc(0, 7), SIGKILL);
    assert!(world.start().is_none(), "it has none left");
}

#[test]
fn who_drains_again_sets_the_deadline_anew() {
    let mut world = world();
    world.demand(driver(), 1, &set(&[("x", 1.0)]), 1);
    assert_eq!(world.drain(1, None), None);
    assert_eq!(world.drain(1, Some(SECOND)), None);
    world.tick(SECOND);
    assert!(world.leaves());
    assert_eq!(world.drain(1, Some(SECOND)), None);
    world.tick(SECOND);
    assert!(!world.leaves(), "it is told once");
}

#[test]
fn a_host_that_leaves_is_not_kept_free_for_what_starves() {
    let mut world = world();
    world.demand(driver(), 1, &set(&[("x", 1.0)]), 1);
    world.drain(1, None);
    world.demand(driver(), 2, &set(&[("x", 1.0)]), 1);
    for _ in 0..60 {
        world.tick(SECOND);
    }
    assert!(world.controller.hosts.iter().all(|(_, host)| host.kept.is_none()));
}

const MOVED: DeathCause = DeathCause::Requested { reason: ExitReason::Moved };

fn asked_to_move(world: &World) -> Vec<ProcId> {
    let asked = world.ordered().into_iter().filter_map(|message| match message {
        ToHost::EndWorker { proc, reason: ExitReason::Moved } => Some(proc),
        _ => None,
    });
    asked.collect()
}

#[test]
fn an_actor_moves_as_soon_as_there_is_a_place_for_it_and_then_the_host_leaves() {
    let mut world = world();
    let (id, held) = living_there(&mut world);
    assert_eq!(world.drain(1, None), None);
    assert!(asked_to_move(&world).is_empty(), "it would be nowhere");
    world.give_back(&held);
    assert_eq!(asked_to_move(&world), [proc(1, 6)]);
    world.controller.audit().unwrap();
    // Its place is its own already.
    assert!(world.demand(driver(), 3, &cpu(1.0), 1).is_empty());
    assert!(!world.leaves());
    world.die(proc(1, 6), MOVED);
    let start = world.start().expect("its place is there");
    assert!(world.leaves(), "nothing is left there");
    world.come_alive(id, start, proc(0, 7));
    world.demand(driver(), 3, &cpu(1.0), 0);
    world.die(proc(0, 7), SIGKILL);
    assert!(world.start().is_some(), "its one restart is left");
    world.controller.audit().unwrap();
}

#[test]
fn an_actor_that_is_killed_while_it_moves_leaves_its_new_place() {
    let mut world = world();
    let (id, held) = living_there(&mut world);
    world.drain(1, None);
    world.give_back(&held);
    world.say(driver(), ToController::KillActor { actor: id, no_restart: true });
    world.die(proc(1, 6), SIGKILL);
    world.controller.audit().unwrap();
    assert_eq!(world.demand(driver(), 3, &cpu(1.0), 1).len(), 1);
}

#[test]
fn an_actor_whose_new_host_is_lost_while_it_moves_waits_for_another() {
    let mut world = World::new(&[("node:__internal_head__", 1.0)]);
    world.join(1, &[("CPU", 1.0)]);
    world.alive(ActorSpec { max_restarts: 1, ..actor(driver(), 1) }, proc(1, 6));
    world.join(2, &[("CPU", 1.0)]);
    world.drain(1, None);
    world.event(host_ended(2));
    world.controller.audit().unwrap();
    world.die(proc(1, 6), MOVED);
    assert!(world.start().is_none());
    world.join(3, &[("CPU", 1.0)]);
    assert!(world.start().is_some());
    world.controller.audit().unwrap();
}

/// The tasks that run in a bundle may end where they are; new ones go where the bundle lies now.
#[test]
fn the_bundles_of_a_group_move_with_their_actors() {
    let mut world = World::new(&[("node:__internal_head__", 1.0)]);
    world.join(1, &[("CPU", 3.0)]);
    let spec = group(1, GroupStrategy::Pack, &[&[("CPU", 3.0)]]);
    let group = spec.group;
    world.say(driver(), ToController::CreateGroup { spec: Box::new(spec) });
    let place = InGroup { group, index: Some(0), capture: false };
    let wish = Wish { strategy: Strategy::Group(place), selectors: Vec::new() };
    world.alive(ActorSpec { max_restarts: 1, wish: wish.clone(), ..actor(driver(), 1) }, proc(1, 6));
    let running = world.wish(driver(), 1, &cpu(1.0), 1, wish.clone()).remove(0);
    world.drain(1, None);
    assert!(asked_to_move(&world).is_empty());
    world.join(2, &[("CPU", 3.0)]);
    assert_eq!(asked_to_move(&world), [proc(1, 6)]);
    world.controller.audit().unwrap();
    assert_eq!(world.wish(driver(), 2, &cpu(1.0), 1, wish)[0].host, HostId(2));
    world.die(proc(1, 6), MOVED);
    assert!(world.start().is_some());
    assert!(!world.leaves(), "a task runs there yet");
    world.give_back(&running);
    assert!(world.leaves());
    world.controller.audit().unwrap();
    world.event(host_ended(1));
    world.controller.audit().unwrap();
    assert!(world.told(driver()).iter().all(|it| !matches!(it, FromController::GroupState { .. })));
}
