//! `raymesh._native`: Python classes around the runtime. Converts and forwards; no policy.
//!
//! - [`session`]: the runtime of this process, as driver or worker.
//! - [`object_ref`], [`function`], [`actor`]: the classes that users hold. [`definition`]: what functions and
//!   actors are made of; [`loaded`]: those of others.
//! - [`call`]: arguments to a call and back. [`frame`]: values to bytes and back; [`view`]: shared
//!   memory as a Python buffer.
//! - [`objects`]: get, put, wait. [`locations`]: which hosts have an object. [`aio`]: completion for event loops and futures.
//! - [`worker`]: running calls. [`construction`]: becoming an actor. [`async_calls`]: calls for an
//!   event loop. [`context`]: where code runs. [`environment`]: what a worker takes up first.
//! - [`cluster`]: nodes and resources. [`group`]: placement groups. [`wish`]: where things are to run.
//! - [`host`]: a host without a driver.
//! - [`hooks`]: Python functions that the native part calls. [`errors`]: failures as exceptions.
//!
//! Locks are never held while Python code runs, and no thread waits for the GIL while it holds one.
#![allow(clippy::disallowed_methods)]

mod actor;
mod aio;
mod async_calls;
mod call;
mod cluster;
mod construction;
mod context;
mod definition;
mod environment;
mod errors;
mod frame;
mod function;
mod group;
mod hooks;
mod host;
mod loaded;
mod locations;
mod object_ref;
mod objects;
mod session;
mod view;
mod wish;
mod worker;

use pyo3::prelude::*;

// Without the GIL two threads could run the bookkeeping in `raymesh/*.py` at once, which nobody has
// looked at: a free-threaded interpreter takes its lock back when it imports this.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::actor::{Actor, Method, current_actor, exit_actor, restore_actor};
    #[pymodule_export]
    use super::aio::Completions;
    #[pymodule_export]
    use super::async_calls::AsyncCalls;
    #[pymodule_export]
    use super::cluster::{cluster_status, describe_cluster, drain_host};
    #[pymodule_export]
    use super::construction::Construction;
    #[pymodule_export]
    use super::context::context;
    #[pymodule_export]
    use super::definition::Definition;
    #[pymodule_export]
    use super::environment::{environment, set_environment};
    #[pymodule_export]
    use super::function::Function;
    #[pymodule_export]
    use super::group::{await_group, create_group, find_groups, remove_group};
    #[pymodule_export]
    use super::hooks::set_hooks;
    #[pymodule_export]
    use super::host::Host;
    #[pymodule_export]
    use super::locations::locate;
    #[pymodule_export]
    use super::object_ref::{ObjectRef, restore_ref};
    #[pymodule_export]
    use super::objects::{get, get_one, put, wait};
    #[pymodule_export]
    use super::session::{after_fork, is_running, is_worker, next_output, preload, start_driver, stop};
    #[pymodule_export]
    use super::view::{PrivateView, View};
    #[pymodule_export]
    use super::worker::{run_worker, serve};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("WIRE_VERSION", raymesh_wire::WIRE_VERSION)
    }
}
