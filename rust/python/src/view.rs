//! Shared memory as a Python buffer, held for as long as anybody looks.
//!
//! [`View`] is read-only. [`PrivateView`] may be written: its pages are the shared ones until they are
//! written, then copies of this process's own (for torch, which knows no read-only tensors).
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use raymesh_runtime::process::Proc;
use raymesh_sys::Mapping;
use raymesh_wire::{Block, ObjectId};

/// The bytes of a buffer that Python code exports, if they lie in one piece.
pub(crate) fn contiguous_bytes(buffer: &PyBuffer<u8>) -> Option<&[u8]> {
    if !buffer.is_c_contiguous() || buffer.len_bytes() == 0 {
        return None;
    }
    // SAFETY: the exporter keeps `len_bytes` bytes at `buf_ptr` in place as long as the buffer is held,
    // and so as long as the borrow. Other threads of the user's program may write to them meanwhile, as
    // they may while any extension module reads an array: that is a race in the user's program, and what
    // is copied then is whatever was there; the bytes are never interpreted here.
    Some(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}

/// A stretch of an object that lies in shared memory.
#[pyclass(frozen, module = "raymesh._native")]
#[derive(Debug)]
pub(crate) struct View {
    proc: Arc<Proc>,
    object: ObjectId,
    block: Block,
    start: usize,
    len: usize,
}

impl View {
    /// Bytes `start..start + len` of `block`, the value of `object`. Holds the object. None if the
    /// block has no such bytes.
    pub(crate) fn new(
        proc: &Arc<Proc>,
        object: ObjectId,
        block: Block,
        start: usize,
        len: usize,
    ) -> Option<Self> {
        proc.segment().block_bytes(&block).ok()?.get(start..start.checked_add(len)?)?;
        proc.hold(object);
        Some(Self { proc: Arc::clone(proc), object, block, start, len })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.proc.release(self.object);
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.len
    }

    /// The same bytes, writable: nobody else sees what is written.
    fn private(&self) -> PyResult<PrivateView> {
        let mapped = self.proc.segment().map_copy_on_write(&self.block);
        let (map, skip) = mapped.map_err(|error| crate::errors::os_error("cannot map an object", &error))?;
        self.proc.hold(self.object);
        let start = skip + self.start;
        Ok(PrivateView { proc: Arc::clone(&self.proc), object: self.object, map, start, len: self.len })
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("objects in shared memory are read-only: copy to change"));
        }
        let this = slf.get();
        let block = this.proc.segment().block_bytes(&this.block);
        let block = block.map_err(|error| PyBufferError::new_err(error.to_string()))?;
        let bytes = &block[this.start..this.start + this.len];
        // SAFETY: `view` is the interpreter's, to be filled here. The bytes stay mapped as long as the
        // segment, which `slf` keeps alive through `proc`, and unchanged as long as the object is held,
        // which `slf` does; the filled view owns a reference to `slf`.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr().cast_mut().cast(),
                this.len as ffi::Py_ssize_t,
                1,
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// A stretch of an object that lies in shared memory, to be written without anybody seeing it.
#[pyclass(frozen, module = "raymesh._native")]
#[derive(Debug)]
pub(crate) struct PrivateView {
    proc: Arc<Proc>,
    object: ObjectId,
    map: Mapping,
    start: usize,
    len: usize,
}

impl Drop for PrivateView {
    fn drop(&mut self) {
        self.proc.release(self.object);
    }
}

#[pymethods]
impl PrivateView {
    fn __len__(&self) -> usize {
        self.len
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let at = this.map.as_ptr().wrapping_add(this.start);
        // SAFETY: `view` is the interpreter's, to be filled here. `start..start + len` lies in the
        // private mapping, which `slf` owns; no Rust reference to its bytes is ever made, and the filled
        // view owns a reference to `slf`. The object is held, so pages not yet copied do not change.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at.cast(), this.len as ffi::Py_ssize_t, 0, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
