//! How hosts end: by crashes, or because the head declares them dead.

use raymesh_wire::HostId;
use raymesh_wire::control::DeathCause;

use super::{LIMIT, Parcel, Wire};
use crate::world::{Happening, MICRO, MILLI, World};

impl World {
    pub(super) fn silent(&mut self, by: HostId, of: HostId, ended: bool) {
        if !self.hosts.contains_key(&by) || self.links.has_buried(by, of) {
            return;
        }
        let Some(agent) = self.links.agents.get_mut(&by) else { return };
        let head = agent.head;
        if by == head {
            self.declare_dead(of);
        } else if of != head && agent.known.contains(&of) {
            agent.unreachable.insert(of, ended);
            self.bury(by, of);
            self.put_on_link(by, head, Parcel::Unreachable { host: of, ended });
        }
    }

    /// The head decides.
    pub fn declare_dead(&mut self, host: HostId) {
        let head = self.links.head;
        let knows = self.links.headship.as_ref().is_some_and(|head| head.books.knows(host));
        if host == head || !knows || self.links.has_buried(head, host) {
            return;
        }
        self.bury(head, host);
        if self.hosts.contains_key(&host) {
            self.stats.hosts_lost += 1;
            self.stats.fenced += 1;
            self.links.zombies.insert(host);
            let at = self.now + self.rng.range(MICRO, LIMIT);
            self.at(at, Happening::Wire(Wire::Fenced(host)));
        }
        self.host_lost(host);
    }

    /// It ends, and may come back as another one.
    pub fn fenced(&mut self, host: HostId) {
        if !self.links.is_zombie(host) || !self.hosts.contains_key(&host) {
            return;
        }
        self.end_host(host);
        if self.rng.one_in(2) {
            self.ask_to_join();
        }
    }

    /// All of it is gone at once.
    pub fn end_host(&mut self, host: HostId) {
        self.hosts.remove(&host);
        for ((home, _), stored) in &mut self.blocks {
            stored.lost |= home.host() == host;
        }
        let procs: Vec<_> = self.procs.keys().copied().filter(|id| id.host() == host).collect();
        for id in procs {
            self.die(id, DeathCause::HostLost);
        }
    }

    /// A host crashes: others notice, some sooner than others. For a head they have patience.
    pub fn crash(&mut self, host: HostId) {
        self.end_host(host);
        for other in self.hosts.keys().copied().collect::<Vec<_>>() {
            let end = self.now + self.rng.range(0, 200 * MICRO);
            self.links.ends.insert((host, other), end);
            if host != self.links.head {
                let at = end + self.rng.range(MICRO, 30 * MILLI);
                self.at(at, Happening::Wire(Wire::Silent { by: other, of: host, ended: true }));
            }
        }
    }
}
