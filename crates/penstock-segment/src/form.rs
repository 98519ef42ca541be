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
    pub fn expand(&self, shape: &Shape, row: usize, words: &mut [u64]) {
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

/// The rows of a key in its segment, in order: [`Shape::row`], without the rows that a form
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyId;
    use crate::synthetic::shape;

    /// The stored rows of a form, looked for one by one: the slow twin.
    fn stored_rows(shape: &Shape, layout: Layout) -> Vec<usize> {
        let is_stored = |row: &usize| {
            let (part, digit, limb) = shape.place(*row);
            let in_use = digit * shape.digit_limbs() < layout.limbs && (limb < layout.limbs || limb >= shape.num_q());
            in_use && !(layout.seeded && part == 0)
        };
        (0..shape.num_rows()).filter(is_stored).collect()
    }

    fn layouts(shape: &Shape) -> Vec<Layout> {
        let both = |limbs| [false, true].map(|seeded| Layout { limbs, seeded });
        (1..=shape.num_q()).flat_map(both).collect()
    }

    #[test]
    fn stored_rows_lie_without_gaps_in_the_order_of_whole_keys() {
        let to_sparse = shape(64, 5, 2, 3).for_key(KeyId::ToSparse).unwrap();
        for shape in [shape(64, 11, 4, 3), shape(64, 5, 2, 3), shape(64, 3, 1, 1), to_sparse] {
            for layout in layouts(&shape) {
                let twin = stored_rows(&shape, layout);
                assert_eq!(layout.num_stored(&shape), twin.len(), "{layout:?}");
                for (stored, &row) in twin.iter().enumerate() {
                    assert_eq!((layout.stored(&shape, row), layout.row(&shape, stored)), (Some(stored), row));
                }
                let found = (0..shape.num_rows()).filter(|&row| layout.stored(&shape, row).is_some());
                assert_eq!(found.collect::<Vec<_>>(), twin);
                let numbered: Vec<usize> = layout.rows(&shape).collect();
                assert_eq!(numbered.len(), layout.num_rows(&shape));
                for (number, &row) in numbered.iter().enumerate() {
                    assert_eq!(layout.number(&shape, row), Some(number));
                }
            }
        }
    }

    #[test]
    fn a_key_switch_reads_few_runs_of_the_rows_it_needs() {
        let shape = shape(64, 11, 4, 3);
        for layout in layouts(&shape) {
            for have in 0..=layout.limbs {
                for limbs in have..=layout.limbs {
                    let needs = |at: usize, row: usize| shape.rows_needed(at).iter().any(|run| run.contains(&row));
                    let twin: Vec<usize> = stored_rows(&shape, layout)
                        .into_iter()
                        .enumerate()
                        .filter(|&(_, row)| needs(limbs, row) && !needs(have, row))
                        .map(|(stored, _)| stored)
                        .collect();
                    let runs = layout.stored_between(&shape, have, limbs);
                    assert!(runs.len() <= shape.digits());
                    assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "{runs:?}");
                    assert_eq!(runs.into_iter().flatten().collect::<Vec<_>>(), twin, "{layout:?} {have} {limbs}");
                    let bytes = layout.stored_bytes(&shape, limbs) - layout.stored_bytes(&shape, have);
                    assert_eq!(bytes, (twin.len() * shape.row_stride()) as u64);
                }
            }
            assert_eq!(layout.stored_between(&shape, 0, layout.limbs).len(), 1);
        }
    }

    #[test]
    fn forms_have_the_bytes_of_the_closed_form() {
        // N = 2^16, 11 limbs of Q, 4 of P, 3 digits of 4 limbs, rows of 512 KiB.
        let shape = shape(1 << 16, 11, 4, 3);
        let bytes = |limbs, seeded| Layout { limbs, seeded }.stored_bytes(&shape, limbs);
        assert_eq!(bytes(11, false), 2 * 3 * 15 * (1 << 19));
        assert_eq!(bytes(11, true), 3 * 15 * (1 << 19));
        assert_eq!(bytes(5, false), 2 * 2 * 9 * (1 << 19));
        assert_eq!(bytes(4, true), 8 * (1 << 19));
        // The key to the sparse secret: 2 parts of 3 rows.
        let to_sparse = shape.for_key(KeyId::ToSparse).unwrap();
        let small = |seeded| Layout { limbs: 1, seeded };
        assert_eq!([false, true].map(|seeded| small(seeded).stored_bytes(&to_sparse, 1)), [6 << 19, 3 << 19]);
        assert_eq!([false, true].map(|seeded| small(seeded).word(&to_sparse)), ["full", "seeded"]);
        assert!(small(false).is_full(&to_sparse));
        let word = |limbs, seeded| Layout { limbs, seeded }.word(&shape);
        assert_eq!([word(11, false), word(11, true)], ["full", "seeded"]);
        assert_eq!([word(10, false), word(1, true)], ["truncated", "seeded+truncated"]);
    }
}
