//! One connection, from its first byte to its last.

use std::net::SocketAddr;

use raymesh_wire::HostId;

use crate::conn::Conn;
use crate::error::LinkError;
use crate::frame::{Frame, Reader};
use crate::handshake::{Acceptor, Dialer};
use crate::hello::Purpose;
use crate::peer::Nanos;

#[derive(Debug)]
pub struct Entry {
    pub conn: Conn,
    pub role: Role,
    pub began: Nanos,
    /// Until when it must have become something.
    pub deadline: Option<Nanos>,
}

#[derive(Debug)]
pub enum Role {
    /// This end dials.
    Dialing {
        host: HostId,
        address: SocketAddr,
        handshake: Box<Dialer>,
        what: What,
    },
    /// This end only wants to know whether anybody listens there still.
    Probing {
        host: HostId,
        address: SocketAddr,
    },
    /// The other end has not proved anything yet.
    Accepting {
        handshake: Box<Acceptor>,
    },
    /// It has, and waits for its answer.
    Asked {
        handshake: Box<Acceptor>,
    },
    Link {
        host: HostId,
        reader: Reader,
    },
    /// All is said.
    Leaving,
}

/// What a dial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Link,
    /// See [`crate::lane`].
    Lane {
        sends: bool,
    },
}

/// What a connection has to tell.
#[derive(Debug)]
pub enum Step {
    /// Nothing until more arrives.
    Wait,
    Asked(Purpose),
    Welcomed {
        host: HostId,
        what: What,
        says: Vec<u8>,
    },
    Frame {
        host: HostId,
        frame: Frame,
    },
}

impl Entry {
    pub fn is_overdue(&self, now: Nanos) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Of a dial: whether it has failed.
    pub fn check_connected(&mut self) -> Result<(), LinkError> {
        let (Role::Dialing { address, .. } | Role::Probing { address, .. }) = self.role else {
            return Ok(());
        };
        match self.conn.socket().take_error()? {
            Some(source) => Err(LinkError::Unreachable { address, source }),
            None => Ok(()),
        }
    }

    /// What follows from what has arrived.
    pub fn step(&mut self) -> Result<Step, LinkError> {
        match &mut self.role {
            Role::Dialing { host, handshake, what, .. } => {
                let (host, what) = (*host, *what);
                let says = handshake.advance(&mut self.conn)?;
                Ok(says.map_or(Step::Wait, |says| Step::Welcomed { host, what, says }))
            }
            Role::Accepting { handshake } => {
                let Some(purpose) = handshake.advance(&mut self.conn)? else { return Ok(Step::Wait) };
                if let Role::Accepting { handshake } = std::mem::replace(&mut self.role, Role::Leaving) {
                    self.role = Role::Asked { handshake };
                }
                Ok(Step::Asked(purpose))
            }
            Role::Link { host, reader } => {
                let arrived = self.conn.arrived();
                if !arrived.is_empty() {
                    reader.feed(arrived);
                    self.conn.take(self.conn.arrived().len());
                }
                let host = *host;
                Ok(reader.next_frame()?.map_or(Step::Wait, |frame| Step::Frame { host, frame }))
            }
            Role::Asked { .. } | Role::Probing { .. } | Role::Leaving => Ok(Step::Wait),
        }
    }

    /// Lets in who has asked.
    pub fn welcome(&mut self, says: &[u8]) -> Result<(), LinkError> {
        match &self.role {
            Role::Asked { handshake } => handshake.welcome(&mut self.conn, says),
            _ => Err(LinkError::Garbage("nothing was asked")),
        }
    }

    /// From now on frames are read from it.
    pub fn become_link(&mut self, host: HostId) {
        self.role = Role::Link { host, reader: Reader::default() };
        self.deadline = None;
    }
}
