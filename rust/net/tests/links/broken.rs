//! Connections that break, and hosts that fall silent.

use std::time::{Duration, Instant};

use raymesh_net::{Event, HubConfig, LinkError, Timing};

use crate::support::{Host, PATIENCE, SILENCE, Wire, config, host, introduce, run_for, until};

/// Two hosts, the second of which dials by a wire.
fn pair() -> (Host, Host, Wire) {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    let wire = Wire::to(a.hub.address());
    a.hub.know(host(2), Some(b.hub.address()));
    b.hub.know(host(1), Some(wire.address));
    b.send(host(1), b"first");
    until(&mut [&mut a, &mut b], "first", |hosts| hosts[0].messages().len() == 1);
    a.events.clear();
    (a, b, wire)
}

/// The second one speaks as often as the first, and waits far longer.
fn patient_pair() -> (Host, Host, Wire) {
    let mut patient = config(2, true);
    patient.timing.silence *= 100;
    let (mut a, mut b) = (Host::new(1), Host::with(patient));
    let wire = Wire::to(a.hub.address());
    a.hub.know(host(2), Some(b.hub.address()));
    b.hub.know(host(1), Some(wire.address));
    b.send(host(1), b"first");
    until(&mut [&mut a, &mut b], "first", |hosts| hosts[0].messages().len() == 1);
    a.events.clear();
    (a, b, wire)
}

fn numbers(host: &Host) -> Vec<u32> {
    host.messages().into_iter().map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn nothing_is_lost_or_doubled_over_many_cuts() {
    let (mut a, mut b, wire) = pair();
    let mut sent = 0_u32;
    for round in 0..25 {
        for _ in 0..200 {
            a.send(host(2), &sent.to_le_bytes());
            b.send(host(1), &sent.to_le_bytes());
            sent += 1;
        }
        // Before anything has left, in the middle, and after all has.
        run_for(&mut [&mut a, &mut b], Duration::from_millis(round % 5 * 3));
        wire.cut();
    }
    let all: Vec<u32> = (0..sent).collect();
    until(&mut [&mut a, &mut b], "all", |hosts| hosts.iter().all(|host| host.messages().len() >= all.len()));
    assert_eq!(numbers(&a), all);
    assert_eq!(numbers(&b), all);
    assert!(wire.connections() > 2, "it was made {} times only", wire.connections());
    assert!(!a.has(|event| matches!(event, Event::Dead { .. })));
}

#[test]
fn a_host_that_cannot_be_reached_is_dead_after_its_silence() {
    let (mut a, mut b, wire) = pair();
    wire.close(true);
    wire.cut();
    let began = Instant::now();
    b.send(host(1), b"lost");
    for (host, name) in [(&mut a, "the acceptor"), (&mut b, "the dialer")] {
        until(&mut [host], name, |hosts| hosts[0].has(|event| matches!(event, Event::Dead { .. })));
    }
    // The last sign of life was some time before the cut.
    assert!(began.elapsed() >= SILENCE / 2);
}

/// Packets vanish, nobody gets an error; the other direction may be well.
#[test]
fn one_way_and_two_way_silence_are_found() {
    for (up, down) in [(true, true), (true, false), (false, true)] {
        let (mut a, mut b, wire) = pair();
        wire.mute(up, down);
        until(&mut [&mut a, &mut b], &format!("silence {up} {down}"), |hosts| {
            hosts
                .iter()
                .all(|host| host.has(|event| matches!(event, Event::Dead { .. } | Event::Fenced { .. })))
        });
    }
}

#[test]
fn a_connection_that_alone_is_broken_is_replaced() {
    let (mut a, mut b, wire) = pair();
    wire.mute(true, true);
    b.send(host(1), b"kept");
    // Until this end has given the connection up, not the host.
    until(&mut [&mut a, &mut b], "dropped", |hosts| {
        hosts[1].has(|event| matches!(event, Event::Down { .. }))
    });
    wire.cut();
    wire.mute(false, false);
    until(&mut [&mut a, &mut b], "kept", |hosts| hosts[0].messages() == [b"kept"]);
    assert!(!a.has(|event| matches!(event, Event::Dead { .. })));
}

#[test]
fn a_host_that_was_declared_dead_is_told_so() {
    let (mut a, mut b, wire) = pair();
    a.hub.declare_dead(host(2));
    wire.cut();
    until(&mut [&mut a, &mut b], "fenced", |hosts| {
        hosts[1].has(|event| matches!(event, Event::Fenced { by } if *by == host(1)))
    });
}

/// A third host may hear of one before this one does, and pass on an address.
#[test]
fn what_is_for_a_host_that_is_yet_to_be_heard_of_waits() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    assert!(a.hub.is_alive(host(2)));
    a.send(host(2), b"early");
    assert_eq!(a.hub.unacknowledged(), [host(2)]);
    run_for(&mut [&mut a, &mut b], SILENCE * 2);
    assert!(a.events.is_empty(), "{:?}", a.events);
    introduce(&mut a, &mut b);
    until(&mut [&mut a, &mut b], "early", |hosts| hosts[1].messages() == [b"early"]);
    // Of hosts that were there before it, a host knows all that live.
    let unknown = Host::new(3);
    assert!(!unknown.hub.is_alive(host(2)));
    a.hub.declare_dead(host(4));
    assert!(!a.hub.is_alive(host(4)));
    a.hub.know(host(4), None);
    assert!(!a.hub.is_alive(host(4)), "it had gone before it was heard of");
}

#[test]
fn a_host_that_is_not_known_yet_is_let_in_when_it_is() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    b.hub.know(host(1), Some(a.hub.address()));
    b.send(host(1), b"early");
    until(&mut [&mut a, &mut b], "refused", |hosts| {
        hosts[1].has(|event| matches!(event, Event::Down { why: LinkError::Refused(_), .. }))
    });
    a.hub.know(host(2), None);
    until(&mut [&mut a, &mut b], "early", |hosts| hosts[0].messages() == [b"early"]);
}

/// Its sockets are closed by its system, and nobody listens any more: no need to wait for silence.
#[test]
fn a_host_that_is_killed_is_dead_long_before_its_silence() {
    for victim in [0, 1] {
        let (mut a, mut b) = (Host::new(1), Host::new(2));
        introduce(&mut a, &mut b);
        b.send(host(1), b"first");
        until(&mut [&mut a, &mut b], "first", |hosts| hosts[0].messages().len() == 1);
        let (mut left, killed) = if victim == 0 { (b, a) } else { (a, b) };
        drop(killed);
        until(&mut [&mut left], "dead", |hosts| {
            hosts[0].has(|event| matches!(event, Event::Dead { silent_for, .. } if silent_for.is_zero()))
        });
    }
}

/// The poll tells of the bytes and of the end at once, and of nothing later.
#[test]
fn the_end_is_seen_that_came_with_the_last_words() {
    for encrypted in [false, true] {
        let never = Timing::for_silence(PATIENCE.as_nanos() as u64 * 100);
        let (mut a, mut b) = (
            Host::with(HubConfig { timing: never, ..config(1, encrypted) }),
            Host::with(HubConfig { timing: never, ..config(2, encrypted) }),
        );
        introduce(&mut a, &mut b);
        b.send(host(1), b"first");
        until(&mut [&mut a, &mut b], "first", |hosts| hosts[0].messages().len() == 1);
        b.send(host(1), b"last");
        b.hub.flush();
        drop(b);
        until(&mut [&mut a], "down", |hosts| hosts[0].has(|event| matches!(event, Event::Down { .. })));
        assert_eq!(a.messages(), [b"first".as_slice(), b"last"]);
    }
}

#[test]
fn a_host_that_stood_still_itself_hears_the_others_first() {
    let (mut a, mut b, _wire) = patient_pair();
    // Nobody runs `a`; `b` goes on and says so, in what `a` has not read yet.
    run_for(&mut [&mut b], SILENCE * 2);
    run_for(&mut [&mut a, &mut b], SILENCE / 4);
    // The same, in the middle of a turn.
    a.hub.wait(Some(Duration::ZERO), |_| ()).unwrap();
    run_for(&mut [&mut b], SILENCE * 2);
    a.hub.tend(&mut a.events);
    run_for(&mut [&mut a, &mut b], SILENCE / 4);
    assert!(!a.has(|event| matches!(event, Event::Dead { .. } | Event::Down { .. })), "{:?}", a.events);
    a.send(host(2), b"after");
    until(&mut [&mut a, &mut b], "after", |hosts| hosts[1].messages().len() == 1);
}
