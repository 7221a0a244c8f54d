//! `Function`: a remote function, ready to be called.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use raymesh_core::process::{Flag, TaskSpec};
use raymesh_wire::codec::MAX_PAYLOAD;
use raymesh_wire::{Call, CallTarget, ResourceSet};

use crate::call;
use crate::definition::{Definition, split};
use crate::environment;
use crate::object_ref::ObjectRef;
use crate::session::{self, Session};
use crate::wish::Wanted;

/// The name of a function by what was made known of it.
pub(crate) fn name_in(body: &[u8]) -> &str {
    split(body).map_or("unknown", |(name, _)| name)
}

/// What people call a task that this process has submitted: as they wrote it, without its module.
pub(crate) fn task_name(call: &Call, body: &[u8]) -> String {
    match &call.target {
        CallTarget::Method { name, .. } => name.clone(),
        CallTarget::Function { .. } => match crate::worker::options_name(call) {
            Some(name) => name.to_owned(),
            None => name_in(body).rsplit('.').next().unwrap_or_default().to_owned(),
        },
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
    if out.len() > MAX_PAYLOAD {
        return Err(PyValueError::new_err(format!(
            "the name and the exception classes of a call take {} bytes; the limit is {MAX_PAYLOAD}",
            out.len()
        )));
    }
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
    definition: Py<Definition>,
    num_returns: u32,
    resources: ResourceSet,
    wanted: Wanted,
    max_retries: i32,
    options: Bytes,
    /// Answers what its workers take up, in the present session; None: the same as this process.
    env: Option<Py<PyAny>>,
    /// Shape key in the session of that generation: `generation << 32 | key`.
    shape: AtomicU64,
}

#[pymethods]
impl Function {
    #[new]
    #[pyo3(signature = (definition, *, num_returns, resources, wish, max_retries, retry_exceptions, task_name, env=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        definition: Py<Definition>,
        num_returns: u32,
        resources: std::collections::BTreeMap<String, f64>,
        wish: Wanted,
        max_retries: i32,
        retry_exceptions: &Bound<'_, PyAny>,
        task_name: &str,
        env: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let task_name = if task_name == definition.get().name() { "" } else { task_name };
        Ok(Self {
            options: call_options(py, retry_exceptions, task_name)?,
            definition,
            num_returns,
            resources: session::resource_set(resources),
            wanted: wish,
            max_retries,
            env,
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
        let definition = self.definition.get();
        definition.publish(&session);
        let shape = self.shape(py, &session)?;
        let (arguments, _held) = call::pack(py, &session, args, kwargs)?;
        let spec = TaskSpec {
            function: definition.id,
            arguments,
            num_returns: self.num_returns,
            shape,
            inherits: self.wanted.inherits,
            max_retries: self.max_retries,
            options: self.options.clone(),
        };
        let (_, flags) = session.proc.with_core(|core, now, fx| core.submit_task(now, spec, fx));
        returned(py, &session, flags)
    }
}

impl Function {
    fn shape(&self, py: Python<'_>, session: &Session) -> PyResult<u32> {
        let known = self.shape.load(Ordering::Relaxed);
        if known >> 32 == session.generation {
            return Ok(known as u32);
        }
        let chosen: Option<Vec<u8>> = match &self.env {
            Some(env) => env.bind(py).call0()?.extract()?,
            None => None,
        };
        let env = environment::of(session, chosen.as_deref());
        let wish = self.wanted.resolve(session);
        let (job, resources) = (session.job(), &self.resources);
        let key = session.proc.with_core(|core, _, _| core.shape(job, &env, resources, &wish));
        self.shape.store(session.generation << 32 | u64::from(key), Ordering::Relaxed);
        Ok(key)
    }
}
