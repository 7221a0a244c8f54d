//! Words between the controller and one host, numbered, so that they go on where they were when the head has
//! been started again. Pure.
//!
//! A link keeps the order and loses nothing while both ends live; a head that was started again is another
//! end. So each side keeps its words until the other has said that it will not forget them: the head,
//! that they are in its journal. What a controller says after its restart it numbers as before, since it says
//! the same things; so whoever has heard it already knows.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// So many words are taken in before the other end is told, if there is nothing else to say.
const TELL_EVERY: u64 = 64;

/// Both directions, as one end sees them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line<T> {
    /// Words of this end that the other may need again, oldest first.
    kept: VecDeque<T>,
    /// The number of the last word before these.
    heard: u64,
    /// The last that may leave.
    released: u64,
    /// The last that has left, on the present link.
    sent: u64,
    /// The last of the other end that has arrived.
    arrived: u64,
    /// The last of these that will not be forgotten.
    settled: u64,
    /// What the other end was told of that.
    told: u64,
    /// Whether the other end has said, on the present link, what has arrived there.
    #[serde(skip)]
    open: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            heard: 0,
            released: 0,
            sent: 0,
            arrived: 0,
            settled: 0,
            told: 0,
            open: false,
        }
    }
}

impl<T> Line<T> {
    /// Takes on a word; its number.
    pub fn push(&mut self, word: T) -> u64 {
        self.kept.push_back(word);
        self.last()
    }

    /// The number of the last word that was taken on.
    pub fn last(&self) -> u64 {
        self.heard + self.kept.len() as u64
    }

    /// The last word that cannot be said again: the other end has promised to know it.
    pub const fn forgotten(&self) -> u64 {
        self.heard
    }

    /// Everything up to this number may leave.
    pub fn release(&mut self, number: u64) {
        self.released = self.released.max(number);
    }

    /// Everything may leave.
    pub fn release_all(&mut self) {
        self.release(self.last());
    }

    /// The next word to send, and its number.
    pub fn next_word(&mut self) -> Option<(u64, &T)> {
        if !self.open || self.sent >= self.released {
            return None;
        }
        let word = self.kept.get(usize::try_from(self.sent - self.heard).ok()?)?;
        self.sent += 1;
        Some((self.sent, word))
    }

    /// The other end will not forget what has arrived there up to this number.
    pub fn heard(&mut self, number: u64) {
        while self.heard < number && self.kept.pop_front().is_some() {
            self.heard += 1;
        }
        self.sent = self.sent.max(self.heard);
    }

    /// A word of the other end: whether it is the next, and not one that is here already.
    #[must_use]
    pub fn accept(&mut self, number: u64) -> bool {
        let is_next = number == self.arrived + 1;
        self.arrived += u64::from(is_next);
        is_next
    }

    /// Everything up to this number has arrived.
    pub fn arrive(&mut self, number: u64) {
        self.arrived = self.arrived.max(number);
    }

    /// What has arrived up to this number will not be forgotten.
    pub fn settle(&mut self, number: u64) {
        self.settled = self.settled.max(number);
    }

    /// Whether the other end should be told how far this one is, though there is nothing else to say.
    #[must_use]
    pub const fn owes_word(&self) -> bool {
        self.open && self.settled >= self.told + TELL_EVERY
    }

    /// How far this end is, to be told to the other.
    pub const fn tell(&mut self) -> u64 {
        self.told = self.settled;
        self.settled
    }

    /// How far this end is: what it says first on a new link, and of what it will not hear again.
    #[must_use]
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// There is a new link, on which the other end has not spoken.
    pub const fn close(&mut self) {
        self.open = false;
    }

    /// The other end says what has arrived there: the rest is sent, also again.
    pub fn open(&mut self, heard: u64) {
        self.heard(heard);
        self.sent = self.heard;
        self.open = true;
    }

    /// Words that are kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests;
