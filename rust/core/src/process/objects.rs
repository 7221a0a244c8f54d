//! Objects that this process owns or borrows: values and reference counts.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use raymesh_wire::{Block, ErrorKind, ErrorValue, Message, ObjectId, ProcId, Value};
use smallvec::SmallVec;

use super::flag::Flag;
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
    /// Borrowed: how many holds our owner has been told of in our name, so far as we know.
    registered: u32,
    /// Borrowed: [`Message::Want`] is on its way.
    asked: bool,
    /// Somebody here waits: report [`Effect::Ready`].
    awaited: bool,
    value: Option<Value>,
    /// References inside the value; held while it is.
    refs: Vec<ObjectId>,
    /// Owned: registered holds by process.
    borrowers: SmallVec<[(ProcId, i64); 1]>,
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
    /// Owned objects by borrower, so that a death costs what the dead held and no more.
    by_borrower: HashMap<ProcId, HashSet<ObjectId>>,
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
            borrowers: SmallVec::new(),
            wanters: SmallVec::new(),
            dependents: SmallVec::new(),
        })
    }

    pub(super) fn value(&self, id: ObjectId) -> Option<&Value> {
        self.entries.get(&id)?.value.as_ref()
    }

    pub(super) fn census(&self) -> [(&'static str, usize); 1] {
        [("objects that others hold", self.by_borrower.values().map(HashSet::len).sum())]
    }

    /// References inside the value of `id`.
    pub(super) fn refs(&self, id: ObjectId) -> &[ObjectId] {
        self.entries.get(&id).map_or(&[], |entry| &entry.refs)
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

    /// `dead` has ended, and its host's agent takes over its memory. Answers the blocks that this
    /// process needs and that nobody but the agent can look after now: its own objects in `dead`'s heap,
    /// and objects of `dead` that it reads, in whosever heap. Each goes to the agent when it is done with.
    pub fn claim_blocks(&mut self, dead: ProcId) -> Vec<Block> {
        self.buried.insert(dead);
        let me = self.me;
        let claim = |(id, entry): (&ObjectId, &Entry)| match entry.value {
            Some(Value::Stored(block)) if id.owner == dead || (id.owner == me && block.home == dead) => {
                Some(block)
            }
            _ => None,
        };
        let mut blocks: Vec<_> = self.objects.entries.iter().filter_map(claim).collect();
        blocks.sort_unstable();
        blocks
    }

    fn is_gone(&self, proc: ProcId) -> bool {
        self.dead.contains(proc) || self.buried.contains(proc)
    }

    /// Asks the owner for the value, once. A borrowed object has a live owner or becomes an error; an own
    /// one has a call that will make it, or is lost.
    pub(super) fn fetch(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        if object.owner == self.me {
            if self.objects.value(object).is_none() && !self.tasks.submitted.contains_key(&object.seq) {
                self.resolve(object, lost(object), Vec::new(), fx);
            }
            return;
        }
        if self.dead.contains(object.owner) {
            self.resolve(object, owner_died(object), Vec::new(), fx);
            return;
        }
        let entry = self.objects.entry(object);
        if entry.value.is_none() && !entry.asked {
            entry.asked = true;
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

    /// Gives `object` its value. `refs` inside it are registered in our name (or ours).
    pub(super) fn resolve(
        &mut self,
        object: ObjectId,
        value: Value,
        refs: Vec<ObjectId>,
        fx: &mut Vec<Effect>,
    ) {
        for inner in &refs {
            if inner.owner != self.me {
                self.objects.entry(*inner).registered += 1;
            }
        }
        self.set_value(object, value, refs, fx);
    }

    /// As [`Self::resolve`], where nobody was told that we hold `refs`.
    fn set_value(&mut self, object: ObjectId, value: Value, refs: Vec<ObjectId>, fx: &mut Vec<Effect>) {
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
            if !self.dead.contains(wanter) {
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
                let message = Message::Value { object, value: lost(object), refs: vec![] };
                fx.push(Effect::Send { to: from, message });
            }
        }
    }

    fn send_value(&mut self, to: ProcId, object: ObjectId, fx: &mut Vec<Effect>) {
        let Some(entry) = self.objects.entries.get(&object) else { return };
        let Some(value) = entry.value.clone() else { return };
        let refs = entry.refs.clone();
        let after = self.lend(&refs, to, fx);
        let message = Message::Value { object, value, refs };
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

    /// Registers `to` as a holder of each of `refs`, which this process holds. Answers the owners that
    /// must hear of it before `to` does.
    pub(super) fn lend(&mut self, refs: &[ObjectId], to: ProcId, fx: &mut Vec<Effect>) -> Vec<ProcId> {
        let mut owners = Vec::new();
        for object in refs {
            if object.owner == to || self.dead.contains(object.owner) {
                // It comes home: the owner counts it as its own. A dead one counts nothing.
                continue;
            }
            if object.owner == self.me {
                self.register(*object, to, 1, fx);
            } else {
                self.borrows.entry(object.owner).or_default().push((*object, to));
                if !owners.contains(&object.owner) {
                    owners.push(object.owner);
                }
            }
        }
        owners
    }

    pub(super) fn register(&mut self, object: ObjectId, borrower: ProcId, count: i64, fx: &mut Vec<Effect>) {
        if self.dead.contains(borrower) {
            return;
        }
        if borrower == self.me {
            return;
        }
        let entry = self.objects.entry(object);
        let at = entry.borrowers.iter().position(|(proc, _)| *proc == borrower);
        match at {
            Some(at) => {
                entry.borrowers[at].1 += count;
                if entry.borrowers[at].1 == 0 {
                    entry.borrowers.swap_remove(at);
                    if let Some(held) = self.objects.by_borrower.get_mut(&borrower) {
                        held.remove(&object);
                    }
                    self.doomed.push(object);
                }
            }
            None => {
                entry.borrowers.push((borrower, count));
                self.objects.by_borrower.entry(borrower).or_default().insert(object);
                self.watch(borrower, fx);
            }
        }
    }

    pub(super) fn accept_borrow(&mut self, holds: Vec<(ObjectId, ProcId)>, fx: &mut Vec<Effect>) {
        for (object, borrower) in holds {
            self.register(object, borrower, 1, fx);
            self.doomed.push(object);
        }
    }

    pub(super) fn accept_release(&mut self, from: ProcId, holds: Vec<(ObjectId, u32)>, fx: &mut Vec<Effect>) {
        for (object, count) in holds {
            self.register(object, from, -i64::from(count), fx);
        }
    }

    pub(super) fn accept_value(
        &mut self,
        object: ObjectId,
        value: Value,
        refs: Vec<ObjectId>,
        fx: &mut Vec<Effect>,
    ) {
        self.resolve(object, value, refs, fx);
    }

    pub(super) fn forget_borrower(&mut self, proc: ProcId) {
        let mut held: Vec<_> = self.objects.by_borrower.remove(&proc).into_iter().flatten().collect();
        held.sort_unstable();
        for object in held {
            if let Some(entry) = self.objects.entries.get_mut(&object) {
                entry.borrowers.retain(|(borrower, _)| *borrower != proc);
                entry.wanters.retain(|wanter| *wanter != proc);
                self.doomed.push(object);
            }
        }
    }

    /// Objects whose owner died and whose value we do not have will never have one.
    pub(super) fn fail_objects_of(&mut self, owner: ProcId, fx: &mut Vec<Effect>) {
        let mut lost: Vec<_> = self
            .objects
            .entries
            .iter()
            .filter(|(id, entry)| id.owner == owner && entry.value.is_none())
            .map(|(id, _)| *id)
            .collect();
        lost.sort_unstable();
        for object in lost {
            self.resolve(object, owner_died(object), Vec::new(), fx);
        }
    }

    /// Forgets `object` if nobody holds it.
    pub(super) fn reap(&mut self, object: ObjectId, fx: &mut Vec<Effect>) {
        let Some(entry) = self.objects.entries.get(&object) else { return };
        if entry.local > 0 || !entry.borrowers.is_empty() {
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
        for inner in entry.refs {
            self.unhold(inner);
        }
        if let Some(actor) = self.actors.of_handle(object) {
            self.forget_actor(actor, fx);
        }
        if object.owner == self.me {
            if let Some(actor) = self.actors.of_handle(object) {
                self.handles_are_gone(actor, fx);
            }
            if let Some(Value::Stored(block)) = entry.value {
                self.free(block, fx);
            }
        } else if self.buried.contains(object.owner) {
            if let Some(Value::Stored(block)) = entry.value {
                self.frees.entry(ProcId::agent(block.host())).or_default().push(block);
            }
        } else if entry.registered > 0 && !self.dead.contains(object.owner) {
            self.releases.entry(object.owner).or_default().push((object, entry.registered));
        }
    }

    pub(super) fn free(&mut self, block: Block, fx: &mut Vec<Effect>) {
        if block.home == self.me {
            fx.push(Effect::Free { block });
            return;
        }
        let home = if self.is_gone(block.home) { ProcId::agent(block.host()) } else { block.home };
        self.frees.entry(home).or_default().push(block);
    }

    /// Holds for the executor an object that a call refers to.
    pub(super) fn receive_argument(&mut self, object: ObjectId) {
        self.objects.entry(object).local += 1;
    }

    /// As [`Self::receive_argument`], with the value that came along and the references inside it.
    pub(super) fn receive_value(
        &mut self,
        object: ObjectId,
        value: &Value,
        inside: &[ObjectId],
        fx: &mut Vec<Effect>,
    ) {
        self.receive_argument(object);
        if self.objects.value(object).is_none() {
            self.set_value(object, value.clone(), inside.to_vec(), fx);
        }
    }

    /// Ends the executor's holds on what a call referred to. Answers what this process goes on holding:
    /// the reply must say so.
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
        let (objects, me) = (&mut self.objects.entries, self.me);
        let kept = arguments.into_iter().filter(|object| match objects.get_mut(object) {
            Some(entry) if entry.local > 0 && object.owner != me => {
                entry.registered += 1;
                true
            }
            _ => false,
        });
        kept.collect()
    }

    pub(super) fn reap_doomed(&mut self, fx: &mut Vec<Effect>) {
        while let Some(object) = self.doomed.pop() {
            self.reap(object, fx);
        }
    }
}

fn lost(object: ObjectId) -> Value {
    let text = format!(
        "this object ({object:?}) is not known to its owner any more: nobody held a reference that the \
         owner knew of\nhint: references that travel as bytes made by hand are not counted; pass them in \
         arguments, results or put()"
    );
    Value::Error(ErrorValue::text(ErrorKind::ObjectLost, text))
}

fn owner_died(object: ObjectId) -> Value {
    Value::Error(ErrorValue::text(
        ErrorKind::OwnerDied,
        format!(
            "the process that owned this object ({:?}) has ended before the object had a value",
            object.owner
        ),
    ))
}
