//! The order of what goes between hosts, as the agents keep it. Over one link messages arrive in order; these see
//! to it where what belongs together goes over two, or one end of the link is another one now.
//!
//! - [`news`]: what is told of a dead process waits for what it has said itself.
//! - [`barriers`]: what is told the head waits for what was sent to third hosts before.
//! - [`line`]: words between the controller and a host, which go on when the head has been started again.
//!
//! `M` is a message: bytes for the agent, a value for the simulation.

pub mod barriers;
pub mod line;
pub mod news;

pub use barriers::{Barriers, Word};
pub use line::Line;
pub use news::News;
