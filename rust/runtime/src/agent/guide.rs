//! Shows those who ask this host to be let in the way to the head.
//!
//! While nothing is heard of the head they are kept waiting, for a little while: they ask again, and learn so that this
//! host still waits for it, too.

use std::net::SocketAddr;

use raymesh_net::Timing;
use raymesh_net::hub::ConnId;
use raymesh_net::tls::Fingerprint;
use raymesh_wire::between::{HeadAt, JoinAnswer, JoinRequest};

use super::run::Runner;

/// What a host knows of its head.
#[derive(Debug)]
pub struct Guide {
    /// Where it was when this host joined.
    head: SocketAddr,
    /// As a head that is started again has it, too. None: links are not encrypted.
    fingerprint: Option<Fingerprint>,
    /// How long somebody is kept waiting.
    hold: u64,
    /// Until when, and who.
    waiting: Vec<(u64, ConnId)>,
}

impl Guide {
    pub const fn new(head: SocketAddr, fingerprint: Option<Fingerprint>, timing: Timing) -> Self {
        // Half of what a connection has until it must have become something.
        Self { head, fingerprint, hold: timing.handshake / 2, waiting: Vec::new() }
    }

    pub const fn head(&self) -> SocketAddr {
        self.head
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.waiting.iter().map(|(at, _)| *at).min()
    }
}

impl Runner {
    /// Somebody wants to be let in, and this host is not the head.
    pub(super) fn show_way(&mut self, conn: ConnId, request: &JoinRequest) {
        let now = self.clock.now();
        let Some(links) = &mut self.links else { return };
        let is_heard = links.hub.is_heard(links.head);
        let Some(guide) = &mut links.guide else { return };
        if is_heard && !request.unreached {
            self.answer_with_way(conn, false);
        } else {
            guide.waiting.push((now + guide.hold, conn));
        }
    }

    /// There is a connection to the head again.
    pub(super) fn show_way_to_all(&mut self) {
        let Some(guide) = self.links.as_mut().and_then(|links| links.guide.as_mut()) else { return };
        for (_, conn) in std::mem::take(&mut guide.waiting) {
            self.answer_with_way(conn, false);
        }
    }

    /// Answers those who have waited long enough.
    pub(super) fn tend_guide(&mut self, now: u64) {
        let Some(links) = &mut self.links else { return };
        let away = !links.hub.is_heard(links.head);
        let Some(guide) = &mut links.guide else { return };
        let (due, later) = std::mem::take(&mut guide.waiting).into_iter().partition(|(at, _)| *at <= now);
        guide.waiting = later;
        let due: Vec<(u64, ConnId)> = due;
        for (_, conn) in due {
            self.answer_with_way(conn, away);
        }
    }

    fn answer_with_way(&mut self, conn: ConnId, away: bool) {
        let Some(links) = &mut self.links else { return };
        let Some(guide) = &links.guide else { return };
        // Where it is reached now, if it is.
        let address = links.hub.remote(links.head).unwrap_or(guide.head);
        let fingerprint = guide.fingerprint.map(|print| print.0);
        let answer = JoinAnswer::Ask(HeadAt { address: address.to_string(), fingerprint, away });
        match postcard::to_allocvec(&answer) {
            Ok(answer) => links.hub.answer(conn, &answer),
            Err(_) => links.hub.refuse(conn, "there is no answer"),
        }
    }
}
