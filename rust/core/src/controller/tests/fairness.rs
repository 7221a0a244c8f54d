use super::*;

fn reclaimed(world: &World) -> Vec<ProcId> {
    let asked = world.said.iter().filter_map(|effect| match effect {
        Effect::Send { to, message: FromController::ReclaimLeases } => Some(*to),
        _ => None,
    });
    asked.collect()
}

#[test]
fn callers_of_one_shape_take_turns() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let held = world.demand(driver(), 0, &cpu(1.0), 4);
    let callers = [proc(0, 11), proc(0, 12)];
    for caller in callers {
        world.demand(caller, 0, &cpu(1.0), 100);
    }
    let order: Vec<_> = held.iter().map(|bind| world.give_back(bind)[0].caller).collect();
    assert_eq!(order, [callers[0], callers[1], callers[0], callers[1]]);
}

#[test]
fn shapes_take_turns_too() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let held = world.demand(driver(), 0, &cpu(2.0), 1);
    world.demand(driver(), 1, &cpu(1.0), 100);
    world.demand(driver(), 2, &cpu(0.5), 100);
    let shapes: Vec<_> = world.give_back(&held[0]).into_iter().map(|bind| bind.resources).collect();
    assert_eq!(shapes, [cpu(1.0), cpu(0.5), cpu(0.5)]);
}

#[test]
fn idle_leases_are_asked_back_once_when_others_wait() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let held = world.demand(driver(), 0, &cpu(1.0), 2);
    let other = proc(0, 9);
    world.demand(other, 0, &cpu(1.0), 1);
    assert_eq!(reclaimed(&world), [driver()]);
    world.demand(other, 0, &cpu(1.0), 2);
    world.tick(SECOND / 2);
    assert!(reclaimed(&world).is_empty());
    assert_eq!(world.give_back(&held[0])[0].caller, other);
}

#[test]
fn a_lone_caller_is_not_asked_for_what_it_needs_itself() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.demand(driver(), 0, &cpu(1.0), 100);
    assert!(reclaimed(&world).is_empty());
    // Its own other shape is reason enough.
    world.demand(driver(), 1, &cpu(2.0), 1);
    assert_eq!(reclaimed(&world), [driver()]);
}

#[test]
fn callers_with_equal_shares_keep_them() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let other = proc(0, 9);
    let held = world.demand(driver(), 0, &cpu(1.0), 100);
    world.demand(other, 0, &cpu(1.0), 100);
    assert_eq!(reclaimed(&world), [driver()]);
    assert_eq!(world.give_back(&held[0])[0].caller, other);
    world.tick(SECOND / 10);
    assert!(reclaimed(&world).is_empty());
}

#[test]
fn what_others_hold_of_other_resources_is_not_asked_back() {
    let mut world = World::new(&[("CPU", 2.0), ("GPU", 1.0)]);
    world.demand(driver(), 0, &cpu(1.0), 1);
    world.demand(proc(0, 9), 0, &set(&[("GPU", 1.0)]), 1);
    world.demand(proc(0, 10), 0, &set(&[("GPU", 1.0)]), 1);
    assert_eq!(reclaimed(&world), [proc(0, 9)]);
}

#[test]
fn large_demands_are_not_overtaken_for_ever() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let mut held = world.demand(driver(), 0, &cpu(1.0), 1000);
    let large = proc(0, 9);
    world.demand(large, 0, &cpu(2.0), 1);
    for round in 0..100 {
        world.tick(SECOND / 10);
        held.extend(world.binds());
        let old = held.remove(0);
        let new = world.give_back(&old);
        if new.iter().any(|bind| bind.caller == large) {
            assert!(round > 5);
            return;
        }
        held.extend(new);
        if held.is_empty() {
            break;
        }
    }
    panic!("the large demand starves");
}

#[test]
fn a_reservation_ends_so_that_what_it_waits_for_can_run() {
    let mut world = World::new(&[("CPU", 2.0), ("GPU", 1.0)]);
    // Holds the GPU and waits for a small task of another process.
    let holder = world.demand(driver(), 0, &set(&[("GPU", 1.0)]), 1);
    world.demand(proc(0, 9), 0, &set(&[("CPU", 2.0), ("GPU", 1.0)]), 1);
    world.tick(SECOND);
    assert!(world.demand(proc(0, 8), 0, &cpu(1.0), 1).is_empty());
    world.tick(SECOND);
    assert_eq!(world.binds().len(), 1);
    let _ = holder;
}

#[test]
fn children_of_a_blocked_worker_pass_a_reservation() {
    let mut world = World::new(&[("CPU", 2.0), ("GPU", 1.0)]);
    let holder = world.demand(driver(), 0, &set(&[("GPU", 1.0), ("CPU", 1.0)]), 1);
    let worker = proc(0, 2);
    world.bound(&holder[0], worker);
    world.demand(proc(0, 9), 0, &set(&[("CPU", 2.0), ("GPU", 1.0)]), 1);
    world.tick(SECOND);
    assert!(world.demand(worker, 0, &cpu(1.0), 1).is_empty());
    world.say(worker, ToController::Blocked);
    assert_eq!(world.binds().len(), 1);
}
