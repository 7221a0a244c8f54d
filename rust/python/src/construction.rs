//! A worker becomes an actor: its instance, and how that is made.

use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use raymesh_wire::control::ActorSpec;
use raymesh_wire::{ErrorKind, ErrorValue, ToController};

use crate::call;
use crate::context::{self, ActorContext, Running};
use crate::environment;
use crate::session::{self, Session};
use crate::worker::{announce, announce_whole, apply_environment, error_value, load_function};

/// The actor's instance and the name of its class.
static INSTANCE: Mutex<Option<(Py<PyAny>, Arc<str>)>> = Mutex::new(None);

/// Full names of its methods.
static METHOD_NAMES: Mutex<Option<HashMap<String, Arc<str>>>> = Mutex::new(None);

/// The instance of the actor that this process is.
pub(crate) fn instance(py: Python<'_>) -> PyResult<(Py<PyAny>, Arc<str>)> {
    let guard = INSTANCE.lock();
    let (instance, class) = guard
        .as_ref()
        .ok_or_else(|| PyRuntimeError::new_err("a method was called on a worker that is no actor"))?;
    Ok((instance.clone_ref(py), Arc::clone(class)))
}

/// Drops the instance.
pub(crate) fn forget_instance() {
    let instance = INSTANCE.lock().take();
    drop(instance);
}

/// A bound method of the actor: its own, or one that every actor has.
pub(crate) fn method<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let (instance, _) = instance(py)?;
    let instance = instance.bind(py);
    match name {
        "__ray_call__" | "__ray_ready__" | "__ray_terminate__" => {
            let function = py.import("raymesh._worker.builtin_methods")?.getattr(name)?;
            function.call_method1("__get__", (instance,))
        }
        name => instance.getattr(PyString::intern(py, name)),
    }
}

/// `module.Class.method`.
pub(crate) fn method_name(method: &str) -> Arc<str> {
    let mut names = METHOD_NAMES.lock();
    let names = names.get_or_insert_default();
    if let Some(name) = names.get(method) {
        return Arc::clone(name);
    }
    let class = class_name();
    let name: Arc<str> = Arc::from(format!("{}.{method}", class.as_deref().unwrap_or_default()));
    names.insert(method.to_owned(), Arc::clone(&name));
    name
}

/// The class of the actor that this process is.
pub(crate) fn class_name() -> Option<Arc<str>> {
    INSTANCE.lock().as_ref().map(|(_, class)| Arc::clone(class))
}

/// Runs the constructor, then the actor's own loop if it needs one. False: the process is to end.
pub(crate) fn become_actor(
    py: Python<'_>,
    session: &Session,
    spec: ActorSpec,
    restarts: u32,
    gpus: Vec<u32>,
) -> PyResult<bool> {
    context::become_actor(ActorContext {
        id: spec.actor,
        name: spec.name.clone(),
        handle: spec.handle.clone(),
        restarts,
        gpus: gpus.clone(),
        resources: spec.resources.clone(),
    });
    session::set_namespace(&spec.namespace);
    session.proc.begin_construction(spec.actor);
    session.proc.hold_arguments(&spec);
    announce(py, &spec.class_name)?;
    let max_concurrency = spec.max_concurrency;
    let actor = Bound::new(py, Construction { spec, gpus })?;
    let run = py.import("raymesh._worker.actors")?.getattr("run")?;
    run.call1((actor, max_concurrency))?.extract()
}

/// An actor that is about to be made; where and how is for `raymesh._worker.actors` to say.
#[pyclass(frozen, module = "raymesh._native")]
pub(crate) struct Construction {
    spec: ActorSpec,
    gpus: Vec<u32>,
}

#[pymethods]
impl Construction {
    /// The actor's class. None: it cannot be loaded, and the controller has been told.
    fn load_class(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let session = session::ensure(py)?;
        let class = environment::take_up(py, &session)
            .and_then(|()| apply_environment(py, &self.spec.resources, &self.gpus))
            .and_then(|()| load_function(py, &session, self.spec.class));
        match class {
            Ok((class, _)) => Ok(Some(class)),
            Err(error) => self.ready(py, &session, Err(error)).map(|_| None),
        }
    }

    /// Runs the constructor and tells the controller how it went. True: the actor lives.
    fn construct(&self, py: Python<'_>) -> PyResult<bool> {
        let session = session::ensure(py)?;
        let made = construct(py, &session, &self.spec);
        self.ready(py, &session, made)
    }
}

impl Construction {
    fn ready(&self, py: Python<'_>, session: &Session, made: PyResult<Py<PyAny>>) -> PyResult<bool> {
        let class_name = &self.spec.class_name;
        let error = match made {
            Ok(instance) => {
                let display = py.import("raymesh._worker.actors")?.getattr("display_name")?;
                let short = class_name.rsplit('.').next().unwrap_or(class_name);
                announce_whole(py, display.call1((&instance, short))?.extract()?)?;
                *INSTANCE.lock() = Some((instance, Arc::from(class_name.as_str())));
                None
            }
            Err(error) => {
                let name = format!("{}.__init__", class_name.rsplit('.').next().unwrap_or(class_name));
                // References inside the exception are not kept: there is no object that could.
                let (packed, _) = error_value(py, session, &name, &error);
                Some(match packed.kind {
                    ErrorKind::Task => ErrorValue { kind: ErrorKind::ActorInit, payload: packed.payload },
                    _ => ErrorValue::text(ErrorKind::ActorDied, error.to_string()),
                })
            }
        };
        let lives = error.is_none();
        session.proc.tell_controller(ToController::ActorReady { actor: self.spec.actor, error });
        Ok(lives)
    }
}

fn construct(py: Python<'_>, session: &Session, spec: &ActorSpec) -> PyResult<Py<PyAny>> {
    let (class, _) = load_function(py, session, spec.class)?;
    let name: Arc<str> = Arc::from(format!("{}.__init__", spec.class_name));
    let before =
        context::enter(Some(Running { task: None, task_name: Arc::clone(&name), function_name: name }));
    let made = (|| {
        let (args, kwargs) = call::unpack(py, session, &spec.args, spec.args_object, &spec.deps)?;
        Ok(class.bind(py).call(args, kwargs.as_ref())?.unbind())
    })();
    context::enter(before);
    made
}
