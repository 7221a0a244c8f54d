//! Several hosts, each with an agent of its own, joined over loopback.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use raymesh_net::tls::Identity;
use raymesh_net::{Target, Timing, Token};
use raymesh_runtime::AgentConfig;
use raymesh_runtime::agent::{Head, Member, Role};
use raymesh_wire::control::DeathCause;
use raymesh_wire::{FromController, HostId, JobId, Message, ProcId, Quantity, ResourceSet, ToController};

use crate::support::{Driver, config};

const ANY: &str = "127.0.0.1:0";

fn with_resource(name: &str) -> AgentConfig {
    let mut config = config();
    config.resources.set(name, Quantity::ONE);
    config
}

fn token() -> Token {
    Token::from_bytes([1; 32])
}

pub fn head() -> (Driver, Target) {
    let identity = Arc::new(Identity::generate().unwrap());
    let fingerprint = Some(identity.fingerprint());
    let role = Role::Head(Head {
        listen: ANY.parse().unwrap(),
        token: token(),
        identity: Some(identity),
        timing: Timing::default(),
        journals: None,
        patience: Duration::ZERO,
    });
    let driver = Driver::start(AgentConfig { role, ..with_resource("first") });
    let address = driver.agent.address().unwrap();
    (driver, Target { address, token: token(), fingerprint, encrypted: true })
}

pub fn member(target: &Target, resource: &str) -> Driver {
    let role = Role::Member(Member {
        target: target.clone(),
        listen: None,
        port: 0,
        timing: Timing::default(),
        waits_on: || true,
    });
    Driver::start(AgentConfig { role, ..with_resource(resource) })
}

/// A worker on the host that has the resource.
fn lease_at(driver: &mut Driver, resource: &str) -> ProcId {
    let key = resource.len() as u32 + 100;
    let resources = ResourceSet::from_iter([(resource, Quantity::ONE)]);
    let demand = |backlog| ToController::Demand {
        key,
        job: JobId(1),
        resources: resources.clone(),
        backlog,
        env: raymesh_wire::Environment::default(),
        wish: raymesh_wire::Wish::default(),
        near: None,
    };
    driver.tell_controller(demand(1));
    let worker = driver.expect("a lease", |_, message| match message {
        Message::FromController(FromController::LeaseGranted { key: granted, worker, .. })
            if *granted == key =>
        {
            Some(*worker)
        }
        _ => None,
    });
    driver.tell_controller(demand(0));
    driver.tell_controller(ToController::Watch { proc: worker });
    worker
}

#[test]
fn a_caller_anywhere_gets_workers_everywhere() {
    let (mut head, target) = head();
    let mut second = member(&target, "second");
    let mut third = member(&target, "third-");
    for driver in [&mut head, &mut second, &mut third] {
        for (resource, host) in [("first", 1), ("second", 2), ("third-", 3)] {
            let worker = lease_at(driver, resource);
            assert_eq!(worker.host(), HostId(host));
            // It speaks to its worker directly, and hears of its death.
            driver.command(worker, "abort");
            let death = driver.expect_news_of_death(worker);
            assert_eq!(death.cause, DeathCause::Signaled { signal: libc::SIGABRT });
            assert!(death.last_output.contains("last words"), "{death:?}");
        }
    }
}

#[test]
fn a_cluster_lost_before_anybody_asked_is_told_all_the_same() {
    let (head, target) = head();
    let member = member(&target, "second");
    drop(head);
    // Its thread has ended when there is no more output.
    while member.agent.next_output(Duration::from_secs(30)).is_some() {}
    let (tell, told) = mpsc::channel();
    member.agent.on_lost(Box::new(move |reason| tell.send(reason).unwrap()));
    let reason = told.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(reason.contains("the head of the cluster is gone"), "{reason}");
}

#[test]
fn a_host_that_is_killed_is_gone_at_once_for_everyone() {
    let (mut head, target) = head();
    let mut second = member(&target, "second");
    let third = member(&target, "third-");
    let workers = [lease_at(&mut head, "third-"), lease_at(&mut second, "first")];
    drop(third);
    let death = head.expect_news_of_death(workers[0]);
    assert_eq!(death.cause, DeathCause::HostLost);
    // The others go on.
    second.command(workers[1], "abort");
    assert_eq!(second.expect_death(workers[1]), DeathCause::Signaled { signal: libc::SIGABRT });
}
