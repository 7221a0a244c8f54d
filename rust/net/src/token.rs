//! The cluster's secret, and how two ends of a connection prove to each other that they know it.
//!
//! A proof is an HMAC-SHA-256 keyed by the token, over which side speaks, both sides' nonces, and the keying
//! material that TLS exports for this one connection (RFC 9266). So a proof is of no use on another
//! connection: who stands in the middle, with a certificate of their own, sees two connections with two
//! exporters, and can pass on neither side's proof.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::JoinError;

/// Which end of a connection a proof comes from: neither can be sent back as the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Dialer,
    Acceptor,
}

impl Side {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Dialer => b"raymesh dialer",
            Self::Acceptor => b"raymesh acceptor",
        }
    }
}

pub type Nonce = [u8; 32];
pub type Proof = [u8; 32];

/// A secret of 256 random bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    pub const LEN: usize = 32;

    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> Result<Self, JoinError> {
        random().map(Self)
    }

    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The proof that this side knows the token.
    #[must_use]
    pub fn prove(&self, side: Side, nonces: &Nonces, exporter: &[u8]) -> Proof {
        let mut proof = [0; 32];
        proof.copy_from_slice(self.sign(side, nonces, exporter).as_ref());
        proof
    }

    /// Whether the other side, `side`, has proved that it knows the token. Takes the same time whatever
    /// the answer.
    #[must_use]
    pub fn check(&self, side: Side, nonces: &Nonces, exporter: &[u8], proof: &Proof) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::verify(&key, &message(side, nonces, exporter), proof).is_ok()
    }

    fn sign(&self, side: Side, nonces: &Nonces, exporter: &[u8]) -> hmac::Tag {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::sign(&key, &message(side, nonces, exporter))
    }
}

impl fmt::Debug for Token {
    /// Never the secret: this ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What either side has added to make a handshake unlike any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonces {
    pub acceptor: Nonce,
    pub dialer: Nonce,
}

/// A fresh nonce.
///
/// # Errors
/// When the system has no randomness to give.
pub fn nonce() -> Result<Nonce, JoinError> {
    random()
}

fn random() -> Result<[u8; 32], JoinError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| JoinError::NoRandomness)?;
    Ok(bytes)
}

fn message(side: Side, nonces: &Nonces, exporter: &[u8]) -> Vec<u8> {
    let mut message = side.label().to_vec();
    message.push(0);
    message.extend_from_slice(&nonces.acceptor);
    message.extend_from_slice(&nonces.dialer);
    message.extend_from_slice(exporter);
    message
}

#[cfg(test)]
mod tests;
