//! Which GPU belongs to whom: whole ones as indices, a fraction as a share of one. A host has its GPUs; a
//! bundle of a placement group has those that it holds of them.

use raymesh_wire::Quantity;
use serde::{Deserialize, Serialize};

/// GPUs to be had, each with its index on the host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gpus {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Slot {
    index: u32,
    size: u64,
    free: u64,
}

impl Gpus {
    /// All GPUs of a host.
    pub fn new(total: u64) -> Self {
        let indices: Vec<u32> = (0..total.div_ceil(Quantity::SCALE) as u32).collect();
        Self::share(total, &indices)
    }

    /// What [`Self::take`] gave for `amount`.
    pub fn share(amount: u64, taken: &[u32]) -> Self {
        let size = |nth| if nth < whole(amount) { Quantity::SCALE } else { part(amount) };
        let slot = |(nth, index): (usize, &u32)| Slot { index: *index, size: size(nth), free: size(nth) };
        Self { slots: taken.iter().enumerate().map(slot).collect() }
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
        for slot in &mut self.slots {
            if taken.len() < whole(amount) && slot.free >= Quantity::SCALE {
                slot.free -= Quantity::SCALE;
                taken.push(slot.index);
            }
        }
        let share = part(amount);
        if share > 0 {
            // The fullest that still has room, so that whole ones stay whole.
            let fitting = self.slots.iter_mut().filter(|slot| slot.free >= share);
            if let Some(slot) = fitting.min_by_key(|slot| (slot.free, slot.index)) {
                slot.free -= share;
                taken.push(slot.index);
            }
        }
        taken
    }

    /// Gives back what [`Self::take`] gave for `amount`.
    pub fn give(&mut self, amount: u64, taken: &[u32]) {
        for (nth, index) in taken.iter().enumerate() {
            let back = if nth < whole(amount) { Quantity::SCALE } else { part(amount) };
            if let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == *index) {
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
