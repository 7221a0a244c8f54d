//! Real processes, killed at random moments, while others go on.
//!
//! - this file: the tests, run by the process that plays the agent.
//! - [`child`]: what the other processes do (this binary, executed again).
//! - [`traffic`]: numbered messages that check themselves.
// A test through and through; it needs time, threads and an environment of its own.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods)]

mod child;
mod traffic;

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use raymesh_shm::{Endpoint, Segment, Shape};
use raymesh_wire::{HostId, ProcId};

use child::Role;
use traffic::{Checker, Random};

pub const HOST: HostId = HostId(0);
/// Against hanging only.
pub const WATCHDOG: Duration = Duration::from_secs(60);

pub fn agent() -> ProcId {
    ProcId::agent(HOST)
}

pub fn proc(slot: u32, incarnation: u32) -> ProcId {
    ProcId::new(HOST, incarnation, slot)
}

/// The agent's side of a host.
struct Host {
    segment: Arc<Segment>,
    endpoint: Endpoint,
    event: OwnedFd,
}

impl Host {
    fn new() -> Self {
        let segment = Segment::create(Shape { host: HOST, slots: 64, arena: 0 }).unwrap();
        segment.open_mailbox(agent()).unwrap();
        let event = raymesh_sys::fd::eventfd().unwrap();
        raymesh_sys::fd::set_inheritable(segment.fd(), true).unwrap();
        raymesh_sys::fd::set_inheritable(&event, true).unwrap();
        let endpoint = Endpoint::new(Arc::clone(&segment), agent());
        endpoint.set_agent_eventfd(event.try_clone().unwrap());
        Self { segment, endpoint, event }
    }

    fn spawn(&self, me: ProcId, role: &Role) -> Child {
        self.segment.open_mailbox(me).unwrap();
        Command::new(std::env::current_exe().unwrap())
            .args(["child_process", "--exact", "--ignored", "--nocapture"])
            .env(child::ENV, role.encode(me, self.segment.fd().as_raw_fd(), self.event.as_raw_fd()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// What an agent does when a process has ended.
    fn bury(&self, dead: ProcId) {
        self.segment.release_locks_of(dead);
        self.segment.close_mailbox(dead);
        self.endpoint.forget_sender(dead);
    }

    /// Sleeps on the eventfd as an agent does, until there is mail; checks what comes.
    fn serve(&self, checker: &mut Checker, wait: Duration) {
        if !self.endpoint.arm_eventfd() {
            let mut fds = [rustix::event::PollFd::new(&self.event, rustix::event::PollFlags::IN)];
            let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
            let _ = rustix::event::poll(&mut fds, Some(&wait));
            raymesh_sys::fd::eventfd_clear(&self.event);
        }
        self.endpoint.try_drain(&mut |from, message| checker.check(from, &message));
    }
}

/// Ends the test run when a test hangs.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn new(name: &'static str) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        std::thread::spawn(move || {
            std::thread::sleep(WATCHDOG * 2);
            if !flag.load(Ordering::Relaxed) {
                eprintln!("{name} hangs");
                std::process::exit(99);
            }
        });
        Self(done)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "not a test: what the other tests execute"]
fn child_process() {
    if let Ok(role) = std::env::var(child::ENV) {
        child::run(&role);
    }
}

/// Sources flood a sink, the agent and an echo server, and are killed all the time; a pinger talks to
/// the echo server and fails when an answer does not come.
#[test]
fn killing_senders_loses_no_message_of_others_and_no_wake_up() {
    const SOURCES: u32 = 3;
    const KILLS: u32 = 60;
    let _watchdog = Watchdog::new("killing senders");
    let host = Host::new();
    let (sink, echo, pinger) = (proc(2, 1), proc(3, 1), proc(4, 1));
    let mut sink_child = host.spawn(sink, &Role::Sink);
    let mut echo_child = host.spawn(echo, &Role::Echo);
    let mut ping_child = host.spawn(pinger, &Role::Ping { to: echo });
    let role = Role::Source { to: vec![sink, agent(), echo] };
    let mut sources: Vec<(ProcId, Child)> = (0..SOURCES)
        .map(|n| {
            let me = proc(10 + n, 1);
            (me, host.spawn(me, &role))
        })
        .collect();
    let mut random = Random::new(7);
    let mut checker = Checker::default();
    for _ in 0..KILLS {
        let until = Instant::now() + Duration::from_micros(random.below(60_000));
        while Instant::now() < until {
            host.serve(&mut checker, Duration::from_millis(1));
        }
        let (dead, child) = &mut sources[random.below(SOURCES.into()) as usize];
        child.kill().unwrap();
        child.wait().unwrap();
        host.bury(*dead);
        host.serve(&mut checker, Duration::ZERO);
        *dead = proc(dead.slot(), dead.incarnation() + 1);
        *child = host.spawn(*dead, &role);
    }
    assert!(checker.senders() > SOURCES as usize, "sources did nothing");
    // The survivors finish in order: each says how much it has sent, and everything has arrived.
    for (source, _) in &sources {
        assert!(host.endpoint.send(*source, traffic::STOP));
    }
    for (source, child) in &mut sources {
        while child.try_wait().unwrap().is_none() {
            host.serve(&mut checker, Duration::from_millis(1));
        }
        assert!(child.wait().unwrap().success());
        host.serve(&mut checker, Duration::ZERO);
        checker.assert_complete(*source);
        host.bury(*source);
    }
    host.endpoint.send(pinger, traffic::STOP);
    assert!(ping_child.wait().unwrap().success(), "an answer did not come");
    host.endpoint.send(sink, traffic::STOP);
    host.endpoint.send(echo, traffic::STOP);
    assert!(sink_child.wait().unwrap().success(), "the sink found a fault");
    assert!(echo_child.wait().unwrap().success());
}

/// Main threads that run user code while helpers answer; pingers sleep now and then, so that all ways
/// of waiting are met.
#[test]
fn helpers_answer_while_main_threads_are_away() {
    let _watchdog = Watchdog::new("helpers");
    let host = Host::new();
    let (busy, pinger) = (proc(2, 1), proc(3, 1));
    let mut busy_child = host.spawn(busy, &Role::Busy);
    let mut ping_child = host.spawn(pinger, &Role::Ping { to: busy });
    let mut random = Random::new(3);
    let mut checker = Checker::default();
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        host.serve(&mut checker, Duration::from_micros(random.below(3000)));
    }
    host.endpoint.send(pinger, traffic::STOP);
    assert!(ping_child.wait().unwrap().success(), "an answer did not come");
    host.endpoint.send(busy, traffic::STOP);
    assert!(busy_child.wait().unwrap().success());
}

/// A receiver that is killed again and again: senders learn that it is gone, and its next
/// incarnation gets only what was sent to it.
#[test]
fn killing_receivers_frees_their_senders() {
    const ROUNDS: u32 = 40;
    let _watchdog = Watchdog::new("killing receivers");
    let host = Host::new();
    let mut random = Random::new(11);
    for round in 1..=ROUNDS {
        let (sink, source) = (proc(2, round), proc(3, round));
        let mut sink_child = host.spawn(sink, &Role::Sink);
        // Ends by itself once the sink is gone.
        let mut source_child = host.spawn(source, &Role::Source { to: vec![sink] });
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        sink_child.kill().unwrap();
        sink_child.wait().unwrap();
        host.bury(sink);
        assert!(source_child.wait().unwrap().success());
        host.bury(source);
    }
}
