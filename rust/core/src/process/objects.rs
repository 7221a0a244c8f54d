//! Objects that this process owns or borrows: values and reference counts.

use std::sync::Arc;

use foldhash::HashMap;
use raymesh_wire::{Block, ErrorKind, ErrorValue, Message, ObjectId, ProcId, ToController, Value};
use smallvec::SmallVec;

use super::flag::Flag;
use super::holds::Hold;
use super::lineage::Origin;
use super::{Effect, Process};

/// What is known here of an object's value.
#[derive(Clone, Debug)]
pub enum Lookup {
    Ready(Value),
    Pending,
    /// Nobody here holds it.
    Unknown,
}

#[derive(Debug)]
struct Entry {
    flag: Arc<Flag>,
    /// Holders in this process: references in user code, outstanding calls, containing objects, views.
    local: u32,
    /// Borrowed: how many holds its owner has registered for us.
    registered: u32,
    /// Borrowed: [`Message::Want`] is on its way, or its owner is dead and [`ToController::Seek`] is.
    asked: bool,
    /// Somebody here waits: report [`Effect::Ready`].
    awaited: bool,
    value: Option<Value>,
    /// References inside the value; held while it is.
    refs: Vec<ObjectId>,
    /// There may be others inside than `refs`.
    vague: bool,
    /// Owned: whether it can be made again.
    origin: Origin,
    /// Owned: what others hold.
    holds: SmallVec<[Hold; 1]>,
    /// Owned: processes that want the value.
    wanters: SmallVec<[ProcId; 1]>,
    /// Calls of ours that need the value as an argument.
    dependents: SmallVec<[u64; 2]>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Objects {
    entries: HashMap<ObjectId, Entry>,
    /// How many objects have become errors.
    errors: u64,
}

impl Objects {
    fn entry(&mut self, id: ObjectId) -> &mut Entry {
        self.entries.entry(id).or_insert_with(|| Entry {
            flag: Arc::new(Flag::new(id)),
            local: 0,
            registered: 0,
            asked: false,
            awaited: false,
            value: None,
            refs: Vec::new(),
            vague: false,
            origin: Origin::Put,
            holds: SmallVec::new(),
            wanters: SmallVec::new(),
            dependents: SmallVec::new(),
        })
    }

    pub(super) fn value(&self, id: ObjectId) -> Option<&Value> {
        self.entries.get(&id)?.value.as_ref()
    }

    /// References inside the value of `id`.
    pub(super) fn refs(&self, id: ObjectId) -> &[ObjectId] {
        self.entries.get(&id).map_or(&[], |entry| &entry.refs)
    }

    /// Known, and without a value.
    pub(super) fn is_pending(&self, id: ObjectId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.value.is_none())
    }

    /// Where `id` lies, if it is large and has no references inside.
    pub(super) fn plain_block(&self, id: ObjectId) -> Option<Block> {
        let entry = self.entries.get(&id)?;
        if entry.vague || !entry.refs.is_empty() { None } else { entry.value.as_ref()?.block() }
    }

    /// All objects with what is known of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (ObjectId, Option<&Value>, &[ObjectId])> {
        self.entries.iter().map(|(id, entry)| (*id, entry.value.as_ref(), &*entry.refs))
    }

    pub(super) fn holds_of(&mut self, id: ObjectId) -> &mut SmallVec<[Hold; 1]> {
        &mut self.entry(id).holds
    }

    pub(super) fn borrowed_from_owner(&mut self, id: ObjectId) {
        self.entry(id).registered += 1;
    }

    pub(super) fn forget_wanter(&mut self, id: ObjectId, wanter: ProcId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.wanters.retain(|proc| *proc != wanter);
        }
    }

    pub(super) fn origin(&self, id: ObjectId) -> Origin {
        self.entries.get(&id).map(|entry| entry.origin).unwrap_or_default()
    }

    pub(super) fn set_origin(&mut self, id: ObjectId, origin: Origin) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.origin = origin;
        }
    }

    /// Another value of it is under way.
    pub(super) fn expect_another(&self, id: ObjectId) {
        if let Some(entry) = self.entries.get(&id) {
            entry.flag.expect();
        }
    }

    /// The value that lay in `lost` has moved to `to`.
    pub(super) fn move_value(&mut self, id: ObjectId, lost: Block, to: Block) -> bool {
        match self.entries.get_mut(&id).and_then(|entry| entry.value.as_mut()) {
            Some(Value::Stored(block)) if *block == lost => {
                *block = to;
                true
            }
            _ => false,
        }
    }

    /// The value that lay in `lost` is gone, if it is still the one: what was inside, and whether anybody
    /// waits for another one.
    pub(super) fn lose_value(&mut self, id: ObjectId, lost: Block) -> Option<(Vec<ObjectId>, bool)> {
        let entry = self.entries.get_mut(&id)?;
        if entry.value.as_ref().and_then(Value::block) != Some(lost) {
            return None;
        }
        entry.value = None;
        entry.vague = false;
        // Of a borrower: its owner is asked at once.
        entry.asked = true;
        entry.flag.lose();
        let waits = entry.awaited || !entry.wanters.is_empty() || !entry.dependents.is_empty();
        Some((std::mem::take(&mut entry.refs), waits))
    }

    /// `owner` answers no more. Answers what it was asked for.
    pub(super) fn forget_questions_to(&mut self, owner: ProcId) -> Vec<ObjectId> {
        let mut wanted = Vec::new();
        for (id, entry) in &mut self.entries {
            if id.owner == owner && entry.value.is_none() {
                let asked = std::mem::take(&mut entry.asked);
                if asked || entry.awaited || !entry.dependents.is_empty() {
                    wanted.push(*id);
                }
            }
        }
        wanted.sort_unstable();
        wanted
    }
}

impl Process {
    /// A new object of this process, with a value. The caller holds it once and gives `refs` (which it
    /// holds) into its keeping.
    pub fn put(&mut self, value: Value, refs: Vec<ObjectId>, fx: &mut Vec<Effect>) -> Arc<Flag> {
        let object = self.next_task().object(1);
        for inner in &refs {
            self.hold(*inner);
        }
        let entry = self.objects.entry(object);
        entry.local = 1;
        entry.flag.resolve(&value);
        entry.value = Some(value);
        entry.refs = refs;
        let flag = Arc::clone(&entry.flag);
        self.settle(fx);
        flag
    }

    /// One more holder in this process. A reference that arrives from outside becomes known here.
    pub fn hold(&mut self, object: ObjectId) -> Arc<Flag> {
        let entry = self.objects.entry(object);
        entry.local += 1;
        Arc::clone(&entry.flag)
    }

    /// One more holder, of which the owner was told.
    pub(super) fn hold_registered(&mut self, object: ObjectId) {
        let entry = self.objects.entry(object);
        entry.local += 1;
        entry.registered += 1;
    }

    /// Whether anybody holds `object`, so far as is known here.
    pub(super) fn is_known(&self, object: ObjectId) -> bool {
        self.objects.entries.contains_key(&object)
    }

    /// One more holder, if there is one already.
    pub(super) fn hold_again(&mut self, object: ObjectId) -> bool {
        match self.objects.entries.get_mut(&object) {
            Some(entry) if entry.local > 0 => {
                entry.local += 1;
                true
            }
            _ => false,
        }
    }

    /// One holder less.
    pub fn release(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        self.unhold(object);
        self.settle(fx);
    }

    pub(super) fn unhold(&mut self, object: ObjectId) {
        if let Some(entry) = self.objects.entries.get_mut(&object) {
            debug_assert!(entry.local > 0, "{object:?} released more often than held");
            entry.local = entry.local.saturating_sub(1);
            if entry.local == 0 {
                self.doomed.push(object);
            }
        }
    }

    /// Holders of `object` in this process.
    #[must_use]
    pub fn holders(&self, object: ObjectId) -> u32 {
        self.objects.entries.get(&object).map_or(0, |entry| entry.local)
    }

    /// Objects known here: for leak checks and the state API.
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.objects.entries.len()
    }

    #[must_use]
    pub fn lookup(&self, object: ObjectId) -> Lookup {
        match self.objects.entries.get(&object) {
            None => Lookup::Unknown,
            Some(entry) => entry.value.clone().map_or(Lookup::Pending, Lookup::Ready),
        }
    }

    /// Asks for [`Effect::Ready`] when `object` gets a value. False if it has one already.
    pub fn await_object(&mut self, object: ObjectId, fx: &mut Vec<Effect>) -> bool {
        let entry = self.objects.entry(object);
        if entry.value.is_some() {
            return false;
        }
        entry.awaited = true;
        self.fetch(object, fx);
        self.settle(fx);
        true
    }

    /// Whether `object` ended in an error.
    #[must_use]
    pub fn is_error(&self, object: ObjectId) -> bool {
        self.objects.value(object).is_some_and(Value::is_error)
    }

    /// How many objects have become errors here: unless it grows, nobody needs to look for one.
    #[must_use]
    pub const fn errors_seen(&self) -> u64 {
        self.objects.errors
    }

    /// Asks the owner of a borrowed object for its value, unless that is known or under way.
    pub fn want(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        self.fetch(object, fx);
        self.settle(fx);
    }

    /// Asks for the value, once: its owner, or, if that is dead, whoever knows where it lies. An own object
    /// has a call or a placement group that will make it, or is lost.
    pub(super) fn fetch(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        if object.owner == self.me {
            if self.objects.value(object).is_none() && !self.groups.makes(object) {
                if self.tasks.submitted.contains_key(&object.seq) {
                    self.objects.expect_another(object);
                } else {
                    self.make_again(object, fx);
                }
            }
            return;
        }
        let entry = self.objects.entry(object);
        if entry.value.is_none() && !entry.asked {
            entry.asked = true;
            if self.is_dead(object.owner) {
                self.tell_controller(ToController::Seek { object }, fx);
                return;
            }
            self.watch(object.owner, fx);
            fx.push(Effect::Send { to: object.owner, message: Message::Want { object } });
        }
    }

    /// Registers that call `seq` needs `object`. True if it must wait.
    pub(super) fn depend(&mut self, object: ObjectId, seq: u64, fx: &mut Vec<Effect>) -> bool {
        if self.objects.value(object).is_none() {
            self.fetch(object, fx);
        }
        let entry = self.objects.entry(object);
        let waits = entry.value.is_none();
        if waits {
            entry.dependents.push(seq);
        }
        waits
    }

    /// A pending result of one of our own tasks, held once by the caller.
    pub(super) fn expect(&mut self, object: ObjectId) -> Arc<Flag> {
        let entry = self.objects.entry(object);
        entry.local = 1;
        Arc::clone(&entry.flag)
    }

    /// Gives `object` its value, which `from` has sent. It has registered us for `refs` inside (or they are
    /// ours).
    pub(super) fn resolve(
        &mut self,
        object: ObjectId,
        value: Value,
        refs: Vec<ObjectId>,
        from: ProcId,
        fx: &mut Vec<Effect>,
    ) {
        for inner in &refs {
            self.borrowed(*inner, from);
        }
        self.set_value(object, value, refs, fx);
    }

    /// As [`Self::resolve`], where nobody was told that we hold `refs`.
    pub(super) fn set_value(
        &mut self,
        object: ObjectId,
        value: Value,
        refs: Vec<ObjectId>,
        fx: &mut Vec<Effect>,
    ) {
        for inner in &refs {
            self.objects.entry(*inner).local += 1;
        }
        // A value that came although nobody waits (any more) is dropped like any other unheld one.
        let entry = self.objects.entry(object);
        if entry.value.is_some() {
            for inner in refs {
                self.unhold(inner);
            }
            return;
        }
        self.objects.errors += u64::from(value.is_error());
        let entry = self.objects.entry(object);
        entry.flag.resolve(&value);
        entry.value = Some(value);
        entry.refs = refs;
        if std::mem::take(&mut entry.awaited) {
            fx.push(Effect::Ready { object });
        }
        let dependents = std::mem::take(&mut entry.dependents);
        let wanters = std::mem::take(&mut entry.wanters);
        if entry.local == 0 {
            self.doomed.push(object);
        }
        for wanter in wanters {
            if !self.is_dead(wanter) {
                self.send_value(wanter, object, fx);
            }
        }
        self.woken.extend(dependents.into_iter().map(|seq| (seq, object)));
    }

    pub(super) fn accept_want(&mut self, from: ProcId, object: ObjectId, fx: &mut Vec<Effect>) {
        if self.objects.entries.contains_key(&object) {
            // What only others' late registrations keep is lost as well.
            self.fetch(object, fx);
        }
        match self.objects.entries.get_mut(&object) {
            Some(entry) if entry.value.is_some() => self.send_value(from, object, fx),
            Some(entry) => entry.wanters.push(from),
            None => {
                let message = Message::Value { object, value: lost(object), refs: vec![], places: vec![] };
                fx.push(Effect::Send { to: from, message });
            }
        }
    }

    fn send_value(&mut self, to: ProcId, object: ObjectId, fx: &mut Vec<Effect>) {
        let Some(entry) = self.objects.entries.get(&object) else { return };
        let Some(value) = entry.value.clone() else { return };
        let refs = entry.refs.clone();
        let after = self.lend(&refs, to, fx);
        let places = self.objects.places(&refs);
        let message = Message::Value { object, value, refs, places };
        self.send_after(after, to, message, fx);
    }

    pub(super) fn send_after(
        &mut self,
        after: Vec<ProcId>,
        to: ProcId,
        message: Message,
        fx: &mut Vec<Effect>,
    ) {
        if after.is_empty() {
            fx.push(Effect::Send { to, message });
            return;
        }
        // The registrations must leave first.
        for (owner, holds) in super::sorted(&mut self.borrows) {
            fx.push(Effect::Send { to: owner, message: Message::Borrow { holds } });
        }
        fx.push(Effect::SendAfter { after, to, message });
    }

    /// Forgets `object` if nobody holds it.
    pub(super) fn reap(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        let Some(entry) = self.objects.entries.get(&object) else { return };
        if entry.local > 0 || !entry.holds.is_empty() {
            return;
        }
        if entry.awaited || !entry.wanters.is_empty() || !entry.dependents.is_empty() {
            return;
        }
        let Some(entry) = self.objects.entries.remove(&object) else { return };
        if let Some(Value::Stored(block)) = entry.value
            && block.host() != self.me.host()
        {
            fx.push(Effect::Unneeded { block });
        }
        for inner in &entry.refs {
            self.unhold(*inner);
        }
        if let Some(actor) = self.actors.of_handle(object) {
            self.forget_actor(actor, fx);
        }
        if object.owner == self.me {
            self.free_unreached(object, fx);
            if self.keeps_call(object) {
                self.lineage_unneeded(object, fx);
            }
            if let Some(actor) = self.actors.of_handle(object) {
                self.handles_are_gone(actor, fx);
            }
            match entry.value {
                Some(Value::Stored(block)) if self.is_dead(block.home) => {
                    self.let_go_of_orphan(object, Some(&Value::Stored(block)), &[]);
                }
                Some(Value::Stored(block)) => self.free(block, fx),
                _ => {}
            }
        } else if self.is_dead(object.owner) {
            self.holds.take_through(object);
            self.let_go_of_orphan(object, entry.value.as_ref(), &entry.refs);
        } else {
            self.give_back(object, entry.registered);
        }
    }

    pub(super) fn free(&mut self, block: Block, fx: &mut Vec<Effect>) {
        if block.home == self.me {
            fx.push(Effect::Free { block });
            return;
        }
        // What nobody names when a home is dead is freed with its memory.
        if !self.is_dead(block.home) {
            self.frees.entry(block.home).or_default().push(block);
        }
    }

    /// Holds for the executor an object that a call refers to.
    pub(super) fn receive_argument(&mut self, object: ObjectId) {
        self.objects.entry(object).local += 1;
    }

    /// As [`Self::receive_argument`], with the value that came along and the references inside it, if these
    /// are known.
    pub(super) fn receive_value(
        &mut self,
        object: ObjectId,
        value: &Value,
        inside: Option<&[ObjectId]>,
        fx: &mut Vec<Effect>,
    ) {
        self.receive_argument(object);
        if self.objects.value(object).is_none() {
            self.set_value(object, value.clone(), inside.unwrap_or_default().to_vec(), fx);
            self.objects.entry(object).vague = inside.is_none();
        }
    }

    /// Ends the executor's holds on what a call referred to. Answers what this process goes on holding of
    /// others' objects: somebody must register it for them.
    pub(super) fn return_arguments(
        &mut self,
        arguments: Vec<ObjectId>,
        fx: &mut Vec<Effect>,
    ) -> Vec<ObjectId> {
        for object in &arguments {
            self.unhold(*object);
        }
        // What is held only by the value of another argument goes with that.
        self.reap_doomed(fx);
        let kept = |object: &ObjectId| {
            object.owner != self.me && !self.is_dead(object.owner) && self.holders(*object) > 0
        };
        arguments.into_iter().filter(kept).collect()
    }

    pub(super) fn reap_doomed(&mut self, fx: &mut Vec<Effect>) {
        while let Some(object) = self.doomed.pop() {
            self.reap(object, fx);
        }
    }
}

pub(super) fn lost(object: ObjectId) -> Value {
    let text = format!(
        "this object ({object:?}) is not known to its owner any more: nobody held a reference that the \
         owner knew of\nhint: references that travel as bytes made by hand are not counted; pass them in \
         arguments, results or put()"
    );
    Value::Error(ErrorValue::text(ErrorKind::ObjectLost, text))
}

pub(super) fn owner_died(object: ObjectId, lost_host: Option<&str>) -> Value {
    let place = lost_host.map(|host| format!(" with its host: {host}")).unwrap_or_default();
    let text = format!(
        "the process that owned this object ({:?}) has ended{place}, and nobody else knows its value",
        object.owner
    );
    Value::Error(ErrorValue::text(ErrorKind::OwnerDied, text))
}
