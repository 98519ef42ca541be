//! [`Lanes`] with AVX-512 (F and DQ): 8 lanes.
//!
//! Invariant of every `unsafe` block here: an [`Avx512`] exists only where [`Avx512::detect`] found AVX-512F and
//! AVX-512DQ, which are all that the instructions named need. Loads and stores are unaligned and go through references
//! to 64 bytes.

use std::arch::x86_64::*;

use super::lanes::Lanes;

#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")).then_some(Self(()))
    }
}

macro_rules! instructions {
    ($($(#[$doc:meta])* fn $name:ident(self $(, $x:ident: $type:ty)*) -> $result:ty = $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            fn $name(self $(, $x: $type)*) -> $result {
                // SAFETY: `self` proves AVX-512F and DQ.
                unsafe { $body }
            }
        )*
    };
}

impl Lanes for Avx512 {
    const LANES: usize = 8;
    type Chunk = [u64; 8];
    type Int = __m512i;
    type Real = __m512d;

    instructions! {
        fn load(self, from: &[u64; 8]) -> __m512i = _mm512_loadu_si512(from.as_ptr().cast());
        fn store(self, to: &mut [u64; 8], x: __m512i) -> () = _mm512_storeu_si512(to.as_mut_ptr().cast(), x);
        fn splat(self, x: u64) -> __m512i = _mm512_set1_epi64(x as i64);
        fn splat_real(self, x: f64) -> __m512d = _mm512_set1_pd(x);
        fn real(self, x: __m512i) -> __m512d = _mm512_castsi512_pd(x);
        fn int(self, x: __m512d) -> __m512i = _mm512_castpd_si512(x);

        fn add(self, x: __m512i, y: __m512i) -> __m512i = _mm512_add_epi64(x, y);
        fn sub(self, x: __m512i, y: __m512i) -> __m512i = _mm512_sub_epi64(x, y);
        fn mul_low(self, x: __m512i, y: __m512i) -> __m512i = _mm512_mullo_epi64(x, y);
        fn mul_half(self, x: __m512i, y: __m512i) -> __m512i = _mm512_mul_epu32(x, y);
        fn high_half(self, x: __m512i) -> __m512i = _mm512_srli_epi64::<32>(x);
        fn shift_right_30(self, x: __m512i) -> __m512i = _mm512_srli_epi64::<30>(x);
        fn and(self, x: __m512i, y: __m512i) -> __m512i = _mm512_and_si512(x, y);
        fn sub_if_not_less(self, x: __m512i, y: __m512i) -> __m512i = _mm512_min_epu64(x, _mm512_sub_epi64(x, y));
        fn sub_where(self, bits: u8, x: __m512i, y: __m512i) -> __m512i =
            _mm512_mask_sub_epi64(x, _mm512_mask_test_epi64_mask(bits, x, x), x, y);

        fn add_real(self, x: __m512d, y: __m512d) -> __m512d = _mm512_add_pd(x, y);
        fn sub_real(self, x: __m512d, y: __m512d) -> __m512d = _mm512_sub_pd(x, y);
        fn mul_real(self, x: __m512d, y: __m512d) -> __m512d = _mm512_mul_pd(x, y);
        fn mul_add(self, x: __m512d, y: __m512d, z: __m512d) -> __m512d = _mm512_fmadd_pd(x, y, z);
        fn mul_sub(self, x: __m512d, y: __m512d, z: __m512d) -> __m512d = _mm512_fmsub_pd(x, y, z);
        fn neg_mul_add(self, x: __m512d, y: __m512d, z: __m512d) -> __m512d = _mm512_fnmadd_pd(x, y, z);
        fn add_if_negative(self, x: __m512d, y: __m512d) -> __m512d =
            _mm512_mask_add_pd(x, _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x, _mm512_setzero_pd()), x, y);
        fn real_of_small(self, x: __m512i) -> __m512d = _mm512_cvtepi64_pd(x);
        fn real_of_signed(self, x: __m512i) -> __m512d = _mm512_cvtepi64_pd(x);
        fn to_small(self, x: __m512d) -> __m512i = _mm512_cvtpd_epi64(x);
        fn to_signed(self, x: __m512d) -> __m512i = _mm512_cvtpd_epi64(x);
        fn transpose(self, x: &mut [__m512i; 8]) -> () = {
            let mut pairs = *x; // pairs[2k + h]: the h-th of every two lanes, of rows 2k and 2k + 1
            for k in 0..4 {
                pairs[2 * k] = _mm512_unpacklo_epi64(x[2 * k], x[2 * k + 1]);
                pairs[2 * k + 1] = _mm512_unpackhi_epi64(x[2 * k], x[2 * k + 1]);
            }
            for h in 0..2 {
                let (a, b, c, d) = (pairs[h], pairs[2 + h], pairs[4 + h], pairs[6 + h]);
                let (ab_even, ab_odd) = (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b));
                let (cd_even, cd_odd) = (_mm512_shuffle_i64x2::<0x88>(c, d), _mm512_shuffle_i64x2::<0xdd>(c, d));
                x[h] = _mm512_shuffle_i64x2::<0x88>(ab_even, cd_even);
                x[4 + h] = _mm512_shuffle_i64x2::<0xdd>(ab_even, cd_even);
                x[2 + h] = _mm512_shuffle_i64x2::<0x88>(ab_odd, cd_odd);
                x[6 + h] = _mm512_shuffle_i64x2::<0xdd>(ab_odd, cd_odd);
            }
        };
    }
}
