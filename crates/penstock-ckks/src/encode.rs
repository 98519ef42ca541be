//! Encoding: slots to a polynomial, as OpenFHE's `CKKSPackedEncoding` does.

use crate::cipher::Plaintext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::{MIN_RING_DIM, Source};
use crate::modulus::Modulus;
use crate::slots::{Complex, SlotTables};

/// Bits that a rounded coefficient may have before it is scaled down.
const COEFFICIENT_BITS: i32 = 61;
const STEP_BITS: i32 = 60;
/// Bits of the words that a conversion takes.
const CONVERTED_BITS: i32 = 60;

/// A vector as rounded coefficients: the input of its encoding at each limb. A limb's share of a plaintext is as large
/// as all coefficients, so the coefficients are kept for vectors that are used again.
#[derive(Debug)]
pub struct Coefficients {
    /// Signed words: of X^0, X^gap, X^(2 gap), …, where gap is N over their number.
    words: Vec<u64>,
    /// The power of two that they still have to be multiplied by.
    excess: i32,
    /// Whether a word may reach 2^60.
    long: bool,
    /// The power of the scale, and the factor of a further one.
    power: u32,
    unit: u64,
    /// Without a polynomial.
    described: Described,
}

/// What a plaintext says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described {
    pub limbs: usize,
    pub ring_dim: usize,
    pub degree: u32,
    pub scale: f64,
    pub slots: u32,
}

impl Coefficients {
    /// Limbs of Q of the ciphertexts that it is for.
    pub fn limbs(&self) -> usize {
        self.described.limbs
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        8 * self.words.len()
    }

    pub(crate) fn described(&self) -> Described {
        self.described
    }

    /// The factor on the words.
    fn factor(&self, q: Modulus) -> u64 {
        let scaled = (1..self.power).fold(1, |product, _| q.mul(product, q.reduce(self.unit)));
        let steps = (0..self.excess).step_by(STEP_BITS as usize).map(|done| (self.excess - done).min(STEP_BITS));
        steps.fold(scaled, |product, step| q.mul(product, q.reduce(1 << step)))
    }
}

/// A double has no more bits than this, and neither has a coefficient.
const DOUBLE_BITS: i32 = f64::MAX_EXP;

/// The largest part of some values; infinite where one is not a number.
fn largest_part(values: &[Complex]) -> f64 {
    values.iter().flatten().fold(0.0, |most, part| if part.is_nan() { f64::INFINITY } else { part.abs().max(most) })
}

/// The coefficients of `values` at a scale: signed words, and the power of two that they still have to be multiplied
/// by; nothing where they exceed a double.
fn rounded(tables: &SlotTables, values: &mut [Complex], scale: f64) -> Result<Option<(Vec<u64>, i32)>, Error> {
    tables.inverse(values);
    values.iter_mut().flatten().for_each(|part| *part *= scale);
    let largest = largest_part(values);
    if !largest.is_finite() {
        return Ok(None);
    }
    // The logarithm rises with its argument, so that the largest coefficient has most bits.
    let bits = if largest == 0.0 { i32::MIN } else { largest.log2().ceil() as i32 };
    if bits != i32::MIN && bits < 0 {
        return Err(Error::Operand {
            operation: "encode",
            what: format!("values below 2^{bits} of a coefficient's unit"),
            rule: "take a larger scale: all coefficients would round to 0",
        });
    }
    let excess = if bits == i32::MIN { 0 } else { (bits - COEFFICIENT_BITS).max(0) };
    let divisor = f64::from(excess).exp2();
    let part = |k: usize| values.iter().map(move |value| (value[k] / divisor).round() as i64 as u64);
    Ok(Some((part(0).chain(part(1)).collect(), excess)))
}

impl Context {
    /// Encodes up to `slots` values (a power of two, at most N/2) for a ciphertext of `limbs` limbs, at the power
    /// `degree` of the level's scale.
    ///
    /// # Errors
    /// [`Error::Operand`]: more values than slots, a value that is not finite, or no such number of limbs or slots.
    pub fn encode(&self, values: &[Complex], limbs: usize, degree: u32, slots: usize) -> Result<Plaintext, Error> {
        self.encode_over(values, limbs, degree, slots, &(0..limbs).collect::<Vec<_>>())
    }

    /// The scale of a vector of degree 1, and whether that is the square of the level's: as of a fresh one of
    /// `FlexibleAutoExt`, which has degree 2 whatever was asked for.
    fn encoding_scale(&self, limbs: usize) -> (f64, bool) {
        let level = self.level(limbs);
        let scale = self.scales.fresh(level);
        (scale, scale != self.scales.factor(level))
    }

    /// The degree and the scale of a ciphertext as its owner encrypts it.
    pub fn fresh_state(&self) -> (u32, f64) {
        let (scale, squared) = self.encoding_scale(self.count_q());
        (if squared { 2 } else { 1 }, scale)
    }

    /// [`Context::encode`] up to where limbs differ.
    ///
    /// # Errors
    /// Those of [`Context::encode`].
    pub fn encode_coefficients(
        &self,
        values: &[Complex],
        limbs: usize,
        degree: u32,
        slots: usize,
    ) -> Result<Coefficients, Error> {
        let n = self.ring_dim();
        let refused = |what: String, rule| Err(Error::Operand { operation: "encode", what, rule });
        if !slots.is_power_of_two() || slots > n / 2 || values.is_empty() || values.len() > slots {
            let rule = "slots are a power of two up to N/2, and values at least 1 and not more than slots";
            return refused(format!("{} values in {slots} slots at N = {n}", values.len()), rule);
        }
        if !(1..=self.count_q()).contains(&limbs) || degree == 0 {
            let rule = "limbs are 1 to those of the parameters, degrees start at 1";
            return refused(format!("{limbs} limbs, degree {degree}"), rule);
        }
        if !values.iter().flatten().all(|part| part.is_finite()) {
            return refused("a value that is not finite".to_owned(), "encode finite numbers");
        }
        let (scale, squared) = self.encoding_scale(limbs);
        let power = if squared { 1 } else { degree };
        let mut padded = values.to_vec();
        padded.resize(slots, [0.0; 2]);
        let held = self.held_bits(limbs);
        let too_large = |bits: String| {
            let rule =
                "their modulus holds a bit more than the largest coefficient: scale them down, or take more limbs";
            refused(format!("values whose coefficients have {bits} bits at {limbs} limbs of {held:.0} bits"), rule)
        };
        let Some((words, excess)) = rounded(self.slot_tables(), &mut padded, scale)? else {
            return too_large(format!("more than {DOUBLE_BITS}"));
        };
        let largest = words.iter().map(|word| (*word as i64).unsigned_abs()).max().unwrap_or(0);
        // A product's further scale, which is multiplied in later. Where that alone exceeds the modulus, OpenFHE encodes
        // all the same: nothing can be decrypted there.
        let further = f64::from(power - 1) * scale.log2();
        let bits = (largest as f64).log2() + f64::from(excess) + further;
        if bits >= held - 1.0 && (power == 1 || !self.is_beyond(further + scale.log2(), limbs)) {
            return too_large(format!("{bits:.0}"));
        }
        let described = Described {
            limbs,
            ring_dim: n,
            degree: if squared { 2 } else { degree },
            scale: scale.powf(f64::from(power)),
            slots: slots as u32,
        };
        let long = words.iter().any(|word| (*word as i64).unsigned_abs() >= 1 << CONVERTED_BITS);
        Ok(Coefficients { words, excess, long, power, unit: scale.round() as u64, described })
    }

    /// Encodes several vectors, each as [`Context::encode`] does. Each thread takes whole vectors, then whole limbs.
    ///
    /// # Errors
    /// Those of [`Context::encode`].
    pub fn encode_many(
        &self,
        vectors: &[&[Complex]],
        limbs: usize,
        degree: u32,
        slots: usize,
    ) -> Result<Vec<Plaintext>, Error> {
        self.slot_tables();
        let mut coefficients: Vec<Option<Coefficients>> = vectors.iter().map(|_| None).collect();
        self.workers.each(vectors.iter().zip(&mut coefficients).collect(), |(values, made)| {
            *made = Some(self.encode_coefficients(values, limbs, degree, slots)?);
            Ok(())
        })?;
        let coefficients: Vec<Coefficients> = coefficients.into_iter().flatten().collect();
        self.plaintexts_of(&coefficients.iter().collect::<Vec<_>>())
    }

    /// The second half of an encoding: the plaintext of each vector, at the limbs that its coefficients are for.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory.
    pub fn plaintexts_of(&self, coefficients: &[&Coefficients]) -> Result<Vec<Plaintext>, Error> {
        let n = self.ring_dim();
        let mut polynomials = Vec::with_capacity(coefficients.len());
        for each in coefficients {
            polynomials.push(self.arena.words(each.limbs() * n)?);
        }
        let rows = polynomials.iter_mut().zip(coefficients);
        let jobs = rows
            .flat_map(|(rows, from)| rows.chunks_exact_mut(n).enumerate().map(move |(limb, row)| (limb, row, *from)));
        self.workers.each(jobs.collect(), |(limb, row, from)| {
            self.encode_row(from, limb, row)?;
            self.kernels.to_canonical(&self.primes[limb], row);
            Ok(())
        })?;
        let described = |polynomial, from: &Coefficients| {
            let Described { limbs, ring_dim, degree, scale, slots } = from.described;
            Plaintext { polynomial, limbs, ring_dim, degree, scale, slots }
        };
        Ok(polynomials.into_iter().zip(coefficients).map(|(rows, from)| described(rows, from)).collect())
    }

    /// [`Context::encode`] at the given limbs of the whole chain; the rows follow their order.
    pub(crate) fn encode_over(
        &self,
        values: &[Complex],
        limbs: usize,
        degree: u32,
        slots: usize,
        targets: &[usize],
    ) -> Result<Plaintext, Error> {
        let n = self.ring_dim();
        let coefficients = self.encode_coefficients(values, limbs, degree, slots)?;
        let mut polynomial = self.arena.words(targets.len() * n)?;
        let jobs = polynomial.chunks_exact_mut(n).zip(targets).collect();
        self.workers.each(jobs, |(row, target)| {
            self.encode_row(&coefficients, *target, row)?;
            self.kernels.to_canonical(&self.primes[*target], row);
            Ok(())
        })?;
        let Described { limbs, ring_dim, degree, scale, slots } = coefficients.described;
        Ok(Plaintext { polynomial, limbs, ring_dim, degree, scale, slots })
    }

    /// The evaluations at one limb of the whole chain, in the working form.
    pub(crate) fn encode_row(&self, coefficients: &Coefficients, target: usize, row: &mut [u64]) -> Result<(), Error> {
        let (p, words) = (&self.primes[target], &coefficients.words);
        let factor = coefficients.factor(p.modulus);
        let gap = row.len() / words.len();
        if words.len() < MIN_RING_DIM || coefficients.long {
            // Rare: cases that the kernels below do not take.
            row.fill(0);
            for (word, integer) in row.iter_mut().step_by(gap).zip(words) {
                *word = p.modulus.mul(p.modulus.reduce_signed(*integer as i64), factor);
            }
            self.kernels.to_working(p, row);
            self.kernels.forward(p, row);
            return Ok(());
        }
        self.kernels.convert(p, &[Source { row: words, factor, wide: true }], &mut row[..words.len()]);
        self.kernels.forward_sparse(p, gap, row)
    }
}
