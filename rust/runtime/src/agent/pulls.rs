//! How bytes of large objects come here, and go to others.
//!
//! A copy is asked for at the block's home, whose agent has it sent, or says who else has it
//! ([`super::spread`]). If the home is gone, all are asked whether they have a copy. The words go by the control
//! link, the bytes by lanes ([`super::bulk`]), which the sender has made when there is something to send.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::between::Between;
use raymesh_wire::control::{FromAgent, NoCopy};
use raymesh_wire::{Block, HostId, Message, Place, ProcId, RequestId};

use super::bulk::{Consignment, News};
use super::copies::{Source, State};
use super::run::Runner;
use super::spread::WORTH_IT;

/// A process wants to know who has an object's bytes.
#[derive(Debug)]
struct Survey {
    whom: ProcId,
    /// As the process calls it.
    request: RequestId,
    have: BTreeSet<HostId>,
    silent: BTreeSet<HostId>,
}

/// Surveys under way.
#[derive(Debug, Default)]
pub struct Surveys(BTreeMap<RequestId, Survey>);

impl Runner {
    fn is_reachable(&self, host: HostId) -> bool {
        self.links.as_ref().is_some_and(|links| links.hub.is_alive(host))
    }

    fn others(&self) -> BTreeSet<HostId> {
        self.links.as_ref().map(|links| links.hub.living().collect()).unwrap_or_default()
    }

    /// Asks for what is missing of a copy. `avoid` has none.
    pub(super) fn ask_for(&mut self, place: Place, avoid: Option<HostId>) {
        let home = place.block.host();
        let source = if self.is_reachable(home) {
            Source::Host(home)
        } else {
            let others = self.others();
            if others.is_empty() {
                return self.fail_copy(&place, NoCopy::Lost);
            }
            Source::Sought(others)
        };
        let Some(copy) = self.copies.table.get_mut(&place) else { return };
        let State::Coming { from, .. } = &mut copy.state else { return };
        let request = copy.request;
        *from = source;
        if let Source::Sought(others) = from {
            for host in others.clone() {
                self.tell_agent(host, Between::Seek { request, place });
            }
        } else {
            self.ask(home, request, place, avoid);
        }
    }

    fn ask(&mut self, host: HostId, request: RequestId, place: Place, avoid: Option<HostId>) {
        let pieces = self.bulk.missing(request);
        self.tell_agent(host, Between::Fetch { request, place, pieces, avoid });
    }

    /// As [`Self::ask`], from now on that host.
    fn turn_to(&mut self, request: RequestId, host: HostId) {
        let Some((place, copy)) = self.copies.coming(request) else { return };
        if let State::Coming { from, .. } = &mut copy.state {
            *from = Source::Host(host);
        }
        self.ask(host, request, place, None);
    }

    /// Whether that copy comes from that host, and of which place it is.
    fn comes_from(&mut self, request: RequestId, host: HostId) -> Option<Place> {
        let (place, copy) = self.copies.coming(request)?;
        let from = matches!(&copy.state, State::Coming { from: Source::Host(from), .. } if *from == host);
        from.then_some(place)
    }

    pub(super) fn elsewhere(&mut self, home: HostId, request: RequestId, host: HostId) {
        let Some(place) = self.comes_from(request, home).filter(|place| place.block.host() == home) else {
            return;
        };
        if self.is_reachable(host) {
            self.turn_to(request, host);
        } else {
            self.ask_for(place, Some(host));
        }
    }

    pub(super) fn no_block(&mut self, host: HostId, request: RequestId) {
        let Some(place) = self.comes_from(request, host) else { return };
        if host == place.block.host() {
            self.fail_copy(&place, NoCopy::Lost);
        } else {
            self.ask_for(place, Some(host));
        }
    }

    /// Nobody wants it any more.
    pub(super) fn stop_coming(&mut self, request: RequestId, from: &Source) {
        if let Source::Host(host) = from {
            self.tell_agent(*host, Between::Unfetch { request });
        }
        for (host, request) in self.bulk.give_up(request) {
            self.tell_agent(host, Between::NoBlock { request });
        }
    }

    /// A lane from that host has broken.
    pub(super) fn ask_again(&mut self, host: HostId) {
        let requests: Vec<_> = self.copies.by_request.keys().copied().collect();
        for request in requests {
            let Some(place) = self.comes_from(request, host) else { continue };
            self.tell_agent(host, Between::Unfetch { request });
            self.ask(host, request, place, None);
        }
    }

    pub(super) fn tell_home_copied(&mut self, place: Place) {
        if place.block.len >= WORTH_IT && self.is_reachable(place.block.host()) {
            self.tell_agent(place.block.host(), Between::Copied { place });
        }
    }

    pub(super) fn tell_home_dropped(&mut self, place: Place) {
        if place.block.len >= WORTH_IT && self.is_reachable(place.block.host()) {
            self.tell_agent(place.block.host(), Between::Dropped { place });
        }
    }

    /// Another host wants pieces of something. Who asks at a block's home has a process that holds the object, so
    /// the block is not freed meanwhile.
    pub(super) fn fetch(
        &mut self,
        host: HostId,
        request: RequestId,
        place: Place,
        pieces: &[(u32, u32)],
        avoid: Option<HostId>,
    ) {
        let (block, behind) = if place.block.host() == self.segment.host() {
            let source = if place.block.len < WORTH_IT {
                self.segment.host()
            } else {
                self.spread.source(place, host, avoid)
            };
            if source != self.segment.host() {
                return self.tell_agent(host, Between::Elsewhere { request, host: source });
            }
            (Some(place.block), None)
        } else {
            self.copy_to_pass_on(&place)
        };
        let block = block.filter(|block| self.segment.block_bytes(block).is_ok());
        let consignment = block.and_then(|block| Consignment::new(request, block, behind, pieces));
        match consignment {
            Some(consignment) => {
                self.bulk.send(host, consignment);
                self.see_to_lanes(host);
            }
            None => self.tell_agent(host, Between::NoBlock { request }),
        }
    }

    /// Where the copy lies, and the transfer by which it still comes.
    fn copy_to_pass_on(&self, place: &Place) -> (Option<Block>, Option<RequestId>) {
        match self.copies.table.get(place).map(|copy| (&copy.state, copy.request)) {
            Some((State::Here { into }, _)) => (Some(*into), None),
            Some((State::Coming { into, .. }, request)) => (Some(*into), Some(request)),
            _ => (None, None),
        }
    }

    fn has_whole(&self, place: &Place) -> bool {
        place.block.host() == self.segment.host()
            || self.copies.table.get(place).is_some_and(|copy| matches!(copy.state, State::Here { .. }))
    }

    pub(super) fn seek(&mut self, host: HostId, request: RequestId, place: &Place) {
        let has = self.has_whole(place);
        self.tell_agent(host, Between::Sought { request, has });
    }

    pub(super) fn sought(&mut self, host: HostId, request: RequestId, has: bool) {
        if let Some(survey) = self.surveys.0.get_mut(&request) {
            if survey.silent.remove(&host) && has {
                survey.have.insert(host);
            }
            return self.conclude_survey(request);
        }
        let Some((place, copy)) = self.copies.coming(request) else { return };
        let State::Coming { from: Source::Sought(asked), .. } = &mut copy.state else { return };
        if !asked.remove(&host) {
            return;
        }
        let nobody = asked.is_empty();
        if has {
            self.turn_to(request, host);
        } else if nobody {
            self.fail_copy(&place, NoCopy::Lost);
        }
    }

    /// A process wants to know who has the bytes.
    pub(super) fn locate(&mut self, whom: ProcId, request: RequestId, place: Place) {
        let id = self.copies.next_request();
        let have = self.has_whole(&place).then(|| self.segment.host()).into_iter().collect();
        let silent = self.others();
        for host in &silent {
            self.tell_agent(*host, Between::Seek { request: id, place });
        }
        self.surveys.0.insert(id, Survey { whom, request, have, silent });
        self.conclude_survey(id);
    }

    fn conclude_survey(&mut self, id: RequestId) {
        if self.surveys.0.get(&id).is_some_and(|survey| survey.silent.is_empty())
            && let Some(Survey { whom, request, have, .. }) = self.surveys.0.remove(&id)
        {
            let hosts = have.into_iter().collect();
            self.send(whom, &Message::FromAgent(FromAgent::Located { request, hosts }));
        }
    }

    /// The host is dead: what was to come from there comes from elsewhere, or not at all.
    pub(super) fn forget_source(&mut self, host: HostId) {
        self.spread.host_gone(host);
        self.bulk.forget_host(host);
        self.opening.forget(host);
        let surveys: Vec<_> = self.surveys.0.keys().copied().collect();
        let requests = self.copies.by_request.keys().copied();
        let requests: Vec<_> = surveys.into_iter().chain(requests).collect();
        for request in requests {
            match self.comes_from(request, host) {
                Some(place) => self.ask_for(place, Some(host)),
                None => self.sought(host, request, false),
            }
        }
    }

    /// What the lanes have to tell.
    pub(super) fn hear_bulk(&mut self) {
        for news in self.bulk.take_news() {
            match news {
                News::Arrived { request } => self.copy_arrived(request),
                News::Broken { host } => self.ask_again(host),
                News::BrokenThere { host } => {
                    if self.is_reachable(host) {
                        self.tell_agent(host, Between::LaneLost);
                    }
                    self.see_to_lanes(host);
                }
                News::LanesWanted { host } => self.see_to_lanes(host),
                News::Quiet => self.sweep_copies(self.clock.now()),
            }
        }
    }
}
