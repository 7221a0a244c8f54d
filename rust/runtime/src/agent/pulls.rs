//! Copies of blocks of other hosts, on their way piece by piece.
//!
//! The receiver asks for each piece, a few ahead: so a large object never fills the link, and small
//! messages pass between its pieces. A process gives the memory that a copy goes to; when it dies, its
//! copies are forgotten before its memory is used again.

use std::collections::BTreeMap;

use bytes::Bytes;
use raymesh_wire::between::Between;
use raymesh_wire::control::FromAgent;
use raymesh_wire::{Block, HostId, Message, ProcId, RequestId};

use super::run::Runner;

/// Bytes asked for at a time.
const PIECE: u64 = 1 << 20;
/// Pieces of one copy on their way at a time.
const AHEAD: u64 = 4;

#[derive(Debug)]
struct Pull {
    whom: ProcId,
    /// As the process calls it.
    request: RequestId,
    from: Block,
    into: Block,
    asked: u64,
    arrived: u64,
}

/// What is under way.
#[derive(Debug, Default)]
pub struct Pulls {
    running: BTreeMap<RequestId, Pull>,
    next: u64,
}

impl Pulls {
    fn begin(&mut self, pull: Pull) -> RequestId {
        self.next += 1;
        self.running.insert(RequestId(self.next), pull);
        RequestId(self.next)
    }

    /// The next piece to ask for.
    fn next_piece(&mut self, id: RequestId) -> Option<(HostId, Between)> {
        let pull = self.running.get_mut(&id)?;
        let len = PIECE.min(pull.from.len - pull.asked);
        let room = pull.asked - pull.arrived < PIECE * AHEAD;
        if len == 0 || !room {
            return None;
        }
        let at = pull.asked;
        pull.asked += len;
        let fetch = Between::Fetch { request: id, block: pull.from, at, len: len as u32 };
        Some((pull.from.host(), fetch))
    }

    /// The process is dead: nothing is written for it any more.
    pub fn forget(&mut self, proc: ProcId) {
        self.running.retain(|_, pull| pull.whom != proc);
    }

    fn of_host(&self, host: HostId) -> Vec<RequestId> {
        let of_host = self.running.iter().filter(|(_, pull)| pull.from.host() == host);
        of_host.map(|(id, _)| *id).collect()
    }
}

impl Runner {
    /// A process wants a copy.
    pub(super) fn pull(&mut self, whom: ProcId, request: RequestId, from: Block, into: Block) {
        let reachable = self.links.as_ref().is_some_and(|links| links.hub.is_alive(from.host()));
        if !reachable || into.len < from.len {
            return self.pulled(whom, request, false);
        }
        let pull = Pull { whom, request, from, into, asked: 0, arrived: 0 };
        let id = self.pulls.begin(pull);
        self.go_on(id);
    }

    fn go_on(&mut self, id: RequestId) {
        while let Some((host, fetch)) = self.pulls.next_piece(id) {
            self.tell_agent(host, fetch);
        }
        if self.pulls.running.get(&id).is_some_and(|pull| pull.arrived == pull.from.len) {
            self.conclude_pull(id, true);
        }
    }

    fn conclude_pull(&mut self, id: RequestId, done: bool) {
        if let Some(pull) = self.pulls.running.remove(&id) {
            self.pulled(pull.whom, pull.request, done);
        }
    }

    fn pulled(&mut self, whom: ProcId, request: RequestId, done: bool) {
        self.send(whom, &Message::FromAgent(FromAgent::Pulled { request, done }));
    }

    /// Another host wants a piece of a block here. It holds the object, so the block is not freed meanwhile.
    pub(super) fn fetch(&mut self, host: HostId, request: RequestId, block: &Block, at: u64, len: u32) {
        let bytes = self.segment.block_bytes(block).ok();
        let piece = bytes.and_then(|bytes| {
            let at = usize::try_from(at).ok()?;
            bytes.get(at..at.checked_add(len as usize)?)
        });
        let answer = match piece {
            Some(piece) => Between::Chunk { request, at, bytes: Bytes::copy_from_slice(piece) },
            None => Between::NoBlock { request },
        };
        self.tell_agent(host, answer);
    }

    /// A piece has come.
    pub(super) fn arrived(&mut self, host: HostId, request: RequestId, at: u64, bytes: &Bytes) {
        let Some(pull) = self.pulls.running.get_mut(&request).filter(|pull| pull.from.host() == host) else {
            return;
        };
        let written = self.segment.write_block(&pull.into, |into| {
            let at = usize::try_from(at).ok()?;
            into.get_mut(at..at.checked_add(bytes.len())?)?.copy_from_slice(bytes);
            Some(())
        });
        if matches!(written, Ok(Some(()))) {
            pull.arrived += bytes.len() as u64;
            self.go_on(request);
        } else {
            self.conclude_pull(request, false);
        }
    }

    pub(super) fn no_block(&mut self, host: HostId, request: RequestId) {
        if self.pulls.running.get(&request).is_some_and(|pull| pull.from.host() == host) {
            self.conclude_pull(request, false);
        }
    }

    /// Nothing comes from there any more.
    pub(super) fn fail_pulls_from(&mut self, host: HostId) {
        for id in self.pulls.of_host(host) {
            self.conclude_pull(id, false);
        }
    }
}
