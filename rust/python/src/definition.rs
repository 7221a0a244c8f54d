//! `Definition`: a function or class of the user's program, as the cluster keeps it.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use raymesh_runtime::process::Proc;
use raymesh_wire::FunctionId;
use raymesh_wire::codec::MAX_PAYLOAD;

use crate::session::Session;

/// A pickled function or class and its name. It is made known to each session that uses it, once, and taken
/// back from the latest when this object goes.
#[pyclass(frozen, module = "raymesh._native")]
pub(crate) struct Definition {
    pub(crate) id: FunctionId,
    /// The name's length and the name, then the pickle.
    bytes: Bytes,
    /// The session that has it, by its generation: a new session must be told again.
    known_to: AtomicU64,
    /// The runtime of that session. Not kept alive by this: functions of a module outlive sessions.
    keeper: Mutex<Weak<Proc>>,
}

#[pymethods]
impl Definition {
    #[new]
    fn new(pickled: &[u8], name: &str) -> PyResult<Self> {
        if pickled.len() > MAX_PAYLOAD - name.len() - 4 {
            return Err(PyValueError::new_err(format!(
                "{name} takes {} bytes when pickled, with what it captures; the limit is {MAX_PAYLOAD}\n\
                 hint: pass large objects as arguments: ref = ray.put(obj); f.remote(ref)",
                pickled.len()
            )));
        }
        let mut bytes = Vec::with_capacity(4 + name.len() + pickled.len());
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(pickled);
        let id = FunctionId(xxhash_rust::xxh3::xxh3_128(&bytes).to_le_bytes());
        let (bytes, known_to) = (Bytes::from(bytes), AtomicU64::new(0));
        Ok(Self { id, bytes, known_to, keeper: Mutex::new(Weak::new()) })
    }
}

impl Definition {
    /// Makes it known to the session's cluster, once.
    pub(crate) fn publish(&self, session: &Session) {
        if self.known_to.load(Ordering::Acquire) == session.generation {
            return;
        }
        let mut keeper = self.keeper.lock();
        if self.known_to.load(Ordering::Acquire) != session.generation {
            session.proc.with_core(|core, _, fx| core.define(self.id, &self.bytes, fx));
            *keeper = std::sync::Arc::downgrade(&session.proc);
            self.known_to.store(session.generation, Ordering::Release);
        }
    }

    pub(crate) fn name(&self) -> &str {
        split(&self.bytes).map_or("", |(name, _)| name)
    }
}

impl Drop for Definition {
    fn drop(&mut self) {
        if let Some(proc) = self.keeper.get_mut().upgrade() {
            proc.with_core(|core, _, fx| core.undefine(self.id, fx));
        }
    }
}

/// The name and the pickle of what was made known.
pub(crate) fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_at_checked(4)?;
    let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
    let (name, pickled) = rest.split_at_checked(len)?;
    Some((std::str::from_utf8(name).ok()?, pickled))
}
