//! All links of one host, in one loop.
//!
//! [`Hub::wait`] waits for sockets and for time, and [`Hub::tend`] does what is to be done then; what it has to
//! tell comes out as [`Event`]s. Nothing here blocks but that wait, and no thread is started. Whoever has to wait
//! for other things too adds them to [`Hub::fd`], so that one system call waits for all.
//!
//! - [`link`]: what is known of each other host. [`entry`]: each connection, from its first byte.
//! - [`connect`]: connections that begin and end. [`traffic`]: bytes that arrive and leave.
//! - [`lanes`]: connections for large things, which are handed over once they stand.

mod connect;
mod entry;
mod lanes;
mod link;
mod traffic;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token as Key};
use raymesh_wire::{HostId, ProcId};

use crate::error::LinkError;
use crate::frame::Frame;
use crate::handshake::refuse;
use crate::hello::{Code, Purpose};
use crate::lane::Lane;
use crate::peer::{Action, Nanos, Peer, Timing, nanos};
use crate::session::Message;
use crate::tls::{self, Identity};
use crate::token::Token;

use entry::Entry;
use link::Link;

/// What a hub is told when it starts.
#[derive(Debug)]
pub struct HubConfig {
    pub me: HostId,
    pub token: Token,
    /// None: connections are not encrypted.
    pub identity: Option<Arc<Identity>>,
    /// See [`listen`].
    pub listener: std::net::TcpListener,
    pub timing: Timing,
}

/// Begins to listen. Port 0: any that is free.
///
/// # Errors
/// When the address is not to be had.
pub fn listen(address: SocketAddr) -> Result<std::net::TcpListener, LinkError> {
    let listener = std::net::TcpListener::bind(address);
    listener.map_err(|source| LinkError::Listen { address, source })
}

/// Names a connection while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(usize);

/// What a hub has to tell.
#[derive(Debug)]
pub enum Event {
    Message {
        host: HostId,
        message: Message,
    },
    /// There is a connection to it, for the first time or again.
    Up {
        host: HostId,
    },
    /// The connection is gone; what is sent meanwhile will arrive if the host lives.
    Down {
        host: HostId,
        why: LinkError,
    },
    /// Nothing that was sent to it and not acknowledged will arrive. `silent_for` is zero if its process is
    /// known to have ended.
    Dead {
        host: HostId,
        silent_for: Duration,
    },
    /// It has said that it leaves.
    Left {
        host: HostId,
        reason: String,
    },
    /// The other host says that this one was declared dead. Nobody listens to it any more.
    Fenced {
        by: HostId,
    },
    /// The head was started again, under another number: nothing that was sent to it and not acknowledged
    /// will arrive.
    Moved {
        host: HostId,
        to: HostId,
    },
    /// Have `host` told, through the head, that it is wanted here: it is the one that dials.
    Knock {
        host: HostId,
    },
    /// Somebody who knows the token asks to join, or something else. Answered by [`Hub::answer`] or
    /// [`Hub::refuse`].
    Asked {
        conn: ConnId,
        remote: SocketAddr,
        purpose: Purpose,
    },
    /// A connection for large things stands, to be served elsewhere. This end sends on it if it `sends`, else
    /// it receives.
    Lane {
        host: HostId,
        sends: bool,
        lane: Lane,
    },
    /// One that [`Hub::dial_lane`] was to make could not be made.
    NoLane {
        host: HostId,
        sends: bool,
        why: LinkError,
    },
    /// A stranger was turned away.
    Rejected {
        remote: Option<SocketAddr>,
        why: LinkError,
    },
}

/// The keys of what the hub waits for on behalf of others.
pub const FOREIGN: u64 = 1 << 63;
const LISTENER: Key = Key(0);
const FIRST_CONN: usize = 1;
/// Connections that have not proved anything yet; the oldest one makes room.
const MAX_STRANGERS: usize = 256;
const SCRATCH: usize = 128 << 10;

/// See the module.
#[derive(Debug)]
pub struct Hub {
    me: HostId,
    head: Option<HostId>,
    /// Of hosts with smaller numbers, all are known that live; others may be heard of yet.
    horizon: HostId,
    /// How long a head that does not answer is waited for.
    patience: Nanos,
    token: Token,
    server: Option<Arc<rustls::ServerConfig>>,
    client: Option<Arc<rustls::ClientConfig>>,
    timing: Timing,
    poll: Poll,
    polled: Events,
    listener: TcpListener,
    address: SocketAddr,
    links: BTreeMap<HostId, Link>,
    entries: BTreeMap<ConnId, Entry>,
    next_conn: usize,
    /// Connections that may have more to read than was taken at once.
    unread: Vec<ConnId>,
    /// Links that have something to send.
    unsent: Vec<HostId>,
    /// When the last wait ended: what had arrived by then is in `polled`.
    polled_at: Nanos,
    /// When to look at the time-outs again.
    next_look: Nanos,
    began: Instant,
    scratch: Vec<u8>,
}

impl Hub {
    /// A hub that knows nobody yet.
    ///
    /// # Errors
    /// When the system refuses something.
    pub fn new(config: HubConfig) -> Result<Self, LinkError> {
        let HubConfig { me, token, identity, listener, timing } = config;
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (server, client) = match &identity {
            Some(identity) => (Some(identity.server()?), Some(tls::client()?)),
            None => (None, None),
        };
        Ok(Self {
            me,
            head: None,
            horizon: me,
            patience: 0,
            token,
            server,
            client,
            timing,
            poll,
            polled: Events::with_capacity(256),
            listener,
            address,
            links: BTreeMap::new(),
            entries: BTreeMap::new(),
            next_conn: FIRST_CONN,
            unread: Vec::new(),
            unsent: Vec::new(),
            polled_at: 0,
            next_look: 0,
            began: Instant::now(),
            scratch: vec![0; SCRATCH],
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who is the head: the others dial it, and wait so long for one that is gone. To be said before it is known.
    pub fn set_head(&mut self, head: HostId, patience: Duration) {
        self.head = Some(head);
        self.patience = nanos(patience);
    }

    /// How long a head that does not answer is waited for.
    #[must_use]
    pub const fn patience_with_head(&self) -> Duration {
        Duration::from_nanos(self.patience)
    }

    /// Hosts that this one has heard of, or has something for, and that were not declared dead.
    pub fn living(&self) -> impl Iterator<Item = HostId> {
        self.links.iter().filter(|(_, link)| !link.peer.is_dead()).map(|(host, _)| *host)
    }

    /// All hosts with smaller numbers are known now, if they live.
    pub const fn set_horizon(&mut self, horizon: HostId) {
        self.horizon = horizon;
    }

    /// A host of the cluster, and where it listens (None: it cannot be dialed). What was sent to it before leaves now.
    pub fn know(&mut self, host: HostId, address: Option<SocketAddr>) {
        let peer = Peer::new(self.dials(host), self.timing);
        let peer = if self.head == Some(host) { peer.that_may_return(self.patience) } else { peer };
        let link = match self.links.entry(host) {
            Place::Vacant(vacant) => vacant.insert(Link::new(peer)),
            Place::Occupied(occupied) => {
                let link = occupied.into_mut();
                if !link.heard_of && !link.peer.is_dead() {
                    (link.heard_of, link.peer) = (true, peer);
                }
                link
            }
        };
        if address.is_some() {
            link.address = address;
        }
        if !link.session.is_idle() {
            self.want(host);
        }
    }

    /// The host has been declared dead: its connection goes, and it is refused from now on.
    pub fn declare_dead(&mut self, host: HostId) {
        let peer = Peer::new(self.dials(host), self.timing);
        let link = self.links.entry(host).or_insert_with(|| Link::to_be_heard_of(peer));
        link.peer.gone();
        if let Some(conn) = link.conn.take() {
            self.close(conn);
        }
    }

    /// Whether it was not declared dead, and is known or may be heard of yet.
    #[must_use]
    pub fn is_alive(&self, host: HostId) -> bool {
        self.links.get(&host).map_or(host > self.horizon, |link| !link.peer.is_dead())
    }

    /// Whether it is connected, and has said something lately.
    #[must_use]
    pub fn is_heard(&self, host: HostId) -> bool {
        let now = self.now();
        self.links.get(&host).is_some_and(|link| link.peer.is_heard(now))
    }

    /// How long the way to it and back takes. Zero: not known yet.
    #[must_use]
    pub fn round_trip(&self, host: HostId) -> Duration {
        self.links.get(&host).map_or(Duration::ZERO, |link| Duration::from_nanos(link.peer.round_trip()))
    }

    /// Living hosts that have not said that all has arrived that was sent to them.
    #[must_use]
    pub fn unacknowledged(&self) -> Vec<HostId> {
        let under_way = |link: &Link| !link.peer.is_dead() && !link.session.is_idle();
        self.links.iter().filter(|(_, link)| under_way(link)).map(|(host, _)| *host).collect()
    }

    /// Where its connection comes from or goes to; where it listens, if there is none now.
    #[must_use]
    pub fn remote(&self, host: HostId) -> Option<SocketAddr> {
        let link = self.links.get(&host)?;
        let entry = link.conn.and_then(|conn| self.entries.get(&conn));
        entry.and_then(|entry| entry.conn.remote().ok()).or(link.address)
    }

    /// The host knows of this one, and dials within that time, or it is dead.
    pub fn expect(&mut self, host: HostId, within: Duration) {
        let now = self.now();
        if let Some(link) = self.links.get_mut(&host) {
            link.peer.expect(now, nanos(within));
            self.next_look = now;
        }
    }

    /// The host wants to be dialed, or something is about to be sent to it.
    pub fn want(&mut self, host: HostId) {
        let now = self.now();
        if let Some(link) = self.links.get_mut(&host).filter(|link| link.heard_of) {
            link.peer.want(now);
            self.next_look = now;
        }
    }

    /// Takes on a message. False: the host is dead, or there is none of that number.
    ///
    /// Another host may have heard of it before this one: then the message waits for [`Self::know`].
    pub fn send(&mut self, host: HostId, from: ProcId, to: ProcId, bytes: Bytes) -> bool {
        let (now, dials) = (self.now(), self.dials(host));
        let link = match self.links.entry(host) {
            Place::Occupied(occupied) => occupied.into_mut(),
            Place::Vacant(vacant) if host > self.horizon => {
                vacant.insert(Link::to_be_heard_of(Peer::new(dials, self.timing)))
            }
            Place::Vacant(_) => return false,
        };
        if link.peer.is_dead() {
            return false;
        }
        link.session.push(from, to, bytes);
        if !link.heard_of {
            return true;
        }
        if !link.peer.is_up() {
            link.peer.want(now);
            self.next_look = self.next_look.min(now);
        }
        if !std::mem::replace(&mut link.unsent, true) {
            self.unsent.push(host);
        }
        true
    }

    /// Lets in who has asked; the connection ends after that.
    pub fn answer(&mut self, conn: ConnId, says: &[u8]) {
        if let Some(entry) = self.entries.get_mut(&conn) {
            let _ = entry.welcome(says).and_then(|()| entry.conn.flush());
            self.linger(conn);
        }
    }

    /// Turns away who has asked.
    pub fn refuse(&mut self, conn: ConnId, why: &str) {
        if let Some(entry) = self.entries.get_mut(&conn) {
            refuse(&mut entry.conn, Code::Other, why);
            let _ = entry.conn.flush();
            self.linger(conn);
        }
    }

    /// Says farewell to all hosts.
    pub fn leave(&mut self, reason: &str) {
        let hosts: Vec<HostId> = self.links.keys().copied().collect();
        for host in hosts {
            self.pump(host);
            let Some(conn) = self.links.get(&host).and_then(|link| link.conn) else { continue };
            if let Some(entry) = self.entries.get_mut(&conn) {
                entry.conn.put(|out| Frame::Bye { reason: reason.to_owned() }.put(out));
                let _ = entry.conn.flush();
            }
        }
    }

    /// Sends what there is to send, as far as connections take it.
    pub fn flush(&mut self) {
        for host in std::mem::take(&mut self.unsent) {
            self.pump(host);
        }
    }

    /// Whether a link has so much to send that no more should be taken on.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.links.values().any(|link| !link.peer.is_dead() && !link.session.has_room())
    }

    /// Sends what there is to send, waits, and takes in what has come. Appends what there is to tell.
    ///
    /// # Errors
    /// When the system's poll fails.
    pub fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let result = self.wait(timeout, |_| ());
        self.tend(events);
        result
    }

    /// Sends what there is to send, and waits. Tells the keys of what has come that was added to [`Self::fd`]; of
    /// the hub's own, [`Self::tend`] is to be called.
    ///
    /// # Errors
    /// When the system's poll fails.
    pub fn wait(&mut self, timeout: Option<Duration>, mut foreign: impl FnMut(u64)) -> io::Result<()> {
        self.flush();
        let timeout = timeout.into_iter().chain(self.patience()).min();
        match self.poll.poll(&mut self.polled, timeout) {
            Ok(()) => self.polled_at = self.now(),
            // As after SIGSTOP and SIGCONT: it has not looked.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        let keys = self.polled.iter().map(|event| event.token().0 as u64);
        keys.filter(|key| key & FOREIGN != 0).for_each(&mut foreign);
        Ok(())
    }

    /// Takes in what has come, and does what it is time for. Appends what there is to tell.
    pub fn tend(&mut self, events: &mut Vec<Event>) {
        let mut polled = std::mem::replace(&mut self.polled, Events::with_capacity(0));
        for conn in std::mem::take(&mut self.unread) {
            self.readable(conn, events);
        }
        for event in &polled {
            match event.token() {
                LISTENER => self.accept(events),
                Key(key) if key as u64 & FOREIGN != 0 => {}
                Key(key) => {
                    let conn = ConnId(key);
                    if (event.is_read_closed() || event.is_error())
                        && let Some(entry) = self.entries.get_mut(&conn)
                    {
                        entry.conn.will_end();
                    }
                    if event.is_writable() {
                        self.writable(conn, events);
                    }
                    if event.is_readable() {
                        self.readable(conn, events);
                    }
                }
            }
        }
        polled.clear();
        self.polled = polled;
        self.look(events);
    }

    /// An epoll. It may be given other things to watch, under keys that have [`FOREIGN`].
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// How long [`Self::wait`] waits if nothing comes.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        if !self.unread.is_empty() || !self.unsent.is_empty() {
            return Some(Duration::ZERO);
        }
        let look = || Duration::from_nanos(self.next_look.saturating_sub(self.now()));
        (self.next_look != Nanos::MAX).then(look)
    }

    pub(super) fn now(&self) -> Nanos {
        self.began.elapsed().as_nanos() as Nanos
    }

    /// What the time has to say, as of the last wait: what has arrived since then is not known yet. If this host
    /// stood still itself, the others did not.
    fn look(&mut self, events: &mut Vec<Event>) {
        let now = self.polled_at;
        if now < self.next_look {
            return;
        }
        let overdue: Vec<ConnId> =
            self.entries.iter().filter(|(_, entry)| entry.is_overdue(now)).map(|(conn, _)| *conn).collect();
        for conn in overdue {
            self.fail(conn, LinkError::TooSlow, events);
        }
        let hosts: Vec<HostId> = self.links.keys().copied().collect();
        for host in hosts {
            if self.links.get(&host).is_some_and(|link| link.peer.is_late(now)) {
                self.measure(host);
            }
            while let Some(action) = self.links.get_mut(&host).and_then(|link| link.peer.tick(now)) {
                self.act(host, action, events);
            }
        }
        let links = self.links.values().filter_map(|link| link.peer.next_deadline());
        let entries = self.entries.values().filter_map(|entry| entry.deadline);
        self.next_look = links.chain(entries).min().unwrap_or(Nanos::MAX);
    }

    /// Has the limits of a link follow the way to the other host.
    pub(super) fn measure(&mut self, host: HostId) {
        let Some(link) = self.links.get_mut(&host) else { return };
        let conn = link.conn.and_then(|conn| self.entries.get(&conn));
        if let Some(round_trip) = conn.and_then(|entry| entry.conn.round_trip()) {
            link.peer.measured(nanos(round_trip));
        }
    }

    fn act(&mut self, host: HostId, action: Action, events: &mut Vec<Event>) {
        match action {
            Action::Dial => {
                if let Err(why) = self.dial(host) {
                    self.lost(host, why, events);
                }
            }
            Action::Probe => self.probe(host, events),
            Action::Knock => events.push(Event::Knock { host }),
            Action::Ping => {
                self.measure(host);
                let tag = self.now();
                let Some(link) = self.links.get_mut(&host) else { return };
                let ack = link.session.has_unsaid().then(|| link.session.take_ack());
                let entry = link.conn.and_then(|conn| self.entries.get_mut(&conn));
                if let Some(entry) = entry {
                    entry.conn.put(|out| {
                        if let Some(number) = ack {
                            Frame::Ack { number }.put(out);
                        }
                        Frame::Ping { tag }.put(out);
                    });
                    let _ = entry.conn.flush();
                }
            }
            Action::Drop => {
                if let Some(conn) = self.links.get_mut(&host).and_then(|link| link.conn.take()) {
                    self.close(conn);
                    events.push(Event::Down { host, why: LinkError::TooSlow });
                }
            }
            Action::GiveUp { silent_for } => {
                self.declare_dead(host);
                let silent_for = Duration::from_nanos(silent_for);
                events.push(Event::Dead { host, silent_for });
            }
        }
    }
}
