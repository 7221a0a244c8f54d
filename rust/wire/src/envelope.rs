//! A message for a process of another host, on its way through the agent of the sender's host.

use bytes::{Buf, BufMut, Bytes};

use crate::ids::ProcId;

/// No [`crate::Message`] begins with it.
const MARK: u8 = 0xff;
const LEN: usize = 9;

/// Puts an encoded message into an envelope. Appends to `out`.
pub fn enclose(to: ProcId, message: &[u8], out: &mut Vec<u8>) {
    out.reserve(LEN + message.len());
    out.put_u8(MARK);
    out.put_u64_le(to.as_u64());
    out.put_slice(message);
}

/// Whom it is for, and what is in it. None: it is no envelope.
#[must_use]
pub fn open(bytes: &Bytes) -> Option<(ProcId, Bytes)> {
    let mut rest = bytes.clone();
    if bytes.len() < LEN || rest.get_u8() != MARK {
        return None;
    }
    let to = ProcId::from_u64(rest.get_u64_le());
    Some((to, rest))
}
