//! Reading stored forms. Nothing is allocated that the number of values does not bound.

use crate::bits::{packed_bytes, unpack, width};
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::forms::Form;
use crate::forms::integers::{MAX_EXPONENT, MAX_LOW, MAX_WIDTH, MIN_EXPONENT, Scaled};
use crate::limits::{MAX_DICTIONARY, MAX_NESTING};

type Result<T> = std::result::Result<T, Fault>;

fn refused<T>(what: impl Into<String>, rule: &'static str) -> Result<T> {
    Err(Fault::new("", what, rule))
}

/// `count` values, at most the limit of a constant.
pub fn read(bytes: &mut Cursor<'_>, count: usize) -> Result<Vec<f64>> {
    let values = nested(bytes, count, MAX_NESTING)?;
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(at) => refused(format!("value {at} is {}", values[at]), "values are finite"),
    }
}

fn nested(bytes: &mut Cursor<'_>, count: usize, nesting: u32) -> Result<Vec<f64>> {
    let code = bytes.u8()?;
    if nesting == 0 {
        return refused("forms inside each other", "they nest four deep at most");
    }
    match Form::from_code(code) {
        Some(Form::Float64) => bytes.column(count, f64::from_le_bytes),
        Some(Form::Float32) => bytes.column(count, |part| f64::from(f32::from_le_bytes(part))),
        Some(Form::Integers) => integers(bytes, count),
        Some(Form::Period) => {
            let length = below(bytes.u32()?, count, "a period is at least 1 and shorter than the vector")?;
            let period = nested(bytes, length, nesting - 1)?;
            Ok(period.iter().copied().cycle().take(count).collect())
        }
        Some(Form::Sparse) => sparse(bytes, count, nesting),
        Some(Form::Runs) => runs(bytes, count, nesting),
        Some(Form::Dictionary) => dictionary(bytes, count, nesting),
        Some(Form::Coefficients) | None => refused(format!("form {code}"), "the forms of vectors are 0 to 6"),
    }
}

/// A number of values inside a form of `count` values.
fn below(number: u32, count: usize, rule: &'static str) -> Result<usize> {
    match usize::try_from(number) {
        Ok(number) if number >= 1 && number < count => Ok(number),
        _ => refused(format!("{number} of {count} values"), rule),
    }
}

fn packed<'a>(
    bytes: &mut Cursor<'a>,
    count: usize,
    width: u32,
    most: u32,
) -> Result<impl Iterator<Item = u64> + use<'a>> {
    if width > most {
        return refused(format!("integers of {width} bits"), "integers have no more bits than they need");
    }
    Ok(unpack(bytes.take(packed_bytes(count, width))?, count, width))
}

fn integers(bytes: &mut Cursor<'_>, count: usize) -> Result<Vec<f64>> {
    let (exponent, low, width) = (i32::from(bytes.i16()?), bytes.i64()?, u32::from(bytes.u8()?));
    if !(MIN_EXPONENT..=MAX_EXPONENT).contains(&exponent) || low.unsigned_abs() > MAX_LOW {
        return refused(format!("integers from {low} on, times 2^{exponent}"), "they are those of float64");
    }
    let scaled = Scaled { exponent, low, width };
    Ok(packed(bytes, count, width, MAX_WIDTH)?.map(|offset| scaled.value(offset)).collect())
}

fn sparse(bytes: &mut Cursor<'_>, count: usize, nesting: u32) -> Result<Vec<f64>> {
    let number = below(bytes.u32()?, count, "a sparse vector has fewer values than places, and at least one")?;
    let width = u32::from(bytes.u8()?);
    let gaps = packed(bytes, number, width, u32::BITS)?;
    let inner = nested(bytes, number, nesting - 1)?;
    let (mut values, mut at) = (vec![0.0; count], 0);
    for (gap, value) in gaps.zip(inner) {
        at += gap as usize;
        match values.get_mut(at) {
            Some(place) => *place = value,
            None => return refused(format!("place {at} of {count}"), "places lie inside the vector"),
        }
        at += 1;
    }
    Ok(values)
}

fn runs(bytes: &mut Cursor<'_>, count: usize, nesting: u32) -> Result<Vec<f64>> {
    let number = below(bytes.u32()?, count, "runs are fewer than values, and at least one")?;
    let width = u32::from(bytes.u8()?);
    let lengths = packed(bytes, number, width, u32::BITS)?;
    let inner = nested(bytes, number, nesting - 1)?;
    let mut values = Vec::with_capacity(count);
    for (length, value) in lengths.zip(inner) {
        let end = values.len() + length as usize + 1;
        if end > count {
            return refused(format!("runs of more than {count} values"), "runs are as long as the vector together");
        }
        values.resize(end, value);
    }
    if values.len() != count {
        return refused(format!("runs of {} values", values.len()), "runs are as long as the vector together");
    }
    Ok(values)
}

fn dictionary(bytes: &mut Cursor<'_>, count: usize, nesting: u32) -> Result<Vec<f64>> {
    let number = bytes.u32()?;
    if number > MAX_DICTIONARY {
        return refused(format!("a dictionary of {number} values"), "dictionaries have at most 2^16");
    }
    let number = below(number, count, "a dictionary has fewer values than the vector, and at least one")?;
    let table = nested(bytes, number, nesting - 1)?;
    let width = width(number as u64 - 1);
    let places = packed(bytes, count, width, u32::BITS)?;
    let mut values = Vec::with_capacity(count);
    for place in places {
        match table.get(place as usize) {
            Some(value) => values.push(*value),
            None => return refused(format!("value {place} of a dictionary of {number}"), "it has that value"),
        }
    }
    Ok(values)
}
