//! What the processes of a stress test do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use raymesh_shm::{Endpoint, Segment, WaitOutcome};
use raymesh_wire::ProcId;

use crate::traffic::{Checker, PING, Random, STOP, end, numbered};
use crate::{WATCHDOG, agent};

pub const ENV: &str = "RAYMESH_SHM_STRESS_CHILD";
/// A source that has more than this in its outbox waits for room.
const OUTBOX: usize = 2 << 20;

#[derive(Debug)]
pub enum Role {
    /// Sends numbered messages to all of these, until stopped, killed, or they are gone.
    Source { to: Vec<ProcId> },
    /// Checks numbered messages.
    Sink,
    /// Answers pings; drops all else.
    Echo,
    /// As `Echo`, on a helper thread while the main thread is away.
    Busy,
    /// Pings, and fails if an answer does not come.
    Ping { to: ProcId },
}

impl Role {
    pub fn encode(&self, me: ProcId, segment: i32, event: i32) -> String {
        let (name, to) = match self {
            Self::Source { to } => ("source", to.clone()),
            Self::Sink => ("sink", vec![]),
            Self::Echo => ("echo", vec![]),
            Self::Busy => ("busy", vec![]),
            Self::Ping { to } => ("ping", vec![*to]),
        };
        let to: Vec<String> = to.iter().map(|proc| proc.as_u64().to_string()).collect();
        format!("{name} {} {segment} {event} {}", me.as_u64(), to.join(" "))
    }
}

pub fn run(encoded: &str) {
    raymesh_sys::process::die_with_parent().unwrap();
    let words: Vec<&str> = encoded.split_whitespace().collect();
    let fd = |at: usize| raymesh_sys::fd::from_inherited(words[at].parse().unwrap()).unwrap();
    let proc = |word: &str| ProcId::from_u64(word.parse().unwrap());
    let endpoint = Endpoint::new(Segment::attach(fd(2)).unwrap(), proc(words[1]));
    endpoint.set_agent_eventfd(fd(3));
    let to: Vec<ProcId> = words[4..].iter().map(|word| proc(word)).collect();
    match words[0] {
        "source" => source(&endpoint, &to),
        "sink" => sink(&endpoint),
        "echo" => echo(&endpoint),
        "busy" => busy(&endpoint),
        "ping" => ping(&endpoint, to[0]),
        other => panic!("no role {other}"),
    }
}

/// Waits for mail as a main thread does. Nothing at all for long is a lost wake-up.
fn attend(endpoint: &Endpoint, deliver: &mut dyn FnMut(ProcId, Bytes)) {
    let attend = endpoint.attend();
    assert_ne!(attend.wait(Some(WATCHDOG)), WaitOutcome::TimedOut, "{:?} got no mail", endpoint.me());
    endpoint.try_drain(deliver);
}

fn source(endpoint: &Endpoint, to: &[ProcId]) {
    let mut random = Random::new(endpoint.me().as_u64());
    let mut sent = HashMap::<ProcId, u64>::new();
    let mut stopped = false;
    while !stopped {
        for _ in 0..random.below(50) {
            let to = to[random.below(to.len() as u64) as usize];
            let number = sent.entry(to).or_default();
            if !endpoint.send(to, &numbered(*number, &mut random)) {
                return;
            }
            *number += 1;
        }
        let mut deliver = |_, message: Bytes| stopped |= message == STOP;
        endpoint.try_drain(&mut deliver);
        while endpoint.outbox_bytes() > OUTBOX {
            attend(endpoint, &mut deliver);
        }
    }
    for (to, count) in sent {
        endpoint.send(to, &end(count));
    }
    while endpoint.outbox_bytes() > 0 {
        attend(endpoint, &mut |_, _| {});
    }
}

fn sink(endpoint: &Endpoint) {
    let mut checker = Checker::default();
    let mut stopped = false;
    while !stopped {
        attend(endpoint, &mut |from, message| {
            if from == agent() {
                stopped = true;
            } else {
                checker.check(from, &message);
            }
        });
    }
}

/// Answers pings. True: asked to stop.
fn answer(endpoint: &Endpoint, from: ProcId, message: &[u8]) -> bool {
    if message == PING {
        endpoint.send(from, message);
    }
    from == agent()
}

fn echo(endpoint: &Endpoint) {
    let mut stopped = false;
    while !stopped {
        attend(endpoint, &mut |from, message| stopped |= answer(endpoint, from, &message));
    }
}

fn busy(endpoint: &Endpoint) {
    let stopped = AtomicBool::new(false);
    let drain = || {
        endpoint.try_drain(&mut |from, message| {
            if answer(endpoint, from, &message) {
                stopped.store(true, Ordering::Relaxed);
                endpoint.kick();
                endpoint.kick_helper();
            }
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stopped.load(Ordering::Relaxed) {
                let outcome = endpoint.helper_wait(Some(WATCHDOG));
                assert_ne!(outcome, WaitOutcome::TimedOut, "helper got no mail");
                drain();
            }
        });
        let mut random = Random::new(1);
        while !stopped.load(Ordering::Relaxed) {
            {
                let attend = endpoint.attend();
                attend.wait(Some(Duration::from_micros(random.below(2000))));
                drain();
            }
            // User code: short, or long.
            let pause = if random.below(4) == 0 { random.below(20_000) } else { random.below(50) };
            let until = Instant::now() + Duration::from_micros(pause);
            while pause < 50 && Instant::now() < until {
                std::hint::spin_loop();
            }
            if pause >= 50 {
                std::thread::sleep(Duration::from_micros(pause));
            }
        }
    });
}

fn ping(endpoint: &Endpoint, to: ProcId) {
    let mut random = Random::new(2);
    let mut stopped = false;
    while !stopped {
        if random.below(100) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(500)));
        }
        assert!(endpoint.send(to, PING));
        let mut answered = false;
        let start = Instant::now();
        while !answered {
            assert!(start.elapsed() < WATCHDOG, "no answer to a ping");
            attend(endpoint, &mut |from, message| {
                answered |= message == PING;
                stopped |= from == agent();
            });
        }
    }
}
