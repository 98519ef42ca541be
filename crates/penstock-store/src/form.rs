//! The form of a key: how many limbs its rows reach, and whether a seed stands for part A.

use std::ops::Range;

use penstock_seed::Seed;

use crate::Result;
use crate::shape::{PARTS, Shape};

/// The rows that a key has, and where part A comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// A key switch at this many limbs of Q finds its rows, one at more does not.
    pub limbs: usize,
    /// Part A of each digit is [`penstock_seed::expand`] of this, and is not stored.
    pub seed: Option<Seed>,
}

impl Form {
    /// Every row of `shape`, stored.
    pub fn full(shape: &Shape) -> Self {
        Self { limbs: shape.num_q(), seed: None }
    }

    pub fn layout(&self) -> Layout {
        Layout { limbs: self.limbs, seeded: self.seed.is_some() }
    }

    /// Writes the words of a row of part A that the seed stands for; nothing without a seed.
    pub(crate) fn expand(&self, shape: &Shape, row: usize, words: &mut [u64]) {
        let (_, digit, limb) = shape.place(row);
        if let Some(seed) = &self.seed {
            penstock_seed::expand(seed, digit as u32, limb as u32, shape.modulus(row), words);
        }
    }

    /// # Errors
    /// `Value`: limbs that the chain does not have.
    pub fn check(&self, shape: &Shape) -> Result<()> {
        shape.check_limbs(self.limbs)
    }
}

/// Which rows of a key its segment stores, and in which order: those of [`Shape::row`], without the rows that a form
/// leaves out. So the offset of a row follows from its number, and a key switch reads one run a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Limbs of Q that the rows reach.
    pub limbs: usize,
    /// Part A is expanded from a seed.
    pub seeded: bool,
}

impl Layout {
    /// Every row of `shape`.
    pub fn full(shape: &Shape) -> Self {
        Self { limbs: shape.num_q(), seeded: false }
    }

    pub fn is_full(&self, shape: &Shape) -> bool {
        *self == Self::full(shape)
    }

    /// Rows that the key has, stored or expanded.
    pub fn num_rows(&self, shape: &Shape) -> usize {
        shape.active_digits(self.limbs) * PARTS * (shape.num_p() + self.limbs)
    }

    /// Rows in the segment.
    pub fn num_stored(&self, shape: &Shape) -> usize {
        self.num_rows(shape) / PARTS * self.parts()
    }

    /// Stored rows of a limb.
    fn parts(&self) -> usize {
        if self.seeded { 1 } else { PARTS }
    }

    /// The rows that the key has, by their numbers in [`Shape::row`].
    pub fn rows<'a>(&self, shape: &'a Shape) -> impl Iterator<Item = usize> + use<'a> {
        shape.rows_needed(self.limbs).into_iter().flatten()
    }

    /// The place of a row among the rows that the key has; `None`: a row above its limbs.
    pub fn number(&self, shape: &Shape, row: usize) -> Option<usize> {
        let (part, digit, limb) = shape.place(row);
        let place = shape.place_in_digit(limb);
        let places = shape.num_p() + self.limbs;
        let known = digit < shape.active_digits(self.limbs) && place < places;
        known.then(|| PARTS * (digit * places + place) + part)
    }

    /// The place of a row among the stored ones; `None`: it is expanded, or above the key's limbs.
    pub fn stored(&self, shape: &Shape, row: usize) -> Option<usize> {
        let number = self.number(shape, row)?;
        match (self.seeded, number % PARTS) {
            (false, _) => Some(number),
            (true, 0) => None,
            (true, _) => Some(number / PARTS),
        }
    }

    /// The row of [`Shape::row`] at a place among the stored ones.
    pub fn row(&self, shape: &Shape, stored: usize) -> usize {
        let number = if self.seeded { PARTS * stored + 1 } else { stored };
        let places = shape.num_p() + self.limbs;
        let (digit, within) = (number / (PARTS * places), number % (PARTS * places));
        digit * PARTS * shape.moduli().len() + within
    }

    /// Places of the stored rows that `limbs` limbs need and `have` limbs do not, as runs of neighbours.
    pub fn stored_between(&self, shape: &Shape, have: usize, limbs: usize) -> Vec<Range<usize>> {
        shape.runs_between(have, limbs, self.parts(), self.limbs)
    }

    /// Bytes in storage of the rows that a key switch at `limbs` limbs reads.
    pub fn stored_bytes(&self, shape: &Shape, limbs: usize) -> u64 {
        shape.bytes_needed(limbs) / PARTS as u64 * self.parts() as u64
    }

    /// `full`, `seeded`, `truncated` or `seeded+truncated`.
    pub fn word(&self, shape: &Shape) -> &'static str {
        match (self.seeded, self.limbs < shape.num_q()) {
            (false, false) => "full",
            (true, false) => "seeded",
            (false, true) => "truncated",
            (true, true) => "seeded+truncated",
        }
    }
}
