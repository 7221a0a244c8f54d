//! Both ends' way through the handshake, fed with what has arrived on a connection.

use crate::conn::Conn;
use crate::error::{JoinError, LinkError};
use crate::hello::{self, Answer, Code, Purpose};
use crate::tls::Fingerprint;
use crate::token::{Nonce, Nonces, Side, Token, nonce};

/// The dialer's.
#[derive(Debug)]
pub struct Dialer {
    token: Token,
    purpose: Purpose,
    /// Of the acceptor's certificate, where it is known beforehand.
    expected: Option<Fingerprint>,
    nonce: Nonce,
    /// Once the greeting was answered.
    nonces: Option<Nonces>,
}

impl Dialer {
    /// # Errors
    /// When the system has no randomness to give.
    pub fn new(token: Token, purpose: Purpose, expected: Option<Fingerprint>) -> Result<Self, JoinError> {
        Ok(Self { token, purpose, expected, nonce: nonce()?, nonces: None })
    }

    /// Goes on with what has arrived: what the acceptor says, once it has let us in.
    ///
    /// # Errors
    /// When it refuses, or is not who we think.
    pub fn advance(&mut self, conn: &mut Conn) -> Result<Option<Vec<u8>>, LinkError> {
        if !conn.is_secure() {
            return Ok(None);
        }
        let nonces = match self.nonces {
            Some(nonces) => nonces,
            None => {
                self.check_certificate(conn)?;
                let Some((greeting, len)) = hello::read_greeting(conn.arrived())? else { return Ok(None) };
                conn.take(len);
                let nonces = Nonces { acceptor: greeting.nonce, dialer: self.nonce };
                let hello = hello::hello(&self.token, &nonces, &conn.exporter()?, &self.purpose);
                conn.put(|out| out.extend_from_slice(&hello));
                *self.nonces.insert(nonces)
            }
        };
        let Some((answer, len)) = hello::read_answer(conn.arrived())? else { return Ok(None) };
        conn.take(len);
        match answer {
            Answer::Refusal { code, text } => Err(hello::refused(code, text)),
            Answer::Welcome { proof, says } => {
                if self.token.check(Side::Acceptor, &nonces, &conn.exporter()?, &proof) {
                    Ok(Some(says))
                } else {
                    Err(LinkError::BadToken)
                }
            }
        }
    }

    fn check_certificate(&self, conn: &Conn) -> Result<(), LinkError> {
        let (Some(expected), Some(found)) = (self.expected, conn.fingerprint()) else { return Ok(()) };
        if expected == found {
            return Ok(());
        }
        Err(LinkError::Fingerprint { expected: expected.to_string(), found: found.to_string() })
    }
}

/// The acceptor's.
#[derive(Debug)]
pub struct Acceptor {
    token: Token,
    nonce: Nonce,
    greeted: bool,
    /// Once the dialer's proof was good.
    nonces: Option<Nonces>,
}

impl Acceptor {
    /// # Errors
    /// When the system has no randomness to give.
    pub fn new(token: Token) -> Result<Self, JoinError> {
        Ok(Self { token, nonce: nonce()?, greeted: false, nonces: None })
    }

    /// Goes on with what has arrived: what the dialer wants, once it has proved that it may. It is answered
    /// by [`Self::welcome`] or [`refuse`].
    ///
    /// # Errors
    /// When the dialer is a stranger. It has been told then, where it would understand.
    pub fn advance(&mut self, conn: &mut Conn) -> Result<Option<Purpose>, LinkError> {
        if !conn.is_secure() {
            return Ok(None);
        }
        if !self.greeted {
            self.greeted = true;
            let greeting = hello::greeting(&self.nonce);
            conn.put(|out| out.extend_from_slice(&greeting));
        }
        let Some((hello, len)) = hello::read_hello(conn.arrived())? else { return Ok(None) };
        conn.take(len);
        let nonces = Nonces { acceptor: self.nonce, dialer: hello.nonce };
        if !self.token.check(Side::Dialer, &nonces, &conn.exporter()?, &hello.proof) {
            refuse(conn, Code::BadToken, "");
            return Err(LinkError::BadToken);
        }
        self.nonces = Some(nonces);
        hello::decode_purpose(&hello.purpose).map(Some)
    }

    /// Lets the dialer in.
    ///
    /// # Errors
    /// When the connection has failed meanwhile.
    pub fn welcome(&self, conn: &mut Conn, says: &[u8]) -> Result<(), LinkError> {
        let nonces = self.nonces.ok_or(LinkError::Garbage("nothing was asked"))?;
        let welcome = hello::welcome(&self.token, &nonces, &conn.exporter()?, says);
        conn.put(|out| out.extend_from_slice(&welcome));
        Ok(())
    }
}

/// Does not let the dialer in.
pub fn refuse(conn: &mut Conn, code: Code, text: &str) {
    let refusal = hello::refusal(code, text);
    conn.put(|out| out.extend_from_slice(&refusal));
}
