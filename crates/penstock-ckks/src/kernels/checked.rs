//! [`Lanes`] in plain Rust that check what the vector kernels rest on: doubles that must be exact are, conversions and
//! folds stay in their ranges. A kernel that passes with them has rounded nothing away.
//!
//! [`Bound`] is an [`Arithmetic`] whose words are bounds on residues instead of residues: a transform that passes with it
//! keeps its ranges for every input.

use super::arithmetic::{Arithmetic, DOUBLE_LIMIT};
use super::lanes::Lanes;
use crate::modulus::Modulus;

/// Exactly `x + y`, `x - y`, ….
fn exact(found: f64, wanted: i128) -> f64 {
    assert!(found.abs() < 2f64.powi(120) && found as i128 == wanted, "{found} is not exactly {wanted}");
    found
}

fn integer(x: f64) -> i128 {
    assert!(x.fract() == 0.0, "{x} is no integer");
    x as i128
}

fn within(x: f64, bits: i32) -> f64 {
    assert!(x.abs() < 2f64.powi(bits), "{x} is not below 2^{bits}");
    x
}

macro_rules! checked {
    ($name:ident, $lanes:literal) => {
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $name;

        impl $name {
            fn two<A: Copy, B: Copy, C: Copy + Default>(
                x: [A; $lanes],
                y: [B; $lanes],
                f: impl Fn(A, B) -> C,
            ) -> [C; $lanes] {
                std::array::from_fn(|k| f(x[k], y[k]))
            }

            fn three(
                x: [f64; $lanes],
                y: [f64; $lanes],
                z: [f64; $lanes],
                f: impl Fn(f64, f64, f64) -> f64,
            ) -> [f64; $lanes] {
                std::array::from_fn(|k| f(x[k], y[k], z[k]))
            }
        }

        impl Lanes for $name {
            const LANES: usize = $lanes;
            type Chunk = [u64; $lanes];
            type Int = [u64; $lanes];
            type Real = [f64; $lanes];

            fn load(self, from: &Self::Chunk) -> Self::Int {
                *from
            }
            fn store(self, to: &mut Self::Chunk, x: Self::Int) {
                *to = x;
            }
            fn splat(self, x: u64) -> Self::Int {
                [x; $lanes]
            }
            fn splat_real(self, x: f64) -> Self::Real {
                [x; $lanes]
            }
            fn real(self, x: Self::Int) -> Self::Real {
                x.map(f64::from_bits)
            }
            fn int(self, x: Self::Real) -> Self::Int {
                x.map(f64::to_bits)
            }
            fn add(self, x: Self::Int, y: Self::Int) -> Self::Int {
                Self::two(x, y, u64::wrapping_add)
            }
            fn sub(self, x: Self::Int, y: Self::Int) -> Self::Int {
                Self::two(x, y, u64::wrapping_sub)
            }
            fn mul_low(self, x: Self::Int, y: Self::Int) -> Self::Int {
                Self::two(x, y, u64::wrapping_mul)
            }
            fn mul_half(self, x: Self::Int, y: Self::Int) -> Self::Int {
                Self::two(x, y, |x, y| (x & 0xffff_ffff) * (y & 0xffff_ffff))
            }
            fn high_half(self, x: Self::Int) -> Self::Int {
                x.map(|x| x >> 32)
            }
            fn shift_right_30(self, x: Self::Int) -> Self::Int {
                x.map(|x| x >> 30)
            }
            fn and(self, x: Self::Int, y: Self::Int) -> Self::Int {
                Self::two(x, y, |x, y| x & y)
            }
            fn sub_if_not_less(self, x: Self::Int, y: Self::Int) -> Self::Int {
                Self::two(x, y, |x, y| {
                    assert!(x >> 63 == 0 && y >> 63 == 0, "{x} and {y} are not below 2^63");
                    if x < y { x } else { x - y }
                })
            }
            fn sub_where(self, bits: u8, x: Self::Int, y: Self::Int) -> Self::Int {
                let chosen = |k: usize| bits >> k & 1 == 1 && x[k] != 0;
                std::array::from_fn(|k| if chosen(k) { x[k].wrapping_sub(y[k]) } else { x[k] })
            }
            fn add_real(self, x: Self::Real, y: Self::Real) -> Self::Real {
                Self::two(x, y, |x, y| exact(x + y, integer(x) + integer(y)))
            }
            fn sub_real(self, x: Self::Real, y: Self::Real) -> Self::Real {
                Self::two(x, y, |x, y| exact(x - y, integer(x) - integer(y)))
            }
            fn mul_real(self, x: Self::Real, y: Self::Real) -> Self::Real {
                Self::two(x, y, |x, y| x * y)
            }
            fn mul_add(self, x: Self::Real, y: Self::Real, z: Self::Real) -> Self::Real {
                Self::three(x, y, z, f64::mul_add)
            }
            fn mul_sub(self, x: Self::Real, y: Self::Real, z: Self::Real) -> Self::Real {
                Self::three(x, y, z, |x, y, z| exact(x.mul_add(y, -z), integer(x) * integer(y) - integer(z)))
            }
            fn neg_mul_add(self, x: Self::Real, y: Self::Real, z: Self::Real) -> Self::Real {
                Self::three(x, y, z, |x, y, z| exact((-x).mul_add(y, z), integer(z) - integer(x) * integer(y)))
            }
            fn add_if_negative(self, x: Self::Real, y: Self::Real) -> Self::Real {
                Self::two(x, y, |x, y| if x < 0.0 { x + y } else { x })
            }
            fn real_of_small(self, x: Self::Int) -> Self::Real {
                x.map(|x| within(x as f64, 52))
            }
            fn real_of_signed(self, x: Self::Int) -> Self::Real {
                x.map(|x| x as i64 as f64)
            }
            fn to_small(self, x: Self::Real) -> Self::Int {
                x.map(|x| within(x, 51).round_ties_even() as i64 as u64)
            }
            /// As far from `x` as [`Lanes::to_signed`] allows.
            fn to_signed(self, x: Self::Real) -> Self::Int {
                x.map(|x| within(x, 62).round_ties_even() as i64 as u64)
            }
            fn transpose(self, x: &mut [Self::Int; 8]) {
                let from = *x;
                for (k, row) in x.iter_mut().enumerate().take($lanes) {
                    *row = std::array::from_fn(|lane| from[lane][k]);
                }
            }
        }

        impl Arithmetic<$name> for Bound {
            type Factor = ();

            fn new(_: $name, q: Modulus) -> Self {
                Bound { double: q.value() < DOUBLE_LIMIT }
            }
            fn splat(self, _: (u64, u64)) {}
            fn load(self, _: &[u64; $lanes], _: &[u64; $lanes]) {}
            fn mul(self, y: [u64; $lanes], _: ()) -> [u64; $lanes] {
                y.map(|y| self.product(y))
            }
            fn forward(self, x: [u64; $lanes], y: [u64; $lanes], _: ()) -> ([u64; $lanes], [u64; $lanes]) {
                let sum = $name::two(x, y, |x, y| self.sum(self.folded(x), self.product(y)));
                (sum, sum)
            }
            fn inverse(self, x: [u64; $lanes], y: [u64; $lanes], _: ()) -> ([u64; $lanes], [u64; $lanes]) {
                let sum = $name::two(x, y, |x, y| self.sum(x, y));
                (sum.map(|sum| self.folded(sum)), sum.map(|sum| self.product(sum)))
            }
            fn settle(self, x: [u64; $lanes]) -> [u64; $lanes] {
                x.map(|x| self.settled(x))
            }
            fn import(self, x: [u64; $lanes]) -> [u64; $lanes] {
                x.map(|x| self.settled(x))
            }
            fn canonical(self, x: [u64; $lanes]) -> [u64; $lanes] {
                x.map(|x| self.sum(x, 0f64.to_bits())).map(|_| 1f64.to_bits())
            }
            fn finish(self, x: [u64; $lanes]) -> [u64; $lanes] {
                x.map(|x| if self.double { self.settled(x) } else { 1f64.to_bits() })
            }
        }
    };
}

checked!(Checked4, 4);
checked!(Checked8, 8);

/// The arithmetic of one prime on bounds of magnitudes, in units of q, for the largest q that it is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub double: bool,
}

impl Bound {
    /// Of a residue that was settled: a unit more than q / 2.
    pub const SETTLED: f64 = 0.5 + 1.0 / (1u64 << 40) as f64;
    const Q: f64 = DOUBLE_LIMIT as f64;

    /// Doubles hold integers up to 2^53, words fold below 8 q.
    fn sum(self, x: u64, y: u64) -> u64 {
        let sum = f64::from_bits(x) + f64::from_bits(y);
        assert!(if self.double { sum * Self::Q < 2f64.powi(53) } else { sum <= 8.0 }, "a residue of {sum} q");
        sum.to_bits()
    }

    /// `y w` with |w| <= 1/2: the rounding of the quotient, the error of 1 / q, and half a unit in the last place of the
    /// product, which is rounded before it.
    fn product(self, y: u64) -> u64 {
        if !self.double {
            return 4f64.to_bits();
        }
        let y = f64::from_bits(y);
        let high = y * Self::Q * Self::Q / 2.0;
        assert!(high / Self::Q < 2f64.powi(51), "a factor of {y} q");
        let half_a_unit = 2f64.powi(high.log2().floor() as i32 - 53);
        (0.5 + y * Self::Q * 2f64.powi(-54) + half_a_unit / Self::Q).to_bits()
    }

    fn folded(self, x: u64) -> u64 {
        if self.double { x } else { f64::from_bits(self.sum(x, 0)).min(4.0).to_bits() }
    }

    fn settled(self, x: u64) -> u64 {
        self.sum(x, 0f64.to_bits());
        if self.double { Self::SETTLED.to_bits() } else { x }
    }
}
