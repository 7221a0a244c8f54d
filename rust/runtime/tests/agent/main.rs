//! The agent with real processes: a Python zygote, and this program itself as worker and as driver.
#![allow(clippy::disallowed_methods)]

mod deaths;
mod life;
mod memory;
mod output;
mod preload;
mod role;
mod support;
