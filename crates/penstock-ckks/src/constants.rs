//! Constants of key switching and rescaling: products of moduli, modulo moduli.

use crate::kernels::Prime;

/// What depends on the number of limbs.
#[derive(Debug)]
pub(crate) struct LevelConstants {
    /// Limb k of its digit D: (D / q_k)^-1 / N mod q_k, the scale of the inverse transform before ModUp.
    pub up_scale: Vec<u64>,
    /// Of each target (limbs of Q in use, then of P) and limb k: D / q_k modulo the target.
    pub up_factor: Vec<Vec<u64>>,
    /// The inverse of the last limb's modulus, modulo the others: rescaling.
    pub rescale: Vec<u64>,
}

/// What does not.
#[derive(Debug)]
pub(crate) struct DownConstants {
    /// Limb e of P: (P / p_e)^-1 / N mod p_e.
    pub scale: Vec<u64>,
    /// Of each limb of Q and limb e of P: P / p_e modulo it.
    pub factor: Vec<Vec<u64>>,
    /// Of each limb of Q: P^-1.
    pub p_inverse: Vec<u64>,
    /// Of each limb of Q: P.
    pub p: Vec<u64>,
}

/// The product of the moduli of `of` but one, modulo `target`.
fn product(primes: &[Prime], of: std::ops::Range<usize>, without: Option<usize>, target: &Prime) -> u64 {
    let m = target.modulus;
    of.filter(|k| Some(*k) != without).fold(1, |product, k| m.mul(product, m.reduce(primes[k].modulus.value())))
}

/// The limbs of a digit, at `limbs` limbs in all.
pub(crate) fn digit_limbs(alpha: usize, digit: usize, limbs: usize) -> std::ops::Range<usize> {
    digit * alpha..((digit + 1) * alpha).min(limbs)
}

impl LevelConstants {
    pub fn new(primes: &[Prime], count_q: usize, alpha: usize, ring_dim: usize, limbs: usize) -> Self {
        let digit_of = |k: usize| digit_limbs(alpha, k / alpha, limbs);
        let up_scale = (0..limbs)
            .map(|k| {
                let m = primes[k].modulus;
                let others = product(primes, digit_of(k), Some(k), &primes[k]);
                m.inverse(m.mul(others, m.reduce(ring_dim as u64)))
            })
            .collect();
        let targets = (0..limbs).chain(count_q..primes.len());
        let up_factor =
            targets.map(|t| (0..limbs).map(|k| product(primes, digit_of(k), Some(k), &primes[t])).collect()).collect();
        let last = primes[limbs - 1].modulus.value();
        let rescale = primes[..limbs - 1].iter().map(|p| p.modulus.inverse(p.modulus.reduce(last))).collect();
        Self { up_scale, up_factor, rescale }
    }
}

impl DownConstants {
    pub fn new(primes: &[Prime], count_q: usize, ring_dim: usize) -> Self {
        let p_limbs = count_q..primes.len();
        let scale = p_limbs
            .clone()
            .map(|e| {
                let m = primes[e].modulus;
                m.inverse(m.mul(product(primes, p_limbs.clone(), Some(e), &primes[e]), m.reduce(ring_dim as u64)))
            })
            .collect();
        let q = &primes[..count_q];
        let factor =
            q.iter().map(|t| p_limbs.clone().map(|e| product(primes, p_limbs.clone(), Some(e), t)).collect()).collect();
        let p: Vec<u64> = q.iter().map(|t| product(primes, p_limbs.clone(), None, t)).collect();
        let p_inverse = q.iter().zip(&p).map(|(t, p)| t.modulus.inverse(*p)).collect();
        Self { scale, factor, p_inverse, p }
    }
}
