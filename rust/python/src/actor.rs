//! `Actor` and `Method`: the native part of actor handles.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use raymesh_core::process::{ActorCallSpec, CreateActor, Process};
use raymesh_runtime::process::{Proc, Waited};
use raymesh_wire::control::{ActorInfo, ActorSpec};
use raymesh_wire::placement::Strategy;
use raymesh_wire::{ActorId, FromController, ObjectId, ToController, Value};

use crate::call;
use crate::definition::Definition;
use crate::environment;
use crate::errors::Failure;
use crate::function::{call_options, returned};
use crate::object_ref::{decode_id, encode_id, note_pickled};
use crate::session::{self, Session};
use crate::wish::Wanted;

/// A handle: counted (it keeps the actor alive) or not (the actor's own).
#[pyclass(frozen, module = "raymesh._native", weakref)]
pub(crate) struct Actor {
    id: ActorId,
    counted: bool,
    proc: Arc<Proc>,
}

impl Drop for Actor {
    fn drop(&mut self) {
        if self.counted {
            self.proc.release(Process::actor_handle(self.id));
        }
    }
}

impl Actor {
    /// Takes over the hold that came with the answer. The actor's own handle must not keep it alive.
    fn found(id: ActorId, session: &Session) -> Self {
        let counted = crate::context::actor().is_none_or(|(own, _)| own != id);
        if !counted {
            session.proc.release(Process::actor_handle(id));
        }
        Self { id, counted, proc: Arc::clone(&session.proc) }
    }

    pub(crate) const fn uncounted(id: ActorId, proc: Arc<Proc>) -> Self {
        Self { id, counted: false, proc }
    }
}

type Amounts = std::collections::BTreeMap<String, f64>;

#[pymethods]
impl Actor {
    #[staticmethod]
    #[pyo3(signature = (definition, args, kwargs, *, resources, placement, wish, name, namespace,
        detached, max_restarts, max_concurrency, handle, env=None))]
    #[allow(clippy::too_many_arguments)]
    fn create(
        py: Python<'_>,
        definition: &Bound<'_, Definition>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
        resources: Amounts,
        placement: Amounts,
        wish: Wanted,
        name: String,
        namespace: String,
        detached: bool,
        max_restarts: i64,
        max_concurrency: u32,
        handle: &Bound<'_, PyBytes>,
        env: Option<&[u8]>,
    ) -> PyResult<Self> {
        let session = session::ensure(py)?;
        let definition = definition.get();
        definition.publish(&session);
        let (arguments, _held) = call::pack(py, &session, args, Some(kwargs))?;
        let named = !name.is_empty();
        let namespace = if namespace.is_empty() { session.namespace.read().clone() } else { namespace };
        let (actor, group) = session.proc.with_core(|core, _, _| (core.next_actor(), core.captured_group()));
        let mut resolved = wish.resolve(&session);
        if let Some(group) = group.filter(|_| wish.inherits) {
            resolved.strategy = Strategy::Group(group);
        }
        let spec = ActorSpec {
            actor,
            job: session.job(),
            class: definition.id,
            class_name: definition.name().to_owned(),
            args: Value::Inline(Bytes::new()),
            args_object: None,
            deps: Vec::new(),
            refs: Vec::new(),
            resources: session::resource_set(resources),
            placement: session::resource_set(placement),
            wish: resolved,
            name,
            namespace,
            detached,
            max_restarts,
            max_concurrency,
            handle: Bytes::copy_from_slice(handle.as_bytes()),
            env: environment::of(&session, env),
        };
        session.proc.with_core(|core, _, fx| core.create_actor(CreateActor { spec, arguments }, fx));
        let made = Self { id: actor, counted: true, proc: Arc::clone(&session.proc) };
        if named {
            made.await_name(py, &session)?;
        }
        Ok(made)
    }

    /// The living actor of that name, and the bytes that its creator gave for handles.
    #[staticmethod]
    fn find(py: Python<'_>, name: &str, namespace: &str) -> PyResult<(Self, Py<PyBytes>)> {
        let session = session::ensure(py)?;
        let namespace =
            if namespace.is_empty() { session.namespace.read().clone() } else { namespace.to_owned() };
        let answer = ask(py, &session, |request| ToController::LookupActor {
            request,
            name: name.to_owned(),
            namespace: namespace.clone(),
        })?;
        let FromController::ActorFound { found, .. } = answer else { return Err(unexpected()) };
        match found {
            Ok(info) => {
                let handle = PyBytes::new(py, &info.handle).unbind();
                Ok((Self::found(info.actor, &session), handle))
            }
            Err(missing) => {
                let mut text = format!(
                    "Failed to look up actor '{name}': no living actor of that name in namespace '{namespace}'."
                );
                if missing.elsewhere.is_empty() {
                    text.push_str(" It was never created with that name, or it has died.");
                } else {
                    text.push_str(&format!(
                        "\nhint: namespace(s) {} have one: get_actor(name, namespace=...)",
                        missing.elsewhere.join(", ")
                    ));
                }
                Err(PyValueError::new_err(text))
            }
        }
    }

    #[staticmethod]
    fn list_named<'py>(py: Python<'py>, all_namespaces: bool) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let session = session::ensure(py)?;
        let answer = ask(py, &session, |request| ToController::ListActors { request })?;
        let FromController::Actors { actors, .. } = answer else { return Err(unexpected()) };
        let dead = |info: &ActorInfo| matches!(info.state, raymesh_wire::control::ActorState::Dead { .. });
        let wanted = |info: &ActorInfo| {
            !info.name.is_empty()
                && !dead(info)
                && (all_namespaces || info.namespace == *session.namespace.read())
        };
        actors
            .into_iter()
            .filter(wanted)
            .map(|info| {
                let item = PyDict::new(py);
                item.set_item("name", info.name)?;
                item.set_item("namespace", info.namespace)?;
                Ok(item)
            })
            .collect()
    }

    fn id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.id.to_ray_bytes(session::job()))
    }

    #[pyo3(signature = (
        name, *, num_returns, max_task_retries, retry_exceptions, concurrency_group, task_name
    ))]
    fn method(
        slf: &Bound<'_, Self>,
        name: String,
        num_returns: u32,
        max_task_retries: i32,
        retry_exceptions: &Bound<'_, PyAny>,
        concurrency_group: &str,
        task_name: &str,
    ) -> PyResult<Method> {
        let _ = concurrency_group;
        Ok(Method {
            actor: slf.clone().unbind(),
            name,
            num_returns,
            max_retries: max_task_retries,
            options: call_options(slf.py(), retry_exceptions, task_name)?,
        })
    }

    fn kill(&self, py: Python<'_>, no_restart: bool) -> PyResult<()> {
        self.belongs_to(py, &*session::ensure(py)?)?;
        self.proc.tell_controller(ToController::KillActor { actor: self.id, no_restart });
        Ok(())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        if self.counted {
            note_pickled(Process::actor_handle(self.id), &self.proc);
        }
        let restore = py.import("raymesh._native")?.getattr("restore_actor")?;
        let raw = encode_id(Process::actor_handle(self.id));
        (restore, (PyBytes::new(py, &raw), self.counted)).into_pyobject(py)
    }

    fn __hash__(&self) -> u64 {
        self.id.creator.as_u64().rotate_left(32) ^ u64::from(self.id.seq)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().id == self.id)
    }
}

impl Actor {
    /// Ids begin anew in each session: a handle of an ended one must not meet another actor.
    fn belongs_to(&self, py: Python<'_>, session: &Session) -> PyResult<()> {
        if Arc::ptr_eq(&self.proc, &session.proc) {
            return Ok(());
        }
        let text = "ActorHandle objects are not valid across sessions: this handle was made before \
                    shutdown(). Create the actor again, or get it by name.";
        Err(crate::errors::exception(py, "ActorHandleNotFound", text.as_bytes(), ""))
    }

    /// Waits until the controller has taken the name, or refused it.
    fn await_name(&self, py: Python<'_>, session: &Session) -> PyResult<()> {
        let waiting = session.proc.waiting(None, false);
        loop {
            let refusal = Mutex::new(None);
            let waited = py.detach(|| {
                session.proc.wait_until(waiting, |proc| {
                    // In this order: a refusal arrives before the state.
                    let known = proc.read_core(|core| core.knows_actor(self.id));
                    let mut refusal = refusal.lock();
                    if refusal.is_none() {
                        *refusal = proc.take_refusal(self.id);
                    }
                    known || refusal.is_some()
                })
            });
            match (waited, refusal.into_inner()) {
                (_, Some(reason)) => {
                    return Err(crate::errors::exception(py, "ActorAlreadyExists", reason.as_bytes(), ""));
                }
                (Waited::Done, None) => return Ok(()),
                (Waited::Interrupted, None) => py.check_signals()?,
                _ => return Err(Failure::from(session.proc.stopped()).into()),
            }
        }
    }
}

/// Asks the controller.
pub(crate) fn ask(
    py: Python<'_>,
    session: &Session,
    question: impl FnOnce(raymesh_wire::RequestId) -> ToController + Send,
) -> PyResult<FromController> {
    let answer = py.detach(|| {
        session.proc.ask(question, || Python::attach(|py| py.check_signals()).map_err(Failure::Python))
    });
    answer.map_err(PyErr::from)
}

pub(crate) fn unexpected() -> PyErr {
    PyRuntimeError::new_err(
        "the controller gave an answer of another kind: please report this as a bug in raymesh",
    )
}

/// Unpickles a handle.
#[pyfunction]
pub(crate) fn restore_actor(py: Python<'_>, raw: &[u8], counted: bool) -> PyResult<Actor> {
    let object: ObjectId = decode_id(raw)?;
    let session = session::ensure(py)?;
    if counted {
        session.proc.hold(object);
    }
    let id = ActorId { creator: object.owner, seq: object.seq as u32 };
    Ok(Actor { id, counted, proc: Arc::clone(&session.proc) })
}

/// A method of an actor, with its options.
#[pyclass(frozen, module = "raymesh._native")]
pub(crate) struct Method {
    actor: Py<Actor>,
    name: String,
    num_returns: u32,
    max_retries: i32,
    options: Bytes,
}

#[pymethods]
impl Method {
    #[pyo3(signature = (*args, **kwargs))]
    fn remote(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let session = session::ensure(py)?;
        self.actor.get().belongs_to(py, &session)?;
        let (arguments, _held) = call::pack(py, &session, args, kwargs)?;
        let spec = ActorCallSpec {
            actor: self.actor.get().id,
            method: self.name.clone(),
            arguments,
            num_returns: self.num_returns,
            max_retries: self.max_retries,
            options: self.options.clone(),
        };
        let (_, flags) = session.proc.with_core(|core, _, fx| core.submit_actor_call(spec, fx));
        returned(py, &session, flags)
    }
}

/// The actor that runs this code, and its creator's handle bytes.
#[pyfunction]
pub(crate) fn current_actor(py: Python<'_>) -> PyResult<Option<(Actor, Py<PyBytes>)>> {
    let Some(session) = session::current() else { return Ok(None) };
    let Some((id, handle)) = crate::context::actor() else { return Ok(None) };
    Ok(Some((Actor::uncounted(id, Arc::clone(&session.proc)), PyBytes::new(py, &handle).unbind())))
}

/// Tells the controller that this actor ends by its own will.
#[pyfunction]
pub(crate) fn exit_actor(py: Python<'_>) -> PyResult<()> {
    if leave(&*session::ensure(py)?) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err("exit_actor called on a process that is not an actor"))
}

/// The actor that this process is ends by its own will: it is not restarted. False: it is none.
pub(crate) fn leave(session: &Session) -> bool {
    let Some((actor, _)) = crate::context::actor() else { return false };
    session.proc.tell_controller(ToController::ActorExited { actor });
    session.proc.request_exit(raymesh_wire::control::ExitReason::OutOfScope);
    true
}
