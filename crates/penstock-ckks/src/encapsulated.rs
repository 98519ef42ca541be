//! Key switches around the raising of the modulus, where the secret is sparse for that moment only.
//!
//! A sparse secret adds few multiples of the modulus, and is safe under a small modulus. So a ciphertext of one limb goes
//! to an ephemeral sparse secret, its modulus is raised, and it comes back. Source: Bossuat, Troncoso-Pastoriza and
//! Hubaux (ePrint 2022/024); the words are those of OpenFHE's `KeySwitchSparse`.

use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::{Digit, Source};
use crate::keys::KeyView;
use crate::openfhe_bytes::Part;

/// Moduli of the key to the sparse secret: the first of Q and the first of P. No modulus above their product ever meets
/// the sparse secret.
pub const TO_SPARSE_MODULI: usize = 2;

impl Context {
    /// Switches a ciphertext of one limb to the ephemeral sparse secret. Unlike others, `key` has one digit and two limbs:
    /// limb 0 is q_0's, limb 1 that of the first modulus of P.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context, not relinearized, or of several limbs; [`Error::KeyRow`]: a row of the
    /// key is missing.
    pub fn to_sparse(&self, a: &Ciphertext, key: &dyn KeyView) -> Result<Ciphertext, Error> {
        const OPERATION: &str = "switch to the sparse secret";
        self.check_relinearized(OPERATION, a)?;
        if a.limbs != 1 {
            let what = format!("a ciphertext of {} limbs", a.limbs);
            return Err(Error::Operand { operation: OPERATION, what, rule: "drop all limbs but the first before it" });
        }
        let (n, kernels) = (self.ring_dim(), self.kernels);
        let (q, p) = (&self.primes[0], &self.primes[self.count_q()]);
        let inverse_n = |prime: &crate::kernels::Prime| prime.modulus.inverse(prime.modulus.reduce(n as u64));
        let (of_q, of_p) = (inverse_n(q), inverse_n(p));
        let by_p = q.modulus.inverse(q.modulus.reduce(p.modulus.value()));
        let mut centred = self.arena.words(n)?;
        kernels.inverse(q, a.row(1, 0), of_q, &mut centred);
        centred.iter_mut().for_each(|word| *word = q.modulus.centred(*word) as u64);
        let mut over_p = self.arena.words(n)?;
        kernels.convert(p, &[Source { row: &centred, factor: 1, wide: q.is_wide() }], &mut over_p);
        kernels.forward(p, &mut over_p);
        let row = |part: Part, limb: usize| {
            let found = key.row(part, 0, limb).filter(|row| row.len() == n);
            found.ok_or(Error::KeyRow { part: part.name(), digit: 0, limb })
        };
        let mut polynomials = Vec::with_capacity(2);
        for (part, plus) in [(Part::B, Some(a.row(0, 0))), (Part::A, None)] {
            let (mut sum, mut product) = (self.arena.words(n)?, self.arena.words(n)?);
            let digit = Digit { row: &over_p, canonical: false };
            kernels.sum_of_products(p, &[digit], &[row(part, 1)?], &mut product);
            kernels.inverse(p, &product, of_p, &mut sum);
            sum.iter_mut().for_each(|word| *word = p.modulus.centred(*word) as u64);
            let mut lifted = self.arena.words(n)?;
            kernels.convert(q, &[Source { row: &sum, factor: 1, wide: p.is_wide() }], &mut lifted);
            kernels.forward(q, &mut lifted);
            let digit = Digit { row: a.row(1, 0), canonical: true };
            kernels.sum_of_products(q, &[digit], &[row(part, 0)?], &mut product);
            kernels.subtract_and_scale(q, &product, &mut lifted, by_p, plus);
            polynomials.push(lifted);
        }
        Ok(Ciphertext { polynomials, ..a.described() })
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
