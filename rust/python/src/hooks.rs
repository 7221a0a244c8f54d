//! Python functions that the native part calls: set once, at import of `raymesh`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// See `raymesh/_hooks.py` for what each takes and answers.
#[derive(Debug)]
pub(crate) struct Hooks {
    /// `(obj) -> (pickle: bytes, buffers: list[PickleBuffer])`
    pub(crate) serialize: Py<PyAny>,
    /// `(pickle: bytes, buffers: list) -> obj`
    pub(crate) deserialize: Py<PyAny>,
    /// `(kind: str, payload: bytes, object_hex: str) -> BaseException`
    pub(crate) materialize_error: Py<PyAny>,
    /// `(exc, name: str) -> bytes`
    pub(crate) package_error: Py<PyAny>,
    /// `() -> None`
    pub(crate) auto_init: Py<PyAny>,
}

static HOOKS: PyOnceLock<Hooks> = PyOnceLock::new();

#[pyfunction]
#[pyo3(signature = (*, serialize, deserialize, materialize_error, package_error, auto_init))]
pub(crate) fn set_hooks(
    py: Python<'_>,
    serialize: Py<PyAny>,
    deserialize: Py<PyAny>,
    materialize_error: Py<PyAny>,
    package_error: Py<PyAny>,
    auto_init: Py<PyAny>,
) {
    let hooks = Hooks { serialize, deserialize, materialize_error, package_error, auto_init };
    // Set by the one module that knows them; a second import of it changes nothing.
    let _ = HOOKS.set(py, hooks);
}

pub(crate) fn hooks(py: Python<'_>) -> PyResult<&'static Hooks> {
    HOOKS.get(py).ok_or_else(|| {
        pyo3::exceptions::PyRuntimeError::new_err("raymesh._native is used without raymesh: import raymesh")
    })
}
