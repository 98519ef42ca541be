//! How scales follow levels: OpenFHE's `FIXEDMANUAL`, `FIXEDAUTO`, `FLEXIBLEAUTO` and `FLEXIBLEAUTOEXT`, to the last
//! bit.
//!
//! The factors are computed with the operations of OpenFHE's `CryptoParametersCKKSRNS` in their order, since a scalar's
//! encoding rounds a product with them.

use crate::error::Error;

/// A scaling technique, by OpenFHE's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// The program rescales; one scale for all levels.
    FixedManual,
    /// A product is rescaled at the start of the next; one scale for all levels.
    FixedAuto,
    /// A product is rescaled at the start of the next; every level has its own scale.
    FlexibleAuto,
    /// The same with one more modulus, which a fresh ciphertext uses up.
    FlexibleAutoExt,
}

impl Scaling {
    /// Whether operands are rescaled and brought together without being told.
    pub fn is_automatic(self) -> bool {
        self != Scaling::FixedManual
    }

    /// Whether every level has its own scale.
    pub(crate) fn is_flexible(self) -> bool {
        matches!(self, Scaling::FlexibleAuto | Scaling::FlexibleAutoExt)
    }
}

/// The factors of each level.
#[derive(Debug, Clone)]
pub(crate) struct ScaleTable {
    pub scaling: Scaling,
    /// 2^scale bits: the scale of all levels where they share one.
    approximate: f64,
    by_level: Vec<f64>,
    squared: Vec<f64>,
    moduli: Vec<u64>,
}

impl ScaleTable {
    pub fn new(scaling: Scaling, scale_bits: u32, moduli: &[u64]) -> Result<Self, Error> {
        let approximate = f64::from(scale_bits).exp2();
        let (mut by_level, mut squared) = (Vec::new(), Vec::new());
        if scaling.is_flexible() {
            let real: Vec<f64> = moduli.iter().map(|q| *q as f64).collect();
            by_level = flexible(scaling, approximate, &real)?;
            squared = by_level[..by_level.len() - 1].iter().map(|factor| factor * factor).collect();
            if scaling == Scaling::FlexibleAutoExt && !squared.is_empty() {
                squared[0] = by_level[0] * by_level[1];
            }
        }
        Ok(Self { scaling, approximate, by_level, squared, moduli: moduli.to_vec() })
    }

    /// The scale of a plaintext of degree 1 at a level (scalings done).
    pub fn factor(&self, level: usize) -> f64 {
        self.by_level.get(level).copied().unwrap_or(self.approximate)
    }

    /// The scale of a product of two at a level.
    pub fn squared(&self, level: usize) -> f64 {
        self.squared.get(level).copied().unwrap_or(self.approximate)
    }

    /// The scale of a product with a plaintext at a level.
    pub fn plain_product(&self, level: usize, scale: f64) -> f64 {
        match self.squared.get(level) {
            Some(squared) => *squared,
            None if self.scaling.is_flexible() => self.factor(level) * self.factor(level),
            None => scale * scale,
        }
    }

    /// What raises a number or plaintext to the degree of a ciphertext of `limbs` limbs, step by step: the scale of the
    /// level, or, where all levels share one, the moduli that will be divided by.
    pub fn unit(&self, limbs: usize, step: usize) -> u64 {
        if !self.scaling.is_flexible() && limbs > step + 1 {
            // Not by way of a double, which has 53 bits.
            return self.moduli[limbs - 1 - step];
        }
        (self.factor(self.moduli.len() - limbs) + 0.5) as u64
    }

    /// The divisor of the scale when limb `limb` is dropped.
    pub fn divisor(&self, limb: usize) -> f64 {
        if self.scaling.is_flexible() { self.moduli[limb] as f64 } else { self.approximate }
    }

    /// A fresh ciphertext of `FlexibleAutoExt` is at the product of two scales, at degree 1.
    pub fn fresh(&self, level: usize) -> f64 {
        if self.scaling == Scaling::FlexibleAutoExt && level == 0 { self.squared(0) } else { self.factor(level) }
    }
}

fn flexible(scaling: Scaling, approximate: f64, moduli: &[f64]) -> Result<Vec<f64>, Error> {
    let count = moduli.len();
    let preset = if scaling == Scaling::FlexibleAutoExt { 2 } else { 1 };
    if count <= preset {
        // Without a level to rescale the scale is the one that was asked for.
        let mut factors: Vec<f64> = moduli.iter().rev().copied().collect();
        if let Some(last) = factors.last_mut() {
            *last = approximate;
        }
        return Ok(factors);
    }
    let mut factors: Vec<f64> = moduli.iter().rev().take(preset).copied().collect();
    for level in preset..count {
        let previous = factors[level - 1];
        let factor = previous * previous / moduli[count - level];
        let ratio = factor / factors[preset - 1];
        if ratio <= 0.5 || ratio >= 2.0 {
            return Err(Error::Parameters {
                what: format!("scale of level {level}, {ratio} of the first"),
                rule: "under flexible scaling the scales of all levels must be within a factor of 2",
            });
        }
        factors.push(factor);
    }
    Ok(factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_flexible_auto_follow_the_moduli() {
        let moduli = [1152921504606844417, 1125899906842177, 1125899906842817];
        let table = ScaleTable::new(Scaling::FlexibleAuto, 50, &moduli).unwrap();
        let [q1, q2] = [1125899906842177f64, 1125899906842817f64];
        assert_eq!(table.factor(0), q2);
        assert_eq!(table.factor(1), q2 * q2 / q2);
        assert_eq!(table.factor(2), table.factor(1) * table.factor(1) / q1);
        assert_eq!(table.squared(1), table.factor(1) * table.factor(1));
        assert_eq!(table.divisor(2), q2);
        assert_eq!(ScaleTable::new(Scaling::FixedManual, 50, &moduli).unwrap().factor(2), 2f64.powi(50));
        assert!(ScaleTable::new(Scaling::FlexibleAuto, 50, &[97, 1 << 47, 1 << 49, 1 << 50]).is_err());
    }

    #[test]
    fn where_levels_share_a_scale_numbers_are_raised_by_the_modulus_itself() {
        let moduli = [0xfff_ffff_ffff_c001, 0x7ff_ffff_ffa4_4001, 0x800_0000_0012_4001];
        for scaling in [Scaling::FixedManual, Scaling::FixedAuto] {
            let table = ScaleTable::new(scaling, 59, &moduli).unwrap();
            // 59 bits, of which a double has 53.
            assert_eq!([table.unit(3, 0), table.unit(3, 1), table.unit(2, 0)], [moduli[2], moduli[1], moduli[1]]);
            assert_eq!((table.unit(1, 0), table.divisor(2), table.factor(1)), (1 << 59, 2f64.powi(59), 2f64.powi(59)));
        }
        let table = ScaleTable::new(Scaling::FlexibleAuto, 59, &moduli).unwrap();
        assert_eq!(table.unit(3, 0), moduli[2] as f64 as u64);
    }
}
