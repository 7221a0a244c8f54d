//! How the cluster stands: its hosts, and how they ended; what waits, and for what; its drivers.

use serde::{Deserialize, Serialize};

use crate::ids::{GroupId, HostId, JobId};
use crate::placement::GroupStrategy;
use crate::resources::ResourceSet;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostInfo {
    pub host: HostId,
    pub alive: bool,
    pub name: String,
    pub total: ResourceSet,
    pub available: ResourceSet,
    pub labels: Vec<(String, String)>,
    /// Bytes of the object arena: all, and leased to heaps.
    pub store_capacity: u64,
    pub store_used: u64,
    pub workers: u32,
    /// Demands that wait: shape, number of tasks or actors.
    pub pending: Vec<(ResourceSet, u32)>,
    /// Bundles of placement groups that lie there.
    pub bundles: Vec<BundleInfo>,
    /// Why it is being drained, and for how many nanoseconds yet.
    pub draining: Option<(String, Option<u64>)>,
    /// Of one that does not live any more.
    pub end: Option<HostEnd>,
}

/// A bundle of a placement group on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BundleInfo {
    pub group: GroupId,
    pub job: JobId,
    pub index: u32,
    pub total: ResourceSet,
    pub available: ResourceSet,
    /// How many leases and actors are in it.
    pub users: u32,
}

/// How a host ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEnd {
    pub how: HostEnded,
    /// For people.
    pub why: String,
}

impl HostEnd {
    /// Nobody had asked for it.
    #[must_use]
    pub fn unexpected(why: impl Into<String>) -> Self {
        Self { how: HostEnded::Unexpected, why: why.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostEnded {
    /// It was told to end, and has said so.
    Expected,
    Unexpected,
    /// It was drained, and its time was up.
    Preempted,
    /// It was drained, and nothing kept it.
    Idle,
}

/// Tasks and actors of one kind that wait for a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub resources: ResourceSet,
    pub tasks: u32,
    pub actors: u32,
    /// No host of the cluster could ever hold one.
    pub never: bool,
    pub why: String,
}

/// Placement groups of one kind that wait for a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingGroups {
    pub strategy: GroupStrategy,
    pub bundles: Vec<ResourceSet>,
    pub count: u32,
    pub never: bool,
    pub why: String,
}

/// A program of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverInfo {
    pub job: JobId,
    pub host: HostId,
    pub host_name: String,
    pub pid: u32,
}

/// All that is not about one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub waiting: Vec<Waiting>,
    pub groups: Vec<WaitingGroups>,
    pub drivers: Vec<DriverInfo>,
}
