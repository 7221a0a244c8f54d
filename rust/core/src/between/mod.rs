//! The order of what goes between hosts, as the agents keep it. Over one link messages arrive in order; these two see
//! to it where what belongs together goes over two.
//!
//! - [`news`]: what is told of a dead process waits for what it has said itself.
//! - [`barriers`]: what is told the head waits for what was sent to third hosts before.
//!
//! `M` is a message: bytes for the agent, a value for the simulation.

pub mod barriers;
pub mod news;

pub use barriers::{Barriers, Word};
pub use news::News;
