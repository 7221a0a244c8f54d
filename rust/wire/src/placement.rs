//! Where tasks and actors may run, and placement groups: what is asked for, and what has been decided.
//!
//! - [`Wish`]: what a task or actor wants beyond its resources: a strategy, and labels of hosts.
//! - [`GroupSpec`]: a placement group as it was asked for. [`GroupRecord`]: and what has become of it. All
//!   that the controller has to remember of a group is in its record.

use serde::{Deserialize, Serialize};

use crate::ids::{ActorId, GroupId, HostId, JobId};
use crate::resources::ResourceSet;

/// The label of each host whose value is its number: what users see there is made of that.
pub const NODE_ID_LABEL: &str = "ray.io/node-id";

/// Where a task or actor wants to run. Demands with different wishes are of different classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wish {
    pub strategy: Strategy,
    /// Which hosts will do: the first of these that any host can satisfy counts. None: all hosts.
    pub selectors: Vec<Selector>,
}

impl Wish {
    /// The bundle that it is to run in, if any.
    #[must_use]
    pub const fn group(&self) -> Option<InGroup> {
        match self.strategy {
            Strategy::Group(group) => Some(group),
            _ => None,
        }
    }
}

/// How a host is picked among those that will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Strategy {
    /// Ray's hybrid: near the caller and packed, until hosts are half full.
    #[default]
    Default,
    /// One host after the other.
    Spread,
    Host(Affinity),
    /// Hosts that satisfy `hard`; of those rather one that satisfies `soft`.
    Labels {
        hard: Selector,
        soft: Selector,
    },
    Group(InGroup),
}

/// A particular host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Affinity {
    /// None: a host that was never part of this cluster.
    pub host: Option<HostId>,
    /// Another one will do if it is gone, or could never hold it.
    pub soft: bool,
    /// Another one will do also if it is full now.
    pub spill: bool,
    /// Fails if the host is full now.
    pub fail: bool,
}

/// A place in a placement group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InGroup {
    pub group: GroupId,
    /// None: any bundle.
    pub index: Option<u32>,
    /// What runs there submits its own tasks and actors to the group, too.
    pub capture: bool,
}

/// Conditions on a host's labels, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Selector(pub Vec<LabelRule>);

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LabelRule {
    pub key: String,
    pub is: LabelIs,
}

/// What a label has to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LabelIs {
    In(Vec<String>),
    /// Also where there is no such label.
    NotIn(Vec<String>),
    Present,
    Absent,
}

impl Selector {
    /// Whether a host with these labels will do.
    #[must_use]
    pub fn matches(&self, labels: &[(String, String)]) -> bool {
        self.0.iter().all(|rule| {
            let value = labels.iter().find(|(key, _)| *key == rule.key).map(|(_, value)| value);
            match &rule.is {
                LabelIs::In(values) => value.is_some_and(|value| values.contains(value)),
                LabelIs::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                LabelIs::Present => value.is_some(),
                LabelIs::Absent => value.is_none(),
            }
        })
    }
}

/// How the bundles of a group lie on hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupStrategy {
    /// On few.
    #[default]
    Pack,
    /// On many.
    Spread,
    /// On one.
    StrictPack,
    /// Each on another.
    StrictSpread,
}

/// One bundle: what it reserves, and on which hosts it may lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleSpec {
    pub resources: ResourceSet,
    pub selector: Selector,
}

/// A placement group as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    pub group: GroupId,
    pub job: JobId,
    /// Empty: no name.
    pub name: String,
    pub namespace: String,
    /// It outlives its job.
    pub detached: bool,
    pub strategy: GroupStrategy,
    pub bundles: Vec<BundleSpec>,
    /// Rather there, if the strategy is [`GroupStrategy::StrictPack`].
    pub near: Option<HostId>,
    /// All bundles lie on hosts with the same value of this label. Empty: no such wish.
    pub same: String,
}

/// All that is to be remembered of a placement group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    pub spec: GroupSpec,
    pub state: GroupState,
    /// Where each bundle lies.
    pub hosts: Vec<Option<HostId>>,
    /// It was created by this detached actor, and ends with it instead of with its job.
    pub keeper: Option<ActorId>,
    /// How long it took until all bundles lay somewhere, in nanoseconds, and how often that was tried.
    pub took: u64,
    pub attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupState {
    /// No bundle lies anywhere yet.
    Pending,
    Created,
    /// Some bundles were lost with their hosts.
    Rescheduling,
    Removed,
}
