//! Links between hosts, and the agents' part in the order of what goes over them.
//!
//! A process writes into the mailbox of its receiver, first in, first out; what is for another host goes
//! into its agent's, which puts it on the link to that host. A link keeps its order, whatever happens to it:
//! it may be slow, or cut (one way or both) for some time, and resends then. Two links know nothing of each
//! other. So here nothing but the agents' barriers and news (`raymesh_core::between`) keeps what goes over
//! two links in order.
//!
//! What a host has for the controller, and the controller for it, goes on a line above the link ([`crate::lines`]), since
//! the head may be lost and come back as another host ([`crate::head`]).
//!
//! Silence over a limit ends in a death that the head declares: of the later of two hosts that cannot hear
//! each other, or of the one that the head does not hear. Who is declared dead goes on until he learns of it
//! (a *zombie*), and comes back under another number, if at all. A host that crashes takes along
//! what its agent has not read, and the end of what is on the wire.
//!
//! - [`parcel`]: what goes over a link. [`delivery`]: its way, and when it arrives.
//! - [`agent`]: what an agent knows of other hosts. [`order`]: how it keeps what goes over two links in order.
//! - [`deaths`]: how hosts end.
//! - [`storm`]: what happens to links, and when.

pub mod agent;
pub mod deaths;
pub mod delivery;
pub mod order;
pub mod parcel;
pub mod storm;

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::HostId;

use crate::head::Head;
use crate::mutation::Mutation;
use crate::world::{MILLI, Node, World};

pub use agent::Agent;
pub use parcel::{Mail, Parcel};

/// The head of a new cluster.
pub const FIRST: HostId = HostId(0);
/// Silence of so long is taken for death.
pub const LIMIT: u64 = 50 * MILLI;

/// What happens to links, and to the head.
#[derive(Clone, Debug)]
pub enum Wire {
    /// A process has mail for another host; its agent reads that now.
    Outgoing(Mail),
    Arrives {
        from: HostId,
        to: HostId,
        parcel: Parcel,
    },
    /// Nothing was heard for too long, or the system of the other said that nobody is there.
    Silent {
        by: HostId,
        of: HostId,
        ended: bool,
    },
    /// It learns that it was declared dead.
    Fenced(HostId),
    /// Two hosts cannot hear each other, or one the other, for a while.
    Cut,
    /// Another host wants to join.
    Join,
    /// The head has written what there was to write.
    Written(HostId),
    /// The head is lost.
    HeadLost,
    /// Another one goes on from its journal.
    HeadReturns,
    /// The host has dialed the head under its old number, and learns who it is now.
    Moved {
        host: HostId,
        to: HostId,
    },
    /// The host should have come to the new head by now.
    Late {
        host: HostId,
        to: HostId,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Links {
    /// Whether they are played: else packets go any way they like, within the promises of `crate`.
    pub played: bool,
    /// Where the controller is, or was last.
    pub head: HostId,
    /// What that has beside it, while there is a head.
    pub headship: Option<Head>,
    /// While there is none: what it had written.
    pub lost: Option<Head>,
    pub agents: BTreeMap<HostId, Agent>,
    /// When the last mail of a mailbox is read.
    mailboxes: BTreeMap<Node, u64>,
    /// When the last parcel of a link arrives, and when the sender knows that.
    last: BTreeMap<(HostId, HostId), (u64, u64)>,
    cut_until: BTreeMap<(HostId, HostId), u64>,
    /// Nothing arrives from a crashed host after this.
    ends: BTreeMap<(HostId, HostId), u64>,
    /// Links that are slow all the time.
    slow: BTreeMap<(HostId, HostId), bool>,
    pub zombies: BTreeSet<HostId>,
    pub mutation: Option<Mutation>,
}

impl Links {
    #[must_use]
    pub fn new(played: bool, mutation: Option<Mutation>) -> Self {
        Self {
            played,
            head: FIRST,
            headship: None,
            lost: None,
            agents: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            last: BTreeMap::new(),
            cut_until: BTreeMap::new(),
            ends: BTreeMap::new(),
            slow: BTreeMap::new(),
            zombies: BTreeSet::new(),
            mutation,
        }
    }

    /// It was declared dead, and does not know that yet: what it does concerns nobody.
    #[must_use]
    pub fn is_zombie(&self, host: HostId) -> bool {
        self.zombies.contains(&host)
    }
}

impl World {
    #[must_use]
    pub fn is_mutated(&self, mutation: Mutation) -> bool {
        self.links.mutation == Some(mutation)
    }

    pub fn wire(&mut self, wire: Wire) {
        match wire {
            Wire::Outgoing(mail) => self.outgoing(mail),
            Wire::Arrives { from, to, parcel } => self.parcel_arrives(from, to, parcel),
            Wire::Silent { by, of, ended } => self.silent(by, of, ended),
            Wire::Fenced(host) => self.fenced(host),
            Wire::Cut => self.cut(),
            Wire::Join => self.ask_to_join(),
            Wire::Written(head) => self.written(head),
            Wire::HeadLost => self.lose_head(),
            Wire::HeadReturns => self.head_returns(),
            Wire::Moved { host, to } => self.head_moved(host, to),
            Wire::Late { host, to } => self.late(host, to),
        }
    }
}
