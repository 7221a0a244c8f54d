//! Hosts that are hubs, driven in one thread, and a wire between them that can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use raymesh_net::hub::{ConnId, listen};
use raymesh_net::tls::Identity;
use raymesh_net::{Event, Hub, HubConfig, Timing, Token};
use raymesh_wire::{HostId, ProcId};

pub const ANY: &str = "127.0.0.1:0";
/// Longest wait of any test for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// A silent host is dead after this, in most tests.
pub const SILENCE: Duration = Duration::from_millis(800);

pub fn token() -> Token {
    Token::from_bytes([3; 32])
}

pub fn host(id: u32) -> HostId {
    HostId(id)
}

pub struct Host {
    pub hub: Hub,
    pub id: HostId,
    pub events: Vec<Event>,
}

pub fn config(id: u32, encrypted: bool) -> HubConfig {
    HubConfig {
        me: host(id),
        token: token(),
        identity: encrypted.then(|| Arc::new(Identity::generate().unwrap())),
        listener: listen(ANY.parse().unwrap()).unwrap(),
        timing: Timing::for_silence(SILENCE.as_nanos() as u64),
    }
}

impl Host {
    pub fn new(id: u32) -> Self {
        Self::with(config(id, true))
    }

    pub fn with(config: HubConfig) -> Self {
        Self { id: config.me, hub: Hub::new(config).unwrap(), events: Vec::new() }
    }

    pub fn send(&mut self, to: HostId, bytes: &[u8]) {
        let (from, target) = (ProcId::new(self.id, 0, 1), ProcId::new(to, 0, 2));
        assert!(self.hub.send(to, from, target, bytes.to_vec().into()));
    }

    pub fn messages(&self) -> Vec<&[u8]> {
        let messages = self.events.iter().filter_map(|event| match event {
            Event::Message { message, .. } => Some(&message.bytes[..]),
            _ => None,
        });
        messages.collect()
    }

    pub fn has(&self, matches: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(matches)
    }

    pub fn asked(&self) -> Option<ConnId> {
        self.events.iter().find_map(|event| match event {
            Event::Asked { conn, .. } => Some(*conn),
            _ => None,
        })
    }
}

/// Has two hosts know each other, by the addresses given for them.
pub fn introduce(a: &mut Host, b: &mut Host) {
    a.hub.know(b.id, Some(b.hub.address()));
    b.hub.know(a.id, Some(a.hub.address()));
}

/// Runs the hosts until it is so.
pub fn until(hosts: &mut [&mut Host], what: &str, done: impl Fn(&[&mut Host]) -> bool) {
    let began = Instant::now();
    while !done(hosts) {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        turn(hosts);
    }
}

/// Runs the hosts for a while.
pub fn run_for(hosts: &mut [&mut Host], time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        turn(hosts);
    }
}

fn turn(hosts: &mut [&mut Host]) {
    let mut knocks = Vec::new();
    for host in &mut *hosts {
        host.hub.poll(Some(Duration::from_millis(1)), &mut host.events).unwrap();
        let id = host.id;
        host.events.retain(|event| match event {
            Event::Knock { host } => {
                knocks.push((id, *host));
                false
            }
            _ => true,
        });
    }
    // As the head does it: the other one is told that it is wanted.
    for (by, whom) in knocks {
        if let Some(host) = hosts.iter_mut().find(|host| host.id == whom) {
            host.hub.want(by);
        }
    }
}

/// A wire to `to` that can be cut and muted.
pub struct Wire {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Generations of connections; those of an earlier one are cut.
    cuts: AtomicU64,
    /// Bytes from the dialer, and to it, vanish without an error.
    mute_up: AtomicBool,
    mute_down: AtomicBool,
    /// New connections are refused.
    closed: AtomicBool,
    ended: AtomicBool,
    made: AtomicU64,
}

impl Wire {
    pub fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(ANY).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for dialer in listener.incoming() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(dialer), false) = (dialer, shared.closed.load(Ordering::Relaxed)) else { continue };
                let Ok(acceptor) = TcpStream::connect(to) else { continue };
                shared.made.fetch_add(1, Ordering::Relaxed);
                carry(&shared, &dialer, &acceptor, |state| &state.mute_up);
                carry(&shared, &acceptor, &dialer, |state| &state.mute_down);
            }
        });
        Self { address, state }
    }

    /// Resets all connections that there are.
    pub fn cut(&self) {
        self.state.cuts.fetch_add(1, Ordering::Relaxed);
    }

    pub fn close(&self, closed: bool) {
        self.state.closed.store(closed, Ordering::Relaxed);
    }

    pub fn mute(&self, up: bool, down: bool) {
        self.state.mute_up.store(up, Ordering::Relaxed);
        self.state.mute_down.store(down, Ordering::Relaxed);
    }

    /// Connections that it has carried so far.
    pub fn connections(&self) -> u64 {
        self.state.made.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.cut();
        let _ = TcpStream::connect(self.address);
    }
}

fn carry(state: &Arc<State>, from: &TcpStream, to: &TcpStream, mute: fn(&State) -> &AtomicBool) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let state = Arc::clone(state);
    let generation = state.cuts.load(Ordering::Relaxed);
    from.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        while state.cuts.load(Ordering::Relaxed) == generation {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) if mute(&state).load(Ordering::Relaxed) => {}
                Ok(count) => {
                    if to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}
