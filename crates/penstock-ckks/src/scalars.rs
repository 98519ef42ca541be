//! Real numbers as operands: OpenFHE's integers for them, limb by limb.
//!
//! A number is a constant polynomial, so a sum adds one word to every evaluation and a product multiplies by one. The
//! roundings follow `GetElementForEvalAddOrSub` and `GetElementForEvalMult`: numbers that do not fit a word are scaled
//! down by a power of two first and up again modulo each prime.

use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::Source;
use crate::modulus::Modulus;

/// Bits of a rounded summand, of a rounded factor, and of one step of scaling up (OpenFHE's constants).
const SUMMAND_BITS: i32 = 61;
const FACTOR_BITS: i32 = 125;
const STEP_BITS: i32 = 60;

/// The number of excess bits of `value`.
fn excess_bits(value: f64, bits: i32) -> i32 {
    if value == 0.0 { 0 } else { (value.log2().ceil() as i32 - bits).max(0) }
}

/// `x * 2^bits mod q`.
fn scaled_up(q: Modulus, x: u64, mut bits: i32) -> u64 {
    let mut x = x;
    while bits > 0 {
        let step = bits.min(STEP_BITS);
        x = q.mul(x, q.reduce(1 << step));
        bits -= step;
    }
    x
}

fn finite(operation: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::Operand { operation, what: format!("the number {value}"), rule: "numbers must be finite" })
}

impl Context {
    /// `a + value`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context, no finite number, or one that the modulus does not hold.
    pub fn add_scalar(&self, a: &Ciphertext, value: f64) -> Result<Ciphertext, Error> {
        self.shifted("add", a, value)
    }

    /// `a - value`.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context, no finite number, or one that the modulus does not hold.
    pub fn sub_scalar(&self, a: &Ciphertext, value: f64) -> Result<Ciphertext, Error> {
        self.shifted("subtract", a, -value)
    }

    /// `a * value`; under an automatic technique a product is rescaled first.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context, no finite number, or one that the modulus does not hold;
    /// [`Error::Depth`]: nothing left to rescale.
    pub fn mult_scalar(&self, a: &Ciphertext, value: f64) -> Result<Ciphertext, Error> {
        self.check("multiply", a)?;
        finite("multiply", value)?;
        let a = self.rescaled_for_product(a)?;
        self.times_real(&a, value)
    }

    fn shifted(&self, operation: &'static str, a: &Ciphertext, value: f64) -> Result<Ciphertext, Error> {
        self.check(operation, a)?;
        finite(operation, value)?;
        let words = self.summand(operation, a, value.abs())?;
        let mut result = a.duplicate()?;
        let n = self.ring_dim();
        let limbs = a.limbs;
        let jobs = result.polynomials[0][..limbs * n].chunks_exact_mut(n).enumerate().collect();
        self.workers.each(jobs, |(limb, row)| {
            let q = self.primes[limb].modulus;
            let word = if value < 0.0 { q.neg(words[limb]) } else { words[limb] };
            row.iter_mut().for_each(|x| *x = q.add(*x, word));
            Ok(())
        })?;
        Ok(result)
    }

    /// Refuses a number that the modulus of `limbs` limbs does not hold at a scale of so many bits.
    ///
    /// It is asked before anything is multiplied: a product of doubles may be infinite. `result_bits`: of the scale of a
    /// result that is a product on its last limbs; where that alone exceeds the modulus nothing can be decrypted, and
    /// OpenFHE computes all the same.
    fn check_number(
        &self,
        operation: &'static str,
        value: f64,
        limbs: usize,
        scale_bits: f64,
        result_bits: Option<f64>,
    ) -> Result<(), Error> {
        let (bits, held) = (value.abs().log2() + scale_bits, self.held_bits(limbs));
        if bits < held - 1.0 || result_bits.is_some_and(|result_bits| self.is_beyond(result_bits, limbs)) {
            return Ok(());
        }
        let what = format!("the number {value:e}, which has {bits:.0} bits at {limbs} limbs of {held:.0} bits");
        let rule = "their modulus holds a bit more than a number at its scale: scale it down, or take more limbs";
        Err(Error::Operand { operation, what, rule })
    }

    /// `value`, not negative, at the scale of `a`, modulo each limb.
    fn summand(&self, operation: &'static str, a: &Ciphertext, value: f64) -> Result<Vec<u64>, Error> {
        let level = self.level(a.limbs);
        let factor = self.scales.fresh(level);
        // A fresh ciphertext of `FlexibleAutoExt` has the square of a scale already.
        let more = if factor == self.scales.factor(level) { a.degree.saturating_sub(1) as usize } else { 0 };
        let unit = |step: usize| self.scales.unit(a.limbs, step);
        let further: f64 = (0..more).map(|step| (unit(step) as f64).log2()).sum();
        let bits = factor.log2() + further;
        self.check_number(operation, value, a.limbs, bits, (a.degree > 1).then_some(bits))?;
        let excess = excess_bits((value * factor).abs(), SUMMAND_BITS);
        let rounded = (value * factor / f64::from(excess).exp2() + 0.5) as u64;
        let of = |q: Modulus| {
            let word = scaled_up(q, q.reduce(rounded), excess);
            (0..more).fold(word, |word, step| q.mul(word, q.reduce(unit(step))))
        };
        Ok(self.primes[..a.limbs].iter().map(|p| of(p.modulus)).collect())
    }

    /// The factors of a product with `value` at `limbs` limbs.
    fn factors(&self, limbs: usize, value: f64) -> Result<Vec<u64>, Error> {
        let factor = self.scales.factor(self.level(limbs));
        let result_bits = (limbs == 1).then_some(2.0 * factor.log2());
        self.check_number("multiply", value, limbs, factor.log2(), result_bits)?;
        let excess = excess_bits((value * factor).abs(), FACTOR_BITS);
        let rounded = (value / f64::from(excess).exp2() * factor + 0.5) as i128;
        let word = |q: Modulus| {
            let rest = q.reduce_wide(rounded.unsigned_abs());
            scaled_up(q, if rounded < 0 { q.neg(rest) } else { rest }, excess)
        };
        Ok(self.primes[..limbs].iter().map(|p| word(p.modulus)).collect())
    }

    /// `sum of terms[k] * values[k]`, in one pass: the words of the products added one by one. Nothing is rescaled.
    ///
    /// # Errors
    /// [`Error::Operand`]: no terms, another number of values, terms that differ in limbs, degree or polynomials, not
    /// of this context, or no finite number.
    pub fn weighted_sum_scalar(&self, terms: &[&Ciphertext], values: &[f64]) -> Result<Ciphertext, Error> {
        let operation = "sum";
        let shape = |a: &Ciphertext| (a.limbs, a.degree, a.polynomials.len());
        let alike = terms.windows(2).all(|pair| shape(pair[0]) == shape(pair[1]));
        let Some(first) = terms.first().filter(|_| alike && terms.len() == values.len()) else {
            let what = format!("{} terms with {} numbers", terms.len(), values.len());
            let rule = "give at least one term, all alike in limbs and degree, and a number for each";
            return Err(Error::Operand { operation, what, rule });
        };
        terms.iter().try_for_each(|term| self.check(operation, term))?;
        values.iter().try_for_each(|value| finite(operation, *value))?;
        let factors = values.iter().map(|value| self.factors(first.limbs, *value)).collect::<Result<Vec<_>, _>>()?;
        let n = self.ring_dim();
        let mut polynomials = Vec::with_capacity(first.polynomials.len());
        for _ in &first.polynomials {
            polynomials.push(self.arena.words(first.limbs * n)?);
        }
        let mut result = Ciphertext { polynomials, ..first.described() };
        self.each_row(&mut result, |polynomial, limb, row| {
            let p = &self.primes[limb];
            let sources: Vec<_> = terms
                .iter()
                .zip(&factors)
                .map(|(term, factor)| Source {
                    row: term.row(polynomial, limb),
                    factor: factor[limb],
                    wide: p.is_wide(),
                })
                .collect();
            self.kernels.convert(p, &sources, row);
            self.kernels.to_canonical(p, row);
        })?;
        result.degree += 1;
        result.scale *= self.scales.factor(self.level(first.limbs));
        Ok(result)
    }

    /// Multiplies by a number, one degree higher: OpenFHE's `EvalMultCoreInPlace`.
    pub(crate) fn times_real(&self, a: &Ciphertext, value: f64) -> Result<Ciphertext, Error> {
        let factor = self.scales.factor(self.level(a.limbs));
        let words = self.factors(a.limbs, value)?;
        let n = self.ring_dim();
        let limbs = a.limbs;
        let mut result = a.duplicate()?;
        let rows = result.polynomials.iter_mut().flat_map(|words| words.chunks_exact_mut(n).take(limbs).enumerate());
        self.workers.each(rows.collect(), |(limb, row)| {
            self.kernels.scale(&self.primes[limb], row, words[limb]);
            Ok(())
        })?;
        result.degree += 1;
        result.scale *= factor;
        Ok(result)
    }
}
