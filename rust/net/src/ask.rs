//! One question to a cluster, and its answer: how a host joins, and how a command learns something. Blocks.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token as Key};

use crate::conn::Conn;
use crate::error::LinkError;
use crate::handshake::Dialer;
use crate::hello::Purpose;
use crate::tls::{self, Fingerprint};
use crate::token::Token;

/// What to know of a cluster to ask it something.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    pub token: Token,
    /// Of the head's certificate; None: whoever proves to know the token will do.
    pub fingerprint: Option<Fingerprint>,
    pub encrypted: bool,
}

/// Addresses of a host by its name, the first ones first.
///
/// # Errors
/// When there is none.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
}

/// Asks, and waits for the answer.
///
/// # Errors
/// When there is nobody, or not who was expected, or the answer is no, or there is none in time.
pub fn ask(target: &Target, purpose: Purpose, patience: Duration) -> Result<Vec<u8>, LinkError> {
    let unreachable = |source| LinkError::Unreachable { address: target.address, source };
    // What a connection says for itself says nothing to who wants to join.
    let mute = |why: LinkError| match why {
        LinkError::Io(_) | LinkError::TooSlow => {
            LinkError::Mute { address: target.address, why: Box::new(why) }
        }
        why => why,
    };
    let deadline = Instant::now() + patience;
    let socket = TcpStream::connect(target.address).map_err(unreachable)?;
    let tls = if target.encrypted { Some(tls::client()?) } else { None };
    let mut conn = Conn::dialer(socket, tls)?;
    let mut dialer = Dialer::new(target.token.clone(), purpose, target.fingerprint)
        .map_err(|error| LinkError::Refused(error.to_string()))?;
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(4);
    poll.registry().register(conn.socket(), Key(0), Interest::READABLE | Interest::WRITABLE)?;
    let mut scratch = vec![0; 16 << 10];
    let mut connected = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(if connected {
                mute(LinkError::TooSlow)
            } else {
                unreachable(io::ErrorKind::TimedOut.into())
            });
        }
        match poll.poll(&mut events, Some(left)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        }
        if !connected {
            if let Some(error) = conn.socket().take_error()? {
                return Err(unreachable(error));
            }
            match conn.remote() {
                Ok(_) => connected = true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => continue,
                Err(error) => return Err(unreachable(error)),
            }
        }
        conn.flush().map_err(mute)?;
        while conn.fill(&mut scratch).map_err(mute)? {}
        if let Some(answer) = dialer.advance(&mut conn)? {
            return Ok(answer);
        }
        conn.flush().map_err(mute)?;
        if conn.has_ended() {
            return Err(mute(LinkError::Io(io::ErrorKind::UnexpectedEof.into())));
        }
    }
}
