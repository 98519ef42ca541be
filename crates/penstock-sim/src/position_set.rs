/// A set of positions in `0..len`: a bit each, and a tree of summary words above, so that the
/// largest member is found in `log64(len)` steps.
pub(crate) struct PositionSet {
    /// `levels[0]` has a bit a position; a bit above says that a word below is not zero.
    levels: Vec<Vec<u64>>,
}

const WORD: usize = u64::BITS as usize;

impl PositionSet {
    pub(crate) fn new(len: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = len.max(1);
        loop {
            let words = bits.div_ceil(WORD);
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            bits = words;
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, position: usize) {
        let mut bit = position;
        for level in &mut self.levels {
            let word = &mut level[bit / WORD];
            let before = *word;
            *word |= 1 << (bit % WORD);
            if before != 0 {
                return;
            }
            bit /= WORD;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, position: usize) {
        let mut bit = position;
        for level in &mut self.levels {
            let word = &mut level[bit / WORD];
            *word &= !(1 << (bit % WORD));
            if *word != 0 {
                return;
            }
            bit /= WORD;
        }
    }

    /// The largest member below `limit`.
    #[inline]
    pub(crate) fn last_before(&self, limit: usize) -> Option<usize> {
        // Up, until a word has a member below the limit; then down along the highest bits.
        let mut bit = limit;
        for (height, level) in self.levels.iter().enumerate() {
            // A limit past the end, at the top: take the last word whole.
            let (word, mask) = match level.get(bit / WORD) {
                Some(&word) => (word, (1_u64 << (bit % WORD)) - 1),
                None => (level[level.len() - 1], u64::MAX),
            };
            let index = (bit / WORD).min(level.len() - 1);
            let below = word & mask;
            if below != 0 {
                let mut found = index * WORD + highest(below);
                for lower in self.levels[..height].iter().rev() {
                    found = found * WORD + highest(lower[found]);
                }
                return Some(found);
            }
            bit = index;
        }
        None
    }
}

#[inline]
fn highest(word: u64) -> usize {
    WORD - 1 - word.leading_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        for len in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let (mut set, mut reference) = (PositionSet::new(len), BTreeSet::new());
            let mut state = 12345_u64;
            let mut draw = |below: usize| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) as usize % below
            };
            for _ in 0..3000 {
                let position = draw(len);
                if draw(3) == 0 {
                    set.remove(position);
                    reference.remove(&position);
                } else {
                    set.insert(position);
                    reference.insert(position);
                }
                for limit in [draw(len + 1), len, 0] {
                    assert_eq!(set.last_before(limit), reference.range(..limit).next_back().copied(), "{len} {limit}");
                }
            }
            while let Some(last) = set.last_before(len) {
                assert_eq!(reference.pop_last(), Some(last));
                set.remove(last);
            }
            assert!(reference.is_empty());
        }
    }
}
