//! Names for processes: mailbox slots, and which use of the slot it is.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::{HostId, ProcId};

/// The agent, and the driver that starts the runtime.
const RESERVED: u32 = 2;
/// Incarnations have 18 bits; a slot that has used them up is retired, since no name comes twice.
const MAX_INCARNATION: u32 = (1 << (32 - ProcId::SLOT_BITS)) - 1;

#[derive(Debug)]
pub(super) struct Slots {
    host: HostId,
    /// Slots from here on were never used.
    fresh: u32,
    free: BTreeSet<u32>,
    /// Latest incarnation of each slot used so far; the first is 1.
    incarnations: BTreeMap<u32, u32>,
}

impl Slots {
    pub fn new(host: HostId) -> Self {
        Self { host, fresh: RESERVED, free: BTreeSet::new(), incarnations: BTreeMap::new() }
    }

    /// A name that no process had before, in a slot that nobody has; none if all are taken.
    pub fn allocate(&mut self) -> Option<ProcId> {
        let slot = match self.free.pop_first() {
            Some(slot) => slot,
            None if self.fresh < ProcId::MAX_SLOTS => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        let incarnation = self.incarnations.entry(slot).or_default();
        *incarnation += 1;
        Some(ProcId::new(self.host, *incarnation, slot))
    }

    /// The process is gone.
    pub fn release(&mut self, proc: ProcId) {
        let current = self.incarnations.get(&proc.slot()) == Some(&proc.incarnation());
        if current && proc.incarnation() < MAX_INCARNATION {
            self.free.insert(proc.slot());
        }
    }
}
