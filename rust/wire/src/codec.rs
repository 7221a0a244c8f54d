//! Messages to bytes and back: little-endian, lengths before contents, no host-dependent integer.
//!
//! Calls, replies and ownership messages are coded by hand for speed; control messages with
//! postcard. Decoding checks every length against what is left before it allocates.

use bytes::{Buf, BufMut, Bytes};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::{ActorId, FunctionId, LeaseId, ObjectId, ProcId, TaskId};
use crate::message::{Call, CallTarget, Message, Reply, ReplyStatus, Return};
use crate::value::{Block, ErrorKind, ErrorValue, Place, Value};

/// Why bytes are no message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    #[error("message ends before its {what}")]
    Truncated { what: &'static str },
    #[error("unknown {what} {found}")]
    Unknown { what: &'static str, found: u8 },
    #[error("method name is not UTF-8")]
    NotUtf8,
    #[error("{count} bytes after the end of the message")]
    Trailing { count: usize },
    #[error("control message does not parse: {0}")]
    Control(String),
}

type Result<T> = std::result::Result<T, DecodeError>;

/// No longer error, options or pickled function may be put into a message. (Values that are large travel in shared
/// memory.)
pub const MAX_PAYLOAD: usize = 1 << 30;

const CALL: u8 = 1;
const REPLY: u8 = 2;
const WANT: u8 = 3;
const VALUE: u8 = 4;
const BORROW: u8 = 5;
const RELEASE: u8 = 6;
const RECALL: u8 = 7;
const RECALLED: u8 = 8;
const FREE_BLOCKS: u8 = 9;
const TO_CONTROLLER: u8 = 10;
const FROM_CONTROLLER: u8 = 11;
const TO_AGENT: u8 = 12;
const FROM_AGENT: u8 = 13;
const BETWEEN: u8 = 14;
const LOST: u8 = 15;

/// Appends `message` to `out`.
pub fn encode(message: &Message, out: &mut Vec<u8>) {
    match message {
        Message::Call(call) => encode_call(call, out),
        Message::Reply(reply) => {
            out.put_u8(REPLY);
            put_reply(out, reply);
        }
        Message::Want { object } => {
            out.put_u8(WANT);
            put_object(out, *object);
        }
        Message::Value { object, value, refs, places } => {
            out.put_u8(VALUE);
            put_object(out, *object);
            put_value(out, value);
            put_objects(out, refs);
            put_places(out, places);
        }
        Message::Borrow { holds } => {
            out.put_u8(BORROW);
            put_list(out, holds, |out, (object, proc)| {
                put_object(out, *object);
                out.put_u64_le(proc.as_u64());
            });
        }
        Message::Release { holds } => {
            out.put_u8(RELEASE);
            put_list(out, holds, |out, (object, through, count)| {
                put_object(out, *object);
                out.put_u64_le(through.as_u64());
                out.put_u32_le(*count);
            });
        }
        Message::Recall { lease, max } => {
            out.put_u8(RECALL);
            out.put_u64_le(lease.0);
            out.put_u32_le(*max);
        }
        Message::Recalled { lease, tasks } => {
            out.put_u8(RECALLED);
            out.put_u64_le(lease.0);
            put_list(out, tasks, |out, task| put_task(out, *task));
        }
        Message::FreeBlocks { blocks } => {
            out.put_u8(FREE_BLOCKS);
            put_list(out, blocks, put_block);
        }
        Message::ToController(m) => put_serde(out, TO_CONTROLLER, m),
        Message::FromController(m) => put_serde(out, FROM_CONTROLLER, m),
        Message::ToAgent(m) => put_serde(out, TO_AGENT, m),
        Message::FromAgent(m) => put_serde(out, FROM_AGENT, m),
        Message::Between(m) => put_serde(out, BETWEEN, m),
        Message::Lost { object, block } => {
            out.put_u8(LOST);
            put_object(out, *object);
            put_block(out, block);
        }
    }
}

/// Appends a call that is kept elsewhere: as [`encode`] of [`Message::Call`].
pub fn encode_call(call: &Call, out: &mut Vec<u8>) {
    out.put_u8(CALL);
    put_call(out, call);
}

/// Reads one whole message. Payloads share `input`'s memory.
///
/// # Errors
/// Any input that [`encode`] does not produce.
pub fn decode(mut input: Bytes) -> Result<Message> {
    let kind = get_u8(&mut input, "kind")?;
    let message = match kind {
        CALL => Message::Call(Box::new(get_call(&mut input)?)),
        REPLY => Message::Reply(Box::new(get_reply(&mut input)?)),
        WANT => Message::Want { object: get_object(&mut input)? },
        VALUE => Message::Value {
            object: get_object(&mut input)?,
            value: get_value(&mut input)?,
            refs: get_objects(&mut input)?,
            places: get_places(&mut input)?,
        },
        BORROW => Message::Borrow {
            holds: get_list(&mut input, OBJECT_LEN + 8, |input| Ok((get_object(input)?, get_proc(input)?)))?,
        },
        RELEASE => Message::Release {
            holds: get_list(&mut input, OBJECT_LEN + 12, |input| {
                Ok((get_object(input)?, get_proc(input)?, get_u32(input, "count")?))
            })?,
        },
        RECALL => Message::Recall { lease: get_lease(&mut input)?, max: get_u32(&mut input, "max")? },
        RECALLED => Message::Recalled {
            lease: get_lease(&mut input)?,
            tasks: get_list(&mut input, TASK_LEN, get_task)?,
        },
        FREE_BLOCKS => Message::FreeBlocks { blocks: get_list(&mut input, BLOCK_LEN, get_block)? },
        TO_CONTROLLER => Message::ToController(get_serde(&mut input)?),
        FROM_CONTROLLER => Message::FromController(get_serde(&mut input)?),
        TO_AGENT => Message::ToAgent(get_serde(&mut input)?),
        FROM_AGENT => Message::FromAgent(get_serde(&mut input)?),
        BETWEEN => Message::Between(get_serde(&mut input)?),
        LOST => Message::Lost { object: get_object(&mut input)?, block: get_block(&mut input)? },
        found => return Err(DecodeError::Unknown { what: "message kind", found }),
    };
    match input.len() {
        0 => Ok(message),
        count => Err(DecodeError::Trailing { count }),
    }
}

const TASK_LEN: usize = 16;
const OBJECT_LEN: usize = 20;
const BLOCK_LEN: usize = 24;

fn put_serde<T: Serialize>(out: &mut Vec<u8>, kind: u8, message: &T) {
    out.put_u8(kind);
    // Writing plain data to memory cannot fail: no map of unknown length, no custom serializer.
    *out = postcard::to_extend(message, std::mem::take(out)).unwrap_or_default();
}

fn get_serde<T: DeserializeOwned>(input: &mut Bytes) -> Result<T> {
    let (message, rest) =
        postcard::take_from_bytes::<T>(input).map_err(|e| DecodeError::Control(e.to_string()))?;
    let used = input.len() - rest.len();
    input.advance(used);
    Ok(message)
}

fn put_call(out: &mut Vec<u8>, call: &Call) {
    put_task(out, call.task);
    out.put_u32_le(call.attempt);
    out.put_u32_le(call.num_returns);
    match &call.target {
        CallTarget::Function { lease, function } => {
            out.put_u8(0);
            out.put_u64_le(lease.0);
            out.put_slice(&function.0);
        }
        CallTarget::Method { actor, name } => {
            out.put_u8(1);
            out.put_u64_le(actor.creator.as_u64());
            out.put_u32_le(actor.seq);
            put_bytes(out, name.as_bytes());
        }
    }
    put_value(out, &call.args);
    match call.args_object {
        Some(object) => {
            out.put_u8(1);
            put_object(out, object);
        }
        None => out.put_u8(0),
    }
    let mut inside = call.dep_refs.iter().copied();
    put_list(out, &call.deps, |out, (object, value)| {
        put_object(out, *object);
        put_value(out, value);
        out.put_u32_le(inside.next().unwrap_or(0));
    });
    put_objects(out, &call.refs);
    put_places(out, &call.places);
    put_bytes(out, &call.options);
}

fn get_call(input: &mut Bytes) -> Result<Call> {
    let task = get_task(input)?;
    let attempt = get_u32(input, "attempt")?;
    let num_returns = get_u32(input, "number of returns")?;
    let target = match get_u8(input, "call target")? {
        0 => {
            let lease = get_lease(input)?;
            need(input, 16, "function id")?;
            let mut function = [0; 16];
            input.copy_to_slice(&mut function);
            CallTarget::Function { lease, function: FunctionId(function) }
        }
        1 => {
            let creator = get_proc(input)?;
            let seq = get_u32(input, "actor id")?;
            let name = get_bytes(input, "method name")?;
            let name = std::str::from_utf8(&name).map_err(|_| DecodeError::NotUtf8)?.to_owned();
            CallTarget::Method { actor: ActorId { creator, seq }, name }
        }
        found => return Err(DecodeError::Unknown { what: "call target", found }),
    };
    let args = get_value(input)?;
    let args_object = match get_u8(input, "argument object")? {
        0 => None,
        1 => Some(get_object(input)?),
        found => return Err(DecodeError::Unknown { what: "argument object flag", found }),
    };
    let mut dep_refs = Vec::new();
    let deps = get_list(input, OBJECT_LEN + 5, |input| {
        let dep = (get_object(input)?, get_value(input)?);
        dep_refs.push(get_u32(input, "number of references inside an argument")?);
        Ok(dep)
    })?;
    let refs = get_objects(input)?;
    let places = get_places(input)?;
    let options = get_bytes(input, "options")?;
    Ok(Call { task, attempt, target, num_returns, args, args_object, deps, refs, dep_refs, places, options })
}

fn put_reply(out: &mut Vec<u8>, reply: &Reply) {
    put_task(out, reply.task);
    out.put_u32_le(reply.attempt);
    out.put_u8(match reply.status {
        ReplyStatus::Ok => 0,
        ReplyStatus::Raised => 1,
        ReplyStatus::RaisedRetryable => 2,
        ReplyStatus::Failed => 3,
    });
    out.put_u32_le(reply.exec_us);
    put_list(out, &reply.returns, |out, item| {
        put_value(out, &item.value);
        put_objects(out, &item.refs);
    });
    put_objects(out, &reply.holds);
    put_places(out, &reply.places);
}

fn get_reply(input: &mut Bytes) -> Result<Reply> {
    let task = get_task(input)?;
    let attempt = get_u32(input, "attempt")?;
    let status = match get_u8(input, "reply status")? {
        0 => ReplyStatus::Ok,
        1 => ReplyStatus::Raised,
        2 => ReplyStatus::RaisedRetryable,
        3 => ReplyStatus::Failed,
        found => return Err(DecodeError::Unknown { what: "reply status", found }),
    };
    let exec_us = get_u32(input, "execution time")?;
    let returns =
        get_list(input, 5, |input| Ok(Return { value: get_value(input)?, refs: get_objects(input)? }))?;
    let holds = get_objects(input)?;
    let places = get_places(input)?;
    Ok(Reply { task, attempt, status, exec_us, returns, holds, places })
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Inline(body) => {
            out.put_u8(0);
            put_bytes(out, body);
        }
        Value::Stored(block) => {
            out.put_u8(1);
            put_block(out, block);
        }
        Value::Error(error) => {
            out.put_u8(2);
            out.put_u8(error.kind.code());
            put_bytes(out, &error.payload);
        }
    }
}

fn get_value(input: &mut Bytes) -> Result<Value> {
    match get_u8(input, "value kind")? {
        0 => Ok(Value::Inline(get_bytes(input, "value")?)),
        1 => Ok(Value::Stored(get_block(input)?)),
        2 => {
            let code = get_u8(input, "error kind")?;
            let kind =
                ErrorKind::from_code(code).ok_or(DecodeError::Unknown { what: "error kind", found: code })?;
            Ok(Value::Error(ErrorValue { kind, payload: get_bytes(input, "error")? }))
        }
        found => Err(DecodeError::Unknown { what: "value kind", found }),
    }
}

fn put_block(out: &mut Vec<u8>, block: &Block) {
    out.put_u64_le(block.home.as_u64());
    out.put_u64_le(block.offset);
    out.put_u64_le(block.len);
}

fn get_block(input: &mut Bytes) -> Result<Block> {
    need(input, BLOCK_LEN, "block")?;
    Ok(Block {
        home: ProcId::from_u64(input.get_u64_le()),
        offset: input.get_u64_le(),
        len: input.get_u64_le(),
    })
}

fn put_task(out: &mut Vec<u8>, task: TaskId) {
    out.put_u64_le(task.owner.as_u64());
    out.put_u64_le(task.seq);
}

fn get_task(input: &mut Bytes) -> Result<TaskId> {
    need(input, TASK_LEN, "task id")?;
    Ok(TaskId { owner: ProcId::from_u64(input.get_u64_le()), seq: input.get_u64_le() })
}

fn put_object(out: &mut Vec<u8>, object: ObjectId) {
    put_task(out, object.task());
    out.put_u32_le(object.index);
}

fn get_object(input: &mut Bytes) -> Result<ObjectId> {
    need(input, OBJECT_LEN, "object id")?;
    let task = get_task(input)?;
    Ok(task.object(input.get_u32_le()))
}

fn put_objects(out: &mut Vec<u8>, objects: &[ObjectId]) {
    put_list(out, objects, |out, object| put_object(out, *object));
}

fn get_objects(input: &mut Bytes) -> Result<Vec<ObjectId>> {
    get_list(input, OBJECT_LEN, get_object)
}

fn put_places(out: &mut Vec<u8>, places: &[Place]) {
    put_list(out, places, |out, place| {
        put_object(out, place.object);
        put_block(out, &place.block);
    });
}

fn get_places(input: &mut Bytes) -> Result<Vec<Place>> {
    get_list(input, OBJECT_LEN + BLOCK_LEN, |input| {
        Ok(Place { object: get_object(input)?, block: get_block(input)? })
    })
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    out.put_u32_le(items.len() as u32);
    for item in items {
        put(out, item);
    }
}

/// Reads a list whose items take at least `item_len` bytes each.
fn get_list<T>(
    input: &mut Bytes,
    item_len: usize,
    mut get: impl FnMut(&mut Bytes) -> Result<T>,
) -> Result<Vec<T>> {
    let count = get_u32(input, "list length")? as usize;
    if count > input.len() / item_len {
        return Err(DecodeError::Truncated { what: "list" });
    }
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(get(input)?);
    }
    Ok(items)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Whoever makes payloads refuses those above the limit, which is far below this.
    assert!(u32::try_from(bytes.len()).is_ok(), "a payload of {} bytes in a message", bytes.len());
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

fn get_bytes(input: &mut Bytes, what: &'static str) -> Result<Bytes> {
    let len = get_u32(input, what)? as usize;
    need(input, len, what)?;
    Ok(input.split_to(len))
}

fn get_proc(input: &mut Bytes) -> Result<ProcId> {
    need(input, 8, "process id")?;
    Ok(ProcId::from_u64(input.get_u64_le()))
}

fn get_lease(input: &mut Bytes) -> Result<LeaseId> {
    need(input, 8, "lease id")?;
    Ok(LeaseId(input.get_u64_le()))
}

fn get_u32(input: &mut Bytes, what: &'static str) -> Result<u32> {
    need(input, 4, what)?;
    Ok(input.get_u32_le())
}

fn get_u8(input: &mut Bytes, what: &'static str) -> Result<u8> {
    need(input, 1, what)?;
    Ok(input.get_u8())
}

fn need(input: &Bytes, len: usize, what: &'static str) -> Result<()> {
    if input.len() < len { Err(DecodeError::Truncated { what }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
