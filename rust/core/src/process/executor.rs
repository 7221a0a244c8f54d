//! Calls that arrive at this process: a queue, what runs, and the replies.

use std::collections::VecDeque;

use foldhash::HashMap;
use raymesh_wire::control::{ActorSpec, LastCall};
use raymesh_wire::{
    Block, Call, CallTarget, InGroup, LeaseId, Message, ObjectId, ProcId, Reply, ReplyStatus, ResourceSet,
    Return, TaskId, ToController, Value,
};

use super::{Effect, Process};

/// Of calls that are given back and came by no lease: those of an actor.
const NO_LEASE: LeaseId = LeaseId(0);

/// A call to run now. Hand it back through [`Process::finish`].
#[derive(Debug)]
pub struct Incoming {
    pub caller: ProcId,
    pub call: Box<Call>,
}

#[derive(Debug)]
struct Running {
    caller: ProcId,
    attempt: u32,
    /// What the call refers to: held here until it ends.
    arguments: Vec<ObjectId>,
    /// Its caller is dead, and this process has registered itself for the arguments.
    inherited: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Executor {
    queue: VecDeque<Incoming>,
    running: HashMap<TaskId, Running>,
    last: Option<TaskId>,
    /// From whom the latest call came.
    last_caller: Option<ProcId>,
    /// What the constructor was given, and by whom: held for life.
    constructed: Option<(ProcId, Vec<ObjectId>)>,
    /// What the present lease gives: the resources and the GPUs.
    lease: Option<(LeaseId, ResourceSet, Vec<u32>)>,
    /// The placement group that this process works in, by its lease or as an actor.
    group: Option<InGroup>,
    blocked: bool,
    /// Its actor goes on elsewhere: calls that have not begun go back to their callers.
    leaving: bool,
    /// The circle of waits that this process is in, or was in at its last wait.
    cycle: Option<String>,
}

impl Executor {
    pub(super) fn leased(
        &mut self,
        lease: LeaseId,
        resources: ResourceSet,
        gpus: Vec<u32>,
        group: Option<InGroup>,
    ) {
        self.lease = Some((lease, resources, gpus));
        self.group = group;
    }

    /// The group that tasks and actors go to that are submitted here: any bundle of it will do.
    pub(super) fn captured(&self) -> Option<InGroup> {
        let group = self.group.filter(|group| group.capture)?;
        Some(InGroup { index: None, ..group })
    }

    pub(super) fn census(&self) -> [(&'static str, usize); 2] {
        [("calls to run", self.queue.len()), ("calls that run", self.running.len())]
    }
}

impl Process {
    pub(super) fn accept_call(&mut self, from: ProcId, call: Box<Call>, fx: &mut Vec<Effect>) {
        if self.executor.blocked
            && let CallTarget::Function { lease, .. } = &call.target
        {
            let message = Message::Recalled { lease: *lease, tasks: vec![call.task] };
            fx.push(Effect::Send { to: from, message });
            return;
        }
        if self.executor.leaving {
            let message = Message::Recalled { lease: NO_LEASE, tasks: vec![call.task] };
            fx.push(Effect::Send { to: from, message });
            return;
        }
        if self.executor.last_caller != Some(from) {
            // Its death ends what it asked for. (With a lease, the worker ends with its caller.)
            self.executor.last_caller = Some(from);
            if matches!(call.target, CallTarget::Method { .. }) {
                self.watch(from, fx);
            }
        }
        self.executor.queue.push_back(Incoming { caller: from, call });
        fx.push(Effect::Runnable);
    }

    /// The next call to run, if any. Holds what it refers to until [`Process::finish`].
    pub fn next_call(&mut self, fx: &mut Vec<Effect>) -> Option<Incoming> {
        let incoming = self.executor.queue.pop_front()?;
        let call = &incoming.call;
        let mut arguments = Vec::new();
        if !(call.deps.is_empty() && call.refs.is_empty() && call.args_object.is_none()) {
            let inside: usize = call.dep_refs.iter().map(|count| *count as usize).sum();
            let mut inside = &call.refs[call.refs.len().saturating_sub(inside)..];
            for (at, (object, value)) in call.deps.iter().enumerate() {
                let count = call.dep_refs.get(at).map_or(0, |count| *count as usize);
                let (refs, rest) = inside.split_at(count.min(inside.len()));
                self.receive_value(*object, value, Some(refs), fx);
                arguments.push(*object);
                inside = rest;
            }
            for object in &call.refs {
                self.receive_argument(*object);
                arguments.push(*object);
            }
            if let Some(object) = call.args_object {
                self.receive_value(object, &call.args, None, fx);
                arguments.push(object);
            }
            self.learn_places(&call.places, fx);
            self.settle(fx);
        }
        let inherited = false;
        let running = Running { caller: incoming.caller, attempt: call.attempt, arguments, inherited };
        self.executor.running.insert(call.task, running);
        self.executor.last = Some(call.task);
        Some(incoming)
    }

    /// What a death of this process would have to say.
    #[must_use]
    pub fn last_call(&self) -> LastCall {
        match self.executor.last {
            None => LastCall::None,
            Some(task) if self.executor.running.contains_key(&task) => LastCall::Running(task),
            Some(task) => LastCall::Finished(task),
        }
    }

    #[must_use]
    pub fn has_calls(&self) -> bool {
        !self.executor.queue.is_empty()
    }

    /// A call has ended: replies to its caller. `returns` list the references inside each result; they
    /// are still held here.
    pub fn finish(
        &mut self,
        task: TaskId,
        status: ReplyStatus,
        exec_us: u32,
        returns: Vec<Return>,
        fx: &mut Vec<Effect>,
    ) {
        let Some(running) = self.executor.running.remove(&task) else { return };
        if self.is_dead(running.caller) {
            self.finish_for_nobody(running, returns, fx);
            return;
        }
        self.note_lent(task, &returns);
        let mut after = Vec::new();
        let mut places = Vec::new();
        for item in returns.iter().filter(|item| !item.refs.is_empty()) {
            places.extend(self.objects.places(&item.refs));
            for owner in self.lend(&item.refs, running.caller, fx) {
                if !after.contains(&owner) {
                    after.push(owner);
                }
            }
        }
        let holds = self.return_arguments(running.arguments, fx);
        for object in &holds {
            self.borrowed(*object, running.caller);
        }
        let reply = Reply { task, attempt: running.attempt, status, exec_us, returns, holds, places };
        self.send_after(after, running.caller, Message::Reply(Box::new(reply)), fx);
        self.settle(fx);
    }

    /// A call cannot run: the bytes of an argument, which lay in `block`, are gone. Its caller waits for that
    /// argument again, and this worker's resources may be what making it again needs.
    pub fn give_back_call(
        &mut self,
        (task, lease): (TaskId, LeaseId),
        (object, block): (ObjectId, Block),
        fx: &mut Vec<Effect>,
    ) {
        let Some(running) = self.executor.running.remove(&task) else { return };
        let caller = running.caller;
        if self.is_dead(caller) {
            self.finish_for_nobody(running, Vec::new(), fx);
            return;
        }
        // User code has seen none of the arguments: what is held of them besides is registered already.
        self.return_arguments(running.arguments, fx);
        fx.push(Effect::Send { to: caller, message: Message::Lost { object, block } });
        fx.push(Effect::Send { to: caller, message: Message::Recalled { lease, tasks: vec![task] } });
        self.settle(fx);
    }

    /// The caller is dead: this process registers itself for what it keeps of the arguments, and the
    /// results are nobody's.
    fn finish_for_nobody(&mut self, running: Running, returns: Vec<Return>, fx: &mut Vec<Effect>) {
        for object in self.return_arguments(running.arguments, fx) {
            if !running.inherited {
                self.borrow_myself(object);
            }
        }
        for item in returns {
            if let Value::Stored(block) = item.value {
                self.free(block, fx);
            }
        }
        self.settle(fx);
    }

    pub(super) fn accept_recall(&mut self, from: ProcId, lease: LeaseId, max: u32, fx: &mut Vec<Effect>) {
        let tasks = self.take_back(max as usize, |incoming| {
            incoming.caller == from
                && matches!(&incoming.call.target, CallTarget::Function { lease: of, .. } if *of == lease)
        });
        let tasks = tasks.into_iter().map(|(_, _, task)| task).collect();
        fx.push(Effect::Send { to: from, message: Message::Recalled { lease, tasks } });
    }

    /// Removes up to `max` queued function calls that match, newest first; answers them oldest first.
    fn take_back(
        &mut self,
        max: usize,
        matches: impl Fn(&Incoming) -> bool,
    ) -> Vec<(ProcId, LeaseId, TaskId)> {
        let mut back = Vec::new();
        let mut kept = VecDeque::new();
        while let Some(incoming) = self.executor.queue.pop_back() {
            match &incoming.call.target {
                CallTarget::Function { lease, .. } if back.len() < max && matches(&incoming) => {
                    back.push((incoming.caller, *lease, incoming.call.task));
                }
                _ => kept.push_front(incoming),
            }
        }
        self.executor.queue = kept;
        back.reverse();
        back
    }

    /// The actor that this process is goes on elsewhere: what it has not begun goes back, and what comes yet.
    pub(super) fn leave(&mut self, fx: &mut Vec<Effect>) {
        self.executor.leaving = true;
        let mut by_caller: Vec<(ProcId, Vec<TaskId>)> = Vec::new();
        for Incoming { caller, call } in self.executor.queue.drain(..) {
            match by_caller.iter_mut().find(|(to, _)| *to == caller) {
                Some((_, tasks)) => tasks.push(call.task),
                None => by_caller.push((caller, vec![call.task])),
            }
        }
        for (to, tasks) in by_caller {
            fx.push(Effect::Send { to, message: Message::Recalled { lease: NO_LEASE, tasks } });
        }
    }

    /// Holds what a constructor's arguments refer to for as long as this process lives.
    pub fn hold_arguments(&mut self, spec: &ActorSpec, fx: &mut Vec<Effect>) {
        for (object, value) in &spec.deps {
            self.receive_value(*object, value, None, fx);
        }
        for object in &spec.refs {
            self.receive_argument(*object);
        }
        if let Some(object) = spec.args_object {
            self.receive_value(object, &spec.args, None, fx);
        }
        let deps = spec.deps.iter().map(|(object, _)| *object);
        let arguments = deps.chain(spec.refs.iter().copied()).chain(spec.args_object).collect();
        // What it submits may go there, too.
        self.executor.group = spec.wish.group();
        self.executor.constructed = Some((spec.actor.creator, arguments));
        self.settle(fx);
    }

    /// The running call waits for objects: its CPUs may be used by others, and calls queued behind it
    /// go back to their callers.
    pub fn block(&mut self, awaited: &[ObjectId], fx: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.executor.blocked, true) {
            return;
        }
        self.executor.cycle = None;
        self.tell_controller(ToController::Blocked, fx);
        let on = self.actors_behind(awaited);
        if !on.is_empty() {
            self.tell_controller(ToController::Waiting { on }, fx);
        }
        let mut by_lease: Vec<(ProcId, LeaseId, Vec<TaskId>)> = Vec::new();
        for (caller, lease, task) in self.take_back(usize::MAX, |_| true) {
            match by_lease.iter_mut().find(|(to, of, _)| *to == caller && *of == lease) {
                Some((_, _, tasks)) => tasks.push(task),
                None => by_lease.push((caller, lease, vec![task])),
            }
        }
        for (to, lease, tasks) in by_lease {
            fx.push(Effect::Send { to, message: Message::Recalled { lease, tasks } });
        }
    }

    /// The wait is over.
    pub fn unblock(&mut self, fx: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.executor.blocked, false) {
            self.tell_controller(ToController::Unblocked, fx);
        }
    }

    /// Why the wait under way can never end, if the controller has found so.
    #[must_use]
    pub fn wait_cycle(&self) -> Option<&str> {
        self.executor.cycle.as_deref()
    }

    pub(super) fn accept_cycle(&mut self, text: String) {
        if self.executor.blocked {
            self.executor.cycle = Some(text);
        }
    }

    /// Resources and GPUs of the lease that this worker serves.
    #[must_use]
    pub fn lease(&self) -> Option<&(LeaseId, ResourceSet, Vec<u32>)> {
        self.executor.lease.as_ref()
    }

    /// The placement group that this process works in.
    #[must_use]
    pub fn group(&self) -> Option<InGroup> {
        self.executor.group
    }

    /// The group that actors go to that are created here, if nothing else is asked for.
    #[must_use]
    pub fn captured_group(&self) -> Option<InGroup> {
        self.executor.captured()
    }

    /// What is held here because a dead process stood for it: arguments of its calls that run, and of the
    /// constructor.
    pub(super) fn arguments_from(&mut self, dead: ProcId) -> Vec<ObjectId> {
        let mut arguments = Vec::new();
        let running = self.executor.running.values_mut();
        for running in running.filter(|running| running.caller == dead && !running.inherited) {
            running.inherited = true;
            arguments.extend(&running.arguments);
        }
        if let Some((_, given)) = self.executor.constructed.take_if(|(creator, _)| *creator == dead) {
            arguments.extend(given);
        }
        arguments.sort_unstable();
        arguments
    }

    /// Calls of a dead caller need not run any more.
    pub(super) fn forget_caller(&mut self, caller: ProcId) {
        self.executor.queue.retain(|incoming| incoming.caller != caller);
    }
}
