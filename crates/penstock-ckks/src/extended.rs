//! Sums over Q and P: several rotations of one ciphertext, divided by P once.
//!
//! Where a program adds rotations up, the division by P of each can wait until after the sum (double hoisting). The
//! words equal those of OpenFHE's `KeySwitchExt`, `EvalFastRotationExt` and `KeySwitchDown`.

use crate::automorphism::Automorphism;
use crate::cipher::{Ciphertext, Plaintext};
use crate::context::Context;
use crate::encode::Coefficients;
use crate::error::Error;
use crate::kernels::Digit;
use crate::keys::KeyView;
use crate::keyswitch::{Digits, Extended};
use crate::slots::Complex;

/// A ciphertext times P, over the limbs of Q in use and the limbs of P.
#[derive(Debug)]
pub struct ExtendedCiphertext {
    rows: Extended,
    /// The ciphertext after the division; without polynomials.
    described: Ciphertext,
}

impl ExtendedCiphertext {
    /// Limbs of Q.
    pub fn limbs(&self) -> usize {
        self.described.limbs
    }

    /// The rows of one polynomial: the limbs of Q, then of P.
    ///
    /// # Panics
    /// Where there is no such polynomial.
    pub fn words(&self, polynomial: usize) -> &[u64] {
        &self.rows[polynomial]
    }
}

/// A plaintext over the limbs of Q in use and the limbs of P.
#[derive(Debug)]
pub struct ExtendedPlaintext(Plaintext);

/// The operands of one sum of products: a term for each plaintext, and a ciphertext that is added.
#[derive(Debug, Clone, Copy)]
pub struct WeightedTerms<'a> {
    /// In the order of the plaintexts.
    pub terms: &'a [&'a ExtendedCiphertext],
    /// Added to the sum.
    pub plus: Option<&'a ExtendedCiphertext>,
}

impl Context {
    /// Encodes for a product with an [`ExtendedCiphertext`].
    ///
    /// # Errors
    /// Those of [`Context::encode`].
    pub fn encode_extended(
        &self,
        values: &[Complex],
        limbs: usize,
        degree: u32,
        slots: usize,
    ) -> Result<ExtendedPlaintext, Error> {
        let targets: Vec<usize> = (0..limbs).chain(self.count_q()..self.primes.len()).collect();
        self.encode_over(values, limbs, degree, slots, &targets).map(ExtendedPlaintext)
    }

    /// `a * plain`, word by word; nothing is rescaled first.
    ///
    /// # Errors
    /// [`Error::Operand`]: they differ in limbs.
    pub fn mult_plain_extended(
        &self,
        a: &ExtendedCiphertext,
        plain: &ExtendedPlaintext,
    ) -> Result<ExtendedCiphertext, Error> {
        let (n, limbs, plain) = (self.ring_dim(), a.limbs(), &plain.0);
        if plain.limbs != limbs || plain.ring_dim != n || a.rows[0].len() != plain.polynomial.len() {
            let what = format!("a ciphertext of {limbs} limbs with a plaintext of {}", plain.limbs);
            return Err(Error::Operand { operation: "multiply", what, rule: "encode it at the ciphertext's limbs" });
        }
        let mut rows = self.extended(limbs)?;
        self.each_extended(limbs, &mut rows, |half, target, row| {
            let p = &self.primes[self.chain_index(target, limbs)];
            let at = target * n..(target + 1) * n;
            let x = Digit { row: &a.rows[half][at.clone()], canonical: true };
            self.kernels.sum_of_products(p, &[x], &[&plain.polynomial[at]], row);
        })?;
        let mut described = a.described.described();
        described.degree += plain.degree;
        described.scale *= plain.scale;
        Ok(ExtendedCiphertext { rows, described })
    }

    /// `sum of terms[k] * plains[k]`, plus `plus`: in one pass, in which no plaintext is made of more than a limb.
    ///
    /// # Errors
    /// [`Error::Operand`]: no terms, another number of plaintexts, or they differ in limbs.
    pub fn weighted_sum_extended(
        &self,
        terms: &[&ExtendedCiphertext],
        plains: &[&Coefficients],
        plus: Option<&ExtendedCiphertext>,
    ) -> Result<ExtendedCiphertext, Error> {
        let mut sums = self.weighted_sums_extended(&[WeightedTerms { terms, plus }], plains)?;
        Ok(sums.remove(0))
    }

    /// [`Context::weighted_sum_extended`] of several ciphertexts with the same plaintexts, each of which is evaluated
    /// once at a limb for all of them.
    ///
    /// # Errors
    /// Those of [`Context::weighted_sum_extended`], and no sums.
    pub fn weighted_sums_extended(
        &self,
        sums: &[WeightedTerms<'_>],
        plains: &[&Coefficients],
    ) -> Result<Vec<ExtendedCiphertext>, Error> {
        let operation = "sum";
        let n = self.ring_dim();
        let first = sums.first().and_then(|sum| sum.terms.first());
        let (Some(first), Some(plain)) = (first, plains.first()) else {
            let rule = "give at least one term";
            return Err(Error::Operand { operation, what: "no terms".to_owned(), rule });
        };
        let limbs = first.limbs();
        let mut lengths =
            sums.iter().flat_map(|sum| sum.terms.iter().copied().chain(sum.plus)).map(|e| e.rows[0].len());
        if sums.iter().any(|sum| sum.terms.len() != plains.len())
            || plains.iter().any(|each| each.limbs() != limbs || each.described().ring_dim != n)
            || lengths.any(|length| length != (limbs + self.count_p()) * n)
        {
            let what = format!("{} terms of {limbs} limbs with {} plaintexts", sums[0].terms.len(), plains.len());
            return Err(Error::Operand { operation, what, rule: "a plaintext for each term, all of the same limbs" });
        }
        let mut rows = sums.iter().map(|_| self.extended(limbs)).collect::<Result<Vec<_>, _>>()?;
        let mut jobs: Vec<_> = (0..limbs + self.count_p()).map(|_| Vec::with_capacity(sums.len())).collect();
        for [b, a] in &mut rows {
            for (job, pair) in jobs.iter_mut().zip(b.chunks_exact_mut(n).zip(a.chunks_exact_mut(n))) {
                job.push(pair);
            }
        }
        self.workers.each(jobs.into_iter().enumerate().collect(), |(target, outputs)| {
            let limb = self.chain_index(target, limbs);
            let p = &self.primes[limb];
            let mut encoded = self.arena.words(plains.len() * n)?;
            for (row, plain) in encoded.chunks_exact_mut(n).zip(plains) {
                self.encode_row(plain, limb, row)?;
            }
            let digits: Vec<_> = encoded.chunks_exact(n).map(|row| Digit { row, canonical: false }).collect();
            let at = target * n..(target + 1) * n;
            for (sum, (b, a)) in sums.iter().zip(outputs) {
                let of = |half: usize| sum.terms.iter().map(|term| &term.rows[half][at.clone()]).collect::<Vec<_>>();
                self.kernels.inner_product(p, &digits, [&of(0), &of(1)], [&mut *b, &mut *a]);
                if let Some(plus) = sum.plus {
                    self.kernels.add(p, b, &plus.rows[0][at.clone()]);
                    self.kernels.add(p, a, &plus.rows[1][at.clone()]);
                }
            }
            Ok(())
        })?;
        let made = rows.into_iter().zip(sums).map(|(rows, sum)| {
            let mut described = sum.terms[0].described.described();
            described.degree += plain.described().degree;
            described.scale *= plain.described().scale;
            ExtendedCiphertext { rows, described }
        });
        Ok(made.collect())
    }

    /// `P * a`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context or not relinearized.
    pub fn extend(&self, a: &Ciphertext) -> Result<ExtendedCiphertext, Error> {
        self.check_relinearized("extend", a)?;
        let mut rows = self.extended(a.limbs)?;
        self.each_extended(a.limbs, &mut rows, |half, target, row| {
            if target < a.limbs {
                row.copy_from_slice(a.row(half, target));
                self.kernels.scale(&self.primes[target], row, self.down.p[target]);
            } else {
                row.fill(0);
            }
        })?;
        Ok(ExtendedCiphertext { rows, described: a.described() })
    }

    /// A hoisted rotation that is not divided by P yet.
    ///
    /// # Errors
    /// [`Error::Operand`]: `digits` are not of a ciphertext like `a`; [`Error::KeyRow`]: a row of the key is missing.
    pub fn rotate_hoisted_extended(
        &self,
        a: &Ciphertext,
        digits: &Digits,
        automorphism: &Automorphism,
        key: &dyn KeyView,
    ) -> Result<ExtendedCiphertext, Error> {
        self.check_relinearized("rotate", a)?;
        let mut sums = self.switch_digits(a.limbs, digits, key)?;
        let (n, limbs) = (self.ring_dim(), a.limbs);
        // P c_0 is 0 in the limbs of P.
        let jobs = sums[0][..limbs * n].chunks_exact_mut(n).enumerate().collect();
        self.workers.each(jobs, |(limb, row)| {
            let p = &self.primes[limb];
            let mut extended = self.arena.words(n)?;
            extended.copy_from_slice(a.row(0, limb));
            self.kernels.scale(p, &mut extended, self.down.p[limb]);
            self.kernels.add(p, row, &extended);
            Ok(())
        })?;
        self.permuted(a.described(), &sums, automorphism)
    }

    fn permuted(
        &self,
        described: Ciphertext,
        sums: &Extended,
        automorphism: &Automorphism,
    ) -> Result<ExtendedCiphertext, Error> {
        let (n, limbs) = (self.ring_dim(), described.limbs);
        let mut rows = self.extended(limbs)?;
        self.each_extended(limbs, &mut rows, |half, target, row| {
            automorphism.permute(&sums[half][target * n..(target + 1) * n], row);
        })?;
        Ok(ExtendedCiphertext { rows, described })
    }

    /// The decomposition of a ciphertext over Q and P, whose second polynomial is divided by P first.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory.
    pub fn decompose_extended(&self, a: &ExtendedCiphertext) -> Result<Digits, Error> {
        let divided = self.mod_down_each(a.limbs(), &[&a.rows[1]], None, &[None])?;
        self.decompose_polynomial(&divided[0], a.limbs())
    }

    /// A ciphertext over Q and P, rotated; it stays over both. `digits` are its own.
    ///
    /// # Errors
    /// [`Error::Operand`]: `digits` are not of a ciphertext like `a`; [`Error::KeyRow`]: a row of the key is missing.
    pub fn rotate_extended(
        &self,
        a: &ExtendedCiphertext,
        digits: &Digits,
        automorphism: &Automorphism,
        key: &dyn KeyView,
    ) -> Result<ExtendedCiphertext, Error> {
        let (n, limbs) = (self.ring_dim(), a.limbs());
        let mut sums = self.switch_digits(limbs, digits, key)?;
        self.each_extended(limbs, &mut sums, |half, target, row| {
            if half == 0 {
                let p = &self.primes[self.chain_index(target, limbs)];
                self.kernels.add(p, row, &a.rows[0][target * n..(target + 1) * n]);
            }
        })?;
        self.permuted(a.described.described(), &sums, automorphism)
    }

    /// `a + b`.
    ///
    /// # Errors
    /// [`Error::Operand`]: they differ in limbs.
    pub fn add_extended(&self, a: &ExtendedCiphertext, b: &ExtendedCiphertext) -> Result<ExtendedCiphertext, Error> {
        let (n, limbs) = (self.ring_dim(), a.limbs());
        if b.limbs() != limbs || b.rows[0].len() != a.rows[0].len() {
            let what = format!("{limbs} and {} limbs", b.limbs());
            return Err(Error::Operand { operation: "add", what, rule: "terms of a sum have the same limbs" });
        }
        let mut rows = self.extended(limbs)?;
        self.each_extended(limbs, &mut rows, |half, target, row| {
            let at = target * n..(target + 1) * n;
            row.copy_from_slice(&a.rows[half][at.clone()]);
            self.kernels.add(&self.primes[self.chain_index(target, limbs)], row, &b.rows[half][at]);
        })?;
        Ok(ExtendedCiphertext { rows, described: a.described.described() })
    }

    /// Divides by P: an ordinary ciphertext.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory.
    pub fn mod_down(&self, a: &ExtendedCiphertext) -> Result<Ciphertext, Error> {
        let polynomials = self.mod_down_both(a.limbs(), &a.rows, None, [None, None])?;
        Ok(Ciphertext { polynomials, ..a.described.described() })
    }

    fn each_extended(
        &self,
        limbs: usize,
        rows: &mut Extended,
        work: impl Fn(usize, usize, &mut [u64]) + Sync,
    ) -> Result<(), Error> {
        let (n, targets) = (self.ring_dim(), limbs + self.count_p());
        let jobs = rows.iter_mut().enumerate().flat_map(|(half, words)| {
            words.chunks_exact_mut(n).take(targets).enumerate().map(move |(target, row)| (half, target, row))
        });
        self.workers.each(jobs.collect(), |(half, target, row)| {
            work(half, target, row);
            Ok(())
        })
    }
}
