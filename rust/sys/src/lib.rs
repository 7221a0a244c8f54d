//! The few raw system calls that the runtime needs, behind signatures that are safe to call.
//!
//! - [`fork`]: whether this is the process that it was, or a forked child of it.
//! - [`futex`]: wait and wake across processes.
//! - [`memfd`]: anonymous shared memory that nobody can resize, and holes in it.
//! - [`mapping`]: memory maps that unmap themselves.
//! - [`fd`]: descriptors that cross `fork` and `exec`; eventfd.
//! - [`process`]: pidfd, parent-death signal, subreaper, thread name.
//! - [`signals`]: which threads get them.
//! - [`tcp`]: what the system knows of a connection.
//! - [`cpu`]: cores at this process's disposal; the pause between two polls.
//!
//! With `raymesh-shm`, the only crate that contains `unsafe`.
#![allow(unsafe_code)]

pub mod cpu;
pub mod fd;
pub mod fork;
pub mod futex;
pub mod mapping;
pub mod memfd;
pub mod process;
pub mod signals;
pub mod tcp;

pub use cpu::{online_cpus, spin_hint};
pub use mapping::{Mapping, PAGE};
