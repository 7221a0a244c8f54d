//! `get`, `put`, `wait`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use raymesh_core::process::{Awaited, Flag, Lookup, Process};
use raymesh_runtime::process::{Waited, Waiting};
use raymesh_wire::{Block, ErrorKind, ErrorValue, ObjectId, Value};

use crate::errors::{Failure, exception};
use crate::frame;
use crate::object_ref::ObjectRef;
use crate::session::{self, Session};

pub(crate) fn timeout(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds < 0.0 || seconds.is_nan() {
        return Err(PyValueError::new_err(format!("timeout must not be negative, got {seconds}")));
    }
    Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}

/// Waits with the GIL released; looks after signals.
pub(crate) fn wait_for(
    py: Python<'_>,
    session: &Session,
    timeout: Option<Duration>,
    mut wait: impl FnMut(Waiting<'static>) -> Waited + Send,
) -> PyResult<bool> {
    let waiting = session.proc.waiting_for_signals_too(timeout, crate::context::in_call());
    loop {
        match py.detach(|| wait(waiting)) {
            Waited::Done => return Ok(true),
            Waited::TimedOut => return Ok(false),
            Waited::Interrupted => py.check_signals()?,
            Waited::Cycle => {
                let text = session.proc.read_core(|core| core.wait_cycle().unwrap_or_default().to_owned());
                let hint = "hint: let one of them answer without waiting, or make it an async actor.";
                return Err(exception(py, "System", format!("{text}\n{hint}").as_bytes(), ""));
            }
            Waited::Stopped => return Err(Failure::from(session.proc.stopped()).into()),
        }
    }
}

fn timed_out(py: Python<'_>, session: &Session, flags: &[Arc<Flag>], timeout: Option<Duration>) -> PyErr {
    let missing = flags.iter().filter(|flag| !flag.is_ready()).count();
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    let mut text =
        format!("Get timed out: {missing} of {} objects not ready after {seconds} s.", flags.len());
    let awaited = session.proc.read_core(|core| {
        let cycle = core.wait_cycle().map(str::to_owned);
        cycle.or_else(|| {
            let first = flags.iter().filter(|flag| !flag.is_ready()).find_map(|flag| core.awaited(flag.id()));
            first.map(|awaited| describe(&awaited))
        })
    });
    if let Some(awaited) = awaited {
        text.push('\n');
        text.push_str(&awaited);
    }
    exception(py, "GetTimeout", text.as_bytes(), "")
}

fn describe(awaited: &Awaited) -> String {
    match awaited {
        Awaited::Function { body, standing } => {
            format!("Waiting for task {}. {standing}", crate::function::name_in(body))
        }
        Awaited::Method { actor, method, standing } => {
            let id = raymesh_wire::ids::hex(&actor.to_ray_bytes(session::job()));
            format!("Waiting for method {method} of actor {id}. {standing}")
        }
    }
}

fn value_of<'py>(
    py: Python<'py>,
    session: &Session,
    flag: &Arc<Flag>,
    until: Until,
) -> PyResult<Bound<'py, PyAny>> {
    let value = found(py, session, flag, until)?;
    frame::load(py, session, &value, flag.id(), 0, until)
}

/// The value of an object that was ready. If it has been lost since: the next one.
fn found(py: Python<'_>, session: &Session, flag: &Arc<Flag>, until: Until) -> PyResult<Value> {
    loop {
        match session.proc.read_core(|core| core.lookup(flag.id())) {
            Lookup::Ready(value) => return Ok(value),
            Lookup::Pending | Lookup::Unknown if session.proc.loss().is_some() => {
                return Err(Failure::from(session.proc.stopped()).into());
            }
            Lookup::Pending if !session.proc.is_stopping() => {
                await_all(py, session, &[Arc::clone(flag)], until.left())?;
            }
            Lookup::Pending | Lookup::Unknown => {
                return Ok(Value::Error(ErrorValue::text(
                    ErrorKind::ObjectLost,
                    "the object is gone: its reference belongs to a session that was shut down",
                )));
            }
        }
    }
}

/// The bytes of an object that lay in `block` are gone: waits for its next value.
pub(crate) fn next_value(
    py: Python<'_>,
    session: &Session,
    object: ObjectId,
    block: Block,
    until: Until,
) -> PyResult<Value> {
    let flag = session.proc.with_core(|core, _, fx| {
        let flag = core.hold(object);
        core.bytes_lost(object, block, fx);
        core.want(object, fx);
        flag
    });
    let value = found(py, session, &flag, until);
    session.proc.release(object);
    value
}

/// The end of the caller's patience.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    pub(crate) const NEVER: Self = Self(None);

    fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    fn left(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

fn is_ready(session: &Session, flag: &Flag) -> bool {
    flag.is_ready() || session.proc.is_stopping()
}

#[pyfunction]
pub(crate) fn get_one<'py>(
    py: Python<'py>,
    reference: &Bound<'py, ObjectRef>,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let session = session::ensure(py)?;
    let flag = reference.get().flag_in(&session)?;
    let mut until = Until::NEVER;
    if !is_ready(&session, flag) {
        let limit = self::timeout(timeout)?;
        until = Until::after(limit);
        await_all(py, &session, &[Arc::clone(flag)], limit)?;
    } else if timeout.is_some() {
        until = Until::after(self::timeout(timeout)?);
    }
    value_of(py, &session, flag, until)
}

#[pyfunction]
pub(crate) fn get<'py>(
    py: Python<'py>,
    refs: &Bound<'py, PyAny>,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyList>> {
    let session = session::ensure(py)?;
    let flags = flags_of(&session, refs)?;
    let limit = self::timeout(timeout)?;
    let until = Until::after(limit);
    await_all(py, &session, &flags, limit)?;
    if let Some(failed) = flags.iter().find(|flag| flag.is_error()) {
        value_of(py, &session, failed, until)?;
    }
    let values =
        flags.iter().map(|flag| value_of(py, &session, flag, until)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, values)
}

/// Waits until all are ready, or one of them is an error: the others need not be waited for then.
fn await_all(
    py: Python<'_>,
    session: &Session,
    flags: &[Arc<Flag>],
    limit: Option<Duration>,
) -> PyResult<()> {
    let mut done = 0;
    let mut errors_seen = None;
    let all = wait_for(py, session, limit, |waiting| {
        session.proc.fetch_all(flags);
        session.proc.wait_until(waiting.all_of(flags), |proc| {
            while done < flags.len() && proc.is_ready(&flags[done]) {
                done += 1;
            }
            if done == flags.len() {
                return true;
            }
            // Not after every batch of mail: there may be many flags, and many batches.
            let errors = flags.len() > 1 && {
                let now = Some(proc.read_core(Process::errors_seen));
                std::mem::replace(&mut errors_seen, now) != now
            };
            errors && flags.iter().any(|flag| flag.is_error())
        })
    })?;
    if all { Ok(()) } else { Err(timed_out(py, session, flags, limit)) }
}

pub(crate) fn flags_of(session: &Session, refs: &Bound<'_, PyAny>) -> PyResult<Vec<Arc<Flag>>> {
    let mut flags = Vec::with_capacity(refs.len().unwrap_or(0));
    for item in refs.try_iter()? {
        let item = item?;
        let Ok(reference) = item.cast_exact::<ObjectRef>() else {
            return Err(PyTypeError::new_err(format!(
                "expected ObjectRefs, got {}",
                item.get_type().qualname()?
            )));
        };
        flags.push(Arc::clone(reference.get().flag_in(session)?));
    }
    Ok(flags)
}

#[pyfunction]
pub(crate) fn put(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<ObjectRef> {
    let session = session::ensure(py)?;
    let frame = frame::dump(py, &session, value, &[], "value")?;
    let flag = session.proc.with_core(|core, _, fx| core.put(frame.value, frame.refs.ids().to_vec(), fx));
    Ok(ObjectRef::adopt(flag, Arc::clone(&session.proc)))
}

#[pyfunction]
pub(crate) fn wait<'py>(
    py: Python<'py>,
    refs: &Bound<'py, PyList>,
    num_returns: usize,
    timeout: Option<f64>,
    fetch_local: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let _ = fetch_local;
    let session = session::ensure(py)?;
    let limit = self::timeout(timeout)?;
    let mut ready = checked_ready(&session, refs, num_returns)?;
    if ready.len() < num_returns && limit != Some(Duration::ZERO) {
        let flags = flags_of(&session, refs)?;
        wait_for(py, &session, limit, |waiting| session.proc.wait_some(waiting, &flags, num_returns))?;
        ready = first_ready(refs, num_returns)?;
    } else if ready.len() < num_returns {
        // Not to wait is still to look: mail may lie there.
        let flags = flags_of(&session, refs)?;
        py.detach(|| session.proc.poll(&flags));
        ready = first_ready(refs, num_returns)?;
    }
    split(py, refs, &ready)
}

/// As [`first_ready`], and looks at all: that they are references, and different ones.
fn checked_ready(session: &Session, refs: &Bound<'_, PyList>, count: usize) -> PyResult<Vec<usize>> {
    static LISTS: AtomicU64 = AtomicU64::new(1);
    let list = LISTS.fetch_add(1, Ordering::Relaxed);
    let mut ready = Vec::new();
    for (index, item) in refs.iter().enumerate() {
        let flag = item.cast_exact::<ObjectRef>()?.get().flag_in(session)?;
        if !flag.note_listed(list) {
            return Err(PyValueError::new_err("Wait requires a list of unique ray_waitables."));
        }
        if ready.len() < count && flag.is_ready() {
            ready.push(index);
        }
    }
    Ok(ready)
}

/// Indices of the first `count` objects, in order, that are ready.
fn first_ready(refs: &Bound<'_, PyList>, count: usize) -> PyResult<Vec<usize>> {
    let mut ready = Vec::new();
    for (index, item) in refs.iter().enumerate() {
        if ready.len() == count {
            break;
        }
        if item.cast_exact::<ObjectRef>()?.get().flag.is_ready() {
            ready.push(index);
        }
    }
    Ok(ready)
}

/// The items at `ready`, and the others, by copying whole runs.
fn split<'py>(py: Python<'py>, refs: &Bound<'py, PyList>, ready: &[usize]) -> PyResult<Bound<'py, PyTuple>> {
    let taken = PyList::empty(py);
    for index in ready {
        taken.append(refs.get_item(*index)?)?;
    }
    let rest = refs.get_slice(0, refs.len());
    for index in ready.iter().rev() {
        rest.del_item(*index)?;
    }
    PyTuple::new(py, [taken, rest])
}
