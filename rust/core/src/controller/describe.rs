//! Questions about the cluster: actors by name, watchers, hosts and what waits.

use std::collections::BTreeMap;

use raymesh_wire::control::{ActorInfo, ActorNotFound, ActorState, BundleInfo, HostInfo};
use raymesh_wire::placement::NODE_ID_LABEL;
use raymesh_wire::{ActorId, ErrorKind, ErrorValue, FromController, HostId, JobId, ProcId, ResourceSet};

use super::bundles::Bundle;
use super::hosts::Host;
use super::queue::Waiter;
use super::{Controller, Effects, send};

impl Controller {
    pub(super) fn watch_actor(&mut self, from: ProcId, id: ActorId, effects: &mut Effects) {
        let state = if let Some(actor) = self.actors.get_mut(id) {
            actor.watchers.insert(from);
            if let Some(proc) = self.procs.get_mut(from) {
                proc.watched_actors.insert(id);
            }
            actor.state()
        } else if let Some(info) = self.actors.dead_info(id) {
            info.state.clone()
        } else if self.may_yet_be_created(id) {
            self.actors.early(id).watchers.insert(from);
            if let Some(proc) = self.procs.get_mut(from) {
                proc.watched_actors.insert(id);
            }
            return;
        } else {
            unknown()
        };
        send(effects, from, FromController::ActorState { actor: id, state });
    }

    pub(super) fn unwatch_actor(&mut self, from: ProcId, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(id) {
            actor.watchers.remove(&from);
        } else if self.may_yet_be_created(id) {
            self.actors.early(id).watchers.remove(&from);
        }
        if let Some(proc) = self.procs.get_mut(from) {
            proc.watched_actors.remove(&id);
        }
    }

    /// Whether the word of its creator may still be on its way.
    pub(super) fn may_yet_be_created(&self, id: ActorId) -> bool {
        let created = self.procs.get(id.creator).is_some_and(|creator| creator.created.contains(id.seq));
        !created && self.procs.death(id.creator).is_none()
    }

    /// Its creator gave it up before it was created: whoever heard of it is told.
    pub(super) fn never_create(&mut self, id: ActorId, error: ErrorValue, effects: &mut Effects) {
        if let Some(creator) = self.procs.get_mut(id.creator) {
            creator.created.insert(id.seq);
        }
        let early = self.actors.take_early(id).unwrap_or_default();
        for watcher in early.watchers {
            if let Some(proc) = self.procs.get_mut(watcher) {
                proc.watched_actors.remove(&id);
                let state = ActorState::Dead { error: error.clone() };
                send(effects, watcher, FromController::ActorState { actor: id, state });
            }
        }
        self.actors.bury(ActorInfo {
            actor: id,
            name: String::new(),
            namespace: String::new(),
            class_name: String::new(),
            state: ActorState::Dead { error },
            restarts: 0,
            pid: 0,
            handle: bytes::Bytes::new(),
        });
    }

    /// A creator has died: what others heard of but it never created is dead.
    pub(super) fn never_created(&mut self, creator: ProcId, effects: &mut Effects) {
        for id in self.actors.early_of(creator) {
            let error =
                ErrorValue::text(ErrorKind::ActorDied, "The process that was to create the actor died.");
            self.never_create(id, error, effects);
        }
    }

    /// The living actor of that name. `from` holds a handle from now on, and its creator is told so.
    pub(super) fn find_actor(
        &mut self,
        from: ProcId,
        name: &str,
        namespace: &str,
        effects: &mut Effects,
    ) -> Result<ActorInfo, ActorNotFound> {
        let found = self.names.get(name, namespace).and_then(|id| self.actors.get_mut(id));
        let Some(actor) = found else {
            return Err(ActorNotFound { elsewhere: self.names.namespaces(name) });
        };
        actor.given = actor.given.wrapping_add(1);
        let id = actor.spec.actor;
        if from != id.creator {
            send(effects, id.creator, FromController::HandleGiven { actor: id, to: from });
        }
        Ok(actor.info(actor.state()))
    }

    pub(super) fn list_actors(&self) -> Vec<ActorInfo> {
        let known = |actor: &super::actors::Actor| {
            let mut info = actor.info(actor.state());
            // One that was killed gives up its name before its worker has ended: nobody finds it by that.
            if self.names.get(&info.name, &info.namespace) != Some(info.actor) {
                info.name.clear();
            }
            info
        };
        let living = self.actors.living().map(known);
        living.chain(self.actors.dead().cloned()).collect()
    }

    pub(super) fn describe(&mut self) -> Vec<HostInfo> {
        let mut pending = self.pending();
        let Self { hosts, shapes, procs, lost, bundles, groups, now, .. } = self;
        let now = *now;
        let mut of_groups = |host| -> Vec<BundleInfo> {
            let lying = bundles.on_host(host).filter(|(_, bundle)| !bundle.ended);
            let info = |(_, bundle): (_, &Bundle)| BundleInfo {
                group: bundle.group,
                job: groups.get(bundle.group).map_or(JobId::default(), |group| group.record.spec.job),
                index: bundle.index,
                total: bundle.shape.set.clone(),
                available: bundle.available(shapes),
                users: bundle.users,
            };
            lying.map(info).collect()
        };
        let mut bundles: BTreeMap<HostId, Vec<BundleInfo>> =
            hosts.iter().map(|(id, _)| (id, of_groups(id))).collect();
        let living = hosts.iter().filter(|(_, host)| host.takes_work()).map(|(id, host)| HostInfo {
            host: id,
            alive: true,
            name: host.name.clone(),
            total: host.total.clone(),
            available: host.available(shapes),
            labels: host.labels.iter().filter(|(key, _)| key != NODE_ID_LABEL).cloned().collect(),
            store_capacity: host.store_capacity,
            store_used: host.store_used,
            workers: procs.workers_on(id),
            pending: pending.remove(&id).unwrap_or_default(),
            bundles: bundles.remove(&id).unwrap_or_default(),
            draining: host
                .draining
                .as_ref()
                .map(|drain| (drain.reason.clone(), drain.deadline.map(|at| at.saturating_sub(now)))),
            end: None,
        });
        let mut all: Vec<_> = living.collect();
        all.extend(lost.iter().map(|(host, name, end)| HostInfo {
            host: *host,
            alive: false,
            name: name.clone(),
            total: ResourceSet::new(),
            available: ResourceSet::new(),
            labels: Vec::new(),
            store_capacity: 0,
            store_used: 0,
            workers: 0,
            pending: Vec::new(),
            bundles: Vec::new(),
            draining: None,
            end: Some(end.clone()),
        }));
        all
    }

    /// What waits, listed with the host of who wants it (with the first if that is gone, or takes no work itself).
    fn pending(&self) -> BTreeMap<HostId, Vec<(ResourceSet, u32)>> {
        let takes_work = |host: &HostId| self.hosts.get(*host).is_some_and(Host::takes_work);
        let Some(first) = self.hosts.iter().map(|(host, _)| host).find(takes_work) else {
            return BTreeMap::new();
        };
        let mut counts: BTreeMap<HostId, BTreeMap<&ResourceSet, u32>> = BTreeMap::new();
        for class in self.queue.classes() {
            let class = self.queue.get(class);
            let set = &self.shapes.get(class.need).set;
            for (_, waiter) in &class.waiting {
                let (host, count) = match waiter {
                    Waiter::Actor(actor) => (actor.creator.host(), 1),
                    Waiter::Task(caller, key) => {
                        let demand = self.procs.get(*caller).and_then(|proc| proc.demands.get(key));
                        (caller.host(), demand.map_or(0, |demand| demand.unserved))
                    }
                };
                let host = if takes_work(&host) { host } else { first };
                *counts.entry(host).or_default().entry(set).or_default() += count;
            }
        }
        counts
            .into_iter()
            .map(|(host, counts)| (host, counts.into_iter().map(|(set, n)| (set.clone(), n)).collect()))
            .collect()
    }
}

fn unknown() -> ActorState {
    let text = "The actor died long ago, or was never created.";
    ActorState::Dead { error: ErrorValue::text(ErrorKind::ActorDied, text) }
}
