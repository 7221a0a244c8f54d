//! Connections for large things. The hub makes them, with the same proofs as a link, and hands them over:
//! threads of their own serve them.

use raymesh_wire::HostId;

use super::entry::What;
use super::{ConnId, Event, Hub};
use crate::handshake::refuse;
use crate::hello::{Code, Purpose};
use crate::lane::Lane;

impl Hub {
    /// Whether of the two this host is the one to dial: see [`crate::peer`].
    #[must_use]
    pub fn dials(&self, host: HostId) -> bool {
        self.head == Some(host) || (self.head != Some(self.me) && self.me > host)
    }

    /// Makes one more connection to the host, on which this end sends or receives. [`Event::Lane`] has it
    /// then, or [`Event::NoLane`] says that there is none.
    pub fn dial_lane(&mut self, host: HostId, sends: bool, events: &mut Vec<Event>) {
        let purpose = Purpose::Bulk { from: self.me, to: host, sends };
        if let Err(why) = self.connect(host, purpose, What::Lane { sends }) {
            events.push(Event::NoLane { host, sends, why });
        }
    }

    /// Another host has dialed one.
    pub(super) fn open_lane(
        &mut self,
        conn: ConnId,
        from: HostId,
        to: HostId,
        sends: bool,
        events: &mut Vec<Event>,
    ) {
        let stranger = match self.links.get(&from) {
            _ if to != self.me => Some((Code::Unknown, "it is not here")),
            None => Some((Code::Unknown, "nobody here has heard of that host yet")),
            Some(link) if link.peer.is_dead() => Some((Code::Stale, "that host was declared dead")),
            Some(_) => None,
        };
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        if let Some((code, text)) = stranger {
            refuse(&mut entry.conn, code, text);
            let _ = entry.conn.flush();
            return self.linger(conn);
        }
        match entry.welcome(&[]) {
            Ok(()) => self.hand_over(conn, from, sends, events),
            Err(why) => self.fail(conn, why, events),
        }
    }

    pub(super) fn hand_over(&mut self, conn: ConnId, host: HostId, sends: bool, events: &mut Vec<Event>) {
        let Some(mut entry) = self.entries.remove(&conn) else { return };
        let _ = self.poll.registry().deregister(entry.conn.socket());
        // What the socket does not take now, [`Lane::begin`] sends.
        let _ = entry.conn.flush();
        events.push(match Lane::new(entry.conn) {
            Ok(lane) => Event::Lane { host, sends, lane },
            Err(why) => Event::NoLane { host, sends, why },
        });
    }
}
