//! A head that ends and is started again.

use std::time::{Duration, Instant};

use raymesh_net::Event;
use raymesh_net::hub::listen;

use crate::support::{Host, PATIENCE, SILENCE, config, host, run_for, until};

/// A head, and a host that has spoken to it.
fn head_and_member() -> (Host, Host) {
    let (mut head, mut member) = (Host::new(1), Host::new(2));
    let addresses = (head.hub.address(), member.hub.address());
    for hub in [&mut head.hub, &mut member.hub] {
        hub.set_head(host(1), PATIENCE);
    }
    head.hub.know(host(2), Some(addresses.1));
    member.hub.know(host(1), Some(addresses.0));
    member.send(host(1), b"first");
    until(&mut [&mut head, &mut member], "first", |hosts| hosts[0].messages().len() == 1);
    (head, member)
}

/// The head has ended; another one listens where it did.
fn again(head: Host, id: u32) -> Host {
    let address = head.hub.address();
    drop(head);
    let mut config = config(id, true);
    config.listener = listen(address).unwrap();
    let mut head = Host::with(config);
    head.hub.set_head(host(id), PATIENCE);
    head
}

fn has_moved(member: &Host, to: u32) -> bool {
    member.has(|event| matches!(event, Event::Moved { host: it, to: number } if *it == host(1) && *number == host(to)))
}

#[test]
fn a_host_waits_for_its_head_however_long_its_system_says_that_nobody_listens() {
    let (head, mut member) = head_and_member();
    let address = head.hub.address();
    drop(head);
    run_for(&mut [&mut member], 2 * SILENCE);
    assert!(!member.has(|event| matches!(event, Event::Dead { .. })), "{:?}", member.events);
    let mut config = config(9, true);
    config.listener = listen(address).unwrap();
    let mut head = Host::with(config);
    head.hub.set_head(host(9), PATIENCE);
    head.hub.know(host(2), Some(member.hub.address()));
    head.hub.expect(host(2), PATIENCE);
    until(&mut [&mut head, &mut member], "moved", |hosts| has_moved(hosts[1], 9));
    member.hub.set_head(host(9), PATIENCE);
    member.hub.know(host(9), Some(address));
    member.send(host(9), b"again");
    until(&mut [&mut head, &mut member], "again", |hosts| hosts[0].messages() == [b"again"]);
    head.send(host(2), b"welcome");
    until(&mut [&mut head, &mut member], "welcome", |hosts| hosts[1].messages() == [b"welcome"]);
    assert!(!head.has(|event| matches!(event, Event::Dead { .. })), "{:?}", head.events);
}

#[test]
fn a_head_dials_nobody_though_it_has_come_last() {
    let (head, mut member) = head_and_member();
    let mut head = again(head, 9);
    head.hub.know(host(2), Some(member.hub.address()));
    head.send(host(2), b"to one that has not come back yet");
    run_for(&mut [&mut head], SILENCE / 2);
    until(&mut [&mut head, &mut member], "moved", |hosts| has_moved(hosts[1], 9));
    assert!(!head.has(|event| matches!(event, Event::Up { .. })), "{:?}", head.events);
}

#[test]
fn a_host_that_the_new_head_does_not_know_is_told_that_it_was_declared_dead() {
    let (head, mut member) = head_and_member();
    let mut head = again(head, 9);
    until(&mut [&mut head, &mut member], "fenced", |hosts| {
        hosts[1].has(|event| matches!(event, Event::Fenced { .. }))
    });
}

#[test]
fn a_host_that_does_not_come_back_in_time_is_dead_to_the_new_head() {
    let (head, member) = head_and_member();
    let address = member.hub.address();
    drop(member);
    let mut head = again(head, 9);
    head.hub.know(host(2), Some(address));
    let began = Instant::now();
    head.hub.expect(host(2), 2 * SILENCE);
    until(&mut [&mut head], "dead", |hosts| hosts[0].has(|event| matches!(event, Event::Dead { .. })));
    let took = began.elapsed();
    assert!(took >= 2 * SILENCE && took < 2 * SILENCE + Duration::from_secs(5), "{took:?}");
}

#[test]
fn nobody_waits_for_ever() {
    let (head, mut member) = head_and_member();
    let mut impatient = Host::new(3);
    impatient.hub.set_head(host(1), 2 * SILENCE);
    impatient.hub.know(host(1), Some(head.hub.address()));
    impatient.hub.want(host(1));
    let began = Instant::now();
    drop(head);
    until(&mut [&mut impatient, &mut member], "dead", |hosts| {
        hosts[0].has(|event| matches!(event, Event::Dead { .. }))
    });
    assert!(began.elapsed() >= 2 * SILENCE);
    assert!(!member.has(|event| matches!(event, Event::Dead { .. })));
}
