//! Grants: who gets what, where.

use std::mem::take;

use raymesh_wire::{HostId, ProcId};

use super::queue::{ClassId, Waiter};
use super::{Controller, Effects};

/// How many waiters of a class are looked through for one that may not wait for a reservation.
const LOOK: usize = 64;

impl Controller {
    /// Grants whatever fits: first to those who wait already, on hosts that have more free than before,
    /// then to newcomers anywhere.
    pub(super) fn schedule(&mut self, effects: &mut Effects) {
        for host in take(&mut self.hosts.freed) {
            while let Some((class, waiter)) = self.first_stuck_on(host) {
                self.grant(class, waiter, host, effects);
            }
        }
        while let Some((class, _, waiter)) = self.queue.next() {
            if let Some(host) = self.pick(class, waiter, false) {
                self.grant(class, waiter, host, effects);
            } else if let Some((waiter, host)) = self.pick_urgent(class) {
                self.grant(class, waiter, host, effects);
            } else {
                self.queue.set_stuck(class, true);
                self.watch_starvation(class);
            }
        }
    }

    fn grant(&mut self, class: ClassId, waiter: Waiter, host: HostId, effects: &mut Effects) {
        match waiter {
            Waiter::Task(caller, key) => self.grant_lease(host, caller, key, effects),
            Waiter::Actor(actor) => self.place_actor(host, actor, effects),
        }
        self.served(class);
    }

    /// Of the waiters that `host` can serve now, the one whose turn it is.
    fn first_stuck_on(&self, host: HostId) -> Option<(ClassId, Waiter)> {
        let turn = |class: &ClassId| self.queue.get(*class).waiting.first().map(|first| first.0);
        let fits = self.queue.stuck().iter().filter_map(|class| {
            if self.fits(host, *class, false) {
                Some((turn(class)?, *class, self.queue.get(*class).waiting.first()?.1))
            } else if self.reservations > 0 && self.fits(host, *class, true) {
                Some((turn(class)?, *class, self.urgent(*class)?))
            } else {
                None
            }
        });
        fits.min().map(|(_, class, waiter)| (class, waiter))
    }

    fn pick(&self, class: ClassId, waiter: Waiter, urgent: bool) -> Option<HostId> {
        let state = self.queue.get(class);
        if state.feasible == 0 {
            return None;
        }
        let prefer = match waiter {
            Waiter::Task(caller, _) => caller.host(),
            Waiter::Actor(actor) => actor.creator.host(),
        };
        let need = self.shapes.get(state.need);
        self.hosts.pick(need, prefer, |host, _| self.fits(host, class, urgent))
    }

    fn pick_urgent(&self, class: ClassId) -> Option<(Waiter, HostId)> {
        if self.reservations == 0 {
            return None;
        }
        let waiter = self.urgent(class)?;
        Some((waiter, self.pick(class, waiter, true)?))
    }

    /// A waiter that somebody waits for while holding resources: it may use what is kept for others,
    /// or they might wait for each other.
    fn urgent(&self, class: ClassId) -> Option<Waiter> {
        let waiting = self.queue.get(class).waiting.iter().take(LOOK).map(|(_, waiter)| *waiter);
        waiting.into_iter().find(|waiter| match waiter {
            Waiter::Task(caller, _) => self.procs.get(*caller).is_some_and(|proc| proc.blocked),
            Waiter::Actor(actor) => self.procs.get(actor.creator).is_some_and(|proc| proc.blocked),
        })
    }

    /// Whether `host` can serve the class now; `urgent`: also with what is kept free for another.
    fn fits(&self, host: HostId, class: ClassId, urgent: bool) -> bool {
        let Some(state) = self.hosts.get(host) else { return false };
        let wanted = self.queue.get(class);
        let need = self.shapes.get(wanted.need);
        if state.backoff.is_some() || !state.fits(need) {
            return false;
        }
        if wanted.is_task && need.cpu == 0 && state.weightless >= state.weightless_limit() {
            return false;
        }
        match state.reserved {
            Some(other) if other != class && !urgent => {
                !self.shapes.get(self.queue.get(other).need).overlaps(need)
            }
            _ => true,
        }
    }

    /// The waits of a process have become urgent: they are looked at again.
    pub(super) fn hurry(&mut self, from: ProcId) {
        if self.reservations == 0 {
            return;
        }
        let Some(proc) = self.procs.get(from).filter(|proc| proc.blocked) else { return };
        let tasks = proc.demands.values().map(|demand| demand.class);
        let actors = proc.actors.iter().filter_map(|id| Some(self.actors.get(*id)?.class));
        let classes: Vec<_> = tasks.chain(actors).collect();
        for class in classes {
            self.queue.set_stuck(class, false);
        }
    }
}
