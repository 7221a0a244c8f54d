//! Bytes that arrive and leave.

use std::io;

use raymesh_wire::HostId;

use super::entry::{Role, Step, What};
use super::{ConnId, Event, Hub};
use crate::error::LinkError;
use crate::frame::Frame;
use crate::hello::Purpose;

impl Hub {
    pub(super) fn writable(&mut self, conn: ConnId, events: &mut Vec<Event>) {
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        if let Err(why) = entry.check_connected().and_then(|()| entry.conn.flush()) {
            return self.fail(conn, why, events);
        }
        match entry.role {
            Role::Link { host, .. } => self.pump(host),
            Role::Probing { host, .. } => {
                self.close(conn);
                if let Some(link) = self.links.get_mut(&host) {
                    link.peer.not_refused();
                }
            }
            Role::Dialing { .. } => {
                self.extend(conn);
                // Without encryption the acceptor speaks first of all.
                self.advance(conn, events);
            }
            _ => self.advance(conn, events),
        }
    }

    pub(super) fn readable(&mut self, conn: ConnId, events: &mut Vec<Event>) {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        match entry.conn.fill(&mut self.scratch) {
            Ok(true) => self.unread.push(conn),
            Ok(false) => {}
            Err(why) => return self.fail(conn, why, events),
        }
        if let Role::Link { host, .. } = entry.role
            && !entry.conn.arrived().is_empty()
            && let Some(link) = self.links.get_mut(&host)
        {
            link.peer.heard(now);
        }
        self.advance(conn, events);
        if self.entries.get(&conn).is_some_and(|entry| entry.conn.has_ended()) {
            self.fail(conn, io::Error::from(io::ErrorKind::UnexpectedEof).into(), events);
        }
    }

    /// Does what follows from what has arrived.
    pub(super) fn advance(&mut self, conn: ConnId, events: &mut Vec<Event>) {
        loop {
            let Some(entry) = self.entries.get_mut(&conn) else { return };
            let step = entry.step();
            let flushed = entry.conn.flush();
            match step.and_then(|step| flushed.map(|()| step)) {
                Ok(Step::Wait) => return,
                Ok(step) => self.take_step(conn, step, events),
                Err(why) => return self.fail(conn, why, events),
            }
        }
    }

    pub(super) fn take_step(&mut self, conn: ConnId, step: Step, events: &mut Vec<Event>) {
        match step {
            Step::Wait => {}
            Step::Asked(Purpose::Link { from, to, received }) => self.meet(conn, from, to, received, events),
            Step::Asked(Purpose::Bulk { from, to, sends }) => self.open_lane(conn, from, to, !sends, events),
            Step::Asked(purpose) => {
                // Whoever answers has as long as the other end had to ask.
                let deadline = self.now() + self.timing.handshake;
                if let Some(entry) = self.entries.get_mut(&conn) {
                    entry.deadline = Some(deadline);
                }
                let remote = self.entries.get(&conn).and_then(|entry| entry.conn.remote().ok());
                let Some(remote) = remote else { return self.close(conn) };
                events.push(Event::Asked { conn, remote, purpose });
            }
            Step::Welcomed { host, what: What::Lane { sends }, .. } => {
                self.hand_over(conn, host, sends, events);
            }
            Step::Welcomed { host, says, .. } => {
                let theirs = says.try_into().map(u64::from_le_bytes);
                let theirs = theirs.map_err(|_| LinkError::Garbage("a welcome of the wrong length"));
                let Some(link) = self.links.get_mut(&host) else { return self.close(conn) };
                match theirs.and_then(|theirs| link.session.resume(theirs)) {
                    Ok(()) => self.begin(conn, host, events),
                    Err(why) => self.fail(conn, why, events),
                }
            }
            Step::Frame { host, frame } => self.take_frame(conn, host, frame, events),
        }
    }

    pub(super) fn take_frame(&mut self, conn: ConnId, host: HostId, frame: Frame, events: &mut Vec<Event>) {
        let Some(link) = self.links.get_mut(&host).filter(|link| link.conn == Some(conn)) else {
            return self.close(conn);
        };
        let result = match frame {
            Frame::Data { number, piece } => match link.session.arrived(number, piece) {
                Ok(message) => {
                    let owes_ack = link.session.owes_ack();
                    events.extend(message.map(|message| Event::Message { host, message }));
                    if owes_ack {
                        let number = link.session.take_ack();
                        self.say(conn, &Frame::Ack { number });
                    }
                    Ok(())
                }
                Err(why) => Err(why),
            },
            Frame::Ack { number } => link.session.acknowledged(number),
            Frame::Ping { tag } => {
                self.say(conn, &Frame::Pong { tag });
                Ok(())
            }
            Frame::Pong { .. } => Ok(()),
            Frame::Bye { reason } => {
                link.conn = None;
                link.peer.gone();
                self.close(conn);
                events.push(Event::Left { host, reason });
                Ok(())
            }
        };
        if let Err(why) = result {
            self.fail(conn, why, events);
        }
    }

    pub(super) fn say(&mut self, conn: ConnId, frame: &Frame) {
        if let Some(entry) = self.entries.get_mut(&conn) {
            entry.conn.put(|out| frame.put(out));
        }
    }

    /// Gives the connection of a link what it takes.
    pub(super) fn pump(&mut self, host: HostId) {
        let now = self.now();
        let Some(link) = self.links.get_mut(&host) else { return };
        link.unsent = false;
        let entry = link.conn.filter(|_| link.peer.is_up()).and_then(|conn| self.entries.get_mut(&conn));
        let Some(entry) = entry else { return };
        // An error shows again when the poll reports the socket.
        let _ = link.fill(&mut entry.conn);
        link.peer.said(now);
    }
}
