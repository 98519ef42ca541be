//! Keys of random words: for tests and benchmarks of storage, where no library makes real ones.

use crate::segment::KeyContent;
use crate::{Form, Result, Shape};

/// A small, fast generator (splitmix64): the same seed, the same words.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_word()) * u128::from(bound)) >> 64) as u64
    }
}

/// `count` numbers of 50 bits that are 1 mod 2N. Storage does not need them to be prime.
pub fn moduli(ring_dim: usize, count: usize) -> Vec<u64> {
    let step = 2 * ring_dim as u64;
    let first = (1 << 49) / step * step + 1;
    (0..count as u64).map(|i| first + i * step).collect()
}

/// The shape of a synthetic key.
///
/// # Panics
/// Where no key has this shape.
#[allow(clippy::expect_used)] // A caller's slip in a test.
pub fn shape(ring_dim: usize, num_q: usize, num_p: usize, digits: usize) -> Shape {
    let moduli = moduli(ring_dim, num_q + num_p);
    Shape::new(ring_dim, &moduli[..num_q], &moduli[num_q..], digits).expect("a shape that keys can have")
}

/// A key whose words are uniformly random below their moduli, and a function of the seed and the place.
#[derive(Clone, Debug)]
pub struct SyntheticKey {
    pub shape: Shape,
    pub seed: u64,
    pub tag: String,
}

impl SyntheticKey {
    /// The words of one row.
    pub fn words(&self, row: usize) -> Vec<u64> {
        let modulus = self.shape.modulus(row);
        let mut random = Random::new(self.seed.wrapping_mul(0x1000_0000_01b3).wrapping_add(row as u64 + 1));
        (0..self.shape.ring_dim()).map(|_| random.below(modulus)).collect()
    }
}

impl KeyContent for SyntheticKey {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn secret_tag(&self) -> &str {
        &self.tag
    }

    fn fill(&self, row: usize, words: &mut [u64]) -> Result<()> {
        words.copy_from_slice(&self.words(row));
        Ok(())
    }
}

/// A synthetic key in another form: part A comes from a seed, or its rows end below the top of the chain.
#[derive(Clone, Debug)]
pub struct FormedKey {
    pub key: SyntheticKey,
    pub form: Form,
}

impl FormedKey {
    /// The words of one row, stored or expanded.
    pub fn words(&self, row: usize) -> Vec<u64> {
        let shape = &self.key.shape;
        match (self.form.seed, shape.place(row)) {
            (Some(seed), (0, digit, limb)) => {
                let mut words = vec![0; shape.ring_dim()];
                penstock_seed::expand(&seed, digit as u32, limb as u32, shape.moduli()[limb], &mut words);
                words
            }
            _ => self.key.words(row),
        }
    }
}

impl KeyContent for FormedKey {
    fn shape(&self) -> &Shape {
        &self.key.shape
    }

    fn secret_tag(&self) -> &str {
        &self.key.tag
    }

    fn form(&self) -> Form {
        self.form
    }

    fn fill(&self, row: usize, words: &mut [u64]) -> Result<()> {
        self.key.fill(row, words)
    }
}
