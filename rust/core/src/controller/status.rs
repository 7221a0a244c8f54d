//! How the cluster stands, for whoever asks: what waits and why, and whose programs there are.

use raymesh_wire::GroupId;
use raymesh_wire::status::{DriverInfo, Status, Waiting, WaitingGroups};

use super::Controller;
use super::queue::Waiter;

impl Controller {
    pub(super) fn status(&mut self) -> Status {
        Status { waiting: self.waiting_demands(), groups: self.waiting_groups(), drivers: self.drivers() }
    }

    /// One for each kind of demand, however many there are of it.
    fn waiting_demands(&mut self) -> Vec<Waiting> {
        let mut all = Vec::new();
        for class in self.queue.classes() {
            let state = self.queue.get(class);
            let (mut tasks, mut actors) = (0, 0);
            for (_, waiter) in &state.waiting {
                match waiter {
                    Waiter::Actor(_) => actors += 1,
                    Waiter::Task(caller, key) => {
                        let demand = self.procs.get(*caller).and_then(|proc| proc.demands.get(key));
                        tasks += demand.map_or(0, |demand| demand.unserved);
                    }
                }
            }
            if tasks + actors > 0 {
                let (resources, never) = (self.shapes.get(state.need).set.clone(), state.feasible == 0);
                let why = self.reason(class);
                all.push(Waiting { resources, tasks, actors, never, why });
            }
        }
        all
    }

    /// One for each kind of group.
    fn waiting_groups(&mut self) -> Vec<WaitingGroups> {
        let kinds: Vec<(GroupId, u32)> = self.groups.waiting_kinds().collect();
        let mut all = Vec::new();
        for (first, count) in kinds {
            let Some((never, why)) = self.why_group_waits(first) else { continue };
            let Some(group) = self.groups.get(first) else { continue };
            let spec = &group.record.spec;
            let bundles = spec.bundles.iter().map(|bundle| bundle.resources.clone()).collect();
            all.push(WaitingGroups { strategy: spec.strategy, bundles, count, never, why });
        }
        all
    }

    fn drivers(&self) -> Vec<DriverInfo> {
        let drivers = self.procs.iter().filter(|(_, proc)| proc.driver);
        let info = |(id, proc): (raymesh_wire::ProcId, &super::procs::Proc)| DriverInfo {
            // A job is called after its driver's host.
            job: proc.job.unwrap_or(raymesh_wire::JobId(id.host().0)),
            host: id.host(),
            host_name: self.hosts.get(id.host()).map_or_else(String::new, |host| host.name.clone()),
            pid: proc.pid,
        };
        drivers.map(info).collect()
    }
}
