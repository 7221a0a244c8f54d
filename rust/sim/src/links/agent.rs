//! What an agent knows of other hosts, and what it keeps for those of which it has not heard.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_core::between::{Barriers, Line, News};
use raymesh_wire::HostId;

use super::{Links, Mail, Parcel};
use crate::world::World;

/// A host's agent, so far as it deals with others.
#[derive(Debug)]
pub struct Agent {
    pub(super) barriers: Barriers<Mail>,
    pub(super) news: News<Mail>,
    /// Who is the head, so far as it knows.
    pub head: HostId,
    /// To the controller, and from it.
    pub line: Line<Mail>,
    /// Hosts that it has heard of.
    pub known: BTreeSet<HostId>,
    /// Of those with smaller numbers, it knows all that live.
    pub horizon: HostId,
    /// For hosts that it will hear of, and from such.
    pub(super) early: BTreeMap<HostId, Vec<Parcel>>,
    pub(super) early_in: BTreeMap<HostId, Vec<Parcel>>,
    /// Hosts that are dead in its eyes.
    pub(super) buried: BTreeSet<HostId>,
    /// Those of which it has told the head, and whether they have ended.
    pub unreachable: BTreeMap<HostId, bool>,
}

impl Agent {
    /// Hosts that it may have something for, or from.
    pub fn all_heard_of(&self) -> impl Iterator<Item = HostId> {
        let early = self.early.keys().chain(self.early_in.keys()).filter(|host| **host < self.horizon);
        self.known.iter().chain(early).copied().filter(|host| !self.buried.contains(host))
    }
}

impl Links {
    /// A host is there, and knows of all others that are.
    pub fn joined(&mut self, host: HostId, known: BTreeSet<HostId>) {
        let agent = Agent {
            barriers: Barriers::default(),
            news: News::default(),
            head: self.head,
            line: Line::default(),
            known,
            horizon: host,
            early: BTreeMap::new(),
            early_in: BTreeMap::new(),
            buried: BTreeSet::new(),
            unreachable: BTreeMap::new(),
        };
        self.agents.insert(host, agent);
    }

    /// Whether `other` is dead in the eyes of `host`.
    #[must_use]
    pub fn has_buried(&self, host: HostId, other: HostId) -> bool {
        self.agents.get(&host).is_some_and(|agent| {
            let unknown = !agent.known.contains(&other) && other < agent.horizon;
            agent.buried.contains(&other) || unknown
        })
    }

    /// Whether `host` has not heard of `other` yet.
    pub(super) fn is_early(&self, host: HostId, other: HostId) -> bool {
        self.agents.get(&host).is_some_and(|agent| host != other && !agent.known.contains(&other))
    }
}

impl World {
    /// `here` hears of a host.
    pub fn know(&mut self, here: HostId, host: HostId) {
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        if agent.buried.contains(&host) || !agent.known.insert(host) {
            return;
        }
        let (out, arrived) = (agent.early.remove(&host), agent.early_in.remove(&host));
        for parcel in out.into_iter().flatten() {
            self.put_on_link(here, host, parcel);
        }
        for parcel in arrived.into_iter().flatten() {
            self.take_in(host, here, parcel);
        }
    }

    pub fn bury(&mut self, here: HostId, dead: HostId) {
        let Some(agent) = self.links.agents.get_mut(&here) else { return };
        if here == dead || !agent.buried.insert(dead) {
            return;
        }
        agent.early.remove(&dead);
        agent.early_in.remove(&dead);
        let (news, words) = (agent.news.gone(dead), agent.barriers.gone(dead));
        self.let_go_on(here, news, words);
    }

    /// Whether the bytes that lie on `home` can be had on `host`.
    #[must_use]
    pub fn is_out_of_reach(&self, host: HostId, home: HostId) -> bool {
        self.links.played && self.links.has_buried(host, home)
    }
}
