//! The dimensions of an evaluation key, and which of its rows a key switch reads.
//!
//! A key of hybrid key switching holds, for each of `dnum` digits, two polynomials (parts A and B) over Q and P: one
//! row of N words for each limb. Source: Han & Ki, CT-RSA 2020 (ePrint 2019/688).

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::{Error, Result};

/// Bytes of a word, which holds one coefficient of one limb.
pub const WORD_BYTES: usize = 8;
/// Rows begin at multiples of this, so that they can be read past the page cache.
pub const ALIGNMENT: usize = 4096;
/// Polynomials of a digit: A, then B.
pub const PARTS: usize = 2;

const MAX_LIMBS: usize = 256;
const MAX_MODULUS_BITS: u32 = 61;

/// A digest of parameters: 128 bits of XXH3 over N, the moduli of Q and P, and the number of digits. It tells sets
/// apart. It is not a defence against somebody who makes two sets collide on purpose (headers hold the moduli
/// themselves, and those are compared too).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(u128);

impl Digest {
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        match u128::from_str_radix(text, 16) {
            Ok(value) if text.len() == 32 && lower => Ok(Self(value)),
            _ => Err(Error::value("digest", format!("'{text}'"), "32 hexadecimal digits")),
        }
    }
}

/// A checked shape. Limbs are numbered along the chain: `0..num_q` are Q's, `num_q..num_q + num_p` are P's.
///
/// One kind of key differs in its shape from the other keys of a set ([`Shape::for_key`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    ring_dim: usize,
    num_q: usize,
    digits: usize,
    digit_limbs: usize,
    moduli: Vec<u64>,
    digest: Digest,
    /// The shape of the other keys of the parameters; `None`: it is this one.
    set: Option<Arc<Shape>>,
}

impl Shape {
    /// The shape of keys over N = `ring_dim` with these moduli and `digits` digits (dnum).
    ///
    /// # Errors
    /// `Shape`: N is not a power of two from 2^4 to 2^20; no modulus in Q or in P; a modulus that is not 1 mod
    /// 2N, over 61 bits or there twice; a number of digits that leaves a digit without limbs.
    pub fn new(ring_dim: usize, moduli_q: &[u64], moduli_p: &[u64], digits: usize) -> Result<Self> {
        if !ring_dim.is_power_of_two() || !(1 << 4..=1 << 20).contains(&ring_dim) {
            return Err(Error::shape(format!("N is {ring_dim}: a power of two from 2^4 to 2^20")));
        }
        let (num_q, num_p) = (moduli_q.len(), moduli_p.len());
        if num_q == 0 || num_p == 0 || num_q + num_p > MAX_LIMBS {
            return Err(Error::shape(format!(
                "{num_q} limbs of Q and {num_p} of P: each has at least one (hybrid key switching), at most {MAX_LIMBS}"
            )));
        }
        let moduli = [moduli_q, moduli_p].concat();
        for (limb, &modulus) in moduli.iter().enumerate() {
            if modulus >> MAX_MODULUS_BITS != 0 || modulus % (2 * ring_dim as u64) != 1 || modulus == 1 {
                return Err(Error::shape(format!(
                    "modulus {modulus} of limb {limb}: 1 mod 2N = {}, at most {MAX_MODULUS_BITS} bits",
                    2 * ring_dim
                )));
            }
            if moduli[..limb].contains(&modulus) {
                return Err(Error::shape(format!("modulus {modulus} of limb {limb} is there twice")));
            }
        }
        if digits == 0 || digits > num_q || num_q.div_ceil(digits) * (digits - 1) >= num_q {
            return Err(Error::shape(format!(
                "{num_q} limbs of Q do not fall into {digits} digits of equal width with no digit empty"
            )));
        }
        let digit_limbs = num_q.div_ceil(digits);
        let digest = digest(ring_dim, num_q, digits, &moduli);
        Ok(Self { ring_dim, num_q, digits, digit_limbs, moduli, digest, set: None })
    }

    /// The shape of a key that differs from the other keys of these parameters.
    pub(crate) fn special(&self, moduli_q: &[u64], moduli_p: &[u64], digits: usize) -> Result<Self> {
        let own = Self::new(self.ring_dim, moduli_q, moduli_p, digits)?;
        Ok(Self { digest: self.digest, set: Some(Arc::new(self.set().clone())), ..own })
    }

    /// The shape of the parameters' keys, of which this may be a special one.
    pub fn set(&self) -> &Self {
        self.set.as_deref().unwrap_or(self)
    }

    pub fn ring_dim(&self) -> usize {
        self.ring_dim
    }

    /// Limbs of Q, as in a fresh ciphertext.
    pub fn num_q(&self) -> usize {
        self.num_q
    }

    /// Limbs of P, the special ones.
    pub fn num_p(&self) -> usize {
        self.moduli.len() - self.num_q
    }

    /// Digits, dnum.
    pub fn digits(&self) -> usize {
        self.digits
    }

    /// Limbs of a full digit, alpha.
    pub fn digit_limbs(&self) -> usize {
        self.digit_limbs
    }

    /// Moduli of Q, then of P.
    pub fn moduli(&self) -> &[u64] {
        &self.moduli
    }

    /// The digest of the parameters: keys of one set have the same, whatever their shapes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Digits that a key switch at `limbs` limbs decomposes into.
    pub fn active_digits(&self, limbs: usize) -> usize {
        limbs.div_ceil(self.digit_limbs)
    }

    /// Bytes of one row's words.
    pub fn row_bytes(&self) -> usize {
        self.ring_dim * WORD_BYTES
    }

    /// Bytes from the start of one row to the start of the next.
    pub fn row_stride(&self) -> usize {
        self.row_bytes().next_multiple_of(ALIGNMENT)
    }

    /// Rows of one digit.
    fn digit_rows(&self) -> usize {
        PARTS * self.moduli.len()
    }

    /// Rows of the whole key.
    pub fn num_rows(&self) -> usize {
        self.digits * self.digit_rows()
    }

    /// The number of a row in the segment: digit by digit; P's limbs, then Q's from the bottom of the chain; A's row
    /// next to B's. So a key switch at `l` limbs reads the first rows of each digit that it uses.
    ///
    /// # Panics
    /// Where an argument is out of range.
    pub fn row(&self, part: usize, digit: usize, limb: usize) -> usize {
        assert!(
            part < PARTS && digit < self.digits && limb < self.moduli.len(),
            "part {part} digit {digit} limb {limb}"
        );
        digit * self.digit_rows() + PARTS * self.place_in_digit(limb) + part
    }

    /// The place of a limb in a digit: P's limbs, then Q's.
    pub(crate) fn place_in_digit(&self, limb: usize) -> usize {
        if limb < self.num_q { self.num_p() + limb } else { limb - self.num_q }
    }

    /// `(part, digit, limb)` of a row, the inverse of [`Shape::row`].
    pub fn place(&self, row: usize) -> (usize, usize, usize) {
        let (digit, within) = (row / self.digit_rows(), row % self.digit_rows());
        let place = within / PARTS;
        let limb = if place < self.num_p() { self.num_q + place } else { place - self.num_p() };
        (within % PARTS, digit, limb)
    }

    /// `part A, digit 1, limb 3 of Q`, for messages.
    pub fn describe(&self, row: usize) -> String {
        let (part, digit, limb) = self.place(row);
        let (limb, chain) = if limb < self.num_q { (limb, "Q") } else { (limb - self.num_q, "P") };
        format!("part {}, digit {digit}, limb {limb} of {chain}", ["A", "B"][part])
    }

    /// The modulus of a row.
    pub fn modulus(&self, row: usize) -> u64 {
        self.moduli[self.place(row).2]
    }

    /// The rows that a key switch at `limbs` limbs reads, as runs of neighbours: one a digit in use, and a single one
    /// at full level.
    pub fn rows_needed(&self, limbs: usize) -> Vec<Range<usize>> {
        self.rows_between(0, limbs)
    }

    /// The rows that `limbs` limbs need and `have` limbs do not: the missing rows of a key with `have` limbs in memory.
    pub fn rows_between(&self, have: usize, limbs: usize) -> Vec<Range<usize>> {
        self.runs_between(have, limbs, PARTS, self.num_q)
    }

    /// The same where only `parts` rows of a limb are numbered, and only `top` limbs of Q.
    pub(crate) fn runs_between(&self, have: usize, limbs: usize, parts: usize, top: usize) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::with_capacity(self.digits);
        if limbs <= have {
            return runs;
        }
        for digit in 0..self.active_digits(limbs) {
            let first = if digit < self.active_digits(have) { parts * (self.num_p() + have) } else { 0 };
            let base = digit * parts * (self.num_p() + top);
            let run = base + first..base + parts * (self.num_p() + limbs);
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(run),
            }
        }
        runs
    }

    /// Bytes of the rows that a key switch at `limbs` limbs reads, as they lie in memory and on disk:
    /// digits in use x 2 parts x (limbs + limbs of P) x the row's bytes.
    pub fn bytes_needed(&self, limbs: usize) -> u64 {
        if limbs == 0 {
            return 0;
        }
        (self.active_digits(limbs) * PARTS * (limbs + self.num_p()) * self.row_stride()) as u64
    }

    /// `limbs` where it is a number of limbs of this chain.
    pub fn check_limbs(&self, limbs: usize) -> Result<()> {
        if limbs == 0 || limbs > self.num_q {
            return Err(Error::value("limbs", limbs, "at least 1 and at most the limbs of Q"));
        }
        Ok(())
    }
}

fn digest(ring_dim: usize, num_q: usize, digits: usize, moduli: &[u64]) -> Digest {
    let mut hash = Xxh3::new();
    hash.update(b"penstock evaluation key 1");
    for word in [ring_dim, num_q, moduli.len() - num_q, digits] {
        hash.update(&(word as u64).to_le_bytes());
    }
    for modulus in moduli {
        hash.update(&modulus.to_le_bytes());
    }
    Digest(hash.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::shape;

    #[test]
    fn rows_have_one_number_each() {
        let shape = shape(64, 5, 2, 3);
        let mut seen = vec![false; shape.num_rows()];
        for part in 0..PARTS {
            for digit in 0..3 {
                for limb in 0..7 {
                    let row = shape.row(part, digit, limb);
                    assert_eq!(shape.place(row), (part, digit, limb));
                    assert!(!std::mem::replace(&mut seen[row], true));
                }
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn rows_needed_are_the_digits_and_limbs_in_use() {
        let shape = shape(64, 11, 4, 3);
        for have in 0..=11 {
            for limbs in have..=11 {
                let mut expected: Vec<usize> = vec![];
                for (part, digit, limb) in (0..shape.num_rows()).map(|row| shape.place(row)) {
                    let used = |l: usize| l > 0 && digit * 4 < l && (limb < l || limb >= 11);
                    if used(limbs) && !used(have) {
                        expected.push(shape.row(part, digit, limb));
                    }
                }
                let runs = shape.rows_between(have, limbs);
                assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "{runs:?}");
                assert_eq!(runs.into_iter().flatten().collect::<Vec<_>>(), expected, "{have} {limbs}");
                let bytes = shape.bytes_needed(limbs) - shape.bytes_needed(have);
                assert_eq!(bytes, (expected.len() * shape.row_stride()) as u64);
            }
        }
        assert_eq!(shape.rows_needed(11).len(), 1);
        assert_eq!(shape.rows_needed(8).len(), 2);
    }

    #[test]
    fn a_key_of_the_bench_set_needs_the_bytes_of_the_closed_form() {
        // N = 2^16, 11 limbs of Q, 4 of P, 3 digits of 4 limbs: 2 x digits x (limbs + 4) rows of 512 KiB.
        let shape = shape(1 << 16, 11, 4, 3);
        assert_eq!(shape.bytes_needed(11), 2 * 3 * 15 * (1 << 19)); // 47.2 MB
        assert_eq!(shape.bytes_needed(8), 2 * 2 * 12 * (1 << 19)); // 25.2 MB
        assert_eq!(shape.bytes_needed(4), 2 * 8 * (1 << 19)); // 8.4 MB
        assert_eq!(shape.bytes_needed(0), 0);
    }

    #[test]
    fn shapes_that_no_key_has_are_refused() {
        let (q, p) = (crate::synthetic::moduli(64, 5), crate::synthetic::moduli(64, 7)[5..].to_vec());
        assert!(Shape::new(64, &q, &p, 3).is_ok());
        assert!(Shape::new(65, &q, &p, 3).is_err());
        assert!(Shape::new(8, &q, &p, 3).is_err());
        assert!(Shape::new(64, &[], &p, 1).is_err());
        assert!(Shape::new(64, &q, &[], 3).is_err());
        assert!(Shape::new(64, &q, &p, 0).is_err());
        assert!(Shape::new(64, &q, &p, 4).is_err()); // digits of 2 limbs: the fourth would be empty
        assert!(Shape::new(64, &q, &q[..1], 3).is_err());
        assert!(Shape::new(64, &[q[0] + 2], &p, 1).is_err());
        assert!(Shape::new(64, &[(1 << 61) + 1], &p, 1).is_err());
    }

    #[test]
    fn digests_differ_with_every_number_of_the_shape() {
        let (q, p) = (crate::synthetic::moduli(64, 6), crate::synthetic::moduli(64, 9)[6..].to_vec());
        let one = Shape::new(64, &q, &p, 3).unwrap().digest();
        assert_eq!(one, Shape::new(64, &q, &p, 3).unwrap().digest());
        assert_eq!(one.to_string().parse::<Digest>().unwrap(), one);
        let swapped: Vec<u64> = q.iter().rev().copied().collect();
        let moved = ([&q[..], &p[..1]].concat(), &p[1..]);
        let others = [(&q[..], &p[..], 2), (&q[..5], &p[..], 3), (&swapped[..], &p[..], 3), (&moved.0[..], moved.1, 3)];
        for (q, p, digits) in others {
            assert_ne!(one, Shape::new(64, q, p, digits).unwrap().digest());
        }
    }
}
