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
    Coming,
    Here(Block),
}

/// By the block that was copied.
#[derive(Debug, Default)]
pub(super) struct Copies {
    blocks: HashMap<Block, State>,
    /// What the agent has answered.
    answers: HashMap<RequestId, bool>,
}

impl Copies {
    pub(super) fn pulled(&mut self, request: RequestId, done: bool) {
        self.answers.insert(request, done);
    }

    /// Nobody in this process needs the block any more; its copy, to be freed.
    pub(super) fn take(&mut self, block: &Block) -> Option<Block> {
        match self.blocks.get(block) {
            Some(State::Here(copy)) => {
                let copy = *copy;
                self.blocks.remove(block);
                Some(copy)
            }
            _ => None,
        }
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
        while !self.begin_copy(block) {
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
        }
        let copied = self.copy(block, &mut interrupted);
        let mut copies = self.copies.lock();
        match &copied {
            Ok(copy) => copies.blocks.insert(block, State::Here(*copy)),
            Err(_) => copies.blocks.remove(&block),
        };
        drop(copies);
        self.notify_followers();
        copied
    }

    /// Whether it is this thread's part to copy the block.
    fn begin_copy(&self, block: Block) -> bool {
        let mut copies = self.copies.lock();
        let missing = !copies.blocks.contains_key(&block);
        if missing {
            copies.blocks.insert(block, State::Coming);
        }
        missing
    }

    fn copy<E: From<StoreError>>(
        &self,
        from: Block,
        interrupted: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Block, E> {
        let into = self.allocate(from.len, &mut *interrupted)?;
        let request = self.next_request();
        self.send(self.agent, &Message::ToAgent(ToAgent::Pull { request, from, into }));
        loop {
            let mut answer = None;
            let waited = self.wait_until(self.waiting(None, false), |proc| {
                answer = proc.copies.lock().answers.remove(&request);
                answer.is_some()
            });
            match (waited, answer) {
                (Waited::Done, Some(true)) => return Ok(into),
                (Waited::Done, _) => {
                    self.abandon(into);
                    return Err(E::from(StoreError::HostLost));
                }
                // The agent goes on writing until it has answered: the memory stays its.
                (Waited::Interrupted, _) => interrupted()?,
                _ => return Err(E::from(StoreError::Request(RequestError::Stopped))),
            }
        }
    }
}
