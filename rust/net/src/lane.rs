//! A connection for large things: one way, blocking, with a thread of its own at either end.
//!
//! ```text
//! tag (u64) | at (u64) | length (u32) | so many bytes        again and again, little-endian
//! ```
//!
//! What a tag means is for the two ends. How much may be under way is TCP's to say. A lane that breaks is
//! given up: nothing is acknowledged here, the receiver knows what it is missing. It ends well only between
//! two pieces.
//!
//! The system sizes the buffers of a socket by what the connection can carry; an explicit size would end
//! that, and be smaller (`net.core.wmem_max`).

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::{SendFlags, sockopt};
use rustls::Connection;

use crate::conn::{Conn, Parts, tls_error};
use crate::error::LinkError;
use crate::peer::{Timing, nanos};

/// Encrypted, or taken from the socket to be decrypted, at a time.
const CHUNK: usize = 256 << 10;
/// A lane on which the other system has answered nothing for so long has broken; longer if it is far
/// ([`Timing::slack`]).
const SILENCE: Duration = Duration::from_secs(2);

const HEADER: usize = 20;

/// What is before each piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub tag: u64,
    pub at: u64,
    pub len: u32,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER]) -> Self {
        let [tag, at] = [0, 8].map(|start| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[start..start + 8]);
            u64::from_le_bytes(word)
        });
        let mut len = [0; 4];
        len.copy_from_slice(&bytes[16..]);
        Self { tag, at, len: u32::from_le_bytes(len) }
    }
}

/// The bytes of a piece: in this process's memory, and where they lie in a file. The second way spares a
/// copy where nothing is encrypted.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    pub bytes: &'a [u8],
    pub file: Option<(BorrowedFd<'a>, u64)>,
}

/// See the module.
#[derive(Debug)]
pub struct Lane {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    /// Of the handshake, not encrypted yet.
    unsent: Vec<u8>,
    /// Came with the end of the handshake, decrypted; how much of it is taken.
    early: Vec<u8>,
    taken: usize,
    /// As it came from the socket: encrypted, from `raw_at` on not decrypted yet.
    raw: Vec<u8>,
    raw_at: usize,
}

/// Ends a lane from another thread.
#[derive(Debug)]
pub struct Hangup(TcpStream);

impl Hangup {
    /// Whoever reads or writes on the lane meets its end.
    pub fn hang_up(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Lane {
    pub(crate) fn new(conn: Conn) -> Result<Self, LinkError> {
        let Parts { socket, mut tls, unsent, arrived } = conn.into_parts();
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false)?;
        // The end of a path that vanishes without a word would never be met by a reader that waits.
        let round_trip = raymesh_sys::tcp::round_trip(&socket).unwrap_or_default();
        let silence = SILENCE + Duration::from_nanos(Timing::default().slack(nanos(round_trip)));
        let millis = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&socket, millis).map_err(io::Error::from)?;
        sockopt::set_socket_keepalive(&socket, true).map_err(io::Error::from)?;
        sockopt::set_tcp_keepidle(&socket, silence / 2).map_err(io::Error::from)?;
        sockopt::set_tcp_keepintvl(&socket, silence / 2).map_err(io::Error::from)?;
        sockopt::set_tcp_keepcnt(&socket, 2).map_err(io::Error::from)?;
        if let Some(tls) = &mut tls {
            // What is given to it is at most a chunk, and leaves before there is more.
            tls.set_buffer_limit(None);
        }
        Ok(Self { socket, tls, unsent, early: arrived, taken: 0, raw: Vec::new(), raw_at: 0 })
    }

    /// What ends the lane from outside.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn hangup(&self) -> io::Result<Hangup> {
        self.socket.try_clone().map(Hangup)
    }

    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Sends what the handshake has left. To be called first, on the lane's own thread.
    ///
    /// # Errors
    /// When the lane has broken.
    pub fn begin(&mut self) -> Result<(), LinkError> {
        let unsent = std::mem::take(&mut self.unsent);
        self.write(&unsent)?;
        self.flush()
    }

    /// Sends a piece.
    ///
    /// # Errors
    /// When the lane has broken.
    pub fn send(&mut self, tag: u64, at: u64, body: Body<'_>) -> Result<(), LinkError> {
        let len = u32::try_from(body.bytes.len()).map_err(|_| LinkError::Garbage("a piece too large"))?;
        let header = Header { tag, at, len }.to_bytes();
        match (&self.tls, body.file) {
            (Some(_), _) => {
                self.write(&header)?;
                for chunk in body.bytes.chunks(CHUNK) {
                    self.write(chunk)?;
                    self.flush()?;
                }
                self.flush()
            }
            (None, None) => self.write_both(&header, body.bytes),
            (None, Some((file, start))) => self.send_file(&header, file, start, body.bytes.len()),
        }
    }

    /// Says that nothing more comes.
    pub fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes)?,
            None => self.socket.write_all(bytes)?,
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                retry(|| tls.write_tls(&mut self.socket))?;
            }
        }
        Ok(())
    }

    fn write_both(&mut self, header: &[u8], body: &[u8]) -> Result<(), LinkError> {
        let (mut header, mut body) = (header, body);
        while !header.is_empty() {
            let count = retry(|| self.socket.write_vectored(&[IoSlice::new(header), IoSlice::new(body)]))?;
            let (of_header, of_body) = (count.min(header.len()), count.saturating_sub(header.len()));
            (header, body) = (&header[of_header..], &body[of_body..]);
        }
        Ok(self.socket.write_all(body)?)
    }

    fn send_file(
        &mut self,
        header: &[u8],
        file: BorrowedFd<'_>,
        start: u64,
        len: usize,
    ) -> Result<(), LinkError> {
        let mut header = header;
        while !header.is_empty() {
            // Not a packet of its own.
            let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
            let count = retry(|| Ok(rustix::net::send(&self.socket, header, flags)?))?;
            header = &header[count..];
        }
        let (mut at, end) = (start, start + len as u64);
        while at < end {
            let left = (end - at) as usize;
            let sent = retry(|| Ok(rustix::fs::sendfile(self.socket.as_fd(), file, Some(&mut at), left)?))?;
            if sent == 0 {
                return Err(LinkError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(())
    }

    /// Waits for a piece, which is to be taken by [`Self::read`] or [`Self::skip`]. None: the other end has
    /// finished.
    ///
    /// # Errors
    /// When the lane has broken.
    pub fn receive(&mut self) -> Result<Option<Header>, LinkError> {
        let mut header = [0; HEADER];
        let first = self.read_some(&mut header)?;
        if first == 0 {
            return Ok(None);
        }
        self.read(&mut header[first..])?;
        Ok(Some(Header::from_bytes(&header)))
    }

    /// Takes so many bytes of a piece.
    ///
    /// # Errors
    /// When the lane has broken.
    pub fn read(&mut self, into: &mut [u8]) -> Result<(), LinkError> {
        let mut into = into;
        while !into.is_empty() {
            let count = self.read_some(into)?;
            if count == 0 {
                return Err(LinkError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            into = &mut into[count..];
        }
        Ok(())
    }

    /// Takes so many bytes of a piece for nobody.
    ///
    /// # Errors
    /// When the lane has broken.
    pub fn skip(&mut self, len: usize) -> Result<(), LinkError> {
        let mut scratch = vec![0; len.min(CHUNK)];
        let mut left = len;
        while left > 0 {
            let part = left.min(scratch.len());
            self.read(&mut scratch[..part])?;
            left -= part;
        }
        Ok(())
    }

    /// At least one byte; none only at the regular end.
    fn read_some(&mut self, into: &mut [u8]) -> Result<usize, LinkError> {
        if self.taken < self.early.len() {
            let count = into.len().min(self.early.len() - self.taken);
            into[..count].copy_from_slice(&self.early[self.taken..self.taken + count]);
            self.taken += count;
            return Ok(count);
        }
        let Some(tls) = &mut self.tls else { return Ok(retry(|| self.socket.read(into))?) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Ok(result?),
            }
            if self.raw_at == self.raw.len() {
                self.raw.resize(CHUNK, 0);
                let count = retry(|| self.socket.read(&mut self.raw))?;
                self.raw.truncate(count);
                self.raw_at = 0;
                if count == 0 {
                    // Without the word that TLS has for it.
                    return Err(LinkError::Io(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            let mut rest = &self.raw[self.raw_at..];
            self.raw_at += tls.read_tls(&mut rest)?;
            tls.process_new_packets().map_err(tls_error)?;
        }
    }
}

/// A signal is no reason to stop.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
