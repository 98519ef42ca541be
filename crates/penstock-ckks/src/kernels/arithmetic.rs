//! The two arithmetics of the vector kernels.
//!
//! [`Double`] is for primes up to about 2^50: residues are signed doubles, a product is exact in two doubles (FMA), and
//! its quotient by q is rounded by adding and taking away 1.5 * 2^52. [`Word`] is for primes of up to 60 bits: residues
//! are unsigned and lazy, products are Shoup's with a quotient that may be 2 too small.
//!
//! Ranges, in units of q (`checked::Bound` proves that every transform keeps them, for each input and ring dimension):
//! * `Double`: |y| < 3.9 in a product, whose other factor is at most 1/2. The quotient is then below 2^51, where adding
//!   1.5 * 2^52 rounds it to an integer. That is off by at most 1/2 for the rounding, y/15.7 for the error of 1/q, and 1/16
//!   for the rounding of the high part (1/8 from y = 1.9, 1/4 from 3.8), which the low part makes good. The result is at
//!   most 0.63 for y = 1, 0.75 for 2, 0.85 for 3.6.
//! * `Word`: a factor is any word, the result is in [0, 4). Residues are below 8 q < 2^63.

use super::lanes::Lanes;
use crate::modulus::Modulus;

/// Primes below it use [`Double`].
pub(super) const DOUBLE_LIMIT: u64 = (1 << 50) + (1 << 44);

/// A row as a transform works on it: the same 64 bits a lane, with the arithmetic's own meaning.
pub(super) trait Arithmetic<L: Lanes>: Copy {
    /// A prepared factor.
    type Factor: Copy;

    fn new(lanes: L, q: Modulus) -> Self;
    /// A factor, from the words that `prime::encode` made of it.
    fn splat(self, words: (u64, u64)) -> Self::Factor;
    fn load(self, factors: &L::Chunk, quotients: &L::Chunk) -> Self::Factor;
    fn mul(self, y: L::Int, factor: Self::Factor) -> L::Int;
    /// `(x + w y, x - w y)`.
    fn forward(self, x: L::Int, y: L::Int, w: Self::Factor) -> (L::Int, L::Int);
    /// `(x + y, w (x - y))`.
    fn inverse(self, x: L::Int, y: L::Int, w: Self::Factor) -> (L::Int, L::Int);
    /// Back to the smallest range, where the arithmetic needs that now and then.
    fn settle(self, x: L::Int) -> L::Int;
    /// From a canonical word.
    fn import(self, x: L::Int) -> L::Int;
    /// To a canonical word.
    fn canonical(self, x: L::Int) -> L::Int;
    /// The end of a forward transform: the working form of an evaluation.
    fn finish(self, x: L::Int) -> L::Int;
}

#[derive(Clone, Copy)]
pub(super) struct Double<L: Lanes> {
    pub lanes: L,
    pub q: L::Real,
    pub inverse_q: L::Real,
    magic: L::Real,
}

impl<L: Lanes> Double<L> {
    /// `y w mod q`, exactly: the high part of the product, less a multiple of q, plus the rounding error.
    #[inline(always)]
    pub fn mul_real(self, y: L::Real, w: L::Real) -> L::Real {
        let l = self.lanes;
        let high = l.mul_real(y, w);
        let quotient = l.sub_real(l.mul_add(high, self.inverse_q, self.magic), self.magic);
        let low = l.mul_sub(y, w, high);
        l.add_real(l.neg_mul_add(quotient, self.q, high), low)
    }

    /// The signed residue of an integer below 2^51 q.
    #[inline(always)]
    pub fn settle_real(self, x: L::Real) -> L::Real {
        let l = self.lanes;
        let quotient = l.sub_real(l.mul_add(x, self.inverse_q, self.magic), self.magic);
        l.neg_mul_add(quotient, self.q, x)
    }

    #[inline(always)]
    pub fn canonical_real(self, x: L::Real) -> L::Int {
        let rest = self.settle_real(x);
        self.lanes.to_small(self.lanes.add_if_negative(rest, self.q))
    }
}

impl<L: Lanes> Arithmetic<L> for Double<L> {
    type Factor = L::Real;

    #[inline(always)]
    fn new(lanes: L, q: Modulus) -> Self {
        let q = q.value() as f64;
        Self {
            lanes,
            q: lanes.splat_real(q),
            inverse_q: lanes.splat_real(1.0 / q),
            magic: lanes.splat_real(6755399441055744.0),
        }
    }

    #[inline(always)]
    fn splat(self, words: (u64, u64)) -> L::Real {
        self.lanes.splat_real(f64::from_bits(words.0))
    }

    #[inline(always)]
    fn load(self, factors: &L::Chunk, _: &L::Chunk) -> L::Real {
        self.lanes.real(self.lanes.load(factors))
    }

    #[inline(always)]
    fn mul(self, y: L::Int, factor: L::Real) -> L::Int {
        self.lanes.int(self.mul_real(self.lanes.real(y), factor))
    }

    #[inline(always)]
    fn forward(self, x: L::Int, y: L::Int, w: L::Real) -> (L::Int, L::Int) {
        let l = self.lanes;
        let (x, t) = (l.real(x), self.mul_real(l.real(y), w));
        (l.int(l.add_real(x, t)), l.int(l.sub_real(x, t)))
    }

    #[inline(always)]
    fn inverse(self, x: L::Int, y: L::Int, w: L::Real) -> (L::Int, L::Int) {
        let l = self.lanes;
        let (x, y) = (l.real(x), l.real(y));
        (l.int(l.add_real(x, y)), l.int(self.mul_real(l.sub_real(x, y), w)))
    }

    #[inline(always)]
    fn settle(self, x: L::Int) -> L::Int {
        self.lanes.int(self.settle_real(self.lanes.real(x)))
    }

    #[inline(always)]
    fn import(self, x: L::Int) -> L::Int {
        self.lanes.int(self.settle_real(self.lanes.real_of_small(x)))
    }

    #[inline(always)]
    fn canonical(self, x: L::Int) -> L::Int {
        self.canonical_real(self.lanes.real(x))
    }

    #[inline(always)]
    fn finish(self, x: L::Int) -> L::Int {
        self.settle(x)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Word<L: Lanes> {
    pub lanes: L,
    pub q: L::Int,
    pub q2: L::Int,
    pub q4: L::Int,
}

impl<L: Lanes> Word<L> {
    /// `x - bound` where that is not negative.
    #[inline(always)]
    pub fn fold(self, x: L::Int, bound: L::Int) -> L::Int {
        self.lanes.sub_if_not_less(x, bound)
    }
}

impl<L: Lanes> Arithmetic<L> for Word<L> {
    type Factor = (L::Int, L::Int);

    #[inline(always)]
    fn new(lanes: L, q: Modulus) -> Self {
        let q = q.value();
        Self { lanes, q: lanes.splat(q), q2: lanes.splat(2 * q), q4: lanes.splat(4 * q) }
    }

    #[inline(always)]
    fn splat(self, words: (u64, u64)) -> Self::Factor {
        (self.lanes.splat(words.0), self.lanes.splat(words.1))
    }

    #[inline(always)]
    fn load(self, factors: &L::Chunk, quotients: &L::Chunk) -> Self::Factor {
        (self.lanes.load(factors), self.lanes.load(quotients))
    }

    #[inline(always)]
    fn mul(self, y: L::Int, factor: Self::Factor) -> L::Int {
        let l = self.lanes;
        // The upper half of y * quotient, 0 to 2 too small: carries out of the lower half are left out.
        let (y_high, w_high) = (l.high_half(y), l.high_half(factor.1));
        let crossed = l.add(l.high_half(l.mul_half(y_high, factor.1)), l.high_half(l.mul_half(y, w_high)));
        let quotient = l.add(l.mul_half(y_high, w_high), crossed);
        l.sub(l.mul_low(y, factor.0), l.mul_low(quotient, self.q))
    }

    #[inline(always)]
    fn forward(self, x: L::Int, y: L::Int, w: Self::Factor) -> (L::Int, L::Int) {
        let l = self.lanes;
        let x = self.fold(x, self.q4);
        let t = self.mul(y, w);
        (l.add(x, t), l.add(l.sub(x, t), self.q4))
    }

    #[inline(always)]
    fn inverse(self, x: L::Int, y: L::Int, w: Self::Factor) -> (L::Int, L::Int) {
        let l = self.lanes;
        (self.fold(l.add(x, y), self.q4), self.mul(l.add(l.sub(x, y), self.q4), w))
    }

    #[inline(always)]
    fn settle(self, x: L::Int) -> L::Int {
        x
    }

    #[inline(always)]
    fn import(self, x: L::Int) -> L::Int {
        x
    }

    #[inline(always)]
    fn canonical(self, x: L::Int) -> L::Int {
        self.fold(self.fold(self.fold(x, self.q4), self.q2), self.q)
    }

    #[inline(always)]
    fn finish(self, x: L::Int) -> L::Int {
        self.canonical(x)
    }
}
