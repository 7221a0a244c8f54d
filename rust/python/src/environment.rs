//! What this process's work, and the work that it gives to others, needs of a worker.
//!
//! The bytes are made and read by `raymesh.runtime_env`; here they only pass by.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use raymesh_wire::Environment;

use crate::session::{self, Session};

/// What work is to be given: `chosen` for it, or the same as this process has.
pub(crate) fn of(session: &Session, chosen: Option<&[u8]>) -> Environment {
    chosen.map_or_else(|| session.proc.environment(), |bytes| Environment(Bytes::copy_from_slice(bytes)))
}

/// Lets this worker have what its first work needs. Does nothing once that has succeeded: a worker serves one
/// environment.
pub(crate) fn take_up(py: Python<'_>, session: &Session) -> PyResult<()> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.load(Ordering::Relaxed) {
        return Ok(());
    }
    let env = session.proc.environment();
    if !env.is_empty() {
        let take_up = py.import("raymesh._worker.job")?.getattr("take_up")?;
        let namespace: String = take_up.call1((PyBytes::new(py, &env.0),))?.extract()?;
        session::set_job_namespace(&namespace);
    }
    TAKEN.store(true, Ordering::Relaxed);
    Ok(())
}

/// What workers of this process's job take up; empty: what they are born with.
#[pyfunction]
pub(crate) fn environment(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    let session = session::ensure(py)?;
    Ok(PyBytes::new(py, &session.proc.environment().0))
}

/// Of a driver: what it submits from now on needs that.
#[pyfunction]
pub(crate) fn set_environment(py: Python<'_>, environment: &[u8]) -> PyResult<()> {
    session::ensure(py)?.proc.set_environment(Environment(Bytes::copy_from_slice(environment)));
    Ok(())
}
