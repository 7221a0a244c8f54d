//! Whoever does not know the token, or does not even speak the language.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use raymesh_net::hello::Purpose;
use raymesh_net::tls::{Fingerprint, Identity};
use raymesh_net::{Event, LinkError, Target, Token, ask};

use crate::support::{Host, PATIENCE, config, host, introduce, token, until};

fn asking(target: Target) -> LinkError {
    ask(&target, Purpose::Ask { question: Vec::new() }, PATIENCE).unwrap_err()
}

/// What a stranger gets to hear from a head that serves meanwhile.
fn told(head: &mut Host, target: Target) -> LinkError {
    let asker = thread::spawn(move || asking(target));
    until(&mut [head], "an answer", |_| asker.is_finished());
    asker.join().unwrap()
}

#[test]
fn a_wrong_token_opens_nothing() {
    for encrypted in [true, false] {
        let mut head = Host::with(config(1, encrypted));
        let address = head.hub.address();
        let token = Token::from_bytes([4; 32]);
        let why = told(&mut head, Target { address, token, fingerprint: None, encrypted });
        assert!(matches!(why, LinkError::BadToken), "{why}");
        assert!(why.to_string().contains("hint:"));
        assert!(head.asked().is_none());
        assert!(head.has(|event| matches!(event, Event::Rejected { why: LinkError::BadToken, .. })));
    }
}

#[test]
fn a_head_with_another_certificate_is_not_spoken_to() {
    let mut head = Host::new(1);
    let address = head.hub.address();
    let target = Target { address, token: token(), fingerprint: Some(Fingerprint([0; 32])), encrypted: true };
    let why = told(&mut head, target);
    assert!(matches!(why, LinkError::Fingerprint { .. }), "{why}");
    assert!(head.asked().is_none());
}

/// It has a certificate of its own towards each end, and passes on what they say.
#[test]
fn who_stands_in_the_middle_can_prove_nothing_to_either_end() {
    let mut head = Host::new(1);
    let middle = std::net::TcpListener::bind(crate::support::ANY).unwrap();
    let target =
        Target { address: middle.local_addr().unwrap(), token: token(), fingerprint: None, encrypted: true };
    let to = head.hub.address();
    thread::spawn(move || relay(&middle, to));
    let why = told(&mut head, target);
    assert!(matches!(why, LinkError::BadToken), "{why}");
    assert!(head.asked().is_none(), "the proof went through");
}

/// Ends TLS towards the dialer, begins it towards the acceptor, copies the plain text.
fn relay(listener: &std::net::TcpListener, to: SocketAddr) {
    let identity = Identity::generate().unwrap();
    let (dialer, _) = listener.accept().unwrap();
    let acceptor = TcpStream::connect(to).unwrap();
    for socket in [&dialer, &acceptor] {
        socket.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
    }
    let server = rustls::ServerConnection::new(identity.server().unwrap()).unwrap();
    let name = rustls::pki_types::ServerName::try_from("raymesh").unwrap();
    let client = rustls::ClientConnection::new(raymesh_net::tls::client().unwrap(), name).unwrap();
    let mut left = rustls::StreamOwned::new(server, dialer);
    let mut right = rustls::StreamOwned::new(client, acceptor);
    let mut buffer = [0; 4096];
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        for turn in [0, 1] {
            let read = if turn == 0 { left.read(&mut buffer) } else { right.read(&mut buffer) };
            let written = match read {
                Ok(0) => return,
                Ok(count) if turn == 0 => right.write_all(&buffer[..count]).and_then(|()| right.flush()),
                Ok(count) => left.write_all(&buffer[..count]).and_then(|()| left.flush()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                Err(_) => return,
            };
            if written.is_err() {
                return;
            }
        }
    }
}

#[test]
fn garbage_on_the_port_changes_nothing_for_the_others() {
    for encrypted in [true, false] {
        let (mut a, mut b) = (Host::with(config(1, encrypted)), Host::with(config(2, encrypted)));
        introduce(&mut a, &mut b);
        let address = a.hub.address();
        let noise: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let words: [&[u8]; 6] =
            [b"GET / HTTP/1.1\r\n\r\n", b"\0", &[0xff; 70_000], &noise, b"RMSH", b"\x16\x03\x01\x40\x00\x01"];
        let mut sockets: Vec<TcpStream> = Vec::new();
        for word in words {
            let mut socket = TcpStream::connect(address).unwrap();
            let _ = socket.write_all(word);
            sockets.push(socket);
        }
        b.send(host(1), b"still here");
        until(&mut [&mut a, &mut b], "the message", |hosts| hosts[0].messages() == [b"still here"]);
        until(&mut [&mut a, &mut b], "all turned away", |hosts| {
            hosts[0].events.iter().filter(|event| matches!(event, Event::Rejected { .. })).count()
                == words.len()
        });
        drop(sockets);
    }
}

#[test]
fn a_flood_of_silent_strangers_leaves_room_for_the_host_that_dials() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    introduce(&mut a, &mut b);
    let address = a.hub.address();
    let mut strangers = Vec::new();
    for _ in 0..400 {
        strangers.push(TcpStream::connect(address).unwrap());
        if strangers.len() % 50 == 0 {
            crate::support::run_for(&mut [&mut a], std::time::Duration::from_millis(2));
        }
    }
    b.send(host(1), b"let me in");
    until(&mut [&mut a, &mut b], "the message", |hosts| hosts[0].messages() == [b"let me in"]);
}

#[test]
fn another_service_at_the_address_is_named() {
    let service = std::net::TcpListener::bind(crate::support::ANY).unwrap();
    let address = service.local_addr().unwrap();
    thread::spawn(move || {
        for socket in service.incoming().take(2) {
            let mut socket = socket.unwrap();
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = socket.read(&mut [0; 1024]);
        }
    });
    for encrypted in [true, false] {
        let why = asking(Target { address, token: token(), fingerprint: None, encrypted });
        assert!(matches!(why, LinkError::NotRaymesh { .. }), "{why}");
        assert!(why.to_string().contains("HTTP/1.1 400"), "{why}");
    }
}

#[test]
fn a_port_that_is_taken_is_told_with_the_way_out() {
    let head = Host::new(1);
    let why = raymesh_net::hub::listen(head.hub.address()).unwrap_err();
    assert!(why.to_string().contains("--port"), "{why}");
}
