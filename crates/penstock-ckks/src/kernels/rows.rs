//! Everything between transforms, with vectors: base conversion, inner products, the end of a division by P, and sums
//! and products of rows.
//!
//! All loops are over chunks of whole vectors; lengths are checked by the caller (`dispatch`).

use super::arithmetic::{Arithmetic, Double, Word};
use super::lanes::Lanes;
use super::prime::encode;
use super::{Digit, Source};
use crate::modulus::Modulus;

/// Sources that one pass of a conversion takes: the bounds below are for so many.
const SOURCES: usize = 4;
/// Digits that one pass of an inner product of 60-bit words takes: 2 * 7 products of 30 bits by 30 stay below 2^64.
const DIGITS: usize = 7;
/// Products of doubles that are added up before their sum is settled.
const DOUBLES: usize = 8;

#[inline(always)]
fn chunks<L: Lanes>(row: &[u64]) -> &[L::Chunk] {
    bytemuck::cast_slice(row)
}

#[inline(always)]
fn chunks_mut<L: Lanes>(row: &mut [u64]) -> &mut [L::Chunk] {
    bytemuck::cast_slice_mut(row)
}

/// `sum of source * factor mod q`, in the working form; a source is a signed word, below `DOUBLE_LIMIT` or, if wide, 2^60.
///
/// For sums of up to 4 products the quotient by q is estimated in doubles and the rest taken from the low 64 bits. The
/// estimate is off by half a unit in the last place of each of its 4 sums, by the error of each factor / q times its
/// source, and by 1/2 where it is made an integer:
/// * narrow sources: 1/8 + 1/4 + 1/4 + 1/2 for sums below 2^50.03 to 2^52.03. A quotient below 1 is rounded by 2^-54 at
///   most, so by 0.26 for the four sources where q is a double. A wider q and its factor are rounded by 2^-53 of
///   themselves first: 1.27 for the four. The rest is within 1.9 q, or 2.9 q.
/// * wide sources, for a q that is a double: 64 + 128 + 256 + 256 for sums below 2^60 to 2^62, 64 for each of the four
///   sources, which are rounded themselves, and 64 for each quotient. The rest is within 1217 q < 2^60.3, and reduced
///   again. For a wider q these sources are multiplied one by one.
#[inline(always)]
pub(super) fn convert<L: Lanes>(lanes: L, q: Modulus, double: bool, sources: &[Source<'_>], out: &mut [u64]) {
    for (pass, part) in sources.chunks(SOURCES).enumerate() {
        let wide = part.iter().any(|source| source.wide);
        macro_rules! pass {
            ($count:literal) => {
                match (double, wide, pass > 0) {
                    (true, _, false) => convert_double::<L, $count, false>(lanes, q, part, out),
                    (true, _, true) => convert_double::<L, $count, true>(lanes, q, part, out),
                    (false, false, false) => convert_narrow::<L, $count, false>(lanes, q, part, out),
                    (false, false, true) => convert_narrow::<L, $count, true>(lanes, q, part, out),
                    (false, true, false) => convert_wide::<L, $count, false>(lanes, q, part, out),
                    (false, true, true) => convert_wide::<L, $count, true>(lanes, q, part, out),
                }
            };
        }
        match part.len() {
            1 => pass!(1),
            2 => pass!(2),
            3 => pass!(3),
            _ => pass!(4),
        }
    }
}

/// The sources' rows, factors, and factors divided by q, as arrays, so that the loop over them unrolls.
type Unpacked<'a, L, const S: usize> =
    ([&'a [<L as Lanes>::Chunk]; S], [<L as Lanes>::Int; S], [<L as Lanes>::Real; S]);

#[inline(always)]
fn unpack<'a, L: Lanes, const S: usize>(lanes: L, q: Modulus, part: &[Source<'a>]) -> Unpacked<'a, L, S> {
    let mut rows: [&[L::Chunk]; S] = [&[]; S];
    let (mut factors, mut quotients) = ([lanes.splat(0); S], [lanes.splat_real(0.0); S]);
    for (k, source) in part.iter().enumerate().take(S) {
        rows[k] = chunks::<L>(source.row);
        factors[k] = lanes.splat(source.factor);
        quotients[k] = lanes.splat_real(source.factor as f64 / q.value() as f64);
    }
    (rows, factors, quotients)
}

/// The low 64 bits of `sum - estimated quotient * q`.
#[inline(always)]
fn estimated<L: Lanes, const S: usize>(
    lanes: L,
    rows: &[&[L::Chunk]; S],
    k: usize,
    factors: &[L::Int; S],
    quotients: &[L::Real; S],
    q: L::Int,
) -> L::Int {
    let (mut estimate, mut low) = (lanes.splat_real(0.0), lanes.splat(0));
    for s in 0..S {
        let y = lanes.load(&rows[s][k]);
        estimate = lanes.mul_add(lanes.real_of_signed(y), quotients[s], estimate);
        low = lanes.add(low, lanes.mul_low(y, factors[s]));
    }
    lanes.sub(low, lanes.mul_low(lanes.to_signed(estimate), q))
}

#[inline(always)]
fn convert_double<L: Lanes, const S: usize, const MORE: bool>(
    lanes: L,
    q: Modulus,
    part: &[Source<'_>],
    out: &mut [u64],
) {
    let a = Double::new(lanes, q);
    let q_int = lanes.splat(q.value());
    let (rows, factors, quotients) = unpack::<L, S>(lanes, q, part);
    let out = chunks_mut::<L>(out);
    let rows = rows.map(|row| &row[..out.len()]);
    for (k, to) in out.iter_mut().enumerate() {
        let rest = estimated(lanes, &rows, k, &factors, &quotients, q_int);
        let quotient = lanes.to_small(lanes.mul_real(lanes.real_of_signed(rest), a.inverse_q));
        let mut sum = lanes.real_of_signed(lanes.sub(rest, lanes.mul_low(quotient, q_int)));
        if MORE {
            sum = a.settle_real(lanes.add_real(sum, lanes.real(lanes.load(to))));
        }
        lanes.store(to, lanes.int(sum));
    }
}

#[inline(always)]
fn convert_narrow<L: Lanes, const S: usize, const MORE: bool>(
    lanes: L,
    q: Modulus,
    part: &[Source<'_>],
    out: &mut [u64],
) {
    let a = Word::new(lanes, q);
    let q_lifted = lanes.add(a.q2, a.q);
    let (rows, factors, quotients) = unpack::<L, S>(lanes, q, part);
    let out = chunks_mut::<L>(out);
    let rows = rows.map(|row| &row[..out.len()]);
    for (k, to) in out.iter_mut().enumerate() {
        let rest = estimated(lanes, &rows, k, &factors, &quotients, a.q);
        let mut sum = a.fold(lanes.add(rest, q_lifted), a.q4); // in [0, 6q)
        if MORE {
            sum = a.fold(lanes.add(sum, lanes.load(to)), a.q4);
        }
        lanes.store(to, sum);
    }
}

#[inline(always)]
fn convert_wide<L: Lanes, const S: usize, const MORE: bool>(
    lanes: L,
    q: Modulus,
    part: &[Source<'_>],
    out: &mut [u64],
) {
    let a = Word::new(lanes, q);
    // A multiple of q above 2^60 makes a signed source positive.
    let lift = lanes.splat(q.value() * ((1 << 60) / q.value() + 1));
    let (rows, factors, _) = unpack::<L, S>(lanes, q, part);
    let mut prepared = [(factors[0], factors[0]); S];
    for (k, source) in part.iter().enumerate().take(S) {
        prepared[k] = a.splat(encode(q, false, source.factor));
    }
    let out = chunks_mut::<L>(out);
    let rows = rows.map(|row| &row[..out.len()]);
    for (k, to) in out.iter_mut().enumerate() {
        let mut sum = if MORE { lanes.load(to) } else { lanes.splat(0) };
        for s in 0..S {
            let y = lanes.add(lanes.load(&rows[s][k]), lift);
            sum = a.fold(lanes.add(sum, a.mul(y, prepared[s])), a.q4);
        }
        lanes.store(to, sum);
    }
}

/// Canonical sums over the digits of `digit * key`, for both parts of a key.
#[inline(always)]
pub(super) fn inner_product<L: Lanes>(
    lanes: L,
    q: Modulus,
    double: bool,
    digits: &[Digit<'_>],
    keys: [&[&[u64]]; 2],
    out: [&mut [u64]; 2],
) {
    if double {
        double_product(lanes, q, digits, keys, out);
    } else {
        let [out0, out1] = out;
        word_product(lanes, q, digits, keys[0], out0);
        word_product(lanes, q, digits, keys[1], out1);
    }
}

/// Canonical sums of `x * key`.
#[inline(always)]
pub(super) fn sum_of_products<L: Lanes>(
    lanes: L,
    q: Modulus,
    double: bool,
    digits: &[Digit<'_>],
    key: &[&[u64]],
    out: &mut [u64],
) {
    if double {
        double_product(lanes, q, digits, [key], [out]);
    } else {
        word_product(lanes, q, digits, key, out);
    }
}

/// The products of a digit's residue, at most q/2, with a word below q are at most 0.63 q (see `arithmetic`). A sum of
/// [`DOUBLES`] of them and a settled one, which is at most q/2 + 1, is at most 5.6 q, below 2^53: it is exact. So it is
/// settled before the next ones join.
#[inline(always)]
fn double_product<L: Lanes, const K: usize>(
    lanes: L,
    q: Modulus,
    digits: &[Digit<'_>],
    keys: [&[&[u64]]; K],
    out: [&mut [u64]; K],
) {
    let a = Double::new(lanes, q);
    let mut out = out.map(chunks_mut::<L>);
    for k in 0..out[0].len() {
        let mut sums = [lanes.splat_real(0.0); K];
        for first in (0..digits.len()).step_by(DOUBLES) {
            if first > 0 {
                sums = sums.map(|sum| a.settle_real(sum));
            }
            for (e, digit) in digits.iter().enumerate().skip(first).take(DOUBLES) {
                let x = lanes.load(&chunks::<L>(digit.row)[k]);
                let x = if digit.canonical { lanes.real(a.import(x)) } else { lanes.real(x) };
                for (sum, key) in sums.iter_mut().zip(keys) {
                    let y = lanes.real_of_small(lanes.load(&chunks::<L>(key[e])[k]));
                    *sum = lanes.add_real(*sum, a.mul_real(x, y));
                }
            }
        }
        for (to, sum) in out.iter_mut().zip(sums) {
            lanes.store(&mut to[k], a.canonical_real(sum));
        }
    }
}

/// Operands split at 30 bits: three sums of products that do not overflow, reduced once.
#[inline(always)]
fn word_product<L: Lanes>(lanes: L, q: Modulus, digits: &[Digit<'_>], key: &[&[u64]], out: &mut [u64]) {
    let a = Word::new(lanes, q);
    let one = a.splat(encode(q, false, 1));
    let two_30 = a.splat(encode(q, false, q.reduce(1 << 30)));
    let two_60 = a.splat(encode(q, false, q.reduce(1 << 60)));
    let mask = lanes.splat((1 << 30) - 1);
    for (pass, (digits, key)) in digits.chunks(DIGITS).zip(key.chunks(DIGITS)).enumerate() {
        let out = chunks_mut::<L>(out);
        for (k, to) in out.iter_mut().enumerate() {
            let (mut low, mut middle, mut high) = (lanes.splat(0), lanes.splat(0), lanes.splat(0));
            for (digit, key) in digits.iter().zip(key) {
                let (x, y) = (lanes.load(&chunks::<L>(digit.row)[k]), lanes.load(&chunks::<L>(key)[k]));
                let (x0, x1) = (lanes.and(x, mask), lanes.shift_right_30(x));
                let (y0, y1) = (lanes.and(y, mask), lanes.shift_right_30(y));
                low = lanes.add(low, lanes.mul_half(x0, y0));
                high = lanes.add(high, lanes.mul_half(x1, y1));
                middle = lanes.add(middle, lanes.add(lanes.mul_half(x0, y1), lanes.mul_half(x1, y0)));
            }
            let sum = a.fold(lanes.add(a.mul(high, two_60), a.mul(middle, two_30)), a.q4);
            let mut sum = a.fold(lanes.add(sum, a.mul(low, one)), a.q4);
            if pass > 0 {
                sum = a.fold(lanes.add(sum, lanes.load(to)), a.q4);
            }
            lanes.store(to, a.canonical(sum));
        }
    }
}

/// Canonical `(x - lifted) * factor + plus`; `lifted` is in the working form, the rest canonical.
#[inline(always)]
pub(super) fn subtract_and_scale<L: Lanes>(
    lanes: L,
    q: Modulus,
    double: bool,
    x: &[u64],
    lifted: &mut [u64],
    factor: u64,
    plus: Option<&[u64]>,
) {
    let (x, to) = (chunks::<L>(x), chunks_mut::<L>(lifted));
    let plus = plus.map(chunks::<L>);
    if double {
        let a = Double::new(lanes, q);
        let factor = a.splat(encode(q, true, factor));
        for (k, (x, to)) in x.iter().zip(to).enumerate() {
            let difference = lanes.sub_real(lanes.real_of_small(lanes.load(x)), lanes.real(lanes.load(to)));
            let mut y = a.mul_real(difference, factor);
            if let Some(plus) = plus {
                y = lanes.add_real(y, lanes.real_of_small(lanes.load(&plus[k])));
            }
            lanes.store(to, a.canonical_real(y));
        }
    } else {
        let a = Word::new(lanes, q);
        let factor = a.splat(encode(q, false, factor));
        for (k, (x, to)) in x.iter().zip(to).enumerate() {
            let difference = lanes.add(lanes.sub(lanes.load(x), lanes.load(to)), a.q4);
            let mut y = a.mul(difference, factor);
            if let Some(plus) = plus {
                y = a.fold(lanes.add(y, lanes.load(&plus[k])), a.q4);
            }
            lanes.store(to, a.canonical(y));
        }
    }
}

/// `x - q` in the lanes whose bit is set in `signs` (one byte for 8 words), except where x is 0.
#[inline(always)]
pub(super) fn negate_where<L: Lanes>(lanes: L, q: u64, signs: &[u8], row: &mut [u64]) {
    let q = lanes.splat(q);
    for (k, chunk) in chunks_mut::<L>(row).iter_mut().enumerate() {
        let bits = signs[k * L::LANES / 8] >> (k * L::LANES % 8);
        lanes.store(chunk, lanes.sub_where(bits, lanes.load(chunk), q));
    }
}

/// From the working form to canonical words.
#[inline(always)]
pub(super) fn canonical<L: Lanes>(lanes: L, q: Modulus, double: bool, row: &mut [u64]) {
    if double {
        let a = Double::new(lanes, q);
        for chunk in chunks_mut::<L>(row) {
            lanes.store(chunk, a.canonical(lanes.load(chunk)));
        }
    } else {
        let a = Word::new(lanes, q);
        for chunk in chunks_mut::<L>(row) {
            lanes.store(chunk, a.canonical(lanes.load(chunk)));
        }
    }
}

/// From canonical words to the working form.
#[inline(always)]
pub(super) fn working<L: Lanes>(lanes: L, q: Modulus, double: bool, row: &mut [u64]) {
    if double {
        let a = Double::new(lanes, q);
        for chunk in chunks_mut::<L>(row) {
            lanes.store(chunk, a.import(lanes.load(chunk)));
        }
    }
}

/// `row += other`, canonical.
#[inline(always)]
pub(super) fn add<L: Lanes>(lanes: L, q: u64, row: &mut [u64], other: &[u64]) {
    let q = lanes.splat(q);
    for (x, y) in chunks_mut::<L>(row).iter_mut().zip(chunks::<L>(other)) {
        lanes.store(x, lanes.sub_if_not_less(lanes.add(lanes.load(x), lanes.load(y)), q));
    }
}

/// `row -= other`, canonical.
#[inline(always)]
pub(super) fn subtract<L: Lanes>(lanes: L, q: u64, row: &mut [u64], other: &[u64]) {
    let q = lanes.splat(q);
    for (x, y) in chunks_mut::<L>(row).iter_mut().zip(chunks::<L>(other)) {
        let lifted = lanes.sub(lanes.add(lanes.load(x), q), lanes.load(y));
        lanes.store(x, lanes.sub_if_not_less(lifted, q));
    }
}

/// `row *= factor`, canonical.
#[inline(always)]
pub(super) fn scale<L: Lanes>(lanes: L, q: Modulus, double: bool, row: &mut [u64], factor: u64) {
    if double {
        let a = Double::new(lanes, q);
        let factor = a.splat(encode(q, true, factor));
        for chunk in chunks_mut::<L>(row) {
            let x = lanes.real_of_small(lanes.load(chunk));
            lanes.store(chunk, a.canonical_real(a.mul_real(x, factor)));
        }
    } else {
        let a = Word::new(lanes, q);
        let factor = a.splat(encode(q, false, factor));
        for chunk in chunks_mut::<L>(row) {
            lanes.store(chunk, a.canonical(a.mul(lanes.load(chunk), factor)));
        }
    }
}
