//! Links between hubs over real sockets, with wires that are cut, muted and closed.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod broken;
mod lanes;
mod returns;
mod strangers;
mod support;

use std::sync::Arc;
use std::time::Duration;

use raymesh_net::hello::Purpose;
use raymesh_net::tls::Identity;
use raymesh_net::{Event, LinkError, Target, ask};

use support::{Host, PATIENCE, config, host, introduce, token, until};

#[test]
fn messages_go_both_ways_whoever_speaks_first() {
    for encrypted in [true, false] {
        for first in [1, 2] {
            let (mut a, mut b) = (Host::with(config(1, encrypted)), Host::with(config(2, encrypted)));
            introduce(&mut a, &mut b);
            let (speaker, other) = if first == 1 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            let (me, them) = (speaker.id, other.id);
            speaker.send(them, b"question");
            until(&mut [speaker, other], "question", |hosts| hosts[1].messages() == [b"question"]);
            other.send(me, b"answer");
            until(&mut [speaker, other], "answer", |hosts| hosts[0].messages() == [b"answer"]);
        }
    }
}

#[test]
fn a_large_message_does_not_hold_up_the_signs_of_life() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    introduce(&mut a, &mut b);
    let large = vec![5; 40 << 20];
    a.send(host(2), &large);
    a.send(host(2), b"after");
    until(&mut [&mut a, &mut b], "both", |hosts| hosts[1].messages().len() == 2);
    assert!(b.messages()[0] == large && b.messages()[1] == b"after");
    assert!(!a.has(|event| matches!(event, Event::Down { .. } | Event::Dead { .. })));
}

#[test]
fn many_small_messages_arrive_in_order() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    introduce(&mut a, &mut b);
    const COUNT: u32 = 20_000;
    for n in 0..COUNT {
        a.send(host(2), &n.to_le_bytes());
        b.send(host(1), &n.to_le_bytes());
    }
    until(&mut [&mut a, &mut b], "all", |hosts| {
        hosts.iter().all(|host| host.events.len() > COUNT as usize && host.messages().len() == COUNT as usize)
    });
    for host in [a, b] {
        let numbers = host.messages().into_iter().map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
        assert!(numbers.eq(0..COUNT));
    }
}

#[test]
fn an_idle_link_stays() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    introduce(&mut a, &mut b);
    a.send(host(2), b"x");
    until(&mut [&mut a, &mut b], "x", |hosts| hosts[1].messages().len() == 1);
    support::run_for(&mut [&mut a, &mut b], 3 * support::SILENCE);
    for host in [&a, &b] {
        assert!(
            !host.has(|event| matches!(event, Event::Down { .. } | Event::Dead { .. })),
            "{:?}",
            host.events
        );
    }
}

#[test]
fn a_host_that_leaves_is_not_waited_for() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    introduce(&mut a, &mut b);
    b.send(host(1), b"last words");
    until(&mut [&mut a, &mut b], "up", |hosts| hosts[0].messages().len() == 1);
    b.hub.leave("drained");
    drop(b);
    until(&mut [&mut a], "left", |hosts| {
        hosts[0].has(|event| matches!(event, Event::Left { reason, .. } if reason == "drained"))
    });
    assert!(!a.hub.send(
        host(2),
        raymesh_wire::ProcId::default(),
        raymesh_wire::ProcId::default(),
        "x".into()
    ));
}

#[test]
fn who_knows_the_token_may_ask_and_is_answered() {
    let identity = Identity::generate().unwrap();
    let fingerprint = identity.fingerprint();
    let mut head =
        Host::with(raymesh_net::HubConfig { identity: Some(Arc::new(identity)), ..config(1, true) });
    let target = Target {
        address: head.hub.address(),
        token: token(),
        fingerprint: Some(fingerprint),
        encrypted: true,
    };
    let asker = std::thread::spawn(move || {
        let join = ask(&target, Purpose::Join { about: b"me".to_vec() }, PATIENCE);
        (join, ask(&target, Purpose::Ask { question: b"status".to_vec() }, PATIENCE))
    });
    until(&mut [&mut head], "join", |hosts| hosts[0].asked().is_some());
    let conn = head.asked().unwrap();
    assert!(head.has(
        |event| matches!(event, Event::Asked { purpose: Purpose::Join { about }, .. } if about == b"me")
    ));
    head.hub.answer(conn, b"host 7");
    head.events.clear();
    until(&mut [&mut head], "status", |hosts| hosts[0].asked().is_some());
    head.hub.refuse(head.asked().unwrap(), "not now");
    until(&mut [&mut head], "the answers", |_| asker.is_finished());
    let (join, status) = asker.join().unwrap();
    assert_eq!(join.unwrap(), b"host 7");
    assert!(matches!(status, Err(LinkError::Refused(text)) if text == "not now"));
}

#[test]
fn an_address_where_nobody_is_or_nobody_answers_is_told_in_time() {
    let nobody = std::net::TcpListener::bind(support::ANY).unwrap();
    let address = nobody.local_addr().unwrap();
    let target = Target { address, token: token(), fingerprint: None, encrypted: true };
    let question = || Purpose::Ask { question: Vec::new() };
    let silent = ask(&target, question(), Duration::from_millis(100)).unwrap_err();
    assert!(matches!(silent, LinkError::Mute { .. }), "{silent}");
    drop(nobody);
    let refused = ask(&target, question(), PATIENCE).unwrap_err();
    assert!(refused.to_string().contains("answers nothing"), "{refused}");
    assert!(refused.to_string().contains("hint:"), "{refused}");
}
