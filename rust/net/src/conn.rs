//! One connection to another host: encrypted or not, never blocking.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::error::LinkError;
use crate::hello::MAGIC;
use crate::tls::{Fingerprint, server_name};

/// Bytes that wait for the socket; then whoever has more waits.
const ROOM: usize = 1 << 20;
/// Kept of what arrived first, for telling what is at the other end when it is no TLS.
const FIRST: usize = 32;
const EXPORTER_LABEL: &[u8] = b"EXPORTER-raymesh-link";

/// See the module.
#[derive(Debug)]
pub struct Conn {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    /// What was not encrypted yet, or not sent if nothing is encrypted; how much of it is done with.
    out: Vec<u8>,
    done: usize,
    /// What has arrived, decrypted.
    arrived: Vec<u8>,
    first: Vec<u8>,
    /// The other end will say nothing more: the system has said so, and all was read.
    ending: bool,
    ended: bool,
}

impl Conn {
    /// The dialer's end; without a configuration it is not encrypted.
    ///
    /// # Errors
    /// When TLS cannot begin.
    pub fn dialer(socket: TcpStream, tls: Option<Arc<ClientConfig>>) -> Result<Self, LinkError> {
        let tls = tls.map(|config| ClientConnection::new(config, server_name()).map(Connection::Client));
        Ok(Self::new(socket, tls.transpose().map_err(tls_error)?))
    }

    /// The acceptor's end.
    ///
    /// # Errors
    /// When TLS cannot begin.
    pub fn acceptor(socket: TcpStream, tls: Option<Arc<ServerConfig>>) -> Result<Self, LinkError> {
        let tls = tls.map(|config| ServerConnection::new(config).map(Connection::Server));
        Ok(Self::new(socket, tls.transpose().map_err(tls_error)?))
    }

    fn new(socket: TcpStream, tls: Option<Connection>) -> Self {
        // A small message must not wait for a larger one.
        let _ = socket.set_nodelay(true);
        Self {
            socket,
            tls: tls.map(Box::new),
            out: Vec::new(),
            done: 0,
            arrived: Vec::new(),
            first: Vec::new(),
            ending: false,
            ended: false,
        }
    }

    /// To be registered with a poll.
    pub const fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// When the connection is not there (any more).
    pub fn remote(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// How long the way there and back takes, as far as the system has measured it.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        raymesh_sys::tcp::round_trip(&self.socket)
    }

    /// Whether TLS's own handshake is done.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// What both ends, and nobody else, can derive from this connection. Empty if it is not encrypted.
    ///
    /// # Errors
    /// Before [`Self::is_secure`].
    pub fn exporter(&self) -> Result<Vec<u8>, LinkError> {
        let Some(tls) = &self.tls else { return Ok(Vec::new()) };
        let exported = tls.export_keying_material([0; 32], EXPORTER_LABEL, None);
        exported.map(|bytes| bytes.to_vec()).map_err(tls_error)
    }

    /// Of the other end's certificate, if it has shown one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let certificates = self.tls.as_ref()?.peer_certificates()?;
        certificates.first().map(|certificate| Fingerprint::of(certificate))
    }

    /// Whether more should be given to it now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.out.len() - self.done < ROOM
    }

    /// Whether it has something for the socket.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.done < self.out.len() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Takes bytes on; [`Self::flush`] sends them.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out);
    }

    /// Gives the socket what it takes now.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        while self.wants_write() {
            let rest = &self.out[self.done..];
            let count = match &mut self.tls {
                None => write(&mut self.socket, |socket| socket.write(rest))?,
                Some(tls) if tls.wants_write() => {
                    if write(&mut self.socket, |socket| tls.write_tls(socket))? == 0 {
                        break;
                    }
                    continue;
                }
                Some(tls) => tls.writer().write(rest)?,
            };
            self.done += count;
            if count == 0 {
                break;
            }
        }
        if self.done == self.out.len() {
            self.out.clear();
            self.done = 0;
        } else if self.done >= ROOM {
            self.out.drain(..self.done);
            self.done = 0;
        }
        Ok(())
    }

    /// The poll has reported the end of what arrives, or an error: what there is to read ends with it.
    pub const fn will_end(&mut self) {
        self.ending = true;
    }

    /// Takes in what has arrived, by way of `scratch`; true if there may be more.
    ///
    /// A read that does not fill `scratch` has emptied the socket (epoll(7), on edges): the next arrival is
    /// reported again, and so is the end, unless it was reported already.
    ///
    /// # Errors
    /// When the connection has failed. Its regular end is [`Self::has_ended`].
    pub fn fill(&mut self, scratch: &mut [u8]) -> Result<bool, LinkError> {
        loop {
            let count = match self.socket.read(scratch) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let bytes = &scratch[..count];
            let more = (FIRST - self.first.len()).min(count);
            self.first.extend_from_slice(&bytes[..more]);
            match &mut self.tls {
                None => self.arrived.extend_from_slice(bytes),
                Some(tls) => decrypt(tls, bytes, &self.first, &mut self.arrived)?,
            }
            if count < scratch.len() && !self.ending {
                return Ok(false);
            }
            if self.arrived.len() >= ROOM {
                return Ok(true);
            }
        }
    }

    /// What has arrived and was not taken.
    #[must_use]
    pub fn arrived(&self) -> &[u8] {
        &self.arrived
    }

    /// The first `count` bytes of [`Self::arrived`] were taken.
    pub fn take(&mut self, count: usize) {
        self.arrived.drain(..count);
    }

    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Its parts, for whoever goes on with it in another way. No poll may watch the socket any more.
    pub(crate) fn into_parts(mut self) -> Parts {
        self.out.drain(..self.done);
        Parts { socket: self.socket, tls: self.tls, unsent: self.out, arrived: self.arrived }
    }
}

/// See [`Conn::into_parts`].
#[derive(Debug)]
pub(crate) struct Parts {
    pub socket: TcpStream,
    pub tls: Option<Box<Connection>>,
    /// Not encrypted yet.
    pub unsent: Vec<u8>,
    /// Decrypted, and not taken.
    pub arrived: Vec<u8>,
}

fn decrypt(
    tls: &mut Connection,
    mut bytes: &[u8],
    first: &[u8],
    arrived: &mut Vec<u8>,
) -> Result<(), LinkError> {
    while !bytes.is_empty() {
        tls.read_tls(&mut bytes)?;
        let state = match tls.process_new_packets() {
            Ok(state) => state,
            Err(rustls::Error::InvalidMessage(_)) if tls.is_handshaking() => {
                return Err(if first.starts_with(MAGIC) {
                    LinkError::NotEncrypted
                } else {
                    LinkError::NotRaymesh { found: first.to_vec() }
                });
            }
            Err(error) => return Err(tls_error(error)),
        };
        let (at, count) = (arrived.len(), state.plaintext_bytes_to_read());
        arrived.resize(at + count, 0);
        tls.reader().read_exact(&mut arrived[at..])?;
    }
    Ok(())
}

/// How much the socket took; 0: nothing now.
fn write(
    socket: &mut TcpStream,
    mut write: impl FnMut(&mut TcpStream) -> io::Result<usize>,
) -> Result<usize, LinkError> {
    loop {
        match write(socket) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            result => return Ok(result?),
        }
    }
}

pub(crate) fn tls_error(error: rustls::Error) -> LinkError {
    LinkError::Tls(error.to_string())
}
