//! Functions and classes are kept for those that hold them, and for actors that may be made of them again.

use super::*;

const ID: FunctionId = FunctionId([7; 16]);

impl World {
    fn put(&mut self, from: ProcId) {
        self.say(from, ToController::PutFunction { id: ID, body: bytes::Bytes::from_static(b"code") });
    }

    /// Whether it is there at once.
    fn has(&mut self) -> bool {
        let getter = proc(0, 9);
        self.say(getter, ToController::GetFunction { request: RequestId(1), id: ID });
        !self.told(getter).is_empty()
    }
}

#[test]
fn a_function_is_kept_until_the_last_process_that_holds_it_gives_it_up_or_dies() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.put(driver());
    world.put(proc(0, 2));
    world.say(driver(), ToController::DropFunction { id: ID });
    assert_eq!(world.controller.definitions(), (1, 0));
    world.die(proc(0, 2), SIGKILL);
    assert_eq!(world.controller.definitions(), (0, 0));
    world.put(driver());
    assert!(world.has(), "it may come again");
}

#[test]
fn a_class_is_kept_for_an_actor_until_that_cannot_be_made_again() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.put(driver());
    let spec = ActorSpec { class: ID, max_restarts: 1, detached: true, ..actor(driver(), 1) };
    let id = spec.actor;
    world.alive(spec, proc(0, 2));
    world.say(driver(), ToController::DropFunction { id: ID });
    assert!(world.has());
    world.die(proc(0, 2), SIGKILL);
    let start = world.start().unwrap();
    assert!(world.has(), "its next worker asks for it");
    world.come_alive(id, start, proc(0, 3));
    assert!(world.has(), "without restarts left, too, it is moved when its host is drained");
    world.die(proc(0, 3), SIGKILL);
    assert_eq!(world.controller.definitions(), (0, 0), "it is dead");
}

#[test]
fn the_class_of_an_actor_that_never_restarts_goes_when_that_lives() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.put(driver());
    let spec = ActorSpec { class: ID, max_restarts: 0, detached: true, ..actor(driver(), 1) };
    world.alive(spec, proc(0, 2));
    world.say(driver(), ToController::DropFunction { id: ID });
    assert_eq!(world.controller.definitions(), (0, 0));
}

#[test]
fn a_class_goes_with_an_actor_that_never_lived() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    world.put(driver());
    let spec = ActorSpec { class: ID, max_restarts: -1, ..actor(driver(), 2) };
    let id = spec.actor;
    world.create(spec);
    world.say(driver(), ToController::DropFunction { id: ID });
    assert_eq!(world.controller.definitions(), (1, 0));
    world.say(driver(), ToController::KillActor { actor: id, no_restart: true });
    assert_eq!(world.controller.definitions(), (0, 0));
}
