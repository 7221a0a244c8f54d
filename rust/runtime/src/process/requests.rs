//! Questions to the controller and the agent, and their answers.

use std::time::Duration;

use foldhash::{HashMap, HashSet};
use raymesh_core::process::Process;
use raymesh_wire::control::{Extent, HeapFull, ToAgent};
use raymesh_wire::{
    ActorId, FromController, FunctionId, GroupId, HostId, Message, ObjectId, Place, RequestId, ToController,
};

use super::{Proc, Waited};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error("raymesh was shut down while this call waited")]
    Stopped,
    /// The cluster is gone.
    #[error("{0}")]
    Lost(String),
}

/// Questions under way.
#[derive(Debug, Default)]
pub(super) struct Requests {
    next: u64,
    answers: HashMap<RequestId, FromController>,
    heap: HashMap<RequestId, Result<Extent, HeapFull>>,
    located: HashMap<RequestId, Vec<HostId>>,
    /// Questions whose answers nobody waits for any more.
    given_up: HashSet<RequestId>,
    /// Creations that the controller refused.
    refused: HashMap<ActorId, String>,
    refused_groups: HashMap<GroupId, String>,
}

impl Requests {
    fn next(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    pub(super) fn heap_grown(&mut self, request: RequestId, grown: Result<Extent, HeapFull>) {
        self.heap.insert(request, grown);
    }

    pub(super) fn take_heap(&mut self, request: RequestId) -> Option<Result<Extent, HeapFull>> {
        self.heap.remove(&request)
    }

    pub(super) fn located(&mut self, request: RequestId, hosts: Vec<HostId>) {
        self.located.insert(request, hosts);
    }

    /// Keeps an answer for who asked. Answers back what nobody waits for.
    pub(super) fn answered(&mut self, answer: FromController) -> Option<FromController> {
        let request = match &answer {
            FromController::ActorFound { request, .. }
            | FromController::Actors { request, .. }
            | FromController::Function { request, .. }
            | FromController::Groups { request, .. }
            | FromController::Draining { request, .. }
            | FromController::Status { request, .. }
            | FromController::Cluster { request, .. } => *request,
            FromController::GroupRefused { group, reason } => {
                self.refused_groups.insert(*group, reason.clone());
                return None;
            }
            FromController::CreateRefused { actor, reason } => {
                self.refused.insert(*actor, reason.clone());
                return None;
            }
            _ => return Some(answer),
        };
        if self.given_up.remove(&request) {
            return Some(answer);
        }
        self.answers.insert(request, answer);
        None
    }

    /// Nobody waits for the answer any more. Answers it back if it is there.
    fn give_up(&mut self, request: RequestId) -> Option<FromController> {
        let answer = self.answers.remove(&request);
        if answer.is_none() {
            self.given_up.insert(request);
        }
        answer
    }
}

/// What the core holds for whoever asked.
pub(super) fn held_by(answer: &FromController) -> Option<ObjectId> {
    match answer {
        FromController::ActorFound { found: Ok(info), .. } => Some(Process::actor_handle(info.actor)),
        _ => None,
    }
}

impl Proc {
    pub(super) fn next_request(&self) -> RequestId {
        self.requests.lock().next()
    }

    pub(super) fn ask_heap(&self, bytes: u64) -> RequestId {
        let request = self.requests.lock().next();
        self.send(self.agent, &Message::ToAgent(ToAgent::GrowHeap { request, bytes }));
        request
    }

    /// Asks the controller and waits for the answer. `interrupted` is called when a signal arrives
    /// meanwhile and may give up.
    ///
    /// # Errors
    /// The runtime stops, or `interrupted` gives up.
    pub fn ask<E: From<RequestError>>(
        &self,
        question: impl FnOnce(RequestId) -> ToController,
        mut interrupted: impl FnMut() -> Result<(), E>,
    ) -> Result<FromController, E> {
        let request = self.requests.lock().next();
        self.tell_controller(question(request));
        let waiting = self.waiting(None, false);
        loop {
            let mut answer = None;
            let waited = self.wait_until(waiting, |proc| {
                answer = proc.requests.lock().answers.remove(&request);
                answer.is_some()
            });
            match (waited, answer) {
                (Waited::Done, Some(answer)) => return Ok(answer),
                (Waited::Interrupted, _) => {
                    if let Err(error) = interrupted() {
                        let answer = self.requests.lock().give_up(request);
                        if let Some(handle) = answer.as_ref().and_then(held_by) {
                            self.release(handle);
                        }
                        return Err(error);
                    }
                }
                _ => return Err(E::from(self.stopped())),
            }
        }
    }

    /// Asks the agent which hosts have the bytes of an object, and waits for the answer, at most for `timeout`:
    /// none then.
    ///
    /// # Errors
    /// The runtime stops, or `interrupted` gives up.
    pub fn locate<E: From<RequestError>>(
        &self,
        place: Place,
        timeout: Option<Duration>,
        mut interrupted: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<Vec<HostId>>, E> {
        let request = self.requests.lock().next();
        self.send(self.agent, &Message::ToAgent(ToAgent::Locate { request, place }));
        let waiting = self.waiting(timeout, false);
        loop {
            let mut answer = None;
            let waited = self.wait_until(waiting, |proc| {
                answer = proc.requests.lock().located.remove(&request);
                answer.is_some()
            });
            match (waited, answer) {
                (Waited::Done, Some(answer)) => return Ok(Some(answer)),
                (Waited::TimedOut, _) => return Ok(None),
                (Waited::Interrupted, _) => interrupted()?,
                _ => return Err(E::from(self.stopped())),
            }
        }
    }

    /// Why the controller refused to create `actor`, if it did.
    pub fn take_refusal(&self, actor: ActorId) -> Option<String> {
        self.requests.lock().refused.remove(&actor)
    }

    /// Why the controller refused to create `group`, if it did.
    pub fn take_group_refusal(&self, group: GroupId) -> Option<String> {
        self.requests.lock().refused_groups.remove(&group)
    }

    /// Makes a function's body known to the cluster.
    pub fn put_function(&self, id: FunctionId, body: bytes::Bytes) {
        self.tell_controller(ToController::PutFunction { id, body });
    }
}
