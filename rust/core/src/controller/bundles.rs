//! Bundles of placement groups that lie on hosts: what each holds of its host, and who holds what of it.
//!
//! A bundle takes its resources from the host once, when its group is placed, and hands them out by books
//! of its own. When its group or host is gone it ends, and gives back to the host as soon as its last user has.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::{GroupId, HostId, Quantity, ResourceSet};
use serde::{Deserialize, Serialize};

use super::gpus::Gpus;
use super::shapes::{CPU, ResId, Shape, Shapes};

/// Names one bundle on one host; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct BundleId(u64);

/// One bundle on one host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Bundle {
    pub group: GroupId,
    pub index: u32,
    pub host: HostId,
    /// What it holds of the host.
    pub shape: Shape,
    pub gpus: Vec<u32>,
    /// What is held of it, in the order of its shape. More than there is only of CPU, after a wait.
    held: Vec<u64>,
    pool: Gpus,
    /// Leases and actors that hold something of it, or would if they needed anything.
    pub users: u32,
    /// Its group is removed, or its host is gone.
    pub ended: bool,
}

impl Bundle {
    fn has(&self, id: ResId) -> (u64, u64) {
        let at = self.shape.amounts.iter().position(|(it, _)| *it == id);
        at.map_or((0, 0), |at| (self.shape.amounts[at].1, self.held[at]))
    }

    /// Whether it could hold `shape` if nobody held anything of it.
    pub fn could_fit(&self, shape: &Shape) -> bool {
        shape.amounts.iter().all(|(id, n)| self.has(*id).0 >= *n)
    }

    /// Whether `shape` is free now.
    pub fn fits(&self, shape: &Shape) -> bool {
        !self.ended
            && self.could_fit(shape)
            && self.pool.fits(shape.gpu)
            && shape.amounts.iter().all(|(id, n)| {
                let (has, held) = self.has(*id);
                held + n <= has
            })
    }

    /// Of every resource: what there is, and what is held.
    pub fn books(&self) -> impl Iterator<Item = (ResId, u64, u64)> {
        self.shape.amounts.iter().zip(&self.held).map(|((id, size), held)| (*id, *size, *held))
    }

    /// What is free, for display.
    pub fn available(&self, shapes: &mut Shapes) -> ResourceSet {
        let mut free = ResourceSet::new();
        for (name, Quantity(size)) in self.shape.set.iter() {
            let (_, held) = self.has(shapes.resource(name));
            free.set(name, Quantity(size.saturating_sub(held)));
        }
        free
    }

    fn change(&mut self, id: ResId, change: impl FnOnce(&mut u64)) {
        if let Some(at) = self.shape.amounts.iter().position(|(it, _)| *it == id) {
            change(&mut self.held[at]);
        }
    }
}

/// All bundles on hosts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Bundles {
    last: u64,
    all: BTreeMap<BundleId, Bundle>,
    by_host: BTreeSet<(HostId, BundleId)>,
}

impl Bundles {
    /// A bundle that holds `shape` and `gpus` of `host` from now on.
    pub fn add(
        &mut self,
        group: GroupId,
        index: u32,
        host: HostId,
        shape: Shape,
        gpus: Vec<u32>,
    ) -> BundleId {
        self.last += 1;
        let id = BundleId(self.last);
        let held = vec![0; shape.amounts.len()];
        let pool = Gpus::share(shape.gpu, &gpus);
        let bundle = Bundle { group, index, host, shape, gpus, held, pool, users: 0, ended: false };
        self.all.insert(id, bundle);
        self.by_host.insert((host, id));
        id
    }

    /// Ends a bundle. Returns it if nobody uses it any more: its host gets back what it held.
    #[must_use]
    pub fn end(&mut self, id: BundleId) -> Option<Bundle> {
        self.all.get_mut(&id)?.ended = true;
        self.close(id)
    }

    fn close(&mut self, id: BundleId) -> Option<Bundle> {
        let bundle = self.all.get(&id)?;
        if !bundle.ended || bundle.users > 0 {
            return None;
        }
        self.by_host.remove(&(bundle.host, id));
        self.all.remove(&id)
    }

    pub fn get(&self, id: BundleId) -> Option<&Bundle> {
        self.all.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (BundleId, &Bundle)> {
        self.all.iter().map(|(id, bundle)| (*id, bundle))
    }

    pub fn on_host(&self, host: HostId) -> impl Iterator<Item = (BundleId, &Bundle)> {
        let all = (host, BundleId(0))..=(host, BundleId(u64::MAX));
        self.by_host.range(all).filter_map(|(_, id)| Some((*id, self.all.get(id)?)))
    }

    /// Takes `shape`, which must fit; the GPUs taken.
    pub fn take(&mut self, id: BundleId, shape: &Shape) -> Vec<u32> {
        let Some(bundle) = self.all.get_mut(&id) else { return Vec::new() };
        bundle.users += 1;
        for (res, n) in &shape.amounts {
            bundle.change(*res, |held| *held += n);
        }
        bundle.pool.take(shape.gpu)
    }

    /// Gives back what was taken; `cpu_lent`: all but its CPU, which is back already. Returns the bundle if
    /// it has ended with its last user.
    #[must_use]
    pub fn give(&mut self, id: BundleId, shape: &Shape, gpus: &[u32], cpu_lent: bool) -> Option<Bundle> {
        let bundle = self.all.get_mut(&id)?;
        bundle.users -= 1;
        for (res, n) in &shape.amounts {
            if !(cpu_lent && *res == CPU) {
                bundle.change(*res, |held| {
                    debug_assert!(*held >= *n, "more given back than taken");
                    *held = held.saturating_sub(*n);
                });
            }
        }
        bundle.pool.give(shape.gpu, gpus);
        self.close(id)
    }

    /// The CPUs of a worker that waits are free meanwhile; or it goes on.
    pub fn lend_cpu(&mut self, id: BundleId, cpu: u64, lent: bool) {
        let Some(bundle) = self.all.get_mut(&id) else { return };
        bundle.change(CPU, |held| {
            *held = if lent { held.saturating_sub(cpu) } else { *held + cpu };
        });
    }
}
