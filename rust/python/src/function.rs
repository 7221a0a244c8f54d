//! `Function`: a remote function, ready to be called.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use raymesh_core::process::{Flag, TaskSpec};
use raymesh_wire::{Call, CallTarget, FunctionId, ResourceSet};

use crate::call;
use crate::object_ref::ObjectRef;
use crate::session::{self, Session};

/// Names of the functions that this process has submitted, for its messages.
static NAMES: Mutex<Option<HashMap<FunctionId, Box<str>>>> = Mutex::new(None);

/// The name of a function that this process has submitted.
pub(crate) fn name_of(id: FunctionId) -> String {
    NAMES
        .lock()
        .as_ref()
        .and_then(|names| names.get(&id))
        .map_or_else(|| "unknown".to_owned(), ToString::to_string)
}

/// What people call a task that this process has submitted: as they wrote it, without its module.
pub(crate) fn task_name(call: &Call) -> String {
    match &call.target {
        CallTarget::Method { name, .. } => name.clone(),
        CallTarget::Function { function, .. } => match crate::worker::options_name(call) {
            Some(name) => name.to_owned(),
            None => name_of(*function).rsplit('.').next().unwrap_or_default().to_owned(),
        },
    }
}

/// A function's or class's body as the cluster keeps it: its name, then the pickle.
pub(crate) struct Body {
    pub(crate) id: FunctionId,
    bytes: Bytes,
    /// The session that has it, by address: a new session must be told again.
    known_to: AtomicU64,
}

impl Body {
    pub(crate) fn new(name: &str, pickled: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(4 + name.len() + pickled.len());
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(pickled);
        let id = FunctionId(xxhash_rust::xxh3::xxh3_128(&bytes).to_le_bytes());
        NAMES.lock().get_or_insert_default().insert(id, Box::from(name));
        Self { id, bytes: Bytes::from(bytes), known_to: AtomicU64::new(0) }
    }

    /// Makes the body known to the session's cluster, once.
    pub(crate) fn publish(&self, session: &Arc<Session>) {
        let generation = session.generation;
        if self.known_to.swap(generation, Ordering::Relaxed) != generation {
            session.proc.put_function(self.id, self.bytes.clone());
        }
    }

    /// Splits a body into name and pickle.
    pub(crate) fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
        let (len, rest) = bytes.split_at_checked(4)?;
        let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
        let (name, pickled) = rest.split_at_checked(len)?;
        Some((std::str::from_utf8(name).ok()?, pickled))
    }
}

/// Options that the executing side looks at: empty if all are default.
///
/// `retry:u8 name_len:u32 name pickled_classes`; retry 0: no exception, 1: all, 2: the pickled classes.
pub(crate) fn call_options(
    py: Python<'_>,
    retry_exceptions: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<Bytes> {
    let mut classes = None;
    let retry = if let Ok(flag) = retry_exceptions.extract::<bool>() {
        u8::from(flag)
    } else {
        let dumps = py.import("raymesh.cloudpickle")?.getattr("dumps")?;
        classes = Some(dumps.call1((retry_exceptions,))?.extract::<Vec<u8>>()?);
        2
    };
    if retry == 0 && name.is_empty() {
        return Ok(Bytes::new());
    }
    let mut out = vec![retry];
    out.extend((name.len() as u32).to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(classes.unwrap_or_default());
    Ok(Bytes::from(out))
}

/// The results of a call as the user gets them.
pub(crate) fn returned(py: Python<'_>, session: &Session, mut flags: Vec<Arc<Flag>>) -> PyResult<Py<PyAny>> {
    let reference = |flag| Bound::new(py, ObjectRef::adopt(flag, Arc::clone(&session.proc)));
    match flags.len() {
        0 => Ok(py.None()),
        1 => Ok(reference(flags.swap_remove(0))?.into_any().unbind()),
        _ => {
            let refs = flags.into_iter().map(reference).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, refs)?.into_any().unbind())
        }
    }
}

#[pyclass(frozen, module = "raymesh._native")]
pub(crate) struct Function {
    body: Body,
    num_returns: u32,
    resources: ResourceSet,
    max_retries: i32,
    options: Bytes,
    /// Shape key in the session of that generation: `generation << 32 | key`.
    shape: AtomicU64,
}

#[pymethods]
impl Function {
    #[new]
    #[pyo3(signature = (pickled, name, *, num_returns, resources, max_retries, retry_exceptions, task_name))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        pickled: &Bound<'_, PyBytes>,
        name: &str,
        num_returns: u32,
        resources: std::collections::BTreeMap<String, f64>,
        max_retries: i32,
        retry_exceptions: &Bound<'_, PyAny>,
        task_name: &str,
    ) -> PyResult<Self> {
        let task_name = if task_name == name { "" } else { task_name };
        Ok(Self {
            body: Body::new(name, pickled.as_bytes()),
            num_returns,
            resources: session::resource_set(resources),
            max_retries,
            options: call_options(py, retry_exceptions, task_name)?,
            shape: AtomicU64::new(u64::MAX),
        })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn remote(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let session = session::ensure(py)?;
        self.body.publish(&session);
        let shape = self.shape(&session);
        let (arguments, _held) = call::pack(py, &session, args, kwargs)?;
        let spec = TaskSpec {
            function: self.body.id,
            arguments,
            num_returns: self.num_returns,
            shape,
            max_retries: self.max_retries,
            options: self.options.clone(),
        };
        let (_, flags) = session.proc.with_core(|core, now, fx| core.submit_task(now, spec, fx));
        returned(py, &session, flags)
    }
}

impl Function {
    fn shape(&self, session: &Session) -> u32 {
        let known = self.shape.load(Ordering::Relaxed);
        if known >> 32 == session.generation {
            return known as u32;
        }
        let key = session.proc.with_core(|core, _, _| core.shape(session.job, &self.resources));
        self.shape.store(session.generation << 32 | u64::from(key), Ordering::Relaxed);
        key
    }
}
