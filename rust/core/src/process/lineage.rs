//! Results that can be made again: a finished task is kept while a large result of it, or of a task that
//! needed one, may be lost with a host.
//!
//! - A task is kept if it may run again and one of its results lies in the store: of another host, or of
//!   this one once tasks run on others (they may need it to run again). Small results travel to their owner
//!   and cannot be lost; a program on one host keeps nothing.
//! - What is kept is the call itself, moved here from the calls under way. It does not hold those of its
//!   arguments that can be made again: these may be freed, and are made again first if they were. So there
//!   are two counts: `users` says how many kept calls need results of a task; whether its results are still
//!   held says the objects' table. Other arguments of ours (by `put`, or small) stay with the call.
//! - When the bytes of a result are gone ([`Process::bytes_lost`]), it has no value any more, as if it had
//!   not been made. Whoever wants it then has the task run again, at the price of one retry; what that
//!   needs is wanted in turn. Nothing runs again for results that nobody wants.
//! - A reader that finds the bytes gone tells the owner ([`Message::Lost`]) and gets the new value.
//!
//! Who says that bytes are gone is the surrounding runtime, in one place: it is asked by [`Effect::Lost`],
//! and looks whether there is a copy.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use raymesh_wire::{
    Block, Call, CallTarget, ErrorKind, ErrorValue, HostId, Message, ObjectId, ProcId, ToController, Value,
};

use super::actors::HANDLE_INDEX;
use super::tasks::{Route, Submitted};
use super::{Effect, Process};

/// What is kept of calls takes at most so much memory: Ray's `max_lineage_bytes`.
const LIMIT: u64 = 1 << 30;
/// A call without arguments and options takes about so much.
const BASE: u64 = 400;
/// So many lost hosts are named where one of them is to blame.
const NAMED: usize = 3;

/// Where a stored object comes from, and so whether it can be made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// `put`, or not known.
    #[default]
    Put,
    /// A call that may run again, and is kept.
    Kept,
    /// A call that was not to be run again.
    Once,
    /// A call that has run again as often as it may.
    Spent,
    /// A call that was kept, until too many were.
    Evicted,
}

#[derive(Debug)]
struct Record {
    call: Arc<Call>,
    route: Route,
    retries_left: i32,
    bytes: u64,
    /// No result before this one is held here.
    first_held: u32,
    /// Tasks of ours whose results it needs to run again.
    needs: Vec<u64>,
    /// What it needs and cannot be made again: held.
    pinned: Vec<ObjectId>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lineage {
    records: HashMap<u64, Record>,
    /// How many records need results of a task of ours.
    users: HashMap<u64, u32>,
    /// Records by age; some have gone.
    oldest: VecDeque<u64>,
    bytes: u64,
    limit: u64,
    /// Tasks run on other hosts.
    pub(super) far: bool,
    lost: HashMap<HostId, String>,
    /// Blocks that readers could not reach, of objects that were made again since. Should their hosts live after
    /// all (then the readers' do not), they are freed with the object.
    unreached: HashMap<ObjectId, Vec<Block>>,
    /// How often something that had a value has lost it.
    pub(super) losses: u32,
    /// Calls to run again, found while one event is handled.
    due: Vec<u64>,
}

impl Default for Lineage {
    fn default() -> Self {
        Self {
            records: HashMap::default(),
            users: HashMap::default(),
            oldest: VecDeque::new(),
            bytes: 0,
            limit: LIMIT,
            far: false,
            lost: HashMap::default(),
            unreached: HashMap::default(),
            losses: 0,
            due: Vec::new(),
        }
    }
}

impl Lineage {
    pub(super) fn census(&self) -> [(&'static str, usize); 4] {
        [
            ("calls kept to run again", self.records.len()),
            ("calls whose results those need", self.users.len()),
            ("objects that were out of reach", self.unreached.len()),
            ("bytes of calls kept", self.bytes as usize),
        ]
    }

    /// A worker of ours is on that host.
    pub(super) fn note_worker_on(&mut self, host: HostId, here: HostId) {
        self.far |= host != here;
    }
}

/// Objects of `me` that the call needs to run again. Small arguments are in the call.
fn needs(call: &Call, me: ProcId) -> impl Iterator<Item = ObjectId> + '_ {
    let stored = call.deps.iter().filter(|(_, value)| value.block().is_some()).map(|(object, _)| object);
    let objects = stored.chain(&call.refs).copied();
    objects.filter(move |object| object.owner == me && object.index != HANDLE_INDEX)
}

fn bytes_of(call: &Call) -> u64 {
    let inline = |value: &Value| match value {
        Value::Inline(bytes) => bytes.len() as u64,
        Value::Stored(_) | Value::Error(_) => 0,
    };
    let deps = call.deps.iter().map(|(_, value)| inline(value));
    let lists = 72 * (call.deps.len() + call.refs.len() + call.places.len()) as u64;
    BASE + inline(&call.args) + deps.sum::<u64>() + lists + call.options.len() as u64
}

/// References of the call's own, before those inside its arguments' values.
fn own_refs(call: &Call) -> usize {
    let inside: usize = call.dep_refs.iter().map(|count| *count as usize).sum();
    call.refs.len().saturating_sub(inside)
}

impl Process {
    /// At most so many bytes of calls are kept to run again.
    pub fn limit_lineage(&mut self, bytes: u64, fx: &mut Vec<Effect>) {
        self.lineage.limit = bytes;
        self.evict(fx);
        self.settle(fx);
    }

    /// Whether a result that lies in this block may be lost, or needed to make again what may.
    pub(super) fn is_at_risk(&self, value: &Value) -> bool {
        value.block().is_some_and(|block| self.lineage.far || block.host() != self.me.host())
    }

    /// Where the results at risk of this call come from: to be noted with them.
    pub(super) fn origin_of(record: &Submitted) -> Origin {
        match (record.retries_left, record.call.attempt) {
            (0, 0) => Origin::Once,
            (0, _) => Origin::Spent,
            _ => Origin::Kept,
        }
    }

    /// A result of a call of ours has this value: its host is watched.
    pub(super) fn note_at_risk(
        &mut self,
        object: ObjectId,
        value: &Value,
        origin: Origin,
        fx: &mut Vec<Effect>,
    ) {
        self.objects.set_origin(object, origin);
        if let Some(block) = value.block()
            && block.host() != self.me.host()
        {
            self.watch(ProcId::agent(block.host()), fx);
        }
    }

    /// Keeps a call whose results were handed out, in place of its hold on what it refers to. False: nobody
    /// needs that.
    pub(super) fn keep_call(&mut self, record: Submitted, fx: &mut Vec<Effect>) -> Result<(), Submitted> {
        let seq = record.call.task.seq;
        let mut kept = Record {
            bytes: bytes_of(&record.call),
            call: record.call,
            route: record.route,
            retries_left: record.retries_left,
            first_held: 1,
            needs: Vec::new(),
            pinned: Vec::new(),
        };
        if !self.is_needed(seq, &mut kept) || kept.bytes > self.lineage.limit {
            let Record { call, .. } = kept;
            return Err(Submitted { call, ..record });
        }
        for object in needs(&kept.call, self.me) {
            if self.objects.origin(object) == Origin::Kept {
                *self.lineage.users.entry(object.seq).or_default() += 1;
                kept.needs.push(object.seq);
            } else {
                self.hold(object);
                kept.pinned.push(object);
            }
        }
        self.let_go_of_references(&kept.call);
        self.lineage.bytes += kept.bytes;
        self.lineage.records.insert(seq, kept);
        self.lineage.oldest.push_back(seq);
        if self.lineage.oldest.len() > 2 * self.lineage.records.len() + 64 {
            let Lineage { oldest, records, .. } = &mut self.lineage;
            oldest.retain(|seq| records.contains_key(seq));
        }
        self.evict(fx);
        Ok(())
    }

    fn is_needed(&self, seq: u64, record: &mut Record) -> bool {
        if self.lineage.users.contains_key(&seq) {
            return true;
        }
        let (task, count) = (record.call.task, record.call.num_returns);
        let held = (record.first_held..=count).find(|index| self.is_known(task.object(*index)));
        record.first_held = held.unwrap_or(count + 1);
        held.is_some()
    }

    fn evict(&mut self, fx: &mut Vec<Effect>) {
        while self.lineage.bytes > self.lineage.limit
            && let Some(seq) = self.lineage.oldest.pop_front()
        {
            let Some(record) = self.lineage.records.get(&seq) else { continue };
            let (task, count) = (record.call.task, record.call.num_returns);
            for index in 1..=count {
                self.objects.set_origin(task.object(index), Origin::Evicted);
            }
            let mut idle = self.drop_record(seq, fx);
            while let Some(seq) = idle.pop() {
                idle.extend(self.drop_if_unneeded(seq, fx));
            }
        }
    }

    /// An object of ours is not held any more.
    pub(super) fn lineage_unneeded(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        let mut idle = vec![object.seq];
        while let Some(seq) = idle.pop() {
            idle.extend(self.drop_if_unneeded(seq, fx));
        }
    }

    /// Answers those that were needed for this one only.
    fn drop_if_unneeded(&mut self, seq: u64, fx: &mut Vec<Effect>) -> Vec<u64> {
        let Some(mut record) = self.lineage.records.remove(&seq) else { return Vec::new() };
        let needed = self.is_needed(seq, &mut record);
        self.lineage.records.insert(seq, record);
        if needed { Vec::new() } else { self.drop_record(seq, fx) }
    }

    fn drop_record(&mut self, seq: u64, fx: &mut Vec<Effect>) -> Vec<u64> {
        let Some(record) = self.take_record(seq) else { return Vec::new() };
        if let CallTarget::Function { function, .. } = record.call.target {
            self.undefine(function, fx);
        }
        if let Some(object) = record.call.args_object {
            self.unhold(object);
        }
        self.forget_needs(record.needs, record.pinned)
    }

    fn take_record(&mut self, seq: u64) -> Option<Record> {
        let record = self.lineage.records.remove(&seq)?;
        self.lineage.bytes -= record.bytes;
        Some(record)
    }

    /// Answers those that nobody needs any more.
    fn forget_needs(&mut self, needs: Vec<u64>, pinned: Vec<ObjectId>) -> Vec<u64> {
        for object in pinned {
            self.unhold(object);
        }
        let mut idle = Vec::new();
        for seq in needs {
            if let Some(count) = self.lineage.users.get_mut(&seq) {
                *count -= 1;
                if *count == 0 {
                    self.lineage.users.remove(&seq);
                    idle.push(seq);
                }
            }
        }
        idle
    }

    /// Whether there is anything to look after when an object of ours goes.
    pub(super) fn keeps_call(&self, object: ObjectId) -> bool {
        !self.lineage.records.is_empty() && self.lineage.records.contains_key(&object.seq)
    }

    /// A host is gone with its memory: asks whether there are copies of what lay there.
    pub(super) fn host_lost(&mut self, host: HostId, which: &str, fx: &mut Vec<Effect>) {
        if host == self.me.host() || self.lineage.lost.contains_key(&host) {
            return;
        }
        self.lineage.lost.insert(host, which.to_owned());
        let of_host = |(id, value, _): (ObjectId, Option<&Value>, &[ObjectId])| {
            let block = value?.block().filter(|block| block.host() == host)?;
            (id.owner == self.me).then_some((id, block))
        };
        self.lineage.unreached.retain(|_, blocks| {
            blocks.retain(|block| block.host() != host);
            !blocks.is_empty()
        });
        let mut gone: Vec<_> = self.objects.all().filter_map(of_host).collect();
        gone.sort_unstable();
        fx.extend(gone.into_iter().map(|(object, block)| Effect::Lost { object, block }));
    }

    /// Which hosts have been lost, to be appended; empty if this process knows of none.
    fn lost_hosts(&self) -> String {
        let known = |(host, which): (&HostId, &String)| (!which.is_empty()).then(|| (*host, which.clone()));
        let mut lost: Vec<_> = self.lineage.lost.iter().filter_map(known).collect();
        lost.sort_unstable();
        // The latest: it is among them.
        let latest = lost.into_iter().rev().take(NAMED);
        latest.map(|(_, which)| format!("\nlost host: {which}")).collect()
    }

    /// That the process which owned an object has ended, and where it was.
    pub(super) fn owner_died(&self, object: ObjectId) -> Value {
        let host = self.lineage.lost.get(&object.owner.host()).filter(|which| !which.is_empty());
        super::objects::owner_died(object, host.map(String::as_str))
    }

    /// There is a copy of a block whose host is gone, which this process's own heap holds from now on.
    pub fn copy_kept(&mut self, object: ObjectId, lost: Block, copy: Block) -> bool {
        object.owner == self.me && self.objects.move_value(object, lost, copy)
    }

    /// The bytes of `object` that lay in `block` are nowhere any more.
    pub fn bytes_lost(&mut self, object: ObjectId, block: Block, fx: &mut Vec<Effect>) {
        let Some((refs, wanted)) = self.objects.lose_value(object, block) else { return };
        self.lineage.losses += 1;
        fx.push(Effect::Unneeded { block });
        if object.owner == self.me {
            if !self.lineage.lost.contains_key(&block.host()) {
                self.lineage.unreached.entry(object).or_default().push(block);
            }
            if wanted {
                self.fetch(object, fx);
            }
        } else if self.is_dead(object.owner) {
            self.objects.expect_another(object);
            self.tell_controller(ToController::Seek { object }, fx);
        } else {
            self.objects.expect_another(object);
            self.watch(object.owner, fx);
            fx.push(Effect::Send { to: object.owner, message: Message::Lost { object, block } });
        }
        for inner in refs {
            self.unhold(inner);
        }
        self.settle(fx);
    }

    /// A reader finds that the bytes of an object of ours are gone; or a worker, those of an argument that we
    /// gave it, and gives back the call.
    pub(super) fn accept_lost(&mut self, from: ProcId, object: ObjectId, block: Block, fx: &mut Vec<Effect>) {
        // It may have heard of it sooner than we. Or its own host will be declared lost: then what is made
        // again was not needed.
        self.bytes_lost(object, block, fx);
        if object.owner == self.me {
            self.accept_want(from, object, fx);
        }
    }

    /// An object of ours is not held any more: so is what was given up of it.
    pub(super) fn free_unreached(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        if self.lineage.unreached.is_empty() {
            return;
        }
        for block in self.lineage.unreached.remove(&object).unwrap_or_default() {
            self.free(block, fx);
        }
    }

    /// An object of ours without a value that no call under way will make.
    pub(super) fn make_again(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        if self.lineage.records.contains_key(&object.seq) {
            self.lineage.due.push(object.seq);
            self.objects.expect_another(object);
            return;
        }
        let value = match self.objects.origin(object) {
            Origin::Put => super::objects::lost(object),
            origin => unrebuildable(origin, &self.lost_hosts()),
        };
        self.set_value(object, value, Vec::new(), fx);
    }

    /// Submits again what was found to be needed.
    pub(super) fn run_due(&mut self, fx: &mut Vec<Effect>) {
        while let Some(seq) = self.lineage.due.pop() {
            self.run_again(seq, fx);
            self.wake(fx);
        }
    }

    fn run_again(&mut self, seq: u64, fx: &mut Vec<Effect>) {
        let Some(Record { mut call, route, mut retries_left, needs, pinned, .. }) = self.take_record(seq)
        else {
            return;
        };
        if retries_left > 0 {
            retries_left -= 1;
        }
        let failed = self.hold_again_for(&call, fx);
        // Whom the call needs is held by now, so none of these goes with its record.
        let idle = self.forget_needs(needs, pinned);
        let again = Arc::make_mut(&mut call);
        again.attempt += 1;
        again.refs.truncate(own_refs(again));
        again.dep_refs.clear();
        let deps: Vec<ObjectId> = again.deps.iter().map(|(object, _)| *object).collect();
        let handle = match route {
            Route::Actor(actor) => {
                self.watch_actor(actor, fx);
                self.hold_handle(actor)
            }
            Route::Shape(_) => None,
        };
        self.tasks.submitted.insert(seq, Submitted::again(call, route, retries_left, handle));
        for seq in idle {
            let mut idle = self.drop_if_unneeded(seq, fx);
            while let Some(seq) = idle.pop() {
                idle.extend(self.drop_if_unneeded(seq, fx));
            }
        }
        if let Some(error) = failed.or_else(|| self.depend_on_all(seq, &deps, fx)) {
            self.fail_call(seq, error, fx);
            return;
        }
        match route {
            Route::Shape(shape) => {
                if self.tasks.submitted.get(&seq).is_some_and(|record| record.missing == 0) {
                    let shape = self.enqueue(seq, shape);
                    self.dispatch(self.now, shape, fx);
                }
            }
            Route::Actor(actor) => self.queue_call(actor, seq, fx),
        }
    }

    /// Holds what a kept call refers to. Small values come from the call itself; what was large and is gone is
    /// wanted again. An error: something is gone for good.
    fn hold_again_for(&mut self, call: &Call, fx: &mut Vec<Effect>) -> Option<Value> {
        let (own, mut inside) = call.refs.split_at(own_refs(call));
        for object in own {
            self.hold(*object);
        }
        let mut failed = None;
        for ((object, value), count) in call.deps.iter().zip(&call.dep_refs) {
            let (refs, rest) = inside.split_at((*count as usize).min(inside.len()));
            inside = rest;
            self.hold(*object);
            if self.objects.value(*object).is_some() {
                continue;
            }
            if let Value::Inline(_) = value {
                self.set_value(*object, value.clone(), refs.to_vec(), fx);
            } else if object.owner == self.me && !self.can_be_made(*object) {
                let error = match self.objects.origin(*object) {
                    Origin::Put => argument_gone(*object),
                    origin => unrebuildable(origin, &self.lost_hosts()),
                };
                failed.get_or_insert(error);
            }
        }
        failed
    }

    fn can_be_made(&self, object: ObjectId) -> bool {
        self.tasks.submitted.contains_key(&object.seq) || self.lineage.records.contains_key(&object.seq)
    }

    /// A call is about to be sent, and something has been lost since it was submitted. True: it waits for
    /// arguments again, or has failed for want of one.
    pub(super) fn waits_again(&mut self, seq: u64, fx: &mut Vec<Effect>) -> bool {
        if self.lineage.losses == 0 {
            return false;
        }
        let Some(record) = self.tasks.submitted.get(&seq) else { return true };
        // Without a value, or an error by now: it was none when the call was submitted.
        let without =
            |(object, _): &&(ObjectId, Value)| self.objects.value(*object).is_none_or(Value::is_error);
        let deps: Vec<ObjectId> =
            record.call.deps.iter().filter(without).map(|(object, _)| *object).collect();
        if deps.is_empty() {
            return false;
        }
        if let Some(error) = self.depend_on_all(seq, &deps, fx) {
            self.fail_call(seq, error, fx);
            return true;
        }
        self.tasks.submitted.get(&seq).is_none_or(|record| record.missing > 0)
    }

    /// The call waits for these. An error: one of them is one.
    fn depend_on_all(&mut self, seq: u64, deps: &[ObjectId], fx: &mut Vec<Effect>) -> Option<Value> {
        let mut missing = 0;
        let mut failed = None;
        for object in deps {
            if self.depend(*object, seq, fx) {
                missing += 1;
            } else if let (None, Some(Value::Error(error))) = (&failed, self.objects.value(*object)) {
                failed = Some(Value::Error(error.of_argument()));
            }
        }
        if let Some(record) = self.tasks.submitted.get_mut(&seq) {
            record.missing = missing;
        }
        failed
    }
}

fn unrebuildable(origin: Origin, hosts: &str) -> Value {
    let (reason, text) = match origin {
        Origin::Spent => (
            "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED",
            "The host that had its bytes is gone, and the task that made it has run as often as it may.\n\
             hint: raise the number of retries with @ray.remote(max_retries=N)",
        ),
        Origin::Evicted => (
            "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED",
            "The host that had its bytes is gone, and the call that made it was forgotten to save memory.\n\
             hint: RAY_max_lineage_bytes=N in the environment lets more be remembered (1 GB by default)",
        ),
        Origin::Once | Origin::Kept | Origin::Put => (
            "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED",
            "The host that had its bytes is gone, and the call that made it is not to be run again \
             (max_retries=0, or max_task_retries=0 of an actor).\n\
             hint: allow retries with @ray.remote(max_retries=N), for actors with max_task_retries=N",
        ),
    };
    Value::Error(ErrorValue::text(ErrorKind::Unrebuildable, format!("{reason}\n{text}{hosts}")))
}

fn argument_gone(object: ObjectId) -> Value {
    let text = format!(
        "OBJECT_UNRECONSTRUCTABLE_PUT\nThe host that had its bytes is gone, and the task that made it needs \
         {object:?}, which was made by put() and is gone, too: nobody held it any more.\n\
         hint: keep a reference to what tasks are given by put(), or return it from a task"
    );
    Value::Error(ErrorValue::text(ErrorKind::Unrebuildable, text))
}
