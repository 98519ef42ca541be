//! The kernels in plain Rust: any processor, and the words that the vector kernels are held against.
//!
//! The working form is canonical words; conversions sum in 128 bits.

use super::prime::Table;
use super::{Digit, Source};
use crate::modulus::{Modulus, Shoup};

fn factor(table: &Table, index: usize) -> Shoup {
    Shoup { factor: table.factors[index], quotient: table.quotients[index] }
}

/// Radix-2, in place, canonical to canonical.
pub(super) fn forward(q: Modulus, table: &Table, row: &mut [u64]) {
    let (mut blocks, mut half) = (1, row.len() / 2);
    while half > 0 {
        for (k, block) in row.chunks_exact_mut(2 * half).enumerate() {
            let w = factor(table, blocks + k);
            let (low, high) = block.split_at_mut(half);
            for (x, y) in low.iter_mut().zip(high) {
                let t = q.mul_shoup(*y, w);
                (*x, *y) = (q.add(*x, t), q.sub(*x, t));
            }
        }
        (blocks, half) = (2 * blocks, half / 2);
    }
}

/// Radix-2, canonical evaluations to canonical coefficients times `scale`, which holds 1/N.
pub(super) fn inverse(q: Modulus, table: &Table, source: &[u64], scale: u64, row: &mut [u64]) {
    row.copy_from_slice(source);
    let (mut blocks, mut half) = (row.len() / 2, 1);
    while blocks > 0 {
        for (k, block) in row.chunks_exact_mut(2 * half).enumerate() {
            let w = factor(table, blocks + k);
            let (low, high) = block.split_at_mut(half);
            for (x, y) in low.iter_mut().zip(high) {
                (*x, *y) = (q.add(*x, *y), q.mul_shoup(q.sub(*x, *y), w));
            }
        }
        (blocks, half) = (blocks / 2, 2 * half);
    }
    self::scale(q, row, scale);
}

/// Words whose 128-bit sums are kept at a time, and summands of a sum: 32 products of less than 2^122 fit 128 bits.
const BLOCK: usize = 64;
const SUMMANDS: usize = 32;

/// `out <- sum of x * y mod q` over pairs of `(row, what a word of it is multiplied by)`, block by block.
fn sums<'a, Y>(
    q: Modulus,
    count: usize,
    out: &mut [u64],
    row: impl Fn(usize) -> &'a [u64],
    lift: u64,
    factors: impl Fn(usize, std::ops::Range<usize>) -> Y,
) where
    Y: Iterator<Item = u64>,
{
    for first in (0..count).step_by(SUMMANDS) {
        for (b, out) in out.chunks_mut(BLOCK).enumerate() {
            let at = b * BLOCK..b * BLOCK + out.len();
            let mut sums = [0u128; BLOCK];
            if first > 0 {
                sums.iter_mut().zip(out.iter()).for_each(|(sum, word)| *sum = u128::from(*word));
            }
            for k in first..(first + SUMMANDS).min(count) {
                for ((sum, x), y) in sums.iter_mut().zip(&row(k)[at.clone()]).zip(factors(k, at.clone())) {
                    *sum += u128::from(x.wrapping_add(lift)) * u128::from(y);
                }
            }
            out.iter_mut().zip(sums).for_each(|(word, sum)| *word = q.reduce_wide(sum));
        }
    }
}

pub(super) fn convert(q: Modulus, sources: &[Source<'_>], out: &mut [u64]) {
    // A multiple of q above 2^60 makes a signed source positive.
    let lift = q.value() * ((1 << 60) / q.value() + 1);
    let factor = |k: usize, _| std::iter::repeat(sources[k].factor);
    sums(q, sources.len(), out, |k| sources[k].row, lift, factor);
}

pub(super) fn sum_of_products(q: Modulus, digits: &[Digit<'_>], key: &[&[u64]], out: &mut [u64]) {
    sums(q, digits.len(), out, |k| digits[k].row, 0, |k, at| key[k][at].iter().copied());
}

pub(super) fn subtract_and_scale(q: Modulus, x: &[u64], lifted: &mut [u64], factor: u64, plus: Option<&[u64]>) {
    let factor = q.shoup(factor);
    for (k, (x, to)) in x.iter().zip(lifted).enumerate() {
        *to = q.mul_shoup(q.sub(*x, *to), factor);
        if let Some(plus) = plus {
            *to = q.add(*to, plus[k]);
        }
    }
}

pub(super) fn negate_where(q: u64, signs: &[u8], row: &mut [u64]) {
    for (k, word) in row.iter_mut().enumerate() {
        // Signs are public. A word may be a secret's, so no branch asks whether it is 0.
        let sign = u64::from(signs[k / 8] >> (k % 8) & 1).wrapping_neg();
        let nonzero = ((*word | word.wrapping_neg()) as i64 >> 63) as u64;
        *word = word.wrapping_sub(q & sign & nonzero);
    }
}

pub(super) fn add(q: Modulus, row: &mut [u64], other: &[u64]) {
    for (x, y) in row.iter_mut().zip(other) {
        *x = q.add(*x, *y);
    }
}

pub(super) fn subtract(q: Modulus, row: &mut [u64], other: &[u64]) {
    for (x, y) in row.iter_mut().zip(other) {
        *x = q.sub(*x, *y);
    }
}

pub(super) fn scale(q: Modulus, row: &mut [u64], factor: u64) {
    let factor = q.shoup(factor);
    for word in row {
        *word = q.mul_shoup(*word, factor);
    }
}
