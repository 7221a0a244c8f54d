//! Failures of the layers below as Python exceptions.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use raymesh_runtime::process::{RequestError, StoreError};
use raymesh_wire::ids::hex;
use raymesh_wire::{ErrorKind, ErrorValue, ObjectId};

use crate::hooks::hooks;

/// What can go wrong below the binding, until it becomes an exception.
#[derive(Debug)]
pub(crate) enum Failure {
    Python(PyErr),
    Store(StoreError),
    Request(RequestError),
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Python(error) => error,
            Failure::Store(error @ StoreError::Full { .. }) => {
                Python::attach(|py| exception(py, "StoreFull", error.to_string().as_bytes(), ""))
            }
            Failure::Store(error @ StoreError::HostLost) => {
                Python::attach(|py| exception(py, "ObjectLost", error.to_string().as_bytes(), ""))
            }
            Failure::Request(RequestError::Lost(reason))
            | Failure::Store(StoreError::Request(RequestError::Lost(reason))) => {
                let text = format!("{reason}\nhint: call shutdown(), and init() to join another cluster");
                Python::attach(|py| exception(py, "System", text.as_bytes(), ""))
            }
            Failure::Store(error) => PyRuntimeError::new_err(error.to_string()),
            Failure::Request(error) => PyRuntimeError::new_err(error.to_string()),
        }
    }
}

/// The exception for an error value that was read.
pub(crate) fn raise(py: Python<'_>, error: &ErrorValue, object: ObjectId) -> PyErr {
    let job = crate::session::job();
    let hex = hex(&object.to_ray_bytes(job));
    match error.argument() {
        Some(inner) => {
            let kind = format!("Argument:{}", kind_name(inner.kind));
            exception(py, &kind, &inner.payload, &hex)
        }
        None => exception(py, kind_name(error.kind), &error.payload, &hex),
    }
}

/// An exception of `raymesh.exceptions` by the name of its kind.
pub(crate) fn exception(py: Python<'_>, kind: &str, payload: &[u8], object_hex: &str) -> PyErr {
    let made = hooks(py).and_then(|hooks| {
        let payload = pyo3::types::PyBytes::new(py, payload);
        hooks.materialize_error.bind(py).call1((kind, payload, object_hex))
    });
    match made {
        Ok(instance) => PyErr::from_value(instance),
        Err(error) => error,
    }
}

pub(crate) fn os_error(what: &str, error: &std::io::Error) -> PyErr {
    PyOSError::new_err(format!("{what}: {error}"))
}

pub(crate) const fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Task => "Task",
        ErrorKind::ActorInit => "ActorInit",
        ErrorKind::WorkerCrashed => "WorkerCrashed",
        ErrorKind::ActorDied => "ActorDied",
        ErrorKind::ActorUnavailable => "ActorUnavailable",
        ErrorKind::ObjectLost => "ObjectLost",
        ErrorKind::OwnerDied => "OwnerDied",
        ErrorKind::StoreFull => "StoreFull",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Unschedulable => "Unschedulable",
        ErrorKind::ActorUnschedulable => "ActorUnschedulable",
        ErrorKind::PendingCallsLimit => "PendingCallsLimit",
        ErrorKind::NodeDied => "NodeDied",
        ErrorKind::Unrebuildable => "Unrebuildable",
        ErrorKind::GroupRemoved => "GroupRemoved",
        ErrorKind::ActorGroupRemoved => "ActorGroupRemoved",
        _ => "System",
    }
}
