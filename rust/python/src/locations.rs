//! `locate`: which hosts have the bytes of objects.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyList;
use raymesh_core::process::Lookup;
use raymesh_wire::{HostId, Place, Value};

use crate::context::node_bytes;
use crate::errors::{Failure, exception};
use crate::objects::{flags_of, timeout, wait_for};
use crate::session::{self, Session};

/// Size, and ids of the hosts.
type Location = (Option<u64>, Vec<Vec<u8>>);

/// Of each reference; none has no size yet if it has no value. With `ask`, other processes are asked, for as long as
/// `limit` says; without, only what this process knows is told.
#[pyfunction]
pub(crate) fn locate(
    py: Python<'_>,
    refs: &Bound<'_, PyList>,
    limit: Option<f64>,
    ask: bool,
) -> PyResult<Vec<Location>> {
    let session = session::ensure(py)?;
    let flags = flags_of(&session, refs)?;
    let limit = timeout(limit)?;
    let me = session.proc.me();
    // Of what this process makes itself it knows whether there is a value; of others their owners do.
    let foreign: Vec<_> = flags.iter().filter(|flag| flag.id().owner != me).cloned().collect();
    if ask && !foreign.iter().all(|flag| flag.is_ready()) {
        wait_for(py, &session, limit, |waiting| session.proc.wait_some(waiting, &foreign, foreign.len()))?;
        if !foreign.iter().all(|flag| flag.is_ready()) {
            return Err(too_late(py));
        }
    }
    let mut found = Vec::new();
    for flag in &flags {
        let object = flag.id();
        found.push(match session.proc.read_core(|core| core.lookup(object)) {
            Lookup::Ready(Value::Stored(block)) => {
                let place = Place { object, block };
                let hosts = if ask { holders(py, &session, place, limit)? } else { vec![block.host()] };
                let ids = hosts.into_iter().map(|host| node_bytes(host, &session.name).to_vec());
                (Some(block.len), ids.collect())
            }
            Lookup::Ready(Value::Inline(bytes)) => (Some(bytes.len() as u64), Vec::new()),
            _ => (None, Vec::new()),
        });
    }
    Ok(found)
}

fn holders(
    py: Python<'_>,
    session: &Session,
    place: Place,
    limit: Option<Duration>,
) -> PyResult<Vec<HostId>> {
    let check = || Python::attach(|py| py.check_signals()).map_err(Failure::Python);
    let found = py.detach(|| session.proc.locate(place, limit, check));
    found.map_err(PyErr::from)?.ok_or_else(|| too_late(py))
}

fn too_late(py: Python<'_>) -> PyErr {
    exception(py, "GetTimeout", b"The locations of the objects were not known in time.", "")
}
