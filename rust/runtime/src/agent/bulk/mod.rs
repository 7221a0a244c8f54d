//! Bytes of large objects on their way between this host's arena and others', by threads of their own.
//!
//! The agent says what is to arrive and what is to be sent; for each lane a thread moves pieces between the
//! arena and the socket, without asking anybody. So a gigabyte, encrypted or not, holds up neither the
//! control link nor the agent.
//!
//! - [`depot`]: what both sides share: what is to be done, what is done, and news for the agent.
//! - [`pieces`]: which pieces of an object are here. [`sending`]: whose turn it is.
//! - [`lanes`]: the threads.

mod depot;
mod lanes;
mod pieces;
mod sending;

#[cfg(test)]
mod tests;

pub use depot::{Arrival, Consignment, Depot, News};
