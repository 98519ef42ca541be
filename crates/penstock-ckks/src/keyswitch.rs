//! Hybrid key switching in OpenFHE 1.6's order: decompose, multiply by the key, apply the automorphism, divide by P.
//!
//! Two rules make the words equal, not only the message: base conversions take representatives in [0, q), and the
//! automorphism comes before the division by P. Permuting all limbs of Q and P would double the work, so the division
//! happens first here, with the representatives that it would have seen: a coefficient y of the P part that changes its
//! sign becomes p - y, which is -(y - p), so y - p is converted. The permutation then moves the result only.

use crate::automorphism::Automorphism;
use crate::buffer::Words;
use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::{Digit, Source};
use crate::keys::KeyView;
use crate::openfhe_bytes::Part;

/// Words of a row that conversions work on at a time: the sources of several targets stay in the cache.
const TILE: usize = 4096;

/// A digit decomposition, extended to Q and P: the part of key switching that rotations of one ciphertext share.
#[derive(Debug)]
pub struct Digits {
    pub(crate) limbs: usize,
    /// Of each target limb, each digit's row: in the working form, except a digit's own limbs, which are canonical.
    rows: Words,
}

impl Digits {
    /// All rows.
    pub fn words(&self) -> &[u64] {
        &self.rows
    }
}

/// The two polynomials over the limbs in use of Q, then of P: `(limbs + count_p) * N` words each.
pub(crate) type Extended = [Words; 2];

impl Context {
    /// Rotates slots: the automorphism, and the key switch back to the secret. `key` is the one of `automorphism`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context or not relinearized; [`Error::KeyRow`]: a row of the key is missing.
    pub fn rotate(&self, a: &Ciphertext, automorphism: &Automorphism, key: &dyn KeyView) -> Result<Ciphertext, Error> {
        self.check_relinearized("rotate", a)?;
        let sums = self.switch_up(a.words(1), a.limbs, key)?;
        let polynomials = self.mod_down_both(a.limbs, &sums, Some(automorphism), [Some(a.words(0)), None])?;
        Ok(Ciphertext { polynomials, ..a.described() })
    }

    /// The decomposition that several rotations of `a` share.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context or not relinearized.
    pub fn decompose(&self, a: &Ciphertext) -> Result<Digits, Error> {
        self.check_relinearized("decompose", a)?;
        self.decompose_polynomial(a.words(1), a.limbs)
    }

    pub(crate) fn decompose_polynomial(&self, polynomial: &[u64], limbs: usize) -> Result<Digits, Error> {
        let n = self.ring_dim();
        let digits = self.active_digits(limbs);
        let coefficients = self.coefficients(polynomial, limbs)?;
        let mut rows = self.arena.words((limbs + self.count_p()) * digits * n)?;
        let group = self.group();
        let jobs = rows.chunks_mut(group * digits * n).enumerate().collect();
        self.workers.each(jobs, |(g, rows)| {
            self.extend_digits(polynomial, &coefficients, limbs, g * group, rows);
            Ok(())
        })?;
        Ok(Digits { limbs, rows })
    }

    /// [`Context::rotate`] with the decomposition done before; the same words.
    ///
    /// # Errors
    /// [`Error::Operand`]: `digits` are not of a ciphertext like `a`; [`Error::KeyRow`]: a row of the key is missing.
    pub fn rotate_hoisted(
        &self,
        a: &Ciphertext,
        digits: &Digits,
        automorphism: &Automorphism,
        key: &dyn KeyView,
    ) -> Result<Ciphertext, Error> {
        self.check_relinearized("rotate", a)?;
        let sums = self.switch_digits(a.limbs, digits, key)?;
        let polynomials = self.mod_down_both(a.limbs, &sums, Some(automorphism), [Some(a.words(0)), None])?;
        Ok(Ciphertext { polynomials, ..a.described() })
    }

    /// Switches the key of one polynomial and adds `plus`: relinearization.
    pub(crate) fn switch(
        &self,
        polynomial: &[u64],
        limbs: usize,
        key: &dyn KeyView,
        plus: [&[u64]; 2],
    ) -> Result<Vec<Words>, Error> {
        let sums = self.switch_up(polynomial, limbs, key)?;
        self.mod_down_both(limbs, &sums, None, [Some(plus[0]), Some(plus[1])])
    }

    /// Decomposition and product with the key in one pass: digits live in scratch memory, a few limbs at a time.
    pub(crate) fn switch_up(&self, polynomial: &[u64], limbs: usize, key: &dyn KeyView) -> Result<Extended, Error> {
        let n = self.ring_dim();
        let digits = self.active_digits(limbs);
        let coefficients = self.coefficients(polynomial, limbs)?;
        let mut sums = self.extended(limbs)?;
        let group = self.group();
        let [b, a] = &mut sums;
        let jobs = b.chunks_mut(group * n).zip(a.chunks_mut(group * n)).enumerate().collect();
        self.workers.each(jobs, |(g, (b, a))| {
            let first = g * group;
            let mut scratch = self.arena.words(group * digits * n)?;
            self.extend_digits(polynomial, &coefficients, limbs, first, &mut scratch[..b.len() * digits]);
            let targets = scratch.chunks_exact(digits * n).zip(b.chunks_exact_mut(n).zip(a.chunks_exact_mut(n)));
            for (k, (rows, (b, a))) in targets.enumerate() {
                self.times_key(limbs, first + k, rows, key, [b, a])?;
            }
            Ok(())
        })?;
        Ok(sums)
    }

    /// The product of extended digits with a key.
    pub(crate) fn switch_digits(&self, limbs: usize, digits: &Digits, key: &dyn KeyView) -> Result<Extended, Error> {
        if digits.limbs != limbs {
            let what = format!("digits of {} limbs with a ciphertext of {limbs}", digits.limbs);
            let rule = "decompose the ciphertext that is rotated";
            return Err(Error::Operand { operation: "rotate", what, rule });
        }
        let n = self.ring_dim();
        let mut sums = self.extended(limbs)?;
        let [b, a] = &mut sums;
        let rows = digits.rows.chunks_exact(self.active_digits(limbs) * n);
        let jobs = rows.zip(b.chunks_exact_mut(n).zip(a.chunks_exact_mut(n))).enumerate().collect();
        self.workers.each(jobs, |(target, (rows, (b, a)))| self.times_key(limbs, target, rows, key, [b, a]))?;
        Ok(sums)
    }

    /// Division by P of both polynomials, rounded as OpenFHE does, of the images under `automorphism`; `plus` is added
    /// before it.
    pub(crate) fn mod_down_both(
        &self,
        limbs: usize,
        sums: &Extended,
        automorphism: Option<&Automorphism>,
        plus: [Option<&[u64]>; 2],
    ) -> Result<Vec<Words>, Error> {
        self.mod_down_each(limbs, &[&sums[0], &sums[1]], automorphism, &plus)
    }

    /// [`Context::mod_down_both`] of any number of polynomials.
    pub(crate) fn mod_down_each(
        &self,
        limbs: usize,
        sums: &[&[u64]],
        automorphism: Option<&Automorphism>,
        plus: &[Option<&[u64]>],
    ) -> Result<Vec<Words>, Error> {
        let n = self.ring_dim();
        let special = self.count_p();
        let mut coefficients = self.arena.words(sums.len() * special * n)?;
        let jobs = coefficients.chunks_exact_mut(n).enumerate().collect();
        self.workers.each(jobs, |(k, row)| {
            let (half, e) = (k / special, k % special);
            let p = &self.primes[self.count_q() + e];
            self.kernels.inverse(p, &sums[half][(limbs + e) * n..][..n], self.down.scale[e], row);
            if let Some(automorphism) = automorphism {
                self.kernels.negate_where(p, automorphism.signs(), row);
            }
            Ok(())
        })?;
        let mut out = Vec::with_capacity(sums.len());
        for _ in sums {
            out.push(self.arena.words(limbs * n)?);
        }
        let group = self.group();
        let jobs: Vec<_> = out
            .iter_mut()
            .enumerate()
            .flat_map(|(half, rows)| {
                rows.chunks_mut(group * n).enumerate().map(move |(g, rows)| (half, g * group, rows))
            })
            .collect();
        self.workers.each(jobs, |(half, first, rows)| {
            let mut scratch = self.arena.words(if automorphism.is_some() { rows.len() } else { 0 })?;
            {
                let lifted: &mut [u64] = if automorphism.is_some() { &mut scratch } else { &mut *rows };
                self.lift(&coefficients[half * special * n..(half + 1) * special * n], first, lifted);
                for (k, row) in lifted.chunks_exact_mut(n).enumerate() {
                    let limb = first + k;
                    let p = &self.primes[limb];
                    self.kernels.forward(p, row);
                    let plus = plus[half].map(|words| &words[limb * n..(limb + 1) * n]);
                    let sum = &sums[half][limb * n..(limb + 1) * n];
                    self.kernels.subtract_and_scale(p, sum, row, self.down.p_inverse[limb], plus);
                }
            }
            if let Some(automorphism) = automorphism {
                for (row, to) in scratch.chunks_exact(n).zip(rows.chunks_exact_mut(n)) {
                    automorphism.permute(row, to);
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Limbs that share a pass over the sources of a conversion.
    fn group(&self) -> usize {
        if self.workers.threads() == 1 { 5 } else { 3 }
    }

    pub(crate) fn extended(&self, limbs: usize) -> Result<Extended, Error> {
        let words = (limbs + self.count_p()) * self.ring_dim();
        Ok([self.arena.words(words)?, self.arena.words(words)?])
    }

    /// Coefficients of each limb, times what ModUp wants.
    fn coefficients(&self, polynomial: &[u64], limbs: usize) -> Result<Words, Error> {
        let n = self.ring_dim();
        let scales = &self.constants(limbs).up_scale;
        let mut out = self.arena.words(limbs * n)?;
        let jobs = polynomial.chunks_exact(n).zip(out.chunks_exact_mut(n)).enumerate().collect();
        self.workers.each(jobs, |(limb, (row, out))| {
            self.kernels.inverse(&self.primes[limb], row, scales[limb], out);
            Ok(())
        })?;
        Ok(out)
    }

    /// Digits at the target limbs from `first` on, as many as `rows` holds: of each target, each digit's row.
    fn extend_digits(&self, polynomial: &[u64], coefficients: &[u64], limbs: usize, first: usize, rows: &mut [u64]) {
        let n = self.ring_dim();
        let digits = self.active_digits(limbs);
        let constants = self.constants(limbs);
        for digit in 0..digits {
            let own = self.digit_limbs(digit, limbs);
            for start in (0..n).step_by(TILE) {
                let tile = start..(start + TILE).min(n);
                for (k, rows) in rows.chunks_exact_mut(digits * n).enumerate() {
                    if own.contains(&(first + k)) {
                        continue;
                    }
                    let sources: Vec<Source<'_>> = own
                        .clone()
                        .map(|limb| Source {
                            row: &coefficients[limb * n..(limb + 1) * n][tile.clone()],
                            factor: constants.up_factor[first + k][limb],
                            wide: self.primes[limb].is_wide(),
                        })
                        .collect();
                    let p = &self.primes[self.chain_index(first + k, limbs)];
                    self.kernels.convert(p, &sources, &mut rows[digit * n..(digit + 1) * n][tile.clone()]);
                }
            }
        }
        for (k, rows) in rows.chunks_exact_mut(digits * n).enumerate() {
            let p = &self.primes[self.chain_index(first + k, limbs)];
            for (digit, row) in rows.chunks_exact_mut(n).enumerate() {
                if self.digit_limbs(digit, limbs).contains(&(first + k)) {
                    row.copy_from_slice(&polynomial[(first + k) * n..][..n]);
                } else {
                    self.kernels.forward(p, row);
                }
            }
        }
    }

    /// The digits of one target times the key's rows: parts b and a.
    fn times_key(
        &self,
        limbs: usize,
        target: usize,
        rows: &[u64],
        key: &dyn KeyView,
        out: [&mut [u64]; 2],
    ) -> Result<(), Error> {
        let n = self.ring_dim();
        let limb = self.chain_index(target, limbs);
        let count = self.active_digits(limbs);
        let (mut digits, mut b, mut a) =
            (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
        for (digit, row) in rows.chunks_exact(n).enumerate() {
            digits.push(Digit { row, canonical: self.digit_limbs(digit, limbs).contains(&target) });
            for (part, rows) in [(Part::B, &mut b), (Part::A, &mut a)] {
                rows.push(key.words(part, digit, limb, n)?);
            }
        }
        self.kernels.inner_product(&self.primes[limb], &digits, [&b, &a], out);
        Ok(())
    }

    /// The P part, converted to the limbs of Q from `first` on.
    fn lift(&self, coefficients: &[u64], first: usize, rows: &mut [u64]) {
        let n = self.ring_dim();
        for start in (0..n).step_by(TILE) {
            let tile = start..(start + TILE).min(n);
            for (k, row) in rows.chunks_exact_mut(n).enumerate() {
                let sources: Vec<Source<'_>> = coefficients
                    .chunks_exact(n)
                    .enumerate()
                    .map(|(e, row)| Source {
                        row: &row[tile.clone()],
                        factor: self.down.factor[first + k][e],
                        wide: self.primes[self.count_q() + e].is_wide(),
                    })
                    .collect();
                self.kernels.convert(&self.primes[first + k], &sources, &mut row[tile.clone()]);
            }
        }
    }
}
