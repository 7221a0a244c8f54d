//! What may grow with the cluster, and what may not: counted, not timed.

use raymesh_sim::fleet::{Fleet, Tally};
use raymesh_wire::control::DeathCause;
use raymesh_wire::placement::{Strategy, Wish};
use raymesh_wire::{HostId, ProcId, ToController};

const WORKERS: u32 = 10;

/// So many hosts with ten workers each, and a driver.
fn fleet(hosts: u32) -> (Fleet, ProcId) {
    let mut fleet = Fleet::new(|| 0);
    for host in 1..=hosts {
        fleet.join(HostId(host));
        for slot in 1..=WORKERS {
            fleet.start(HostId(host), slot, false);
        }
    }
    let driver = fleet.start(HostId(1), 1_000, true);
    (fleet, driver)
}

/// What it takes until the death of a worker that has a lease, or of its host, is settled.
fn death(hosts: u32, of_host: bool) -> Tally {
    let (mut fleet, driver) = fleet(hosts);
    fleet.demand(driver, 1, WORKERS * hosts, Wish::default());
    assert_eq!(fleet.granted.len() as u32, WORKERS * hosts);
    fleet.demand(driver, 1, 0, Wish::default());
    let before = fleet.tally;
    if of_host {
        fleet.lose(HostId(2));
    } else {
        fleet.die(ProcId::new(HostId(2), 1, 1), DeathCause::Killed.into());
    }
    fleet.settle();
    assert!(!fleet.controller.estates_remain().1, "not settled");
    fleet.tally.since(before)
}

#[test]
fn a_lease_takes_the_same_messages_in_a_cluster_of_any_size() {
    let turn = |hosts, strategy: fn() -> Strategy| {
        let (mut fleet, driver) = fleet(hosts);
        let before = fleet.tally;
        for _ in 0..10 {
            fleet.demand(driver, 1, 1, Wish { strategy: strategy(), selectors: Vec::new() });
            let (caller, lease) = fleet.granted.pop_back().unwrap();
            fleet.say(caller, ToController::ReturnLease { lease });
        }
        fleet.tally.since(before)
    };
    for strategy in [(|| Strategy::Default) as fn() -> Strategy, || Strategy::Spread] {
        let (small, large) = (turn(2, strategy), turn(1_000, strategy));
        assert_eq!((small.heard, small.said), (30, 30));
        assert_eq!((large.heard, large.said), (30, 30));
    }
}

/// Asked to mourn, mourned, asked for stock, stock, settled: five for each that lives, whoever has died.
#[test]
fn a_death_takes_five_messages_a_process_and_no_more() {
    for (hosts, of_host) in [(10, false), (10, true), (500, false), (500, true)] {
        let lost = if of_host { WORKERS } else { 1 };
        let living = u64::from(hosts * WORKERS + 1 - lost);
        let few = u64::from(2 * lost + 2);
        let took = death(hosts, of_host).messages();
        assert!((5 * living..=5 * living + few).contains(&took), "{took} messages, {living} processes");
    }
}

/// The dead of a whole rack are settled together.
#[test]
fn a_hundred_deaths_at_once_take_one_round() {
    let (mut fleet, _) = fleet(200);
    let before = fleet.tally;
    for host in 101..=200 {
        fleet.lose(HostId(host));
    }
    fleet.settle();
    let took = fleet.tally.since(before).messages();
    let (living, dead) = (100 * u64::from(WORKERS) + 1, 100 * u64::from(WORKERS));
    // For each of the dead, its memory is swept.
    assert!(took <= 5 * living + dead + 200, "{took} messages");
}
