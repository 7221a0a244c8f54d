//! Links between hosts.
//!
//! Two hosts have one link. What one gives to it arrives at the other once and in order, however often
//! the connection below breaks, until one of them is declared dead. A connection counts only after both
//! ends have proved that they know the cluster's token; nothing that a stranger sends goes further.
//!
//! - [`join`]: the string that a host needs to join. [`token`]: the secret in it, and proofs of it.
//! - [`hello`]: the first words on a connection, and versions. [`handshake`]: both ends' way through them.
//! - [`frame`]: what travels on a connection after that.
//! - [`session`]: numbers, acknowledgements, what to send again. Pure.
//! - [`peer`]: when to dial, when to wait, when to give a host up. Pure.
//! - [`tls`], [`conn`]: a connection, encrypted or not, without blocking.
//! - [`lane`]: a connection for large things, which blocks.
//! - [`hub`]: all links of a host, in one loop. [`ask`]: one question to a cluster, from outside.
//!
//! `peer` and `session` know no socket and no clock: they are told what happens, and what time it is.

// The wall is for `core`; this crate is a mechanism. Clocks stay outside nevertheless.
#![allow(clippy::disallowed_methods)]

pub mod ask;
pub mod conn;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod hello;
pub mod hub;
pub mod join;
pub mod lane;
pub mod peer;
pub mod session;
pub mod tls;
pub mod token;

pub use ask::{Target, ask};
pub use error::{JoinError, LinkError};
pub use hub::{Event, FOREIGN, Hub, HubConfig};
pub use join::JoinString;
pub use lane::{Body, Hangup, Header, Lane};
pub use peer::Timing;
pub use token::Token;
