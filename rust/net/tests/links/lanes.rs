//! Connections for large things, beside a link.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::thread;

use raymesh_net::{Body, Event, Hub, Lane, LinkError};

use crate::support::{Host, Wire, config, host, introduce, until};

const LARGE: usize = 3 << 20;

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

fn take_lane(host: &mut Host) -> Option<(bool, Lane)> {
    let at = host.events.iter().position(|event| matches!(event, Event::Lane { .. }))?;
    match host.events.remove(at) {
        Event::Lane { sends, lane, .. } => Some((sends, lane)),
        _ => None,
    }
}

/// The sender's end and the receiver's, of a lane that the second host has dialed.
fn lane(a: &mut Host, b: &mut Host, dialer_sends: bool) -> (Lane, Lane) {
    let mut events = Vec::new();
    let dial = |hub: &mut Hub, events: &mut Vec<Event>| hub.dial_lane(host(1), dialer_sends, events);
    dial(&mut b.hub, &mut events);
    assert!(events.is_empty(), "{events:?}");
    let stands = |host: &Host| host.has(|event| matches!(event, Event::Lane { .. }));
    until(&mut [a, b], "a lane", |hosts| hosts.iter().all(|host| stands(host)));
    let (of_a, of_b) = (take_lane(a).unwrap(), take_lane(b).unwrap());
    assert_eq!((of_a.0, of_b.0), (!dialer_sends, dialer_sends));
    if dialer_sends { (of_b.1, of_a.1) } else { (of_a.1, of_b.1) }
}

fn hosts(encrypted: bool) -> (Host, Host) {
    let (mut a, mut b) = (Host::with(config(1, encrypted)), Host::with(config(2, encrypted)));
    introduce(&mut a, &mut b);
    (a, b)
}

#[test]
fn pieces_arrive_whole_whoever_dials_and_sends() {
    let mut file = File::from(rustix::fs::memfd_create("pieces", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    let large = pattern(LARGE, 7);
    file.write_all(&[1; 100]).unwrap();
    file.write_all(&large).unwrap();
    for encrypted in [true, false] {
        for dialer_sends in [true, false] {
            let (mut a, mut b) = hosts(encrypted);
            let (mut sender, mut receiver) = lane(&mut a, &mut b, dialer_sends);
            let (file, sent) = (file.try_clone().unwrap(), large.clone());
            let thread = thread::spawn(move || {
                sender.begin().unwrap();
                sender.send(1, 0, Body { bytes: b"", file: None }).unwrap();
                sender.send(2, 9, Body { bytes: &sent, file: Some((file.as_fd(), 100)) }).unwrap();
                sender.send(3, 1 << 40, Body { bytes: &sent, file: None }).unwrap();
                sender.send(4, 0, Body { bytes: b"after", file: None }).unwrap();
                sender.finish();
            });
            receiver.begin().unwrap();
            for (tag, at, len, wanted) in
                [(1, 0, 0, true), (2, 9, LARGE, true), (3, 1 << 40, LARGE, false), (4, 0, 5, true)]
            {
                let header = receiver.receive().unwrap().unwrap();
                assert_eq!((header.tag, header.at, header.len as usize), (tag, at, len));
                if wanted {
                    let mut bytes = vec![0; len];
                    receiver.read(&mut bytes).unwrap();
                    assert!(tag != 2 || bytes == large);
                    assert!(tag != 4 || bytes == b"after");
                } else {
                    receiver.skip(len).unwrap();
                }
            }
            assert!(receiver.receive().unwrap().is_none(), "encrypted: {encrypted}");
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_lane_that_breaks_inside_a_piece_says_so() {
    for encrypted in [true, false] {
        let (mut a, mut b) = hosts(encrypted);
        let wire = Wire::to(a.hub.address());
        b.hub.know(host(1), Some(wire.address));
        let (mut sender, mut receiver) = lane(&mut a, &mut b, false);
        let thread = thread::spawn(move || {
            sender.begin().unwrap();
            let bytes = pattern(64 << 20, 1);
            // More than the wire holds: it is cut before all of it has left.
            sender.send(1, 0, Body { bytes: &bytes, file: None })
        });
        receiver.begin().unwrap();
        let header = receiver.receive().unwrap().unwrap();
        let mut bytes = vec![0; 1 << 20];
        receiver.read(&mut bytes).unwrap();
        wire.cut();
        assert!(receiver.skip(header.len as usize - bytes.len()).is_err(), "encrypted: {encrypted}");
        drop(receiver);
        assert!(thread.join().unwrap().is_err(), "encrypted: {encrypted}");
        assert!(bytes == pattern(1 << 20, 1));
    }
}

/// Both ends sit in a system call then, and only another thread can end that.
#[test]
fn a_lane_that_waits_is_ended_from_outside() {
    let (mut a, mut b) = hosts(true);
    let (mut sender, mut receiver) = lane(&mut a, &mut b, true);
    let hangups = [sender.hangup().unwrap(), receiver.hangup().unwrap()];
    let reading = thread::spawn(move || receiver.receive().map(|_| ()));
    let writing = thread::spawn(move || {
        loop {
            let bytes = vec![0; 8 << 20];
            if sender.send(1, 0, Body { bytes: &bytes, file: None }).is_err() {
                return;
            }
        }
    });
    // It has taken a header and takes no more.
    reading.join().unwrap().unwrap();
    hangups.iter().for_each(raymesh_net::Hangup::hang_up);
    writing.join().unwrap();
}

#[test]
fn who_was_declared_dead_gets_no_lane() {
    let (mut a, mut b) = hosts(true);
    a.hub.declare_dead(host(2));
    let mut events = Vec::new();
    b.hub.dial_lane(host(1), false, &mut events);
    let refused = |event: &Event| matches!(event, Event::NoLane { why: LinkError::Stale, sends: false, .. });
    until(&mut [&mut a, &mut b], "the refusal", |hosts| hosts[1].has(refused));
    assert!(!a.has(|event| matches!(event, Event::Lane { .. })));
    // A host without an address cannot be dialed at all.
    let mut events = Vec::new();
    Host::new(3).hub.dial_lane(host(9), true, &mut events);
    assert!(matches!(events[..], [Event::NoLane { .. }]), "{events:?}");
}
