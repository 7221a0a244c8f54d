//! Which bundles of a placement group go to which hosts: all of them, or none. Decided on a copy of what is
//! free, so that nothing is taken before everything has a place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raymesh_wire::HostId;
use raymesh_wire::placement::GroupStrategy;

use super::gpus::Gpus;
use super::shapes::{ResId, Shape};

/// A host that bundles may be put on: what is left of it, and how good it is.
#[derive(Debug)]
pub(super) struct Room {
    pub host: HostId,
    pub gpus: Gpus,
    /// What is free of the resources that any bundle needs.
    pub free: BTreeMap<ResId, u64>,
    /// Which bundles its labels suit.
    pub suits: Vec<bool>,
    /// Bundles of the group that lie there, from before and since.
    pub bundles: u32,
}

impl Room {
    fn fits(&self, at: usize, shape: &Shape) -> bool {
        self.suits[at]
            && shape.amounts.iter().all(|(id, n)| self.free.get(id).is_some_and(|free| free >= n))
            && self.gpus.fits(shape.gpu)
    }

    fn take(&mut self, shape: &Shape) {
        for (id, n) in &shape.amounts {
            if let Some(free) = self.free.get_mut(id) {
                *free -= n;
            }
        }
        self.gpus.take(shape.gpu);
        self.bundles += 1;
    }

    /// How much is left, GPUs first.
    fn left(&self) -> (u64, u64) {
        let gpus = self.free.get(&super::shapes::GPU).copied().unwrap_or(0);
        (gpus, self.free.values().fold(0, |sum, free| sum.saturating_add(*free)))
    }
}

/// Bundles with a place: of each its number in the list, and its host.
pub(super) type Places = Vec<(usize, HostId)>;

/// Finds a place for each of `bundles`. `near`: rather there, if all go to one host.
pub(super) fn place(
    mut rooms: Vec<Room>,
    bundles: &[&Shape],
    strategy: GroupStrategy,
    near: Option<HostId>,
) -> Option<Places> {
    // Large ones first: small ones fit into what they leave.
    let mut order: Vec<usize> = (0..bundles.len()).collect();
    order.sort_by_key(|at| {
        let shape = bundles[*at];
        (std::cmp::Reverse((shape.gpu, shape.cpu, shape.amounts.len())), *at)
    });
    match strategy {
        GroupStrategy::StrictPack => strict_pack(&mut rooms, bundles, &order, near),
        GroupStrategy::Pack => pack(&mut rooms, bundles, order),
        GroupStrategy::Spread => spread(&mut rooms, bundles, &order),
        GroupStrategy::StrictSpread => strict_spread(&rooms, bundles, &order),
    }
}

/// All on one host: where bundles of the group lie already, where it was wished, or where least is left.
fn strict_pack(
    rooms: &mut [Room],
    bundles: &[&Shape],
    order: &[usize],
    near: Option<HostId>,
) -> Option<Places> {
    if let Some(only) = rooms.iter().position(|room| room.bundles > 0) {
        rooms.swap(0, only);
        return all_on(&mut rooms[0], bundles, order);
    }
    rooms.sort_by_key(|room| (Some(room.host) != near, room.left(), room.host));
    rooms.iter_mut().find_map(|room| all_on(room, bundles, order))
}

fn all_on(room: &mut Room, bundles: &[&Shape], order: &[usize]) -> Option<Places> {
    let mut places = Places::new();
    for at in order {
        if !room.fits(*at, bundles[*at]) {
            return None;
        }
        room.take(bundles[*at]);
        places.push((*at, room.host));
    }
    Some(places)
}

/// Host by host, each time the one that can hold most of what has no place yet.
fn pack(rooms: &mut [Room], bundles: &[&Shape], mut rest: Vec<usize>) -> Option<Places> {
    let mut places = Places::new();
    while !rest.is_empty() {
        let mut best: Option<(usize, Vec<usize>)> = None;
        rooms.sort_by_key(|room| (std::cmp::Reverse(room.bundles), room.left(), room.host));
        for (nth, room) in rooms.iter().enumerate() {
            let held = held_by(room, bundles, &rest);
            if best.as_ref().is_none_or(|(_, most)| held.len() > most.len()) {
                let all = held.len() == rest.len();
                best = Some((nth, held));
                if all {
                    break;
                }
            }
        }
        let (nth, held) = best.filter(|(_, held)| !held.is_empty())?;
        for at in &held {
            rooms[nth].take(bundles[*at]);
            places.push((*at, rooms[nth].host));
        }
        rest.retain(|at| !held.contains(at));
    }
    Some(places)
}

/// Which of `rest` the host could hold together, in that order.
fn held_by(room: &Room, bundles: &[&Shape], rest: &[usize]) -> Vec<usize> {
    let mut scratch = Room {
        host: room.host,
        gpus: room.gpus.clone(),
        free: room.free.clone(),
        suits: room.suits.clone(),
        bundles: room.bundles,
    };
    let mut held = Vec::new();
    for at in rest {
        if scratch.fits(*at, bundles[*at]) {
            scratch.take(bundles[*at]);
            held.push(*at);
        }
    }
    held
}

/// Each where the fewest of the group lie.
fn spread(rooms: &mut [Room], bundles: &[&Shape], order: &[usize]) -> Option<Places> {
    let mut places = Places::new();
    for at in order {
        let fitting = rooms.iter_mut().filter(|room| room.fits(*at, bundles[*at]));
        let best = fitting.min_by_key(|room| (room.bundles, std::cmp::Reverse(room.left()), room.host))?;
        best.take(bundles[*at]);
        places.push((*at, best.host));
    }
    Some(places)
}

/// Each on a host of its own: a matching. A bundle takes the first host that is left; only if none will do does it
/// push others on to their next choices.
fn strict_spread(rooms: &[Room], bundles: &[&Shape], order: &[usize]) -> Option<Places> {
    let mut free: BTreeSet<usize> = (0..rooms.len()).filter(|nth| rooms[*nth].bundles == 0).collect();
    if free.len() < order.len() {
        return None;
    }
    let mut holder = BTreeMap::new();
    let mut place = BTreeMap::new();
    for at in order {
        let left = free.iter().find(|nth| rooms[**nth].fits(*at, bundles[*at])).copied();
        let path = match left {
            Some(nth) => vec![(*at, nth)],
            None => push_on(*at, rooms, bundles, &holder, &free)?,
        };
        for (bundle, nth) in path {
            free.remove(&nth);
            holder.insert(nth, bundle);
            place.insert(bundle, nth);
        }
    }
    Some(place.into_iter().map(|(at, nth)| (at, rooms[nth].host)).collect())
}

/// Who moves where, so that `at` has a place: the shortest chain, each to where the next one was. Not by
/// recursion: a chain may be as long as there are hosts.
fn push_on(
    at: usize,
    rooms: &[Room],
    bundles: &[&Shape],
    holder: &BTreeMap<usize, usize>,
    free: &BTreeSet<usize>,
) -> Option<Vec<(usize, usize)>> {
    let mut unseen: Vec<usize> = holder.keys().chain(free).copied().collect();
    // Of each room that was reached: who would move there, and where that one is now.
    let mut reached: BTreeMap<usize, (usize, Option<usize>)> = BTreeMap::new();
    let mut movers = VecDeque::from([(at, None)]);
    while let Some((bundle, now_in)) = movers.pop_front() {
        let (next, rest) = unseen.into_iter().partition(|nth| rooms[*nth].fits(bundle, bundles[bundle]));
        unseen = rest;
        let next: Vec<usize> = next;
        for nth in next {
            reached.insert(nth, (bundle, now_in));
            if let Some(other) = holder.get(&nth) {
                movers.push_back((*other, Some(nth)));
                continue;
            }
            let mut path = Vec::new();
            let mut to = Some(nth);
            while let Some(room) = to {
                let (mover, left) = reached[&room];
                path.push((mover, room));
                to = left;
            }
            return Some(path);
        }
    }
    None
}
