//! What other hosts want of this one: a piece of each in turn, so that a small object never waits behind
//! a large one.

use std::collections::VecDeque;

use raymesh_wire::{Block, HostId, RequestId};

use super::pieces::{self, Pieces};

/// What one host wants of one object.
#[derive(Debug)]
pub struct Consignment {
    /// As the receiver calls it.
    pub request: RequestId,
    /// Where the bytes lie in this host's arena.
    pub block: Block,
    /// The copy of that request is still on its way here: only what has arrived can be passed on.
    pub behind: Option<RequestId>,
    pieces: VecDeque<u32>,
    /// Handed to lanes, and not sent yet.
    busy: u32,
    cancelled: bool,
}

impl Consignment {
    /// `wanted`: first and count. None: there are no such pieces.
    pub fn new(
        request: RequestId,
        block: Block,
        behind: Option<RequestId>,
        wanted: &[(u32, u32)],
    ) -> Option<Self> {
        let most = pieces::count(block.len);
        // Before anything is allocated for it.
        let fits = |(first, count): &(u32, u32)| u64::from(*first) + u64::from(*count) <= most;
        let total: u64 = wanted.iter().map(|(_, count)| u64::from(*count)).sum();
        if !wanted.iter().all(fits) || total > most {
            return None;
        }
        let pieces = wanted.iter().flat_map(|(first, count)| *first..*first + *count).collect();
        Some(Self { request, block, behind, pieces, busy: 0, cancelled: false })
    }

    fn is_over(&self) -> bool {
        self.busy == 0 && (self.cancelled || self.pieces.is_empty())
    }
}

/// A piece to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub request: RequestId,
    /// The piece alone.
    pub block: Block,
    /// Where it begins in the object.
    pub at: u64,
}

/// All that one host wants.
#[derive(Debug, Default)]
pub struct Sending {
    queue: VecDeque<Consignment>,
}

impl Sending {
    pub fn push(&mut self, consignment: Consignment) {
        self.queue.push_back(consignment);
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next piece; `arrived` has those of copies that are on their way here.
    pub fn next<'a>(&mut self, arrived: impl Fn(RequestId) -> Option<&'a Pieces>) -> Option<Job> {
        for at in 0..self.queue.len() {
            let consignment = &mut self.queue[at];
            if consignment.cancelled {
                continue;
            }
            let found = match consignment.behind {
                None => (!consignment.pieces.is_empty()).then_some(0),
                Some(request) => arrived(request)
                    .and_then(|pieces| consignment.pieces.iter().position(|piece| pieces.has(*piece))),
            };
            let Some(piece) = found.and_then(|at| consignment.pieces.remove(at)) else { continue };
            consignment.busy += 1;
            let (start, len) = pieces::range(consignment.block.len, piece);
            let Block { home, offset, .. } = consignment.block;
            let block = Block { home, offset: offset + start, len };
            let job = Job { request: consignment.request, block, at: start };
            let turn = self.queue.remove(at);
            self.queue.extend(turn);
            return Some(job);
        }
        None
    }

    /// The piece has left, or its lane has broken. True: nothing is left of its consignment.
    pub fn sent(&mut self, request: RequestId) -> bool {
        let Some(consignment) = self.queue.iter_mut().find(|consignment| {
            // The same request may come again while pieces of the first time are leaving.
            consignment.request == request && consignment.busy > 0
        }) else {
            return false;
        };
        consignment.busy -= 1;
        self.clear_out()
    }

    /// Nothing more is wanted of the requests for which it is so. Answers which these are; pieces of theirs
    /// may still be leaving.
    pub fn cancel(&mut self, which: impl Fn(&Consignment) -> bool) -> Vec<RequestId> {
        let mut cancelled = Vec::new();
        for consignment in self.queue.iter_mut().filter(|one| !one.cancelled && which(one)) {
            consignment.cancelled = true;
            cancelled.push(consignment.request);
        }
        self.clear_out();
        cancelled
    }

    /// The copy is whole now.
    pub fn arrived(&mut self, request: RequestId) {
        for consignment in self.queue.iter_mut().filter(|one| one.behind == Some(request)) {
            consignment.behind = None;
        }
    }

    /// Whether something is sent, or to be sent, from there.
    pub fn uses(&self, block: &Block) -> bool {
        self.queue.iter().any(|consignment| consignment.block == *block)
    }

    fn clear_out(&mut self) -> bool {
        let before = self.queue.len();
        self.queue.retain(|consignment| !consignment.is_over());
        self.queue.len() < before
    }
}

/// What each host wants.
pub type ByHost = std::collections::BTreeMap<HostId, Sending>;
