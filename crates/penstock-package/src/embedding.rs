//! From the coefficients of a polynomial to the values in its slots: the canonical embedding.

use penstock_ckks::SlotTables;

use crate::constant::Coefficients;
use crate::error::Fault;
use crate::forms::power_of_two;

/// The values of a polynomial in its slots, repeated to at least `slots` values.
///
/// # Errors
/// A value is too large for float64.
pub fn slot_values(tables: &SlotTables, from: &Coefficients, slots: usize) -> Result<Vec<[f64; 2]>, Fault> {
    let unit = power_of_two(from.exponent);
    let (low, high) = from.integers.split_at(from.integers.len() / 2);
    let parts = low.iter().zip(high);
    let mut period: Vec<[f64; 2]> = parts.map(|(re, im)| [*re as f64 * unit, *im as f64 * unit]).collect();
    tables.forward(&mut period);
    if !period.iter().flatten().all(|part| part.is_finite()) {
        return Err(Fault::new("", "coefficients whose values overflow", "values are finite"));
    }
    let count = period.len().max(slots);
    Ok(period.iter().copied().cycle().take(count).collect())
}
