//! Where code runs: the task and actor of the current thread, and the process's identity.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use raymesh_wire::{ActorId, HostId, TaskId};

use crate::session;

/// The call that a thread runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) task: Option<TaskId>,
    pub(crate) task_name: Arc<str>,
    pub(crate) function_name: Arc<str>,
}

/// The actor of this process.
#[derive(Clone, Debug)]
pub(crate) struct ActorContext {
    pub(crate) id: ActorId,
    pub(crate) name: String,
    pub(crate) handle: Bytes,
    pub(crate) restarts: u32,
    pub(crate) gpus: Vec<u32>,
    pub(crate) resources: raymesh_wire::ResourceSet,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Calls that an event loop runs, by their tokens. Which one runs now only the loop's tasks know.
static INTERLEAVED: Mutex<BTreeMap<u64, Running>> = Mutex::new(BTreeMap::new());

static ACTOR: Mutex<Option<ActorContext>> = Mutex::new(None);

/// Sets what this thread runs; answers what it ran before.
pub(crate) fn enter(running: Option<Running>) -> Option<Running> {
    RUNNING.with(|cell| std::mem::replace(&mut *cell.borrow_mut(), running))
}

/// An event loop runs this call from now on.
pub(crate) fn enter_interleaved(token: u64, running: Running) {
    INTERLEAVED.lock().insert(token, running);
}

pub(crate) fn leave_interleaved(token: u64) {
    INTERLEAVED.lock().remove(&token);
}

/// Whether this thread runs a call, and so holds CPUs.
pub(crate) fn in_call() -> bool {
    RUNNING.with(|cell| cell.borrow().is_some()) || !INTERLEAVED.lock().is_empty()
}

/// What runs here: in an event loop, the call that the current asyncio task belongs to.
fn running(py: Python<'_>) -> PyResult<Option<Running>> {
    let own = RUNNING.with(|cell| cell.borrow().clone());
    if own.is_some() || INTERLEAVED.lock().is_empty() {
        return Ok(own);
    }
    let token = py.import("raymesh._worker.actors")?.getattr("current_call")?.call_method1("get", (0,))?;
    Ok(INTERLEAVED.lock().get(&token.extract()?).cloned())
}

pub(crate) fn become_actor(actor: ActorContext) {
    *ACTOR.lock() = Some(actor);
}

/// This process's actor and its creator's handle bytes.
pub(crate) fn actor() -> Option<(ActorId, Bytes)> {
    ACTOR.lock().as_ref().map(|actor| (actor.id, actor.handle.clone()))
}

/// 28 bytes of a host: Ray's node id. Programs on one host have names of their own for it.
pub(crate) fn node_bytes(host: HostId, session: &str) -> [u8; 28] {
    let mut out = host.to_ray_bytes();
    if !session.contains(session::OF_CLUSTER) {
        out[..16].copy_from_slice(&xxhash_rust::xxh3::xxh3_128(session.as_bytes()).to_le_bytes());
    }
    out
}

#[pyfunction]
pub(crate) fn context(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let session = session::ensure(py)?;
    let me = session.proc.me();
    let out = PyDict::new(py);
    out.set_item("job_id", PyBytes::new(py, &session.job().0.to_le_bytes()))?;
    out.set_item("node_id", PyBytes::new(py, &node_bytes(me.host(), &session.name)))?;
    let mut worker = node_bytes(me.host(), &session.name);
    worker[..16].copy_from_slice(&xxhash_rust::xxh3::xxh3_128(session.name.as_bytes()).to_le_bytes());
    worker[16..24].copy_from_slice(&me.as_u64().to_be_bytes());
    out.set_item("worker_id", PyBytes::new(py, &worker))?;
    let running = running(py)?;
    let task = running.as_ref().and_then(|running| running.task);
    out.set_item("task_id", task.map(|task| PyBytes::new(py, &task.to_ray_bytes(session.job()))))?;
    out.set_item("task_name", running.as_ref().map_or("", |running| &running.task_name))?;
    out.set_item("function_name", running.as_ref().map_or("", |running| &running.function_name))?;
    let actor = ACTOR.lock().clone();
    out.set_item(
        "actor_id",
        actor.as_ref().map(|actor| PyBytes::new(py, &actor.id.to_ray_bytes(session.job()))),
    )?;
    out.set_item("actor_name", actor.as_ref().map(|actor| actor.name.clone()))?;
    out.set_item("namespace", session.namespace.read().clone())?;
    out.set_item("restarts", actor.as_ref().map_or(0, |actor| actor.restarts))?;
    let (resources, gpus) = match actor {
        Some(actor) => (actor.resources, actor.gpus),
        None => session
            .proc
            .read_core(|core| core.lease().map(|(_, resources, gpus)| (resources.clone(), gpus.clone())))
            .unwrap_or_default(),
    };
    let amounts = PyDict::new(py);
    for (name, amount) in resources.iter() {
        amounts.set_item(name, amount.to_f64())?;
    }
    out.set_item("resources", amounts)?;
    out.set_item("gpu_ids", gpus)?;
    let group = session.proc.read_core(|core| core.group());
    let group = group.map(|it| (PyBytes::new(py, &it.group.to_ray_bytes(session.job())), it.capture));
    out.set_item("group", group)?;
    out.set_item("is_driver", !session.worker)?;
    out.set_item("session_name", session.name.clone())?;
    Ok(out)
}
