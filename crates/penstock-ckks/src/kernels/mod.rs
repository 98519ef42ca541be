//! The inner loops, in three versions that give the same words: AVX-512, AVX2 and plain Rust, chosen at run time.
//!
//! A row is N words. It is *canonical* (every word below its modulus: all that leaves this crate), or in the *working
//! form* of its kernels, which only [`Kernels::forward`], [`Kernels::inner_product`] and [`Kernels::subtract_and_scale`]
//! understand: doubles for primes up to 2^50 where there are vectors, canonical or lazy words elsewhere.

// Elsewhere than on x86-64 no lanes exist: the vector kernels compile there, and nothing calls them.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(test)]
mod checked;
mod dispatch;
mod lanes;
mod portable;
mod prime;
mod rows;
#[cfg(test)]
mod tests;
mod transform;

pub(crate) use dispatch::MIN_RING_DIM;
pub use dispatch::{CpuPath, Kernels};
pub use prime::Prime;
pub(crate) use prime::bit_reversed;

/// One summand of a base conversion.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Coefficients: signed words, below 2^60 in magnitude.
    pub row: &'a [u64],
    /// Canonical for the target's modulus.
    pub factor: u64,
    /// Whether words may reach 2^50 + 2^44 in magnitude.
    pub wide: bool,
}

/// One digit's evaluations at a limb.
#[derive(Debug, Clone, Copy)]
pub struct Digit<'a> {
    /// N words.
    pub row: &'a [u64],
    /// Canonical words; `false`: the working form.
    pub canonical: bool,
}
