//! Key switches around the raising of the modulus, where the secret is sparse for that moment only.
//!
//! A sparse secret adds few multiples of the modulus, and is safe under a small modulus. So a ciphertext of one limb goes
//! to an ephemeral sparse secret, its modulus is raised, and it comes back. Source: Bossuat, Troncoso-Pastoriza and
//! Hubaux (ePrint 2022/024); OpenFHE 1.6.1's `KeySwitchSparse` gives the same words.

use crate::auxiliary::{AUXILIARY_PRIMES, Auxiliary};
use crate::buffer::Words;
use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::{Digit, Prime, Source};
use crate::keys::KeyView;
use crate::openfhe_bytes::Part;

impl Context {
    fn auxiliary(&self) -> Result<&Auxiliary, Error> {
        if let Some(made) = self.auxiliary.get() {
            return Ok(made);
        }
        let made = Auxiliary::new(self.kernels, &self.primes, self.ring_dim(), &self.arena)?;
        Ok(self.auxiliary.get_or_init(|| made))
    }

    /// The moduli of a key to the sparse secret: q_0, then the auxiliary ones.
    ///
    /// # Errors
    /// [`Error::Parameters`]: there are none for so large an N; [`Error::System`]: no memory for their tables.
    pub fn to_sparse_moduli(&self) -> Result<Vec<u64>, Error> {
        let primes = self.primes[..1].iter().chain(&self.auxiliary()?.primes);
        Ok(primes.map(|p| p.modulus.value()).collect())
    }

    /// The auxiliary primes of the switch to the sparse secret, with the tables of their transforms.
    ///
    /// # Errors
    /// As [`Context::to_sparse_moduli`].
    pub fn auxiliary_primes(&self) -> Result<&[Prime], Error> {
        Ok(&self.auxiliary()?.primes)
    }

    /// Switches a ciphertext of one limb to the ephemeral sparse secret. Unlike others, `key` has one digit and the limbs
    /// of [`Context::to_sparse_moduli`].
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context, not relinearized, or of several limbs; [`Error::KeyRow`]: a row of the
    /// key is missing; those of [`Context::to_sparse_moduli`].
    pub fn to_sparse(&self, a: &Ciphertext, key: &dyn KeyView) -> Result<Ciphertext, Error> {
        const OPERATION: &str = "switch to the sparse secret";
        self.check_relinearized(OPERATION, a)?;
        if a.limbs != 1 {
            let what = format!("a ciphertext of {} limbs", a.limbs);
            return Err(Error::Operand { operation: OPERATION, what, rule: "drop all limbs but the first before it" });
        }
        let polynomials = self.to_ephemeral(a.row(1, 0), Some(a.row(0, 0)), key)?;
        Ok(Ciphertext { polynomials, ..a.described() })
    }

    /// One polynomial at q_0 that is multiplied by the secret of `key`, as two polynomials under the ephemeral secret. The
    /// first one has `plus` added.
    pub(crate) fn to_ephemeral(
        &self,
        switched: &[u64],
        plus: Option<&[u64]>,
        key: &dyn KeyView,
    ) -> Result<Vec<Words>, Error> {
        let (n, kernels, auxiliary) = (self.ring_dim(), self.kernels, self.auxiliary()?);
        let q = &self.primes[0];
        let mut centred = self.arena.words(n)?;
        kernels.inverse(q, switched, q.modulus.inverse(q.modulus.reduce(n as u64)), &mut centred);
        centred.iter_mut().for_each(|word| *word = q.modulus.centred(*word) as u64);
        let mut extended = Vec::with_capacity(AUXILIARY_PRIMES);
        for p in &auxiliary.primes {
            let mut row = self.arena.words(n)?;
            kernels.convert(p, &[Source { row: &centred, factor: 1, wide: q.is_wide() }], &mut row);
            kernels.forward(p, &mut row);
            extended.push(row);
        }
        let mut polynomials = Vec::with_capacity(2);
        for (part, plus) in [(Part::B, plus), (Part::A, None)] {
            let mut product = self.arena.words(n)?;
            let mut shares = Vec::with_capacity(AUXILIARY_PRIMES);
            for (k, p) in auxiliary.primes.iter().enumerate() {
                let digit = Digit { row: &extended[k], canonical: false };
                kernels.sum_of_products(p, &[digit], &[key.words(part, 0, 1 + k, n)?], &mut product);
                let mut share = self.arena.words(n)?;
                kernels.inverse(p, &product, auxiliary.scales[k], &mut share);
                shares.push(share);
            }
            let mut lifted = self.centred_over_q(auxiliary, &shares)?;
            kernels.forward(q, &mut lifted);
            let digit = Digit { row: switched, canonical: true };
            kernels.sum_of_products(q, &[digit], &[key.words(part, 0, 0, n)?], &mut product);
            kernels.subtract_and_scale(q, &product, &mut lifted, auxiliary.inverse, plus);
            polynomials.push(lifted);
        }
        Ok(polynomials)
    }

    /// The representative in [-P'/2, P'/2) modulo q_0, in the working form, of the number that has `shares` as its digits
    /// of the Chinese remainder theorem. Source: Halevi, Polyakov and Shoup (ePrint 2018/117).
    fn centred_over_q(&self, auxiliary: &Auxiliary, shares: &[Words]) -> Result<Words, Error> {
        let inverses: Vec<f64> = auxiliary.primes.iter().map(|p| 1.0 / p.modulus.value() as f64).collect();
        let mut wholes = self.arena.words(self.ring_dim())?;
        for (at, whole) in wholes.iter_mut().enumerate() {
            let quotient = shares.iter().zip(&inverses).fold(0.5, |sum, (share, by)| sum + share[at] as f64 * by);
            *whole = quotient as u64;
        }
        let factors = auxiliary.factors.iter().chain([&auxiliary.minus_whole]);
        let sources: Vec<Source<'_>> = shares
            .iter()
            .chain([&wholes])
            .zip(factors)
            .map(|(row, factor)| Source { row, factor: *factor, wide: false })
            .collect();
        let mut lifted = self.arena.words(self.ring_dim())?;
        self.kernels.convert(&self.primes[0], &sources, &mut lifted);
        Ok(lifted)
    }

    /// Switches a ciphertext from the secret that `key` was made from to the one that it was made for: here from the
    /// ephemeral sparse secret back to that of the pair.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context or not relinearized; [`Error::KeyRow`]: a row of the key is missing.
    pub fn to_dense(&self, a: &Ciphertext, key: &dyn KeyView) -> Result<Ciphertext, Error> {
        self.check_relinearized("switch to the dense secret", a)?;
        let sums = self.switch_up(a.words(1), a.limbs, key)?;
        let polynomials = self.mod_down_both(a.limbs, &sums, None, [Some(a.words(0)), None])?;
        Ok(Ciphertext { polynomials, ..a.described() })
    }
}
