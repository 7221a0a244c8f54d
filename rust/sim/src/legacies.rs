//! What dead owners leave: programs read it, and it must be there if anybody knows where.

use raymesh_core::process::Lookup;
use raymesh_wire::{ObjectId, ProcId, Value};

use crate::node::ProcNode;
use crate::program::{Frame, Ref};
use crate::world::{Stored, World};

impl World {
    /// Reads what a dead owner has left: waiting for that cannot end in a circle.
    pub fn get_legacy(&mut self, id: ProcId, frame: &mut Frame) {
        let Some(node) = self.procs.get(&id) else { return };
        let left = self.left_by_the_dead(frame.refs.iter().chain(&node.stash));
        if let Some(it) = frame.rng.pick(&left).copied() {
            self.with_process(id, |process, _, _| process.hold(it.id));
            frame.refs.push(it);
            self.get(id, frame, it.id);
        }
    }

    pub fn left_by_the_dead<'a>(&self, refs: impl Iterator<Item = &'a Ref>) -> Vec<Ref> {
        refs.filter(|it| it.actor().is_none() && !self.procs.contains_key(&it.id.owner)).copied().collect()
    }

    /// `id` is told that `object` has died with its owner: then its bytes are nowhere, or nobody who lives
    /// knows where.
    pub fn check_nowhere(&mut self, id: ProcId, object: ObjectId) {
        let of = |(_, stored): &(&(ProcId, u64), &Stored)| {
            stored.object == Some(object) && !stored.freed && !stored.lost
        };
        // Nobody hears those who were declared dead.
        let counts = |id: &ProcId| !self.links.is_zombie(id.host());
        for ((home, _), _) in self.blocks.iter().filter(of).filter(|((home, _), _)| counts(home)) {
            let reads =
                |node: &ProcNode| matches!(node.process.lookup(object), Lookup::Ready(Value::Stored(_)));
            let reader = self.procs.iter().find(|(id, node)| counts(id) && reads(node)).map(|(id, _)| *id);
            let home = self.procs.contains_key(home).then_some(*home);
            if let Some(who) = reader.or(home) {
                self.fail(format!("{id:?} is told that {object:?} is gone, but {who:?} knows where it lies"));
                return;
            }
        }
    }
}
