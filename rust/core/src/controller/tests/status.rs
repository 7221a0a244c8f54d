use raymesh_wire::status::{HostEnd, HostEnded, Status};

use super::*;

/// A program that has joined from outside: its host takes no work.
const OUTSIDE: u32 = 7;

fn status(world: &mut World) -> Status {
    world.say(driver(), ToController::AskStatus { request: RequestId(1) });
    let found = world.said.iter().find_map(|effect| match effect {
        Effect::Send { message: FromController::Status { status, .. }, .. } => Some(status.as_ref().clone()),
        _ => None,
    });
    found.unwrap()
}

fn with_program_outside() -> (World, ProcId) {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.join(OUTSIDE, &[]);
    let outside = proc(OUTSIDE, 1);
    world.host(HostId(OUTSIDE), FromHost::ProcStarted { proc: outside, pid: 77, driver: true });
    (world, outside)
}

fn demand(key: u32, resources: ResourceSet, backlog: u32) -> ToController {
    let (env, wish) = Default::default();
    ToController::Demand { key, job: JobId(OUTSIDE), resources, backlog, env, wish, near: None }
}

#[test]
fn what_a_program_outside_waits_for_is_listed_with_a_host_that_is() {
    let (mut world, outside) = with_program_outside();
    world.say(outside, demand(1, set(&[("CPU", 1.0), ("far", 1.0)]), 1000));
    let pending: Vec<_> = world.describe().into_iter().flat_map(|host| host.pending).collect();
    assert_eq!(pending, [(set(&[("CPU", 1.0), ("far", 1.0)]), 1000)]);
}

#[test]
fn a_thousand_equal_tasks_are_one_line_that_says_why() {
    let (mut world, outside) = with_program_outside();
    world.say(outside, demand(1, set(&[("far", 1.0)]), 600));
    world.say(driver(), demand(1, set(&[("far", 1.0)]), 400));
    world.say(driver(), demand(2, cpu(1.0), 5));
    let waiting = status(&mut world).waiting;
    let [never, busy] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!((never.tasks, never.actors, never.never), (1000, 0, true));
    assert!(never.why.contains("no host has that much"), "{never:?}");
    assert_eq!((busy.tasks, busy.never), (3, false));
    assert!(busy.why.contains("held by"), "{busy:?}");
}

#[test]
fn programs_are_listed_with_their_hosts_until_they_end() {
    let (mut world, _) = with_program_outside();
    let programs = |world: &mut World| -> Vec<(String, u32)> {
        status(world).drivers.into_iter().map(|it| (it.host_name, it.pid)).collect()
    };
    assert_eq!(programs(&mut world), [("host-0".to_owned(), 1), ("host-7".to_owned(), 77)]);
    world.event(host_lost(OUTSIDE));
    assert_eq!(programs(&mut world), [("host-0".to_owned(), 1)]);
}

#[test]
fn a_dead_host_is_remembered_with_how_it_ended() {
    let mut world = World::new(&[("CPU", 2.0)]);
    for host in 1..=4 {
        world.join(host, &[("CPU", 1.0)]);
    }
    let drain = |host: u32, within: Option<u64>| ToController::DrainHost {
        request: RequestId(2),
        host: HostId(host),
        reason: "spot".to_owned(),
        within,
    };
    let left = HostEnd { how: HostEnded::Expected, why: "shut down".to_owned() };
    world.event(Event::HostLost { host: HostId(1), end: left.clone() });
    world.event(host_lost(2));
    // Nothing keeps the third; the fourth goes when its time is up.
    world.say(driver(), drain(3, None));
    world.event(Event::HostLost { host: HostId(3), end: left });
    world.say(
        driver(),
        ToController::Demand {
            key: 9,
            job: JobId(1),
            resources: set(&[("CPU", 1.0)]),
            backlog: 3,
            env: Default::default(),
            wish: Wish::default(),
            near: None,
        },
    );
    world.say(driver(), drain(4, Some(SECOND)));
    world.tick(2 * SECOND);
    world.event(host_lost(4));
    let ends: Vec<_> = world.describe().into_iter().filter_map(|host| host.end).collect();
    let how: Vec<_> = ends.iter().map(|end| end.how).collect();
    assert_eq!(how, [HostEnded::Expected, HostEnded::Unexpected, HostEnded::Idle, HostEnded::Preempted]);
    assert_eq!(ends[3].why, "spot");
}
