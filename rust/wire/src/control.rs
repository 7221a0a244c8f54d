//! Processes, their host's agent, and the controller. Rare beside calls, so encoded with serde.
//!
//! - [`controller`]: any process and the controller.
//! - [`hosts`]: a host's agent and the controller.
//! - [`agent`]: a process and its host's agent.
//!
//! What these messages are about:
//!
//! - [`actors`]: what starts an actor, and how it stands.
//! - [`deaths`]: how a process ends.
//! - [`stock`]: what is left in the memory of the dead.

pub mod actors;
pub mod agent;
pub mod controller;
pub mod deaths;
pub mod hosts;
pub mod stock;

pub use crate::status::{BundleInfo, HostInfo};
pub use actors::{ActorInfo, ActorNotFound, ActorSpec, ActorState};
pub use agent::{Extent, FromAgent, HeapFull, NoCopy, ToAgent};
pub use controller::{FromController, ToController, WhichGroups};
pub use deaths::{Death, DeathCause, ExitReason, LastCall};
pub use hosts::{FromHost, ToHost};
pub use stock::{Stock, Trace};
