//! Resource quantities in ten-thousandths, as in Ray: exact sums, no floating-point drift.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An amount of one resource, in units of 1/10,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Quantity(pub u64);

impl Quantity {
    /// Parts of a whole.
    pub const SCALE: u64 = 10_000;
    pub const ONE: Self = Self(Self::SCALE);

    /// Rounds to the nearest 1/10,000; negative and non-finite amounts are the caller's to refuse.
    #[must_use]
    pub fn from_f64(amount: f64) -> Self {
        Self((amount * Self::SCALE as f64).round() as u64)
    }

    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / Self::SCALE as f64
    }
}

/// Named quantities, ordered by name; zero amounts are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceSet(BTreeMap<String, Quantity>);

impl ResourceSet {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `name` to `amount`, removing it when zero.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        if amount.0 == 0 {
            self.0.remove(name);
        } else {
            self.0.insert(name.to_owned(), amount);
        }
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every amount of `other` is here.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|(name, amount)| self.get(name) >= *amount)
    }

    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            sum.0 = sum.0.saturating_add(amount.0);
        }
    }

    /// Takes `other` away, if all of it is here; else changes nothing and answers false.
    #[must_use]
    pub fn try_sub(&mut self, other: &Self) -> bool {
        if !self.covers(other) {
            return false;
        }
        for (name, amount) in &other.0 {
            let rest = self.get(name).0 - amount.0;
            self.set(name, Quantity(rest));
        }
        true
    }
}

impl<S: AsRef<str>> FromIterator<(S, Quantity)> for ResourceSet {
    fn from_iter<I: IntoIterator<Item = (S, Quantity)>>(items: I) -> Self {
        let mut set = Self::new();
        for (name, amount) in items {
            set.set(name.as_ref(), amount);
        }
        set
    }
}
