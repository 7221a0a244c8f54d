//! Who waits for whom: actors that wait for each other, or for themselves, would wait for ever.

use std::collections::BTreeSet;

use raymesh_wire::control::FromController;
use raymesh_wire::{ActorId, ProcId};

use super::actors::Phase;
use super::{Controller, Effects, send};

impl Controller {
    /// A blocked worker says for which actors it waits. If that closes a circle, it is told: no one else
    /// in the circle can ever go on.
    pub(super) fn waiting(&mut self, from: ProcId, on: Vec<ActorId>, effects: &mut Effects) {
        let Some(proc) = self.procs.get_mut(from).filter(|proc| proc.blocked) else { return };
        proc.waits_for = on;
        let Some(circle) = self.circle(from) else { return };
        let names: Vec<_> = circle.iter().map(|actor| self.actor_title(*actor)).collect();
        let text = match names.as_slice() {
            [only] => format!("Deadlock: actor {only} waits for an answer of its own."),
            several => format!(
                "Deadlock: these actors wait for each other, the last for the first: {}.",
                several.join(", ")
            ),
        };
        send(effects, from, FromController::WaitCycle { text });
    }

    /// Actors from `start`'s wait back to `start` itself.
    fn circle(&self, start: ProcId) -> Option<Vec<ActorId>> {
        let mut seen = BTreeSet::new();
        let mut path: Vec<(ProcId, usize)> = vec![(start, 0)];
        let mut actors = Vec::new();
        while let Some((proc, next)) = path.last_mut() {
            let waits = self.procs.get(*proc).map_or(&[][..], |proc| &proc.waits_for);
            let Some(actor) = waits.get(*next).copied() else {
                path.pop();
                actors.pop();
                continue;
            };
            *next += 1;
            let Some(worker) = self.only_thread_of(actor) else { continue };
            if worker == start {
                actors.push(actor);
                actors.rotate_right(1);
                return Some(actors);
            }
            if seen.insert(worker) {
                actors.push(actor);
                path.push((worker, 0));
            }
        }
        None
    }

    /// The worker of an actor that runs one call at a time: while one waits, no other can answer.
    fn only_thread_of(&self, actor: ActorId) -> Option<ProcId> {
        let actor = self.actors.get(actor)?;
        match actor.phase {
            Phase::Alive { worker, .. } if actor.spec.max_concurrency <= 1 => Some(worker),
            _ => None,
        }
    }

    fn actor_title(&self, actor: ActorId) -> String {
        self.actors.get(actor).map_or_else(|| format!("{actor:?}"), |actor| actor.title())
    }
}
