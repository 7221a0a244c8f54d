//! Whether the books are right: for simulations and tests, not for the hot path.

use std::collections::BTreeMap;

use raymesh_wire::{HostId, ProcId};

use super::Controller;
use super::holds::For;
use super::queue::Waiter;
use super::shapes::{CPU, ResId};

impl Controller {
    /// Compares what is recorded in several places.
    ///
    /// # Errors
    /// What does not agree, in words.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_resources()?;
        self.audit_leases()?;
        self.audit_queue()?;
        self.audit_groups()?;
        self.audit_keeping()?;
        self.audit_actors()
    }

    /// Whether more CPU is held of `host` than it has: allowed only after a blocked worker went on.
    #[must_use]
    pub fn owes_cpu(&self, host: HostId) -> bool {
        self.hosts.get(host).is_some_and(|host| host.held(CPU) > host.has(CPU))
    }

    /// What is left once nothing is wanted: leases and starts, demands, living actors.
    #[must_use]
    pub fn remains(&self) -> (usize, usize, usize) {
        let waiting: usize = self.queue.classes().map(|class| self.queue.get(class).waiting.len()).sum();
        (self.holds.iter().count(), waiting, self.actors.living().count())
    }

    /// Functions and classes: how many are kept, and how many are waited for.
    #[must_use]
    pub fn definitions(&self) -> (usize, usize) {
        self.functions.count()
    }

    fn audit_resources(&self) -> Result<(), String> {
        let mut held: BTreeMap<(HostId, ResId), u64> = BTreeMap::new();
        let mut gpus: BTreeMap<(HostId, u32), u64> = BTreeMap::new();
        // What is held in a bundle is held of that; the bundle holds all of it of its host.
        let holds = self.holds.iter().map(|(_, hold)| hold).filter(|hold| hold.bundle.is_none());
        let holds = holds.map(|hold| (hold.host, self.shapes.get(hold.shape), &hold.gpus, hold.cpu_lent));
        let bundles = self.bundles.iter().map(|(_, it)| (it.host, &it.shape, &it.gpus, false));
        for (host, shape, indices, cpu_lent) in holds.chain(bundles) {
            for (id, n) in &shape.amounts {
                if !(cpu_lent && *id == CPU) {
                    *held.entry((host, *id)).or_default() += n;
                }
            }
            let whole = raymesh_wire::Quantity::SCALE;
            let mut left = shape.gpu;
            for gpu in indices {
                *gpus.entry((host, *gpu)).or_default() += left.min(whole);
                left -= left.min(whole);
            }
            if left > 0 {
                return Err(format!("{} of {host:?} has too few GPUs: {indices:?}", shape.set.get("GPU").0));
            }
        }
        if let Some(over) = gpus.iter().find(|(_, n)| **n > raymesh_wire::Quantity::SCALE) {
            return Err(format!("GPU used more than once: {over:?}"));
        }
        for (id, host) in self.hosts.iter() {
            for (res, has, counted) in host.books() {
                let real = held.get(&(id, res)).copied().unwrap_or(0);
                if real != counted {
                    return Err(format!("{id:?} {res:?}: {counted} booked as held, {real} held"));
                }
                if res != CPU && counted > has {
                    return Err(format!("{id:?} {res:?}: {counted} held of {has}"));
                }
            }
        }
        Ok(())
    }

    fn audit_leases(&self) -> Result<(), String> {
        for (lease, hold) in self.holds.iter() {
            if self.hosts.get(hold.host).is_none() {
                return Err(format!("{lease:?} held of a lost host"));
            }
            if let Some(worker) = hold.worker
                && self.procs.get(worker).is_none_or(|proc| proc.hold != Some(lease))
            {
                return Err(format!("{lease:?}: its worker {worker:?} is dead or does something else"));
            }
            match hold.whom {
                For::Task { caller, .. } => {
                    let known = self.procs.get(caller).is_some_and(|proc| proc.leases.contains(&lease));
                    if known == hold.ending {
                        return Err(format!("{lease:?} of {caller:?}, who does not know or is dead"));
                    }
                }
                For::Actor { actor } => {
                    let of_it =
                        |actor: &super::actors::Actor| [actor.start(), actor.next].contains(&Some(lease));
                    let known = self.actors.get(actor).is_some_and(of_it);
                    if !known && !hold.ending {
                        return Err(format!("{lease:?} of {actor:?}, which is not started by it"));
                    }
                }
            }
        }
        for (id, proc) in self.procs.iter() {
            let leases: u32 = proc.demands.values().map(|demand| demand.leases).sum();
            if leases as usize != proc.leases.len() {
                return Err(format!("{id:?} has {} leases, counted as {leases}", proc.leases.len()));
            }
            if let Some(lease) = proc.leases.iter().find(|lease| self.holds.get(**lease).is_none()) {
                return Err(format!("{id:?} has {lease:?}, which is over"));
            }
        }
        Ok(())
    }

    fn audit_queue(&self) -> Result<(), String> {
        for class in self.queue.classes() {
            for (turn, waiter) in &self.queue.get(class).waiting {
                let (of, at) = match waiter {
                    Waiter::Task(caller, key) => {
                        let demand = self.procs.get(*caller).and_then(|proc| proc.demands.get(key));
                        demand.filter(|d| d.unserved > 0).map(|d| (d.class, d.turn))
                    }
                    Waiter::Actor(actor) => self.actors.get(*actor).map(|actor| (actor.class, actor.turn)),
                }
                .ok_or_else(|| format!("{waiter:?} waits for nothing"))?;
                if of != class || at != Some(*turn) {
                    return Err(format!("{waiter:?} waits in two places"));
                }
            }
        }
        let lost = |(id, proc): (ProcId, &super::procs::Proc)| {
            let mut demands = proc.demands.iter();
            demands.find(|(_, d)| (d.unserved > 0) != d.turn.is_some()).map(|(key, _)| (id, *key))
        };
        match self.procs.iter().find_map(lost) {
            Some((id, key)) => Err(format!("{id:?} wants shape {key} and is not in the queue")),
            None => Ok(()),
        }
    }

    fn audit_actors(&self) -> Result<(), String> {
        for actor in self.actors.living() {
            let id = actor.spec.actor;
            let waits = actor.phase == super::actors::Phase::Waiting;
            if waits != actor.turn.is_some() {
                return Err(format!("{id:?} is {:?} and its turn {:?}", actor.phase, actor.turn));
            }
            if let Some(start) = actor.start()
                && self.holds.get(start).is_none()
            {
                return Err(format!("{id:?} is {:?} and holds nothing", actor.phase));
            }
        }
        match self.names.iter().find(|(_, id)| self.actors.get(*id).is_none()) {
            Some((name, id)) => Err(format!("{name:?} is taken by {id:?}, which is dead")),
            None => Ok(()),
        }
    }
}
