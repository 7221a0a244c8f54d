//! Keeps room for large demands that small ones would overtake for ever.
//!
//! A class that waited for a second reserves a host: others get nothing there of what it needs, until it fits or the
//! reservation ends. Reservations end, at first soon, then after
//! twice the time each, with pauses: what runs on the host might wait for just those others.

use raymesh_wire::HostId;

use super::Controller;
use super::hosts::{Keeper, Kept};
use super::queue::{ClassId, Reservation};

/// How long a class waits before it reserves a host.
const PATIENCE: u64 = 1_000_000_000;
/// Length of the first reservation, and of the longest.
const FIRST: u64 = 1_000_000_000;
const LONGEST: u64 = 60_000_000_000;
/// Pause between two.
const PAUSE: u64 = 1_000_000_000;

impl Controller {
    /// The class has become stuck.
    pub(super) fn watch_starvation(&mut self, class: ClassId) {
        let now = self.now;
        let state = self.queue.get_mut(class);
        if state.feasible > 0 && state.check.is_none() && state.group().is_none() {
            state.served_at = now;
            self.check_at(class, now + PATIENCE);
        }
    }

    fn check_at(&mut self, class: ClassId, at: u64) {
        self.queue.get_mut(class).check = Some(at);
        self.checks.insert((at, class));
    }

    /// A waiter of the class was granted something.
    pub(super) fn served(&mut self, class: ClassId) {
        self.queue.get_mut(class).served_at = self.now;
        self.end_reservation(class);
    }

    pub(super) fn next_reservation(&self) -> Option<u64> {
        self.checks.first().map(|(at, _)| *at)
    }

    /// Starts and ends reservations whose time has come.
    pub(super) fn update_reservations(&mut self) {
        while let Some((at, class)) = self.checks.first().copied()
            && at <= self.now
        {
            self.checks.pop_first();
            self.queue.get_mut(class).check = None;
            self.check(class);
        }
    }

    fn check(&mut self, class: ClassId) {
        let now = self.now;
        if !self.queue.stuck().contains(&class) || self.queue.get(class).feasible == 0 {
            self.end_reservation(class);
            return;
        }
        let state = self.queue.get(class);
        let length = match state.reservation {
            None if now < state.served_at + PATIENCE => {
                self.check_at(class, state.served_at + PATIENCE);
                return;
            }
            None => FIRST,
            Some(Reservation { active: true, length, .. }) => {
                self.end_reservation(class);
                let host = HostId::default();
                self.queue.get_mut(class).reservation = Some(Reservation { host, active: false, length });
                self.check_at(class, now + PAUSE);
                return;
            }
            Some(Reservation { length, .. }) => (length * 2).min(LONGEST),
        };
        self.queue.get_mut(class).reservation = None;
        if let Some(host) = self.host_to_reserve(class) {
            let amounts = self.shapes.get(self.queue.get(class).need).amounts.to_vec();
            if let Some(state) = self.hosts.get_mut(host) {
                state.kept = Some(Kept { whom: Keeper::Class(class), amounts });
            }
            self.reservations += 1;
            self.queue.get_mut(class).reservation = Some(Reservation { host, active: true, length });
            self.check_at(class, now + length);
        } else {
            self.check_at(class, now + PAUSE);
        }
    }

    /// The least loaded host that could hold the class and is not reserved yet. A class without
    /// resources reserves nothing.
    fn host_to_reserve(&self, class: ClassId) -> Option<HostId> {
        let need = self.shapes.get(self.queue.get(class).need);
        let wish = self.queue.get(class).wish.as_deref();
        // What is in a bundle is kept free by that.
        if need.amounts.is_empty() || wish.is_some_and(|wish| wish.group().is_some()) {
            return None;
        }
        let will_do = |id, host| wish.is_none_or(|wish| self.will_do(id, host, need, wish));
        let free = self.hosts.iter().filter(|(id, host)| {
            host.kept.is_none() && host.draining.is_none() && host.could_fit(need) && will_do(*id, host)
        });
        free.min_by_key(|(id, host)| (host.lacks(need), *id)).map(|(id, _)| id)
    }

    fn end_reservation(&mut self, class: ClassId) {
        let Some(reservation) = self.queue.get_mut(class).reservation.take() else { return };
        if !reservation.active {
            return;
        }
        self.reservations -= 1;
        if let Some(host) = self.hosts.get_mut(reservation.host) {
            host.kept = None;
            self.hosts.freed.insert(reservation.host);
        }
    }
}
