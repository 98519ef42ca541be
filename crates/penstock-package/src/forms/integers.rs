//! Vectors whose values are integers of a few bits times one power of two.

use crate::bits::width;

/// Bits of the largest integer that float64 has with all below it.
const EXACT_BITS: u32 = 53;
/// The exponent of the smallest float64.
pub const MIN_EXPONENT: i32 = -1074;
/// The exponent of the largest float64, as an integer of 53 bits.
pub const MAX_EXPONENT: i32 = 971;
/// Bits of a difference of two such integers.
pub const MAX_WIDTH: u32 = EXACT_BITS + 1;
/// Of the lowest integer.
pub const MAX_LOW: u64 = 1 << EXACT_BITS;
/// Bytes of exponent, lowest integer and width.
pub const HEAD_BYTES: usize = 11;

/// `2^exponent`, which is at least [`MIN_EXPONENT`] and at most 1023.
pub fn power_of_two(exponent: i32) -> f64 {
    if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else {
        f64::from_bits(1 << (exponent - MIN_EXPONENT))
    }
}

/// Values as `(low + offset) 2^exponent`, with offsets of `width` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaled {
    pub exponent: i32,
    pub low: i64,
    pub width: u32,
}

/// A finite value other than 0 as an odd integer with its sign and an exponent.
fn split(value: f64) -> (i64, i32) {
    let bits = value.to_bits();
    let (raw, fraction) = ((bits >> 52 & 0x7ff) as i32, (bits & ((1 << 52) - 1)) as i64);
    let (mantissa, exponent) = if raw == 0 { (fraction, MIN_EXPONENT) } else { (fraction | 1 << 52, raw - 1075) };
    let zeros = mantissa.trailing_zeros();
    let odd = mantissa >> zeros;
    (if value < 0.0 { -odd } else { odd }, exponent + zeros as i32)
}

impl Scaled {
    /// The integers that give back the bits of all values; `None`: there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut exponent = i32::MAX;
        for value in values.iter().filter(|value| **value != 0.0) {
            exponent = exponent.min(split(*value).1);
        }
        let exponent = if exponent == i32::MAX { 0 } else { exponent.min(MAX_EXPONENT) };
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for value in values {
            let integer = integer_of(*value, exponent)?;
            (low, high) = (low.min(integer), high.max(integer));
        }
        (low <= high).then(|| Self { exponent, low, width: width(high.wrapping_sub(low) as u64) })
    }

    /// The offset of one of the values.
    pub fn offset(&self, value: f64) -> u64 {
        integer_of(value, self.exponent).unwrap_or(self.low).wrapping_sub(self.low) as u64
    }

    /// The value of an offset.
    pub fn value(&self, offset: u64) -> f64 {
        (self.low.wrapping_add(offset as i64)) as f64 * power_of_two(self.exponent)
    }
}

/// `value / 2^exponent` where that is an integer of at most 53 bits; not for -0.
fn integer_of(value: f64, exponent: i32) -> Option<i64> {
    if value == 0.0 {
        return value.is_sign_positive().then_some(0);
    }
    let (odd, own) = split(value);
    let shift = u32::try_from(own.checked_sub(exponent)?).ok()?;
    (width(odd.unsigned_abs()) + shift <= EXACT_BITS).then(|| odd << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_double() {
        let mut power = 5e-324;
        for exponent in MIN_EXPONENT..=1023 {
            assert_eq!(power_of_two(exponent), power, "{exponent}");
            power *= 2.0;
        }
    }

    #[test]
    fn values_on_a_grid_are_small_integers() {
        let found = Scaled::of(&[0.25, -0.5, 0.0, 1.0]).unwrap();
        assert_eq!(found, Scaled { exponent: -2, low: -2, width: 3 });
        assert_eq!([0.25, -0.5, 0.0, 1.0].map(|value| found.value(found.offset(value))), [0.25, -0.5, 0.0, 1.0]);
    }

    #[test]
    fn extremes_are_integers_too() {
        for value in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -5e-324, 2f64.powi(1023)] {
            let found = Scaled::of(&[value]).unwrap();
            assert_eq!(found.value(found.offset(value)).to_bits(), value.to_bits(), "{value} {found:?}");
        }
    }

    #[test]
    fn other_values_are_no_integers() {
        assert_eq!(Scaled::of(&[-0.0]), None);
        assert_eq!(Scaled::of(&[1.0, 1e-30]), None);
    }
}
