//! A task goes where the large ones of its arguments lie: bytes travel to no worker that could have come to them.
//!
//! Only the caller knows where they lie, and only when they have values: so it is decided when a call is queued.
//! Calls of one shape are parted by the host that has most of their arguments' bytes. For each such host the caller
//! has a queue, leases and a demand of its own, and the demand names the host. To the controller they are of one
//! class with all others that need the same: it is a wish where to be among equals, which waits for nothing
//! (`controller/queue.rs`, `controller/wishes.rs`).

use raymesh_wire::placement::Strategy;
use raymesh_wire::{HostId, ObjectId, Value};
use smallvec::SmallVec;

use super::Process;

/// What is less than this is moved as quickly as a worker is found. (Ray counts what lies in its store, which is what
/// has more than 100 KB.)
const WORTH: u64 = 100 << 10;

impl Process {
    /// The shape, made from `shape`, of a call whose arguments have their values.
    pub(super) fn shape_near(&mut self, seq: u64, shape: u32) -> u32 {
        let base = self.leases.shapes[shape as usize].base;
        let chosen = match self.place_of_arguments(seq, base) {
            None => base,
            Some(host) => self.shape_on(base, host),
        };
        if chosen != shape
            && let Some(record) = self.tasks.submitted.get_mut(&seq)
        {
            record.route = super::tasks::Route::Shape(chosen);
        }
        chosen
    }

    fn shape_on(&mut self, base: u32, host: HostId) -> u32 {
        if let Some(known) = self.leases.by_place.get(&(base, host)) {
            return *known;
        }
        let key = self.leases.shapes.len() as u32;
        let shape = self.leases.shapes[base as usize].near(host);
        self.leases.shapes.push(shape);
        self.leases.by_place.insert((base, host), key);
        key
    }

    /// The host that has most of the bytes of the call's arguments, if they are many and it may choose.
    fn place_of_arguments(&self, seq: u64, shape: u32) -> Option<HostId> {
        let call = &self.tasks.submitted.get(&seq)?.call;
        if call.deps.is_empty() && call.args_object.is_none() {
            return None;
        }
        match self.leases.shapes[shape as usize].wish.strategy {
            Strategy::Default => {}
            Strategy::Group(group) if group.index.is_none() => {}
            _ => return None,
        }
        let own = call.args_object.and(call.args.block());
        let stored = |object: &ObjectId| self.objects.value(*object).and_then(Value::block);
        let blocks = call.deps.iter().filter_map(|(object, _)| stored(object)).chain(own);
        let mut bytes: SmallVec<[(HostId, u64); 2]> = SmallVec::new();
        for block in blocks {
            match bytes.iter_mut().find(|(host, _)| *host == block.host()) {
                Some((_, sum)) => *sum = sum.saturating_add(block.len),
                None => bytes.push((block.host(), block.len)),
            }
        }
        let here = self.me.host();
        let best =
            bytes.into_iter().max_by_key(|(host, sum)| (*sum, *host == here, std::cmp::Reverse(*host)));
        let (host, _) = best.filter(|(_, sum)| *sum >= WORTH)?;
        // Its own host is where a caller's tasks run anyway, if there is no other; and some hosts have only a driver.
        (host != here || (self.lineage.far && self.leases.here)).then_some(host)
    }
}
