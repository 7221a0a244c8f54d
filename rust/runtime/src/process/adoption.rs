//! Objects of this process whose bytes lay on a host that is gone: a copy on another host takes their place.
//!
//! The agents are asked who has one. One of those keeps it for this process from then on, as if the object had been
//! made there; it is freed as such, too.

use foldhash::HashMap;
use raymesh_wire::control::{NoCopy, ToAgent};
use raymesh_wire::{Block, HostId, Message, ObjectId, Place, ProcId, RequestId};

use super::{Proc, State};

/// Questions under way.
#[derive(Debug, Default)]
pub(super) struct Adoptions {
    asked: HashMap<RequestId, Place>,
}

impl Proc {
    /// The host of a block is gone. Is there a copy?
    pub(super) fn lost(&self, state: &mut State, object: ObjectId, block: Block) {
        let place = Place { object, block };
        let request = self.next_request();
        self.adoptions.lock().asked.insert(request, place);
        self.send_locked(state, self.agent, &Message::ToAgent(ToAgent::Locate { request, place }));
    }

    /// These have one. False: the question was another one.
    pub(super) fn adopt(&self, state: &mut State, request: RequestId, hosts: &[HostId]) -> bool {
        let Some(place) = self.adoptions.lock().asked.remove(&request) else { return false };
        // What is read here already stays here.
        let host = hosts.iter().find(|host| **host == self.me.host()).or(hosts.first());
        match host {
            Some(host) => {
                self.adoptions.lock().asked.insert(request, place);
                let message = Message::ToAgent(ToAgent::Pull { request, place });
                self.send_locked(state, ProcId::agent(*host), &message);
            }
            None => state.core.bytes_lost(place.object, place.block, &mut state.effects),
        }
        self.carry_out(state);
        true
    }

    /// That host keeps it from now on, or has none any more. False: the question was another one.
    pub(super) fn adopted(&self, state: &mut State, request: RequestId, copy: Result<Block, NoCopy>) -> bool {
        let Some(Place { object, block }) = self.adoptions.lock().asked.remove(&request) else {
            return false;
        };
        match copy {
            Ok(copy) if state.core.copy_kept(object, block, copy) => {
                if copy.host() == self.me.host() {
                    self.copies.lock().take(&block);
                }
            }
            // The object is not needed any more.
            Ok(copy) => {
                self.send_locked(state, copy.home, &Message::FreeBlocks { blocks: vec![copy] });
            }
            Err(_) => state.core.bytes_lost(object, block, &mut state.effects),
        }
        self.carry_out(state);
        true
    }
}
