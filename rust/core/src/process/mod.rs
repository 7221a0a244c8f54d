//! One process's share of the cluster: the objects it owns or borrows, the tasks and actor calls it
//! has submitted, and the calls it executes.
//!
//! - [`objects`]: local counts and values. The process that made a reference owns the object; others
//!   borrow it.
//! - [`flag`]: whether an object has a value, readable without a lock.
//! - [`holds`]: who borrows what, and who has registered it.
//! - [`places`]: where large objects lie, told along with references.
//! - [`estates`]: what the dead leave behind.
//! - [`tasks`]: tasks wait for their arguments, then for the reply; retries.
//! - [`leases`]: workers for tasks, what is sent to them, and what is taken back.
//! - [`nearness`]: tasks go where their arguments lie.
//! - [`lineage`]: results that can be made again.
//! - [`late`]: what is sent ahead is taken back when its worker does not get to it.
//! - [`crashes`]: what a worker's death means for the tasks that were sent to it.
//! - [`actors`]: calls in order to each actor, over restarts.
//! - [`groups`]: placement groups that are awaited.
//! - [`definitions`]: functions and classes that calls and actors are made of.
//! - [`why`]: what a waiting process waits for, in words.
//! - [`departed`]: processes that have ended.
//! - [`census`]: how much is remembered.
//! - [`executor`]: calls that arrive here, and what their replies say about borrowed references.
//!
//! Pure: every method takes what happened and appends what is to be done to an [`Effect`] list.
//!
//! # Reference counts
//!
//! Each process counts its own holders of an object (`local`). The owner also counts *registered*
//! holds per borrowing process. Two rules keep the owner from freeing what somebody holds:
//!
//! 1. Arguments: the caller holds what a call refers to until the reply. A worker that still holds
//!    some of it then says so in the reply (`holds`), and the caller registers the worker with the
//!    owner before it lets go.
//!    What is inside the values of arguments goes along with them, and is kept with those that are kept.
//! 2. Values that contain references: whoever sends such a value registers the receiver first.
//!
//! A borrower whose last local holder goes gives back all its registered holds at once. A give-back
//! may overtake its registration (they come from different processes), so the owner's counts are
//! signed, and an object is free when every count is zero.
//!
//! Deaths are settled with everybody's help ([`estates`]): what the dead held, and what is held for them,
//! stays until whoever got it from them has registered himself.

mod actors;
mod census;
mod crashes;
mod definitions;
mod departed;
mod estates;
mod executor;
mod flag;
mod groups;
mod holds;
mod late;
mod leases;
mod lineage;
mod nearness;
mod objects;
mod places;
mod tasks;
mod why;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use raymesh_wire::control::{Death, DeathCause, ExitReason};
use raymesh_wire::{Block, Call, FromController, Message, ObjectId, ProcId, ToController};

use departed::Departed;

pub use actors::{ActorCallSpec, CreateActor};
pub use executor::Incoming;
pub use flag::Flag;
pub use objects::Lookup;
pub use tasks::{Arguments, TaskSpec};
pub use why::Awaited;

/// Nanoseconds on the process's monotonic clock.
pub type Nanos = u64;

/// What the state machine wants done.
#[derive(Debug)]
pub enum Effect {
    Send {
        to: ProcId,
        message: Message,
    },
    /// As `Send`, but only once everything sent before to `after` is on its way.
    SendAfter {
        after: Vec<ProcId>,
        to: ProcId,
        message: Message,
    },
    /// As `Send`, but only once everything sent before to anybody is on its way.
    SendLast {
        to: ProcId,
        message: Message,
    },
    SendCall {
        to: ProcId,
        call: Arc<Call>,
    },
    /// This process needs a block of another host no more: copies of it here may go.
    Unneeded {
        block: Block,
    },
    /// The host of this block is gone: is there a copy? To be answered by [`Process::copy_kept`] or
    /// [`Process::bytes_lost`].
    Lost {
        object: ObjectId,
        block: Block,
    },
    /// An object that [`Process::await_object`] asked for has a value.
    Ready {
        object: ObjectId,
    },
    /// A call waits in the executor.
    Runnable,
    /// Give this block back to this process's own heap.
    Free {
        block: Block,
    },
    /// An answer that the surrounding runtime waits for.
    Answer(Box<FromController>),
    /// End once the current call is over.
    Exit {
        reason: ExitReason,
    },
}

/// The name of what a call runs, for people: from the call and, if it is of a function, what was made known
/// of that (else empty).
pub type NameOf = fn(&Call, &[u8]) -> String;

/// See the module.
#[derive(Debug)]
pub struct Process {
    me: ProcId,
    controller: ProcId,
    objects: objects::Objects,
    holds: holds::Holds,
    estates: estates::Estates,
    tasks: tasks::Tasks,
    leases: leases::Leases,
    actors: actors::Actors,
    groups: groups::Groups,
    definitions: definitions::Definitions,
    lineage: lineage::Lineage,
    executor: executor::Executor,
    watched: HashSet<ProcId>,
    dead: Departed,
    /// Those whose deaths are being settled, or are.
    mourned: Departed,
    settled: Departed,
    /// The latest time that this process was told.
    now: Nanos,
    next_seq: u64,
    next_actor: u32,
    /// Holds given back and holds registered, gathered per owner while one event is handled.
    releases: HashMap<ProcId, Vec<(ObjectId, ProcId, u32)>>,
    borrows: HashMap<ProcId, Vec<(ObjectId, ProcId)>>,
    frees: HashMap<ProcId, Vec<Block>>,
    /// Objects whose last holder went while this event was handled.
    doomed: Vec<ObjectId>,
    /// Calls that waited for an object which has a value now.
    woken: VecDeque<(u64, ObjectId)>,
    name_of: NameOf,
}

impl Process {
    #[must_use]
    pub fn new(me: ProcId, controller: ProcId) -> Self {
        Self {
            me,
            controller,
            objects: objects::Objects::default(),
            holds: holds::Holds::default(),
            estates: estates::Estates::default(),
            tasks: tasks::Tasks::default(),
            leases: leases::Leases::default(),
            actors: actors::Actors::default(),
            groups: groups::Groups::default(),
            definitions: definitions::Definitions::default(),
            lineage: lineage::Lineage::default(),
            executor: executor::Executor::default(),
            watched: HashSet::default(),
            dead: Departed::default(),
            mourned: Departed::default(),
            settled: Departed::default(),
            now: 0,
            next_seq: 1,
            next_actor: 1,
            releases: HashMap::default(),
            borrows: HashMap::default(),
            frees: HashMap::default(),
            doomed: Vec::new(),
            woken: VecDeque::new(),
            name_of: |_, _| "unknown".to_owned(),
        }
    }

    /// How people call what this process submits: only the languages above know.
    pub fn name_calls(&mut self, name_of: NameOf) {
        self.name_of = name_of;
    }

    #[must_use]
    pub const fn me(&self) -> ProcId {
        self.me
    }

    fn next_task(&mut self) -> raymesh_wire::TaskId {
        let seq = self.next_seq;
        self.next_seq += 1;
        raymesh_wire::TaskId { owner: self.me, seq }
    }

    /// Handles a message from another process.
    pub fn receive(&mut self, now: Nanos, from: ProcId, message: Message, fx: &mut Vec<Effect>) {
        self.now = now;
        match message {
            Message::Call(call) => self.accept_call(from, call, fx),
            Message::Reply(reply) => self.accept_reply(now, from, *reply, fx),
            Message::Want { object } => self.accept_want(from, object, fx),
            Message::Lost { object, block } => self.accept_lost(from, object, block, fx),
            Message::Value { object, value, refs, places } => {
                self.resolve(object, value, refs, from, fx);
                self.learn_places(&places, fx);
            }
            Message::Borrow { holds } => self.accept_borrow(from, holds, fx),
            Message::Release { holds } => self.accept_release(from, holds, fx),
            Message::Recall { lease, max } => self.accept_recall(from, lease, max, fx),
            Message::Recalled { lease, tasks } => self.accept_recalled(now, from, (lease, tasks), fx),
            Message::FreeBlocks { blocks } => self.accept_free(blocks, fx),
            Message::FromController(message) => self.accept_control(now, message, fx),
            // Not for a process: the runtime handles its agent's messages, and nobody else sends these.
            Message::ToController(_) | Message::ToAgent(_) | Message::FromAgent(_) | Message::Between(_) => {}
        }
        self.settle(fx);
    }

    fn accept_control(&mut self, now: Nanos, message: FromController, fx: &mut Vec<Effect>) {
        match message {
            FromController::LeaseGranted { key, lease, worker } => {
                self.accept_lease(now, key, lease, worker, fx);
            }
            FromController::ReclaimLeases => self.accept_reclaim(fx),
            FromController::ActorState { actor, state } => self.accept_actor_state(actor, state, fx),
            FromController::Died { proc, death } => self.accept_death(now, proc, &death, fx),
            FromController::Leased { lease, resources, gpus, group, .. } => {
                self.executor.leased(lease, resources, gpus, group);
            }
            FromController::Unschedulable { key, error } => self.accept_unschedulable(key, error, fx),
            FromController::GroupState { group, state, why } => {
                self.accept_group_state(group, state, why, fx);
            }
            FromController::GroupRefused { group, reason } => self.accept_group_refused(group, reason, fx),
            FromController::ActorUnplaceable { actor, never, reason } => {
                self.set_actor_unplaceable(actor, reason.clone());
                fx.push(Effect::Answer(Box::new(FromController::ActorUnplaceable { actor, never, reason })));
            }
            FromController::HandleGiven { actor, to } => self.accept_given(actor, to, fx),
            FromController::Mourn { round, dead, owners } => self.accept_mourn(round, dead, owners, fx),
            FromController::TakeStock { round } => self.accept_take_stock(round, fx),
            FromController::Flush { round } => self.accept_flush(round, fx),
            FromController::Found { object, found } => self.accept_found_object(object, found, fx),
            FromController::Settled { dead } => self.accept_settled(dead, fx),
            FromController::FreeBlocks { blocks } => self.accept_free(blocks, fx),
            FromController::WaitCycle { text } => self.accept_cycle(text),
            FromController::Exit { reason } => {
                if reason == ExitReason::Moved {
                    self.leave(fx);
                }
                fx.push(Effect::Exit { reason });
            }
            FromController::Unplaceable { key, never, reason } => {
                self.leases.set_unplaceable(key, reason.clone());
                fx.push(Effect::Answer(Box::new(FromController::Unplaceable { key, never, reason })));
            }
            other => {
                if let FromController::ActorFound { found: Ok(info), .. } = &other {
                    self.accept_found(info.actor, fx);
                }
                fx.push(Effect::Answer(Box::new(other)));
            }
        }
    }

    /// A process that we deal with has ended.
    fn accept_death(&mut self, now: Nanos, proc: ProcId, death: &Death, fx: &mut Vec<Effect>) {
        // News of it may be asked for late, when a successor in its mailbox is known to be dead already.
        if death.cause == DeathCause::HostLost {
            self.host_lost(proc.host(), &death.host, fx);
        }
        let awaited = self.watched.remove(&proc);
        if awaited || !self.is_dead(proc) {
            self.fail_leases_of(now, proc, death, fx);
            self.bury(proc, fx);
        }
    }

    /// Asks the controller to tell of `proc`'s death, once.
    fn watch(&mut self, proc: ProcId, fx: &mut Vec<Effect>) {
        if proc != self.me && !self.is_dead(proc) && self.watched.insert(proc) {
            self.tell_controller(ToController::Watch { proc }, fx);
        }
    }

    fn tell_controller(&self, message: ToController, fx: &mut Vec<Effect>) {
        fx.push(Effect::Send { to: self.controller, message: Message::ToController(message) });
    }

    /// Frees what lost its last holder and sends the gathered ownership messages. Every public method
    /// that can change counts ends with it.
    fn settle(&mut self, fx: &mut Vec<Effect>) {
        self.wake(fx);
        self.run_due(fx);
        self.reap_doomed(fx);
        if !self.borrows.is_empty() {
            for (to, holds) in sorted(&mut self.borrows) {
                fx.push(Effect::Send { to, message: Message::Borrow { holds } });
            }
        }
        if !self.releases.is_empty() {
            for (to, holds) in sorted(&mut self.releases) {
                fx.push(Effect::Send { to, message: Message::Release { holds } });
            }
        }
        if !self.frees.is_empty() {
            for (to, blocks) in sorted(&mut self.frees) {
                fx.push(Effect::Send { to, message: Message::FreeBlocks { blocks } });
            }
        }
        self.send_let_go(fx);
    }

    /// When [`Process::tick`] is next due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.leases.next_deadline()
    }

    /// Time has passed: idle leases are given back.
    pub fn tick(&mut self, now: Nanos, fx: &mut Vec<Effect>) {
        self.now = now;
        self.return_idle_leases(now, fx);
        self.look_after_pipelines(fx);
        self.settle(fx);
    }
}

/// Empties `map`, in the order of its keys: effects must not depend on hashing.
fn sorted<V>(map: &mut HashMap<ProcId, V>) -> Vec<(ProcId, V)> {
    let mut items: Vec<_> = map.drain().collect();
    items.sort_unstable_by_key(|(proc, _)| *proc);
    items
}
