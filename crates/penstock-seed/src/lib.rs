//! The uniform half of a key or of a fresh ciphertext, as a seed of 32 bytes instead of its rows.
//!
//! Half of each evaluation key is uniform random words (part A), and so is half of a fresh ciphertext. They are public.
//! Whoever makes them draws a seed; whoever needs them expands it, one row (digit, limb) at a time and in any order.
//!
//! # The expansion, version 1
//! The stream of a row is ChaCha12 (the crate `chacha20`) with the seed as its key, the 12-byte nonce
//! `digit ‖ limb ‖ 0` (little-endian 32-bit numbers) and a block counter from 0. It is read as little-endian 64-bit
//! words `w`. A row of modulus `q` takes `floor(w q / 2^64)` of each word, in order, and skips a word where
//! `w q mod 2^64 < 2^64 mod q`: so each residue has the same number of words, and is exactly uniform. Source of this
//! rejection: Lemire, ACM Trans. Model. Comput. Simul. 29 (2019). At most one word in 16 is skipped (q below 2^60).
//!
//! A seed is for one key or one ciphertext: whoever makes two objects draws two seeds.
#![deny(unsafe_code)]

use std::fmt;

use chacha20::ChaCha12;
use chacha20::cipher::{KeyIvInit, StreamCipher};

/// The version of the expansion that files state.
pub const VERSION: u32 = 1;

/// Words of the stream at a time: 4 KiB, which stays in the first cache and is a multiple of the cipher's own step.
const CHUNK_WORDS: usize = 512;

/// The seed of one key's or one ciphertext's uniform half. It is public.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(pub [u8; 32]);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seed({self})")
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Fills a row with the residues below `modulus` of a seed at (digit, limb). `limb` counts the moduli of Q, then of P.
///
/// The residues are evaluations: uniform in either order, so that no transform is needed.
///
/// # Panics
/// Where `modulus` is 0.
pub fn expand(seed: &Seed, digit: u32, limb: u32, modulus: u64, words: &mut [u64]) {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&digit.to_le_bytes());
    nonce[4..8].copy_from_slice(&limb.to_le_bytes());
    let mut cipher = ChaCha12::new(&seed.0.into(), &nonce.into());
    let (factor, unfair) = (u128::from(modulus), modulus.wrapping_neg() % modulus);
    let mut stream = [0u8; 8 * CHUNK_WORDS];
    let mut filled = 0;
    while filled < words.len() {
        stream.fill(0);
        cipher.apply_keystream(&mut stream);
        filled += accepted(&stream, factor, unfair, &mut words[filled..]);
    }
}

/// Writes the residues of the fair words of `stream` until `words` is full, and returns their number.
#[inline(always)]
fn accepted(stream: &[u8; 8 * CHUNK_WORDS], factor: u128, unfair: u64, words: &mut [u64]) -> usize {
    let numbers = stream.chunks_exact(8).map(|eight| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(eight);
        u64::from_le_bytes(bytes)
    });
    let mut at = 0;
    if words.len() >= CHUNK_WORDS {
        // No test for the end: an unfair word is written, and then written over.
        let words = &mut words[..CHUNK_WORDS];
        for number in numbers {
            let product = u128::from(number) * factor;
            words[at & (CHUNK_WORDS - 1)] = (product >> 64) as u64;
            at += usize::from(product as u64 >= unfair);
        }
        return at;
    }
    for number in numbers {
        let product = u128::from(number) * factor;
        if product as u64 >= unfair {
            words[at] = (product >> 64) as u64;
            at += 1;
            if at == words.len() {
                break;
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULI: [u64; 4] = [97, 1125899906842817, 1152921504606844417, (1 << 50) - 27];

    /// The same, word by word: the slow twin.
    fn expanded(seed: &Seed, digit: u32, limb: u32, modulus: u64, count: usize) -> Vec<u64> {
        let nonce = [digit.to_le_bytes(), limb.to_le_bytes(), [0; 4]].concat();
        let mut cipher = ChaCha12::new_from_slices(&seed.0, &nonce).unwrap();
        let mut found = vec![];
        while found.len() < count {
            let mut word = [0; 8];
            cipher.apply_keystream(&mut word);
            let word = u128::from(u64::from_le_bytes(word));
            // The words of residue r are those with floor(w q / 2^64) = r; the first ones of each are left out where
            // residues would differ in their number.
            let (residue, low) = ((word * u128::from(modulus)) >> 64, (word * u128::from(modulus)) % (1 << 64));
            if low >= (1u128 << 64) % u128::from(modulus) {
                found.push(residue as u64);
            }
        }
        found
    }

    #[test]
    fn rows_equal_the_stream_read_word_by_word() {
        for (k, modulus) in MODULI.into_iter().enumerate() {
            for count in [1, 16, 511, 512, 513, 4096, 5000] {
                let seed = Seed([k as u8 + 1; 32]);
                let mut words = vec![u64::MAX; count];
                expand(&seed, k as u32, 7, modulus, &mut words);
                assert_eq!(words, expanded(&seed, k as u32, 7, modulus, count), "{modulus} {count}");
            }
        }
    }

    #[test]
    fn every_seed_digit_and_limb_has_a_row_of_its_own() {
        let row = |seed: u8, digit, limb| {
            let mut words = vec![0; 64];
            expand(&Seed([seed; 32]), digit, limb, MODULI[1], &mut words);
            words
        };
        let rows = [row(1, 0, 0), row(2, 0, 0), row(1, 1, 0), row(1, 0, 1), row(1, 1, 1)];
        for (k, one) in rows.iter().enumerate() {
            assert!(rows[..k].iter().all(|other| other != one));
        }
        assert_eq!(row(1, 3, 4), row(1, 3, 4));
    }

    #[test]
    fn the_first_words_do_not_move() {
        // A change here would make every stored seeded key useless: it needs another VERSION.
        let mut words = [0; 3];
        expand(&Seed([7; 32]), 2, 5, 1152921504606844417, &mut words);
        assert_eq!(words, [950764533016075546, 269805639885012214, 809750545249286104]);
    }

    #[test]
    fn residues_are_uniform() {
        // A small modulus, with which rejection never shows, and one where it does: 2^64 / q = 1.5.
        for (modulus, bins) in [(97, 97), ((1 << 63) + (1 << 61), 64)] {
            let mut words = vec![0; 1 << 17];
            expand(&Seed([3; 32]), 0, 0, modulus, &mut words);
            let mut counts = vec![0f64; bins];
            for word in &words {
                counts[(u128::from(*word) * bins as u128 / u128::from(modulus)) as usize] += 1.0;
            }
            let expected = words.len() as f64 / bins as f64;
            let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
            // Mean bins - 1, standard deviation sqrt(2 bins): within 5 of them.
            let freedom = bins as f64 - 1.0;
            assert!((chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "{modulus}: chi-square {chi}");
        }
    }
}
