//! Scheduling strategies and labels.

use raymesh_wire::ErrorKind;
use raymesh_wire::placement::{Affinity, LabelIs, LabelRule, Selector, Strategy};

use super::*;

const ONE: &[(&str, f64)] = &[("CPU", 1.0)];

fn wish(strategy: Strategy) -> Wish {
    Wish { strategy, selectors: Vec::new() }
}

fn selector(key: &str, is: LabelIs) -> Selector {
    Selector(vec![LabelRule { key: key.to_owned(), is }])
}

fn zone(value: &str) -> Selector {
    selector("zone", LabelIs::In(vec![value.to_owned()]))
}

fn on(host: u32) -> Affinity {
    Affinity { host: Some(HostId(host)), soft: false, spill: false, fail: false }
}

fn hosts(binds: &[Bind]) -> Vec<u32> {
    binds.iter().map(|bind| bind.host.0).collect()
}

fn failed(world: &World) -> Vec<ErrorKind> {
    let errors = world.told(driver()).into_iter().filter_map(|message| match message {
        FromController::Unschedulable { error, .. } => Some(error.kind),
        _ => None,
    });
    errors.collect()
}

/// Three hosts with two CPUs each, in two zones.
fn world() -> World {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.join_as(1, &[("CPU", 2.0)], &[("zone", "a"), ("disk", "fast")]);
    world.join_as(2, &[("CPU", 2.0)], &[("zone", "b")]);
    world
}

#[test]
fn spread_takes_hosts_in_turn() {
    let mut world = world();
    let binds = world.wish(driver(), 1, &cpu(1.0), 6, wish(Strategy::Spread));
    assert_eq!(hosts(&binds), [1, 2, 0, 1, 2, 0]);
    // The default packs until hosts are half full.
    for bind in &binds {
        world.give_back(bind);
    }
    assert_eq!(hosts(&world.demand(driver(), 2, &cpu(0.5), 2)), [0, 0]);
    world.controller.audit().unwrap();
}

#[test]
fn a_hard_affinity_waits_for_its_host_and_fails_without_it() {
    let mut world = world();
    let binds = world.wish(driver(), 1, &cpu(1.0), 3, wish(Strategy::Host(on(1))));
    assert_eq!(hosts(&binds), [1, 1]);
    assert!(failed(&world).is_empty());
    world.event(host_ended(1));
    assert_eq!(failed(&world), [ErrorKind::Unschedulable]);
    world.controller.audit().unwrap();
    // Too large for it, and a host that never was.
    world.wish(driver(), 2, &cpu(9.0), 1, wish(Strategy::Host(on(2))));
    assert_eq!(failed(&world), [ErrorKind::Unschedulable]);
    world.wish(driver(), 3, &cpu(1.0), 1, wish(Strategy::Host(Affinity { host: None, ..on(0) })));
    assert_eq!(failed(&world), [ErrorKind::Unschedulable]);
    world.create(ActorSpec { wish: wish(Strategy::Host(on(1))), ..actor(driver(), 1) });
    let states = world.states(driver(), ActorId { creator: driver(), seq: 1 });
    assert!(
        matches!(&states[..], [.., ActorState::Dead { error }] if error.kind == ErrorKind::ActorUnschedulable)
    );
    world.controller.audit().unwrap();
}

#[test]
fn a_soft_affinity_goes_elsewhere_only_if_it_must() {
    let mut world = world();
    let soft = Affinity { soft: true, ..on(1) };
    assert_eq!(hosts(&world.wish(driver(), 1, &cpu(1.0), 3, wish(Strategy::Host(soft)))), [1, 1]);
    let spill = Affinity { spill: true, ..soft };
    assert_eq!(hosts(&world.wish(driver(), 2, &cpu(1.0), 1, wish(Strategy::Host(spill)))), [0]);
    world.event(host_ended(1));
    assert_eq!(world.binds().len(), 3, "those that had no worker yet, and the one that waited");
    assert!(failed(&world).is_empty());
    world.controller.audit().unwrap();
}

#[test]
fn an_affinity_that_does_not_want_to_wait_fails() {
    let mut world = world();
    let fail = Affinity { fail: true, ..on(1) };
    let binds = world.wish(driver(), 1, &cpu(1.0), 3, wish(Strategy::Host(fail)));
    assert_eq!((hosts(&binds), failed(&world)), (vec![1, 1], vec![ErrorKind::Unschedulable]));
}

#[test]
fn labels_decide_where() {
    let mut world = world();
    let any = |selectors: Vec<Selector>| Wish { strategy: Strategy::Default, selectors };
    let is = |world: &mut World, key, wish| {
        let binds = world.wish(driver(), key, &cpu(1.0), 1, wish);
        let found = hosts(&binds);
        binds.iter().for_each(|bind| drop(world.give_back(bind)));
        world.demand(driver(), key, &cpu(1.0), 0);
        found
    };
    assert_eq!(is(&mut world, 1, any(vec![zone("b")])), [2]);
    assert_eq!(is(&mut world, 2, any(vec![selector("zone", LabelIs::NotIn(vec!["b".to_owned()]))])), [0]);
    assert_eq!(is(&mut world, 3, any(vec![selector("disk", LabelIs::Present)])), [1]);
    assert_eq!(is(&mut world, 4, any(vec![zone("none"), zone("b")])), [2], "the second will do");
    assert!(is(&mut world, 5, any(vec![zone("none")])).is_empty());
    let both = Strategy::Labels { hard: selector("zone", LabelIs::Present), soft: zone("b") };
    assert_eq!(is(&mut world, 6, wish(both)), [2]);
    let nowhere = Strategy::Labels { hard: selector("zone", LabelIs::Present), soft: zone("none") };
    assert_eq!(is(&mut world, 7, wish(nowhere)).len(), 1);
    world.controller.audit().unwrap();
}

#[test]
fn a_host_that_joins_with_the_label_is_used_at_once() {
    let mut world = world();
    let selectors = vec![zone("c")];
    let binds = world.wish(driver(), 1, &cpu(1.0), 1, Wish { strategy: Strategy::Default, selectors });
    assert!(binds.is_empty());
    assert!(
        world.told(driver()).iter().any(|it| matches!(it, FromController::Unplaceable { never: true, .. }))
    );
    world.join_as(3, ONE, &[("zone", "c")]);
    assert_eq!(hosts(&world.binds()), [3]);
}

/// Not timed: seconds if a grant costs a look at one host, and minutes if at all.
#[test]
fn spreading_over_a_thousand_hosts_is_no_scan() {
    let mut world = World::new(&[("CPU", 8.0)]);
    for host in 1..1000 {
        world.join(host, &[("CPU", 8.0)]);
    }
    let mut binds = world.wish(driver(), 1, &cpu(1.0), 100_000, wish(Strategy::Spread));
    let mut count = [0; 1000];
    binds.iter().for_each(|bind| count[bind.host.0 as usize] += 1);
    assert!(count.iter().all(|count| *count == 8), "all hosts alike");
    let mut served = binds.len();
    while served < 40_000 {
        let next = world.give_back(&binds.pop().unwrap());
        served += next.len();
        binds.extend(next);
    }
}
