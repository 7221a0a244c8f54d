//! Calls of an asyncio actor, for its event loop.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use foldhash::HashMap;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use raymesh_core::process::Incoming;
use raymesh_sys::fd::EventFd;
use raymesh_wire::{CallTarget, ReplyStatus};

use crate::call;
use crate::construction;
use crate::context;
use crate::errors::os_error;
use crate::session::{self, Session};
use crate::worker::{pack_results, reply, reply_error, running as running_call};

/// Calls for an event loop: a queue with a file descriptor.
#[pyclass(frozen, module = "raymesh._native")]
pub(crate) struct AsyncCalls {
    session: Arc<Session>,
    event: Arc<EventFd>,
    running: Mutex<HashMap<u64, (Incoming, Instant)>>,
    next: AtomicU64,
}

type Taken<'py> = (u64, String, Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

#[pymethods]
impl AsyncCalls {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let session = session::ensure(py)?;
        let event =
            Arc::new(EventFd::new().map_err(|e| os_error("an async actor cannot watch its mail", &e))?);
        let signal = Arc::clone(&event);
        session.proc.on_runnable(Box::new(move || signal.signal()));
        event.signal();
        Ok(Self { session, event, running: Mutex::new(HashMap::default()), next: AtomicU64::new(1) })
    }

    fn fileno(&self) -> i32 {
        self.event.as_raw_fd()
    }

    /// Waits a moment for mail. False: none came, and the caller is about to sleep on the descriptor;
    /// [`Self::back`] ends that.
    fn spin(&self, py: Python<'_>) -> bool {
        py.detach(|| self.session.proc.glance())
    }

    fn back(&self) {
        self.session.proc.back();
    }

    /// Calls that have arrived: `(token, method, args, kwargs)`. Finish each by its token.
    fn take<'py>(&self, py: Python<'py>) -> Vec<Taken<'py>> {
        self.event.clear();
        let mut taken = Vec::new();
        while let Some(incoming) = self.session.proc.next_call() {
            let call = &incoming.call;
            let unpacked = call::unpack(py, &self.session, &call.args, call.args_object, &call.deps);
            let CallTarget::Method { name, .. } = &call.target else { continue };
            match unpacked {
                Ok((args, kwargs)) => {
                    let token = self.next.fetch_add(1, Ordering::Relaxed);
                    context::enter_interleaved(token, running_call(call, construction::method_name(name)));
                    taken.push((token, name.clone(), args, kwargs));
                    self.running.lock().insert(token, (incoming, Instant::now()));
                }
                Err(failure) => reply_error(py, &self.session, call, &PyErr::from(failure), 0),
            }
        }
        taken
    }

    /// The call has returned `value`.
    fn done(&self, py: Python<'_>, token: u64, value: &Bound<'_, PyAny>) {
        context::leave_interleaved(token);
        let Some((incoming, started)) = self.running.lock().remove(&token) else { return };
        let exec_us = u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX);
        match pack_results(py, &self.session, value, &incoming.call) {
            Ok(returns) => reply(&self.session, &incoming.call, ReplyStatus::Ok, exec_us, returns),
            Err(error) => reply_error(py, &self.session, &incoming.call, &error, exec_us),
        }
    }

    /// The call has raised `error`.
    fn failed(&self, py: Python<'_>, token: u64, error: Bound<'_, PyAny>) {
        context::leave_interleaved(token);
        let Some((incoming, started)) = self.running.lock().remove(&token) else { return };
        let exec_us = u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX);
        reply_error(py, &self.session, &incoming.call, &PyErr::from_value(error), exec_us);
    }

    /// The process is to end; calls that are running may finish first.
    fn exiting(&self) -> bool {
        self.session.proc.exit_requested().is_some()
    }

    /// What `name` calls: a bound method, or one of the built-in ones.
    fn method<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        construction::method(py, name)
    }
}
