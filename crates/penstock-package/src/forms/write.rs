//! Writing vectors in the smallest form that gives back their bits.

use std::collections::HashMap;

use crate::bits::{pack, packed_bytes, width};
use crate::forms::Form;
use crate::forms::integers::{HEAD_BYTES, Scaled};
use crate::limits::{MAX_DICTIONARY, MAX_NESTING};

/// The smallest form of finite values.
pub fn write(values: &[f64]) -> Vec<u8> {
    nested(values, MAX_NESTING - 1)
}

/// The smallest form with at most so many forms inside it.
fn nested(values: &[f64], inside: u32) -> Vec<u8> {
    let mut best = plain(values);
    if inside == 0 || values.len() < 2 {
        return best;
    }
    if let Some(length) = period(values) {
        // Of a vector that repeats, other forms save a few bytes at most.
        let mut bytes = head(Form::Period, length);
        bytes.extend(nested(&values[..length], inside - 1));
        return if bytes.len() < best.len() { bytes } else { best };
    }
    for form in [sparse, runs, dictionary] {
        if let Some(bytes) = form(values, inside, best.len()) {
            best = bytes;
        }
    }
    best
}

fn head(form: Form, number: usize) -> Vec<u8> {
    let mut bytes = vec![form.code()];
    bytes.extend((number as u32).to_le_bytes());
    bytes
}

/// Each value by itself.
fn plain(values: &[f64]) -> Vec<u8> {
    let float_bytes = if values.iter().all(|value| is_float32(*value)) { 4 } else { 8 } * values.len();
    if let Some(scaled) = Scaled::of(values)
        && HEAD_BYTES + packed_bytes(values.len(), scaled.width) < float_bytes
    {
        let mut bytes = vec![Form::Integers.code()];
        bytes.extend((scaled.exponent as i16).to_le_bytes());
        bytes.extend(scaled.low.to_le_bytes());
        bytes.push(scaled.width as u8);
        pack(values.iter().map(|value| scaled.offset(*value)), scaled.width, &mut bytes);
        return bytes;
    }
    let mut bytes = Vec::with_capacity(1 + float_bytes);
    if float_bytes == 4 * values.len() {
        bytes.push(Form::Float32.code());
        bytes.extend(values.iter().flat_map(|value| (*value as f32).to_le_bytes()));
    } else {
        bytes.push(Form::Float64.code());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

fn is_float32(value: f64) -> bool {
    f64::from(value as f32).to_bits() == value.to_bits()
}

/// The smallest period of a vector of two or more values, at most half of it.
fn period(values: &[f64]) -> Option<usize> {
    // The lengths of the longest proper beginnings that are ends too (Knuth, Morris and Pratt).
    let mut borders = vec![0u32; values.len()];
    for at in 1..values.len() {
        let mut border = borders[at - 1] as usize;
        while border > 0 && values[border].to_bits() != values[at].to_bits() {
            border = borders[border - 1] as usize;
        }
        borders[at] = (border + usize::from(values[border].to_bits() == values[at].to_bits())) as u32;
    }
    let length = values.len() - *borders.last()? as usize;
    (length <= values.len() / 2).then_some(length)
}

fn sparse(values: &[f64], inside: u32, best: usize) -> Option<Vec<u8>> {
    let places: Vec<usize> = (0..values.len()).filter(|at| values[*at].to_bits() != 0).collect();
    if places.is_empty() || places.len() > values.len() / 2 {
        return None;
    }
    let gaps = |places: &[usize]| -> Vec<u64> {
        let ends = std::iter::once(0).chain(places.iter().map(|at| at + 1));
        places.iter().zip(ends).map(|(at, end)| (at - end) as u64).collect()
    };
    let inner: Vec<f64> = places.iter().map(|at| values[*at]).collect();
    places_and_values(Form::Sparse, &gaps(&places), &inner, inside, best)
}

fn runs(values: &[f64], inside: u32, best: usize) -> Option<Vec<u8>> {
    let (mut lengths, mut inner): (Vec<u64>, Vec<f64>) = (Vec::new(), Vec::new());
    for run in values.chunk_by(|a, b| a.to_bits() == b.to_bits()) {
        if lengths.len() >= values.len() / 2 {
            return None;
        }
        lengths.push(run.len() as u64 - 1);
        inner.push(run[0]);
    }
    places_and_values(Form::Runs, &lengths, &inner, inside, best)
}

fn places_and_values(form: Form, places: &[u64], inner: &[f64], inside: u32, best: usize) -> Option<Vec<u8>> {
    let bits = width(places.iter().copied().max().unwrap_or(0));
    let mut bytes = head(form, inner.len());
    if bytes.len() + 1 + packed_bytes(places.len(), bits) >= best {
        return None;
    }
    bytes.push(bits as u8);
    pack(places.iter().copied(), bits, &mut bytes);
    bytes.extend(nested(inner, inside - 1));
    (bytes.len() < best).then_some(bytes)
}

/// Values that show whether a vector has few different ones.
const SAMPLED: usize = 256;

/// Whether some values of the vector, evenly spaced, are mostly different: it has no small dictionary then.
fn mostly_differ(values: &[f64]) -> bool {
    let mut sample: Vec<u64> =
        values.iter().step_by((values.len() / SAMPLED).max(1)).map(|value| value.to_bits()).collect();
    let drawn = sample.len();
    sample.sort_unstable();
    sample.dedup();
    drawn >= SAMPLED && sample.len() > drawn - drawn / 8
}

fn dictionary(values: &[f64], inside: u32, best: usize) -> Option<Vec<u8>> {
    if mostly_differ(values) {
        return None;
    }
    let most = (values.len() / 2).min(MAX_DICTIONARY as usize);
    let mut known: HashMap<u64, u64> = HashMap::new();
    let (mut table, mut places) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let next = known.len() as u64;
        let place = *known.entry(value.to_bits()).or_insert_with(|| {
            table.push(*value);
            next
        });
        if table.len() > most {
            return None;
        }
        places.push(place);
    }
    let bits = width(table.len() as u64 - 1);
    if packed_bytes(places.len(), bits) >= best {
        return None;
    }
    let mut bytes = head(Form::Dictionary, table.len());
    bytes.extend(nested(&table, inside - 1));
    pack(places.into_iter(), bits, &mut bytes);
    (bytes.len() < best).then_some(bytes)
}
