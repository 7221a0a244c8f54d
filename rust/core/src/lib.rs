//! The brain of raymesh: every decision, and no I/O.
//!
//! - [`between`]: one per host. The order of what goes to other hosts and comes from them.
//! - [`controller`]: one per cluster. Hosts, resources, leases, actors, names, functions, deaths.
//! - [`estates`]: the part of the controller that settles what the dead leave behind.
//! - [`head`]: one per cluster of several hosts. What the head knows beside the controller, and what it goes on from
//!   when it was lost.
//! - [`host`]: one per host. Which worker process does what, and when to start or end one.
//! - [`process`]: one per process. Objects owned and borrowed, calls submitted and executed.
//!
//! State machines of the form `handle(now, event, effects)`: no clock, socket, thread or randomness
//! inside, and the same events always give the same effects. `now` is nanoseconds since any fixed
//! moment, never decreasing.

pub mod between;
pub mod controller;
mod estates;
pub mod head;
pub mod host;
pub mod process;
