//! Products: tensor, relinearization, squares, and products with plaintexts.

use crate::buffer::Words;
use crate::cipher::{Ciphertext, Plaintext};
use crate::context::Context;
use crate::error::Error;
use crate::kernels::{Digit, Prime};
use crate::keys::KeyView;

/// The three rows of a product, at one limb.
type Rows<'a> = [&'a mut [u64]; 3];

impl Context {
    /// `a * b`, relinearized by the key for the square of the secret.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context or not relinearized; [`Error::Depth`]: nothing left to rescale;
    /// [`Error::KeyRow`]: a row of the key is missing.
    pub fn mult(&self, a: &Ciphertext, b: &Ciphertext, key: &dyn KeyView) -> Result<Ciphertext, Error> {
        self.relinearize(&self.mult_no_relin(a, b)?, key)
    }

    /// `a * b` as three polynomials.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context or not relinearized; [`Error::Depth`]: nothing left to rescale.
    pub fn mult_no_relin(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        self.check_relinearized("multiply", a)?;
        self.check_relinearized("multiply", b)?;
        let (a, b) = self.aligned_for_product(a, b)?;
        let polynomials = self.tensor(a.limbs, |p, limb, [out0, out1, out2]| {
            let [a0, a1] = [0, 1].map(|k| Digit { row: a.row(k, limb), canonical: true });
            let [b0, b1] = [0, 1].map(|k| b.row(k, limb));
            self.kernels.sum_of_products(p, &[a0], &[b0], out0);
            self.kernels.sum_of_products(p, &[a0, a1], &[b1, b0], out1);
            self.kernels.sum_of_products(p, &[a1], &[b1], out2);
        })?;
        Ok(Ciphertext { polynomials, degree: a.degree + b.degree, scale: a.scale * b.scale, ..a.described() })
    }

    /// `a * a`, relinearized.
    ///
    /// # Errors
    /// Those of [`Context::mult`].
    pub fn square(&self, a: &Ciphertext, key: &dyn KeyView) -> Result<Ciphertext, Error> {
        self.relinearize(&self.square_no_relin(a)?, key)
    }

    /// `a * a` as three polynomials.
    ///
    /// # Errors
    /// Those of [`Context::mult_no_relin`].
    pub fn square_no_relin(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        self.check_relinearized("square", a)?;
        let a = self.rescaled_for_product(a)?;
        let polynomials = self.tensor(a.limbs, |p, limb, [out0, out1, out2]| {
            let rows = [0, 1].map(|k| a.row(k, limb));
            let [a0, a1] = rows.map(|row| Digit { row, canonical: true });
            self.kernels.sum_of_products(p, &[a0], &[rows[0]], out0);
            self.kernels.sum_of_products(p, &[a0, a0], &[rows[1], rows[1]], out1);
            self.kernels.sum_of_products(p, &[a1], &[rows[1]], out2);
        })?;
        Ok(Ciphertext { polynomials, degree: 2 * a.degree, scale: a.scale * a.scale, ..a.described() })
    }

    /// Back to two polynomials.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context; [`Error::KeyRow`]: a row of the key is missing.
    pub fn relinearize(&self, a: &Ciphertext, key: &dyn KeyView) -> Result<Ciphertext, Error> {
        self.check("relinearize", a)?;
        match a.polynomials.len() {
            2 => a.duplicate(),
            3 => {
                let polynomials = self.switch(a.words(2), a.limbs, key, [a.words(0), a.words(1)])?;
                Ok(Ciphertext { polynomials, ..a.described() })
            }
            count => Err(Error::Operand {
                operation: "relinearize",
                what: format!("a ciphertext of {count} polynomials"),
                rule: "products of two ciphertexts have 3",
            }),
        }
    }

    /// `a * plain`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context; [`Error::Depth`]: nothing left to rescale.
    pub fn mult_plain(&self, a: &Ciphertext, plain: &Plaintext) -> Result<Ciphertext, Error> {
        self.check("multiply", a)?;
        self.check_plain("multiply", plain)?;
        let (a, plain) = self.aligned_for_plain_product(a, plain)?;
        let n = self.ring_dim();
        let mut polynomials = Vec::with_capacity(a.polynomials.len());
        for _ in 0..a.polynomials.len() {
            polynomials.push(self.arena.words(a.limbs * n)?);
        }
        let mut result = Ciphertext { polynomials, ..a.described() };
        self.each_row(&mut result, |p, limb, row| {
            let x = Digit { row: a.row(p, limb), canonical: true };
            self.kernels.sum_of_products(&self.primes[limb], &[x], &[plain.row(limb)], row);
        })?;
        result.degree = a.degree + plain.degree();
        // OpenFHE takes the scale of the level, not the product of the operands' (at the last level it has none, and
        // writes 0: its product there can never be decrypted).
        result.scale = self.scales.plain_product(self.level(a.limbs), a.scale);
        Ok(result)
    }

    /// The sum of `terms[k] * plains[k]`, in one pass: as the products and their sums step by step, and so with their
    /// words. Nothing is rescaled first.
    ///
    /// # Errors
    /// [`Error::Operand`]: no terms, another number of plaintexts, a term or plaintext of degree 2 or of other limbs.
    pub fn weighted_sum_plain(&self, terms: &[&Ciphertext], plains: &[&Plaintext]) -> Result<Ciphertext, Error> {
        const OPERATION: &str = "sum";
        let n = self.ring_dim();
        let Some(first) = terms.first() else {
            return Err(Error::Operand {
                operation: OPERATION,
                what: "no terms".to_owned(),
                rule: "give at least one",
            });
        };
        for term in terms {
            self.check_relinearized(OPERATION, term)?;
        }
        for plain in plains {
            self.check_plain(OPERATION, plain)?;
        }
        let (limbs, plain_degree) = (first.limbs, plains.first().map_or(0, |plain| plain.degree));
        let alike = terms.iter().all(|term| (term.limbs, term.degree) == (limbs, 1))
            && plains.iter().all(|plain| (plain.limbs, plain.degree) == (limbs, 1));
        if terms.len() != plains.len() || !alike {
            let what = format!("{} terms of {limbs} limbs with {} plaintexts", terms.len(), plains.len());
            let rule = "a plaintext for each term, all of degree 1 and of the same limbs";
            return Err(Error::Operand { operation: OPERATION, what, rule });
        }
        let (mut b, mut a) = (self.arena.words(limbs * n)?, self.arena.words(limbs * n)?);
        let jobs = b.chunks_exact_mut(n).zip(a.chunks_exact_mut(n)).enumerate().collect();
        self.workers.each(jobs, |(limb, (b, a))| {
            let at = limb * n..(limb + 1) * n;
            let digits = plains.iter().map(|plain| Digit { row: &plain.polynomial[at.clone()], canonical: true });
            let digits: Vec<_> = digits.collect();
            let of = |half: usize| terms.iter().map(|term| term.row(half, limb)).collect::<Vec<_>>();
            self.kernels.inner_product(&self.primes[limb], &digits, [&of(0), &of(1)], [b, a]);
            Ok(())
        })?;
        let scale = self.scales.plain_product(self.level(limbs), first.scale);
        Ok(Ciphertext { polynomials: vec![b, a], degree: 1 + plain_degree, scale, ..first.described() })
    }

    fn tensor(&self, limbs: usize, work: impl Fn(&Prime, usize, Rows<'_>) + Sync) -> Result<Vec<Words>, Error> {
        let n = self.ring_dim();
        let [mut out0, mut out1, mut out2] =
            [self.arena.words(limbs * n)?, self.arena.words(limbs * n)?, self.arena.words(limbs * n)?];
        let rows = out0.chunks_exact_mut(n).zip(out1.chunks_exact_mut(n)).zip(out2.chunks_exact_mut(n));
        self.workers.each(rows.enumerate().collect(), |(limb, ((row0, row1), row2))| {
            work(&self.primes[limb], limb, [row0, row1, row2]);
            Ok(())
        })?;
        Ok(vec![out0, out1, out2])
    }
}
