//! The first words on a connection: versions, proofs of the token, and what the connection is for.
//!
//! ```text
//! acceptor  "RMSH" version (u16) release (u8 length, text) layout (u64) nonce (32)          Greeting
//! dialer    "RMSH" version (u16) release (u8 length, text) layout (u64) nonce (32)
//!           proof (32) purpose (u32 length, bytes)                                          Hello
//! acceptor  1, proof (32), what it has to say (u32 length, bytes)                           Welcome
//!           or 0, a code (u8), text (u32 length, bytes)                                     Refusal
//! ```
//!
//! Magic, version and release stand where they stand in every version, so that ends of different versions
//! can tell each other so. Builds of one version may still differ in the layout of a message ([`raymesh_wire::LAYOUT`]): these
//! tell each other so, too. Nothing but these few fields of bounded length is read before the proof was
//! checked.

use bytes::{Buf, BufMut};
use raymesh_wire::{HostId, LAYOUT, WIRE_VERSION};
use serde::{Deserialize, Serialize};

use crate::error::LinkError;
use crate::token::{Nonce, Nonces, Proof, Side, Token};

pub(crate) const MAGIC: &[u8; 4] = b"RMSH";
/// Version of the protocol between hosts: of the frames and of what is in them.
pub const VERSION: u16 = WIRE_VERSION;
/// For people.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Most bytes of a purpose, and of an answer to it.
pub const MAX_TEXT: usize = 1 << 20;
const MAX_REFUSAL: usize = 4096;

/// What a connection is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// A host that is not in the cluster yet asks to be taken in; how it describes itself is for its agent.
    Join { about: Vec<u8> },
    /// The link of two hosts, at its beginning or again.
    Link {
        from: HostId,
        to: HostId,
        /// The last number that arrived at the dialer.
        received: u64,
    },
    /// A connection beside that link, for large things ([`crate::lane`]). They go one way only: from the dialer
    /// if it `sends`, else to it.
    Bulk { from: HostId, to: HostId, sends: bool },
    /// Somebody who knows the token asks something, without being a host.
    Ask { question: Vec<u8> },
}

/// Why an acceptor refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    BadToken = 1,
    /// The host was declared dead, or never was.
    Stale = 2,
    /// The two sessions do not fit together.
    Gap = 3,
    /// The acceptor has not heard of the dialer's host yet.
    Unknown = 4,
    /// See the text.
    Other = 5,
    /// The acceptor is the head, started again: the text is its new number.
    Moved = 6,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub version: u16,
    pub release: String,
    pub nonce: Nonce,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    pub release: String,
    pub nonce: Nonce,
    pub proof: Proof,
    /// Encoded [`Purpose`]: decoded only when the proof is good.
    pub purpose: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Welcome { proof: Proof, says: Vec<u8> },
    Refusal { code: u8, text: String },
}

/// The acceptor's greeting.
#[must_use]
pub fn greeting(nonce: &Nonce) -> Vec<u8> {
    let mut out = Vec::new();
    put_preface(&mut out, nonce);
    out
}

/// What a dialer answers to a greeting.
#[must_use]
pub fn hello(token: &Token, nonces: &Nonces, exporter: &[u8], purpose: &Purpose) -> Vec<u8> {
    let mut out = Vec::new();
    put_preface(&mut out, &nonces.dialer);
    out.put_slice(&token.prove(Side::Dialer, nonces, exporter));
    put_bytes(&mut out, &encode_purpose(purpose));
    out
}

/// The acceptor's good answer.
#[must_use]
pub fn welcome(token: &Token, nonces: &Nonces, exporter: &[u8], says: &[u8]) -> Vec<u8> {
    let mut out = vec![1];
    out.put_slice(&token.prove(Side::Acceptor, nonces, exporter));
    put_bytes(&mut out, says);
    out
}

/// The acceptor's bad answer.
#[must_use]
pub fn refusal(code: Code, text: &str) -> Vec<u8> {
    let mut out = vec![0, code as u8];
    let mut end = text.len().min(MAX_REFUSAL);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put_bytes(&mut out, &text.as_bytes()[..end]);
    out
}

fn put_preface(out: &mut Vec<u8>, nonce: &Nonce) {
    out.put_slice(MAGIC);
    out.put_u16_le(VERSION);
    out.put_u8(RELEASE.len() as u8);
    out.put_slice(RELEASE.as_bytes());
    out.put_u64_le(LAYOUT);
    out.put_slice(nonce);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

fn encode_purpose(purpose: &Purpose) -> Vec<u8> {
    // Plain data of bounded size into a growing buffer.
    postcard::to_allocvec(purpose).unwrap_or_default()
}

/// What the dialer wants. Only after its proof was checked.
///
/// # Errors
/// [`LinkError::Garbage`].
pub fn decode_purpose(bytes: &[u8]) -> Result<Purpose, LinkError> {
    match postcard::take_from_bytes(bytes) {
        Ok((purpose, [])) => Ok(purpose),
        _ => Err(LinkError::Garbage("a purpose that does not parse")),
    }
}

/// Reads a greeting, once it is all there; and how long it was.
///
/// # Errors
/// When the other end is no raymesh, or of another version.
pub fn read_greeting(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, LinkError> {
    let mut input = Input { rest: bytes };
    let Some((version, release)) = input.preface(bytes)? else { return Ok(None) };
    check_version(version, &release)?;
    let Some(layout) = input.number() else { return Ok(None) };
    check_layout(layout, &release)?;
    let Some(nonce) = input.array() else { return Ok(None) };
    Ok(Some((Greeting { version, release, nonce }, bytes.len() - input.rest.len())))
}

/// Reads what a dialer says, once it is all there; and how long it was.
///
/// # Errors
/// When the other end is no raymesh, or of another version.
pub fn read_hello(bytes: &[u8]) -> Result<Option<(Hello, usize)>, LinkError> {
    let mut input = Input { rest: bytes };
    let Some((version, release)) = input.preface(bytes)? else { return Ok(None) };
    check_version(version, &release)?;
    let Some(layout) = input.number() else { return Ok(None) };
    check_layout(layout, &release)?;
    let (Some(nonce), Some(proof)) = (input.array(), input.array()) else { return Ok(None) };
    let Some(purpose) = input.bytes(MAX_TEXT)? else { return Ok(None) };
    let hello = Hello { version, release, nonce, proof, purpose };
    Ok(Some((hello, bytes.len() - input.rest.len())))
}

/// Reads the acceptor's answer, once it is all there; and how long it was.
///
/// # Errors
/// [`LinkError::Garbage`].
pub fn read_answer(bytes: &[u8]) -> Result<Option<(Answer, usize)>, LinkError> {
    let mut input = Input { rest: bytes };
    let answer = match input.byte() {
        None => return Ok(None),
        Some(1) => {
            let Some(proof) = input.array() else { return Ok(None) };
            let Some(says) = input.bytes(MAX_TEXT)? else { return Ok(None) };
            Answer::Welcome { proof, says }
        }
        Some(0) => {
            let Some(code) = input.byte() else { return Ok(None) };
            let Some(text) = input.bytes(MAX_REFUSAL)? else { return Ok(None) };
            Answer::Refusal { code, text: String::from_utf8_lossy(&text).into_owned() }
        }
        Some(_) => return Err(LinkError::Garbage("an answer that is neither yes nor no")),
    };
    Ok(Some((answer, bytes.len() - input.rest.len())))
}

/// What a refusal means for the dialer.
#[must_use]
pub fn refused(code: u8, text: String) -> LinkError {
    match code {
        code if code == Code::BadToken as u8 => LinkError::BadToken,
        code if code == Code::Stale as u8 => LinkError::Stale,
        code if code == Code::Gap as u8 => LinkError::Gap,
        code if code == Code::Moved as u8 => match text.parse() {
            Ok(to) => LinkError::Moved { to: HostId(to) },
            Err(_) => LinkError::Garbage("a head without a number"),
        },
        _ => LinkError::Refused(text),
    }
}

fn check_version(theirs: u16, their_release: &str) -> Result<(), LinkError> {
    if theirs == VERSION {
        return Ok(());
    }
    Err(LinkError::Version {
        ours: VERSION,
        our_release: RELEASE.to_owned(),
        theirs,
        their_release: their_release.to_owned(),
    })
}

fn check_layout(theirs: u64, their_release: &str) -> Result<(), LinkError> {
    if theirs == LAYOUT {
        return Ok(());
    }
    Err(LinkError::Build {
        ours: LAYOUT,
        our_release: RELEASE.to_owned(),
        theirs,
        their_release: their_release.to_owned(),
    })
}

struct Input<'a> {
    rest: &'a [u8],
}

impl Input<'_> {
    /// Version and release. Tells a stranger by the first byte that is wrong.
    fn preface(&mut self, all: &[u8]) -> Result<Option<(u16, String)>, LinkError> {
        let seen = all.len().min(MAGIC.len());
        if all[..seen] != MAGIC[..seen] {
            return Err(LinkError::NotRaymesh { found: all[..all.len().min(64)].to_vec() });
        }
        if self.rest.len() < MAGIC.len() + 3 {
            return Ok(None);
        }
        self.rest.advance(MAGIC.len());
        let version = self.rest.get_u16_le();
        let len = usize::from(self.rest.get_u8());
        if self.rest.len() < len {
            return Ok(None);
        }
        let release = String::from_utf8_lossy(&self.rest[..len]).into_owned();
        self.rest.advance(len);
        Ok(Some((version, release)))
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn array(&mut self) -> Option<[u8; 32]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    fn bytes(&mut self, most: usize) -> Result<Option<Vec<u8>>, LinkError> {
        if self.rest.len() < 4 {
            return Ok(None);
        }
        let len = (&self.rest[..4]).get_u32_le() as usize;
        if len > most {
            return Err(LinkError::Garbage("a handshake of an impossible length"));
        }
        let Some(bytes) = self.rest.get(4..4 + len) else { return Ok(None) };
        let bytes = bytes.to_vec();
        self.rest.advance(4 + len);
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests;
