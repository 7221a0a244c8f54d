//! Completion of objects for event loops and futures: a queue with a file descriptor.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use raymesh_sys::fd::EventFd;
use raymesh_wire::ObjectId;

use crate::errors::os_error;
use crate::object_ref::ObjectRef;
use crate::session;

struct Queue {
    ready: Mutex<Vec<u64>>,
    event: EventFd,
}

/// Tokens of objects that have become ready. The descriptor is readable while there are any.
#[pyclass(frozen, module = "raymesh._native")]
pub(crate) struct Completions {
    queue: Arc<Queue>,
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> PyResult<Self> {
        let event = EventFd::new().map_err(|error| os_error("raymesh cannot watch objects", &error))?;
        Ok(Self { queue: Arc::new(Queue { ready: Mutex::new(Vec::new()), event }) })
    }

    fn fileno(&self) -> i32 {
        self.queue.event.as_raw_fd()
    }

    /// Puts `token` into the queue when the object is ready, or its session has ended.
    fn watch(&self, reference: &ObjectRef, token: u64) -> PyResult<()> {
        let queue = Arc::clone(&self.queue);
        let callback = Box::new(move |_: ObjectId| {
            let mut ready = queue.ready.lock();
            ready.push(token);
            if ready.len() == 1 {
                queue.event.signal();
            }
        });
        match session::current() {
            Some(session) => session.proc.on_ready(reference.flag_in(&session)?.id(), callback),
            None => callback(reference.id()),
        }
        Ok(())
    }

    /// All tokens that are there.
    fn take(&self) -> Vec<u64> {
        let mut ready = self.queue.ready.lock();
        self.queue.event.clear();
        std::mem::take(&mut *ready)
    }
}
