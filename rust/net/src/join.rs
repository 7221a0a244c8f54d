//! The one string that a host needs to join a cluster: `HOST:PORT/TOKEN.FINGERPRINT`.
//!
//! Token and fingerprint are 32 bytes each, in base64 for URLs without padding (RFC 4648, 5). A cluster whose
//! links are not encrypted has `plain` in the place of the fingerprint.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::JoinError;
use crate::tls::Fingerprint;
use crate::token::Token;

const PLAIN: &str = "plain";

/// Where the head is, the cluster's secret, and what the head's certificate must hash to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinString {
    /// A name or an address; IPv6 addresses without brackets.
    pub host: String,
    pub port: u16,
    pub token: Token,
    /// None: links are not encrypted.
    pub fingerprint: Option<Fingerprint>,
}

impl FromStr for JoinString {
    type Err = JoinError;

    fn from_str(text: &str) -> Result<Self, JoinError> {
        let malformed = |why| JoinError::Malformed { text: redacted(text), why };
        let trimmed = text.trim();
        let (address, secret) = trimmed.split_once('/').ok_or(malformed("it has no token"))?;
        let (host, port) = address.rsplit_once(':').ok_or(malformed("it has no port"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(malformed("it has no host"));
        }
        let port = port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or(malformed("its port is no number from 1 to 65535"))?;
        let (token, fingerprint) = secret.split_once('.').ok_or(malformed("it has no fingerprint"))?;
        let token = from_base64(token).ok_or(malformed("its token is cut off or mistyped"))?;
        let fingerprint = match fingerprint {
            PLAIN => None,
            text => {
                let print = from_base64(text).ok_or(malformed("its fingerprint is cut off or mistyped"))?;
                Some(Fingerprint(print))
            }
        };
        Ok(Self { host: host.to_owned(), port, token: Token::from_bytes(token), fingerprint })
    }
}

impl fmt::Display for JoinString {
    /// With the secret: for the one who is to join, not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = to_base64(self.token.as_bytes());
        let print = self.fingerprint.map_or_else(|| PLAIN.to_owned(), |print| to_base64(&print.0));
        if self.host.contains(':') {
            write!(f, "[{}]:{}/{token}.{print}", self.host, self.port)
        } else {
            write!(f, "{}:{}/{token}.{print}", self.host, self.port)
        }
    }
}

/// For error messages: without what comes after the address.
fn redacted(text: &str) -> String {
    match text.split_once('/') {
        Some((address, _)) => format!("{address}/..."),
        None => text.to_owned(),
    }
}

fn to_base64(bytes: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn from_base64(text: &str) -> Option<[u8; 32]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;
