//! Rows of uniform residues from a 32-byte seed.

/// Where the uniform half of a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub [u8; 32]);

/// Fills a row with residues below `modulus`: a function of the seed, the digit, the limb and the modulus.
pub fn expand(seed: &Seed, digit: u32, limb: u32, modulus: u64, words: &mut [u64]) {
    let mut state = seed.0.iter().fold(0x9e37_79b9_7f4a_7c15 ^ modulus, |state: u64, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x1000_0000_01b3)
    });
    state ^= (u64::from(digit) << 32 | u64::from(limb)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for word in words {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = ((u128::from(z ^ (z >> 31)) * u128::from(modulus)) >> 64) as u64;
    }
}
