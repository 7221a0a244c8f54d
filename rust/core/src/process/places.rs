//! Where large objects lie, told along with references: who gets one need not ask its owner, and can read
//! it when the owner is dead.
//!
//! Only of objects without references inside: for these, who reads them must be registered, and the owner
//! does that when it is asked.

use raymesh_wire::{ObjectId, Place, Value};

use super::objects::Objects;
use super::{Effect, Process};

impl Objects {
    /// Places of those of `refs` that others may read without asking.
    pub(super) fn places(&self, refs: &[ObjectId]) -> Vec<Place> {
        let place = |object: &ObjectId| Some(Place { object: *object, block: self.plain_block(*object)? });
        refs.iter().filter_map(place).collect()
    }
}

impl Process {
    /// What came along with references that are held here by now.
    pub(super) fn learn_places(&mut self, places: &[Place], fx: &mut Vec<Effect>) {
        for Place { object, block } in places {
            if object.owner != self.me && self.objects.is_pending(*object) {
                self.set_value(*object, Value::Stored(*block), Vec::new(), fx);
            }
        }
    }
}
