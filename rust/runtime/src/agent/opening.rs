//! Lanes that are being made.
//!
//! Who has something to send sees to it that there are lanes. As with links, the host that joined later is the
//! one to dial; the other one asks it to.

use std::collections::BTreeMap;
use std::time::Duration;

use raymesh_net::{Event, Lane};
use raymesh_wire::HostId;
use raymesh_wire::between::Between;

use super::run::Runner;

/// Lanes that one host sends to another by: so many cores may encrypt at once.
const LANES: u32 = 2;
/// So many to a host that is far: each carries only so much for each way there and back, and less after a loss.
const FAR_LANES: u32 = 8;
/// Who takes longer there and back is far.
const FAR: Duration = Duration::from_millis(5);
/// Before one that could not be made is tried again.
const RETRY: u64 = 100_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Opening {
    /// To be sent on, not there yet.
    awaited: BTreeMap<HostId, u32>,
    /// When to dial again, whom, and whether this end sends.
    again: Vec<(u64, HostId, bool)>,
}

impl Opening {
    pub fn forget(&mut self, host: HostId) {
        self.awaited.remove(&host);
        self.again.retain(|(_, other, _)| *other != host);
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.again.iter().map(|(at, ..)| *at).min()
    }
}

impl Runner {
    /// There is something to send.
    pub(super) fn see_to_lanes(&mut self, host: HostId) {
        let Some(links) = &self.links else { return };
        if !links.hub.is_alive(host) || !self.bulk.has_work_for(host) {
            return;
        }
        let dials = links.hub.dials(host);
        let awaited = self.opening.awaited.entry(host).or_default();
        let lanes = if links.hub.round_trip(host) > FAR { FAR_LANES } else { LANES };
        let count = lanes.saturating_sub(*awaited + self.bulk.lanes_to(host));
        *awaited += count;
        if count == 0 {
            return;
        }
        if dials {
            self.dial_lanes(host, true, count);
        } else {
            self.tell_agent(host, Between::DialLanes { count });
        }
    }

    /// The host wants to send.
    pub(super) fn asked_to_dial(&mut self, host: HostId, count: u32) {
        self.dial_lanes(host, false, count.min(FAR_LANES));
    }

    fn dial_lanes(&mut self, host: HostId, sends: bool, count: u32) {
        let Some(links) = &mut self.links else { return };
        let mut events = Vec::new();
        for _ in 0..count {
            links.hub.dial_lane(host, sends, &mut events);
        }
        for event in events {
            if let Event::NoLane { host, sends, .. } = event {
                self.no_lane(host, sends);
            }
        }
    }

    pub(super) fn take_lane(&mut self, host: HostId, sends: bool, lane: Lane) {
        if sends && let Some(awaited) = self.opening.awaited.get_mut(&host) {
            *awaited = awaited.saturating_sub(1);
        }
        if self.bulk.add_lane(host, sends, lane).is_err() {
            // No thread or descriptor is to be had now. The lane is closed, which the other end sees.
            self.opening.again.push((self.clock.now() + RETRY, host, sends));
        }
    }

    pub(super) fn no_lane(&mut self, host: HostId, sends: bool) {
        if self.links.as_ref().is_some_and(|links| links.hub.is_alive(host)) {
            self.opening.again.push((self.clock.now() + RETRY, host, sends));
        }
    }

    /// Dials again what could not be reached.
    pub(super) fn tend_opening(&mut self, now: u64) {
        let due = |(at, ..): &(u64, HostId, bool)| *at <= now;
        let (due, later) = std::mem::take(&mut self.opening.again).into_iter().partition(due);
        self.opening.again = later;
        let due: Vec<(u64, HostId, bool)> = due;
        for (_, host, sends) in due {
            if self.links.as_ref().is_some_and(|links| links.hub.dials(host)) {
                self.dial_lanes(host, sends, 1);
            } else {
                self.see_to_lanes(host);
            }
        }
    }
}
