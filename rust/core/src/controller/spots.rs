//! Where something is held: of a host, or of a bundle that lies on it.

use raymesh_wire::HostId;

use super::bundles::BundleId;
use super::shapes::Shape;
use super::{Bundles, Hosts};

/// A place for a lease or an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub host: HostId,
    pub bundle: Option<BundleId>,
}

impl Spot {
    pub const fn on(host: HostId) -> Self {
        Self { host, bundle: None }
    }

    /// Takes `shape`, which must fit; the GPUs taken.
    pub fn take(self, hosts: &mut Hosts, bundles: &mut Bundles, shape: &Shape) -> Vec<u32> {
        match self.bundle {
            None => hosts.take(self.host, shape),
            Some(bundle) => bundles.take(bundle, shape),
        }
    }

    /// Gives back what was taken; `cpu_lent`: all but its CPU, which is back already.
    pub fn give(self, hosts: &mut Hosts, bundles: &mut Bundles, shape: &Shape, gpus: &[u32], cpu_lent: bool) {
        let Some(bundle) = self.bundle else {
            hosts.give(self.host, shape, gpus, cpu_lent);
            return;
        };
        if let Some(ended) = bundles.give(bundle, shape, gpus, cpu_lent) {
            hosts.give(ended.host, &ended.shape, &ended.gpus, false);
        } else {
            hosts.has_more(self.host);
        }
    }

    /// The CPUs of a worker that waits are free meanwhile, or not any more: whether or not they are free.
    pub fn lend_cpu(self, hosts: &mut Hosts, bundles: &mut Bundles, cpu: u64, lent: bool) {
        match self.bundle {
            Some(bundle) => {
                bundles.lend_cpu(bundle, cpu, lent);
                if lent {
                    hosts.has_more(self.host);
                }
            }
            None if lent => hosts.lend_cpu(self.host, cpu),
            None => hosts.reclaim_cpu(self.host, cpu),
        }
    }
}
