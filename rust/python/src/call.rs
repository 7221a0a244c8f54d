//! Arguments of a call to bytes, and back.
//!
//! References passed as arguments themselves are taken out: the caller sends their values along, and
//! the worker puts these in their places. References inside arguments stay references.
//!
//! ```text
//! count:u16 {place:u32}*count kind:u8 ...     place: index of the argument; keywords have the top bit
//! kind 0: no arguments.  1: n:u8 {len:u32 scalar frame}*n.  2: a frame of (args, kwargs)
//! ```

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use raymesh_core::process::Arguments;
use raymesh_runtime::process::StoreError;
use raymesh_wire::{Block, ObjectId, Place, Value};

use crate::errors::Failure;
use crate::frame;
use crate::object_ref::{Held, ObjectRef};
use crate::objects::Until;
use crate::session::Session;

const EMPTY: u8 = 0;
const SCALARS: u8 = 1;
const PICKLED: u8 = 2;

/// Top bit of a place: the argument is a keyword's.
const KEYWORD: u32 = 1 << 31;

/// Serializes arguments. What they refer to is alive as long as the caller keeps `args`, `kwargs` and the
/// second answer.
pub(crate) fn pack(
    py: Python<'_>,
    session: &Session,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Arguments, Held)> {
    let mut deps = Vec::new();
    let mut head = vec![0, 0];
    let mut place = |object: ObjectId, at: u32| {
        deps.push(object);
        head.extend(at.to_le_bytes());
    };
    for (index, arg) in args.iter_borrowed().enumerate() {
        if let Ok(reference) = arg.cast_exact::<ObjectRef>() {
            place(reference.get().flag_in(session)?.id(), index as u32);
        }
    }
    if let Some(kwargs) = kwargs {
        for (index, (_, arg)) in kwargs.iter().enumerate() {
            if let Ok(reference) = arg.cast_exact::<ObjectRef>() {
                place(reference.get().flag_in(session)?.id(), index as u32 | KEYWORD);
            }
        }
    }
    let count = u16::try_from(deps.len()).map_err(|_| {
        pyo3::exceptions::PyValueError::new_err(
            "more than 65,535 references as arguments of one call: pass them in a list, and get them inside",
        )
    })?;
    head[..2].copy_from_slice(&count.to_le_bytes());
    let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
    if args.is_empty() && kwargs.is_none() {
        head.push(EMPTY);
        return Ok((inline(head, deps), Held::none(Arc::clone(&session.proc))));
    }
    if kwargs.is_none() && frame::pack_scalars(&mut head, SCALARS, args)? {
        return Ok((inline(head, deps), Held::none(Arc::clone(&session.proc))));
    }
    head.push(PICKLED);
    let payload = if deps.is_empty() {
        (args.clone(), kwargs.cloned())
    } else {
        (without_refs(py, args)?, kwargs.map(|kwargs| keywords_without_refs(py, kwargs)).transpose()?)
    };
    let payload = payload.into_pyobject(py)?;
    let frame = frame::dump(py, session, payload.as_any(), &head, "arguments")?;
    let object = match &frame.value {
        Value::Stored(_) => {
            let put = session.proc.with_core(|core, _, fx| core.put(frame.value.clone(), Vec::new(), fx));
            Some(put.id())
        }
        _ => None,
    };
    let refs = frame.refs.ids().to_vec();
    Ok((Arguments { value: frame.value, object, deps, refs }, frame.refs))
}

fn inline(bytes: Vec<u8>, deps: Vec<ObjectId>) -> Arguments {
    Arguments { value: Value::Inline(Bytes::from(bytes)), object: None, deps, refs: Vec::new() }
}

fn without_refs<'py>(py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    let none = py.None().into_bound(py);
    PyTuple::new(
        py,
        args.iter().map(|arg| if arg.is_exact_instance_of::<ObjectRef>() { none.clone() } else { arg }),
    )
}

fn keywords_without_refs<'py>(py: Python<'py>, kwargs: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, arg) in kwargs.iter() {
        if arg.is_exact_instance_of::<ObjectRef>() {
            out.set_item(name, py.None())?;
        } else {
            out.set_item(name, arg)?;
        }
    }
    Ok(out)
}

/// Positional and keyword arguments.
pub(crate) type Unpacked<'py> = (Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

/// Reads arguments back. `holder` is the object that holds them if they lie in shared memory.
pub(crate) fn unpack<'py>(
    py: Python<'py>,
    session: &Session,
    value: &Value,
    holder: Option<ObjectId>,
    deps: &[(ObjectId, Value)],
) -> Result<Unpacked<'py>, Failure> {
    let stored;
    let bytes: &[u8] = match value {
        Value::Inline(bytes) => bytes,
        Value::Stored(block) => {
            // Arguments in shared memory are an object of their own.
            let object = holder.ok_or_else(frame::damaged)?;
            stored = frame::stored(session, &frame::here(py, session, Place { object, block: *block })?)?;
            stored
        }
        Value::Error(error) => {
            let object = holder.unwrap_or(ObjectId { owner: session.proc.me(), seq: 0, index: 0 });
            return Err(crate::errors::raise(py, error, object).into());
        }
    };
    let count = usize::from(u16::from_le_bytes([at(bytes, 0)?, at(bytes, 1)?]));
    let kind_at = 2 + 4 * count;
    let (args, kwargs) = match at(bytes, kind_at)? {
        EMPTY => (PyTuple::empty(py), None),
        SCALARS => (frame::unpack_scalars(py, &bytes[kind_at + 1..])?, None),
        _ => {
            let holder = holder.unwrap_or(ObjectId { owner: session.proc.me(), seq: 0, index: 0 });
            let pair = frame::load(py, session, value, holder, kind_at + 1, Until::NEVER)?;
            pair.extract::<Unpacked<'py>>()?
        }
    };
    if count == 0 {
        return Ok((args, kwargs));
    }
    let mut items: Vec<Bound<'py, PyAny>> = args.iter().collect();
    for (index, (object, value)) in deps.iter().enumerate() {
        let raw = &bytes[2 + 4 * index..6 + 4 * index];
        let place = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        let loaded = frame::load(py, session, value, *object, 0, Until::NEVER)?;
        let key = (place & !KEYWORD) as usize;
        if place & KEYWORD == 0 {
            if let Some(slot) = items.get_mut(key) {
                *slot = loaded;
            }
        } else if let Some(kwargs) = &kwargs
            && let Some(name) = kwargs.keys().iter().nth(key)
        {
            kwargs.set_item(name, loaded)?;
        }
    }
    Ok((PyTuple::new(py, items)?, kwargs))
}

/// Brings arguments here that lie on other hosts. One of them whose bytes are gone, if there is any; other failures
/// are met again when they are read.
pub(crate) fn find_lost(
    py: Python<'_>,
    session: &Session,
    deps: &[(ObjectId, Value)],
) -> Option<(ObjectId, Block)> {
    deps.iter().find_map(|(object, value)| {
        let block = value.block().filter(|block| block.host() != session.proc.me().host())?;
        let found = frame::here(py, session, Place { object: *object, block });
        matches!(found, Err(Failure::Store(StoreError::HostLost))).then_some((*object, block))
    })
}

fn at(bytes: &[u8], index: usize) -> PyResult<u8> {
    bytes.get(index).copied().ok_or_else(frame::damaged)
}
