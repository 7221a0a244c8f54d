//! Whether the books of placement groups and their bundles are right: part of [`super::Controller::audit`].

use std::collections::BTreeMap;

use raymesh_wire::{GroupState, Quantity};

use super::Controller;
use super::bundles::BundleId;
use super::shapes::{CPU, ResId};

impl Controller {
    /// Living groups, and bundles on hosts.
    #[must_use]
    pub fn groups_remain(&self) -> (usize, usize) {
        (self.groups.iter().count(), self.bundles.iter().count())
    }

    pub(super) fn audit_groups(&self) -> Result<(), String> {
        for (id, group) in self.groups.iter() {
            let record = &group.record;
            let placed = group.bundles.iter().filter(|bundle| bundle.is_some()).count();
            let all = record.spec.bundles.len();
            let fits = match record.state {
                GroupState::Pending => placed == 0 && group.wait.is_some(),
                GroupState::Created => placed == all && group.wait.is_none(),
                GroupState::Rescheduling => placed < all && group.wait.is_some(),
                GroupState::Removed => false,
            };
            if !fits {
                return Err(format!("{id:?} is {:?} with {placed} of {all} bundles", record.state));
            }
            for (index, (at, bundle)) in record.hosts.iter().zip(&group.bundles).enumerate() {
                let lies = bundle.and_then(|bundle| self.bundles.get(bundle));
                if *at != lies.map(|it| it.host) {
                    return Err(format!("bundle {index} of {id:?} is said to be on {at:?}, but {lies:?}"));
                }
                if lies.is_some_and(|it| it.ended || it.group != id || it.index as usize != index) {
                    return Err(format!("bundle {index} of {id:?} has the place of another: {lies:?}"));
                }
            }
        }
        for (id, bundle) in self.bundles.iter() {
            let listed = self.groups.get(bundle.group).is_some_and(|group| group.bundles.contains(&Some(id)));
            if listed == bundle.ended || (bundle.ended && bundle.users == 0) {
                return Err(format!("{id:?} belongs to nobody, or has ended and does not go: {bundle:?}"));
            }
        }
        self.audit_bundle_books()
    }

    /// What is recorded as held of a bundle is what leases and actors in it hold.
    fn audit_bundle_books(&self) -> Result<(), String> {
        let mut held: BTreeMap<(BundleId, ResId), u64> = BTreeMap::new();
        let mut gpus: BTreeMap<(BundleId, u32), u64> = BTreeMap::new();
        let mut users: BTreeMap<BundleId, u32> = BTreeMap::new();
        for (lease, hold) in self.holds.iter() {
            let Some(id) = hold.bundle else { continue };
            let Some(bundle) = self.bundles.get(id).filter(|bundle| bundle.host == hold.host) else {
                return Err(format!("{lease:?} is in {id:?}, which is not there"));
            };
            *users.entry(id).or_default() += 1;
            let shape = self.shapes.get(hold.shape);
            for (res, n) in shape.amounts.iter().filter(|(res, _)| !(hold.cpu_lent && *res == CPU)) {
                *held.entry((id, *res)).or_default() += n;
            }
            let mut left = shape.gpu;
            for gpu in &hold.gpus {
                if !bundle.gpus.contains(gpu) {
                    return Err(format!("{lease:?} has GPU {gpu}, which its bundle does not have"));
                }
                *gpus.entry((id, *gpu)).or_default() += left.min(Quantity::SCALE);
                left -= left.min(Quantity::SCALE);
            }
        }
        if let Some(over) = gpus.iter().find(|(_, n)| **n > Quantity::SCALE) {
            return Err(format!("GPU of a bundle used more than once: {over:?}"));
        }
        for (id, bundle) in self.bundles.iter() {
            if users.get(&id).copied().unwrap_or(0) != bundle.users {
                return Err(format!("{id:?} counts {} users: {users:?}", bundle.users));
            }
            for (res, has, counted) in bundle.books() {
                let real = held.get(&(id, res)).copied().unwrap_or(0);
                if real != counted || (res != CPU && counted > has) {
                    return Err(format!("{id:?} {res:?}: {counted} of {has} booked as held, {real} held"));
                }
            }
        }
        Ok(())
    }
}
