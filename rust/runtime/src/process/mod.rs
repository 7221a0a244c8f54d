//! The runtime of one process: the core's state machine with real mail, memory and threads.
//!
//! - this file: [`Proc`], delivery of mail to the core, carrying out its effects.
//! - [`wait`]: threads that wait do the I/O, one at a time; the others follow.
//! - [`helper`]: the thread that does it while nobody waits.
//! - [`store`]: blocks of shared memory for large values.
//! - [`copies`]: what lies in the memory of other hosts. [`adoption`]: what lay in that of a lost one.
//! - [`requests`]: questions to the controller and the agent.
//!
//! One lock guards the core. Mail is sent under it, so that messages leave in the order in which the
//! core decided; sending never blocks.

mod adoption;
mod config;
mod copies;
mod followers;
mod helper;
mod requests;
mod store;
mod wait;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::{Mutex, MutexGuard};
use raymesh_core::process::{Effect, Flag, Incoming, Process};
use raymesh_shm::{Endpoint, Segment};
use raymesh_wire::control::{ActorSpec, ExitReason, FromAgent, ToAgent};
use raymesh_wire::{
    ActorId, Block, Environment, FromController, JobId, LeaseId, Message, ObjectId, ProcId, ReplyStatus,
    Return, TaskId, decode, encode,
};

use crate::clock::Clock;

pub(crate) use copies::far_arguments_of;
pub use requests::RequestError;
pub use store::StoreError;
pub use wait::{Waited, Waiting};

/// Called once when an object has a value. Runs on whichever thread read the mail: it must be quick
/// and take no lock of the process.
pub type OnReady = Box<dyn FnOnce(ObjectId) + Send>;

/// Called with what the user should know. As quick and free of locks as [`OnReady`].
pub type OnNotice = Box<dyn Fn(String) + Send>;

/// Called at each call that arrives. As quick and free of locks as [`OnReady`].
pub type OnRunnable = Box<dyn Fn() + Send>;

/// See the module.
pub struct Proc {
    me: ProcId,
    controller: ProcId,
    agent: ProcId,
    segment: Arc<Segment>,
    endpoint: Arc<Endpoint>,
    clock: Clock,
    state: Mutex<State>,
    /// Threads that wait while another one reads the mail.
    followers: followers::Followers,
    leader: AtomicBool,
    /// When the helper wakes by itself; `u64::MAX`: never.
    helper_due: AtomicU64,
    /// When to look after the store; `u64::MAX`: never.
    store_due: AtomicU64,
    stopping: AtomicBool,
    /// Why there is no cluster any more.
    lost: OnceLock<String>,
    store: Mutex<store::Store>,
    requests: Mutex<requests::Requests>,
    adoptions: Mutex<adoption::Adoptions>,
    copies: Mutex<copies::Copies>,
    /// Called with what the user should know; quick, and takes no lock of the process.
    on_notice: Mutex<Option<OnNotice>>,
    /// The job that it works for at present, and that job's environment.
    job: AtomicU32,
    env: Mutex<Environment>,
    exit: Mutex<Option<ExitReason>>,
    own_exit: AtomicBool,
    actor_start: Mutex<Option<FromController>>,
    /// Called when a call arrives; quick, and takes no lock of the process.
    on_runnable: Mutex<Option<OnRunnable>>,
}

struct State {
    core: Process,
    effects: Vec<Effect>,
    scratch: Vec<u8>,
    on_ready: HashMap<ObjectId, Vec<OnReady>>,
}

impl std::fmt::Debug for Proc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proc").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Proc {
    /// The runtime of process `me`, whose mailbox is open. Starts its helper thread.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        segment: Arc<Segment>,
        me: ProcId,
        controller: ProcId,
        agent_eventfd: std::os::fd::OwnedFd,
    ) -> std::io::Result<Arc<Self>> {
        let endpoint = Arc::new(Endpoint::new(Arc::clone(&segment), me));
        endpoint.set_agent_eventfd(agent_eventfd);
        Self::with_endpoint(segment, endpoint, me, controller)
    }

    /// As [`Proc::start`], on an endpoint that is set up already.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn with_endpoint(
        segment: Arc<Segment>,
        endpoint: Arc<Endpoint>,
        me: ProcId,
        controller: ProcId,
    ) -> std::io::Result<Arc<Self>> {
        let proc = Arc::new(Self {
            me,
            controller,
            agent: ProcId::agent(me.host()),
            segment,
            endpoint,
            clock: Clock::new(),
            state: Mutex::new(State {
                core: Process::new(me, controller),
                effects: Vec::new(),
                scratch: Vec::new(),
                on_ready: HashMap::default(),
            }),
            followers: followers::Followers::default(),
            leader: AtomicBool::new(false),
            helper_due: AtomicU64::new(u64::MAX),
            store_due: AtomicU64::new(u64::MAX),
            stopping: AtomicBool::new(false),
            lost: OnceLock::new(),
            store: Mutex::new(store::Store::new(me)),
            requests: Mutex::new(requests::Requests::default()),
            adoptions: Mutex::default(),
            copies: Mutex::new(copies::Copies::default()),
            on_notice: Mutex::new(None),
            job: AtomicU32::new(me.host().0),
            env: Mutex::new(Environment::default()),
            exit: Mutex::new(None),
            own_exit: AtomicBool::new(false),
            actor_start: Mutex::new(None),
            on_runnable: Mutex::new(None),
        });
        if let Some(bytes) = config::max_lineage_bytes() {
            proc.with_core(|core, _, fx| core.limit_lineage(bytes, fx));
        }
        helper::spawn(&proc)?;
        Ok(proc)
    }

    #[must_use]
    pub const fn me(&self) -> ProcId {
        self.me
    }

    #[must_use]
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The job that it works for: a driver's own, named after its host; a worker's present one.
    #[must_use]
    pub fn job(&self) -> JobId {
        JobId(self.job.load(Ordering::Relaxed))
    }

    /// What a worker is to take up for its job, and what those that it calls take up; a driver's own.
    #[must_use]
    pub fn environment(&self) -> Environment {
        self.env.lock().clone()
    }

    /// Of a driver: what the workers of its job take up.
    pub fn set_environment(&self, env: Environment) {
        *self.env.lock() = env;
    }

    /// Ends the helper thread and wakes all waiters; their waits answer [`Waited::Stopped`].
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.endpoint.kick_helper();
        self.endpoint.kick();
        let mut state = self.state.lock();
        self.followers.notify_all();
        // Whoever waits for an object learns that there is nothing to wait for any more.
        let waiting = std::mem::take(&mut state.on_ready);
        drop(state);
        for (object, callbacks) in waiting {
            for callback in callbacks {
                callback(object);
            }
        }
    }

    /// As [`Self::stop`], because the cluster is gone.
    pub fn lose(&self, reason: String) {
        let _ = self.lost.set(reason);
        self.stop();
    }

    /// Why the cluster is gone, if it is.
    pub fn loss(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Why a wait has ended without what it waited for.
    #[must_use]
    pub fn stopped(&self) -> RequestError {
        self.loss().map_or(RequestError::Stopped, |reason| RequestError::Lost(reason.to_owned()))
    }

    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Announces this worker to its agent.
    pub fn hello(&self) {
        let message = Message::ToAgent(ToAgent::Hello { pid: std::process::id() });
        self.send(self.agent, &message);
    }

    fn send(&self, to: ProcId, message: &Message) {
        let mut state = self.state.lock();
        state.scratch.clear();
        encode(message, &mut state.scratch);
        self.endpoint.send(to, &state.scratch);
    }

    /// Tells the core something and carries out what it wants done.
    pub fn with_core<R>(&self, tell: impl FnOnce(&mut Process, u64, &mut Vec<Effect>) -> R) -> R {
        let mut state = self.state.lock();
        let State { core, effects, .. } = &mut *state;
        let result = tell(core, self.clock.now(), effects);
        self.carry_out(&mut state);
        self.mind_deadline(&state);
        result
    }

    /// Reads the core; changes nothing.
    pub fn read_core<R>(&self, read: impl FnOnce(&Process) -> R) -> R {
        read(&self.state.lock().core)
    }

    /// Runs `callback` when `object` has a value, at once if it has; or when the process stops.
    pub fn on_ready(&self, object: ObjectId, callback: OnReady) {
        let mut state = self.state.lock();
        let State { core, effects, on_ready, .. } = &mut *state;
        // Looked at under the lock under which `stop` takes the callbacks.
        if !self.is_stopping() && core.await_object(object, effects) {
            on_ready.entry(object).or_default().push(callback);
            self.carry_out(&mut state);
        } else {
            drop(state);
            callback(object);
        }
    }

    /// Takes all mail that is there, unless another thread is at it, and tells the threads that wait.
    fn drain(&self) {
        if self.take_mail() && self.leader.load(Ordering::SeqCst) {
            // It may be parked while this thread took the mail that it waits for.
            self.endpoint.kick();
        }
    }

    /// Takes all mail that is there, and tells the followers. True if there was any.
    fn take_mail(&self) -> bool {
        let mut guard: Option<MutexGuard<'_, State>> = None;
        self.endpoint.try_drain(&mut |from, bytes| {
            let state = guard.get_or_insert_with(|| self.state.lock());
            self.deliver(state, from, bytes);
        });
        if let Some(state) = &guard {
            self.mind_deadline(state);
            self.followers.notify_all();
        }
        guard.is_some()
    }

    fn deliver(&self, state: &mut State, from: ProcId, bytes: Bytes) {
        // Within a host, mail comes from processes of the same build: what does not parse is a fault
        // of ours, and dropping it is all that can be done here.
        let Ok(message) = decode(bytes) else {
            debug_assert!(false, "undecodable message from {from:?}");
            return;
        };
        match message {
            Message::FromAgent(message) => self.hear_agent(state, message),
            Message::FromController(start @ FromController::StartActor { .. }) => {
                if let FromController::StartActor { spec, .. } = &start {
                    self.job.store(spec.job.0, Ordering::Relaxed);
                    self.set_environment(spec.env.clone());
                }
                *self.actor_start.lock() = Some(start);
            }
            message => {
                if let Message::FromController(FromController::Leased { job, env, .. }) = &message {
                    self.job.store(job.0, Ordering::Relaxed);
                    self.set_environment(env.clone());
                }
                let State { core, effects, .. } = state;
                core.receive(self.clock.now(), from, message, effects);
                self.carry_out(state);
            }
        }
    }

    fn hear_agent(&self, state: &mut State, message: FromAgent) {
        match message {
            FromAgent::HeapGrown { request, grown } => self.requests.lock().heap_grown(request, grown),
            FromAgent::Pulled { request, copy } => {
                if !self.adopted(state, request, copy) {
                    self.copies.lock().pulled(request, copy);
                }
            }
            FromAgent::Located { request, hosts } => {
                if !self.adopt(state, request, &hosts) {
                    self.requests.lock().located(request, hosts);
                }
            }
            FromAgent::TrimHeap => {
                let extents = self.store.lock().trim();
                self.send_locked(state, self.agent, &Message::ToAgent(ToAgent::ShrinkHeap { extents }));
            }
        }
    }

    fn send_locked(&self, state: &mut State, to: ProcId, message: &Message) {
        state.scratch.clear();
        encode(message, &mut state.scratch);
        self.endpoint.send(to, &state.scratch);
    }

    fn carry_out(&self, state: &mut State) {
        // What is done may want more done.
        while !state.effects.is_empty() {
            self.carry_out_once(state);
        }
    }

    fn carry_out_once(&self, state: &mut State) {
        let mut effects = std::mem::take(&mut state.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { to, message } => self.send_locked(state, to, &message),
                Effect::SendCall { to, call } => {
                    let places = copies::far_arguments(&call, to.host());
                    if !places.is_empty() {
                        let message = Message::ToAgent(ToAgent::Prefetch { places });
                        self.send_locked(state, ProcId::agent(to.host()), &message);
                    }
                    state.scratch.clear();
                    raymesh_wire::codec::encode_call(&call, &mut state.scratch);
                    self.endpoint.send(to, &state.scratch);
                }
                Effect::SendAfter { after, to, message } => {
                    state.scratch.clear();
                    encode(&message, &mut state.scratch);
                    self.endpoint.send_after(&after, to, &state.scratch);
                }
                Effect::SendLast { to, message } => {
                    state.scratch.clear();
                    encode(&message, &mut state.scratch);
                    self.endpoint.send_last(to, &state.scratch);
                }
                Effect::Ready { object } => {
                    for callback in state.on_ready.remove(&object).unwrap_or_default() {
                        callback(object);
                    }
                }
                // Whoever runs calls on this thread's behalf looks after each drain; an event loop is told.
                Effect::Runnable => {
                    if let Some(tell) = &*self.on_runnable.lock() {
                        tell();
                    }
                }
                Effect::Unneeded { block } => {
                    let place = self.copies.lock().take(&block);
                    if let Some(place) = place {
                        self.send_locked(state, self.agent, &Message::ToAgent(ToAgent::Unneeded { place }));
                    }
                }
                Effect::Lost { object, block } => self.lost(state, object, block),
                Effect::Free { block } => self.free_block(state, block),
                Effect::Answer(answer) => self.answered(state, *answer),
                // It holds or owns something yet: not idle after all.
                Effect::Exit { reason: ExitReason::Retired } if state.core.object_count() > 0 => {
                    let hello = Message::ToAgent(ToAgent::Hello { pid: std::process::id() });
                    self.send_locked(state, self.agent, &hello);
                }
                Effect::Exit { reason } => {
                    *self.exit.lock() = Some(reason);
                    self.endpoint.kick();
                    // An event loop looks for that where it looks for calls.
                    if let Some(tell) = &*self.on_runnable.lock() {
                        tell();
                    }
                }
            }
        }
        if state.effects.is_empty() {
            state.effects = effects;
        }
    }

    fn free_block(&self, state: &mut State, block: Block) {
        let mut store = self.store.lock();
        let extents = store.free(block);
        if let Some(review) = store.plan_review(self.clock.now()) {
            self.store_due.store(review, Ordering::SeqCst);
        }
        drop(store);
        if !extents.is_empty() {
            self.send_locked(state, self.agent, &Message::ToAgent(ToAgent::ShrinkHeap { extents }));
        }
    }

    /// Threads that wait behind another one look again.
    fn notify_followers(&self) {
        self.followers.notify_all();
        self.endpoint.kick();
    }

    fn answered(&self, state: &mut State, answer: FromController) {
        let unasked = self.requests.lock().answered(answer);
        let reason = match unasked {
            Some(
                FromController::Unplaceable { reason, .. } | FromController::ActorUnplaceable { reason, .. },
            ) => reason,
            Some(FromController::GroupState { why, .. }) if !why.is_empty() => why,
            Some(answer) => {
                if let Some(handle) = requests::held_by(&answer) {
                    state.core.release(handle, &mut state.effects);
                }
                return;
            }
            None => return,
        };
        if let Some(notify) = &*self.on_notice.lock() {
            notify(reason);
        }
    }

    /// Has `notify` called with what the user should know: what cannot be placed, and why. It must be
    /// quick and take no lock of the process.
    pub fn on_notice(&self, notify: OnNotice) {
        *self.on_notice.lock() = Some(notify);
    }

    /// The order to become an actor, once.
    pub fn take_actor_start(&self) -> Option<FromController> {
        self.actor_start.lock().take()
    }

    /// Has `tell` called at each call that arrives. It must be quick and take no lock of the process.
    pub fn on_runnable(&self, tell: OnRunnable) {
        *self.on_runnable.lock() = Some(tell);
    }

    /// The next call to run.
    pub fn next_call(&self) -> Option<Incoming> {
        self.drain();
        let next = self.with_core(|core, _, fx| core.next_call(fx))?;
        self.endpoint.begin_call(next.call.task);
        Some(next)
    }

    /// The call has ended: replies to its caller.
    pub fn finish(&self, task: TaskId, status: ReplyStatus, exec_us: u32, returns: Vec<Return>) {
        self.with_core(|core, _, fx| core.finish(task, status, exec_us, returns, fx));
        self.endpoint.end_call(task);
    }

    /// The call cannot run, for want of an argument whose bytes are gone: its caller will send it again.
    pub fn give_back_call(&self, call: (TaskId, LeaseId), lost: (ObjectId, Block)) {
        self.with_core(|core, _, fx| core.give_back_call(call, lost, fx));
        self.endpoint.end_call(call.0);
    }

    /// Notes what this process's output is shown under.
    pub fn note_name(&self, name: &str) {
        self.endpoint.note_name(name);
    }

    /// Notes that this worker begins to make an actor: its death from now on is the actor's.
    pub fn begin_construction(&self, actor: ActorId) {
        // A number that no task has.
        let seq = u64::from(actor.seq) | 1 << 62;
        self.endpoint.begin_call(TaskId { owner: actor.creator, seq });
    }

    /// Whether a worker has anything to do.
    pub fn has_work(&self) -> bool {
        self.read_core(Process::has_calls)
            || self.exit_requested().is_some()
            || self.actor_start.lock().is_some()
    }

    /// Asks this process to end, as its own wish.
    pub fn request_exit(&self, reason: ExitReason) {
        *self.exit.lock() = Some(reason);
        self.own_exit.store(true, Ordering::SeqCst);
        self.kick();
    }

    /// Whether the process itself asked to end: without running what is queued.
    #[must_use]
    pub fn is_exiting_now(&self) -> bool {
        self.own_exit.load(Ordering::SeqCst)
    }

    /// One more hold. Counts only, so it needs neither the clock nor the timers.
    pub fn hold(&self, object: ObjectId) -> Arc<Flag> {
        self.state.lock().core.hold(object)
    }

    /// Lets go of one hold.
    pub fn release(&self, object: ObjectId) {
        let mut state = self.state.lock();
        let State { core, effects, .. } = &mut *state;
        core.release(object, effects);
        self.carry_out(&mut state);
    }

    /// Lets go of one hold on each.
    pub fn release_all(&self, objects: &[ObjectId]) {
        if !objects.is_empty() {
            self.with_core(|core, _, fx| objects.iter().for_each(|object| core.release(*object, fx)));
        }
    }

    /// Holds what a constructor's arguments refer to, for the actor's life.
    pub fn hold_arguments(&self, spec: &ActorSpec) {
        self.with_core(|core, _, fx| core.hold_arguments(spec, fx));
    }

    /// Whether this process was asked to end.
    #[must_use]
    pub fn exit_requested(&self) -> Option<ExitReason> {
        *self.exit.lock()
    }

    /// Does what is due. Answers how long there is nothing to do; None: for ever.
    fn keep_time(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        let State { core, effects, .. } = &mut *state;
        let now = self.clock.now();
        core.tick(now, effects);
        self.carry_out(&mut state);
        let (extents, review) = self.store.lock().review(now);
        self.store_due.store(review.unwrap_or(u64::MAX), Ordering::SeqCst);
        if !extents.is_empty() {
            self.send_locked(&mut state, self.agent, &Message::ToAgent(ToAgent::ShrinkHeap { extents }));
        }
        let due = state.core.next_deadline().into_iter().chain(review).min();
        self.helper_due.store(due.unwrap_or(u64::MAX), Ordering::SeqCst);
        due.map(|due| Duration::from_nanos(due.saturating_sub(now)))
    }

    /// The helper must wake in time for the core's next deadline.
    fn mind_deadline(&self, state: &MutexGuard<'_, State>) {
        let due = state.core.next_deadline().unwrap_or(u64::MAX).min(self.store_due.load(Ordering::SeqCst));
        if due < self.helper_due.load(Ordering::SeqCst) {
            self.helper_due.store(due, Ordering::SeqCst);
            self.endpoint.kick_helper();
        }
    }
}
