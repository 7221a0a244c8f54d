//! Processes that have ended, in as much memory as there are mailboxes and no more.

use foldhash::HashMap;
use raymesh_wire::{HostId, ProcId};

/// The latest incarnation that has ended, by mailbox. A mailbox is opened again only when its process is gone: all
/// before the latest have ended too.
#[derive(Debug, Default)]
pub(super) struct Departed {
    latest: HashMap<(HostId, u32), u32>,
}

impl Departed {
    pub(super) fn contains(&self, proc: ProcId) -> bool {
        self.latest.get(&(proc.host(), proc.slot())).is_some_and(|latest| proc.incarnation() <= *latest)
    }

    /// Adds the process; false if it was there.
    pub(super) fn insert(&mut self, proc: ProcId) -> bool {
        if self.contains(proc) {
            return false;
        }
        self.latest.insert((proc.host(), proc.slot()), proc.incarnation());
        true
    }
}
