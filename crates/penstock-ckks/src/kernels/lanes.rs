//! A vector of 64-bit lanes: the vector kernels are written in it once for every instruction set.
//!
//! A type that implements [`Lanes`] is a proof that the processor has its instructions: its constructor looks. So the
//! operations are safe to call, and `unsafe` stays in the two files that name instructions.

use bytemuck::Pod;

/// Operations on `LANES` words of 64 bits, as integers (`Int`) and as doubles (`Real`).
pub(super) trait Lanes: Copy + Send + Sync + 'static {
    const LANES: usize;
    /// `[u64; LANES]` without special alignment.
    type Chunk: Pod + Send + Sync;
    type Int: Copy;
    type Real: Copy;

    fn load(self, from: &Self::Chunk) -> Self::Int;
    fn store(self, to: &mut Self::Chunk, x: Self::Int);
    fn splat(self, x: u64) -> Self::Int;
    fn splat_real(self, x: f64) -> Self::Real;
    /// The same bits.
    fn real(self, x: Self::Int) -> Self::Real;
    /// The same bits.
    fn int(self, x: Self::Real) -> Self::Int;

    fn add(self, x: Self::Int, y: Self::Int) -> Self::Int;
    fn sub(self, x: Self::Int, y: Self::Int) -> Self::Int;
    /// The low 64 bits of the product.
    fn mul_low(self, x: Self::Int, y: Self::Int) -> Self::Int;
    /// The product of the low 32 bits.
    fn mul_half(self, x: Self::Int, y: Self::Int) -> Self::Int;
    fn high_half(self, x: Self::Int) -> Self::Int;
    fn shift_right_30(self, x: Self::Int) -> Self::Int;
    fn and(self, x: Self::Int, y: Self::Int) -> Self::Int;
    /// `x - y` where that is not negative, else `x`; both below 2^63.
    fn sub_if_not_less(self, x: Self::Int, y: Self::Int) -> Self::Int;
    /// `x - y` where the bit of the lane is set in `bits` and `x` is not 0, else `x`.
    fn sub_where(self, bits: u8, x: Self::Int, y: Self::Int) -> Self::Int;

    fn add_real(self, x: Self::Real, y: Self::Real) -> Self::Real;
    fn sub_real(self, x: Self::Real, y: Self::Real) -> Self::Real;
    fn mul_real(self, x: Self::Real, y: Self::Real) -> Self::Real;
    /// `x * y + z`, rounded once.
    fn mul_add(self, x: Self::Real, y: Self::Real, z: Self::Real) -> Self::Real;
    /// `x * y - z`, rounded once.
    fn mul_sub(self, x: Self::Real, y: Self::Real, z: Self::Real) -> Self::Real;
    /// `z - x * y`, rounded once.
    fn neg_mul_add(self, x: Self::Real, y: Self::Real, z: Self::Real) -> Self::Real;
    /// `x + y` where `x` is negative, else `x`.
    fn add_if_negative(self, x: Self::Real, y: Self::Real) -> Self::Real;
    /// Exact for `0 <= x < 2^52`.
    fn real_of_small(self, x: Self::Int) -> Self::Real;
    /// Rounded to the nearest double, of any signed word.
    fn real_of_signed(self, x: Self::Int) -> Self::Real;
    /// The nearest integer, for `|x| < 2^51`.
    fn to_small(self, x: Self::Real) -> Self::Int;
    /// An integer within 1 of `x`, for `|x| < 2^62`.
    fn to_signed(self, x: Self::Real) -> Self::Int;

    /// Transposes the square of the first `LANES` vectors.
    fn transpose(self, x: &mut [Self::Int; 8]);
}
