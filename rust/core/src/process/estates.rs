//! What the dead leave behind, in the eyes of one of the living: see `core::estates` for the whole.
//!
//! - A death alone frees nothing. What its caller holds for a call that was on its way to the dead one, and
//!   what an owner has registered for it, stays until the death is *settled*: others may have got it
//!   from the dead one, and are not registered yet.
//! - Whoever has something through the dead one registers himself when he *mourns*.
//! - Values of a dead owner that are not known here may be known to others: they are sought, and what is
//!   not found has died with its owner.

use std::collections::BTreeSet;

use foldhash::HashMap;
use raymesh_wire::control::{Stock, Trace};
use raymesh_wire::{Block, Message, ObjectId, Place, ProcId, Return, TaskId, ToController, Value};

use super::{Effect, Process};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Estates {
    /// Held here in the name of the dead.
    kept: HashMap<ProcId, Vec<ObjectId>>,
    /// Blocks of our heap that hold results of others' calls, by offset.
    lent: HashMap<u64, Trace>,
    /// Objects of dead owners that were let go of since we mourned: to be named with what we hold.
    let_go: Option<Vec<Trace>>,
    /// To be told to the controller.
    gone: BTreeSet<ObjectId>,
}

impl Estates {
    pub fn census(&self) -> [(&'static str, usize); 3] {
        [
            ("the dead for whom something is kept", self.kept.len()),
            ("blocks of others' results", self.lent.len()),
            ("objects to be told of as let go", self.gone.len() + self.let_go.as_ref().map_or(0, Vec::len)),
        ]
    }
}

impl Process {
    pub(super) fn is_dead(&self, proc: ProcId) -> bool {
        self.dead.contains(proc)
    }

    /// Nobody holds anything through it any more.
    pub(super) fn is_settled(&self, proc: ProcId) -> bool {
        self.settled.contains(proc)
    }

    /// A process is dead, and all that it had sent has been read.
    pub(super) fn bury(&mut self, dead: ProcId, fx: &mut Vec<Effect>) {
        self.dead.insert(dead);
        self.watched.remove(&dead);
        for object in self.holds.mentioning(dead) {
            self.objects.forget_wanter(object, dead);
            self.doomed.push(object);
        }
        self.forget_caller(dead);
        for object in self.objects.forget_questions_to(dead) {
            self.fetch(object, fx);
        }
    }

    /// Registers this process for what only `dead` stood for. Not before all do so: a worker that retires
    /// leaves nothing to be settled, and what it has registered stays valid.
    fn inherit(&mut self, dead: ProcId) {
        self.mourned.insert(dead);
        self.inherit_from(dead);
        for object in self.arguments_from(dead) {
            self.borrow_myself(object);
        }
    }

    /// What this process holds for a call that was on its way to `dead`: others may have got it there.
    pub(super) fn keep_for(&mut self, dead: ProcId, objects: impl IntoIterator<Item = ObjectId>) {
        if self.is_settled(dead) {
            return;
        }
        let objects: Vec<ObjectId> = objects.into_iter().collect();
        if objects.is_empty() {
            return;
        }
        for object in &objects {
            self.hold(*object);
        }
        self.estates.kept.entry(dead).or_default().extend(objects);
    }

    /// Notes which blocks of ours hold results of a call of `task`'s owner.
    pub(super) fn note_lent(&mut self, task: TaskId, returns: &[Return]) {
        for (item, index) in returns.iter().zip(1..) {
            if let Value::Stored(block) = item.value
                && block.home == self.me
                && task.owner != self.me
            {
                let trace = Trace { object: task.object(index), block: Some(block), refs: item.refs.clone() };
                self.estates.lent.insert(block.offset, trace);
            }
        }
    }

    /// Nobody needs these blocks of ours any more.
    pub(super) fn accept_free(&mut self, blocks: Vec<Block>, fx: &mut Vec<Effect>) {
        for block in blocks {
            self.estates.lent.remove(&block.offset);
            fx.push(Effect::Free { block });
        }
    }

    pub(super) fn accept_mourn(
        &mut self,
        round: u64,
        dead: Vec<ProcId>,
        owners: Vec<ProcId>,
        fx: &mut Vec<Effect>,
    ) {
        for proc in dead.into_iter().chain(owners) {
            if !self.is_dead(proc) {
                self.bury(proc, fx);
            }
            self.inherit(proc);
        }
        // What was let go of before it began again is needed by nobody through us.
        self.tell_let_go();
        self.settle(fx);
        self.estates.let_go = Some(Vec::new());
        self.say_after_all(ToController::Mourned { round }, fx);
    }

    pub(super) fn accept_flush(&mut self, round: u64, fx: &mut Vec<Effect>) {
        self.settle(fx);
        self.say_after_all(ToController::Mourned { round }, fx);
    }

    fn say_after_all(&self, message: ToController, fx: &mut Vec<Effect>) {
        fx.push(Effect::SendLast { to: self.controller, message: Message::ToController(message) });
    }

    pub(super) fn accept_take_stock(&mut self, round: u64, fx: &mut Vec<Effect>) {
        let mut stock = Stock { round, ..Stock::default() };
        for (object, value, refs) in self.objects.all() {
            match value {
                Some(Value::Stored(block))
                    if object.owner == self.me && self.mourned.contains(block.home) =>
                {
                    stock.owned.push(Place { object, block: *block });
                }
                None | Some(Value::Stored(_)) if self.mourned.contains(object.owner) => {
                    let block = value.and_then(Value::block);
                    stock.needs.push(Trace { object, block, refs: refs.to_vec() });
                }
                _ => {}
            }
        }
        // Of others who are dead by now all will be asked in another round.
        let mourned = |trace: &&Trace| self.mourned.contains(trace.object.owner);
        stock.needs.extend(self.estates.let_go.iter().flatten().filter(mourned).cloned());
        stock.homed = self.estates.lent.values().filter(mourned).cloned().collect();
        stock.needs.sort_unstable_by_key(|trace| trace.object);
        stock.owned.sort_unstable();
        stock.homed.sort_unstable_by_key(|trace| (trace.object, trace.block));
        self.tell_controller(ToController::Stock(stock), fx);
        self.tell_let_go();
    }

    fn tell_let_go(&mut self) {
        let gone = self.estates.let_go.take().into_iter().flatten();
        self.estates.gone.extend(gone.map(|trace| trace.object));
    }

    /// Nobody here holds `object` any more, of which the controller looks after the memory.
    pub(super) fn let_go_of_orphan(&mut self, object: ObjectId, value: Option<&Value>, refs: &[ObjectId]) {
        if matches!(value, Some(Value::Inline(_))) {
            return;
        }
        let block = value.and_then(Value::block);
        match &mut self.estates.let_go {
            Some(list) if object.owner != self.me => list.push(Trace { object, block, refs: refs.to_vec() }),
            _ => {
                self.estates.gone.insert(object);
            }
        }
    }

    /// Tells the controller of what was let go of while one event was handled.
    pub(super) fn send_let_go(&mut self, fx: &mut Vec<Effect>) {
        if self.estates.gone.is_empty() {
            return;
        }
        // What has come again meanwhile is needed again.
        let gone = std::mem::take(&mut self.estates.gone).into_iter();
        let objects: Vec<_> = gone.filter(|object| !self.is_known(*object)).collect();
        if !objects.is_empty() {
            self.tell_controller(ToController::LetGo { objects }, fx);
        }
    }

    pub(super) fn accept_found_object(
        &mut self,
        object: ObjectId,
        found: Option<(Block, Vec<ObjectId>)>,
        fx: &mut Vec<Effect>,
    ) {
        if !self.objects.is_pending(object) {
            return;
        }
        match found {
            None => self.set_value(object, self.owner_died(object), Vec::new(), fx),
            Some((block, refs)) => {
                for inner in &refs {
                    self.borrow_myself(*inner);
                }
                self.set_value(object, Value::Stored(block), refs, fx);
            }
        }
    }

    pub(super) fn accept_settled(&mut self, dead: Vec<ProcId>, fx: &mut Vec<Effect>) {
        for proc in dead {
            // Who was not there when it died has nothing through it.
            if !self.is_dead(proc) {
                self.bury(proc, fx);
            }
            self.inherit(proc);
            self.settled.insert(proc);
            self.drop_holds_of(proc);
            for object in self.estates.kept.remove(&proc).unwrap_or_default() {
                self.unhold(object);
            }
        }
    }
}
