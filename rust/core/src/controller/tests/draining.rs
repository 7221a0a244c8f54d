//! Hosts that are asked to leave.

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
    world.event(Event::HostLost { host: HostId(1), why: "its process has ended".to_owned() });
    world.controller.audit().unwrap();
}

#[test]
fn a_drained_actor_restarts_elsewhere_at_no_cost() {
    let mut world = world();
    let spec = ActorSpec { max_restarts: 1, ..actor(driver(), 1) };
    let held = world.demand(driver(), 1, &cpu(1.0), 1);
    world.alive(spec, proc(1, 6));
    assert_eq!(world.drain(1, Some(SECOND)), None);
    assert!(world.leaves(), "it can go on elsewhere");
    world.event(Event::HostLost { host: HostId(1), why: "its process has ended".to_owned() });
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
    world.drain(1, None);
    assert!(world.leaves());
    world.give_back(&held);
    world.die(proc(1, 6), SIGKILL);
    let start = world.start().expect("it is moved");
    world.event(Event::HostLost { host: HostId(1), why: "its process has ended".to_owned() });
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
    world.drain(1, None);
    assert!(world.leaves());
    world.event(Event::HostLost { host: HostId(1), why: "its process has ended".to_owned() });
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
    world.give_back(&held);
    world.die(proc(1, 6), SIGKILL);
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
    assert!(world.controller.hosts.iter().all(|(_, host)| host.reserved.is_none()));
}
