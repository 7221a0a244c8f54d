//! Blocks of one host, read on others.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use raymesh_wire::control::{FromAgent, NoCopy, ToAgent};
use raymesh_wire::{Block, Message, ObjectId, Place, ProcId, RequestId};

use crate::hosts::{head, member};
use crate::support::Driver;

fn tell(driver: &Driver, message: ToAgent) {
    driver.send(ProcId::agent(driver.agent.driver().host()), &Message::ToAgent(message));
}

/// An object in the memory of a driver.
fn put(driver: &mut Driver, len: u64, seq: u64) -> Place {
    let me = driver.agent.driver();
    tell(driver, ToAgent::GrowHeap { request: RequestId(1), bytes: len });
    let extent = driver.expect("memory", |_, message| match message {
        Message::FromAgent(FromAgent::HeapGrown { grown, .. }) => Some(grown.unwrap()),
        _ => None,
    });
    let block = Block { home: me, offset: extent.offset, len };
    driver.agent.segment().write_block(&block, |bytes| fill(bytes, seq)).unwrap();
    Place { object: ObjectId { owner: me, seq, index: 1 }, block }
}

fn fill(bytes: &mut [u8], seed: u64) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (at / 4096) as u8 ^ (at as u8).wrapping_add(seed as u8);
    }
}

fn is_right(driver: &Driver, copy: &Block, seed: u64) -> bool {
    let mut expected = vec![0; copy.len as usize];
    fill(&mut expected, seed);
    driver.agent.segment().block_bytes(copy).unwrap() == expected
}

fn ask(driver: &Driver, request: u64, place: Place) {
    tell(driver, ToAgent::Pull { request: RequestId(request), place });
}

fn answer(driver: &mut Driver, wanted: u64) -> Result<Block, NoCopy> {
    driver.expect("a copy", |_, message| match message {
        Message::FromAgent(FromAgent::Pulled { request, copy }) if request.0 == wanted => Some(*copy),
        _ => None,
    })
}

/// What is between a dialer and `to`; cutting it ends all connections that there are.
struct Wire {
    address: SocketAddr,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sockets: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let shared = Arc::clone(&sockets);
        thread::spawn(move || {
            for dialer in listener.incoming() {
                let Ok((dialer, acceptor)) = dialer.and_then(|dialer| Ok((dialer, TcpStream::connect(to)?)))
                else {
                    continue;
                };
                for (from, to) in [(&dialer, &acceptor), (&acceptor, &dialer)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        let mut buffer = vec![0; 64 << 10];
                        while let Ok(count @ 1..) = from.read(&mut buffer) {
                            if to.write_all(&buffer[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = from.shutdown(Shutdown::Both);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                shared.lock().unwrap().extend([dialer, acceptor]);
            }
        });
        Self { address, sockets }
    }

    /// Answers how many there were.
    fn cut(&self) -> usize {
        let sockets: Vec<_> = self.sockets.lock().unwrap().drain(..).collect();
        sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        sockets.len()
    }
}

#[test]
fn a_copy_goes_on_after_its_connections_were_cut() {
    let (mut head, mut target) = head();
    let wire = Wire::to(target.address);
    target.address = wire.address;
    let mut second = member(&target, "second");
    let mut cut = 0;
    for round in 1..6 {
        let (from, to) = if round % 2 == 0 { (&mut second, &mut head) } else { (&mut head, &mut second) };
        let place = put(from, 8 << 20, round);
        ask(to, round, place);
        // Before the lanes stand, in the middle, at the end.
        thread::sleep(Duration::from_millis(2 * round));
        cut += wire.cut();
        let copy = answer(to, round).unwrap();
        assert!(is_right(to, &copy, round));
        tell(to, ToAgent::Unneeded { place });
    }
    assert!(cut >= 10, "{cut} connections were cut");
}

#[test]
fn a_copy_that_is_not_wanted_any_more_makes_room() {
    let (mut head, target) = head();
    let mut second = member(&target, "second");
    let place = put(&mut head, 40 << 20, 1);
    let other = Place { object: ObjectId { seq: 2, ..place.object }, ..place };
    for round in 0..10 {
        // The store has 64 MB: the second copy needs the room of the first.
        ask(&second, 2 * round, place);
        tell(&second, ToAgent::Unneeded { place });
        ask(&second, 2 * round + 1, other);
        let copy = answer(&mut second, 2 * round + 1).unwrap();
        assert!(is_right(&second, &copy, 1));
        tell(&second, ToAgent::Unneeded { place: other });
    }
}

#[test]
fn who_needs_a_copy_last_gives_its_memory_back() {
    let (mut head, target) = head();
    let mut second = member(&target, "second");
    let place = put(&mut head, 40 << 20, 1);
    ask(&second, 1, place);
    answer(&mut second, 1).unwrap();
    // In use, so there is no room.
    tell(&second, ToAgent::GrowHeap { request: RequestId(5), bytes: 40 << 20 });
    let grown = |driver: &mut Driver| {
        driver.expect("memory", |_, message| match message {
            Message::FromAgent(FromAgent::HeapGrown { grown, .. }) => Some(*grown),
            _ => None,
        })
    };
    assert!(grown(&mut second).is_err());
    tell(&second, ToAgent::Unneeded { place });
    tell(&second, ToAgent::GrowHeap { request: RequestId(6), bytes: 40 << 20 });
    assert!(grown(&mut second).is_ok());
}

#[test]
fn a_large_copy_takes_the_room_of_one_that_nobody_uses_and_no_more() {
    let (mut head, target) = head();
    let mut second = member(&target, "second");
    let place = put(&mut head, 20 << 20, 1);
    // The store has 64 MB. Each copy is of another object, though of the same bytes.
    for seq in 1..6 {
        let place = Place { object: ObjectId { seq, ..place.object }, ..place };
        ask(&second, seq, place);
        let copy = answer(&mut second, seq).unwrap();
        assert!(is_right(&second, &copy, 1));
        tell(&second, ToAgent::Unneeded { place });
    }
    tell(&second, ToAgent::GrowHeap { request: RequestId(6), bytes: 40 << 20 });
    let grown = second.expect("memory", |_, message| match message {
        Message::FromAgent(FromAgent::HeapGrown { grown, .. }) => Some(*grown),
        _ => None,
    });
    assert!(grown.is_ok(), "{grown:?}");
}

#[test]
fn what_is_announced_comes_and_is_there_when_it_is_asked_for() {
    let (mut head, target) = head();
    let mut second = member(&target, "second");
    let place = put(&mut head, 5 << 20, 3);
    // The caller is on another host than the one that is to run its call.
    let announcement = Message::ToAgent(ToAgent::Prefetch { places: vec![place] });
    head.send(ProcId::agent(second.agent.driver().host()), &announcement);
    let has_it = |driver: &mut Driver, request: u64| {
        tell(driver, ToAgent::Locate { request: RequestId(request), place });
        driver.expect("hosts", |_, message| match message {
            Message::FromAgent(FromAgent::Located { request: of, hosts }) if of.0 == request => {
                Some(hosts.clone())
            }
            _ => None,
        })
    };
    let both = [1, 2].map(raymesh_wire::HostId);
    let mut request = 100;
    while has_it(&mut second, request) != both {
        request += 1;
        assert!(request < 2000, "it does not come");
    }
    assert_eq!(has_it(&mut head, 1), both);
    ask(&second, 7, place);
    let copy = answer(&mut second, 7).unwrap();
    assert!(is_right(&second, &copy, 3));
}

#[test]
fn a_copy_is_read_after_its_home_is_gone() {
    let (head, target) = head();
    let mut second = member(&target, "second");
    let (mut third, mut fourth) = (member(&target, "third-"), member(&target, "fourth"));
    let place = put(&mut second, 10 << 20, 4);
    ask(&third, 1, place);
    answer(&mut third, 1).unwrap();
    drop(second);
    ask(&fourth, 1, place);
    let copy = answer(&mut fourth, 1).unwrap();
    assert!(is_right(&fourth, &copy, 4));
    // And when nobody has one, that is said.
    let nobodys = Place { object: ObjectId { seq: 9, ..place.object }, ..place };
    ask(&fourth, 2, nobodys);
    assert_eq!(answer(&mut fourth, 2), Err(NoCopy::Lost));
    drop(head);
}
