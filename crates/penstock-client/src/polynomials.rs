//! Polynomials of small coefficients, encrypted as they are: no slots, one limb, half of each ciphertext a seed.
//!
//! The rows of a database are many such polynomials under one seed: row k has the uniform half (digit k, limb 0) of
//! `penstock_seed::expand`.

use penstock_ckks::kernels::Source;
use penstock_seed::{Seed, expand};

use crate::error::{Error, Result};
use crate::protected::Protected;
use crate::random::{Stream, public_seed};
use crate::ring::Ring;
use crate::sample::errors;
use crate::secret::SecretKey;

impl Ring {
    /// Encrypts polynomials at the first limb with the secret key. Returns the seed of their uniform halves, and writes
    /// the other halves: evaluations, canonical.
    ///
    /// `coefficients`: signed, below 2^51 in magnitude; `out` has as many words.
    ///
    /// # Errors
    /// [`Error::Value`]: not whole polynomials, or an odd number of words. [`Error::Random`]: the system has no random bytes.
    pub fn encrypt_polynomials(&self, secret: &SecretKey, coefficients: &[i64], out: &mut [u64]) -> Result<Seed> {
        let n = self.ring_dim();
        if coefficients.len() != out.len() || !out.len().is_multiple_of(n) {
            let what = format!("{} coefficients for {} words", coefficients.len(), out.len());
            return Err(Error::value(what, format!("whole polynomials of {n} coefficients")));
        }
        let secret = secret.here(self)?;
        let seed = public_seed()?;
        let p = &self.primes()[0];
        let jobs = out.chunks_exact_mut(n).zip(coefficients.chunks_exact(n)).enumerate().collect();
        self.context().each(jobs, |(row, (out, coefficients))| {
            let mut stream = Stream::new()
                .map_err(|error| penstock_ckks::Error::System { what: "random bytes", why: error.to_string() })?;
            let mut sum = Protected::<u64>::new(n);
            errors(&mut stream, &mut sum);
            for (word, value) in sum.iter_mut().zip(coefficients) {
                *word = word.wrapping_add(*value as u64);
            }
            let (mut a, mut product) = (vec![0; n], Protected::<u64>::new(n));
            expand(&seed, row as u32, 0, p.modulus.value(), &mut a);
            self.product(0, &a, secret.row(0), &mut product);
            let kernels = self.kernels();
            kernels.convert(p, &[Source { row: &sum, factor: 1, wide: true }], out);
            kernels.forward(p, out);
            kernels.to_canonical(p, out);
            kernels.subtract(p, out, &product);
            Ok(())
        })?;
        Ok(seed)
    }
}
