//! Grants: who gets what, where.

use std::mem::take;

use raymesh_wire::{HostId, ProcId};

use super::hosts::Keeper;
use super::queue::{ClassId, Waiter};
use super::spots::Spot;
use super::{Controller, Effects};

/// How many waiters of a class are looked through for one that may not wait for a reservation.
const LOOK: usize = 64;

impl Controller {
    /// Grants whatever fits: first to those who wait already, on hosts that have more free than before,
    /// then to newcomers anywhere.
    pub(super) fn schedule(&mut self, effects: &mut Effects) {
        self.place_groups();
        self.moves_due |= !self.hosts.freed.is_empty();
        for host in take(&mut self.hosts.freed) {
            while let Some((class, waiter, spot)) = self.first_stuck_on(host) {
                self.grant(class, waiter, spot, effects);
            }
        }
        while let Some((class, _, waiter)) = self.queue.next() {
            if let Some(spot) = self.pick(class, waiter, false) {
                self.grant(class, waiter, spot, effects);
            } else if let Some((waiter, spot)) = self.pick_urgent(class) {
                self.grant(class, waiter, spot, effects);
            } else if let Some(error) = self.gives_up(class) {
                self.fail_waiters(class, &error, effects);
            } else {
                self.queue.set_stuck(class, true);
                self.watch_starvation(class);
            }
        }
    }

    fn grant(&mut self, class: ClassId, waiter: Waiter, spot: Spot, effects: &mut Effects) {
        self.queue.get_mut(class).spread_at = spot.host;
        self.queue.serve(class, waiter);
        match waiter {
            Waiter::Task(caller, key) => self.grant_lease(spot, caller, key, effects),
            Waiter::Actor(actor) => self.place_actor(spot, actor, effects),
        }
        self.served(class);
    }

    /// Of the waiters that `host` can serve now, the one whose turn it is.
    fn first_stuck_on(&self, host: HostId) -> Option<(ClassId, Waiter, Spot)> {
        let turn = |class: &ClassId| self.queue.get(*class).waiting.first().map(|first| first.0);
        let fits = self.queue.stuck().iter().filter_map(|class| {
            if let Some(spot) = self.fits(host, *class, false) {
                return Some((turn(class)?, *class, self.queue.get(*class).first_for(host)?, spot));
            }
            let spot = self.fits(host, *class, true).filter(|_| self.reservations > 0)?;
            Some((turn(class)?, *class, self.urgent(*class)?, spot))
        });
        fits.min().map(|(_, class, waiter, spot)| (class, waiter, spot))
    }

    fn pick(&self, class: ClassId, waiter: Waiter, urgent: bool) -> Option<Spot> {
        if self.queue.get(class).feasible == 0 {
            return None;
        }
        let (prefer, near) = match waiter {
            Waiter::Task(caller, key) => {
                let demand = self.procs.get(caller).and_then(|proc| proc.demands.get(&key));
                (caller.host(), demand.and_then(|demand| demand.near))
            }
            Waiter::Actor(actor) => (actor.creator.host(), None),
        };
        self.find_spot(class, (prefer, near), urgent)
    }

    fn pick_urgent(&self, class: ClassId) -> Option<(Waiter, Spot)> {
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

    /// Where on `host` the class can be served now; `urgent`: also with what is kept free for another.
    pub(super) fn fits(&self, host: HostId, class: ClassId, urgent: bool) -> Option<Spot> {
        let state = self.hosts.get(host)?;
        if state.backoff.is_some() || state.draining.is_some() {
            return None;
        }
        let spot = self.wished_spot(host, state, class)?;
        let wanted = self.queue.get(class);
        let need = self.shapes.get(wanted.need);
        if wanted.is_task && need.cpu == 0 && state.weightless >= state.weightless_limit() {
            return None;
        }
        // What is in a bundle is kept free by that.
        let free = urgent || spot.bundle.is_some() || state.leaves_kept(need, Keeper::Class(class));
        free.then_some(spot)
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
