//! Actors that this process has created or calls: creation, calls in order, restarts.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use raymesh_wire::control::{ActorSpec, ActorState};
use raymesh_wire::{
    ActorId, CallTarget, ErrorKind, ErrorValue, ObjectId, ProcId, TaskId, ToController, Value,
};

use super::flag::Flag;
use super::tasks::{Arguments, Route};
use super::{Effect, Process};

/// Result index of the object that stands for an actor's handles: no task has so many results.
pub(super) const HANDLE_INDEX: u32 = u32::MAX;

/// A method call to submit.
#[derive(Debug)]
pub struct ActorCallSpec {
    pub actor: ActorId,
    pub method: String,
    pub arguments: Arguments,
    pub num_returns: u32,
    /// How often it may run again after the actor restarted; negative: without end.
    pub max_retries: i32,
    pub options: Bytes,
}

/// An actor to create: `spec.deps` and `spec.refs` come from `arguments`.
#[derive(Debug)]
pub struct CreateActor {
    pub spec: ActorSpec,
    pub arguments: Arguments,
}

#[derive(Debug)]
enum Link {
    /// Not alive, or not known to be: calls wait.
    Waiting,
    Alive(ProcId),
    /// It goes on elsewhere. What was sent and has not come back runs here yet; other calls wait.
    Leaving(ProcId),
    Dead(ErrorValue),
}

#[derive(Debug)]
struct Client {
    link: Link,
    /// The controller has told us of it.
    known: bool,
    /// Why it has no place yet.
    unplaceable: Option<String>,
    /// Calls not sent, in order.
    queue: VecDeque<u64>,
    /// Calls sent.
    inflight: HashSet<u64>,
}

#[derive(Debug)]
struct Created {
    /// What its arguments refer to.
    held: Vec<ObjectId>,
    /// Handles that others, or this process itself, got by its name: as many as the controller has given,
    /// but for those of which the word is on its way.
    given: u32,
}

#[derive(Debug)]
struct Creation {
    spec: Box<ActorSpec>,
    missing: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Actors {
    clients: HashMap<ActorId, Client>,
    /// Actors that this process created, until they are dead.
    created: HashMap<ActorId, Created>,
    /// Creations that wait for arguments.
    creations: HashMap<u64, Creation>,
}

impl Actors {
    /// Where a call to `actor` stands.
    pub(super) fn standing(&self, actor: ActorId, seq: u64) -> String {
        let Some(client) = self.clients.get(&actor) else { return String::new() };
        match client.link {
            Link::Waiting => match &client.unplaceable {
                Some(reason) => format!("The actor has no place yet: {reason}"),
                None => "The actor is not alive yet.".to_owned(),
            },
            Link::Leaving(_) if !client.inflight.contains(&seq) => {
                "The actor moves to another host: its own is drained.".to_owned()
            }
            Link::Alive(_) | Link::Leaving(_) if client.inflight.contains(&seq) => {
                "The actor has received it.".to_owned()
            }
            _ => "It waits for its arguments or for earlier calls.".to_owned(),
        }
    }

    pub(super) fn census(&self) -> [(&'static str, usize); 3] {
        [
            ("actors known", self.clients.len()),
            ("actors whose arguments are held", self.created.len()),
            ("actors to be created", self.creations.len()),
        ]
    }

    /// The actor for whose handles `object` stands.
    pub(super) fn of_handle(&self, object: ObjectId) -> Option<ActorId> {
        if object.index != HANDLE_INDEX {
            return None;
        }
        Some(ActorId { creator: object.owner, seq: object.seq as u32 })
    }
}

/// The object that stands for the actor's handles: its holders keep the actor alive.
#[must_use]
const fn handle_object(actor: ActorId) -> ObjectId {
    ObjectId { owner: actor.creator, seq: actor.seq as u64, index: HANDLE_INDEX }
}

impl Process {
    /// A fresh actor id of this process.
    pub fn next_actor(&mut self) -> ActorId {
        let seq = self.next_actor;
        self.next_actor += 1;
        ActorId { creator: self.me, seq }
    }

    /// The object whose holders keep `actor` alive: one hold per handle, released like any reference.
    #[must_use]
    pub fn actor_handle(actor: ActorId) -> ObjectId {
        handle_object(actor)
    }

    /// Creates an actor. The caller holds its handle object once.
    pub fn create_actor(&mut self, create: CreateActor, fx: &mut Vec<Effect>) {
        let CreateActor { mut spec, arguments } = create;
        let actor = spec.actor;
        self.resolve_handle(actor, fx);
        for object in arguments.deps.iter().chain(&arguments.refs) {
            self.hold(*object);
        }
        let held = arguments.deps.iter().chain(&arguments.refs).chain(&arguments.object).copied().collect();
        self.actors.created.insert(actor, Created { held, given: 0 });
        let seq = self.next_task().seq;
        let mut missing = 0;
        let mut failed = None;
        for object in &arguments.deps {
            if self.depend(*object, seq, fx) {
                missing += 1;
            } else if let Some(Value::Error(error)) = self.objects.value(*object) {
                failed = Some(error.clone());
            }
        }
        spec.args = arguments.value;
        spec.args_object = arguments.object;
        spec.deps = arguments.deps.into_iter().map(|object| (object, Value::Inline(Bytes::new()))).collect();
        spec.refs = arguments.refs;
        self.watch_actor(actor, fx);
        if let Some(error) = failed {
            self.give_up_creation(actor, error, fx);
        } else {
            self.definitions.hold(spec.class);
            self.actors.creations.insert(seq, Creation { spec: Box::new(spec), missing });
            self.start_creation(seq, fx);
        }
        self.settle(fx);
    }

    fn resolve_handle(&mut self, actor: ActorId, fx: &mut Vec<Effect>) {
        let object = handle_object(actor);
        self.hold(object);
        self.set_value(object, Value::Inline(Bytes::new()), Vec::new(), fx);
    }

    /// This process has found `actor` by its name, and holds its handle for whoever asked.
    pub(super) fn accept_found(&mut self, actor: ActorId, fx: &mut Vec<Effect>) {
        if actor.creator == self.me {
            self.count_given(actor);
            self.resolve_handle(actor, fx);
        } else {
            self.hold_registered(handle_object(actor));
        }
    }

    /// `to` has found an actor of this process by its name.
    pub(super) fn accept_given(&mut self, actor: ActorId, to: ProcId, fx: &mut Vec<Effect>) {
        self.count_given(actor);
        self.register(handle_object(actor), to, self.me, 1, fx);
        if !self.is_known(handle_object(actor)) {
            // `to` has died, and nobody else holds one: what was said of that before was out of date.
            self.handles_are_gone(actor, fx);
        }
    }

    fn count_given(&mut self, actor: ActorId) {
        if let Some(created) = self.actors.created.get_mut(&actor) {
            created.given = created.given.wrapping_add(1);
        }
    }

    /// Nobody that this process knows of holds a handle to its actor.
    pub(super) fn handles_are_gone(&mut self, actor: ActorId, fx: &mut Vec<Effect>) {
        let given = self.actors.created.get(&actor).map_or(0, |created| created.given);
        self.tell_controller(ToController::ActorOutOfScope { actor, given }, fx);
    }

    fn start_creation(&mut self, seq: u64, fx: &mut Vec<Effect>) {
        if self.actors.creations.get(&seq).is_none_or(|creation| creation.missing > 0) {
            return;
        }
        let Some(Creation { mut spec, .. }) = self.actors.creations.remove(&seq) else { return };
        for (object, value) in &mut spec.deps {
            if let Some(known) = self.objects.value(*object) {
                *value = known.clone();
            }
            spec.refs.extend_from_slice(self.objects.refs(*object));
        }
        let class = spec.class;
        self.tell_controller(ToController::CreateActor { spec }, fx);
        self.undefine(class, fx);
    }

    /// An argument of a constructor has a value.
    pub(super) fn creation_ready(&mut self, seq: u64, object: ObjectId, fx: &mut Vec<Effect>) {
        let Some(creation) = self.actors.creations.get_mut(&seq) else { return };
        creation.missing = creation.missing.saturating_sub(1);
        let actor = creation.spec.actor;
        if let Some(Value::Error(error)) = self.objects.value(object) {
            let error = error.clone();
            self.give_up_creation(actor, error, fx);
            return;
        }
        self.start_creation(seq, fx);
    }

    /// An argument of the constructor failed: the actor is dead before it was made. The controller tells
    /// those to whom handles were passed.
    fn give_up_creation(&mut self, actor: ActorId, error: ErrorValue, fx: &mut Vec<Effect>) {
        let error = error.of_constructor_argument();
        self.tell_controller(ToController::ActorReady { actor, error: Some(error.clone()) }, fx);
        self.accept_actor_state(actor, ActorState::Dead { error }, fx);
    }

    /// Follows the actor's state, from now on.
    pub fn watch_actor(&mut self, actor: ActorId, fx: &mut Vec<Effect>) {
        if self.actors.clients.contains_key(&actor) {
            return;
        }
        let client = Client {
            link: Link::Waiting,
            known: false,
            unplaceable: None,
            queue: VecDeque::new(),
            inflight: HashSet::default(),
        };
        self.actors.clients.insert(actor, client);
        self.tell_controller(ToController::WatchActor { actor }, fx);
    }

    pub(super) fn set_actor_unplaceable(&mut self, actor: ActorId, reason: String) {
        if let Some(client) = self.actors.clients.get_mut(&actor) {
            client.unplaceable = Some(reason);
        }
    }

    /// Whether the controller has told us anything of `actor`: then it has accepted its creation.
    #[must_use]
    pub fn knows_actor(&self, actor: ActorId) -> bool {
        self.actors.clients.get(&actor).is_some_and(|client| client.known)
    }

    /// Calls a method. Results are held once each by the caller.
    pub fn submit_actor_call(
        &mut self,
        spec: ActorCallSpec,
        fx: &mut Vec<Effect>,
    ) -> (TaskId, Vec<Arc<Flag>>) {
        let actor = spec.actor;
        self.watch_actor(actor, fx);
        let target = CallTarget::Method { actor, name: spec.method };
        let (task, flags) = self.submit(
            target,
            Route::Actor(actor),
            spec.arguments,
            spec.num_returns,
            spec.max_retries,
            spec.options,
            fx,
        );
        if self.tasks.submitted.contains_key(&task.seq)
            && let Some(client) = self.actors.clients.get_mut(&actor)
        {
            client.queue.push_back(task.seq);
            self.flush_actor(actor, fx);
        }
        self.settle(fx);
        (task, flags)
    }

    /// A call whose results were lost is to run again: see [`Self::next_to_send`].
    pub(super) fn queue_call(&mut self, actor: ActorId, seq: u64, fx: &mut Vec<Effect>) {
        if let Some(client) = self.actors.clients.get_mut(&actor) {
            client.queue.push_back(seq);
            self.flush_actor(actor, fx);
        }
    }

    /// An outstanding call keeps the actor alive, if the caller does.
    pub(super) fn hold_handle(&mut self, actor: ActorId) -> Option<ObjectId> {
        let handle = handle_object(actor);
        self.hold_again(handle).then_some(handle)
    }

    /// Where the next call stands, if the process is there: a call that waits for an argument holds up the later
    /// ones. Not those that run again, which had their turn: one of them may make that argument.
    fn next_to_send(&self, client: &Client) -> Option<usize> {
        if self.lineage.losses == 0 {
            return (!client.queue.is_empty()).then_some(0);
        }
        let mut held = false;
        client.queue.iter().position(|seq| {
            let Some(record) = self.tasks.submitted.get(seq) else { return true };
            let is_next = record.missing == 0 && (record.again || !held);
            held |= !record.again && record.missing > 0;
            is_next
        })
    }

    /// Sends what is ready.
    pub(super) fn flush_actor(&mut self, actor: ActorId, fx: &mut Vec<Effect>) {
        loop {
            let Some(client) = self.actors.clients.get(&actor) else { return };
            let at = match client.link {
                Link::Alive(_) => self.next_to_send(client),
                _ => (!client.queue.is_empty()).then_some(0),
            };
            let Some(at) = at else { return };
            let Some(client) = self.actors.clients.get_mut(&actor) else { return };
            let Some(seq) = client.queue.get(at).copied() else { return };
            let Some(record) = self.tasks.submitted.get(&seq) else {
                client.queue.remove(at);
                continue;
            };
            match &client.link {
                Link::Waiting | Link::Leaving(_) => return,
                Link::Dead(error) => {
                    let fate = if record.again {
                        "was to be called again: what it had returned was lost with a host"
                    } else {
                        "was not called"
                    };
                    let error = of_call(error, &record.call.target, fate);
                    client.queue.pop_front();
                    self.fail_call(seq, error, fx);
                }
                Link::Alive(_) if record.missing > 0 => return,
                Link::Alive(proc) => {
                    let proc = *proc;
                    if self.waits_again(seq, fx) {
                        continue;
                    }
                    let Some(client) = self.actors.clients.get_mut(&actor) else { return };
                    client.queue.remove(at);
                    client.inflight.insert(seq);
                    self.fill(seq, |_| {});
                    if let Some(record) = self.tasks.submitted.get(&seq) {
                        fx.push(Effect::SendCall { to: proc, call: Arc::clone(&record.call) });
                    }
                }
            }
        }
    }

    pub(super) fn actor_replied(&mut self, actor: ActorId, seq: u64, retry: bool, fx: &mut Vec<Effect>) {
        let Some(client) = self.actors.clients.get_mut(&actor) else { return };
        client.inflight.remove(&seq);
        if retry {
            client.queue.push_front(seq);
            self.flush_actor(actor, fx);
        }
    }

    /// A process that was an actor sends back calls that it had not begun: they wait for the next one, in order.
    pub(super) fn accept_returned(&mut self, from: ProcId, back: &[TaskId]) {
        for task in back.iter().filter(|task| task.owner == self.me) {
            let Some(Route::Actor(actor)) = self.tasks.submitted.get(&task.seq).map(|it| it.route) else {
                continue;
            };
            let Some(client) = self.actors.clients.get_mut(&actor) else { continue };
            if matches!(client.link, Link::Alive(proc) | Link::Leaving(proc) if proc == from)
                && client.inflight.remove(&task.seq)
            {
                client.link = Link::Leaving(from);
                let later = client.queue.iter().position(|seq| *seq > task.seq);
                client.queue.insert(later.unwrap_or(client.queue.len()), task.seq);
            }
        }
    }

    pub(super) fn accept_actor_state(&mut self, actor: ActorId, state: ActorState, fx: &mut Vec<Effect>) {
        let Some(client) = self.actors.clients.get_mut(&actor) else { return };
        client.known = true;
        match state {
            ActorState::Alive { proc } => {
                if matches!(client.link, Link::Alive(before) | Link::Leaving(before) if before != proc) {
                    // It restarted while this process did not watch it.
                    self.lose_process(actor, fx);
                }
                if let Some(client) = self.actors.clients.get_mut(&actor) {
                    client.link = Link::Alive(proc);
                }
                self.flush_actor(actor, fx);
            }
            ActorState::Pending => client.link = Link::Waiting,
            ActorState::Restarting => self.lose_process(actor, fx),
            ActorState::Dead { error } => {
                let before = std::mem::replace(&mut client.link, Link::Dead(error.clone()));
                self.keep_for_process(actor, &before);
                self.end_inflight(actor, &error, fx);
                self.flush_actor(actor, fx);
                if let Some(created) = self.actors.created.remove(&actor) {
                    created.held.into_iter().for_each(|object| self.unhold(object));
                }
                let of_actor = |_: &u64, creation: &mut Creation| creation.spec.actor == actor;
                let given_up: Vec<_> = self.actors.creations.extract_if(of_actor).collect();
                for (_, creation) in given_up {
                    self.undefine(creation.spec.class, fx);
                }
                if self.holders(handle_object(actor)) == 0 {
                    self.forget_actor(actor, fx);
                }
            }
        }
    }

    /// Nobody here has a handle any more: forgets the actor, unless calls are out or its arguments are
    /// held until it is dead.
    pub(super) fn forget_actor(&mut self, actor: ActorId, fx: &mut Vec<Effect>) {
        let Some(client) = self.actors.clients.get(&actor) else { return };
        if !client.queue.is_empty() || !client.inflight.is_empty() || self.actors.created.contains_key(&actor)
        {
            return;
        }
        if !matches!(client.link, Link::Dead(_)) {
            self.tell_controller(ToController::UnwatchActor { actor }, fx);
        }
        self.actors.clients.remove(&actor);
    }

    /// The actor's process is gone, and another one is to come.
    fn lose_process(&mut self, actor: ActorId, fx: &mut Vec<Effect>) {
        if let Some(client) = self.actors.clients.get_mut(&actor) {
            let before = std::mem::replace(&mut client.link, Link::Waiting);
            self.keep_for_process(actor, &before);
        }
        let error = ErrorValue::text(
            ErrorKind::ActorUnavailable,
            "The actor's process died while this call was on its way, and the actor restarts.\n\
             hint: set max_task_retries to run such calls again.",
        );
        self.end_inflight(actor, &error, fx);
    }

    /// The actor's process is gone or going: it may have passed on what it was given.
    fn keep_for_process(&mut self, actor: ActorId, link: &Link) {
        let (Link::Alive(proc) | Link::Leaving(proc), Some(client)) = (link, self.actors.clients.get(&actor))
        else {
            return;
        };
        let mut inflight: Vec<u64> = client.inflight.iter().copied().collect();
        inflight.sort_unstable();
        for seq in inflight {
            self.keep_arguments_for(*proc, seq);
        }
        let given = self.actors.created.get(&actor).map(|created| created.held.clone()).unwrap_or_default();
        self.keep_for(*proc, given);
    }

    /// The actor's process is gone: calls on their way are sent again if they may, else fail.
    fn end_inflight(&mut self, actor: ActorId, error: &ErrorValue, fx: &mut Vec<Effect>) {
        let Some(client) = self.actors.clients.get_mut(&actor) else { return };
        let over = matches!(client.link, Link::Dead(_));
        let mut inflight: Vec<_> = std::mem::take(&mut client.inflight).into_iter().collect();
        inflight.sort_unstable();
        for seq in inflight.into_iter().rev() {
            if !over && self.take_retry(seq) {
                if let Some(client) = self.actors.clients.get_mut(&actor) {
                    client.queue.push_front(seq);
                }
            } else {
                let Some(record) = self.tasks.submitted.get(&seq) else { continue };
                let error = of_call(error, &record.call.target, "had been called and had not answered");
                self.fail_call(seq, error, fx);
            }
        }
    }
}

/// What a call of an actor ends with: the actor's error, and which call that was.
fn of_call(error: &ErrorValue, target: &CallTarget, fate: &str) -> Value {
    let (ErrorKind::ActorDied | ErrorKind::ActorUnavailable, CallTarget::Method { name, .. }) =
        (error.kind, target)
    else {
        return Value::Error(error.clone());
    };
    let text = String::from_utf8_lossy(&error.payload);
    // The hint stays last.
    let (what, hint) = text.split_at(text.find("\nhint:").unwrap_or(text.len()));
    Value::Error(ErrorValue::text(error.kind, format!("{what}\nIts method `{name}` {fate}.{hint}")))
}
