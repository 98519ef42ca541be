//! Sums, differences and negation.

use crate::cipher::{Ciphertext, Plaintext, copied};
use crate::context::Context;
use crate::error::Error;
use crate::levels::Operand;

/// A plaintext operand: as it came, or adjusted to its ciphertext like one of a single polynomial.
pub(crate) enum PlainOperand<'a> {
    Given(&'a Plaintext),
    Adjusted(Ciphertext),
}

impl PlainOperand<'_> {
    pub fn row(&self, limb: usize) -> &[u64] {
        match self {
            PlainOperand::Given(plain) => &plain.polynomial[limb * plain.ring_dim..(limb + 1) * plain.ring_dim],
            PlainOperand::Adjusted(plain) => plain.row(0, limb),
        }
    }

    pub fn degree(&self) -> u32 {
        match self {
            PlainOperand::Given(plain) => plain.degree,
            PlainOperand::Adjusted(plain) => plain.degree,
        }
    }
}

#[derive(Clone, Copy)]
enum Sign {
    Plus,
    Minus,
}

impl Context {
    /// `a + b`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context; [`Error::Depth`]: they cannot be brought together.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        self.sum("add", a, b, Sign::Plus)
    }

    /// `a - b`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context; [`Error::Depth`]: they cannot be brought together.
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, Error> {
        self.sum("subtract", a, b, Sign::Minus)
    }

    /// `a + plain`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context; [`Error::Depth`]: they cannot be brought together.
    pub fn add_plain(&self, a: &Ciphertext, plain: &Plaintext) -> Result<Ciphertext, Error> {
        self.sum_with_plain("add", a, plain, Sign::Plus)
    }

    /// `a - plain`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context; [`Error::Depth`]: they cannot be brought together.
    pub fn sub_plain(&self, a: &Ciphertext, plain: &Plaintext) -> Result<Ciphertext, Error> {
        self.sum_with_plain("subtract", a, plain, Sign::Minus)
    }

    /// `-a`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context.
    pub fn negate(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        self.check("negate", a)?;
        let mut result = a.duplicate()?;
        self.each_row(&mut result, |_, limb, row| {
            let q = self.primes[limb].modulus;
            row.iter_mut().for_each(|x| *x = q.neg(*x));
        })?;
        Ok(result)
    }

    fn sum(&self, operation: &'static str, a: &Ciphertext, b: &Ciphertext, sign: Sign) -> Result<Ciphertext, Error> {
        self.check(operation, a)?;
        self.check(operation, b)?;
        if a.polynomials.len() != b.polynomials.len() {
            let what = format!("ciphertexts of {} and {} polynomials", a.polynomials.len(), b.polynomials.len());
            return Err(Error::Operand { operation, what, rule: "relinearize the product first" });
        }
        let (a, b) = self.aligned(a, b)?;
        let mut result = a.into_owned()?;
        self.each_row(&mut result, |p, limb, row| self.combine(limb, row, b.row(p, limb), sign))?;
        Ok(result)
    }

    fn sum_with_plain(
        &self,
        operation: &'static str,
        a: &Ciphertext,
        plain: &Plaintext,
        sign: Sign,
    ) -> Result<Ciphertext, Error> {
        self.check(operation, a)?;
        self.check_plain(operation, plain)?;
        let (a, plain) = self.aligned_with_plain(operation, a, plain)?;
        let mut result = a.into_owned()?;
        self.each_row(&mut result, |p, limb, row| {
            if p == 0 {
                self.combine(limb, row, plain.row(limb), sign);
            }
        })?;
        Ok(result)
    }

    fn combine(&self, limb: usize, row: &mut [u64], other: &[u64], sign: Sign) {
        match sign {
            Sign::Plus => self.kernels.add(&self.primes[limb], row, other),
            Sign::Minus => self.kernels.subtract(&self.primes[limb], row, other),
        }
    }

    /// Operands of a sum with a plaintext. Under the manual technique a plaintext of a lower degree is scaled up.
    fn aligned_with_plain<'a>(
        &self,
        operation: &'static str,
        a: &'a Ciphertext,
        plain: &'a Plaintext,
    ) -> Result<(Operand<'a>, PlainOperand<'a>), Error> {
        let more = a.degree.checked_sub(plain.degree);
        if a.limbs == plain.limbs && more == Some(0) {
            return Ok((Operand::Given(a), PlainOperand::Given(plain)));
        }
        let lifted = as_cipher(plain)?;
        if self.scales.scaling.is_automatic() {
            let (a, lifted) = (self.aligned_owned(a, lifted))?;
            return Ok((a, PlainOperand::Adjusted(lifted)));
        }
        let Some(more) = more else {
            let what = format!("a plaintext of degree {}", plain.degree);
            return Err(Error::Operand { operation, what, rule: "its degree may not be above the ciphertext's" });
        };
        let (a, mut lifted) = self.aligned_owned(a, lifted)?;
        if more > 0 && a.limbs == 1 {
            return Err(Error::Depth { operation, limbs: 1, needed: 2 });
        }
        self.each_row(&mut lifted, |_, limb, row| {
            for step in 0..more as usize {
                let unit = self.primes[limb].modulus.reduce(self.scales.unit(a.limbs, step));
                self.kernels.scale(&self.primes[limb], row, unit);
            }
        })?;
        lifted.degree += more;
        Ok((a, PlainOperand::Adjusted(lifted)))
    }

    /// [`Context::aligned`], where the second operand is nobody else's.
    fn aligned_owned<'a>(&self, a: &'a Ciphertext, b: Ciphertext) -> Result<(Operand<'a>, Ciphertext), Error> {
        let (a, adjusted) = self.aligned(a, &b)?;
        let adjusted = match adjusted {
            Operand::Given(_) => None,
            Operand::Adjusted(adjusted) => Some(adjusted),
        };
        Ok((a, adjusted.unwrap_or(b)))
    }

    /// Operands of a product with a plaintext.
    pub(crate) fn aligned_for_plain_product<'a>(
        &self,
        a: &'a Ciphertext,
        plain: &'a Plaintext,
    ) -> Result<(Operand<'a>, PlainOperand<'a>), Error> {
        let manual = !self.scales.scaling.is_automatic();
        if a.limbs == plain.limbs && (manual || (a.degree == 1 && plain.degree == 1)) {
            return Ok((Operand::Given(a), PlainOperand::Given(plain)));
        }
        let (a, mut lifted) = self.aligned_owned(a, as_cipher(plain)?)?;
        if manual || a.degree != 2 {
            return Ok((a, PlainOperand::Adjusted(lifted)));
        }
        lifted = self.divide(&lifted)?;
        Ok((Operand::Adjusted(self.divide(&a)?), PlainOperand::Adjusted(lifted)))
    }

    /// Works on each row: `(polynomial, limb, row)`.
    pub(crate) fn each_row(
        &self,
        a: &mut Ciphertext,
        work: impl Fn(usize, usize, &mut [u64]) + Sync,
    ) -> Result<(), Error> {
        let (n, limbs) = (self.ring_dim(), a.limbs);
        let rows = a.polynomials.iter_mut().enumerate().flat_map(|(p, words)| {
            words.chunks_exact_mut(n).take(limbs).enumerate().map(move |(limb, row)| (p, limb, row))
        });
        self.workers.each(rows.collect(), |(p, limb, row)| {
            work(p, limb, row);
            Ok(())
        })
    }
}

/// A plaintext as a ciphertext of one polynomial.
fn as_cipher(plain: &Plaintext) -> Result<Ciphertext, Error> {
    Ok(Ciphertext {
        polynomials: vec![copied(&plain.polynomial, plain.limbs * plain.ring_dim)?],
        limbs: plain.limbs,
        ring_dim: plain.ring_dim,
        degree: plain.degree,
        scale: plain.scale,
        slots: plain.slots,
    })
}
