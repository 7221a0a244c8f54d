//! Which pieces of an object are here.

use raymesh_wire::between::PIECE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Missing,
    /// A lane is filling it: nobody else may.
    Coming,
    Here,
}

/// See the module.
#[derive(Debug)]
pub struct Pieces {
    len: u64,
    states: Vec<Piece>,
    here: usize,
    coming: usize,
}

impl Pieces {
    /// None of so many bytes.
    pub fn none_of(len: u64) -> Self {
        let count = usize::try_from(count(len)).unwrap_or(usize::MAX);
        Self { len, states: vec![Piece::Missing; count], here: 0, coming: 0 }
    }

    /// Begins to fill the piece that has `len` bytes from `at` on. None: it is no such piece, or is not
    /// missing.
    pub fn claim(&mut self, at: u64, len: u32) -> Option<u32> {
        let index = u32::try_from(at / PIECE).ok()?;
        let (start, whole) = range(self.len, index);
        let state = self.states.get_mut(index as usize).filter(|state| **state == Piece::Missing)?;
        if start != at || whole != u64::from(len) {
            return None;
        }
        *state = Piece::Coming;
        self.coming += 1;
        Some(index)
    }

    /// The piece that was claimed is here, or is missing again.
    pub fn landed(&mut self, index: u32, whole: bool) {
        self.coming -= 1;
        self.here += usize::from(whole);
        self.states[index as usize] = if whole { Piece::Here } else { Piece::Missing };
    }

    pub fn has(&self, index: u32) -> bool {
        self.states.get(index as usize) == Some(&Piece::Here)
    }

    pub fn are_all_here(&self) -> bool {
        self.here == self.states.len()
    }

    /// Whether any is being filled.
    pub const fn are_moving(&self) -> bool {
        self.coming > 0
    }

    /// Those that are not here, also such as may be on their way: first and count.
    pub fn missing(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (index, _) in self.states.iter().enumerate().filter(|(_, state)| **state != Piece::Here) {
            let index = index as u32;
            match runs.last_mut() {
                Some((first, count)) if *first + *count == index => *count += 1,
                _ => runs.push((index, 1)),
            }
        }
        runs
    }
}

/// How many pieces so many bytes have.
pub const fn count(len: u64) -> u64 {
    len.div_ceil(PIECE)
}

/// Where a piece of an object of `len` bytes begins, and how long it is.
pub const fn range(len: u64, index: u32) -> (u64, u64) {
    let at = index as u64 * PIECE;
    let left = len.saturating_sub(at);
    (at, if left < PIECE { left } else { PIECE })
}
