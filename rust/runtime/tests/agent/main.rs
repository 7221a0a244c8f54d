//! The agent with real processes: a Python zygote, and this program itself as worker and as driver.
// All of this is tests, though not all of it is in functions that clippy knows as such.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, clippy::zombie_processes)]

mod copies;
mod deaths;
mod hosts;
mod life;
mod memory;
mod output;
mod preload;
mod role;
mod support;
