//! Which GPU of a host belongs to whom: whole ones as indices, a fraction as a share of one.

use raymesh_wire::Quantity;
use serde::{Deserialize, Serialize};

/// The GPUs of one host, by index.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gpus {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Slot {
    size: u64,
    free: u64,
}

impl Gpus {
    pub fn new(total: u64) -> Self {
        let mut slots = vec![Slot { size: Quantity::SCALE, free: Quantity::SCALE }; whole(total)];
        if part(total) > 0 {
            slots.push(Slot { size: part(total), free: part(total) });
        }
        Self { slots }
    }

    /// Whether `amount` could be had if nobody held anything.
    pub fn could_fit(&self, amount: u64) -> bool {
        self.fit(amount, |slot| slot.size)
    }

    /// Whether `amount` can be had now: two halves are not one GPU.
    pub fn fits(&self, amount: u64) -> bool {
        self.fit(amount, |slot| slot.free)
    }

    fn fit(&self, amount: u64, of: impl Fn(&Slot) -> u64) -> bool {
        if amount == 0 {
            return true;
        }
        let full = self.slots.iter().filter(|slot| of(slot) >= Quantity::SCALE).count();
        match (whole(amount), part(amount)) {
            (wanted, 0) => full >= wanted,
            (0, share) => self.slots.iter().any(|slot| of(slot) >= share),
            (wanted, share) => {
                full > wanted
                    || full == wanted && self.slots.iter().any(|s| of(s) < Quantity::SCALE && of(s) >= share)
            }
        }
    }

    /// Takes `amount`, which must fit. Whole GPUs come first, the shared one last.
    pub fn take(&mut self, amount: u64) -> Vec<u32> {
        let mut taken = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if taken.len() < whole(amount) && slot.free >= Quantity::SCALE {
                slot.free -= Quantity::SCALE;
                taken.push(at as u32);
            }
        }
        let share = part(amount);
        if share > 0 {
            // The fullest that still has room, so that whole ones stay whole.
            let fitting = self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.free >= share);
            if let Some((at, slot)) = fitting.min_by_key(|(at, slot)| (slot.free, *at)) {
                slot.free -= share;
                taken.push(at as u32);
            }
        }
        taken
    }

    /// Gives back what [`Self::take`] gave for `amount`.
    pub fn give(&mut self, amount: u64, taken: &[u32]) {
        for (nth, at) in taken.iter().enumerate() {
            let back = if nth < whole(amount) { Quantity::SCALE } else { part(amount) };
            if let Some(slot) = self.slots.get_mut(*at as usize) {
                slot.free += back;
                debug_assert!(slot.free <= slot.size);
            }
        }
    }
}

const fn whole(amount: u64) -> usize {
    (amount / Quantity::SCALE) as usize
}

const fn part(amount: u64) -> u64 {
    amount % Quantity::SCALE
}
