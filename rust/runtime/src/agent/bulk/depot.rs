//! What the agent and the lanes' threads share.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use raymesh_net::{Hangup, Header, Lane};
use raymesh_shm::Segment;
use raymesh_sys::fd::{eventfd, eventfd_clear, eventfd_signal};
use raymesh_wire::control::Extent;
use raymesh_wire::{Block, HostId, RequestId};

use super::lanes;
use super::pieces::Pieces;
pub use super::sending::Consignment;
use super::sending::{ByHost, Job};

/// A lane on which nothing was sent for so long is closed.
const IDLE: Duration = Duration::from_secs(10);

/// What the lanes have to tell the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// All of it is here.
    Arrived { request: RequestId },
    /// A lane from that host has broken: something may not arrive.
    Broken { host: HostId },
    /// A lane to that host has broken: something may not have arrived there.
    BrokenThere { host: HostId },
    /// The last lane to that host has ended just when there was something to send.
    LanesWanted { host: HostId },
    /// Memory may have become quiet: see [`Depot::is_moving`].
    Quiet,
}

/// A copy on its way here.
#[derive(Debug)]
pub struct Arrival {
    pub into: Block,
    /// Of that memory, what was never used before.
    pub cold: Option<Extent>,
}

#[derive(Debug)]
struct Arriving {
    into: Block,
    cold: Option<Extent>,
    pieces: Pieces,
    /// Nobody wants it any more; a lane is in the middle of a piece.
    given_up: bool,
}

/// A piece that a lane is to fill.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    request: RequestId,
    index: u32,
    pub into: Block,
    /// The memory of it that is to be brought in first.
    pub cold: Option<Extent>,
}

#[derive(Debug, Default)]
struct State {
    arriving: BTreeMap<RequestId, Arriving>,
    sending: ByHost,
    news: Vec<News>,
    lanes: BTreeMap<u64, Running>,
    next_lane: u64,
    closed: bool,
}

#[derive(Debug)]
struct Running {
    host: HostId,
    sends: bool,
    hangup: Hangup,
    /// None until the thread has been started, and once it is at its end.
    thread: Option<JoinHandle<()>>,
}

/// See the module.
#[derive(Debug)]
pub struct Depot {
    pub(super) segment: Arc<Segment>,
    state: Mutex<State>,
    /// There is something to send, or a lane is to end.
    work: Condvar,
    bell: OwnedFd,
}

impl Depot {
    pub fn new(segment: Arc<Segment>) -> std::io::Result<Arc<Self>> {
        let bell = eventfd()?;
        Ok(Arc::new(Self { segment, state: Mutex::default(), work: Condvar::new(), bell }))
    }

    /// Readable when there is news.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub fn take_news(&self) -> Vec<News> {
        eventfd_clear(&self.bell);
        std::mem::take(&mut self.state.lock().news)
    }

    fn tell(&self, state: &mut State, news: News) {
        // One is as good as many.
        if !state.news.contains(&news) {
            state.news.push(news);
            eventfd_signal(&self.bell);
        }
    }

    // What arrives.

    /// From now on pieces with that number go there.
    pub fn expect(&self, request: RequestId, arrival: Arrival) {
        let Arrival { into, cold } = arrival;
        let pieces = Pieces::none_of(into.len);
        self.state.lock().arriving.insert(request, Arriving { into, cold, pieces, given_up: false });
    }

    /// Pieces that are not here yet: first and count.
    pub fn missing(&self, request: RequestId) -> Vec<(u32, u32)> {
        self.state.lock().arriving.get(&request).map_or_else(Vec::new, |arriving| arriving.pieces.missing())
    }

    /// All has arrived, and was seen to.
    pub fn conclude(&self, request: RequestId) {
        let mut state = self.state.lock();
        state.arriving.remove(&request);
        state.sending.values_mut().for_each(|sending| sending.arrived(request));
    }

    /// Nothing more is to arrive. Its memory is of use again once [`Self::is_moving`] denies it. Answers who
    /// was to get it from here.
    pub fn give_up(&self, request: RequestId) -> Vec<(HostId, RequestId)> {
        let mut state = self.state.lock();
        if let Some(arriving) = state.arriving.get_mut(&request) {
            arriving.given_up = true;
            if !arriving.pieces.are_moving() {
                state.arriving.remove(&request);
            }
        }
        let mut left = Vec::new();
        for (host, sending) in &mut state.sending {
            let cancelled = sending.cancel(|one| one.behind == Some(request));
            left.extend(cancelled.into_iter().map(|request| (*host, request)));
        }
        left
    }

    /// Whether a lane reads or writes there, or is to.
    pub fn is_moving(&self, block: &Block) -> bool {
        let state = self.state.lock();
        state.arriving.values().any(|arriving| arriving.into == *block)
            || state.sending.values().any(|sending| sending.uses(block))
    }

    pub(super) fn claim(&self, header: &Header) -> Option<Claim> {
        let mut state = self.state.lock();
        let request = RequestId(header.tag);
        let arriving = state.arriving.get_mut(&request).filter(|arriving| !arriving.given_up)?;
        let index = arriving.pieces.claim(header.at, header.len)?;
        let Block { home, offset, .. } = arriving.into;
        let into = Block { home, offset: offset + header.at, len: u64::from(header.len) };
        let cold = arriving.cold.and_then(|cold| overlap(cold, &into));
        Some(Claim { request, index, into, cold })
    }

    pub(super) fn landed(&self, claim: Claim, whole: bool) {
        let mut state = self.state.lock();
        let Some(arriving) = state.arriving.get_mut(&claim.request) else { return };
        arriving.pieces.landed(claim.index, whole);
        if arriving.given_up {
            if !arriving.pieces.are_moving() {
                state.arriving.remove(&claim.request);
                self.tell(&mut state, News::Quiet);
            }
        } else {
            if arriving.pieces.are_all_here() {
                self.tell(&mut state, News::Arrived { request: claim.request });
            }
            if !state.sending.is_empty() {
                // Somebody may wait for just this piece.
                self.work.notify_all();
            }
        }
    }

    // What is sent.

    /// Sends this to the host as soon as there are lanes.
    pub fn send(&self, host: HostId, consignment: Consignment) {
        self.state.lock().sending.entry(host).or_default().push(consignment);
        self.work.notify_all();
    }

    /// The host does not want the rest of it.
    pub fn cancel(&self, host: HostId, request: RequestId) {
        let mut state = self.state.lock();
        if let Some(sending) = state.sending.get_mut(&host) {
            sending.cancel(|one| one.request == request);
            self.tell(&mut state, News::Quiet);
        }
    }

    /// Whether anything is to be sent there.
    pub fn has_work_for(&self, host: HostId) -> bool {
        self.state.lock().sending.get(&host).is_some_and(|sending| !sending.is_empty())
    }

    /// The next piece for a lane. None: the lane is to end.
    pub(super) fn next(&self, host: HostId) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            let State { arriving, sending, .. } = &mut *state;
            let sending = sending.get_mut(&host)?;
            let arrived = |request| arriving.get(&request).map(|arriving| &arriving.pieces);
            if let Some(job) = sending.next(arrived) {
                return Some(job);
            }
            if self.work.wait_for(&mut state, IDLE).timed_out()
                && state.sending.get(&host).is_none_or(super::sending::Sending::is_empty)
            {
                return None;
            }
        }
    }

    pub(super) fn sent(&self, host: HostId, request: RequestId) {
        let mut state = self.state.lock();
        if state.sending.get_mut(&host).is_some_and(|sending| sending.sent(request)) {
            self.tell(&mut state, News::Quiet);
        }
    }

    // Lanes.

    /// How many there are to a host.
    pub fn lanes_to(&self, host: HostId) -> u32 {
        let state = self.state.lock();
        let count = state.lanes.values().filter(|lane| lane.host == host && lane.sends).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Serves one more lane, from now on.
    pub fn add_lane(self: &Arc<Self>, host: HostId, sends: bool, lane: Lane) -> std::io::Result<()> {
        let hangup = lane.hangup()?;
        let mut state = self.state.lock();
        let id = state.next_lane;
        state.next_lane += 1;
        state.sending.entry(host).or_default();
        state.lanes.insert(id, Running { host, sends, hangup, thread: None });
        drop(state);
        let depot = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name("raymesh-bulk".to_owned())
            .spawn(move || lanes::serve(&depot, id, host, sends, lane));
        let mut state = self.state.lock();
        match started {
            // It may be over already.
            Ok(thread) => {
                if let Some(running) = state.lanes.get_mut(&id) {
                    running.thread = Some(thread);
                }
                Ok(())
            }
            Err(error) => {
                state.lanes.remove(&id);
                Err(error)
            }
        }
    }

    /// The thread of a lane is about to end.
    pub(super) fn lane_over(&self, id: u64, host: HostId, sends: bool, broken: bool) {
        let mut state = self.state.lock();
        state.lanes.remove(&id);
        let has_work = state.sending.get(&host).is_some_and(|sending| !sending.is_empty());
        let news = match (broken, sends) {
            _ if state.closed => return,
            (true, true) => News::BrokenThere { host },
            (true, false) => News::Broken { host },
            (false, true) if has_work => News::LanesWanted { host },
            (false, _) => return,
        };
        self.tell(&mut state, news);
    }

    /// The host is dead.
    pub fn forget_host(&self, host: HostId) {
        let mut state = self.state.lock();
        if let Some(sending) = state.sending.get_mut(&host) {
            sending.cancel(|_| true);
            if sending.is_empty() {
                state.sending.remove(&host);
            }
        }
        state.lanes.values().filter(|lane| lane.host == host).for_each(|lane| lane.hangup.hang_up());
        self.tell(&mut state, News::Quiet);
        self.work.notify_all();
    }

    /// Ends all lanes, and waits for their threads.
    pub fn close(&self) {
        let threads: Vec<_> = {
            let mut state = self.state.lock();
            state.closed = true;
            state.lanes.values().for_each(|lane| lane.hangup.hang_up());
            self.work.notify_all();
            state.lanes.values_mut().filter_map(|lane| lane.thread.take()).collect()
        };
        for thread in threads {
            // A panic of it has been printed.
            let _ = thread.join();
        }
    }
}

/// What the two have in common.
fn overlap(cold: Extent, block: &Block) -> Option<Extent> {
    let start = cold.offset.max(block.offset);
    let end = (cold.offset + cold.len).min(block.offset + block.len);
    (start < end).then(|| Extent { offset: start, len: end - start })
}
