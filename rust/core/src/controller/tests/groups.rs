//! Placement groups.

use raymesh_wire::control::WhichGroups;
use raymesh_wire::placement::{GroupRecord, Strategy};
use raymesh_wire::{ErrorKind, GroupState, InGroup};

use super::*;

const fn id(seq: u32) -> GroupId {
    GroupId { creator: driver(), seq }
}

fn spec(seq: u32, strategy: GroupStrategy, bundles: &[&[(&str, f64)]]) -> GroupSpec {
    GroupSpec { namespace: "ns".to_owned(), ..group(seq, strategy, bundles) }
}

fn in_group(seq: u32, index: Option<u32>) -> Wish {
    let place = InGroup { group: id(seq), index, capture: false };
    Wish { strategy: Strategy::Group(place), selectors: Vec::new() }
}

impl World {
    fn group(&mut self, spec: GroupSpec) {
        self.say(spec.group.creator, ToController::CreateGroup { spec: Box::new(spec) });
        self.audit();
    }

    fn audit(&self) {
        self.controller.audit().unwrap();
    }

    fn record(&mut self, seq: u32) -> GroupRecord {
        let which = WhichGroups::One(id(seq));
        self.say(driver(), ToController::FindGroups { request: RequestId(1), which });
        match self.told(driver()).pop() {
            Some(FromController::Groups { mut groups, .. }) => groups.remove(0),
            other => panic!("no record: {other:?}"),
        }
    }

    fn state(&mut self, seq: u32) -> GroupState {
        self.record(seq).state
    }

    /// The host of each bundle.
    fn places(&mut self, seq: u32) -> Vec<Option<u32>> {
        self.record(seq).hosts.into_iter().map(|host| host.map(|host| host.0)).collect()
    }

    fn remove(&mut self, seq: u32) {
        self.say(driver(), ToController::RemoveGroup { group: id(seq) });
        self.audit();
    }

    fn states_of_group(&self, to: ProcId, seq: u32) -> Vec<GroupState> {
        let states = self.told(to).into_iter().filter_map(|message| match message {
            FromController::GroupState { group, state, .. } if group == id(seq) => Some(state),
            _ => None,
        });
        states.collect()
    }

    fn unschedulable(&self, to: ProcId) -> Vec<(u32, ErrorKind)> {
        let errors = self.told(to).into_iter().filter_map(|message| match message {
            FromController::Unschedulable { key, error } => Some((key, error.kind)),
            _ => None,
        });
        errors.collect()
    }
}

const ONE: &[(&str, f64)] = &[("CPU", 1.0)];

#[test]
fn a_group_that_does_not_fit_as_a_whole_takes_nothing() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.group(spec(1, GroupStrategy::Pack, &[ONE, ONE, ONE]));
    assert_eq!((world.state(1), world.free("CPU")), (GroupState::Pending, 2.0));
    world.join(1, ONE);
    world.audit();
    assert_eq!(world.states_of_group(driver(), 1), [GroupState::Created]);
    assert_eq!((world.state(1), world.free("CPU")), (GroupState::Created, 0.0));
    world.remove(1);
    assert_eq!((world.state(1), world.free("CPU")), (GroupState::Removed, 2.0));
}

#[test]
fn strategies_decide_how_bundles_lie() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.join(1, &[("CPU", 2.0)]);
    let two: &[(&str, f64)] = &[("CPU", 2.0)];
    for (strategy, bundles, hosts) in [
        (GroupStrategy::Pack, vec![ONE, ONE], 1),
        (GroupStrategy::Spread, vec![ONE, ONE], 2),
        (GroupStrategy::StrictPack, vec![ONE, ONE, ONE], 1),
        (GroupStrategy::StrictSpread, vec![two, two], 2),
        // More than there are hosts: as evenly as possible.
        (GroupStrategy::Spread, vec![ONE, ONE, ONE], 2),
        (GroupStrategy::Pack, vec![two, two, two], 2),
    ] {
        world.group(spec(1, strategy, &bundles));
        let places = world.places(1);
        let distinct: std::collections::BTreeSet<_> = places.iter().flatten().collect();
        assert_eq!(distinct.len(), hosts, "{strategy:?} {bundles:?}: {places:?}");
        assert!(places.iter().all(Option::is_some));
        world.remove(1);
        // A number is used once.
        let used = std::mem::replace(&mut world, World::new(&[("CPU", 4.0)]));
        assert_eq!(used.controller.groups_remain(), (0, 0));
        world.join(1, &[("CPU", 2.0)]);
    }
    world.group(spec(2, GroupStrategy::StrictPack, &[two, two, ONE]));
    world.group(spec(3, GroupStrategy::StrictSpread, &[ONE, ONE, ONE]));
    assert_eq!((world.state(2), world.state(3)), (GroupState::Pending, GroupState::Pending));
}

#[test]
fn a_strict_spread_that_is_possible_is_found() {
    let mut world = World::new(&[("CPU", 1.0), ("x", 1.0)]);
    world.join(1, ONE);
    // Taken first come, the first bundle would have the only host with an x.
    world.group(spec(1, GroupStrategy::StrictSpread, &[ONE, &[("CPU", 1.0), ("x", 1.0)]]));
    assert_eq!(world.places(1), [Some(1), Some(0)]);
    let mut world = World::new(&[("CPU", 2.0), ("x", 1.0)]);
    world.join(1, &[("CPU", 2.0)]);
    world.group(spec(1, GroupStrategy::StrictSpread, &[&[("CPU", 2.0)], &[("x", 1.0)]]));
    assert_eq!(world.places(1), [Some(1), Some(0)]);
}

#[test]
fn tasks_run_in_their_bundles_and_nowhere_else() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.group(spec(1, GroupStrategy::Pack, &[ONE]));
    let inside = world.wish(driver(), 1, &cpu(1.0), 2, in_group(1, Some(0)));
    world.audit();
    assert_eq!(inside.len(), 1, "one bundle holds one task");
    let outside = world.demand(driver(), 2, &cpu(1.0), 2);
    assert_eq!(outside.len(), 1, "the bundle is not for others");
    let host = &world.describe()[0];
    assert_eq!(host.bundles.len(), 1);
    assert_eq!(
        (host.bundles[0].total.clone(), host.bundles[0].available.clone()),
        (cpu(1.0), ResourceSet::new())
    );
    let next = world.give_back(&inside[0]);
    assert_eq!(next.iter().map(|bind| bind.lease != inside[0].lease).collect::<Vec<_>>(), [true]);
    world.audit();
}

#[test]
fn a_task_that_waits_lends_its_bundles_cpu() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.group(spec(1, GroupStrategy::Pack, &[ONE]));
    let parent = world.wish(driver(), 1, &cpu(1.0), 1, in_group(1, None)).remove(0);
    let worker = proc(0, 5);
    world.bound(&parent, worker);
    world.say(worker, ToController::Blocked);
    let child = world.wish(worker, 1, &cpu(1.0), 1, in_group(1, None));
    assert_eq!(child.len(), 1);
    world.say(worker, ToController::Unblocked);
    world.audit();
    world.give_back(&child[0]);
    world.audit();
}

#[test]
fn gpus_of_a_bundle_are_those_that_it_has() {
    let mut world = World::new(&[("CPU", 4.0), ("GPU", 3.0)]);
    let gpu = set(&[("GPU", 1.0)]);
    let first = world.demand(driver(), 1, &gpu, 1);
    assert_eq!(first[0].gpus, [0]);
    world.group(spec(1, GroupStrategy::Pack, &[&[("GPU", 2.0)]]));
    let inside = world.wish(driver(), 2, &gpu, 3, in_group(1, None));
    world.audit();
    assert_eq!(inside.iter().map(|bind| bind.gpus.clone()).collect::<Vec<_>>(), [vec![1], vec![2]]);
}

#[test]
fn removing_a_group_ends_what_runs_and_waits_in_it() {
    let mut world = World::new(&[("CPU", 3.0)]);
    world.group(spec(1, GroupStrategy::Pack, &[ONE, ONE]));
    let running = world.wish(driver(), 1, &cpu(1.0), 2, in_group(1, Some(0))).remove(0);
    world.bound(&running, proc(0, 5));
    let lives = ActorSpec { max_restarts: -1, wish: in_group(1, Some(1)), ..actor(driver(), 1) };
    world.alive(lives, proc(0, 6));
    world.create(ActorSpec { wish: in_group(1, Some(1)), ..actor(driver(), 2) });
    world.remove(1);
    assert_eq!(world.unschedulable(driver()), [(1, ErrorKind::GroupRemoved), (1, ErrorKind::GroupRemoved)]);
    let kind = |states: Vec<ActorState>| match &states[..] {
        [ActorState::Dead { error }] => Some(error.kind),
        _ => None,
    };
    assert_eq!(
        kind(world.states(driver(), ActorId { creator: driver(), seq: 2 })),
        Some(ErrorKind::ActorGroupRemoved)
    );
    assert!(
        world.ordered().iter().any(|it| matches!(it, ToHost::KillWorker { proc: it } if *it == proc(0, 6)))
    );
    assert!(
        world
            .ordered()
            .iter()
            .any(|it| matches!(it, ToHost::EndLease { lease, kill: true } if *lease == running.lease))
    );
    // What it held is free once those that used it are dead.
    assert_eq!(world.free("CPU"), 1.0);
    world.die(proc(0, 5), DeathCause::Killed);
    world.audit();
    world.die(proc(0, 6), DeathCause::Killed);
    world.audit();
    assert_eq!(world.free("CPU"), 3.0);
    assert_eq!(world.controller.groups_remain(), (0, 0));
    // And whoever comes late is told at once.
    world.wish(driver(), 7, &cpu(1.0), 1, in_group(1, None));
    assert_eq!(world.unschedulable(driver()), [(7, ErrorKind::GroupRemoved)]);
}

#[test]
fn bundles_lost_with_a_host_get_other_places() {
    let mut world = World::new(ONE);
    world.join(1, ONE);
    world.group(spec(1, GroupStrategy::StrictSpread, &[ONE, ONE]));
    let lost = world.places(1).iter().position(|host| *host == Some(1)).unwrap() as u32;
    let restarts = ActorSpec { max_restarts: 1, wish: in_group(1, Some(lost)), ..actor(driver(), 1) };
    world.alive(restarts, proc(1, 6));
    world.event(host_ended(1));
    world.audit();
    assert_eq!(world.states_of_group(driver(), 1), [GroupState::Rescheduling]);
    assert_eq!(world.start(), None, "its bundle has no place");
    world.join(2, ONE);
    world.audit();
    assert_eq!(world.states_of_group(driver(), 1), [GroupState::Created]);
    assert!(world.start().is_some(), "its actor starts there again");
    assert_eq!(world.places(1)[lost as usize], Some(2));
}

#[test]
fn groups_end_with_their_job_unless_detached() {
    let mut world = World::new(&[("CPU", 3.0)]);
    world.group(spec(1, GroupStrategy::Pack, &[ONE]));
    world.group(GroupSpec { detached: true, ..spec(2, GroupStrategy::Pack, &[ONE]) });
    world.die(driver(), SIGKILL);
    world.audit();
    let other = ProcId::new(HOST, 5, 1);
    world.host(HOST, FromHost::ProcStarted { proc: other, pid: 2, driver: true });
    world.say(other, ToController::FindGroups { request: RequestId(1), which: WhichGroups::All });
    let Some(FromController::Groups { groups, .. }) = world.told(other).pop() else { panic!("no answer") };
    let states: Vec<_> = groups.iter().map(|it| (it.spec.group.seq, it.state)).collect();
    assert_eq!(states, [(2, GroupState::Created), (1, GroupState::Removed)]);
}

#[test]
fn a_group_of_a_detached_actor_ends_with_that() {
    let mut world = World::new(&[("CPU", 3.0)]);
    let spec_of = |creator, seq| GroupSpec {
        group: GroupId { creator, seq },
        ..spec(seq, GroupStrategy::Pack, &[ONE])
    };
    let keeper = proc(0, 6);
    world.alive(ActorSpec { detached: true, ..actor(driver(), 1) }, keeper);
    world.group(spec_of(keeper, 1));
    world.die(driver(), SIGKILL);
    world.audit();
    assert_eq!(world.controller.groups_remain(), (1, 1));
    world.die(keeper, SIGKILL);
    world.audit();
    assert_eq!(world.controller.groups_remain(), (0, 0));
}

#[test]
fn names_are_taken_once_and_free_again() {
    let mut world = World::new(&[("CPU", 3.0)]);
    let named = |seq| GroupSpec { name: "n".to_owned(), ..spec(seq, GroupStrategy::Pack, &[ONE]) };
    world.group(named(1));
    world.group(named(2));
    let refused = |world: &World| {
        world.told(driver()).iter().any(|it| matches!(it, FromController::GroupRefused { .. }))
    };
    assert!(refused(&world));
    world.remove(1);
    world.group(named(3));
    assert!(!refused(&world));
    let which = WhichGroups::Named { name: "n".to_owned(), namespace: "ns".to_owned() };
    world.say(driver(), ToController::FindGroups { request: RequestId(1), which });
    let Some(FromController::Groups { groups, .. }) = world.told(driver()).pop() else { panic!("no answer") };
    assert_eq!(groups[0].spec.group, id(3));
}

#[test]
fn what_is_said_of_a_group_before_it_is_known_is_not_lost() {
    let mut world = World::new(&[("CPU", 3.0)]);
    let other = proc(0, 9);
    world.say(other, ToController::WatchGroup { group: id(1) });
    world.wish(other, 1, &cpu(1.0), 1, in_group(1, None));
    assert_eq!(world.unschedulable(other), []);
    world.group(spec(1, GroupStrategy::Pack, &[ONE]));
    assert_eq!(world.states_of_group(other, 1), [GroupState::Created]);
    assert_eq!(world.binds().len(), 1, "and its task has a place");
    // Of two groups, one never comes: its creator is dead.
    world.say(other, ToController::WatchGroup { group: id(2) });
    world.wish(other, 2, &cpu(1.0), 1, in_group(2, None));
    world.die(driver(), SIGKILL);
    assert!(world.states_of_group(other, 2).contains(&GroupState::Removed));
    assert!(world.unschedulable(other).contains(&(2, ErrorKind::GroupRemoved)));
    world.audit();
}

#[test]
fn a_removal_that_overtakes_the_creation_counts() {
    let mut world = World::new(&[("CPU", 3.0)]);
    world.say(proc(0, 9), ToController::RemoveGroup { group: id(1) });
    world.group(spec(1, GroupStrategy::Pack, &[ONE]));
    assert_eq!(world.states_of_group(driver(), 1), [GroupState::Removed]);
    assert_eq!(world.controller.groups_remain(), (0, 0));
}

#[test]
fn a_demand_that_fits_no_bundle_fails() {
    let mut world = World::new(&[("CPU", 3.0)]);
    world.group(spec(1, GroupStrategy::Pack, &[ONE]));
    world.wish(driver(), 1, &cpu(2.0), 1, in_group(1, None));
    assert_eq!(world.unschedulable(driver()), [(1, ErrorKind::Unschedulable)]);
    world.audit();
}

#[test]
fn callers_are_asked_for_leases_that_a_group_needs() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let held = world.demand(driver(), 0, &cpu(1.0), 2);
    world.group(spec(1, GroupStrategy::Pack, &[ONE, ONE]));
    assert!(world.told(driver()).contains(&FromController::ReclaimLeases));
    world.give_back(&held[0]);
    // The rest of the job does not take what the group needs before it gets it.
    world.demand(driver(), 0, &cpu(1.0), 0);
    world.give_back(&held[1]);
    assert_eq!(world.state(1), GroupState::Created);
}

#[test]
fn a_group_that_waits_says_why() {
    let mut world = World::new(ONE);
    world.group(spec(1, GroupStrategy::StrictSpread, &[ONE, ONE]));
    world.tick(SECOND);
    let why: Vec<_> = world
        .told(driver())
        .into_iter()
        .filter_map(|message| match message {
            FromController::GroupState { why, .. } if !why.is_empty() => Some(why),
            _ => None,
        })
        .collect();
    assert_eq!(why.len(), 1);
    assert!(why[0].contains("could not hold it even if they were empty"), "{why:?}");
}

#[test]
fn bundles_on_one_value_of_a_label() {
    let mut world = World::new(&[("CPU", 0.0)]);
    world.join_as(1, ONE, &[("domain", "a")]);
    world.join_as(2, ONE, &[("domain", "b")]);
    world.join_as(3, ONE, &[("domain", "b")]);
    world.group(GroupSpec { same: "domain".to_owned(), ..spec(1, GroupStrategy::Spread, &[ONE, ONE]) });
    let mut places = world.places(1);
    places.sort_unstable();
    assert_eq!(places, [Some(2), Some(3)]);
}

/// Not timed: seconds if a kind is tried once an event, and without end if each group is.
#[test]
fn ten_thousand_equal_groups_that_wait_cost_one_attempt_an_event() {
    let mut world = World::new(ONE);
    for host in 1..100 {
        world.join(host, ONE);
    }
    let big: &[(&str, f64)] = &[("CPU", 2.0)];
    for seq in 1..=10_000 {
        world.say(
            driver(),
            ToController::CreateGroup { spec: Box::new(spec(seq, GroupStrategy::Pack, &[big, big])) },
        );
    }
    let mut held = world.demand(driver(), 0, &cpu(1.0), 100);
    for key in 1..=2_000 {
        world.demand(driver(), key, &cpu(1.0), 1);
        let bind = held.pop().unwrap();
        held.extend(world.give_back(&bind));
    }
    world.audit();
    assert_eq!(world.controller.groups_remain().0, 10_000);
}

/// On ten thousand hosts each look at all of them is milliseconds.
#[test]
fn a_group_that_waits_is_not_tried_for_what_is_too_little_for_it() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let keep = world.demand(driver(), 1, &cpu(1.0), 1).remove(0);
    world.group(spec(1, GroupStrategy::Pack, &[&[("CPU", 2.0)]]));
    let before = world.record(1).attempts;
    for _ in 0..10 {
        let bind = world.demand(driver(), 2, &cpu(1.0), 1).remove(0);
        world.bound(&bind, proc(0, 3));
        world.give_back(&bind);
    }
    assert_eq!(world.record(1).attempts, before);
    world.bound(&keep, proc(0, 4));
    world.give_back(&keep);
    assert_eq!(world.state(1), GroupState::Created);
}
