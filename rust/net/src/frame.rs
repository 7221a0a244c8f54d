//! What travels on a connection once both ends know each other.
//!
//! ```text
//! length of the rest (u32) | kind (u8) | the rest
//!
//! Data   number (u64), from (u64), to (u64), last (u8), a piece of a message
//! Ack    the last number that arrived (u64)
//! Ping   anything (u64)
//! Pong   what the ping said (u64)
//! Bye    why (UTF-8)
//! ```
//!
//! All integers are little-endian. Messages go in pieces, so that an acknowledgement or a ping never waits
//! behind a large one.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use raymesh_wire::ProcId;

use crate::error::LinkError;

/// Most bytes of a message in one frame.
pub const MAX_PIECE: usize = 256 << 10;

const HEADER: usize = 5;
const DATA_HEADER: usize = 25;
/// A reason that nobody would read to its end.
const MAX_BYE: usize = 4096;

const DATA: u8 = 1;
const ACK: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;
const BYE: u8 = 5;

/// One piece of a message between two processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub from: ProcId,
    pub to: ProcId,
    /// Whether the message ends with it.
    pub last: bool,
    pub bytes: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Data {
        number: u64,
        piece: Piece,
    },
    Ack {
        number: u64,
    },
    Ping {
        tag: u64,
    },
    Pong {
        tag: u64,
    },
    /// The sender leaves the cluster; its host is not to be waited for.
    Bye {
        reason: String,
    },
}

impl Frame {
    /// Appends the frame to what goes out.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data { number, piece } => put_data(out, *number, piece),
            Self::Ack { number } => put_word(out, ACK, *number),
            Self::Ping { tag } => put_word(out, PING, *tag),
            Self::Pong { tag } => put_word(out, PONG, *tag),
            Self::Bye { reason } => {
                let mut end = reason.len().min(MAX_BYE);
                while !reason.is_char_boundary(end) {
                    end -= 1;
                }
                put_header(out, BYE, end);
                out.put_slice(&reason.as_bytes()[..end]);
            }
        }
    }
}

/// [`Frame::Data`], without a copy of the piece in between.
pub fn put_data(out: &mut Vec<u8>, number: u64, piece: &Piece) {
    debug_assert!(piece.bytes.len() <= MAX_PIECE);
    put_header(out, DATA, DATA_HEADER + piece.bytes.len());
    out.put_u64_le(number);
    out.put_u64_le(piece.from.as_u64());
    out.put_u64_le(piece.to.as_u64());
    out.put_u8(u8::from(piece.last));
    out.put_slice(&piece.bytes);
}

fn put_word(out: &mut Vec<u8>, kind: u8, word: u64) {
    put_header(out, kind, 8);
    out.put_u64_le(word);
}

fn put_header(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.put_u32_le(len as u32);
    out.put_u8(kind);
}

/// Cuts what arrives into frames.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: BytesMut,
}

impl Reader {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// [`LinkError::Garbage`] when there is none and never will be.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, LinkError> {
        let Some(header) = self.buffer.get(..HEADER) else { return Ok(None) };
        let (len, kind) = ((&header[..4]).get_u32_le() as usize, header[4]);
        let (least, most) = match kind {
            DATA => (DATA_HEADER, DATA_HEADER + MAX_PIECE),
            ACK | PING | PONG => (8, 8),
            BYE => (0, MAX_BYE),
            _ => return Err(LinkError::Garbage("a kind of frame that is unknown")),
        };
        // Before anything is allocated for it.
        if len < least || len > most {
            return Err(LinkError::Garbage("a frame of an impossible length"));
        }
        if self.buffer.len() < HEADER + len {
            self.buffer.reserve(HEADER + len - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        let mut body = self.buffer.split_to(len);
        Ok(Some(match kind {
            DATA => {
                let number = body.get_u64_le();
                let (from, to) = (body.get_u64_le(), body.get_u64_le());
                let last = match body.get_u8() {
                    0 => false,
                    1 => true,
                    _ => return Err(LinkError::Garbage("a flag that is neither 0 nor 1")),
                };
                let (from, to) = (ProcId::from_u64(from), ProcId::from_u64(to));
                Frame::Data { number, piece: Piece { from, to, last, bytes: body.freeze() } }
            }
            ACK => Frame::Ack { number: body.get_u64_le() },
            PING => Frame::Ping { tag: body.get_u64_le() },
            PONG => Frame::Pong { tag: body.get_u64_le() },
            _ => {
                let reason =
                    std::str::from_utf8(&body).map_err(|_| LinkError::Garbage("a reason that is no text"))?;
                Frame::Bye { reason: reason.to_owned() }
            }
        }))
    }
}

#[cfg(test)]
mod tests;
