//! Ciphertexts and plaintexts: limbs with their meaning.

use crate::buffer::Words;
use crate::error::Error;

/// A polynomial in evaluation order: `limbs` rows of N canonical words (the buffer may hold more rows).
pub(crate) type Poly = Words;

/// An encrypted vector: 2 polynomials, or 3 between a product and its relinearization.
#[derive(Debug)]
pub struct Ciphertext {
    pub(crate) polynomials: Vec<Poly>,
    pub(crate) limbs: usize,
    pub(crate) ring_dim: usize,
    pub(crate) degree: u32,
    pub(crate) scale: f64,
    pub(crate) slots: u32,
}

/// An encoded vector.
#[derive(Debug)]
pub struct Plaintext {
    pub(crate) polynomial: Poly,
    pub(crate) limbs: usize,
    pub(crate) ring_dim: usize,
    pub(crate) degree: u32,
    pub(crate) scale: f64,
    pub(crate) slots: u32,
}

impl Ciphertext {
    /// RNS limbs left.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// 1 after encryption, 2 after a product that has not been rescaled.
    pub fn degree(&self) -> u32 {
        self.degree
    }

    /// The factor that values are multiplied by.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Values that it holds.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Reads the same words at another scale.
    pub fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
    }

    /// Number of polynomials: 2, or 3 before relinearization.
    pub fn polynomials(&self) -> usize {
        self.polynomials.len()
    }

    /// The rows of one polynomial, `limbs * N` words.
    ///
    /// # Panics
    /// Where there is no such polynomial.
    pub fn words(&self, polynomial: usize) -> &[u64] {
        &self.polynomials[polynomial][..self.limbs * self.ring_dim]
    }

    pub(crate) fn row(&self, polynomial: usize, limb: usize) -> &[u64] {
        &self.polynomials[polynomial][limb * self.ring_dim..(limb + 1) * self.ring_dim]
    }

    /// The same with the first `limbs` limbs, copied.
    pub(crate) fn truncated(&self, limbs: usize) -> Result<Self, Error> {
        let copies = self.polynomials.iter().map(|words| copied(words, limbs * self.ring_dim));
        Ok(Self { polynomials: copies.collect::<Result<_, _>>()?, limbs, ..self.described() })
    }

    /// The same values elsewhere.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory.
    pub fn duplicate(&self) -> Result<Self, Error> {
        self.truncated(self.limbs)
    }

    /// What it says of itself, without polynomials.
    pub(crate) fn described(&self) -> Self {
        Self {
            polynomials: Vec::new(),
            limbs: self.limbs,
            ring_dim: self.ring_dim,
            degree: self.degree,
            scale: self.scale,
            slots: self.slots,
        }
    }
}

impl Plaintext {
    /// RNS limbs.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The power of the scale that it was encoded at.
    pub fn degree(&self) -> u32 {
        self.degree
    }

    /// The factor that values are multiplied by.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The rows, `limbs * N` words.
    pub fn words(&self) -> &[u64] {
        &self.polynomial[..self.limbs * self.ring_dim]
    }
}

pub(crate) fn copied(words: &Words, count: usize) -> Result<Words, Error> {
    let mut copy = words.arena().words(count)?;
    copy.copy_from_slice(&words[..count]);
    Ok(copy)
}
