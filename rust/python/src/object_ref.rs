//! `ObjectRef`.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use raymesh_core::process::Flag;
use raymesh_runtime::process::Proc;
use raymesh_wire::ObjectId;

use crate::session::{self, Session};

/// One counted reference to an object.
#[pyclass(frozen, module = "raymesh._native", weakref)]
#[derive(Debug)]
pub(crate) struct ObjectRef {
    pub(crate) flag: Arc<Flag>,
    proc: Arc<Proc>,
}

impl ObjectRef {
    /// Takes over one hold.
    pub(crate) const fn adopt(flag: Arc<Flag>, proc: Arc<Proc>) -> Self {
        Self { flag, proc }
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.flag.id()
    }

    /// The reference's flag, if it is of this session: ids begin anew in each.
    pub(crate) fn flag_in(&self, session: &Session) -> PyResult<&Arc<Flag>> {
        if Arc::ptr_eq(&self.proc, &session.proc) {
            return Ok(&self.flag);
        }
        Err(PyValueError::new_err(
            "this ObjectRef was made before shutdown(): its object is gone. Make the object again.",
        ))
    }
}

impl Drop for ObjectRef {
    fn drop(&mut self) {
        self.proc.release(self.flag.id());
    }
}

thread_local! {
    /// References met by the pickler of this thread; None: not ours, so the references leave our sight.
    static CAPTURE: RefCell<Option<Vec<ObjectId>>> = const { RefCell::new(None) };
}

/// References inside pickled bytes, held until the bytes have found their keeper: what the user's code
/// pickles may be gone before.
#[derive(Debug)]
pub(crate) struct Held {
    proc: Arc<Proc>,
    ids: Vec<ObjectId>,
}

impl Held {
    pub(crate) const fn none(proc: Arc<Proc>) -> Self {
        Self { proc, ids: Vec::new() }
    }

    pub(crate) fn ids(&self) -> &[ObjectId] {
        &self.ids
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.proc.release_all(&self.ids);
    }
}

/// Collects the references that `work` pickles.
pub(crate) fn capture<R>(proc: &Arc<Proc>, work: impl FnOnce() -> PyResult<R>) -> PyResult<(R, Held)> {
    let before = CAPTURE.with(|cell| cell.borrow_mut().replace(Vec::new()));
    let result = work();
    let ids = CAPTURE.with(|cell| std::mem::replace(&mut *cell.borrow_mut(), before));
    let held = Held { proc: Arc::clone(proc), ids: ids.unwrap_or_default() };
    Ok((result?, held))
}

/// Notes that `object` is being pickled.
pub(crate) fn note_pickled(object: ObjectId, proc: &Proc) {
    CAPTURE.with(|cell| {
        if let Some(refs) = cell.borrow_mut().as_mut() {
            refs.push(object);
        }
    });
    // [`Held`] lets go of it. If it was pickled by the user's own hand, nobody can know how long the bytes
    // live, so the object lives on.
    proc.hold(object);
}

pub(crate) fn encode_id(id: ObjectId) -> [u8; 20] {
    let mut out = [0; 20];
    out[..8].copy_from_slice(&id.owner.as_u64().to_le_bytes());
    out[8..16].copy_from_slice(&id.seq.to_le_bytes());
    out[16..].copy_from_slice(&id.index.to_le_bytes());
    out
}

#[pymethods]
impl ObjectRef {
    /// A reference from its 28 bytes, which must be known to this process or its owner.
    #[new]
    #[pyo3(signature = (binary, *_args, **_kwargs))]
    fn new(
        py: Python<'_>,
        binary: &[u8],
        _args: &Bound<'_, pyo3::types::PyTuple>,
        _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> PyResult<Self> {
        let raw: &[u8; 28] = binary
            .try_into()
            .map_err(|_| PyValueError::new_err(format!("an ObjectRef has 28 bytes, not {}", binary.len())))?;
        let session = session::ensure(py)?;
        let object = ObjectId::from_ray_bytes(raw);
        let flag = session.proc.hold(object);
        Ok(Self { flag, proc: Arc::clone(&session.proc) })
    }

    fn hex(&self) -> String {
        raymesh_wire::ids::hex(&self.id().to_ray_bytes(session::job()))
    }

    fn binary<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.id().to_ray_bytes(session::job()))
    }

    fn task_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyBytes::new(py, &self.id().task().to_ray_bytes(session::job()));
        py.import("raymesh._ids")?.getattr("TaskID")?.call1((bytes,))
    }

    fn job_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyBytes::new(py, &session::job().0.to_le_bytes());
        py.import("raymesh._ids")?.getattr("JobID")?.call1((bytes,))
    }

    #[allow(clippy::unused_self)]
    const fn is_nil(&self) -> bool {
        false
    }

    fn is_ready(&self) -> bool {
        self.flag.is_ready()
    }

    fn future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("raymesh._futures")?.getattr("future")?.call1((slf,))
    }

    /// Ready, or nobody will make it so any more.
    fn done(&self) -> bool {
        self.flag.is_ready() || self.proc.is_stopping()
    }

    #[allow(clippy::unused_self)]
    const fn cancelled(&self) -> bool {
        false
    }

    fn result<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("raymesh._aio")?.getattr("result")?.call1((slf,))
    }

    fn exception<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("raymesh._aio")?.getattr("exception")?.call1((slf,))
    }

    #[pyo3(signature = (callback, *, context = None))]
    fn add_done_callback<'py>(
        slf: &Bound<'py, Self>,
        callback: &Bound<'py, PyAny>,
        context: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("raymesh._aio")?.getattr("add_done_callback")?.call1((slf, callback, context))
    }

    fn remove_done_callback<'py>(
        slf: &Bound<'py, Self>,
        callback: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("raymesh._aio")?.getattr("remove_done_callback")?.call1((slf, callback))
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("raymesh._aio")?.getattr("wait_for")?.call1((slf,))
    }

    #[classmethod]
    fn nil(_cls: &Bound<'_, PyType>) -> PyResult<Self> {
        Err(PyValueError::new_err("raymesh has no nil ObjectRef: use None"))
    }

    #[classmethod]
    fn size(_cls: &Bound<'_, PyType>) -> usize {
        28
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cls.py().import("types")?.getattr("GenericAlias")?.call1((cls, item))
    }

    /// As for Ray without `RAY_record_ref_creation_sites`.
    #[allow(clippy::unused_self)]
    const fn call_site(&self) -> &'static str {
        ""
    }

    /// None: there are no transports of tensors to choose from.
    #[allow(clippy::unused_self)]
    const fn tensor_transport(&self) -> Option<&'static str> {
        None
    }

    /// Old for `asyncio.wrap_future(ref.future())`.
    #[pyo3(signature = (_internal=false))]
    fn as_future<'py>(slf: &Bound<'py, Self>, _internal: bool) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("asyncio")?.getattr("wrap_future")?.call1((Self::future(slf)?,))
    }

    #[classmethod]
    fn from_binary<'py>(
        cls: &Bound<'py, PyType>,
        id_bytes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cls.call1((id_bytes,))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.id().hash(&mut hasher);
        hasher.finish()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().id() == self.id())
    }

    fn __repr__(&self) -> String {
        format!("ObjectRef({})", self.hex())
    }

    fn __iter__(&self) -> PyResult<Py<PyAny>> {
        Err(PyTypeError::new_err(
            "an ObjectRef is not iterable: read its value with raymesh.get(ref), or ask for several \
             results with num_returns",
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        note_pickled(self.id(), &self.proc);
        let restore = restore_function(py)?;
        Ok((restore, (PyBytes::new(py, &encode_id(self.id())),)))
    }
}

fn restore_function(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static RESTORE: pyo3::sync::PyOnceLock<Py<PyAny>> = pyo3::sync::PyOnceLock::new();
    let function = RESTORE.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        Ok(py.import("raymesh._native")?.getattr("restore_ref")?.unbind())
    })?;
    Ok(function.bind(py).clone())
}

pub(crate) fn decode_id(raw: &[u8]) -> PyResult<ObjectId> {
    let wrong = || PyValueError::new_err("not a pickled ObjectRef");
    let raw: &[u8; 20] = raw.try_into().map_err(|_| wrong())?;
    let word = |at: usize| raw[at..at + 8].try_into().map(u64::from_le_bytes);
    let index = raw[16..].try_into().map(u32::from_le_bytes);
    match (word(0), word(8), index) {
        (Ok(owner), Ok(seq), Ok(index)) => {
            Ok(ObjectId { owner: raymesh_wire::ProcId::from_u64(owner), seq, index })
        }
        _ => Err(wrong()),
    }
}

/// Unpickles a reference.
#[pyfunction]
pub(crate) fn restore_ref(py: Python<'_>, raw: &[u8]) -> PyResult<ObjectRef> {
    let object = decode_id(raw)?;
    let session = session::ensure(py)?;
    let flag = session.proc.hold(object);
    Ok(ObjectRef { flag, proc: Arc::clone(&session.proc) })
}
