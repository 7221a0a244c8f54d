//! Blocks of other hosts, read here: the agent has one copy for all processes of the host.
//!
//! A process asks for it when it first reads the object, and tells the agent when it holds the object no more;
//! the core says when that is (`Effect::Unneeded`).

use foldhash::HashMap;
use raymesh_wire::control::{ActorSpec, NoCopy, ToAgent};
use raymesh_wire::{Block, Call, HostId, Message, ObjectId, Place, RequestId, Value};

use super::{Proc, StoreError, Waited};

#[derive(Clone, Copy, Debug)]
enum State {
    /// A thread waits for it.
    Coming,
    /// The thread that waited was interrupted.
    Left {
        request: RequestId,
    },
    Here(Block),
}

/// By the block that was copied.
#[derive(Debug, Default)]
pub(super) struct Copies {
    blocks: HashMap<Block, (ObjectId, State)>,
    /// What the agent has answered.
    answers: HashMap<RequestId, Result<Block, NoCopy>>,
    /// Of the requests that nobody waits for.
    left: HashMap<RequestId, Block>,
}

impl Copies {
    /// The agent has answered.
    pub(super) fn pulled(&mut self, request: RequestId, copy: Result<Block, NoCopy>) {
        let Some(block) = self.left.remove(&request) else {
            self.answers.insert(request, copy);
            return;
        };
        match (self.blocks.get_mut(&block), copy) {
            (Some((_, state @ State::Left { .. })), Ok(copy)) => *state = State::Here(copy),
            (Some((_, State::Left { .. })), Err(_)) => {
                self.blocks.remove(&block);
            }
            // The agent has been told that nobody needs it.
            _ => {}
        }
    }

    /// Nobody in this process needs the block any more: what to tell the agent then.
    pub(super) fn take(&mut self, block: &Block) -> Option<Place> {
        match self.blocks.get(block) {
            None | Some((_, State::Coming)) => None,
            Some((object, State::Left { .. } | State::Here(_))) => {
                let object = *object;
                self.blocks.remove(block);
                Some(Place { object, block: *block })
            }
        }
    }

    /// Makes it the caller's part to wait for the copy, unless it is another thread's or here: the request
    /// that was made for it, if one was.
    fn begin(&mut self, place: Place) -> Option<Option<RequestId>> {
        let made = match self.blocks.get(&place.block) {
            None => None,
            Some((_, State::Left { request })) => Some(*request),
            Some((_, State::Coming | State::Here(_))) => return None,
        };
        if let Some(request) = made {
            self.left.remove(&request);
        }
        self.blocks.insert(place.block, (place.object, State::Coming));
        Some(made)
    }

    /// The thread that waits for it does so no more.
    fn leave(&mut self, place: Place, request: RequestId) {
        self.blocks.insert(place.block, (place.object, State::Left { request }));
        self.left.insert(request, place.block);
        if let Some(copy) = self.answers.remove(&request) {
            self.pulled(request, copy);
        }
    }

    fn is_coming(&self, block: &Block) -> bool {
        matches!(self.blocks.get(block), Some((_, State::Coming)))
    }
}

/// Large arguments of a call that do not lie on the host where it will run.
pub(super) fn far_arguments(call: &Call, host: HostId) -> Vec<Place> {
    far(call.args_object, &call.args, &call.deps, host)
}

/// Large arguments of a constructor that do not lie on the host where it will run.
pub(crate) fn far_arguments_of(spec: &ActorSpec, host: HostId) -> Vec<Place> {
    far(spec.args_object, &spec.args, &spec.deps, host)
}

fn far(own: Option<ObjectId>, args: &Value, deps: &[(ObjectId, Value)], host: HostId) -> Vec<Place> {
    let place = |object: ObjectId, value: &Value| value.block().map(|block| Place { object, block });
    let own = own.and_then(|object| place(object, args));
    let deps = deps.iter().filter_map(|(object, value)| place(*object, value));
    own.into_iter().chain(deps).filter(|place| place.block.host() != host).collect()
}

impl Proc {
    /// The block of an object that this process holds, or its copy in this host's memory. Has it fetched if need
    /// be; `interrupted` is called when a signal arrives meanwhile and may give up.
    ///
    /// # Errors
    /// The bytes are gone, the store is full, or the runtime stops.
    pub fn here<E: From<StoreError>>(
        &self,
        place: Place,
        mut interrupted: impl FnMut() -> Result<(), E>,
    ) -> Result<Block, E> {
        let block = place.block;
        if block.host() == self.me.host() {
            return Ok(block);
        }
        let made = loop {
            if let Some(made) = self.copies.lock().begin(place) {
                break made;
            }
            if let Some((_, State::Here(copy))) = self.copies.lock().blocks.get(&block) {
                return Ok(*copy);
            }
            let waited =
                self.wait_until(self.waiting(None, false), |proc| !proc.copies.lock().is_coming(&block));
            match waited {
                Waited::Done => {}
                Waited::Interrupted => interrupted()?,
                _ => return Err(E::from(StoreError::Request(self.stopped()))),
            }
        };
        let request = made.unwrap_or_else(|| {
            let request = self.next_request();
            self.send(self.agent, &Message::ToAgent(ToAgent::Pull { request, place }));
            request
        });
        let copied = self.await_copy(place, request, &mut interrupted);
        self.notify_followers();
        copied
    }

    /// Waits for a copy, which is the caller's part.
    fn await_copy<E: From<StoreError>>(
        &self,
        place: Place,
        request: RequestId,
        interrupted: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Block, E> {
        loop {
            let mut answer = None;
            let waited = self.wait_until(self.waiting(None, false), |proc| {
                answer = proc.copies.lock().answers.remove(&request);
                answer.is_some()
            });
            match (waited, answer) {
                (Waited::Done, Some(Ok(copy))) => {
                    self.copies.lock().blocks.insert(place.block, (place.object, State::Here(copy)));
                    return Ok(copy);
                }
                (Waited::Done, Some(Err(why))) => {
                    self.copies.lock().blocks.remove(&place.block);
                    return Err(E::from(why.into()));
                }
                (Waited::Interrupted, _) => {
                    interrupted().inspect_err(|_| self.copies.lock().leave(place, request))?;
                }
                _ => {
                    self.copies.lock().blocks.remove(&place.block);
                    return Err(E::from(StoreError::Request(self.stopped())));
                }
            }
        }
    }
}
