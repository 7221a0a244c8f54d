//! Calls sent ahead that are stuck behind one that takes long: what was known of their shape does not
//! hold any more. They are taken back, for other workers.

use raymesh_wire::{LeaseId, Message};

use super::{Effect, Nanos, Process};

/// A call that is the first of its worker's for so long is not one of those that are sent ahead.
const LOOK: Nanos = 10_000_000;

impl Process {
    pub(super) fn look_later(&mut self) {
        self.leases.look_at = Some(self.now + LOOK);
    }

    /// Takes back what is behind calls that were first already at the last look.
    pub(super) fn look_after_pipelines(&mut self, fx: &mut Vec<Effect>) {
        if self.leases.look_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.leases.look_at = None;
        let mut behind: Vec<LeaseId> = Vec::new();
        behind
            .extend(self.leases.all.iter().filter(|(_, lease)| lease.inflight.len() > 1).map(|(id, _)| *id));
        behind.sort_unstable();
        if !behind.is_empty() {
            self.look_later();
        }
        for id in behind {
            let Some(lease) = self.leases.all.get_mut(&id) else { continue };
            let first = lease.inflight.front().copied();
            if std::mem::replace(&mut lease.seen, first) != first {
                lease.seen_since = self.now;
                continue;
            }
            // To a worker far away and back it takes that long.
            if lease.recalling || self.now.saturating_sub(lease.seen_since) < lease.way {
                continue;
            }
            lease.recalling = true;
            lease.engaged = true;
            let (shape, worker, max) = (lease.shape, lease.worker, lease.inflight.len() as u32 - 1);
            let way = lease.way;
            self.leases.take_long(shape, way);
            fx.push(Effect::Send { to: worker, message: Message::Recall { lease: id, max } });
        }
    }
}
