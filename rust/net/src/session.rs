//! Each message once and in order, over connections that come and go.
//!
//! Every piece has a number. A sender keeps a piece until the other end has acknowledged it; after a
//! connection broke, both ends say which number arrived last, and go on after it. Pure: it is told which
//! connection there is, and asked what to send on it.

use std::collections::VecDeque;

use bytes::Bytes;
use raymesh_wire::ProcId;

use crate::error::LinkError;
use crate::frame::{MAX_PIECE, Piece};

/// So many bytes may be on their way unacknowledged before the receiver has to say how far it is.
const ACK_EVERY_BYTES: u64 = 1 << 20;
/// So many pieces likewise.
const ACK_EVERY_PIECES: u64 = 256;
/// Unacknowledged bytes of one link: then its sender is not fed any more.
const WINDOW: u64 = 64 << 20;

/// One message as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub from: ProcId,
    pub to: ProcId,
    pub bytes: Bytes,
}

/// Both directions of a link.
#[derive(Debug, Default)]
pub struct Session {
    /// Not acknowledged yet, oldest first; the first has the number `acked + 1`.
    kept: VecDeque<Piece>,
    kept_bytes: u64,
    acked: u64,
    /// The last number that was given to the present connection.
    sent: u64,
    /// The last number that arrived.
    received: u64,
    /// Arrived since this end has said how far it is.
    unsaid_pieces: u64,
    unsaid_bytes: u64,
    /// The pieces of a message whose last one has not arrived.
    partial: Vec<u8>,
}

impl Session {
    /// Takes a message on.
    pub fn push(&mut self, from: ProcId, to: ProcId, bytes: Bytes) {
        self.kept_bytes += bytes.len() as u64;
        let mut rest = bytes;
        while rest.len() > MAX_PIECE {
            let bytes = rest.split_to(MAX_PIECE);
            self.kept.push_back(Piece { from, to, last: false, bytes });
        }
        self.kept.push_back(Piece { from, to, last: true, bytes: rest });
    }

    /// Whether more should be taken on now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.kept_bytes < WINDOW
    }

    /// Whether anything is not acknowledged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bytes of messages that are kept.
    #[must_use]
    pub const fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// The last number that arrived here: what to tell the other end when a connection begins.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// A new connection; the other end says what arrived there last.
    ///
    /// # Errors
    /// [`LinkError::Gap`] when it speaks of another session than this one.
    pub fn resume(&mut self, theirs: u64) -> Result<(), LinkError> {
        let last = self.acked + self.kept.len() as u64;
        if theirs < self.acked || theirs > last {
            return Err(LinkError::Gap);
        }
        self.drop_until(theirs);
        self.sent = theirs;
        // The handshake has said it.
        (self.unsaid_pieces, self.unsaid_bytes) = (0, 0);
        Ok(())
    }

    /// The next piece for the present connection, with its number.
    pub fn next_piece(&mut self) -> Option<(u64, &Piece)> {
        let piece = self.kept.get(usize::try_from(self.sent - self.acked).ok()?)?;
        self.sent += 1;
        Some((self.sent, piece))
    }

    /// Whether [`Self::next_piece`] has one.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.sent - self.acked < self.kept.len() as u64
    }

    /// The other end has everything up to `number`.
    ///
    /// # Errors
    /// [`LinkError::Garbage`] when that was never sent.
    pub fn acknowledged(&mut self, number: u64) -> Result<(), LinkError> {
        if number > self.sent {
            return Err(LinkError::Garbage("an acknowledgement of what was not sent"));
        }
        self.drop_until(number);
        Ok(())
    }

    fn drop_until(&mut self, number: u64) {
        while self.acked < number
            && let Some(piece) = self.kept.pop_front()
        {
            self.acked += 1;
            self.kept_bytes -= piece.bytes.len() as u64;
        }
    }

    /// A piece has arrived; the message that ends with it.
    ///
    /// # Errors
    /// [`LinkError::Gap`] when one before it is missing: a connection keeps the order, so the other end is broken.
    pub fn arrived(&mut self, number: u64, piece: Piece) -> Result<Option<Message>, LinkError> {
        if number <= self.received {
            return Ok(None);
        }
        if number != self.received + 1 {
            return Err(LinkError::Gap);
        }
        self.received = number;
        self.unsaid_pieces += 1;
        self.unsaid_bytes += piece.bytes.len() as u64;
        let Piece { from, to, last, bytes } = piece;
        if !last {
            self.partial.extend_from_slice(&bytes);
            return Ok(None);
        }
        if self.partial.is_empty() {
            return Ok(Some(Message { from, to, bytes }));
        }
        self.partial.extend_from_slice(&bytes);
        Ok(Some(Message { from, to, bytes: std::mem::take(&mut self.partial).into() }))
    }

    /// Whether this end should say how far it is, without waiting for the next occasion.
    #[must_use]
    pub const fn owes_ack(&self) -> bool {
        self.unsaid_pieces >= ACK_EVERY_PIECES || self.unsaid_bytes >= ACK_EVERY_BYTES
    }

    /// Whether anything arrived that this end has not acknowledged.
    #[must_use]
    pub const fn has_unsaid(&self) -> bool {
        self.unsaid_pieces > 0
    }

    /// The acknowledgement to send; it counts as said.
    pub fn take_ack(&mut self) -> u64 {
        (self.unsaid_pieces, self.unsaid_bytes) = (0, 0);
        self.received
    }
}

#[cfg(test)]
mod tests;
