//! Classes and shapes that nobody is of any more are forgotten: programs that ask for ever new amounts leave none behind.

use std::collections::BTreeSet;

use super::Controller;
use super::hosts::Keeper;
use super::queue::ClassId;

/// So many classes are kept without a look.
const FEW: usize = 1_000;

impl Controller {
    /// Looks for unused ones when there are twice as many as were left the last time: a constant cost for each.
    pub(super) fn forget_unused(&mut self) {
        if self.queue.class_count() < (2 * self.classes_left).max(FEW) {
            return;
        }
        let used = self.classes_in_use();
        for class in self.queue.classes().filter(|class| !used.contains(class)) {
            self.queue.forget(class);
        }
        let classes = self.queue.classes().map(|class| self.queue.get(class));
        // Bundles have shapes of their own.
        let of_classes = classes.flat_map(|class| [class.need, class.hold]);
        let shapes = of_classes.chain(self.holds.iter().map(|(_, hold)| hold.shape)).collect();
        self.shapes.keep(&shapes);
        self.classes_left = self.queue.class_count();
    }

    fn classes_in_use(&self) -> BTreeSet<ClassId> {
        let demands =
            self.procs.iter().flat_map(|(_, proc)| proc.demands.values().map(|demand| demand.class));
        let actors = self.actors.living().map(|actor| actor.class);
        let holds = self.holds.iter().map(|(_, hold)| hold.class);
        let reserving = self.hosts.iter().filter_map(|(_, host)| match host.kept.as_ref()?.whom {
            Keeper::Class(class) => Some(class),
            Keeper::Group(_) => None,
        });
        let watched = self.checks.iter().map(|(_, class)| *class);
        demands.chain(actors).chain(holds).chain(reserving).chain(watched).collect()
    }

    /// How many classes and shapes are remembered.
    #[must_use]
    pub fn remembered(&self) -> (usize, usize) {
        (self.queue.class_count(), self.shapes.count())
    }
}
