//! Tasks that would rather be where their arguments lie.

use super::*;

impl World {
    /// One CPU each for `backlog` tasks of the driver whose arguments lie on `host`.
    fn near(&mut self, key: u32, backlog: u32, host: u32) -> Vec<Bind> {
        let (resources, near) = (cpu(1.0), Some(HostId(host)));
        let (job, env, wish) = (JobId(1), raymesh_wire::Environment::default(), Wish::default());
        self.say(driver(), ToController::Demand { key, job, resources, backlog, env, wish, near });
        self.controller.audit().unwrap();
        self.binds()
    }
}

fn three_hosts() -> World {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.join(1, &[("CPU", 4.0)]);
    world.join(2, &[("CPU", 4.0)]);
    world
}

fn hosts(binds: &[Bind]) -> Vec<u32> {
    binds.iter().map(|bind| bind.host.0).collect()
}

#[test]
fn tasks_go_to_their_arguments_whatever_the_load_there_and_elsewhere_when_it_is_full() {
    let mut world = three_hosts();
    assert_eq!(hosts(&world.near(1, 4, 2)), [2, 2, 2, 2]);
    assert_eq!(hosts(&world.near(2, 2, 1)), [1, 1]);
    assert_eq!(hosts(&world.near(3, 2, 2)), [0, 0], "it waits for nothing");
}

#[test]
fn what_comes_free_goes_to_whom_it_is_near() {
    let mut world = three_hosts();
    let held = world.demand(driver(), 9, &cpu(1.0), 12);
    let on = |host| held.iter().filter(move |bind| bind.host == HostId(host));
    world.near(1, 3, 1);
    world.near(2, 3, 2);
    // Each of the two is the first in turn half of the time.
    for (one, two) in on(1).zip(on(2)).take(3) {
        assert_eq!(hosts(&world.give_back(two)), [2]);
        assert_eq!(hosts(&world.give_back(one)), [1]);
        assert!(world.controller.audit().is_ok());
    }
    let near: Vec<_> = world.controller.holds.iter().map(|(_, hold)| (hold.whom, hold.host)).collect();
    for (whom, host) in near {
        if let crate::controller::holds::For::Task { key: key @ (1 | 2), .. } = whom {
            assert_eq!(host, HostId(key), "those of key 1 are near host 1");
        }
    }
}

/// Those that always want more there must not keep others out.
#[test]
fn who_waits_is_passed_over_a_few_times_only() {
    let mut world = three_hosts();
    world.demand(driver(), 9, &cpu(1.0), 8);
    let mut there = world.near(1, 100, 2);
    assert_eq!(there.len(), 4);
    let patient = proc(0, 9);
    world.demand(patient, 0, &cpu(1.0), 1);
    let mut passed = 0;
    loop {
        let next = world.give_back(&there.remove(0)).remove(0);
        if next.caller == patient {
            break;
        }
        assert_eq!(next.host, HostId(2));
        there.push(next);
        passed += 1;
        assert!(passed <= 8, "it is passed over for ever");
    }
    assert!(passed > 0, "it is not passed over at all");
}

#[test]
fn tasks_keep_away_from_gpus_that_they_do_not_need() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.join(1, &[("CPU", 4.0), ("GPU", 4.0)]);
    assert_eq!(hosts(&world.near(1, 1, 1)), [0]);
}
