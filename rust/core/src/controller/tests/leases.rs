use super::*;

#[test]
fn equal_tasks_get_as_many_workers_as_there_are_cpus_and_no_more() {
    let mut world = World::new(&[("CPU", 4.0)]);
    assert_eq!(world.demand(driver(), 0, &cpu(1.0), 1000).len(), 4);
    assert_eq!(world.free("CPU"), 0.0);
    assert!(world.demand(driver(), 0, &cpu(1.0), 1000).is_empty());
}

#[test]
fn a_demand_repeated_while_workers_are_bound_does_not_grant_twice() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let first = world.demand(driver(), 0, &cpu(1.0), 1);
    assert_eq!(first.len(), 1);
    assert_eq!(world.demand(driver(), 0, &cpu(1.0), 2).len(), 1);
}

#[test]
fn a_caller_gets_its_lease_once_the_host_has_a_worker_for_it() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let bind = world.demand(driver(), 4, &cpu(1.0), 1).remove(0);
    assert!(world.told(driver()).is_empty());
    world.bound(&bind, proc(0, 2));
    let (lease, worker) = (bind.lease, proc(0, 2));
    assert_eq!(world.told(driver()), [FromController::LeaseGranted { key: 4, lease, worker }]);
}

#[test]
fn a_returned_lease_serves_the_next() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let first = world.demand(driver(), 0, &cpu(1.0), 2);
    world.bound(&first[0], proc(0, 2));
    let second = world.give_back(&first[0]);
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].lease, first[0].lease);
    // Returning it again changes nothing.
    assert!(world.give_back(&first[0]).is_empty());
}

#[test]
fn withdrawn_demands_get_nothing() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let first = world.demand(driver(), 0, &cpu(1.0), 2);
    world.demand(driver(), 0, &cpu(1.0), 0);
    assert!(world.give_back(&first[0]).is_empty());
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn a_blocked_worker_lends_its_cpu_and_takes_it_back_as_debt() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let parent = world.demand(driver(), 0, &cpu(1.0), 1);
    let worker = proc(0, 2);
    world.bound(&parent[0], worker);
    assert!(world.demand(worker, 0, &cpu(1.0), 1).is_empty());
    world.say(worker, ToController::Blocked);
    let child = world.binds();
    assert_eq!(child.len(), 1);
    world.say(worker, ToController::Unblocked);
    assert!(world.binds().is_empty());
    world.demand(driver(), 1, &cpu(1.0), 1);
    // The child ends, but the parent runs: still nothing free.
    assert!(world.give_back(&child[0]).is_empty());
    assert_eq!(world.free("CPU"), 0.0);
    assert_eq!(world.give_back(&parent[0]).len(), 1);
}

#[test]
fn a_blocked_worker_that_loses_its_lease_does_not_give_back_its_cpu_twice() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let lease = world.demand(driver(), 0, &cpu(1.0), 1);
    let worker = proc(0, 2);
    world.bound(&lease[0], worker);
    world.say(worker, ToController::Blocked);
    world.say(worker, ToController::Blocked);
    world.die(worker, SIGKILL);
    world.say(worker, ToController::Unblocked);
    assert_eq!(world.free("CPU"), 2.0);
}

#[test]
fn a_worker_that_blocks_before_the_host_named_it_lends_its_cpu_too() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let lease = world.demand(driver(), 0, &cpu(1.0), 1);
    let worker = proc(0, 2);
    world.say(worker, ToController::Blocked);
    world.bound(&lease[0], worker);
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn only_cpus_are_lent_by_blocked_workers() {
    let mut world = World::new(&[("CPU", 1.0), ("GPU", 1.0)]);
    let lease = world.demand(driver(), 0, &set(&[("CPU", 1.0), ("GPU", 1.0)]), 1);
    world.bound(&lease[0], proc(0, 2));
    world.say(proc(0, 2), ToController::Blocked);
    assert_eq!(world.free("CPU"), 1.0);
    assert_eq!(world.free("GPU"), 0.0);
}

#[test]
fn whole_gpus_are_not_shared_and_fractions_share_one() {
    let mut world = World::new(&[("CPU", 8.0), ("GPU", 2.0)]);
    let half = set(&[("GPU", 0.5)]);
    let first = world.demand(driver(), 0, &half, 1);
    let whole = world.demand(driver(), 1, &set(&[("GPU", 1.0)]), 1);
    let second = world.demand(driver(), 2, &half, 1);
    assert_eq!(first[0].gpus, second[0].gpus);
    assert_ne!(first[0].gpus, whole[0].gpus);
}

#[test]
fn two_half_gpus_are_not_one() {
    let mut world = World::new(&[("GPU", 2.0)]);
    let most = set(&[("GPU", 0.6)]);
    let both = world.demand(driver(), 0, &most, 2);
    assert_eq!(both.len(), 2);
    assert_ne!(both[0].gpus, both[1].gpus);
    assert!(world.demand(driver(), 1, &set(&[("GPU", 0.5)]), 1).is_empty());
    assert_eq!(world.demand(driver(), 2, &set(&[("GPU", 0.4)]), 1).len(), 1);
    // The half fits once one of the first two is given back.
    assert_eq!(world.give_back(&both[0]).len(), 1);
    assert_eq!(world.free("GPU"), 0.5);
}

#[test]
fn tasks_without_resources_do_not_fork_a_thousand_workers_at_once() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let first = world.demand(driver(), 0, &ResourceSet::new(), 1000);
    assert!(first.len() < 10, "{}", first.len());
    world.bound(&first[0], proc(0, 2));
    assert_eq!(world.binds().len(), 1);
}

#[test]
fn what_no_host_can_ever_hold_is_told_at_once() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.demand(driver(), 7, &cpu(8.0), 1);
    let told = world.told(driver());
    let [FromController::Unplaceable { key: 7, never: true, reason }] = &told[..] else { panic!("{told:?}") };
    assert!(reason.contains("{CPU: 8}") && reason.contains("at most CPU: 4"), "{reason}");
    // Once.
    world.demand(driver(), 7, &cpu(8.0), 2);
    assert!(world.told(driver()).is_empty());
    // A host that can comes along.
    world.join(1, &[("CPU", 16.0)]);
    assert_eq!(world.binds().len(), 2);
}

#[test]
fn what_waits_for_a_second_is_told_who_holds_the_resources() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    world.demand(driver(), 3, &cpu(1.0), 1);
    assert!(world.told(driver()).is_empty());
    world.tick(SECOND);
    let told = world.told(driver());
    let [FromController::Unplaceable { key: 3, never: false, reason }] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(reason.contains(" on host-0; held by actor Counter (pid 2) {CPU: 1}"), "{reason}");
    // The same reason is not told twice.
    world.tick(10 * SECOND);
    assert!(world.told(driver()).is_empty());
}

#[test]
fn a_caller_with_running_workers_is_not_warned() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.demand(driver(), 0, &cpu(1.0), 50);
    world.tick(SECOND);
    assert!(world.told(driver()).is_empty());
}

#[test]
fn a_host_that_cannot_start_workers_is_left_alone_for_a_while() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let first = world.demand(driver(), 0, &cpu(1.0), 1);
    let reason = "no memory".to_owned();
    world.host(HOST, FromHost::LeaseFailed { lease: first[0].lease, reason });
    assert!(world.binds().is_empty());
    assert_eq!(world.free("CPU"), 1.0);
    let due = world.controller.next_deadline().unwrap();
    world.tick(due - world.now);
    assert_eq!(world.binds().len(), 1);
}

/// It had what others lacked to start: descriptors, memory. Waiting on would be for nothing.
#[test]
fn a_host_that_cannot_start_workers_is_tried_again_when_one_of_its_workers_ends() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    let first = world.demand(driver(), 0, &cpu(1.0), 1);
    let reason = "too many open files".to_owned();
    world.host(HOST, FromHost::LeaseFailed { lease: first[0].lease, reason });
    assert!(world.binds().is_empty());
    world.die(proc(0, 2), DeathCause::Exited { code: 0 });
    assert_eq!(world.binds().len(), 1);
}

#[test]
fn hosts_are_packed_to_half_and_then_spread() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.join(1, &[("CPU", 4.0)]);
    let mut at = |_: u32| {
        let binds = world.demand(driver(), 0, &cpu(1.0), 1);
        world.bound(&binds[0], proc(binds[0].host.0, 2 + binds[0].lease.0 as u32));
        binds[0].host.0
    };
    let places: Vec<_> = (0..6).map(&mut at).collect();
    assert_eq!(places, [0, 0, 1, 1, 0, 1]);
}

#[test]
fn the_callers_host_is_preferred_and_gpu_hosts_are_kept_for_gpu_tasks() {
    let mut world = World::new(&[("CPU", 4.0), ("GPU", 1.0)]);
    world.join(1, &[("CPU", 4.0)]);
    world.join(2, &[("CPU", 4.0)]);
    let caller = proc(2, 5);
    assert_eq!(world.demand(caller, 0, &cpu(1.0), 1)[0].host, HostId(2));
    assert_eq!(world.demand(driver(), 0, &cpu(1.0), 1)[0].host, HostId(1));
    assert_eq!(world.demand(driver(), 1, &set(&[("GPU", 1.0)]), 1)[0].host, HostId(0));
}
