//! Blocks of other hosts, copied into this process's heap when they are first read.
//!
//! A copy stays as long as this process holds the object; the core says when that is over
//! (`Effect::Unneeded`).

use foldhash::HashMap;
use raymesh_wire::control::ToAgent;
use raymesh_wire::{Block, Message, RequestId};

use super::requests::RequestError;
use super::{Proc, StoreError, Waited};

#[derive(Clone, Copy, Debug)]
enum State {
    /// A thread sees to it.
    Coming,
    /// The thread that saw to it was interrupted; the agent goes on writing until it has answered.
    Left {
        request: RequestId,
        into: Block,
    },
    Here(Block),
}

/// By the block that was copied.
#[derive(Debug, Default)]
pub(super) struct Copies {
    blocks: HashMap<Block, State>,
    /// What the agent has answered.
    answers: HashMap<RequestId, bool>,
    /// Of the requests that nobody waits for: from where to where.
    left: HashMap<RequestId, (Block, Block)>,
}

impl Copies {
    /// The agent has answered. If nobody needs what it has written: what is to be freed.
    pub(super) fn pulled(&mut self, request: RequestId, done: bool) -> Option<Block> {
        let Some((from, into)) = self.left.remove(&request) else {
            self.answers.insert(request, done);
            return None;
        };
        let is_needed =
            matches!(self.blocks.get(&from), Some(State::Left { request: of, .. }) if *of == request);
        if !is_needed {
            return Some(into);
        }
        if done {
            self.blocks.insert(from, State::Here(into));
            return None;
        }
        self.blocks.remove(&from);
        Some(into)
    }

    /// Nobody in this process needs the block any more; its copy, to be freed.
    pub(super) fn take(&mut self, block: &Block) -> Option<Block> {
        match self.blocks.get(block) {
            Some(State::Here(copy)) => {
                let copy = *copy;
                self.blocks.remove(block);
                Some(copy)
            }
            // Free when the agent has answered.
            Some(State::Left { .. }) => {
                self.blocks.remove(block);
                None
            }
            _ => None,
        }
    }

    /// Makes it the caller's part to see to a copy of the block, unless it is another thread's or done:
    /// the request that was made for it, if one was.
    fn begin(&mut self, block: Block) -> Option<Option<(RequestId, Block)>> {
        let made = match self.blocks.get(&block) {
            None => None,
            Some(State::Left { request, into }) => Some((*request, *into)),
            Some(State::Coming | State::Here(_)) => return None,
        };
        if let Some((request, _)) = made {
            self.left.remove(&request);
        }
        self.blocks.insert(block, State::Coming);
        Some(made)
    }

    /// The thread that sees to it does so no more. What has come for nobody, to be freed.
    fn leave(&mut self, from: Block, request: RequestId, into: Block) -> Option<Block> {
        self.blocks.insert(from, State::Left { request, into });
        self.left.insert(request, (from, into));
        let done = self.answers.remove(&request)?;
        self.pulled(request, done)
    }
}

impl Proc {
    /// The block, or its copy in this host's memory. Fetches it if need be; `interrupted` is called when a
    /// signal arrives meanwhile and may give up.
    ///
    /// # Errors
    /// The other host is gone, the store is full, or the runtime stops.
    pub fn here<E: From<StoreError>>(
        &self,
        block: Block,
        mut interrupted: impl FnMut() -> Result<(), E>,
    ) -> Result<Block, E> {
        if block.host() == self.me.host() {
            return Ok(block);
        }
        let made = loop {
            if let Some(made) = self.copies.lock().begin(block) {
                break made;
            }
            if let Some(State::Here(copy)) = self.copies.lock().blocks.get(&block) {
                return Ok(*copy);
            }
            let waited = self.wait_until(self.waiting(None, false), |proc| {
                !matches!(proc.copies.lock().blocks.get(&block), Some(State::Coming))
            });
            match waited {
                Waited::Done => {}
                Waited::Interrupted => interrupted()?,
                _ => return Err(E::from(StoreError::Request(RequestError::Stopped))),
            }
        };
        let copied = self.copy(block, made, &mut interrupted);
        self.notify_followers();
        copied
    }

    /// Sees to a copy, which is the caller's part.
    fn copy<E: From<StoreError>>(
        &self,
        from: Block,
        made: Option<(RequestId, Block)>,
        interrupted: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Block, E> {
        let (request, into) = match made {
            Some(made) => made,
            None => {
                let into = self.allocate(from.len, &mut *interrupted).inspect_err(|_| {
                    self.copies.lock().blocks.remove(&from);
                })?;
                let request = self.next_request();
                self.send(self.agent, &Message::ToAgent(ToAgent::Pull { request, from, into }));
                (request, into)
            }
        };
        loop {
            let mut answer = None;
            let waited = self.wait_until(self.waiting(None, false), |proc| {
                answer = proc.copies.lock().answers.remove(&request);
                answer.is_some()
            });
            match (waited, answer) {
                (Waited::Done, Some(true)) => {
                    self.copies.lock().blocks.insert(from, State::Here(into));
                    return Ok(into);
                }
                (Waited::Done, _) => {
                    self.copies.lock().blocks.remove(&from);
                    self.abandon(into);
                    return Err(E::from(StoreError::HostLost));
                }
                (Waited::Interrupted, _) => interrupted().inspect_err(|_| {
                    let unneeded = self.copies.lock().leave(from, request, into);
                    if let Some(block) = unneeded {
                        self.abandon(block);
                    }
                })?,
                _ => {
                    self.copies.lock().blocks.remove(&from);
                    return Err(E::from(StoreError::Request(RequestError::Stopped)));
                }
            }
        }
    }
}
