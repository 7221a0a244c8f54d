use super::*;

#[test]
fn a_worker_that_dies_frees_its_lease_and_the_caller_is_told() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let lease = world.demand(driver(), 0, &cpu(1.0), 1);
    world.bound(&lease[0], proc(0, 2));
    world.die(proc(0, 2), SIGKILL);
    assert_eq!(
        world.told(driver()),
        [FromController::Died { proc: proc(0, 2), death: death_of(proc(0, 2), SIGKILL) }]
    );
    assert_eq!(world.free("CPU"), 1.0);
    // The caller's own return of it comes too late and changes nothing.
    world.give_back(&lease[0]);
    assert_eq!(world.free("CPU"), 1.0);
}

#[test]
fn leases_of_a_dead_caller_end_with_their_workers() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let caller = proc(0, 9);
    let leases = world.demand(caller, 0, &cpu(1.0), 2);
    world.bound(&leases[0], proc(0, 2));
    world.die(caller, SIGKILL);
    let kills = world.ordered().iter().filter(|m| matches!(m, ToHost::EndLease { kill: true, .. })).count();
    assert_eq!(kills, 2);
    // Held until they are dead.
    assert_eq!(world.free("CPU"), 0.0);
    world.die(proc(0, 2), SIGKILL);
    world.host(HOST, FromHost::LeaseFailed { lease: leases[1].lease, reason: "ended".to_owned() });
    assert_eq!(world.free("CPU"), 2.0);
    world.settle_estates();
    assert!(world.controller.next_deadline().is_none());
}

#[test]
fn demands_of_a_dead_caller_are_forgotten() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let held = world.demand(driver(), 0, &cpu(1.0), 1);
    world.demand(proc(0, 9), 0, &cpu(1.0), 5);
    world.die(proc(0, 9), SIGKILL);
    assert!(world.give_back(&held[0]).is_empty());
    assert!(world.describe()[0].pending.is_empty());
}

#[test]
fn watchers_are_told_of_deaths_also_of_those_long_past() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let old = ProcId::new(HOST, 4, 7);
    world.host(HOST, FromHost::ProcStarted { proc: old, pid: 70, driver: false });
    world.say(driver(), ToController::Watch { proc: old });
    assert!(world.told(driver()).is_empty());
    world.die(old, SIGKILL);
    let died = FromController::Died { proc: old, death: death_of(old, SIGKILL) };
    assert_eq!(world.told(driver()), std::slice::from_ref(&died));
    world.say(driver(), ToController::Watch { proc: old });
    assert_eq!(world.told(driver()), [died]);
    // An earlier process of the same slot, which was never heard of.
    world.say(driver(), ToController::Watch { proc: ProcId::new(HOST, 2, 7) });
    assert!(matches!(world.told(driver())[0], FromController::Died { .. }));
    // A later one lives, or will.
    world.say(driver(), ToController::Watch { proc: ProcId::new(HOST, 5, 7) });
    assert!(world.told(driver()).is_empty());
    // A host that is not there.
    world.say(driver(), ToController::Watch { proc: proc(8, 2) });
    let death = DeathCause::HostLost.into();
    assert_eq!(world.told(driver())[0], FromController::Died { proc: proc(8, 2), death });
}

/// Otherwise it would keep for ever what it holds in the dead one's name.
#[test]
fn who_hears_late_of_a_death_hears_that_it_is_settled() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.host(HOST, FromHost::ProcStarted { proc: proc(0, 7), pid: 70, driver: false });
    world.die(proc(0, 7), SIGKILL);
    let settled = FromController::Settled { dead: vec![proc(0, 7)] };
    world.say(driver(), ToController::Watch { proc: proc(0, 7) });
    assert!(!world.told(driver()).contains(&settled));
    world.settle_estates();
    world.say(driver(), ToController::Watch { proc: proc(0, 7) });
    assert!(world.told(driver()).contains(&settled));
}

/// Idle workers come and go: nobody is woken for that.
#[test]
fn a_worker_that_retired_with_nothing_is_not_mourned_at_once() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let retired = DeathCause::Requested { reason: raymesh_wire::control::ExitReason::Retired };
    for n in [7, 8] {
        world.host(HOST, FromHost::ProcStarted { proc: proc(0, n), pid: n, driver: false });
    }
    world.die(proc(0, 7), retired);
    assert_eq!(world.controller.next_deadline(), None);
    world.die(proc(0, 8), SIGKILL);
    world.tick(SECOND);
    let Some(FromController::Mourn { dead, .. }) = world.told(driver()).pop() else { panic!("not mourned") };
    assert_eq!(dead, [proc(0, 7), proc(0, 8)]);
}

/// A process of an ended job may live on, and want a worker on a host that was not there when the job ended.
#[test]
fn a_host_that_joins_after_the_end_of_a_job_hears_of_it_with_the_first_work() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let worker = proc(0, 2);
    let held = world.demand(driver(), 0, &cpu(1.0), 1);
    world.bound(&held[0], worker);
    world.alive(ActorSpec { detached: true, ..actor(driver(), 2) }, proc(0, 4));
    world.die(driver(), DeathCause::Exited { code: 0 });
    world.join(1, &[("CPU", 1.0)]);
    let ended = ToHost::JobEnded { job: JobId(1) };
    assert!(!world.ordered().contains(&ended));
    world.demand(proc(0, 4), 0, &cpu(1.0), 1);
    let ordered = world.ordered();
    assert_eq!(ordered.first(), Some(&ended));
    assert!(matches!(ordered.get(1), Some(ToHost::BindLease { job: JobId(1), .. })), "{ordered:?}");
}

#[test]
fn actors_die_with_their_creator_and_so_do_theirs() {
    let mut world = World::new(&[("CPU", 3.0)]);
    let (first, second) = (proc(0, 2), proc(0, 3));
    world.alive(actor(driver(), 1), first);
    world.alive(actor(first, 1), second);
    world.alive(ActorSpec { detached: true, ..actor(driver(), 2) }, proc(0, 4));
    world.die(driver(), DeathCause::Exited { code: 0 });
    let ordered = world.ordered();
    assert!(ordered.contains(&ToHost::KillWorker { proc: first }));
    assert!(!ordered.contains(&ToHost::KillWorker { proc: proc(0, 4) }));
    assert!(ordered.contains(&ToHost::JobEnded { job: JobId(1) }));
    world.die(first, DeathCause::Killed);
    assert_eq!(world.ordered(), [ToHost::KillWorker { proc: second }]);
    world.die(second, DeathCause::Killed);
    world.host(HOST, FromHost::ProcStarted { proc: proc(0, 9), pid: 9, driver: true });
    world.demand(proc(0, 9), 0, &cpu(1.0), 9);
    assert_eq!(world.binds().len(), 2);
}

#[test]
fn a_pending_actor_dies_with_its_creator() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.alive(actor(driver(), 1), proc(0, 2));
    let creator = proc(0, 9);
    world.create(actor(creator, 1));
    let id = ActorId { creator, seq: 1 };
    world.say(driver(), ToController::WatchActor { actor: id });
    world.die(creator, SIGKILL);
    assert!(text(&world.states(driver(), id)[0]).contains("created it was killed by SIGKILL"));
}

#[test]
fn a_lost_host_takes_its_processes_and_what_they_had_elsewhere() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.join(1, &[("CPU", 2.0), ("x", 1.0)]);
    let far = proc(1, 5);
    let spec = ActorSpec { max_restarts: 1, ..actor(driver(), 1) };
    let there = set(&[("CPU", 1.0), ("x", 1.0)]);
    world.alive(ActorSpec { resources: there.clone(), placement: there, ..spec }, proc(1, 2));
    world.host(HostId(1), FromHost::ProcStarted { proc: far, pid: 5, driver: false });
    world.say(driver(), ToController::Watch { proc: far });
    let lease = world.demand(far, 0, &cpu(1.0), 2);
    world.bound(&lease[0], proc(lease[0].host.0, 30));
    world.event(Event::HostLost {
        host: HostId(1),
        end: raymesh_wire::status::HostEnd::unexpected("its process has ended"),
    });
    let told = world.told(driver());
    let host = format!("host-1 (node IP: not known, node ID: {NODE_1}), its process has ended");
    let death = Death { host, ..death_of(far, DeathCause::HostLost) };
    assert!(told.contains(&FromController::Died { proc: far, death }));
    // Its actor wants to restart, but the only host for it is gone.
    let never = |m: &FromController| matches!(m, FromController::ActorUnplaceable { never: true, .. });
    assert!(told.iter().any(never), "{told:?}");
    let hosts = world.describe();
    assert!(hosts[0].alive && !hosts[1].alive && hosts.len() == 2);
}

const NODE_1: &str = "ac30a9e2dbb2f893680c3cff611ba518000000000000000000000001";

#[test]
fn who_dies_with_a_host_says_which_and_why() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let there = set(&[("x", 1.0)]);
    for (host, why, expected) in [
        (1, "nothing was heard of it for 2.0 s", "nothing was heard of it for 2.0 s"),
        (2, "shut down", "it was drained: upgrade"),
    ] {
        world.join(host, &[("x", 1.0), ("node:10.0.0.9", 1.0), ("node:__internal__", 1.0)]);
        let spec = ActorSpec { resources: there.clone(), placement: there.clone(), ..actor(driver(), host) };
        let id = spec.actor;
        world.alive(spec, proc(host, 2));
        if expected.starts_with("it was drained") {
            let reason = "upgrade".to_owned();
            let within = Some(0);
            let request = RequestId(9);
            world.say(driver(), ToController::DrainHost { request, host: HostId(host), reason, within });
            world.event(Event::Tick);
        }
        world.event(Event::HostLost {
            host: HostId(host),
            end: raymesh_wire::status::HostEnd::unexpected(why),
        });
        let said = text(world.states(driver(), id).last().expect("a state"));
        let node = &NODE_1[..NODE_1.len() - 1];
        let which = format!("host-{host} (node IP: 10.0.0.9, node ID: {node}{host}), {expected}");
        assert!(said.contains(&format!("was on a host that was lost: {which}")), "{said}");
        // Whoever asks later hears the same.
        world.say(driver(), ToController::Watch { proc: proc(host, 2) });
        let told = world.told(driver());
        let named =
            |m: &FromController| matches!(m, FromController::Died { death, .. } if death.host == which);
        assert!(told.iter().any(named), "{told:?}");
    }
}

#[test]
fn work_that_had_no_worker_yet_moves_when_its_host_is_lost() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.join(1, &[("CPU", 1.0)]);
    let first = world.demand(driver(), 0, &cpu(1.0), 1);
    let caller = proc(1, 3);
    world.host(HostId(1), FromHost::ProcStarted { proc: caller, pid: 3, driver: false });
    let second = world.demand(driver(), 0, &cpu(1.0), 2);
    assert_eq!((first[0].host, second[0].host), (HostId(0), HostId(1)));
    world.event(Event::HostLost {
        host: HostId(1),
        end: raymesh_wire::status::HostEnd::unexpected("its process has ended"),
    });
    assert!(world.binds().is_empty());
    assert_eq!(world.give_back(&first[0]).len(), 1);
}

#[test]
fn getters_of_a_function_wait_until_it_is_put() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let id = FunctionId([7; 16]);
    let getter = proc(0, 2);
    world.say(getter, ToController::GetFunction { request: RequestId(3), id });
    world.say(proc(0, 3), ToController::GetFunction { request: RequestId(4), id });
    assert!(world.said.is_empty());
    world.die(proc(0, 3), SIGKILL);
    let body = bytes::Bytes::from_static(b"code");
    world.say(driver(), ToController::PutFunction { id, body: body.clone() });
    assert_eq!(world.said.len(), 1);
    assert_eq!(world.told(getter), [FromController::Function { request: RequestId(3), id, body }]);
}

#[test]
fn an_actor_whose_host_is_lost_before_the_hosts_word_of_it_arrived_restarts() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.join(1, &[("x", 1.0), ("CPU", 1.0)]);
    let there = set(&[("x", 1.0)]);
    world.create(ActorSpec {
        max_restarts: 1,
        resources: there.clone(),
        placement: there,
        ..actor(driver(), 1)
    });
    let id = ActorId { creator: driver(), seq: 1 };
    world.say(proc(1, 2), ToController::ActorReady { actor: id, error: None });
    world.event(Event::HostLost {
        host: HostId(1),
        end: raymesh_wire::status::HostEnd::unexpected("its process has ended"),
    });
    assert_eq!(world.states(driver(), id), [ActorState::Restarting]);
}

#[test]
fn a_lost_host_does_not_return_under_its_id() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.event(Event::HostLost {
        host: HostId(1),
        end: raymesh_wire::status::HostEnd::unexpected("its process has ended"),
    });
    world.join(1, &[("CPU", 1.0)]);
    assert_eq!(world.describe().len(), 1);
}
