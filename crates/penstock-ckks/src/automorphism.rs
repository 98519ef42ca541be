//! The automorphisms X -> X^k of a row: what rotations and conjugation do to slots.

use crate::kernels::bit_reversed;

/// X -> X^k for one odd k, as a permutation of evaluations and the signs of coefficients.
#[derive(Debug)]
pub struct Automorphism {
    /// The source of each evaluation.
    permutation: Vec<u32>,
    /// Bit j: whether coefficient j changes its sign.
    signs: Vec<u8>,
}

impl Automorphism {
    /// `element` odd, `ring_dim` a power of two (at least 8).
    pub fn new(element: u64, ring_dim: usize) -> Self {
        let mask = 2 * ring_dim as u64 - 1;
        let element = element & mask;
        let mut permutation = vec![0; ring_dim];
        let mut signs = vec![0; ring_dim / 8];
        for j in 0..ring_dim {
            // Word rev(j) is the value at root^(2j+1); its image is the value at root^((2j+1)k).
            let exponent = (2 * j as u64 + 1).wrapping_mul(element) & mask;
            permutation[bit_reversed(j, ring_dim)] = bit_reversed((exponent >> 1) as usize, ring_dim) as u32;
            if (j as u64).wrapping_mul(element) & ring_dim as u64 != 0 {
                signs[j / 8] |= 1 << (j % 8);
            }
        }
        Self { permutation, signs }
    }

    /// Applies it to a row of evaluations.
    pub fn permute(&self, row: &[u64], out: &mut [u64]) {
        for (to, from) in out.iter_mut().zip(&self.permutation) {
            *to = row[*from as usize];
        }
    }

    /// A bit for each coefficient: whether it changes its sign.
    pub(crate) fn signs(&self) -> &[u8] {
        &self.signs
    }
}

/// The automorphism that rotates slots by `step` to the left: 5^step mod 2N (its inverse for negative steps).
pub fn rotation_galois_element(step: i64, ring_dim: usize) -> u64 {
    let order = ring_dim as i64 / 2; // of 5 modulo 2N
    let (mut power, mut base, mut e) = (1u64, 5u64, step.rem_euclid(order));
    let mask = 2 * ring_dim as u64 - 1;
    while e > 0 {
        if e & 1 == 1 {
            power = power.wrapping_mul(base) & mask;
        }
        base = base.wrapping_mul(base) & mask;
        e >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Arena;
    use crate::kernels::{CpuPath, Kernels};

    #[test]
    fn it_substitutes_a_power_of_x() {
        let (n, q) = (64, 1152921504606844417);
        let kernels = Kernels::of(CpuPath::Portable).unwrap();
        let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
        let coefficients: Vec<u64> = (1..=n as u64).collect();
        let mut values = coefficients.clone();
        kernels.forward(&p, &mut values);
        for element in [5, 25, 127, rotation_galois_element(-3, n), 2 * n as u64 - 1] {
            let automorphism = Automorphism::new(element, n);
            let mut expected = vec![0; n];
            for (j, c) in coefficients.iter().enumerate() {
                let to = j * element as usize % (2 * n);
                let negative = to >= n;
                assert_eq!(automorphism.signs()[j / 8] >> (j % 8) & 1 == 1, negative);
                expected[to % n] = if negative { p.modulus.neg(*c) } else { *c };
            }
            kernels.forward(&p, &mut expected);
            let mut got = vec![0; n];
            automorphism.permute(&values, &mut got);
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn rotations_are_powers_of_five() {
        assert_eq!(rotation_galois_element(0, 64), 1);
        assert_eq!(rotation_galois_element(2, 64), 25);
        assert_eq!(rotation_galois_element(3, 64) * rotation_galois_element(-3, 64) % 128, 1);
        assert_eq!(rotation_galois_element(35, 64), rotation_galois_element(3, 64), "32 slots");
    }
}
