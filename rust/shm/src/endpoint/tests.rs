use std::time::Instant;

use bytes::Bytes;
use raymesh_wire::HostId;

use super::*;
use crate::layout::{SMALL_RING, Shape};
use std::time::Duration;

const HOST: HostId = HostId(0);
/// Against hanging tests only.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// The agent, and worker 5.
fn pair() -> (Endpoint, Endpoint) {
    let segment = Segment::create(Shape { host: HOST, slots: 16, arena: 1 << 20 }).unwrap();
    let (a, b) = (ProcId::agent(HOST), ProcId::new(HOST, 1, 5));
    segment.open_mailbox(a).unwrap();
    segment.open_mailbox(b).unwrap();
    (Endpoint::new(Arc::clone(&segment), a), Endpoint::new(segment, b))
}

fn join(endpoint: &Endpoint, slot: u32) -> Endpoint {
    let me = ProcId::new(HOST, 1, slot);
    endpoint.segment().open_mailbox(me).unwrap();
    Endpoint::new(Arc::clone(endpoint.segment()), me)
}

fn drain(endpoint: &Endpoint) -> Vec<(ProcId, Bytes)> {
    let mut mail = Vec::new();
    endpoint.try_drain(&mut |from, message| mail.push((from, message))).unwrap();
    mail
}

#[test]
fn mail_arrives_in_order() {
    let (a, b) = pair();
    for n in 0..100u32 {
        assert!(a.send(b.me(), &n.to_le_bytes()));
    }
    let mail = drain(&b);
    assert_eq!(mail.len(), 100);
    assert!(mail.iter().zip(0u32..).all(|((from, got), n)| *from == a.me() && **got == n.to_le_bytes()));
    assert!(!b.has_mail());
}

#[test]
fn mail_for_another_host_goes_to_the_agent_in_an_envelope() {
    let (a, b) = pair();
    let far = ProcId::new(HostId(3), 1, 5);
    assert!(b.send(far, b"far"));
    assert!(b.send_after(&[far], far, b"after"));
    let mail = drain(&a);
    let opened: Vec<_> = mail.iter().filter_map(|(_, bytes)| envelope::open(bytes)).collect();
    assert_eq!(opened, [(far, Bytes::from_static(b"far")), (far, Bytes::from_static(b"after"))]);
    assert!(mail.iter().all(|(from, _)| *from == b.me()));
}

#[test]
fn the_agent_hands_on_mail_under_the_name_of_its_sender() {
    let (a, b) = pair();
    let far = ProcId::new(HostId(3), 1, 5);
    assert!(a.forward(far, b.me(), &vec![7; 2 * SMALL_RING]));
    assert!(a.forward(far, b.me(), b"small"));
    let mut mail = Vec::new();
    while mail.len() < 2 {
        mail.extend(drain(&b));
        drain(&a);
    }
    assert!(mail.iter().all(|(from, _)| *from == far));
    assert_eq!((mail[0].1.len(), &mail[1].1[..]), (2 * SMALL_RING, &b"small"[..]));
}

#[test]
fn records_of_every_length_survive_the_wrap() {
    let (a, b) = pair();
    for round in 0..40usize {
        let messages: Vec<Vec<u8>> =
            (0..64).map(|n| vec![n as u8 ^ round as u8; (n * 31 + round * 7) % 1500]).collect();
        messages.iter().for_each(|message| assert!(a.send(b.me(), message)));
        let mail = drain(&b);
        assert!(mail.iter().map(|(_, message)| &message[..]).eq(messages.iter().map(|m| &m[..])));
    }
}

#[test]
fn full_ring_goes_on_in_the_outbox_in_order() {
    let (a, b) = pair();
    let message = |n: u32| [&n.to_le_bytes()[..], &[7; 1000]].concat();
    let count = 2000u32;
    for n in 0..count {
        assert!(a.send(b.me(), &message(n)));
    }
    assert!(a.outbox_bytes() > 1_000_000);
    let mut next = 0;
    while next < count {
        let mail = drain(&b);
        assert!(!mail.is_empty(), "stuck at {next}");
        for (_, got) in mail {
            assert_eq!(got, message(next));
            next += 1;
        }
        // The receiver made room and said so.
        assert_eq!(a.has_mail(), next < count);
        drain(&a);
    }
    assert_eq!(a.outbox_bytes(), 0);
}

#[test]
fn messages_larger_than_the_ring_travel_in_pieces() {
    let (a, b) = pair();
    let large: Vec<u8> = (0..5 * SMALL_RING).map(|n| (n % 251) as u8).collect();
    assert!(a.send(b.me(), b"before"));
    assert!(a.send(b.me(), &large));
    assert!(a.send(b.me(), b"after"));
    let mut mail = Vec::new();
    while mail.len() < 3 {
        mail.extend(drain(&b));
        drain(&a);
    }
    assert_eq!(mail[0].1, "before");
    assert_eq!(mail[1].1, large);
    assert_eq!(mail[2].1, "after");
}

#[test]
fn pieces_of_a_dead_sender_are_dropped_and_the_next_in_its_slot_starts_afresh() {
    let (a, b) = pair();
    let large = vec![1; 2 * SMALL_RING];
    assert!(a.send(b.me(), &large));
    assert!(drain(&b).is_empty());
    b.forget_sender(a.me());
    drain(&b);
    assert!(b.inbox.lock().unwrap().partial.is_empty());
    // What still comes of it has no beginning.
    while a.outbox_bytes() > 0 {
        drain(&a);
        assert!(drain(&b).is_empty());
    }
}

#[test]
fn send_after_waits_for_what_was_sent_before_to_others() {
    let (a, b) = pair();
    let c = join(&a, 6);
    let filler = vec![0; 8000];
    while a.outbox_bytes() == 0 {
        assert!(a.send(b.me(), &filler));
    }
    assert!(a.send(b.me(), b"first"));
    assert!(a.send_after(&[b.me()], c.me(), b"second"));
    assert!(a.send(c.me(), b"third"));
    // Another receiver of the barrier's past is not held up.
    assert!(drain(&c).is_empty());
    let mut before = Vec::new();
    while !before.iter().any(|(_, message): &(_, Bytes)| message == "first") {
        assert!(drain(&c).is_empty());
        drain(&a);
        before.extend(drain(&b));
    }
    drain(&a);
    let messages: Vec<_> = drain(&c).into_iter().map(|(_, message)| message).collect();
    assert_eq!(messages, ["second", "third"]);
}

#[test]
fn send_last_waits_for_all_that_was_sent_before_to_anybody() {
    let (a, b) = pair();
    let (c, d) = (join(&a, 6), join(&a, 7));
    for full in [&b, &c] {
        let before = a.outbox_bytes();
        while a.outbox_bytes() == before {
            assert!(a.send(full.me(), &[0; 8000]));
        }
        assert!(a.send(full.me(), b"before"));
    }
    assert!(a.send_last(d.me(), b"all is sent"));
    for full in [&b, &c] {
        let mut got = Vec::new();
        while !got.iter().any(|(_, message): &(_, Bytes)| message == "before") {
            assert!(drain(&d).is_empty());
            drain(&a);
            got.extend(drain(full));
        }
    }
    drain(&a);
    assert_eq!(drain(&d).len(), 1);
    assert!(a.send_last(d.me(), b"nothing waits"));
    assert_eq!(drain(&d).len(), 1);
}

#[test]
fn a_barrier_at_a_receiver_that_died_is_passed() {
    let (a, b) = pair();
    let c = join(&a, 6);
    while a.outbox_bytes() == 0 {
        assert!(a.send(b.me(), &[0; 8000]));
    }
    assert!(a.send_after(&[b.me()], c.me(), b"now"));
    assert!(drain(&c).is_empty());
    a.segment().release_locks_of(b.me());
    a.segment().close_mailbox(b.me());
    assert!(a.has_mail(), "closing tells those that wait for room");
    drain(&a);
    assert_eq!(drain(&c).len(), 1);
    assert_eq!(a.outbox_bytes(), 0);
}

#[test]
fn sends_to_the_dead_answer_false_and_the_next_owner_gets_none_of_its_mail() {
    let (a, b) = pair();
    assert!(a.send(b.me(), b"never read"));
    a.segment().close_mailbox(b.me());
    assert!(!a.send(b.me(), b"x"));
    assert!(!a.send(ProcId::new(HOST, 1, 7), b"never opened"));
    assert!(!a.send(ProcId::new(HOST, 1, 9999), b"no such slot"));
    let next = ProcId::new(HOST, 2, 5);
    a.segment().open_mailbox(next).unwrap();
    assert!(!a.send(b.me(), b"x"));
    let next = Endpoint::new(Arc::clone(a.segment()), next);
    assert!(!next.has_mail());
    assert!(a.send(next.me(), b"hello"));
    assert_eq!(drain(&next).len(), 1);
}

#[test]
fn a_lock_left_by_a_dead_sender_is_broken_and_nobody_waits_for_it_meanwhile() {
    let (a, b) = pair();
    let c = join(&a, 6);
    // As if killed inside.
    std::mem::forget(c.ring_to(b.me()).unwrap().writer(b.me(), 6, false).unwrap());
    assert!(a.send(b.me(), b"through the outbox"));
    assert!(drain(&b).is_empty());
    a.segment().release_locks_of(c.me());
    assert!(a.has_mail());
    drain(&a);
    assert_eq!(drain(&b).len(), 1);
}

#[test]
fn a_process_killed_while_it_tells_others_of_room_leaves_nobody_waiting() {
    let (a, b) = pair();
    let c = join(&a, 6);
    while c.outbox_bytes() == 0 {
        assert!(c.send(b.me(), &[0; 8000]));
    }
    // As if `b` had taken the name of `c` and were killed then.
    b.my_mailbox().waking.store(1, Ordering::Relaxed);
    b.my_mailbox().starved.take(|slot| assert_eq!(slot, 6));
    assert!(!c.has_mail());
    a.segment().release_locks_of(b.me());
    a.segment().close_mailbox(b.me());
    assert!(c.has_mail());
    drain(&c);
    assert_eq!(c.outbox_bytes(), 0);
}

#[test]
fn wait_ends_by_mail_kick_and_timeout() {
    let (a, b) = pair();
    let attend = b.attend();
    assert_eq!(attend.wait(Some(Duration::ZERO)), WaitOutcome::TimedOut);
    assert_eq!(attend.wait(Some(Duration::from_millis(2))), WaitOutcome::TimedOut);
    b.kick();
    assert_eq!(attend.wait(LONG), WaitOutcome::Kicked);
    assert_eq!(attend.wait(Some(Duration::ZERO)), WaitOutcome::TimedOut);
    a.send(b.me(), b"x");
    assert_eq!(attend.wait(LONG), WaitOutcome::Mail);
}

#[test]
fn parked_threads_are_all_woken_by_a_kick() {
    let (_a, b) = pair();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let attend = b.attend();
                scope.spawn(move || attend.wait(LONG))
            })
            .collect();
        b.kick();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), WaitOutcome::Kicked);
        }
    });
}

#[test]
fn helper_is_woken_while_main_is_away_only() {
    let (a, b) = pair();
    assert_eq!(b.helper_wait(Some(Duration::from_millis(1))), WaitOutcome::TimedOut);
    {
        let _attend = b.attend();
        a.send(b.me(), b"x");
        assert_eq!(b.helper_wait(Some(Duration::from_millis(5))), WaitOutcome::TimedOut);
    }
    assert_eq!(b.helper_wait(LONG), WaitOutcome::Mail);
    drain(&b);
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| b.helper_wait(LONG));
        a.send(b.me(), b"y");
        assert_eq!(helper.join().unwrap(), WaitOutcome::Mail);
        let helper = scope.spawn(|| {
            drain(&b);
            b.helper_wait(LONG)
        });
        b.kick_helper();
        assert_eq!(helper.join().unwrap(), WaitOutcome::Kicked);
    });
}

#[test]
fn agent_is_signalled_once_each_time_it_arms() {
    let (a, b) = pair();
    let event = raymesh_sys::fd::eventfd().unwrap();
    b.set_agent_eventfd(event.try_clone().unwrap());
    assert!(!a.arm_eventfd());
    b.send(a.me(), b"1");
    assert!(raymesh_sys::fd::eventfd_clear(&event));
    b.send(a.me(), b"2");
    assert!(!raymesh_sys::fd::eventfd_clear(&event));
    assert!(a.arm_eventfd(), "there is mail: do not sleep");
    assert_eq!(drain(&a).len(), 2);
    assert!(!a.arm_eventfd());
}

#[test]
fn one_thread_drains_at_a_time() {
    let (a, b) = pair();
    a.send(b.me(), b"x");
    let mut inner = Some(0);
    b.try_drain(&mut |_, _| inner = b.try_drain(&mut |_, _| {}));
    assert_eq!(inner, None);
}

#[test]
fn a_panic_in_delivery_loses_only_what_was_handed_out() {
    let (a, b) = pair();
    a.send(b.me(), b"1");
    a.send(b.me(), b"2");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        b.try_drain(&mut |_, _| panic!("user"));
    }));
    assert!(result.is_err());
    assert_eq!(drain(&b).len(), 1);
}

#[test]
fn two_threads_of_a_process_may_send_large_and_small_to_one_receiver() {
    let (a, b) = pair();
    let large = vec![9; 3 * SMALL_RING];
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..20).for_each(|_| assert!(a.send(b.me(), &large))));
        scope.spawn(|| (0..20_000u32).for_each(|n| assert!(a.send(b.me(), &n.to_le_bytes()))));
        let (mut small, mut larges) = (0u32, 0);
        while (small, larges) != (20_000, 20) {
            assert!(Instant::now() < deadline, "stuck at {small}, {larges}");
            for (_, message) in drain(&b) {
                if message.len() == 4 {
                    assert_eq!(*message, small.to_le_bytes());
                    small += 1;
                } else {
                    assert_eq!(message, large);
                    larges += 1;
                }
            }
            a.try_drain(&mut |_, _| {});
        }
    });
}

#[test]
fn the_copy_in_a_forked_child_is_dead() {
    let (a, b) = pair();
    assert!(a.send(b.me(), b"x"));
    let attend = b.attend();
    // SAFETY: what the child calls takes no lock and allocates nothing.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(attend);
        b.kick();
        let dead = b.is_forked() && !b.send(a.me(), b"x") && b.try_drain(&mut |_, _| {}) == Some(0);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if dead && !b.has_mail() && b.outbox_bytes() == 0 { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(!b.is_forked() && b.my_bell().is_attended());
    assert_eq!(attend.wait(LONG), WaitOutcome::Mail);
    assert_eq!(drain(&b).len(), 1);
    assert!(!a.has_mail());
}
