//! From a decrypted polynomial to values: integers of all limbs, then slots.

use bytemuck::Zeroable;
use penstock_ckks::Complex;
use penstock_ckks::modulus::Modulus;
use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::phase::Phase;
use crate::protected::Protected;
use crate::ring::Ring;

/// Limbs that give an integer: about 160 bits, which no message exceeds.
const INTEGER_LIMBS: usize = 3;
/// Below so many bits of precision nothing was decrypted, by OpenFHE's rule.
const LEAST_BITS: f64 = 5.0;
/// Imaginary parts below it are taken for error, however small the real parts are.
const LEAST_IMAGINARY: f64 = 1.0 / 1024.0;

/// A signed integer of 256 bits, two's complement.
#[derive(Clone, Copy, Zeroable)]
pub struct Wide {
    low: u128,
    high: i128,
}

impl Zeroize for Wide {
    fn zeroize(&mut self) {
        self.low.zeroize();
        self.high.zeroize();
    }
}

impl Wide {
    fn product(a: u128, b: u64) -> Self {
        let (b, mask) = (u128::from(b), u128::from(u64::MAX));
        let (low, high) = ((a & mask) * b, (a >> 64) * b + (((a & mask) * b) >> 64));
        Self { low: (low & mask) | (high << 64), high: (high >> 64) as i128 }
    }

    fn add(self, other: Self) -> Self {
        let (low, carry) = self.low.overflowing_add(other.low);
        Self { low, high: self.high.wrapping_add(other.high).wrapping_add(i128::from(carry)) }
    }

    fn negated(self) -> Self {
        let (low, carry) = (!self.low).overflowing_add(1);
        Self { low, high: (!self.high).wrapping_add(i128::from(carry)) }
    }

    /// Adds a sample of flooding.
    pub fn add_noise(&mut self, noise: i64) {
        let wide = i128::from(noise);
        *self = self.add(Self { low: wide as u128, high: wide >> 127 });
    }

    fn to_f64(self) -> f64 {
        let magnitude = if self.high < 0 { self.negated() } else { self };
        let value = magnitude.high as f64 * 2f64.powi(128) + magnitude.low as f64;
        if self.high < 0 { -value } else { value }
    }

    fn remainder(self, q: Modulus) -> u64 {
        let magnitude = if self.high < 0 { self.negated() } else { self };
        let power = q.reduce_wide(1u128 << 127);
        let power = q.add(power, power);
        let rest = q.add(q.mul(q.reduce_wide(magnitude.high as u128), power), q.reduce_wide(magnitude.low));
        if self.high < 0 { q.neg(rest) } else { rest }
    }
}

/// The centred coefficients of a phase that a value is made of.
///
/// # Errors
/// [`Error::Drowned`]: they are larger than a message can be.
pub fn integers(ring: &Ring, phase: &Phase) -> Result<Protected<Wide>> {
    let n = ring.ring_dim();
    let used = phase.limbs.min(INTEGER_LIMBS);
    let checked = phase.limbs.min(INTEGER_LIMBS + 1);
    let mut residues = Protected::<u64>::new(checked * n);
    ring.context().each(residues.chunks_exact_mut(n).enumerate().collect(), |(limb, row)| {
        ring.coefficients(limb, &phase.words[limb * n..(limb + 1) * n], row);
        Ok(())
    })?;
    let q: Vec<Modulus> = ring.primes()[..checked].iter().map(|p| p.modulus).collect();
    let inverse = |a: usize, b: usize| q[b].inverse(q[b].reduce(q[a].value()));
    let inverses =
        [if used > 1 { inverse(0, 1) } else { 0 }, if used > 2 { q[2].mul(inverse(0, 2), inverse(1, 2)) } else { 0 }];
    let mut found = Protected::<Wide>::new(n);
    let mut wrong = false;
    for (k, value) in found.iter_mut().enumerate() {
        let residue = |limb: usize| residues[limb * n + k];
        // Digits of the mixed radix q_0, q_0 q_1; the last one says the sign.
        let d0 = residue(0);
        let mut integer = Wide { low: u128::from(d0), high: 0 };
        let mut whole = Wide { low: u128::from(q[0].value()), high: 0 };
        let mut negative = d0 > q[0].value() / 2;
        if used > 1 {
            let d1 = q[1].mul(q[1].sub(residue(1), q[1].reduce(d0)), inverses[0]);
            integer = integer.add(Wide::product(u128::from(d1), q[0].value()));
            whole = Wide::product(u128::from(q[1].value()), q[0].value());
            negative = d1 > q[1].value() / 2;
            if used > 2 {
                let below = q[2].add(q[2].reduce(d0), q[2].mul(q[2].reduce(d1), q[2].reduce(q[0].value())));
                let d2 = q[2].mul(q[2].sub(residue(2), below), inverses[1]);
                let pair = u128::from(q[0].value()) * u128::from(q[1].value());
                integer = integer.add(Wide::product(pair, d2));
                whole = Wide::product(pair, q[2].value());
                negative = d2 > q[2].value() / 2;
            }
        }
        *value = if negative { integer.add(whole.negated()) } else { integer };
        wrong |= checked > used && value.remainder(q[used]) != residue(used);
    }
    if wrong {
        let bits = q[..used].iter().map(|q| (q.value() as f64).log2()).sum();
        return Err(Error::Drowned { limbs: phase.limbs, bits, scale_bits: phase.scale.log2() });
    }
    Ok(found)
}

/// The slots of coefficients, without imaginary parts: programs are of real values, and imaginary parts are error.
///
/// # Errors
/// [`Error::Imaginary`]: the imaginary parts say that less than 5 bits are left, or that they are no error.
pub fn decoded(ring: &Ring, phase: &Phase, coefficients: &[Wide]) -> Result<Vec<Complex>> {
    let mut values = slots_of(ring, phase, coefficients);
    let slots = phase.slots as f64;
    let rms = |part: usize| (values.iter().map(|value| value[part] * value[part]).sum::<f64>() / slots).sqrt();
    let (real, imaginary) = (rms(0), rms(1));
    let deviation = imaginary / (2.0 * slots).sqrt();
    let is_drowned = deviation.is_nan() || deviation > (-LEAST_BITS).exp2();
    if is_drowned || is_imaginary(real, imaginary, slots) {
        return Err(Error::Imaginary { limbs: phase.limbs, imaginary, real });
    }
    values.iter_mut().for_each(|value| value[1] = 0.0);
    Ok(values)
}

/// Whether imaginary parts are a program's: large, and so much larger than the real parts that an error, which is alike
/// in both, gives that once in a million results.
fn is_imaginary(real: f64, imaginary: f64, slots: f64) -> bool {
    imaginary > LEAST_IMAGINARY && imaginary > real * (2.0 + 20.0 / slots).exp2()
}

/// The slots of coefficients, imaginary parts included: nothing says how much of them is error.
pub fn slots_of(ring: &Ring, phase: &Phase, coefficients: &[Wide]) -> Vec<Complex> {
    let half = ring.ring_dim() / 2;
    let gap = half / phase.slots;
    let part = |k: usize| coefficients[k].to_f64() / phase.scale;
    let mut values: Vec<Complex> = (0..phase.slots).map(|k| [part(k * gap), part(half + k * gap)]).collect();
    ring.context().slot_transform().forward(&mut values);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_integers_are_integers() {
        // (2^128 - 1)(2^64 - 1) = 2^192 - 2^128 - 2^64 + 1
        let largest = Wide::product(u128::MAX, u64::MAX);
        assert_eq!((largest.low, largest.high), ((u128::MAX - (1 << 64)) + 2, (1 << 64) - 2));
        let q = Modulus::new(1152921504606844417).unwrap();
        for (low, sign) in [(5u128, 1i64), (u128::MAX / 3, -1), (1 << 90, -1), (7 << 70, 1)] {
            let value = Wide { low, high: 0 };
            let value = if sign < 0 { value.negated() } else { value };
            assert_eq!(value.to_f64(), sign as f64 * low as f64);
            let rest = (low % u128::from(q.value())) as u64;
            assert_eq!(value.remainder(q), if sign < 0 { q.neg(rest) } else { rest });
            let mut noisy = value;
            noisy.add_noise(-3);
            noisy.add_noise(3);
            assert_eq!((noisy.low, noisy.high), (value.low, value.high));
        }
        let big = Wide::product(1 << 120, 1 << 60); // 2^180
        assert_eq!(big.to_f64(), 2f64.powi(180));
        let expected = q.pow(2, 180);
        assert_eq!(big.remainder(q), expected);
        assert_eq!(big.negated().remainder(q), q.neg(expected));
    }
}
