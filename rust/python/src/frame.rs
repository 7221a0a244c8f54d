//! Python values to bytes and back.
//!
//! A frame is a kind, then the contents. Plain scalars are written directly. All else is pickled with
//! protocol 5: a small body, and the large buffers (arrays) beside it, each aligned to 64 bytes, so
//! that they are copied once on the way in and not at all on the way out.
//!
//! ```text
//! SCALAR  tag contents
//! PICKLE  pad[3] count:u32 body_len:u64 {len:u64}*count  body  {pad buffer}*count
//! ```

use std::sync::Arc;

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use raymesh_runtime::process::StoreError;
use raymesh_wire::{Block, ObjectId, Place, Value};

use crate::errors::Failure;
use crate::hooks::hooks;
use crate::object_ref::{Held, capture};
use crate::objects::{self, Until};
use crate::session::Session;
use crate::view::{View, contiguous_bytes};

/// Frames up to this size travel in the message.
pub(crate) const INLINE_LIMIT: usize = 16 * 1024;
const ALIGN: usize = 64;
/// From this size on a buffer is copied by two threads; starting one takes some 30 us.
const COPY_IN_PARALLEL: usize = 8 << 20;

const SCALAR: u8 = 1;
const PICKLE: u8 = 2;

const NONE: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const STR: u8 = 5;
const BYTES: u8 = 6;

/// A serialized value, and the references inside it.
pub(crate) struct Frame {
    pub(crate) value: Value,
    pub(crate) refs: Held,
}

/// Serializes `obj` as (part of) an object. `prefix` goes before the frame. `what` is for the error:
/// "value", "result", or "arguments" for a pair of positional ones and keywords.
pub(crate) fn dump(
    py: Python<'_>,
    session: &Session,
    obj: &Bound<'_, PyAny>,
    prefix: &[u8],
    what: &'static str,
) -> PyResult<Frame> {
    let mut small = prefix.to_vec();
    if put_scalar(&mut small, obj)? {
        let refs = Held::none(Arc::clone(&session.proc));
        return Ok(Frame { value: store_small(py, session, small)?, refs });
    }
    let ((body, buffers), refs) = capture(&session.proc, || {
        let pair = hooks(py)?.serialize.bind(py).call1((obj, what))?;
        pair.extract::<(Bound<'_, PyBytes>, Vec<Bound<'_, PyAny>>)>()
    })?;
    let mut parts = Vec::with_capacity(buffers.len());
    for buffer in &buffers {
        parts.push(PyBuffer::<u8>::get(&buffer.call_method0("raw")?)?);
    }
    let body = body.as_bytes();
    let layout = Layout::new(prefix.len(), body.len(), parts.iter().map(|part| part.len_bytes()).collect());
    let value = if layout.total <= INLINE_LIMIT {
        small.resize(layout.total, 0);
        layout.write(py, &mut small, body, &parts)?;
        Value::Inline(Bytes::from(small))
    } else {
        let block = allocate(py, session, layout.total)?;
        let written = session.proc.segment().write_block(&block, |out| {
            out[..prefix.len()].copy_from_slice(prefix);
            layout.write(py, out, body, &parts)
        });
        if let Err(error) = written.map_err(damaged_block).and_then(|done| done) {
            session.proc.abandon(block);
            return Err(error);
        }
        Value::Stored(block)
    };
    Ok(Frame { value, refs })
}

fn store_small(py: Python<'_>, session: &Session, bytes: Vec<u8>) -> PyResult<Value> {
    if bytes.len() <= INLINE_LIMIT {
        return Ok(Value::Inline(Bytes::from(bytes)));
    }
    let block = allocate(py, session, bytes.len())?;
    let written = session.proc.segment().write_block(&block, |out| out.copy_from_slice(&bytes));
    written.map_err(damaged_block)?;
    Ok(Value::Stored(block))
}

fn allocate(py: Python<'_>, session: &Session, len: usize) -> PyResult<Block> {
    let allocated = py.detach(|| {
        session.proc.allocate(len as u64, || Python::attach(|py| py.check_signals()).map_err(Failure::Python))
    });
    allocated.map_err(PyErr::from)
}

/// Where the parts of a pickled frame lie.
struct Layout {
    start: usize,
    body: usize,
    buffers: Vec<(usize, usize)>,
    total: usize,
    body_len: usize,
}

impl Layout {
    fn new(start: usize, body_len: usize, lens: Vec<usize>) -> Self {
        let body = start + 16 + 8 * lens.len();
        let mut at = body + body_len;
        let buffers = lens
            .into_iter()
            .map(|len| {
                let offset = at.next_multiple_of(ALIGN);
                at = offset + len;
                (offset, len)
            })
            .collect();
        Self { start, body, buffers, total: at, body_len }
    }

    fn write(&self, py: Python<'_>, out: &mut [u8], body: &[u8], parts: &[PyBuffer<u8>]) -> PyResult<()> {
        let head = &mut out[self.start..self.body];
        head[0] = PICKLE;
        head[4..8].copy_from_slice(&(self.buffers.len() as u32).to_le_bytes());
        head[8..16].copy_from_slice(&(self.body_len as u64).to_le_bytes());
        for (slot, (_, len)) in head[16..].chunks_exact_mut(8).zip(&self.buffers) {
            slot.copy_from_slice(&(*len as u64).to_le_bytes());
        }
        out[self.body..self.body + self.body_len].copy_from_slice(body);
        for (part, (offset, len)) in parts.iter().zip(&self.buffers) {
            let target = &mut out[*offset..offset + len];
            match contiguous_bytes(part) {
                Some(source) if *len >= COPY_IN_PARALLEL => py.detach(|| copy_in_parallel(source, target)),
                _ => part.copy_to_slice(py, target)?,
            }
        }
        Ok(())
    }
}

/// Copies with two threads: one alone does not use all of the memory's bandwidth.
fn copy_in_parallel(source: &[u8], target: &mut [u8]) {
    let (ahead, behind) = target.split_at_mut(source.len() / 2);
    let (first, second) = source.split_at(ahead.len());
    if raymesh_sys::online_cpus() < 2 {
        ahead.copy_from_slice(first);
        behind.copy_from_slice(second);
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| behind.copy_from_slice(second));
        ahead.copy_from_slice(first);
    });
}

/// Appends a plain scalar as a frame. False: not one, nothing appended.
fn put_scalar(out: &mut Vec<u8>, obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    if obj.is_none() {
        out.extend([SCALAR, NONE]);
    } else if let Ok(value) = obj.cast_exact::<PyBool>() {
        out.extend([SCALAR, if value.is_true() { TRUE } else { FALSE }]);
    } else if let Ok(value) = obj.cast_exact::<PyInt>() {
        let Ok(value) = value.extract::<i64>() else { return Ok(false) };
        out.extend([SCALAR, INT]);
        out.extend(value.to_le_bytes());
    } else if let Ok(value) = obj.cast_exact::<PyFloat>() {
        out.extend([SCALAR, FLOAT]);
        out.extend(value.value().to_le_bytes());
    } else if let Ok(value) = obj.cast_exact::<PyString>() {
        // Lone surrogates have no UTF-8: pickle knows how to carry them.
        let Ok(value) = value.to_str() else { return Ok(false) };
        out.extend([SCALAR, STR]);
        out.extend(value.as_bytes());
    } else if let Ok(value) = obj.cast_exact::<PyBytes>() {
        out.extend([SCALAR, BYTES]);
        out.extend(value.as_bytes());
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Reads a frame back. `object` is what holds it, for views into shared memory.
pub(crate) fn load<'py>(
    py: Python<'py>,
    session: &Session,
    value: &Value,
    object: ObjectId,
    start: usize,
    until: Until,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Inline(bytes) => read(py, bytes, start, &mut |at, len| {
            Ok(PyBytes::new(py, bytes.get(at..at + len).ok_or_else(damaged)?).into_any())
        }),
        Value::Stored(block) => {
            let block = match here(py, session, Place { object, block: *block }) {
                Err(Failure::Store(StoreError::HostLost)) => {
                    let value = objects::next_value(py, session, object, *block, until)?;
                    return load(py, session, &value, object, start, until);
                }
                found => found?,
            };
            let bytes = stored(session, &block)?;
            read(py, bytes, start, &mut |at, len| {
                let view = View::new(&session.proc, object, block, at, len).ok_or_else(damaged)?;
                Ok(Bound::new(py, view)?.into_any())
            })
        }
        Value::Error(error) => Err(crate::errors::raise(py, error, object)),
    }
}

type Buffer<'a, 'py> = &'a mut dyn FnMut(usize, usize) -> PyResult<Bound<'py, PyAny>>;

fn read<'py>(
    py: Python<'py>,
    bytes: &[u8],
    start: usize,
    buffer: Buffer<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let frame = bytes.get(start..).ok_or_else(damaged)?;
    match frame.first() {
        Some(&SCALAR) => read_scalar(py, frame.get(1..).ok_or_else(damaged)?),
        Some(&PICKLE) => {
            let head = frame.get(..16).ok_or_else(damaged)?;
            let count = u32::from_le_bytes(array(&head[4..8])?) as usize;
            let body_len = u64::from_le_bytes(array(&head[8..16])?) as usize;
            let lens = frame.get(16..16 + 8 * count).ok_or_else(damaged)?;
            let lens = lens
                .chunks_exact(8)
                .map(|raw| Ok(u64::from_le_bytes(array(raw)?) as usize))
                .collect::<PyResult<Vec<_>>>()?;
            let layout = Layout::new(start, body_len, lens);
            let body = bytes.get(layout.body..layout.body + body_len).ok_or_else(damaged)?;
            let buffers = PyList::empty(py);
            for (at, len) in &layout.buffers {
                buffers.append(buffer(*at, *len)?)?;
            }
            hooks(py)?.deserialize.bind(py).call1((PyBytes::new(py, body), buffers))
        }
        _ => Err(damaged()),
    }
}

fn read_scalar<'py>(py: Python<'py>, frame: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let (tag, rest) = frame.split_first().ok_or_else(damaged)?;
    Ok(match *tag {
        NONE => py.None().into_bound(py),
        FALSE => PyBool::new(py, false).to_owned().into_any(),
        TRUE => PyBool::new(py, true).to_owned().into_any(),
        INT => i64::from_le_bytes(array(rest)?).into_pyobject(py)?.into_any(),
        FLOAT => PyFloat::new(py, f64::from_le_bytes(array(rest)?)).into_any(),
        STR => PyString::new(py, std::str::from_utf8(rest).map_err(|_| damaged())?).into_any(),
        BYTES => PyBytes::new(py, rest).into_any(),
        _ => return Err(damaged()),
    })
}

/// The block, or its copy in this host's memory.
pub(crate) fn here(py: Python<'_>, session: &Session, place: Place) -> Result<Block, Failure> {
    if place.block.host() == session.proc.me().host() {
        return Ok(place.block);
    }
    let check = || Python::attach(|py| py.check_signals()).map_err(Failure::Python);
    py.detach(|| session.proc.here(place, check))
}

/// The bytes of a block that is [`here`].
pub(crate) fn stored<'a>(session: &'a Session, block: &Block) -> PyResult<&'a [u8]> {
    session.proc.segment().block_bytes(block).map_err(damaged_block)
}

fn damaged_block(error: raymesh_shm::BadBlock) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn array<const N: usize>(raw: &[u8]) -> PyResult<[u8; N]> {
    raw.try_into().map_err(|_| damaged())
}

pub(crate) fn damaged() -> PyErr {
    PyValueError::new_err("a serialized value is damaged: please report this as a bug in raymesh")
}

/// Appends `kind` and all of `args` if each is a plain scalar (or a reference, whose value goes by
/// another way). False: something else is among them, nothing appended.
pub(crate) fn pack_scalars(out: &mut Vec<u8>, kind: u8, args: &Bound<'_, PyTuple>) -> PyResult<bool> {
    let start = out.len();
    let Ok(count) = u8::try_from(args.len()) else { return Ok(false) };
    out.extend([kind, count]);
    for arg in args.iter_borrowed() {
        let at = out.len();
        out.extend([0; 4]);
        if arg.is_exact_instance_of::<crate::object_ref::ObjectRef>() {
            out.extend([SCALAR, NONE]);
        } else if !put_scalar(out, &arg)? || out.len() > INLINE_LIMIT {
            out.truncate(start);
            return Ok(false);
        }
        let len = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }
    Ok(true)
}

/// Reads what [`pack_scalars`] wrote after its kind.
pub(crate) fn unpack_scalars<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let (count, mut rest) = bytes.split_first().ok_or_else(damaged)?;
    let mut items = Vec::with_capacity(usize::from(*count));
    for _ in 0..*count {
        let (len, tail) = rest.split_at_checked(4).ok_or_else(damaged)?;
        let (frame, tail) =
            tail.split_at_checked(u32::from_le_bytes(array(len)?) as usize).ok_or_else(damaged)?;
        items.push(read_scalar(py, frame.get(1..).ok_or_else(damaged)?)?);
        rest = tail;
    }
    PyTuple::new(py, items)
}
