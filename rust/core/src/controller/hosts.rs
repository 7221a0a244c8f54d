//! The cluster's hosts: what each has, what is held of it, and which one to take next.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::{GroupId, HostId, Quantity, ResourceSet};
use serde::{Deserialize, Serialize};

use super::gpus::Gpus;
use super::queue::ClassId;
use super::shapes::{CPU, GPU, MEMORY, ResId, Shape, Shapes};

/// A host is packed until this much of its scarcest resource is held (in 1/10,000); from there on the
/// load is spread. Ray's hybrid policy and its threshold.
const PACK_UNTIL: u64 = 5_000;

/// One living host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Host {
    pub name: String,
    pub total: ResourceSet,
    pub labels: Vec<(String, String)>,
    pub store_capacity: u64,
    pub store_used: u64,
    /// Of every resource, by [`ResId`]: what there is, and what is held. More may be held than there
    /// is only of CPU: see [`Host::owe_cpu`].
    size: Vec<u64>,
    held: Vec<u64>,
    gpus: Gpus,
    load: u64,
    /// Task leases without CPU that have no worker yet: nothing else limits how many are granted.
    pub weightless: u32,
    /// Starting workers failed: no grants until then, and why.
    pub backoff: Option<(u64, String)>,
    /// Length of the last backoff.
    pub backoff_step: u64,
    /// Kept free for something that has waited for too long.
    pub kept: Option<Kept>,
    /// It gets nothing new and is to leave.
    pub draining: Option<Drain>,
}

/// What is kept free of a host, and for whom. Others get what is left beyond it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub whom: Keeper,
    pub amounts: Vec<(ResId, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Keeper {
    /// See `starvation.rs`.
    Class(ClassId),
    /// See `keeping.rs`.
    Group(GroupId),
}

impl Kept {
    /// How much of a resource is kept.
    pub fn of(&self, id: ResId) -> u64 {
        self.amounts.iter().find(|(it, _)| *it == id).map_or(0, |(_, n)| *n)
    }
}

/// Why a host is to leave, and when at the latest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Drain {
    pub reason: String,
    pub deadline: Option<u64>,
    /// It was told to go.
    pub leaves: bool,
}

impl Host {
    pub fn has(&self, id: ResId) -> u64 {
        self.size.get(id.0 as usize).copied().unwrap_or(0)
    }

    pub fn held(&self, id: ResId) -> u64 {
        self.held.get(id.0 as usize).copied().unwrap_or(0)
    }

    /// A host that has nothing is there for its driver only.
    pub fn takes_work(&self) -> bool {
        !self.total.is_empty()
    }

    /// Whether the host could hold `shape` if it were empty.
    pub fn could_fit(&self, shape: &Shape) -> bool {
        self.takes_work()
            && shape.amounts.iter().all(|(id, n)| self.has(*id) >= *n)
            && self.gpus.could_fit(shape.gpu)
    }

    /// Whether `shape` is free now.
    pub fn fits(&self, shape: &Shape) -> bool {
        self.takes_work()
            && shape.amounts.iter().all(|(id, n)| self.held(*id) + n <= self.has(*id))
            && self.gpus.fits(shape.gpu)
    }

    /// What there is of these resources if it were empty, to try things out on.
    pub fn empty_room(&self, of: &BTreeSet<ResId>) -> (BTreeMap<ResId, u64>, Gpus) {
        (of.iter().map(|id| (*id, self.has(*id))).collect(), Gpus::new(self.has(GPU)))
    }

    /// What is free of these resources now for `whom`.
    pub fn room(&self, of: &BTreeSet<ResId>, whom: Keeper) -> (BTreeMap<ResId, u64>, Gpus) {
        let kept = self.kept.as_ref().filter(|kept| kept.whom != whom);
        let left = |id| {
            let taken = self.held(id) + kept.map_or(0, |kept| kept.of(id));
            self.has(id).saturating_sub(taken)
        };
        (of.iter().map(|id| (*id, left(*id))).collect(), self.gpus.clone())
    }

    /// Whether `shape` leaves what is kept free for others than `whom`. What is missing of that already is no
    /// excuse.
    pub fn leaves_kept(&self, shape: &Shape, whom: Keeper) -> bool {
        let Some(kept) = self.kept.as_ref().filter(|kept| kept.whom != whom) else { return true };
        let leaves = |(id, n): &(ResId, u64)| match kept.of(*id) {
            0 => true,
            kept => self.held(*id) + kept + n <= self.has(*id),
        };
        shape.amounts.iter().all(leaves)
    }

    /// How much of `shape` is missing now, in 1/10,000 of each amount.
    pub fn lacks(&self, shape: &Shape) -> u64 {
        let lack = |(id, n): &(ResId, u64)| {
            let free = self.has(*id).saturating_sub(self.held(*id));
            n.saturating_sub(free).saturating_mul(10_000) / n.max(&1)
        };
        shape.amounts.iter().map(lack).sum()
    }

    /// How many task leases without CPU may wait for their worker at a time.
    pub fn weightless_limit(&self) -> u32 {
        (self.has(CPU) / Quantity::SCALE) as u32 + 4
    }

    /// Of every resource: what there is, and what is held.
    pub fn books(&self) -> impl Iterator<Item = (ResId, u64, u64)> {
        (0..).map(ResId).zip(&self.size).zip(&self.held).map(|((id, size), held)| (id, *size, *held))
    }

    /// What is free, for display.
    pub fn available(&self, shapes: &mut Shapes) -> ResourceSet {
        let mut free = ResourceSet::new();
        for (name, Quantity(size)) in self.total.iter() {
            free.set(name, Quantity(size.saturating_sub(self.held(shapes.resource(name)))));
        }
        free
    }

    fn update_load(&mut self) {
        let used = |id| match self.has(id) {
            0 => 0,
            size => self.held(id).saturating_mul(10_000) / size,
        };
        let load = used(CPU).max(used(MEMORY));
        self.load = if load < PACK_UNTIL { 0 } else { load };
    }
}

/// All living hosts, ordered for placement.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Hosts {
    hosts: BTreeMap<HostId, Host>,
    /// By load, without and with GPUs: tasks that need no GPU keep away from those.
    plain: BTreeSet<(u64, HostId)>,
    with_gpu: BTreeSet<(u64, HostId)>,
    /// Hosts with a CPU, or a part of one, that is free.
    roomy: BTreeSet<HostId>,
    /// Who has any of a resource.
    owners: BTreeMap<ResId, BTreeSet<HostId>>,
    /// Hosts with more free, or free for more, than when waiting demands were last tried on them.
    pub freed: BTreeSet<HostId>,
    /// Hosts that could not start workers lately.
    pub backing_off: BTreeSet<HostId>,
}

impl Hosts {
    pub fn join(&mut self, id: HostId, mut host: Host, shapes: &mut Shapes) {
        for (name, Quantity(n)) in host.total.iter() {
            let res = shapes.resource(name);
            let at = res.0 as usize;
            if host.size.len() <= at {
                host.size.resize(at + 1, 0);
            }
            host.size[at] = n;
            self.owners.entry(res).or_default().insert(id);
        }
        host.held = vec![0; host.size.len()];
        host.gpus = Gpus::new(host.has(GPU));
        host.update_load();
        self.order(&host).insert((host.load, id));
        if host.has(CPU) > 0 {
            self.roomy.insert(id);
        }
        self.hosts.insert(id, host);
        self.freed.insert(id);
    }

    pub fn lose(&mut self, id: HostId) -> Option<Host> {
        let host = self.hosts.remove(&id)?;
        self.order(&host).remove(&(host.load, id));
        for owners in self.owners.values_mut() {
            owners.remove(&id);
        }
        self.freed.remove(&id);
        self.roomy.remove(&id);
        self.backing_off.remove(&id);
        Some(host)
    }

    pub fn get(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(&id)
    }

    pub fn get_mut(&mut self, id: HostId) -> Option<&mut Host> {
        self.hosts.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts.iter().map(|(id, host)| (*id, host))
    }

    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// How many hosts that will do could ever hold `shape`.
    pub fn could_fit(&self, shape: &Shape, will_do: impl Fn(HostId, &Host) -> bool) -> u32 {
        let will_do =
            |id: &HostId| self.hosts.get(id).is_some_and(|host| host.could_fit(shape) && will_do(*id, host));
        match self.rarest(shape) {
            Some(owners) => owners.iter().filter(|id| will_do(id)).count() as u32,
            None => self.hosts.keys().filter(|id| will_do(id)).count() as u32,
        }
    }

    /// The first host after `last` that `fits`, in turn. Hosts that are full of CPUs are not even looked at
    /// if `shape` needs any.
    pub fn next_after(
        &self,
        last: HostId,
        shape: &Shape,
        fits: impl Fn(HostId, &Host) -> bool,
    ) -> Option<HostId> {
        let after = (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
        let fits = |id: &HostId| self.hosts.get(id).is_some_and(|host| fits(*id, host));
        if shape.cpu > 0 {
            self.roomy.range(after).chain(self.roomy.range(..=last)).find(|id| fits(id)).copied()
        } else {
            let turn = self.hosts.range(after).chain(self.hosts.range(..=last));
            turn.map(|(id, _)| id).find(|id| fits(id)).copied()
        }
    }

    /// The host to place `shape` on: the least loaded that `fits`, the preferred one among equals.
    pub fn pick(
        &self,
        shape: &Shape,
        prefer: HostId,
        fits: impl Fn(HostId, &Host) -> bool,
    ) -> Option<HostId> {
        let fits = |id: HostId| self.hosts.get(&id).is_some_and(|host| fits(id, host));
        if shape.gpu == 0 {
            let near = (!self.plain.is_empty()).then_some(prefer);
            self.best(&self.plain, near.filter(|id| self.is_plain(*id)), shape, &fits).or_else(|| {
                self.best(&self.with_gpu, Some(prefer).filter(|id| !self.is_plain(*id)), shape, &fits)
            })
        } else {
            self.best(&self.with_gpu, Some(prefer), shape, &fits)
        }
    }

    /// For whom room is kept there.
    pub fn keeper(&self, id: HostId) -> Option<Keeper> {
        Some(self.get(id)?.kept.as_ref()?.whom)
    }

    /// Whether `shape` may go to a host because its arguments lie there. What needs no GPU keeps away from hosts
    /// with GPUs all the same, if there are others.
    pub fn may_come_near(&self, id: HostId, shape: &Shape) -> bool {
        shape.gpu > 0 || self.plain.is_empty() || self.is_plain(id)
    }

    fn best(
        &self,
        order: &BTreeSet<(u64, HostId)>,
        prefer: Option<HostId>,
        shape: &Shape,
        fits: &impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        let near = prefer.and_then(|id| Some((self.hosts.get(&id)?.load, id)));
        if let Some((0, id)) = near.filter(|near| fits(near.1)) {
            return Some(id);
        }
        let near = near.filter(|near| fits(near.1));
        let found = match self.rarest(shape).filter(|owners| owners.len() * 4 < order.len()) {
            Some(owners) => owners
                .iter()
                .map(|id| (self.hosts[id].load, *id))
                .filter(|entry| order.contains(entry) && fits(entry.1))
                .min(),
            None => order.iter().find(|(_, id)| fits(*id)).copied(),
        };
        match (near, found) {
            (Some(near), Some(found)) if near.0 <= found.0 => Some(near.1),
            (_, found) => found.map(|(_, id)| id),
        }
    }

    /// The owners of whichever resource of `shape` the fewest hosts have.
    fn rarest(&self, shape: &Shape) -> Option<&BTreeSet<HostId>> {
        const NOBODY: &BTreeSet<HostId> = &BTreeSet::new();
        let owners = |(id, _): &(ResId, u64)| self.owners.get(id).unwrap_or(NOBODY);
        shape.amounts.iter().map(owners).min_by_key(|owners| owners.len())
    }

    /// Takes `shape`, which must fit; the GPUs taken.
    pub fn take(&mut self, id: HostId, shape: &Shape) -> Vec<u32> {
        let Some(host) = self.hosts.get_mut(&id) else { return Vec::new() };
        for (res, n) in &shape.amounts {
            if let Some(held) = host.held.get_mut(res.0 as usize) {
                *held += n;
            }
        }
        let gpus = host.gpus.take(shape.gpu);
        self.reorder(id);
        gpus
    }

    /// Gives back what was taken; `cpu_lent`: all but its CPU, which is back already.
    pub fn give(&mut self, id: HostId, shape: &Shape, gpus: &[u32], cpu_lent: bool) {
        let Some(host) = self.hosts.get_mut(&id) else { return };
        for (res, n) in &shape.amounts {
            if cpu_lent && *res == CPU {
                continue;
            }
            if let Some(held) = host.held.get_mut(res.0 as usize) {
                debug_assert!(*held >= *n, "more given back than taken");
                *held = held.saturating_sub(*n);
            }
        }
        host.gpus.give(shape.gpu, gpus);
        self.reorder(id);
        self.freed.insert(id);
    }

    /// A bundle that lies there has more to give.
    pub fn has_more(&mut self, id: HostId) {
        if self.hosts.contains_key(&id) {
            self.freed.insert(id);
        }
    }

    /// The CPUs of a worker that waits are free meanwhile.
    pub fn lend_cpu(&mut self, id: HostId, cpu: u64) {
        let Some(host) = self.hosts.get_mut(&id) else { return };
        if let Some(held) = host.held.get_mut(CPU.0 as usize) {
            debug_assert!(*held >= cpu, "more lent than taken");
            *held = held.saturating_sub(cpu);
        }
        self.reorder(id);
        self.freed.insert(id);
    }

    /// It goes on, whether or not its CPUs are still free: until others end, more is held than there is.
    pub fn reclaim_cpu(&mut self, id: HostId, cpu: u64) {
        let Some(host) = self.hosts.get_mut(&id) else { return };
        if let Some(held) = host.held.get_mut(CPU.0 as usize) {
            *held += cpu;
        }
        self.reorder(id);
    }

    fn is_plain(&self, id: HostId) -> bool {
        self.hosts.get(&id).is_some_and(|host| host.has(GPU) == 0)
    }

    fn order(&mut self, host: &Host) -> &mut BTreeSet<(u64, HostId)> {
        if host.has(GPU) == 0 { &mut self.plain } else { &mut self.with_gpu }
    }

    fn reorder(&mut self, id: HostId) {
        let Some(host) = self.hosts.get_mut(&id) else { return };
        let before = host.load;
        host.update_load();
        let after = host.load;
        if host.held(CPU) < host.has(CPU) {
            self.roomy.insert(id);
        } else {
            self.roomy.remove(&id);
        }
        if before != after {
            let order = if host.has(GPU) == 0 { &mut self.plain } else { &mut self.with_gpu };
            order.remove(&(before, id));
            order.insert((after, id));
        }
    }
}

impl Host {
    pub fn new(name: String, total: ResourceSet, labels: Vec<(String, String)>, store_capacity: u64) -> Self {
        Self {
            name,
            total,
            labels,
            store_capacity,
            store_used: 0,
            size: Vec::new(),
            held: Vec::new(),
            gpus: Gpus::default(),
            load: 0,
            weightless: 0,
            backoff: None,
            backoff_step: 0,
            kept: None,
            draining: None,
        }
    }
}
