//! Copies of other hosts' blocks: one for all processes of this host.
//!
//! A copy comes when the first process asks for it, or when somebody announces that one will. Who asks
//! meanwhile shares it. It stays while a process uses it, and for a while after: the next task often
//! reads the same. When memory is wanted, copies that nobody uses go first. A dead process's uses end.
//!
//! Copies lie in a heap of the agent's own. Nobody's pull overfills the store: those that find no room
//! wait, for as long as memory goes on becoming free; those that were only announced do not even wait.
//!
//! How the bytes come is [`super::pulls`].

use std::collections::{BTreeMap, BTreeSet};

use raymesh_core::controller;
use raymesh_shm::{Allocation, Heap};
use raymesh_wire::control::{FromAgent, HeapFull, NoCopy};
use raymesh_wire::{Block, HostId, Message, Place, ProcId, RequestId, ToController, encode};

use super::bulk::Arrival;
use super::run::{Runner, Todo};

/// A copy that nobody uses is kept for so long.
const KEEP: u64 = 3_000_000_000;
/// A copy of this size takes the room of those that nobody uses.
const LARGE: u64 = 16 << 20;
/// A pull that finds no room fails when so long nothing became free.
const PATIENCE: u64 = 5_000_000_000;
/// Small copies share an extent.
const MIN_EXTENT: u64 = 4 << 20;

#[derive(Debug)]
pub struct Copy {
    /// Names its transfer.
    pub request: RequestId,
    pub state: State,
    /// Processes that wait for it, and the numbers of their questions.
    waiting: Vec<(ProcId, RequestId)>,
    users: BTreeSet<ProcId>,
    /// Since when nobody uses it.
    idle_since: Option<u64>,
}

impl Copy {
    fn is_wanted(&self) -> bool {
        !self.waiting.is_empty() || !self.users.is_empty()
    }
}

#[derive(Debug)]
pub enum State {
    /// There is no room yet. The time of the last hope.
    Waiting {
        since: u64,
    },
    Coming {
        into: Block,
        from: Source,
    },
    Here {
        into: Block,
    },
}

/// Where a copy comes from.
#[derive(Debug)]
pub enum Source {
    Host(HostId),
    /// Its home is gone. These have not said yet whether they have a copy.
    Sought(BTreeSet<HostId>),
}

/// See the module.
#[derive(Debug)]
pub struct Copies {
    pub(super) table: BTreeMap<Place, Copy>,
    pub(super) by_request: BTreeMap<RequestId, Place>,
    heap: Heap,
    /// Memory of copies that are given up, which lanes may still be at.
    doomed: Vec<Block>,
    next: u64,
    /// Room is being looked for.
    admitting: bool,
}

impl Copies {
    pub fn new(me: ProcId) -> Self {
        Self {
            table: BTreeMap::new(),
            by_request: BTreeMap::new(),
            heap: Heap::new(me),
            doomed: Vec::new(),
            next: 0,
            admitting: false,
        }
    }

    pub fn next_request(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    fn enter(&mut self, place: Place, now: u64) -> &mut Copy {
        if !self.table.contains_key(&place) {
            let request = self.next_request();
            self.by_request.insert(request, place);
            let state = State::Waiting { since: now };
            let (waiting, users) = (Vec::new(), BTreeSet::new());
            self.table.insert(place, Copy { request, state, waiting, users, idle_since: None });
        }
        self.table.entry(place).or_insert_with(|| unreachable!("it was just put there"))
    }

    /// The copy of a request that is on its way.
    pub fn coming(&mut self, request: RequestId) -> Option<(Place, &mut Copy)> {
        let place = *self.by_request.get(&request)?;
        let copy = self.table.get_mut(&place)?;
        matches!(copy.state, State::Coming { .. }).then_some((place, copy))
    }

    fn idle(&self) -> Vec<(u64, Place)> {
        let idle = |(place, copy): (&Place, &Copy)| {
            matches!(copy.state, State::Here { .. }).then_some((copy.idle_since?, *place))
        };
        let mut idle: Vec<_> = self.table.iter().filter_map(idle).collect();
        idle.sort_unstable();
        idle
    }

    /// When something is due.
    pub fn next_deadline(&self) -> Option<u64> {
        let due = |copy: &Copy| match copy.state {
            State::Waiting { since } => Some(since + PATIENCE),
            State::Here { .. } => copy.idle_since.map(|since| since + KEEP),
            State::Coming { .. } => None,
        };
        self.table.values().filter_map(due).min()
    }
}

impl Runner {
    /// A process wants to read.
    pub(super) fn pull(&mut self, whom: ProcId, request: RequestId, place: Place) {
        let now = self.clock.now();
        if place.block.host() == self.segment.host() {
            return self.say_pulled(whom, request, Ok(place.block));
        }
        let copy = self.copies.enter(place, now);
        copy.idle_since = None;
        if let State::Here { into } = copy.state {
            copy.users.insert(whom);
            return self.say_pulled(whom, request, Ok(into));
        }
        copy.waiting.push((whom, request));
        self.admit(now);
    }

    /// Somebody here will want to read these soon.
    pub(super) fn prefetch(&mut self, places: Vec<Place>) {
        let now = self.clock.now();
        for place in places {
            if place.block.host() != self.segment.host() && !self.stopping {
                let copy = self.copies.enter(place, now);
                if !copy.is_wanted() {
                    copy.idle_since = Some(now);
                }
            }
        }
        self.admit(now);
    }

    fn say_pulled(&mut self, whom: ProcId, request: RequestId, copy: Result<Block, NoCopy>) {
        self.send(whom, &Message::FromAgent(FromAgent::Pulled { request, copy }));
    }

    /// A process reads, or waits for, the copy no more.
    pub(super) fn unneeded(&mut self, whom: ProcId, place: &Place) {
        let now = self.clock.now();
        let Some(copy) = self.copies.table.get_mut(place) else { return };
        copy.waiting.retain(|(proc, _)| *proc != whom);
        copy.users.remove(&whom);
        if copy.is_wanted() {
            return;
        }
        match copy.state {
            State::Here { .. } => {
                copy.idle_since = Some(now);
                // Another one may wait for its room.
                self.admit(now);
            }
            State::Waiting { .. } | State::Coming { .. } => self.drop_copy(place),
        }
    }

    /// All processes of a host are dead.
    pub(super) fn forget_users_of(&mut self, host: HostId) {
        let users = self.copies.table.values().flat_map(|copy| &copy.users);
        let dead: BTreeSet<ProcId> = users.copied().filter(|proc| proc.host() == host).collect();
        dead.into_iter().for_each(|proc| self.forget_user(proc));
    }

    /// The process is dead.
    pub(super) fn forget_user(&mut self, dead: ProcId) {
        let uses =
            |copy: &Copy| copy.users.contains(&dead) || copy.waiting.iter().any(|(proc, _)| *proc == dead);
        let places: Vec<_> =
            self.copies.table.iter().filter(|(_, copy)| uses(copy)).map(|(place, _)| *place).collect();
        for place in places {
            self.unneeded(dead, &place);
        }
    }

    /// As [`Self::pull`], for the object's owner on another host. Ends with its death.
    pub(super) fn pull_for_owner(&mut self, owner: ProcId, request: RequestId, place: Place) {
        let (me, message) = (self.endpoint.me(), ToController::Watch { proc: owner });
        if self.hosts_controller() {
            let event = controller::Event::Message { from: me, message };
            self.todo.push_back(Todo::Controller { event, via: None });
        } else {
            let mut bytes = Vec::new();
            encode(&Message::ToController(message), &mut bytes);
            self.pass_up(me, bytes.into());
        }
        self.pull(owner, request, place);
    }

    /// The owner of an object for which a copy was kept here needs it no more.
    pub(super) fn disown(&mut self, owner: ProcId, block: &Block) {
        let of_block = |copy: &Copy| matches!(copy.state, State::Here { into } if into == *block);
        let found = self.copies.table.iter().find(|(_, copy)| of_block(copy)).map(|(place, _)| *place);
        if let Some(place) = found {
            self.unneeded(owner, &place);
        }
    }

    /// Begins those for which there is room, the wanted ones first.
    pub(super) fn admit(&mut self, now: u64) {
        // Room that is made for one of them calls this again: it must not take that for the same one.
        if !std::mem::replace(&mut self.copies.admitting, true) {
            self.admit_all(now);
            self.copies.admitting = false;
        }
    }

    fn admit_all(&mut self, now: u64) {
        let waits = |(place, copy): (&Place, &Copy)| {
            let State::Waiting { since } = copy.state else { return None };
            Some((!copy.is_wanted(), copy.request, *place, since))
        };
        let mut waiting: Vec<_> = self.copies.table.iter().filter_map(waits).collect();
        waiting.sort_unstable();
        for (only_announced, request, place, since) in waiting {
            // Room that is made for one may have come from another.
            let still_waits = |copy: &Copy| matches!(copy.state, State::Waiting { .. });
            if !self.copies.table.get(&place).is_some_and(still_waits) {
                continue;
            }
            match self.room_for(place.block.len, now, !only_announced) {
                Ok(Allocation { block: into, cold }) => {
                    if let Some(copy) = self.copies.table.get_mut(&place) {
                        copy.state = State::Coming { into, from: Source::Host(place.block.host()) };
                    }
                    self.bulk.expect(request, Arrival { into, cold });
                    self.ask_for(place, None);
                }
                Err(_) if only_announced => self.drop_copy(&place),
                Err(full) if full.wanted > full.capacity || now >= since + PATIENCE => {
                    self.fail_copy(&place, NoCopy::Full(full));
                }
                Err(_) => {}
            }
        }
    }

    /// Memory has become free: there is hope again.
    pub(super) fn hope(&mut self, now: u64) {
        let mut any = false;
        for copy in self.copies.table.values_mut() {
            if let State::Waiting { since } = &mut copy.state {
                *since = now;
                any = true;
            }
        }
        if any {
            self.admit(now);
        }
    }

    fn room_for(&mut self, len: u64, now: u64, insist: bool) -> Result<Allocation, HeapFull> {
        loop {
            if let Some(allocation) = self.copies.heap.alloc_tracked(len) {
                return Ok(allocation);
            }
            let me = self.endpoint.me();
            // Memory that was used before is worth more than a copy that nobody uses: a fresh page costs a fault.
            self.retire_idle(len);
            let shared = self.with_memory(|memory, say| memory.take_now(me, len.max(MIN_EXTENT), false, say));
            let extent = match shared {
                Err(_) if insist => {
                    self.make_room(len, now);
                    self.with_memory(|memory, say| memory.take_now(me, len, true, say))
                }
                other => other,
            };
            self.copies.heap.add_extent(extent.map_err(|full| HeapFull { wanted: len, ..full })?);
            self.tell_usage();
        }
    }

    /// Drops copies that nobody uses, the oldest first, to make room for so much where they are; if it is much.
    fn retire_idle(&mut self, bytes: u64) {
        let mut wanted = if bytes >= LARGE { bytes } else { 0 };
        for (_, place) in self.copies.idle() {
            if wanted == 0 {
                return;
            }
            wanted = wanted.saturating_sub(place.block.len);
            self.drop_copy(&place);
        }
    }

    /// Drops copies that nobody uses, the oldest first, until so much can be had.
    pub(super) fn make_room(&mut self, bytes: u64, now: u64) {
        for (_, place) in self.copies.idle() {
            if self.memory.fits(bytes) {
                return;
            }
            self.drop_copy(&place);
        }
        self.sweep_copies(now);
    }

    /// All of it is here.
    pub(super) fn copy_arrived(&mut self, request: RequestId) {
        let now = self.clock.now();
        let Some((place, copy)) = self.copies.coming(request) else { return };
        let State::Coming { into, .. } = copy.state else { return };
        copy.state = State::Here { into };
        let waiting = std::mem::take(&mut copy.waiting);
        copy.users.extend(waiting.iter().map(|(proc, _)| *proc));
        copy.idle_since = copy.users.is_empty().then_some(now);
        self.bulk.conclude(request);
        self.tell_home_copied(place);
        for (whom, request) in waiting {
            self.say_pulled(whom, request, Ok(into));
        }
    }

    /// It will not come.
    pub(super) fn fail_copy(&mut self, place: &Place, why: NoCopy) {
        let Some(copy) = self.copies.table.get_mut(place) else { return };
        for (whom, request) in std::mem::take(&mut copy.waiting) {
            self.say_pulled(whom, request, Err(why));
        }
        self.drop_copy(place);
    }

    /// Nobody uses it, and nobody is to get it from here any more.
    fn drop_copy(&mut self, place: &Place) {
        let Some(copy) = self.copies.table.remove(place) else { return };
        self.copies.by_request.remove(&copy.request);
        match copy.state {
            State::Waiting { .. } => return,
            State::Here { into } => self.copies.doomed.push(into),
            State::Coming { into, from } => {
                self.stop_coming(copy.request, &from);
                self.copies.doomed.push(into);
            }
        }
        self.tell_home_dropped(*place);
        self.sweep_copies(self.clock.now());
    }

    /// Frees the memory of what was given up and is quiet.
    pub(super) fn sweep_copies(&mut self, now: u64) {
        let Self { copies, bulk, .. } = self;
        let before = copies.doomed.len();
        copies.doomed.retain(|block| {
            let moving = bulk.is_moving(block);
            if !moving {
                copies.heap.free(block);
            }
            moving
        });
        if copies.doomed.len() == before {
            return;
        }
        let extents = copies.heap.take_free_extents(0);
        let me = self.endpoint.me();
        self.memory.shrink(me, &extents, now);
        self.tell_memory(now);
    }

    /// What time does to copies.
    pub(super) fn tend_copies(&mut self, now: u64) {
        for (since, place) in self.copies.idle() {
            if now >= since + KEEP {
                self.drop_copy(&place);
            }
        }
        let overdue = |copy: &Copy| matches!(copy.state, State::Waiting { since } if now >= since + PATIENCE);
        if self.copies.table.values().any(overdue) {
            self.admit(now);
        }
    }
}
