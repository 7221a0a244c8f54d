//! Where the state machines of `core` meet the machine: threads, clocks, sockets and processes.
//!
//! - [`agent`]: one per host. Hosts the controller and the host's state machine, owns the shared
//!   memory and the worker processes.
//! - [`process`]: one per process. Its share of the cluster, at work.
//! - [`life`]: no worker outlives its driver.
//! - [`clock`]: what the state machines are told as `now`.
// The walls of clippy.toml keep time, threads and the environment out of core: here is where they
// belong.
#![allow(clippy::disallowed_methods)]

pub mod agent;
pub mod clock;
pub mod life;
pub mod process;

pub use agent::{Agent, AgentConfig, OutputLine, OutputReader, StartError};
