//! What is known of one other host.

use std::net::SocketAddr;

use super::ConnId;
use crate::conn::Conn;
use crate::error::LinkError;
use crate::frame::{Frame, put_data};
use crate::peer::Peer;
use crate::session::Session;

#[derive(Debug)]
pub struct Link {
    pub peer: Peer,
    pub session: Session,
    pub address: Option<SocketAddr>,
    /// False: only somebody else has heard of the host so far, and what is sent to it waits.
    pub heard_of: bool,
    /// The connection that it has, or that is being made.
    pub conn: Option<ConnId>,
    /// Whether it stands in the list of those that have something to send.
    pub unsent: bool,
}

impl Link {
    pub fn new(peer: Peer) -> Self {
        Self { peer, session: Session::default(), address: None, heard_of: true, conn: None, unsent: false }
    }

    /// Of a host that this one has not heard of yet.
    pub fn to_be_heard_of(peer: Peer) -> Self {
        Self { heard_of: false, ..Self::new(peer) }
    }

    /// Gives the connection as much as it takes, an acknowledgement with it.
    pub fn fill(&mut self, conn: &mut Conn) -> Result<(), LinkError> {
        if self.session.has_unsaid() && self.session.has_next() {
            let number = self.session.take_ack();
            conn.put(|out| Frame::Ack { number }.put(out));
        }
        while self.session.has_next() {
            while conn.has_room()
                && let Some((number, piece)) = self.session.next_piece()
            {
                conn.put(|out| put_data(out, number, piece));
            }
            conn.flush()?;
            if !conn.has_room() {
                return Ok(());
            }
        }
        conn.flush()
    }
}
