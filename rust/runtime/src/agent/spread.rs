//! Who gets a large block of this host from where, so that it need not leave here for each of many hosts.
//! Pure.
//!
//! A tree grows while the block spreads: whoever gets a copy passes on what has arrived to at most
//! [`BRANCHES`] others at a time. This host is the root, and the one who knows the tree.

use std::collections::BTreeMap;

use raymesh_wire::{HostId, Place};

/// Hosts that get a block from the same host at the same time.
pub const BRANCHES: usize = 2;
/// Smaller blocks everybody gets from here.
pub const WORTH_IT: u64 = 4 << 20;

/// See the module.
#[derive(Debug)]
pub struct Spread {
    me: HostId,
    trees: BTreeMap<Place, BTreeMap<HostId, Node>>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// From whom it gets the block.
    parent: HostId,
    /// It has all of it.
    whole: bool,
}

impl Spread {
    pub const fn new(me: HostId) -> Self {
        Self { me, trees: BTreeMap::new() }
    }

    /// From whom the host is to get the block. `avoid` has none after all.
    pub fn source(&mut self, place: Place, asker: HostId, avoid: Option<HostId>) -> HostId {
        let me = self.me;
        let tree = self.trees.entry(place).or_default();
        if let Some(avoid) = avoid {
            tree.remove(&avoid);
        }
        let rank = |host: HostId| {
            let children =
                tree.iter().filter(|(child, node)| node.parent == host && !node.whole && **child != asker);
            (children.count() / BRANCHES, depth(tree, me, host), host)
        };
        let hosts = tree.keys().copied().filter(|host| !comes_from(tree, *host, asker));
        let parent = std::iter::once(me).chain(hosts).min_by_key(|host| rank(*host)).unwrap_or(me);
        tree.insert(asker, Node { parent, whole: false });
        parent
    }

    /// The host has all of it.
    pub fn copied(&mut self, place: &Place, host: HostId) {
        if let Some(node) = self.trees.get_mut(place).and_then(|tree| tree.get_mut(&host)) {
            node.whole = true;
        }
    }

    /// The host has nothing of it any more.
    pub fn dropped(&mut self, place: &Place, host: HostId) {
        if let Some(tree) = self.trees.get_mut(place) {
            tree.remove(&host);
            if tree.is_empty() {
                self.trees.remove(place);
            }
        }
    }

    /// The host is dead. Those that were getting something from it ask again.
    pub fn host_gone(&mut self, host: HostId) {
        self.trees.retain(|_, tree| {
            tree.remove(&host);
            !tree.is_empty()
        });
    }
}

/// How many hosts are between this one and the root.
fn depth(tree: &BTreeMap<HostId, Node>, me: HostId, host: HostId) -> usize {
    path(tree, host).take_while(|parent| *parent != me).count() + usize::from(host != me)
}

/// Whether what `host` has comes by way of `other`.
fn comes_from(tree: &BTreeMap<HostId, Node>, host: HostId, other: HostId) -> bool {
    host == other || path(tree, host).any(|parent| parent == other)
}

/// From whom the host gets it, from whom that one does, and so on.
fn path(tree: &BTreeMap<HostId, Node>, host: HostId) -> impl Iterator<Item = HostId> + '_ {
    let parent = |host: &HostId| tree.get(host).map(|node| node.parent);
    std::iter::successors(parent(&host), parent).take(tree.len())
}

#[cfg(test)]
mod tests;
