//! Rescaling, dropping limbs, and bringing operands together as OpenFHE's techniques do.

use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::Source;

/// An operand as an operation computes on it: as it came, or adjusted.
pub(crate) enum Operand<'a> {
    Given(&'a Ciphertext),
    Adjusted(Ciphertext),
}

impl std::ops::Deref for Operand<'_> {
    type Target = Ciphertext;

    fn deref(&self) -> &Ciphertext {
        match self {
            Operand::Given(a) => a,
            Operand::Adjusted(a) => a,
        }
    }
}

impl<'a> Operand<'a> {
    fn adjust(&mut self, work: impl FnOnce(&Ciphertext) -> Result<Ciphertext, Error>) -> Result<(), Error> {
        *self = Operand::Adjusted(work(self)?);
        Ok(())
    }

    /// An owned ciphertext.
    pub fn into_owned(self) -> Result<Ciphertext, Error> {
        match self {
            Operand::Given(a) => a.duplicate(),
            Operand::Adjusted(a) => Ok(a),
        }
    }

    /// Fewer limbs; free for owned data, since rows are in order.
    fn drop_to(&mut self, limbs: usize) -> Result<(), Error> {
        match self {
            Operand::Adjusted(a) => a.limbs = limbs,
            Operand::Given(a) if a.limbs == limbs => (),
            Operand::Given(a) => *self = Operand::Adjusted(a.truncated(limbs)?),
        }
        Ok(())
    }
}

impl Context {
    /// Divides by the last modulus and drops it, as `Rescale` does under a manual technique. Under an automatic one it
    /// returns the ciphertext unchanged, since products are rescaled at their use.
    ///
    /// # Errors
    /// [`Error::Depth`]: only one limb is left.
    pub fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        self.check("rescale", a)?;
        if self.scales.scaling.is_automatic() { a.duplicate() } else { self.divide(a) }
    }

    /// Divides by the last modulus and drops it, under every technique: `ModReduceInternal`, which OpenFHE's composites
    /// call by their own decision.
    ///
    /// # Errors
    /// [`Error::Depth`]: only one limb is left.
    pub fn rescale_now(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        self.check("rescale", a)?;
        self.divide(a)
    }

    /// As a product takes it: rescaled to degree 1 under an automatic technique.
    ///
    /// # Errors
    /// [`Error::Depth`]: nothing left to rescale.
    pub fn rescale_for_product(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        self.check("rescale", a)?;
        self.rescaled_for_product(a)?.into_owned()
    }

    /// The scale of a plaintext of degree 1 for ciphertexts of `limbs` limbs.
    ///
    /// # Errors
    /// [`Error::Operand`]: the parameters have not so many.
    pub fn scale_at(&self, limbs: usize) -> Result<f64, Error> {
        if (1..=self.count_q()).contains(&limbs) {
            return Ok(self.scales.factor(self.level(limbs)));
        }
        let rule = "ask for 1 to the limbs of the parameters";
        Err(Error::Operand { operation: "scale", what: format!("{limbs} limbs"), rule })
    }

    /// The scale of a ciphertext of `limbs` limbs and that degree, at the level's own scale.
    ///
    /// # Errors
    /// As [`Context::scale_at`].
    pub fn scale_of_degree(&self, limbs: usize, degree: u32) -> Result<f64, Error> {
        let factor = self.scale_at(limbs)?;
        // A fresh ciphertext of `FlexibleAutoExt` is at the product of two scales.
        let is_squared = degree == 2 && limbs > 1 && self.scales.scaling.is_flexible();
        Ok(if is_squared { self.scales.squared(self.level(limbs)) } else { factor.powi(degree as i32) })
    }

    /// Keeps `limbs` limbs, and rescales to degree 1 first: OpenFHE's `Compress`.
    ///
    /// # Errors
    /// [`Error::Depth`]: fewer limbs are left than a rescale needs.
    pub fn rescale_and_drop(&self, a: &Ciphertext, limbs: usize) -> Result<Ciphertext, Error> {
        self.check("rescale", a)?;
        if limbs == 0 {
            return Err(Error::Depth { operation: "drop limbs", limbs: 0, needed: 1 });
        }
        let mut result = Operand::Given(a);
        while result.degree > 1 {
            result.adjust(|a| self.divide(a))?;
        }
        if limbs < result.limbs {
            result.drop_to(limbs)?;
        }
        result.into_owned()
    }

    /// Keeps the first `limbs` limbs, without division: `LevelReduce` under a manual technique.
    ///
    /// # Errors
    /// [`Error::Operand`]: there are fewer limbs, or none would remain.
    pub fn mod_drop(&self, a: &Ciphertext, limbs: usize) -> Result<Ciphertext, Error> {
        self.check("drop limbs", a)?;
        if !(1..=a.limbs).contains(&limbs) {
            let what = format!("{limbs} limbs of {}", a.limbs);
            return Err(Error::Operand {
                operation: "drop limbs",
                what,
                rule: "keep at least one, and no more than there are",
            });
        }
        a.truncated(limbs)
    }

    /// Divides by the last modulus, rounding to the nearest, and drops it.
    pub(crate) fn divide(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        let (n, limbs) = (self.ring_dim(), a.limbs);
        if limbs < 2 {
            return Err(Error::Depth { operation: "rescale", limbs, needed: 2 });
        }
        let last = &self.primes[limbs - 1];
        let scale = last.modulus.inverse(last.modulus.reduce(n as u64));
        let count = a.polynomials.len();
        let mut centred = self.arena.words(count * n)?;
        let jobs = centred.chunks_exact_mut(n).enumerate().collect();
        self.workers.each(jobs, |(p, row)| {
            self.kernels.inverse(last, a.row(p, limbs - 1), scale, row);
            row.iter_mut().for_each(|word| *word = last.modulus.centred(*word) as u64);
            Ok(())
        })?;
        let mut polynomials = Vec::with_capacity(count);
        for _ in 0..count {
            polynomials.push(self.arena.words((limbs - 1) * n)?);
        }
        let factors = &self.constants(limbs).rescale;
        let jobs: Vec<_> = polynomials
            .iter_mut()
            .enumerate()
            .flat_map(|(p, words)| words.chunks_exact_mut(n).enumerate().map(move |(limb, row)| (p, limb, row)))
            .collect();
        self.workers.each(jobs, |(p, limb, row)| {
            let prime = &self.primes[limb];
            let source = Source { row: &centred[p * n..(p + 1) * n], factor: 1, wide: last.is_wide() };
            self.kernels.convert(prime, &[source], row);
            self.kernels.forward(prime, row);
            self.kernels.subtract_and_scale(prime, a.row(p, limb), row, factors[limb], None);
            Ok(())
        })?;
        Ok(Ciphertext {
            polynomials,
            limbs: limbs - 1,
            degree: a.degree.saturating_sub(1),
            scale: a.scale / self.scales.divisor(limbs - 1),
            ..a.described()
        })
    }

    /// `a` as a sum with `to` would take it: brought down to its limbs, degree and scale, where it is above.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context; [`Error::Depth`]: fewer limbs are left than that takes.
    pub fn align(&self, a: &Ciphertext, to: &Ciphertext) -> Result<Ciphertext, Error> {
        self.check("align", a)?;
        self.check("align", to)?;
        self.aligned(a, to)?.0.into_owned()
    }

    /// Operands of a sum: the same limbs and, under an automatic technique, the same scale.
    pub(crate) fn aligned<'a, 'b>(
        &self,
        a: &'a Ciphertext,
        b: &'b Ciphertext,
    ) -> Result<(Operand<'a>, Operand<'b>), Error> {
        let (mut a, mut b) = (Operand::Given(a), Operand::Given(b));
        if !self.scales.scaling.is_automatic() {
            let limbs = a.limbs.min(b.limbs);
            a.drop_to(limbs)?;
            b.drop_to(limbs)?;
        } else if a.limbs > b.limbs {
            self.lower(&mut a, &b)?;
        } else if a.limbs < b.limbs {
            self.lower(&mut b, &a)?;
        } else if a.degree != b.degree && a.limbs == 1 && !self.scales.scaling.is_flexible() {
            // If all levels share a scale, OpenFHE multiplies the last limb by 0, and loses its values.
            return Err(Error::Depth { operation: "bring operands together", limbs: 1, needed: 2 });
        } else if a.degree < b.degree {
            a.adjust(|a| self.times_one(a))?;
        } else if b.degree < a.degree {
            b.adjust(|b| self.times_one(b))?;
        }
        Ok((a, b))
    }

    /// Operands of a product: besides, of degree 1 under an automatic technique.
    pub(crate) fn aligned_for_product<'a>(
        &self,
        a: &'a Ciphertext,
        b: &'a Ciphertext,
    ) -> Result<(Operand<'a>, Operand<'a>), Error> {
        let (mut a, mut b) = self.aligned(a, b)?;
        if self.scales.scaling.is_automatic() && a.degree == 2 {
            a.adjust(|a| self.divide(a))?;
            b.adjust(|b| self.divide(b))?;
        }
        Ok((a, b))
    }

    /// One operand of a product, of degree 1 under an automatic technique.
    pub(crate) fn rescaled_for_product<'a>(&self, a: &'a Ciphertext) -> Result<Operand<'a>, Error> {
        let mut a = Operand::Given(a);
        if self.scales.scaling.is_automatic() && a.degree == 2 {
            a.adjust(|a| self.divide(a))?;
        }
        Ok(a)
    }

    /// Brings `high` to the limbs, degree and scale of `low`: the cases of OpenFHE's `AdjustLevelsAndDepthInPlace`.
    fn lower(&self, high: &mut Operand<'_>, low: &Ciphertext) -> Result<(), Error> {
        if !self.scales.scaling.is_flexible() {
            return self.lower_at_one_scale(high, low);
        }
        let (from, to) = (self.level(high.limbs), self.level(low.limbs));
        let factor = self.scales.factor(from);
        let divisor = self.scales.divisor(high.limbs - 1);
        let adjacent_products = high.degree == 2 && from + 1 == to;
        if low.limbs == 1 && low.degree == 2 && !adjacent_products {
            // A squared scale does not fit the last modulus; OpenFHE refuses it too.
            return Err(Error::Depth { operation: "bring operands together", limbs: 1, needed: 2 });
        }
        match (high.degree, low.degree) {
            (2, 2) => {
                let by = low.scale / high.scale * divisor / factor;
                high.adjust(|a| self.times_real(a, by))?;
                high.adjust(|a| self.divide(a))?;
                high.drop_to(low.limbs)?;
            }
            (2, _) if from + 1 == to => return high.adjust(|a| self.divide(a)),
            (2, _) => {
                let by = self.scales.squared(to - 1) / high.scale * divisor / factor;
                high.adjust(|a| self.times_real(a, by))?;
                high.adjust(|a| self.divide(a))?;
                high.drop_to(low.limbs + 1)?;
                high.adjust(|a| self.divide(a))?;
            }
            (_, 2) => {
                let by = low.scale / high.scale / factor;
                high.adjust(|a| self.times_real(a, by))?;
                high.drop_to(low.limbs)?;
            }
            _ => {
                let by = self.scales.squared(to - 1) / high.scale / factor;
                high.adjust(|a| self.times_real(a, by))?;
                high.drop_to(low.limbs + 1)?;
                high.adjust(|a| self.divide(a))?;
            }
        }
        if let Operand::Adjusted(a) = high {
            a.scale = low.scale;
        }
        Ok(())
    }

    /// The same where all levels share a scale: limbs are dropped, and only a difference of degree takes work.
    fn lower_at_one_scale(&self, high: &mut Operand<'_>, low: &Ciphertext) -> Result<(), Error> {
        if low.limbs == 1 && low.degree == 2 {
            return Err(Error::Depth { operation: "bring operands together", limbs: 1, needed: 2 });
        }
        if high.degree > low.degree {
            high.adjust(|a| self.divide(a))?;
        }
        high.drop_to(low.limbs)?;
        if high.degree < low.degree {
            high.adjust(|a| self.times_one(a))?;
        }
        Ok(())
    }

    /// The same values one degree higher: times the scale, or, where all levels share one, times the modulus that the
    /// next rescale divides by.
    fn times_one(&self, a: &Ciphertext) -> Result<Ciphertext, Error> {
        if self.scales.scaling.is_flexible() {
            return self.times_real(a, 1.0);
        }
        let unit = self.scales.unit(a.limbs, 0);
        let mut result = a.duplicate()?;
        self.each_row(&mut result, |_, limb, row| {
            let prime = &self.primes[limb];
            self.kernels.scale(prime, row, prime.modulus.reduce(unit));
        })?;
        result.degree += 1;
        result.scale *= self.scales.factor(self.level(a.limbs));
        Ok(result)
    }
}
