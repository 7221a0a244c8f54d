//! What happens to links in a storm: when, and for how long they are cut.

use raymesh_wire::HostId;

use super::{LIMIT, Wire};
use crate::world::{Happening, MICRO, MILLI, World};

impl World {
    /// Plans what else happens in a storm: hosts come, and heads go.
    pub fn plan_storm(&mut self, from: u64, to: u64) {
        for what in [Wire::Join, Wire::Join, Wire::HeadLost] {
            for _ in 0..self.rng.below(3) {
                let at = self.rng.range(from, to);
                self.at(at, Happening::Wire(what.clone()));
            }
        }
    }

    /// Plans what happens to links between `from` and `to`.
    pub fn plan_cuts(&mut self, from: u64, to: u64) {
        for _ in 0..self.rng.below(60) {
            let at = self.rng.range(from, to);
            self.at(at, Happening::Wire(Wire::Cut));
        }
    }

    /// One way, for a short while.
    pub fn cut_link(&mut self, link: (HostId, HostId)) {
        let until = self.now + self.rng.range(MILLI, LIMIT);
        let cut = self.links.cut_until.entry(link).or_default();
        *cut = until.max(*cut);
        self.stats.cuts += 1;
    }

    /// A link is cut for a while, one way or both; longer than the limit, now and then.
    pub(super) fn cut(&mut self) {
        let hosts: Vec<_> = self.hosts.keys().copied().collect();
        let (Some(a), Some(b)) = (self.rng.pick(&hosts).copied(), self.rng.pick(&hosts).copied()) else {
            return;
        };
        if a == b {
            return;
        }
        self.stats.cuts += 1;
        let until = self.now
            + match self.rng.below(20) {
                0 => LIMIT + self.rng.range(0, LIMIT),
                1..=9 => self.rng.range(MILLI, LIMIT),
                _ => self.rng.range(10 * MICRO, 5 * MILLI),
            };
        let both = self.rng.one_in(2);
        let head = self.links.head;
        for link in [(a, b), (b, a)].into_iter().take(if both { 2 } else { 1 }) {
            let cut = self.links.cut_until.entry(link).or_default();
            *cut = until.max(*cut);
            if until >= self.now + LIMIT {
                let at = self.now + LIMIT;
                self.at(at, Happening::Wire(Wire::Silent { by: link.1, of: link.0, ended: false }));
                // Who does not hear the head gives it no answers.
                if link.0 == head {
                    self.at(at, Happening::Wire(Wire::Silent { by: head, of: link.1, ended: false }));
                }
            }
        }
    }
}
