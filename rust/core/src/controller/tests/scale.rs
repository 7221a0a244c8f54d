//! Not timed: each is seconds if the cost is as it should be, and does not end if it is quadratic.

use super::*;

#[test]
fn a_hundred_thousand_demands_on_a_thousand_hosts_are_served() {
    let mut world = World::new(&[("CPU", 16.0)]);
    for host in 1..1000 {
        world.join(host, &[("CPU", 16.0)]);
    }
    let mut live = Vec::new();
    for caller in 0..1000 {
        for key in 0..100 {
            let amount = cpu(1.0 + f64::from(key % 4));
            live.extend(world.demand(proc(caller, 9), key, &amount, 1));
        }
    }
    let mut served = live.len();
    while let Some(bind) = live.pop() {
        let next = world.give_back(&bind);
        served += next.len();
        live.extend(next);
    }
    assert_eq!(served, 100_000);
    assert!(world.describe().iter().all(|host| host.available == host.total && host.pending.is_empty()));
}

#[test]
fn ten_thousand_actors_come_and_go() {
    let mut world = World::new(&[("CPU", 100.0)]);
    for seq in 1..=10_000 {
        let spec = ActorSpec { resources: ResourceSet::new(), ..named(driver(), seq, &format!("n{seq}")) };
        world.alive(spec, proc(0, seq));
    }
    world.die(driver(), SIGKILL);
    assert_eq!(world.ordered().len(), 10_001);
    for seq in 1..=10_000 {
        world.die(proc(0, seq), DeathCause::Killed);
    }
    world.host(HOST, FromHost::ProcStarted { proc: ProcId::new(HOST, 1, 1), pid: 1, driver: true });
    world.settle_estates();
    assert!(world.controller.next_deadline().is_none());
}

/// Programs that compute what they ask for: `memory=` by the size of the input, say.
#[test]
fn ever_new_amounts_leave_nothing_behind() {
    let mut world = World::new(&[("CPU", 4.0), ("memory", 1e9)]);
    let long_lived = set(&[("CPU", 1.0), ("memory", 0.5)]);
    let spec = ActorSpec { resources: long_lived.clone(), placement: long_lived, ..actor(driver(), 1) };
    world.alive(spec, proc(0, 2));
    let mut most = (0, 0);
    for n in 1..=20_000 {
        let amount = set(&[("CPU", 1.0), ("memory", f64::from(n))]);
        let bind = world.demand(driver(), n, &amount, 1).remove(0);
        world.demand(driver(), n, &amount, 0);
        world.bound(&bind, proc(0, 3));
        world.give_back(&bind);
        let now = world.controller.remembered();
        most = (most.0.max(now.0), most.1.max(now.1));
    }
    assert!(most.0 <= 2_000 && most.1 <= 2_000, "{most:?}");
    world.controller.audit().unwrap();
    world.die(proc(0, 2), SIGKILL);
    assert_eq!((world.free("CPU"), world.free("memory")), (4.0, 1e9));
}

#[test]
fn large_errors_of_dead_actors_are_not_kept_for_ever() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let payload = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    for seq in 1..=40 {
        world.create(actor(driver(), seq));
        let error = Some(raymesh_wire::ErrorValue {
            kind: raymesh_wire::ErrorKind::ActorInit,
            payload: payload.clone(),
        });
        let (worker, id) = (proc(0, seq + 1), ActorId { creator: driver(), seq });
        world.say(worker, ToController::ActorReady { actor: id, error });
        world.die(worker, SIGKILL);
    }
    world.say(driver(), ToController::ListActors { request: RequestId(1) });
    let Some(FromController::Actors { actors, .. }) = world.told(driver()).pop() else { panic!("no answer") };
    assert_eq!(actors.len(), 16);
    assert_eq!(actors.iter().map(|info| info.actor.seq).max(), Some(40), "the latest are kept");
}

/// Each bundle pushed the others on, and a search that goes deeper with each ends in the stack's end.
#[test]
fn a_group_over_five_thousand_hosts_finds_its_places() {
    use raymesh_wire::GroupState;
    let mut world = World::new(&[("CPU", 1.0)]);
    (1..5_000).for_each(|host| world.join(host, &[("CPU", 1.0)]));
    let mut ask = |seq: u32, bundles: usize| {
        let spec = group(seq, GroupStrategy::StrictSpread, &vec![&[("CPU", 1.0)][..]; bundles]);
        let group = spec.group;
        world.say(driver(), ToController::CreateGroup { spec: Box::new(spec) });
        let created = |message: &FromController| {
            matches!(message, FromController::GroupState { state: GroupState::Created, .. })
        };
        let created = world.told(driver()).iter().any(created);
        world.say(driver(), ToController::RemoveGroup { group });
        created
    };
    assert!(ask(1, 5_000));
    assert!(!ask(2, 5_001), "there are not so many hosts");
}

/// The last bundle fits only where the first lies, that one then only where the second lies, and so on to the end.
#[test]
fn a_group_whose_every_bundle_has_to_move_on_finds_its_places() {
    use raymesh_wire::GroupState;
    use raymesh_wire::placement::{LabelIs, LabelRule};
    const HOSTS: u32 = 300;
    let mut world = World::new(&[]);
    for host in 1..=HOSTS {
        world.join_as(host, &[("CPU", 1.0)], &[("n", &host.to_string())]);
    }
    let bundle = |n: u32| {
        let values = [n, n + 1].iter().map(u32::to_string).collect();
        let only = if n == HOSTS { vec!["1".to_owned()] } else { values };
        let rule = LabelRule { key: "n".to_owned(), is: LabelIs::In(only) };
        BundleSpec { resources: cpu(1.0), selector: Selector(vec![rule]) }
    };
    let bundles = (1..=HOSTS).map(bundle).collect();
    let spec = GroupSpec { bundles, ..group(1, GroupStrategy::StrictSpread, &[]) };
    let group = spec.group;
    world.say(driver(), ToController::CreateGroup { spec: Box::new(spec) });
    let which = raymesh_wire::control::WhichGroups::One(group);
    world.say(driver(), ToController::FindGroups { request: RequestId(1), which });
    let Some(FromController::Groups { groups, .. }) = world.told(driver()).pop() else { panic!("no answer") };
    assert_eq!(groups[0].state, GroupState::Created);
    let hosts: Vec<u32> = groups[0].hosts.iter().map(|host| host.unwrap().0).collect();
    assert_eq!(hosts, (2..=HOSTS).chain([1]).collect::<Vec<_>>());
    world.controller.audit().unwrap();
}
