//! Connections that begin and end.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Token as Key};
use raymesh_wire::HostId;

use super::entry::{Entry, Role, What};
use super::{ConnId, Event, Hub, MAX_STRANGERS};
use crate::conn::Conn;
use crate::error::LinkError;
use crate::handshake::{Acceptor, Dialer, refuse};
use crate::hello::{Code, Purpose};
use crate::peer::nanos;

const UNHEARD_OF: &str = "nobody here has heard of that host yet";

impl Hub {
    pub(super) fn dial(&mut self, host: HostId) -> Result<(), LinkError> {
        let Some(link) = self.links.get_mut(&host) else { return Ok(()) };
        let received = link.session.received();
        let purpose = Purpose::Link { from: self.me, to: host, received };
        let conn = self.connect(host, purpose, What::Link)?;
        if let Some(link) = self.links.get_mut(&host) {
            link.conn = Some(conn);
        }
        Ok(())
    }

    pub(super) fn connect(
        &mut self,
        host: HostId,
        purpose: Purpose,
        what: What,
    ) -> Result<ConnId, LinkError> {
        let address = self.links.get(&host).and_then(|link| link.address);
        let address = address.ok_or_else(|| LinkError::Refused("it has no address".to_owned()))?;
        let unreachable = |source| LinkError::Unreachable { address, source };
        let socket = TcpStream::connect(address).map_err(unreachable)?;
        let handshake = Dialer::new(self.token.clone(), purpose, None)
            .map_err(|error| LinkError::Refused(error.to_string()))?;
        let conn = Conn::dialer(socket, self.client.clone())?;
        self.add(conn, Role::Dialing { host, address, handshake: Box::new(handshake), what })
    }

    pub(super) fn accept(&mut self, events: &mut Vec<Event>) {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // Out of file descriptors, or the dialer is gone already.
                    events.push(Event::Rejected { remote: None, why: error.into() });
                    return;
                }
            };
            let remote = socket.peer_addr().ok();
            if let Err(why) = self.take_in(socket) {
                events.push(Event::Rejected { remote, why });
            }
        }
    }

    pub(super) fn take_in(&mut self, socket: TcpStream) -> Result<(), LinkError> {
        let strangers = self.entries.iter().filter(|(_, entry)| matches!(entry.role, Role::Accepting { .. }));
        let (count, oldest) =
            strangers.fold((0, None), |(count, oldest), (conn, _)| (count + 1, oldest.or(Some(*conn))));
        if count >= MAX_STRANGERS
            && let Some(oldest) = oldest
        {
            self.close(oldest);
        }
        let handshake =
            Acceptor::new(self.token.clone()).map_err(|error| LinkError::Refused(error.to_string()))?;
        let conn = Conn::acceptor(socket, self.server.clone())?;
        let conn = self.add(conn, Role::Accepting { handshake: Box::new(handshake) })?;
        self.extend(conn);
        Ok(())
    }

    pub(super) fn add(&mut self, mut conn: Conn, role: Role) -> Result<ConnId, LinkError> {
        let id = ConnId(self.next_conn);
        self.next_conn += 1;
        self.poll.registry().register(conn.socket(), Key(id.0), Interest::READABLE | Interest::WRITABLE)?;
        let began = self.now();
        let deadline = began + self.timing.handshake;
        self.next_look = self.next_look.min(deadline);
        self.entries.insert(id, Entry { conn, role, began, deadline: Some(deadline) });
        Ok(id)
    }

    /// Who is far has more time for the handshake. To be said once the system is connected.
    pub(super) fn extend(&mut self, conn: ConnId) {
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        if let Some(round_trip) = entry.conn.round_trip() {
            let limit = self.timing.handshake + self.timing.slack(nanos(round_trip)) / 2;
            entry.deadline = Some(entry.began + limit);
        }
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        if let Some(mut entry) = self.entries.remove(&conn) {
            let _ = self.poll.registry().deregister(entry.conn.socket());
        }
    }

    /// The last words are said; the other end is to read them, and then to close.
    pub(super) fn linger(&mut self, conn: ConnId) {
        let deadline = self.now() + self.timing.handshake;
        if let Some(entry) = self.entries.get_mut(&conn) {
            entry.role = Role::Leaving;
            entry.deadline = Some(deadline);
            self.next_look = self.next_look.min(deadline);
        }
    }

    /// The connection is of no more use.
    pub(super) fn fail(&mut self, conn: ConnId, why: LinkError, events: &mut Vec<Event>) {
        let Some(entry) = self.entries.get(&conn) else { return };
        match &entry.role {
            Role::Dialing { host, what: What::Lane { sends }, .. } => {
                let (host, sends) = (*host, *sends);
                self.close(conn);
                events.push(Event::NoLane { host, sends, why });
            }
            Role::Dialing { host, .. } | Role::Link { host, .. } => {
                let host = *host;
                self.close(conn);
                let current = self.links.get_mut(&host).filter(|link| link.conn == Some(conn));
                if let Some(link) = current {
                    link.conn = None;
                    self.lost(host, why, events);
                }
            }
            Role::Accepting { .. } | Role::Asked { .. } => {
                let remote = entry.conn.remote().ok();
                let may_read = matches!(why, LinkError::BadToken);
                if may_read {
                    self.linger(conn);
                } else {
                    self.close(conn);
                }
                events.push(Event::Rejected { remote, why });
            }
            Role::Probing { host, .. } => {
                let host = *host;
                self.close(conn);
                self.look_dead(host, &why, events);
            }
            Role::Leaving => self.close(conn),
        }
    }

    /// Looks whether anybody listens where the host listened.
    pub(super) fn probe(&mut self, host: HostId, events: &mut Vec<Event>) {
        let Some(address) = self.links.get(&host).and_then(|link| link.address) else { return };
        let probing = TcpStream::connect(address)
            .map_err(|source| LinkError::Unreachable { address, source })
            .and_then(|socket| self.add(Conn::dialer(socket, None)?, Role::Probing { host, address }));
        if let Err(why) = probing {
            self.look_dead(host, &why, events);
        }
    }

    /// A try to reach the host has failed: its system may say that its process has ended.
    fn look_dead(&mut self, host: HostId, why: &LinkError, events: &mut Vec<Event>) {
        let refused = matches!(why, LinkError::Unreachable { source, .. }
            if source.kind() == io::ErrorKind::ConnectionRefused);
        let now = self.now();
        let Some(link) = self.links.get_mut(&host) else { return };
        if !refused {
            link.peer.not_refused();
        } else if !link.peer.is_dead() && link.peer.refused(now) {
            events.push(Event::Dead { host, silent_for: Duration::ZERO });
        }
    }

    /// A link has lost its connection, or a dial has failed.
    pub(super) fn lost(&mut self, host: HostId, why: LinkError, events: &mut Vec<Event>) {
        let now = self.now();
        let Some(link) = self.links.get_mut(&host) else { return };
        match why {
            LinkError::Stale => {
                link.peer.gone();
                events.push(Event::Fenced { by: host });
            }
            LinkError::Moved { to } => {
                link.peer.gone();
                events.push(Event::Moved { host, to });
            }
            LinkError::Gap => {
                link.peer.gone();
                events.push(Event::Dead { host, silent_for: Duration::ZERO });
            }
            why => {
                link.peer.disconnected(now);
                self.next_look = self.next_look.min(now);
                self.look_dead(host, &why, events);
                events.push(Event::Down { host, why });
            }
        }
    }

    /// Another host dials: its link begins, or goes on.
    pub(super) fn meet(
        &mut self,
        conn: ConnId,
        from: HostId,
        to: HostId,
        received: u64,
        events: &mut Vec<Event>,
    ) {
        let now = self.now();
        let verdict = match self.links.get_mut(&from) {
            // Of those that this head has taken over, it knows all that live.
            link if to != self.me && self.head == Some(self.me) => match link {
                Some(link) if !link.peer.is_dead() => {
                    // It is on its way, and has the time to dial once more.
                    link.peer.heard(now);
                    Err((Code::Moved, self.me.0.to_string()))
                }
                _ => Err((Code::Stale, String::new())),
            },
            _ if to != self.me => Err((Code::Unknown, "it is not here".to_owned())),
            Some(link) if link.peer.is_dead() => Err((Code::Stale, String::new())),
            Some(link) if !link.heard_of => Err((Code::Unknown, UNHEARD_OF.to_owned())),
            None => Err((Code::Unknown, UNHEARD_OF.to_owned())),
            // Whoever dials has no connection any more, whatever this end thinks.
            Some(link) => match link.session.resume(received) {
                Ok(()) => Ok((link.session.received(), link.conn.take())),
                Err(_) => Err((Code::Gap, String::new())),
            },
        };
        match verdict {
            Ok((mine, former)) => {
                if let Some(former) = former {
                    self.close(former);
                }
                let Some(entry) = self.entries.get_mut(&conn) else { return };
                match entry.welcome(&mine.to_le_bytes()) {
                    Ok(()) => {
                        if let Some(link) = self.links.get_mut(&from) {
                            link.conn = Some(conn);
                        }
                        self.begin(conn, from, events);
                    }
                    Err(why) => self.fail(conn, why, events),
                }
            }
            Err((code, text)) => {
                if let Some(entry) = self.entries.get_mut(&conn) {
                    refuse(&mut entry.conn, code, &text);
                    let _ = entry.conn.flush();
                }
                self.linger(conn);
            }
        }
    }

    pub(super) fn begin(&mut self, conn: ConnId, host: HostId, events: &mut Vec<Event>) {
        let now = self.now();
        if let Some(entry) = self.entries.get_mut(&conn) {
            entry.become_link(host);
        }
        if let Some(link) = self.links.get_mut(&host) {
            link.peer.connected(now);
            self.next_look = now;
        }
        self.measure(host);
        events.push(Event::Up { host });
        self.pump(host);
    }
}
