//! The life of an actor: created, placed, started, alive, restarted, dead.
//!
//! Once it has a worker, its end is announced when the worker's death is known: what it had answered
//! before is on its way by then. Its name is free as soon as its end is decided.

use raymesh_wire::control::{ActorSpec, ActorState, Death, ExitReason, LastCall, ToHost};
use raymesh_wire::{ActorId, Environment, ErrorKind, ErrorValue, FromController, HostId, LeaseId, ProcId};

use super::actors::{Actor, Kill, Phase, Then};
use super::demand::Notice;
use super::history::Subject;
use super::holds::{For, Hold};
use super::queue::Waiter;
use super::spots::Spot;
use super::{Controller, Effects, order, send, text};

/// A worker may die so often before it begins to make an actor, for nothing.
const FALSE_STARTS: u32 = 3;

/// How a worker is brought to its end.
#[derive(Clone, Copy)]
pub(super) enum End {
    Kill,
    Exit(ExitReason),
}

fn died(text: impl Into<String>) -> ErrorValue {
    ErrorValue::text(ErrorKind::ActorDied, text)
}

impl Controller {
    pub(super) fn create_actor(&mut self, from: ProcId, spec: Box<ActorSpec>, effects: &mut Effects) {
        let id = spec.actor;
        let Some(creator) = self.procs.get_mut(from) else { return };
        if id.creator != from || !creator.created.insert(id.seq) {
            return;
        }
        creator.job.get_or_insert(spec.job);
        let early = self.actors.take_early(id).unwrap_or_default();
        if !spec.name.is_empty()
            && let Some(other) = self.names.take(&spec.name, &spec.namespace, id)
        {
            self.refuse(&spec, other, early.watchers.into_iter(), effects);
            return;
        }
        if let Some(creator) = self.procs.get_mut(from) {
            creator.actors.insert(id);
        }
        self.functions.needed(spec.class, id);
        let class = self.class(&spec.placement, &spec.resources, false, &spec.wish);
        self.actors.insert(Actor {
            class,
            phase: Phase::Waiting,
            restarts: 0,
            false_starts: 0,
            forgiven: 0,
            next: None,
            pid: 0,
            watchers: early.watchers.clone(),
            given: 0,
            turn: None,
            notice: Notice::default(),
            spec,
        });
        self.watch_actor(from, id, effects);
        for watcher in early.watchers.into_iter().filter(|watcher| *watcher != from) {
            send(effects, watcher, FromController::ActorState { actor: id, state: ActorState::Pending });
        }
        self.history.add(self.now, Subject::Actor(id), "pending", ("created by", from));
        self.enqueue_actor(id, effects);
        if let Some(Kill { by, no_restart }) = early.kill {
            self.kill_actor(by, id, no_restart, effects);
        }
    }

    fn refuse(
        &mut self,
        spec: &ActorSpec,
        other: ActorId,
        watchers: impl Iterator<Item = ProcId>,
        effects: &mut Effects,
    ) {
        let actor = spec.actor;
        let class = self.actors.get(other).map_or("?", |other| &other.spec.class_name);
        let reason = format!(
            "the name {:?} is taken in namespace {:?} by a living actor of class {class}",
            spec.name, spec.namespace
        );
        self.history.add(self.now, Subject::Actor(actor), "refused", reason.clone());
        let state = ActorState::Dead { error: died(format!("The actor was not created: {reason}.")) };
        // Before its state: the creator waits for either.
        send(effects, actor.creator, FromController::CreateRefused { actor, reason });
        for watcher in watchers {
            send(effects, watcher, FromController::ActorState { actor, state: state.clone() });
        }
    }

    fn enqueue_actor(&mut self, id: ActorId, effects: &mut Effects) {
        let Some(actor) = self.actors.get_mut(id) else { return };
        let waiter = Waiter::Actor(id);
        actor.phase = Phase::Waiting;
        actor.pid = 0;
        actor.turn = Some(self.queue.push(actor.class, waiter, None));
        actor.notice.start(self.now, waiter, &mut self.notices);
        self.reclaim.dirty = true;
        self.hurry(id.creator);
        self.tell_if_never(waiter, effects);
    }

    /// Takes the actor out of the queue, if it waits there.
    fn dequeue_actor(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(id) else { return };
        let waiter = Waiter::Actor(id);
        if let Some(turn) = actor.turn.take() {
            self.queue.remove(actor.class, turn, waiter);
        }
        actor.notice.stop(waiter, &mut self.notices);
    }

    /// Starts an actor that fits there.
    pub(super) fn place_actor(&mut self, spot: Spot, id: ActorId, effects: &mut Effects) {
        self.dequeue_actor(id);
        if let Some(start) = self.hold_for_actor(spot, id) {
            self.start_actor(id, start, effects);
        }
    }

    /// Takes what the actor needs, which must fit there.
    pub(super) fn hold_for_actor(&mut self, spot: Spot, id: ActorId) -> Option<LeaseId> {
        let class = self.actors.get(id)?.class;
        let shape = self.queue.get(class).hold;
        let gpus = spot.take(&mut self.hosts, &mut self.bundles, self.shapes.get(shape));
        Some(self.holds.add(Hold {
            host: spot.host,
            bundle: spot.bundle,
            shape,
            class,
            gpus,
            whom: For::Actor { actor: id },
            env: Environment::default(),
            worker: None,
            cpu_lent: false,
            ending: false,
        }))
    }

    /// Starts an actor with what is held for it.
    fn start_actor(&mut self, id: ActorId, start: LeaseId, effects: &mut Effects) {
        let (Some(hold), Some(actor)) = (self.holds.get(start), self.actors.get_mut(id)) else { return };
        let (host, gpus) = (hold.host, hold.gpus.clone());
        actor.phase = Phase::Starting { start, worker: None };
        actor.pid = 0;
        let (spec, restarts) = (actor.spec.clone(), actor.restarts);
        self.recall_end(spec.job, host, effects);
        order(effects, host, ToHost::StartActor { start, spec, restarts, gpus });
        self.history.add(self.now, Subject::Actor(id), "starting", format!("resources free on {host:?}"));
    }

    pub(super) fn actor_started(&mut self, start: LeaseId, worker: ProcId, pid: u32) {
        let Some(hold) = self.holds.get_mut(start) else { return };
        hold.worker = Some(worker);
        let (host, For::Actor { actor: id }) = (hold.host, hold.whom) else { return };
        if let Some(host) = self.hosts.get_mut(host) {
            host.backoff_step = 0;
        }
        let Some(actor) = self.actors.get_mut(id).filter(|actor| actor.start() == Some(start)) else {
            self.employ(worker, start, raymesh_wire::JobId::default());
            return;
        };
        actor.pid = pid;
        if let Phase::Starting { worker: known, .. } = &mut actor.phase {
            *known = Some(worker);
        }
        let job = actor.spec.job;
        self.employ(worker, start, job);
    }

    pub(super) fn actor_start_failed(&mut self, start: LeaseId, reason: &str, effects: &mut Effects) {
        let Some(hold) = self.holds.get(start).cloned() else { return };
        self.release(start, reason.to_owned());
        let For::Actor { actor: id } = hold.whom else { return };
        let Some(actor) = self.actors.get(id).filter(|actor| actor.start() == Some(start)) else { return };
        match actor.phase.clone() {
            Phase::Ending { then, .. } => self.end_life(id, then, effects),
            _ => {
                self.back_off(hold.host, reason);
                self.enqueue_actor(id, effects);
            }
        }
    }

    /// The constructor has returned, or raised.
    pub(super) fn actor_ready(
        &mut self,
        from: ProcId,
        id: ActorId,
        error: Option<ErrorValue>,
        effects: &mut Effects,
    ) {
        if let Some(error) = &error
            && from == id.creator
            && self.may_yet_be_created(id)
        {
            // Its arguments failed, so the creator will not create it.
            self.never_create(id, error.clone(), effects);
            return;
        }
        let Some(actor) = self.actors.get_mut(id) else { return };
        let Phase::Starting { start, worker } = actor.phase else { return };
        if worker.is_some_and(|worker| worker != from) {
            return;
        }
        actor.phase = Phase::Alive { start, worker: from };
        let (job, class, again) = (actor.spec.job, actor.spec.class, can_move(actor));
        if !again {
            self.functions.not_needed(class, id);
        }
        if worker.is_none() {
            // It was faster than its host's word.
            if let Some(hold) = self.holds.get_mut(start) {
                hold.worker = Some(from);
            }
            self.employ(from, start, job);
        }
        match error {
            None => {
                self.history.add(self.now, Subject::Actor(id), "alive", ("in", from));
                self.moves_due = true;
                self.announce(id, effects);
            }
            Some(error) => {
                if let Some(hold) = self.holds.get_mut(start) {
                    hold.ending = true;
                    let (host, reason) = (hold.host, ExitReason::Shutdown);
                    order(effects, host, ToHost::EndWorker { proc: from, reason });
                }
                self.finish(id, error, effects);
            }
        }
    }

    /// It ends by its own will.
    pub(super) fn actor_exited(&mut self, from: ProcId, id: ActorId, effects: &mut Effects) {
        let Some(actor) = self.actors.get(id) else { return };
        let (Phase::Alive { start, worker } | Phase::Starting { start, worker: Some(worker) }) = actor.phase
        else {
            return;
        };
        if worker == from {
            let error = died(format!(
                "The actor {} died because it ended itself (exit_actor, pid {}).",
                actor.title(),
                actor.pid
            ));
            self.free_name(id);
            // It ends without being told; the host sees to it that it does.
            self.order_end(start, worker, End::Exit(ExitReason::Shutdown), effects);
            self.set_phase(id, Phase::Ending { start, then: Then::Dead(error) }, "exit_actor");
        }
    }

    pub(super) fn kill_actor(&mut self, by: ProcId, id: ActorId, no_restart: bool, effects: &mut Effects) {
        let Some(actor) = self.actors.get(id) else {
            if self.may_yet_be_created(id) {
                self.actors.early(id).kill = Some(Kill { by, no_restart });
            }
            return;
        };
        let may_restart = !no_restart && restarts_left(actor);
        if may_restart && actor.phase == Phase::Waiting {
            return;
        }
        let then = if may_restart {
            Then::Restart
        } else {
            let how = if no_restart {
                "it was killed by ray.kill"
            } else {
                "it was killed by ray.kill and has no restarts left"
            };
            Then::Dead(died(format!("The actor {} died because {how}.", actor.title())))
        };
        self.end_actor(id, then, End::Kill, effects);
    }

    /// The creator knows of no handle any more. Unless somebody has found the actor by its name since: the
    /// word of that is on its way to the creator, who will speak again once that handle is gone.
    pub(super) fn actor_out_of_scope(
        &mut self,
        from: ProcId,
        id: ActorId,
        given: u32,
        effects: &mut Effects,
    ) {
        if from == id.creator && self.may_yet_be_created(id) {
            self.never_create(id, died("The actor died because nobody held a handle to it."), effects);
            return;
        }
        let Some(actor) = self.actors.get(id).filter(|actor| !actor.spec.detached) else { return };
        if from != id.creator || given != actor.given {
            return;
        }
        let error = died(format!("The actor {} died because nobody held a handle to it.", actor.title()));
        self.end_actor(id, Then::Dead(error), End::Exit(ExitReason::OutOfScope), effects);
    }

    /// The process that created it has died.
    pub(super) fn orphaned(&mut self, id: ActorId, why: &str, effects: &mut Effects) {
        let Some(actor) = self.actors.get(id).filter(|actor| !actor.spec.detached) else { return };
        let error =
            died(format!("The actor {} died because the process that created it {why}.", actor.title()));
        self.end_actor(id, Then::Dead(error), End::Kill, effects);
    }

    /// It cannot be any more, whatever it is doing.
    pub(super) fn end_for_good(&mut self, id: ActorId, error: ErrorValue, effects: &mut Effects) {
        self.end_actor(id, Then::Dead(error), End::Kill, effects);
    }

    /// Brings the present life of an actor to its end, whatever it is doing.
    fn end_actor(&mut self, id: ActorId, then: Then, end: End, effects: &mut Effects) {
        let Some(actor) = self.actors.get(id) else { return };
        let over = matches!(then, Then::Dead(_));
        let phase = actor.phase.clone();
        if over {
            self.free_name(id);
        }
        match phase {
            Phase::Waiting => {
                self.dequeue_actor(id);
                self.end_life(id, then, effects);
            }
            Phase::Starting { start, worker: None } => {
                if let Some(hold) = self.holds.get_mut(start) {
                    hold.ending = true;
                    order(effects, hold.host, ToHost::CancelStart { start });
                }
                if let Then::Dead(error) = then {
                    self.finish(id, error, effects);
                } else {
                    self.set_phase(id, Phase::Ending { start, then }, "killed");
                }
            }
            Phase::Starting { start, worker: Some(worker) } | Phase::Alive { start, worker } => {
                self.order_end(start, worker, end, effects);
                self.set_phase(id, Phase::Ending { start, then }, "asked to end");
            }
            Phase::Ending { start, then: before } => {
                // The stronger wish wins: death over restart, force over patience.
                if over && before == Then::Restart {
                    self.set_phase(id, Phase::Ending { start, then }, "asked to end for good");
                }
                if let (End::Kill, Some(worker)) = (end, self.holds.get(start).and_then(|hold| hold.worker)) {
                    self.order_end(start, worker, end, effects);
                }
            }
        }
    }

    pub(super) fn order_end(&mut self, start: LeaseId, worker: ProcId, end: End, effects: &mut Effects) {
        let Some(hold) = self.holds.get_mut(start) else { return };
        hold.ending = true;
        let message = match end {
            End::Kill => ToHost::KillWorker { proc: worker },
            End::Exit(reason) => ToHost::EndWorker { proc: worker, reason },
        };
        order(effects, hold.host, message);
    }

    /// The worker of a living actor has died on `host`; `start` is released.
    pub(super) fn actor_worker_died(
        &mut self,
        id: ActorId,
        (start, host): (LeaseId, HostId),
        death: &Death,
        effects: &mut Effects,
    ) {
        let moves = self.makes_move(host);
        let Some(actor) = self.actors.get(id).filter(|actor| actor.start() == Some(start)) else { return };
        let then = match actor.phase.clone() {
            Phase::Ending { then, .. } => then,
            // Not the actor's doing: its constructor had not begun.
            Phase::Starting { .. }
                if death.last_call == LastCall::None && actor.false_starts < FALSE_STARTS =>
            {
                if let Some(actor) = self.actors.get_mut(id) {
                    actor.false_starts += 1;
                }
                self.enqueue_actor(id, effects);
                return;
            }
            _ if moves && can_move(actor) => {
                if let Some(actor) = self.actors.get_mut(id) {
                    actor.forgiven = actor.forgiven.saturating_add(1);
                }
                Then::Restart
            }
            _ if restarts_left(actor) => Then::Restart,
            _ => {
                let (pid, how) = (death.pid, text::death(death));
                let spent = match actor.restarts {
                    0 => String::new(),
                    1 => " It had been restarted once.".to_owned(),
                    n => format!(" It had been restarted {n} times."),
                };
                Then::Dead(died(format!(
                    "The actor {} died because its worker process (pid {pid}) {how}.{spent}{}",
                    actor.title(),
                    text::last_output(&death.last_output)
                )))
            }
        };
        self.end_life(id, then, effects);
    }

    /// The host was lost before it found a worker.
    pub(super) fn actor_start_lost(&mut self, id: ActorId, start: LeaseId, effects: &mut Effects) {
        let Some(actor) = self.actors.get(id).filter(|actor| actor.start() == Some(start)) else { return };
        match actor.phase.clone() {
            Phase::Ending { then, .. } => self.end_life(id, then, effects),
            _ => self.enqueue_actor(id, effects),
        }
    }

    /// Its worker is gone, or never was.
    fn end_life(&mut self, id: ActorId, then: Then, effects: &mut Effects) {
        match then {
            Then::Dead(error) => self.finish(id, error, effects),
            Then::Restart => {
                let Some(actor) = self.actors.get_mut(id) else { return };
                actor.restarts = actor.restarts.saturating_add(1);
                match actor.next.take().filter(|next| self.holds.get(*next).is_some()) {
                    Some(next) => self.start_actor(id, next, effects),
                    None => self.enqueue_actor(id, effects),
                }
                self.history.add(self.now, Subject::Actor(id), "restarting", "its worker died");
                self.announce(id, effects);
            }
        }
    }

    /// Dead for good.
    fn finish(&mut self, id: ActorId, error: ErrorValue, effects: &mut Effects) {
        self.dequeue_actor(id);
        self.free_name(id);
        let Some(actor) = self.actors.remove(id) else { return };
        if let Some(next) = actor.next {
            self.release(next, "the actor died before it had moved");
        }
        self.functions.not_needed(actor.spec.class, id);
        if actor.spec.detached {
            self.remove_groups_of_actor(id, effects);
        }
        if let Some(creator) = self.procs.get_mut(id.creator) {
            creator.actors.remove(&id);
        }
        let state = ActorState::Dead { error };
        for watcher in &actor.watchers {
            if let Some(proc) = self.procs.get_mut(*watcher) {
                proc.watched_actors.remove(&id);
                send(effects, *watcher, FromController::ActorState { actor: id, state: state.clone() });
            }
        }
        let why = match &state {
            ActorState::Dead { error } if error.kind != ErrorKind::ActorInit => {
                String::from_utf8_lossy(&error.payload).into_owned()
            }
            _ => "its constructor raised".to_owned(),
        };
        self.history.add(self.now, Subject::Actor(id), "dead", why);
        self.actors.bury(actor.info(state));
    }

    pub(super) fn set_phase(&mut self, id: ActorId, phase: Phase, why: &'static str) {
        if let Some(actor) = self.actors.get_mut(id) {
            actor.phase = phase;
            self.history.add(self.now, Subject::Actor(id), "ending", why);
        }
    }

    fn free_name(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get(id)
            && !actor.spec.name.is_empty()
        {
            self.names.free(&actor.spec.name, &actor.spec.namespace, id);
        }
    }

    /// Tells the watchers how things stand.
    fn announce(&self, id: ActorId, effects: &mut Effects) {
        let Some(actor) = self.actors.get(id) else { return };
        for watcher in &actor.watchers {
            send(effects, *watcher, FromController::ActorState { actor: id, state: actor.state() });
        }
    }
}

/// Whether it may be started again when its host is drained: also if it has used up its restarts, for that
/// costs none.
pub(super) fn can_move(actor: &Actor) -> bool {
    actor.spec.max_restarts != 0
}

fn restarts_left(actor: &Actor) -> bool {
    actor.spec.max_restarts < 0
        || i64::from(actor.restarts.saturating_sub(actor.forgiven)) < actor.spec.max_restarts
}
