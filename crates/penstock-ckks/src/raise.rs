//! Steps of bootstrapping that are not arithmetic on messages: raising the modulus, monomials, whole factors.

use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::{Digit, Source};

impl Context {
    /// The same integers over `limbs` limbs: the message gains multiples of the modulus that `a` had, which must be a
    /// single limb.
    ///
    /// # Errors
    /// [`Error::Operand`]: `a` has several limbs, or there are not so many.
    pub fn mod_raise(&self, a: &Ciphertext, limbs: usize) -> Result<Ciphertext, Error> {
        self.check("raise the modulus", a)?;
        if a.limbs != 1 || !(1..=self.count_q()).contains(&limbs) {
            let what = format!("from {} limbs to {limbs}", a.limbs);
            let rule = "it is raised from one limb to at most those of the parameters";
            return Err(Error::Operand { operation: "raise the modulus", what, rule });
        }
        let n = self.ring_dim();
        let first = &self.primes[0];
        let scale = first.modulus.inverse(first.modulus.reduce(n as u64));
        let mut centred = self.arena.words(a.polynomials.len() * n)?;
        self.workers.each(centred.chunks_exact_mut(n).enumerate().collect(), |(p, row)| {
            self.kernels.inverse(first, a.row(p, 0), scale, row);
            row.iter_mut().for_each(|word| *word = first.modulus.centred(*word) as u64);
            Ok(())
        })?;
        let mut polynomials = Vec::with_capacity(a.polynomials.len());
        for _ in 0..a.polynomials.len() {
            polynomials.push(self.arena.words(limbs * n)?);
        }
        let mut raised = Ciphertext { polynomials, limbs, ..a.described() };
        self.each_row(&mut raised, |p, limb, row| {
            let prime = &self.primes[limb];
            let source = Source { row: &centred[p * n..(p + 1) * n], factor: 1, wide: first.is_wide() };
            self.kernels.convert(prime, &[source], row);
            self.kernels.forward(prime, row);
            self.kernels.to_canonical(prime, row);
        })?;
        Ok(raised)
    }

    /// `a * X^power`; X^(N/2) multiplies slots by i. The scale stays.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context.
    pub fn mult_monomial(&self, a: &Ciphertext, power: usize) -> Result<Ciphertext, Error> {
        self.check("multiply", a)?;
        let (n, limbs) = (self.ring_dim(), a.limbs);
        let power = power % (2 * n);
        let mut monomial = self.arena.words(limbs * n)?;
        self.workers.each(monomial.chunks_exact_mut(n).enumerate().collect(), |(limb, row)| {
            let p = &self.primes[limb];
            row.fill(0);
            row[power % n] = if power < n { 1 } else { p.modulus.value() - 1 };
            self.kernels.to_working(p, row);
            self.kernels.forward(p, row);
            self.kernels.to_canonical(p, row);
            Ok(())
        })?;
        let mut polynomials = Vec::with_capacity(a.polynomials.len());
        for _ in 0..a.polynomials.len() {
            polynomials.push(self.arena.words(limbs * n)?);
        }
        let mut product = Ciphertext { polynomials, ..a.described() };
        self.each_row(&mut product, |p, limb, row| {
            let x = Digit { row: a.row(p, limb), canonical: true };
            self.kernels.sum_of_products(&self.primes[limb], &[x], &[&monomial[limb * n..(limb + 1) * n]], row);
        })?;
        Ok(product)
    }

    /// `a * factor` for a whole factor; the scale stays.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context.
    pub fn mult_integer(&self, a: &Ciphertext, factor: u64) -> Result<Ciphertext, Error> {
        self.check("multiply", a)?;
        let mut product = a.duplicate()?;
        self.each_row(&mut product, |_, limb, row| {
            let p = &self.primes[limb];
            self.kernels.scale(p, row, p.modulus.reduce(factor));
        })?;
        Ok(product)
    }
}
