//! Placement groups that this process has created or waits for.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use raymesh_wire::placement::{GroupSpec, GroupState};
use raymesh_wire::{ErrorKind, ErrorValue, FromController, GroupId, ObjectId, ToController, Value};

use super::flag::Flag;
use super::{Effect, Process};

/// A group that the controller tells us of, until it is removed.
#[derive(Debug, Default)]
struct Known {
    /// None: no word has come yet.
    state: Option<GroupState>,
    /// Objects that get these values once the group is created.
    awaited: Vec<(ObjectId, Bytes)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Groups {
    last: u32,
    known: HashMap<GroupId, Known>,
    /// All objects that are awaited.
    awaited: HashSet<ObjectId>,
}

impl Groups {
    /// Whether the object gets its value once some group is created.
    pub(super) fn makes(&self, object: ObjectId) -> bool {
        self.awaited.contains(&object)
    }

    pub(super) fn census(&self) -> [(&'static str, usize); 1] {
        [("placement groups known", self.known.len())]
    }
}

impl Process {
    /// A fresh group id of this process.
    pub fn next_group(&mut self) -> GroupId {
        self.groups.last += 1;
        GroupId { creator: self.me, seq: self.groups.last }
    }

    /// Asks for a placement group.
    pub fn create_group(&mut self, spec: GroupSpec, fx: &mut Vec<Effect>) {
        self.groups.known.insert(spec.group, Known::default());
        self.tell_controller(ToController::CreateGroup { spec: Box::new(spec) }, fx);
    }

    /// What the controller has said last of a group that this process has created.
    #[must_use]
    pub fn group_state(&self, group: GroupId) -> Option<GroupState> {
        self.groups.known.get(&group)?.state
    }

    /// An object that has `value` once the group is created, and an error if it is removed instead.
    pub fn await_group(&mut self, group: GroupId, value: Bytes, fx: &mut Vec<Effect>) -> Arc<Flag> {
        let object = self.next_task().object(1);
        let flag = self.expect(object);
        let met = self.groups.known.contains_key(&group);
        let known = self.groups.known.entry(group).or_default();
        if known.state == Some(GroupState::Created) {
            self.set_value(object, Value::Inline(value), Vec::new(), fx);
        } else {
            known.awaited.push((object, value));
            self.groups.awaited.insert(object);
        }
        if !met {
            self.tell_controller(ToController::WatchGroup { group }, fx);
        }
        self.settle(fx);
        flag
    }

    pub(super) fn accept_group_state(
        &mut self,
        group: GroupId,
        state: GroupState,
        why: String,
        fx: &mut Vec<Effect>,
    ) {
        let Some(known) = self.groups.known.get_mut(&group) else { return };
        known.state = Some(state);
        match state {
            GroupState::Created => {
                for (object, value) in std::mem::take(&mut known.awaited) {
                    self.groups.awaited.remove(&object);
                    self.set_value(object, Value::Inline(value), Vec::new(), fx);
                }
            }
            GroupState::Removed => self.forget_group(group, fx),
            GroupState::Pending | GroupState::Rescheduling => {}
        }
        // For whoever waits for any word of it, or prints why it waits.
        fx.push(Effect::Answer(Box::new(FromController::GroupState { group, state, why })));
    }

    pub(super) fn accept_group_refused(&mut self, group: GroupId, reason: String, fx: &mut Vec<Effect>) {
        self.forget_group(group, fx);
        fx.push(Effect::Answer(Box::new(FromController::GroupRefused { group, reason })));
    }

    fn forget_group(&mut self, group: GroupId, fx: &mut Vec<Effect>) {
        let Some(known) = self.groups.known.remove(&group) else { return };
        for (object, _) in known.awaited {
            self.groups.awaited.remove(&object);
            let text = "The placement group has been removed.";
            let error = Value::Error(ErrorValue::text(ErrorKind::GroupRemoved, text));
            self.set_value(object, error, Vec::new(), fx);
        }
    }
}
