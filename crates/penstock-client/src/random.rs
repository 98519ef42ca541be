//! Random bits: 32 bytes of the operating system for each stream, expanded by ChaCha20.
//!
//! A new stream draws its own seed. Secrets, errors, public halves and flooding never share one, and none is used twice.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use penstock_seed::Seed;
use zeroize::Zeroize;

use crate::error::{Error, Result};

const BUFFER_BYTES: usize = 4096;

/// A stream of secret random words. Its state is wiped when it is dropped.
pub struct Stream {
    cipher: ChaCha20,
    buffer: [u8; BUFFER_BYTES],
    used: usize,
}

/// A seed of the operating system for one public half.
///
/// # Errors
/// [`Error::Random`]: the system has none.
pub fn public_seed() -> Result<Seed> {
    let mut bytes = [0; 32];
    fill(&mut bytes)?;
    Ok(Seed(bytes))
}

/// Bytes of the operating system.
///
/// # Errors
/// [`Error::Random`]: the system has none.
pub fn fill(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Error::Random(error.to_string()))
}

impl Stream {
    /// A new stream with a new seed.
    ///
    /// # Errors
    /// [`Error::Random`]: the system has no seed.
    pub fn new() -> Result<Self> {
        let mut key = [0; 32];
        fill(&mut key)?;
        let made = Self::of(&key);
        key.zeroize();
        Ok(made)
    }

    fn of(key: &[u8; 32]) -> Self {
        let cipher = ChaCha20::new(&(*key).into(), &[0; 12].into());
        Self { cipher, buffer: [0; BUFFER_BYTES], used: BUFFER_BYTES }
    }

    /// A stream that a test can repeat.
    #[cfg(test)]
    pub fn repeatable(number: u8) -> Self {
        Self::of(&[number; 32])
    }

    /// The next 64 bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        if self.used == BUFFER_BYTES {
            self.buffer.zeroize();
            self.cipher.apply_keystream(&mut self.buffer);
            self.used = 0;
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.buffer[self.used..self.used + 8]);
        self.used += 8;
        u64::from_le_bytes(bytes)
    }

    /// The next 128 bits.
    #[inline]
    pub fn wide_word(&mut self) -> u128 {
        u128::from(self.word()) << 64 | u128::from(self.word())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_are_the_cipher_s() {
        let (mut one, mut other) = (Stream::new().unwrap(), Stream::new().unwrap());
        assert!((0..8).any(|_| one.word() != other.word()));
        let mut stream = Stream::repeatable(3);
        let mut expected = vec![0; 3 * BUFFER_BYTES];
        ChaCha20::new(&[3; 32].into(), &[0; 12].into()).apply_keystream(&mut expected);
        for eight in expected.chunks_exact(8) {
            assert_eq!(stream.word().to_le_bytes(), eight);
        }
    }

    #[test]
    fn a_thousand_seeds_are_a_thousand() {
        let seeds: std::collections::HashSet<_> = (0..1000).map(|_| public_seed().unwrap()).collect();
        assert_eq!(seeds.len(), 1000);
    }
}
