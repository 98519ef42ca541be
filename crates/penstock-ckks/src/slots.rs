//! Slots and coefficients: the special inverse transform of an encoding.
//!
//! It is done with OpenFHE's operations in the same order, on the same tables of cosines, so that the integers are the
//! same wherever the C library's `cos`, `sin`, `log2` and `pow` are.

use crate::kernels::bit_reversed;

/// A complex number: real and imaginary part.
pub type Complex = [f64; 2];

/// Powers of 5 modulo 2N, and all roots of unity of order 2N.
#[derive(Debug)]
pub struct SlotTables {
    powers: Vec<u32>,
    roots: Vec<Complex>,
    /// The roots of the inverse transform in the order of their use: of blocks of 2 values, of 4, and so on.
    inverse_roots: Vec<Complex>,
}

impl SlotTables {
    /// The tables for a ring of `ring_dim` dimensions, a power of two.
    pub fn new(ring_dim: usize) -> Self {
        let order = 2 * ring_dim;
        let powers = std::iter::successors(Some(1u64), |power| Some(power * 5 % order as u64));
        let powers = powers.take(ring_dim / 2).map(|power| power as u32).collect();
        let angle = |j: usize| 2.0 * std::f64::consts::PI * j as f64 / order as f64;
        let mut roots: Vec<Complex> = (0..order).map(|j| [angle(j).cos(), angle(j).sin()]).collect();
        roots.push(roots[0]);
        let mut tables = Self { powers, roots, inverse_roots: Vec::new() };
        let halves = std::iter::successors(Some(1), |half| Some(2 * half)).take_while(|half| half * 4 <= ring_dim);
        tables.inverse_roots =
            halves.flat_map(|half| (0..half).map(move |j| (half, j))).map(|at| tables.inverse_root(at)).collect();
        tables
    }

    /// The j-th root of blocks of `2 half` values in the inverse transform.
    fn inverse_root(&self, (half, j): (usize, usize)) -> Complex {
        let (order, quarter) = (self.roots.len() - 1, 8 * half);
        self.roots[(quarter - self.powers[j] as usize % quarter) * (order / quarter)]
    }

    /// The special transform, in place: coefficients as `inverse` leaves them (of X^k and of X^(slots + k), real and
    /// imaginary part of the k-th) to slots.
    pub fn forward(&self, values: &mut [Complex]) {
        let order = self.roots.len() - 1;
        bit_reverse(values);
        let mut length = 2;
        while length <= values.len() {
            let (half, quarter) = (length / 2, 4 * length);
            let gap = order / quarter;
            for block in values.chunks_exact_mut(length) {
                let (low, high) = block.split_at_mut(half);
                for (j, (x, y)) in low.iter_mut().zip(high).enumerate() {
                    let root = self.roots[(self.powers[j] as usize % quarter) * gap];
                    let turned = [y[0] * root[0] - y[1] * root[1], y[0] * root[1] + y[1] * root[0]];
                    *y = [x[0] - turned[0], x[1] - turned[1]];
                    *x = [x[0] + turned[0], x[1] + turned[1]];
                }
            }
            length *= 2;
        }
    }

    /// The inverse special transform, in place; a power of two of values.
    pub fn inverse(&self, values: &mut [Complex]) {
        let mut length = values.len();
        while length >= 2 {
            let half = length / 2;
            let roots = &self.inverse_roots[half - 1..length - 1];
            for block in values.chunks_exact_mut(length) {
                let (low, high) = block.split_at_mut(half);
                for ((x, y), root) in low.iter_mut().zip(high).zip(roots) {
                    let sum = [x[0] + y[0], x[1] + y[1]];
                    let [re, im] = [x[0] - y[0], x[1] - y[1]];
                    *y = [re * root[0] - im * root[1], re * root[1] + im * root[0]];
                    *x = sum;
                }
            }
            length = half;
        }
        bit_reverse(values);
        let count = values.len() as f64;
        for value in values {
            *value = [value[0] / count, value[1] / count];
        }
    }
}

fn bit_reverse(values: &mut [Complex]) {
    for k in 0..values.len() {
        let reversed = bit_reversed(k, values.len());
        if k < reversed {
            values.swap(k, reversed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_undoes_the_inverse() {
        let tables = SlotTables::new(256);
        for slots in [1, 2, 8, 128] {
            let values: Vec<Complex> = (0..slots).map(|k| [(k as f64).sin(), 0.25 * k as f64]).collect();
            let mut there = values.clone();
            tables.inverse(&mut there);
            tables.forward(&mut there);
            for (a, b) in there.iter().zip(&values) {
                assert!((a[0] - b[0]).abs() < 1e-10 && (a[1] - b[1]).abs() < 1e-10, "{slots}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_roots_in_the_order_of_their_use_are_those_of_the_formula() {
        let (n, slots) = (1 << 10, 1 << 9);
        let tables = SlotTables::new(n);
        let values: Vec<Complex> = (0..slots).map(|k| [(k as f64).sin(), 0.25 * k as f64]).collect();
        let (mut found, mut twin) = (values.clone(), values);
        tables.inverse(&mut found);
        let mut length = slots;
        while length >= 2 {
            let (half, quarter) = (length / 2, 4 * length);
            for block in twin.chunks_exact_mut(length) {
                for j in 0..half {
                    let (x, y) = (block[j], block[half + j]);
                    let root = tables.roots[(quarter - tables.powers[j] as usize % quarter) * (2 * n / quarter)];
                    let [re, im] = [x[0] - y[0], x[1] - y[1]];
                    block[half + j] = [re * root[0] - im * root[1], re * root[1] + im * root[0]];
                    block[j] = [x[0] + y[0], x[1] + y[1]];
                }
            }
            length = half;
        }
        bit_reverse(&mut twin);
        assert!(found.iter().zip(&twin).all(|(a, b)| a[0] == b[0] / slots as f64 && a[1] == b[1] / slots as f64));
    }

    #[test]
    fn the_inverse_transform_interpolates_at_powers_of_five() {
        let (n, slots) = (64, 8);
        let tables = SlotTables::new(n);
        let values: Vec<Complex> = (0..slots).map(|k| [(k as f64).sin(), 0.25 * k as f64]).collect();
        let mut transformed = values.clone();
        tables.inverse(&mut transformed);
        // Coefficients re_0, im_0 at X^0 and X^(slots): evaluate at the roots of order 4 * slots.
        for (k, value) in values.iter().enumerate() {
            let power = 5usize.pow(k as u32) % (4 * slots);
            let mut sum = [0.0; 2];
            for (j, c) in transformed.iter().enumerate() {
                let angle = 2.0 * std::f64::consts::PI * (j * power) as f64 / (4 * slots) as f64;
                let (cos, sin) = (angle.cos(), angle.sin());
                sum[0] += c[0] * cos - c[1] * sin;
                sum[1] += c[0] * sin + c[1] * cos;
            }
            assert!((sum[0] - value[0]).abs() < 1e-12 && (sum[1] - value[1]).abs() < 1e-12, "{sum:?} {value:?}");
        }
    }
}
