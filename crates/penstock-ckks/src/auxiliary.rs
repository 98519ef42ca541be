//! The auxiliary modulus of the switch to an ephemeral sparse secret, as OpenFHE 1.6.1 has it.

use std::sync::Arc;

use crate::buffer::Arena;
use crate::error::Error;
use crate::kernels::{Kernels, Prime};
use crate::modulus::Modulus;

/// Primes of the auxiliary modulus of the switch to the sparse secret, and their bits: the product is 6 bits longer than
/// the longest q_0, so that the switch adds no more noise than its rounding (openfhe-development, pull request 1248).
pub(crate) const AUXILIARY_PRIMES: usize = 2;
const AUXILIARY_BITS: u32 = 33;
/// Bases of the Miller-Rabin test that decide every number below 2^40.
const BASES: [u64; 5] = [2, 3, 5, 7, 11];

/// The primes that the switch to the sparse secret works with besides q_0: the two largest of 33 bits that are 1 mod 2N
/// and not in `taken`, the moduli of Q and P. The sparse secret never meets a modulus above q_0 times both. `None`: there
/// are none for so large an N.
pub fn auxiliary_moduli(ring_dim: usize, taken: &[u64]) -> Option<[u64; AUXILIARY_PRIMES]> {
    let step = 2 * ring_dim as u64;
    let candidates = (1..).map_while(|k| ((1u64 << AUXILIARY_BITS) + 1).checked_sub(k * step).filter(|q| *q > step));
    let mut found = candidates.filter(|q| !taken.contains(q) && is_prime(*q));
    Some([found.next()?, found.next()?])
}

/// Whether an odd number of at most 40 bits is prime (Miller and Rabin).
fn is_prime(q: u64) -> bool {
    let Some(modulus) = Modulus::new(q) else { return false };
    let twos = (q - 1).trailing_zeros();
    BASES.iter().all(|base| {
        let mut power = modulus.pow(*base, (q - 1) >> twos);
        let mut passes = power == 1 || base % q == 0;
        for _ in 0..twos {
            passes |= power == q - 1;
            power = modulus.mul(power, power);
        }
        passes
    })
}

/// The auxiliary primes with their constants.
#[derive(Debug)]
pub(crate) struct Auxiliary {
    /// P', prime by prime.
    pub primes: Vec<Prime>,
    /// Of each prime: 1/N times the inverse of the others' product, modulo it.
    pub scales: Vec<u64>,
    /// Of each prime: the product of the others, modulo q_0.
    pub factors: Vec<u64>,
    /// -P' modulo q_0.
    pub minus_whole: u64,
    /// The inverse of P' modulo q_0.
    pub inverse: u64,
}

impl Auxiliary {
    /// `chain`: the primes of Q, then of P.
    pub fn new(kernels: Kernels, chain: &[Prime], n: usize, arena: &Arc<Arena>) -> Result<Self, Error> {
        let taken: Vec<u64> = chain.iter().map(|p| p.modulus.value()).collect();
        let moduli = auxiliary_moduli(n, &taken).ok_or_else(|| Error::Parameters {
            what: format!("no two primes of {AUXILIARY_BITS} bits are 1 mod 2N = {}", 2 * n),
            rule: "the switch to a sparse secret needs them: take a smaller ring dimension",
        })?;
        let primes: Vec<Prime> = moduli.iter().map(|p| kernels.prime(*p, n, arena)).collect::<Result<_, _>>()?;
        let q = chain[0].modulus;
        let others = |modulus: Modulus, own: u64| {
            moduli.iter().filter(|p| **p != own).fold(1, |all, p| modulus.mul(all, modulus.reduce(*p)))
        };
        let whole = others(q, 0);
        let scale = |p: &Prime| {
            let p = p.modulus;
            p.inverse(p.mul(p.reduce(n as u64), others(p, p.value())))
        };
        Ok(Self {
            scales: primes.iter().map(scale).collect(),
            factors: moduli.iter().map(|p| others(q, *p)).collect(),
            primes,
            minus_whole: q.neg(whole),
            inverse: q.inverse(whole),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By trial division: the slow twin.
    fn has_no_divisor(q: u64) -> bool {
        q > 1 && (2..).take_while(|d| d * d <= q).all(|d| !q.is_multiple_of(d))
    }

    #[test]
    fn the_auxiliary_moduli_are_the_largest_primes_of_33_bits() {
        for n in [64, 2048, 1 << 16] {
            let found = auxiliary_moduli(n, &[]).unwrap();
            let below = (1u64 << 33) / (2 * n as u64) * (2 * n as u64) + 1;
            let twin: Vec<u64> = (0..)
                .map(|k| below - 2 * n as u64 * k)
                .filter(|q| *q < 1 << 33 && has_no_divisor(*q))
                .take(3)
                .collect();
            assert_eq!(found[..], twin[..2]);
            assert_eq!(auxiliary_moduli(n, &twin[..1]).unwrap()[..], twin[1..]);
        }
        // Those of OpenFHE 1.6.1's key for N = 2^11.
        assert_eq!(auxiliary_moduli(2048, &[]).unwrap(), [8_589_905_921, 8_589_852_673]);
        assert!((3..5000).step_by(2).all(|q| is_prime(q) == has_no_divisor(q)));
    }
}
