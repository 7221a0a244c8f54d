//! What every transport promises, whatever happens to hosts and links: checked at each message.
//!
//! - Between two that live, nothing is lost and nothing comes twice.
//! - Nobody hears of a process after he was told of its death.
//! - What a process sent before it said that it has mourned is there before its receiver is asked what it holds.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::ProcId;

use crate::world::World;

/// What was sent and heard, from whom to whom.
#[derive(Debug, Default)]
pub struct Promises {
    sent: BTreeMap<(ProcId, ProcId), u64>,
    heard: BTreeMap<(ProcId, ProcId), u64>,
    /// Who was told of whose death.
    told: BTreeSet<(ProcId, ProcId)>,
    /// What had been sent to each when its sender said, in a round, that it has mourned.
    before: BTreeMap<(u64, ProcId), Vec<(ProcId, u64)>>,
}

impl World {
    pub fn promise(&mut self, from: ProcId, to: ProcId) {
        *self.promises.sent.entry((from, to)).or_default() += 1;
    }

    /// `from` says that it has mourned, in that round.
    pub fn promise_all_sent(&mut self, from: ProcId, round: u64) {
        let Promises { sent, before, .. } = &mut self.promises;
        for ((_, to), count) in sent.range((from, ProcId::default())..).take_while(|(key, _)| key.0 == from) {
            before.entry((round, *to)).or_default().push((from, *count));
        }
    }

    /// Who lives, on a host that counts.
    fn counts(&self, id: ProcId) -> bool {
        self.procs.contains_key(&id) && !self.links.is_zombie(id.host())
    }

    /// `to`, who lives, hears something of `from`.
    pub fn heard_of(&mut self, from: ProcId, to: ProcId) {
        *self.promises.heard.entry((from, to)).or_default() += 1;
        if self.promises.told.contains(&(to, from)) && self.counts(to) {
            self.fail(format!("{to:?} hears of {from:?} after it was told of its death"));
        }
    }

    pub fn told_of_death(&mut self, to: ProcId, dead: ProcId) {
        self.promises.told.insert((to, dead));
    }

    /// `to` is asked what it holds.
    pub fn asked_for_stock(&mut self, to: ProcId, round: u64) {
        for (from, count) in self.promises.before.remove(&(round, to)).unwrap_or_default() {
            let heard = self.promises.heard.get(&(from, to)).copied().unwrap_or(0);
            if heard < count
                && self.counts(to)
                && self.counts(from)
                && !self.is_out_of_reach(to.host(), from.host())
            {
                self.fail(format!(
                    "{to:?} is asked what it holds before it has heard all of {from:?}: {heard} of {count}"
                ));
            }
        }
    }

    /// # Errors
    /// Who has not heard something, when nothing is under way any more.
    pub fn check_promises(&self) -> Result<(), String> {
        let heard = |key| self.promises.heard.get(key).copied().unwrap_or(0);
        let mut sent =
            self.promises.sent.iter().filter(|((from, to), _)| self.counts(*from) && self.counts(*to));
        match sent.find(|(key, count)| heard(key) != **count) {
            Some((key, count)) => {
                Err(format!("{:?} has heard {} of {count} messages of {:?}", key.1, heard(key), key.0))
            }
            None => Ok(()),
        }
    }
}
