//! [`Lanes`] with AVX2 and FMA: 4 lanes. Operations that AVX2 lacks (64-bit products, conversions) are built from those
//! that it has.
//!
//! Invariant of every `unsafe` block here: an [`Avx2`] exists only where [`Avx2::detect`] found AVX2 and FMA, which are
//! all that the instructions named need. Loads and stores are unaligned and go through references to 32 bytes.

use std::arch::x86_64::*;

use super::lanes::Lanes;

#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }
}

/// 2^52: a double between it and 2^53 holds an integer in its low bits.
const TWO_52: f64 = 4503599627370496.0;
const TWO_84: f64 = 19342813113834066795298816.0;
const TWO_63: f64 = 9223372036854775808.0;
/// 1.5 * 2^52: likewise for signed integers below 2^51.
const SIGNED_52: f64 = 6755399441055744.0;

macro_rules! instructions {
    ($($(#[$doc:meta])* fn $name:ident($self:ident $(, $x:ident: $type:ty)*) -> $result:ty = $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            fn $name($self $(, $x: $type)*) -> $result {
                // SAFETY: `self` proves AVX2 and FMA.
                unsafe { $body }
            }
        )*
    };
}

impl Lanes for Avx2 {
    const LANES: usize = 4;
    type Chunk = [u64; 4];
    type Int = __m256i;
    type Real = __m256d;

    instructions! {
        fn load(self, from: &[u64; 4]) -> __m256i = _mm256_loadu_si256(from.as_ptr().cast());
        fn store(self, to: &mut [u64; 4], x: __m256i) -> () = _mm256_storeu_si256(to.as_mut_ptr().cast(), x);
        fn splat(self, x: u64) -> __m256i = _mm256_set1_epi64x(x as i64);
        fn splat_real(self, x: f64) -> __m256d = _mm256_set1_pd(x);
        fn real(self, x: __m256i) -> __m256d = _mm256_castsi256_pd(x);
        fn int(self, x: __m256d) -> __m256i = _mm256_castpd_si256(x);

        fn add(self, x: __m256i, y: __m256i) -> __m256i = _mm256_add_epi64(x, y);
        fn sub(self, x: __m256i, y: __m256i) -> __m256i = _mm256_sub_epi64(x, y);
        fn mul_low(self, x: __m256i, y: __m256i) -> __m256i = {
            // low * low, and the two crossed products above it
            let crossed = _mm256_mullo_epi32(x, _mm256_shuffle_epi32::<0b10_11_00_01>(y));
            let crossed = _mm256_add_epi32(crossed, _mm256_srli_epi64::<32>(crossed));
            _mm256_add_epi64(_mm256_mul_epu32(x, y), _mm256_slli_epi64::<32>(crossed))
        };
        fn mul_half(self, x: __m256i, y: __m256i) -> __m256i = _mm256_mul_epu32(x, y);
        fn high_half(self, x: __m256i) -> __m256i = _mm256_srli_epi64::<32>(x);
        fn shift_right_30(self, x: __m256i) -> __m256i = _mm256_srli_epi64::<30>(x);
        fn and(self, x: __m256i, y: __m256i) -> __m256i = _mm256_and_si256(x, y);
        fn sub_if_not_less(self, x: __m256i, y: __m256i) -> __m256i = {
            let rest = _mm256_sub_epi64(x, y); // its sign bit says less, since both are below 2^63
            let (kept, rest) = (_mm256_castsi256_pd(x), _mm256_castsi256_pd(rest));
            _mm256_castpd_si256(_mm256_blendv_pd(rest, kept, rest))
        };
        fn sub_where(self, bits: u8, x: __m256i, y: __m256i) -> __m256i = {
            let bit = _mm256_set_epi64x(8, 4, 2, 1);
            let chosen = _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(i64::from(bits)), bit), bit);
            let zero = _mm256_cmpeq_epi64(x, _mm256_setzero_si256());
            _mm256_sub_epi64(x, _mm256_and_si256(_mm256_andnot_si256(zero, chosen), y))
        };

        fn add_real(self, x: __m256d, y: __m256d) -> __m256d = _mm256_add_pd(x, y);
        fn sub_real(self, x: __m256d, y: __m256d) -> __m256d = _mm256_sub_pd(x, y);
        fn mul_real(self, x: __m256d, y: __m256d) -> __m256d = _mm256_mul_pd(x, y);
        fn mul_add(self, x: __m256d, y: __m256d, z: __m256d) -> __m256d = _mm256_fmadd_pd(x, y, z);
        fn mul_sub(self, x: __m256d, y: __m256d, z: __m256d) -> __m256d = _mm256_fmsub_pd(x, y, z);
        fn neg_mul_add(self, x: __m256d, y: __m256d, z: __m256d) -> __m256d = _mm256_fnmadd_pd(x, y, z);
        fn add_if_negative(self, x: __m256d, y: __m256d) -> __m256d =
            // a comparison, not the sign bit: -0.0 is not negative
            _mm256_add_pd(x, _mm256_and_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(x, _mm256_setzero_pd()), y));
        fn real_of_small(self, x: __m256i) -> __m256d = {
            let magic = _mm256_set1_pd(TWO_52);
            _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(x), magic), magic)
        };
        fn real_of_signed(self, x: __m256i) -> __m256d = {
            // the halves as doubles: the upper, its sign flipped, above 2^84, and the lower above 2^52
            let low = _mm256_blend_epi32::<0b1010_1010>(x, _mm256_castpd_si256(_mm256_set1_pd(TWO_52)));
            let high = _mm256_xor_si256(_mm256_srli_epi64::<32>(x), _mm256_castpd_si256(_mm256_set1_pd(TWO_84 + TWO_63)));
            let high = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(TWO_84 + TWO_63 + TWO_52));
            _mm256_add_pd(high, _mm256_castsi256_pd(low))
        };
        fn to_small(self, x: __m256d) -> __m256i = {
            let magic = _mm256_set1_pd(SIGNED_52);
            _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(x, magic)), _mm256_castpd_si256(magic))
        };
        fn to_signed(self, x: __m256d) -> __m256i = {
            let upper = self.to_small(_mm256_mul_pd(x, _mm256_set1_pd(1.0 / 4294967296.0)));
            let rounded = _mm256_sub_pd(
                _mm256_castsi256_pd(_mm256_add_epi64(upper, _mm256_castpd_si256(_mm256_set1_pd(SIGNED_52)))),
                _mm256_set1_pd(SIGNED_52),
            );
            let lower = self.to_small(_mm256_fnmadd_pd(rounded, _mm256_set1_pd(4294967296.0), x));
            _mm256_add_epi64(_mm256_slli_epi64::<32>(upper), lower)
        };
        fn transpose(self, x: &mut [__m256i; 8]) -> () = {
            let (a, b) = (_mm256_unpacklo_epi64(x[0], x[1]), _mm256_unpackhi_epi64(x[0], x[1]));
            let (c, d) = (_mm256_unpacklo_epi64(x[2], x[3]), _mm256_unpackhi_epi64(x[2], x[3]));
            x[0] = _mm256_permute2x128_si256::<0x20>(a, c);
            x[1] = _mm256_permute2x128_si256::<0x20>(b, d);
            x[2] = _mm256_permute2x128_si256::<0x31>(a, c);
            x[3] = _mm256_permute2x128_si256::<0x31>(b, d);
        };
    }
}
