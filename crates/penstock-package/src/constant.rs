//! Constants and their stored bytes.

use bytemuck::cast_slice;

use crate::bits::{pack, packed_bytes, unpack, width};
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::forms::{self, Form, MAX_EXPONENT, MIN_EXPONENT};
use crate::frame::sha256;
use crate::tables::{Entry, Kind};

/// A vector that a program uses as a plaintext. Vectors of values have no zeros at their end.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    Real(Vec<f64>),
    Complex(Vec<[f64; 2]>),
    Coefficients(Coefficients),
}

/// A polynomial: the sum of integer k times X^(k N/n) for n integers, times 2^exponent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coefficients {
    /// Two or more, a power of two, at most the dimensions of the ring.
    pub integers: Vec<i64>,
    pub exponent: i32,
}

impl Constant {
    /// A real vector, without the zeros at its end.
    pub fn real(values: &[f64]) -> Self {
        let used = values.iter().rposition(|value| *value != 0.0).map_or(0, |last| last + 1);
        Constant::Real(values[..used].to_vec())
    }

    /// A complex vector, without the zeros at its end; a real one where no imaginary part is there.
    pub fn complex(values: &[[f64; 2]]) -> Self {
        if values.iter().all(|value| value[1] == 0.0) {
            return Self::real(&values.iter().map(|value| value[0]).collect::<Vec<_>>());
        }
        let used = values.iter().rposition(|value| *value != [0.0; 2]).map_or(0, |last| last + 1);
        Constant::Complex(values[..used].to_vec())
    }

    pub fn kind(&self) -> Kind {
        match self {
            Constant::Real(_) => Kind::Real,
            Constant::Complex(_) => Kind::Complex,
            Constant::Coefficients(_) => Kind::Coefficients,
        }
    }

    /// Refuses values that are not finite and coefficients of another number.
    pub(crate) fn check(&self, place: &str) -> Result<(), Fault> {
        let finite = match self {
            Constant::Real(values) => values.iter().all(|value| value.is_finite()),
            Constant::Complex(values) => values.iter().flatten().all(|part| part.is_finite()),
            Constant::Coefficients(Coefficients { integers, exponent }) => {
                return check_coefficients(integers.len(), *exponent, place);
            }
        };
        if finite { Ok(()) } else { Err(Fault::new(place, "a value that is not finite", "values are finite")) }
    }

    /// The stored bytes and their outermost form. For a complex vector: real parts, then imaginary parts.
    pub(crate) fn write(&self) -> (Vec<u8>, Form) {
        let bytes = match self {
            Constant::Real(values) => forms::write(values),
            Constant::Complex(values) => {
                let part = |k: usize| forms::write(&values.iter().map(|value| value[k]).collect::<Vec<_>>());
                let mut bytes = part(0);
                bytes.extend(part(1));
                bytes
            }
            Constant::Coefficients(coefficients) => return (coefficients.write(), Form::Coefficients),
        };
        let form = bytes.first().and_then(|code| Form::from_code(*code)).unwrap_or(Form::Float64);
        (bytes, form)
    }

    /// Reads stored bytes, which agree with their entry in the index.
    pub(crate) fn read(bytes: &[u8], entry: &Entry) -> Result<Self, Fault> {
        if bytes.first() != Some(&entry.form.code()) {
            let what = format!("the index has the form {}", entry.form.name());
            return Err(Fault::new("", what, "the stored bytes begin with the code of that form"));
        }
        let (count, mut cursor) = (entry.values as usize, Cursor::new(bytes));
        let read = match entry.kind {
            Kind::Real => Constant::Real(forms::read(&mut cursor, count)?),
            Kind::Complex => {
                let (re, im) = (forms::read(&mut cursor, count)?, forms::read(&mut cursor, count)?);
                Constant::Complex(re.into_iter().zip(im).map(|(re, im)| [re, im]).collect())
            }
            Kind::Coefficients => Constant::Coefficients(Coefficients::read(&mut cursor, count)?),
        };
        cursor.end()?;
        let zero_at_end = match &read {
            Constant::Real(values) => values.last() == Some(&0.0),
            Constant::Complex(values) => values.last() == Some(&[0.0; 2]),
            Constant::Coefficients(_) => false,
        };
        if zero_at_end {
            return Err(Fault::new("", "zeros at its end", "vectors are stored without them"));
        }
        Ok(read)
    }

    /// A digest that only the same vector has, in this process.
    pub(crate) fn identity(&self) -> [u8; 32] {
        let (exponent, bytes) = match self {
            Constant::Real(values) => (0, cast_slice(values)),
            Constant::Complex(values) => (0, cast_slice(values)),
            Constant::Coefficients(Coefficients { integers, exponent }) => (*exponent, cast_slice(integers)),
        };
        let head = [&[self.kind().code()][..], &exponent.to_le_bytes()].concat();
        sha256(&[&head, bytes])
    }

    /// Values, or coefficients.
    pub(crate) fn len(&self) -> usize {
        match self {
            Constant::Real(values) => values.len(),
            Constant::Complex(values) => values.len(),
            Constant::Coefficients(coefficients) => coefficients.integers.len(),
        }
    }
}

fn check_coefficients(count: usize, exponent: i32, place: &str) -> Result<(), Fault> {
    if !count.is_power_of_two() || count < 2 {
        let rule = "coefficients are a power of two, two or more, at most those of the ring";
        return Err(Fault::new(place, format!("{count} coefficients"), rule));
    }
    if !(MIN_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
        return Err(Fault::new(place, format!("coefficients times 2^{exponent}"), "exponents are -1074 to 971"));
    }
    Ok(())
}

impl Coefficients {
    fn write(&self) -> Vec<u8> {
        let low = self.integers.iter().copied().min().unwrap_or(0);
        let high = self.integers.iter().copied().max().unwrap_or(0);
        let bits = width(high.wrapping_sub(low) as u64);
        let mut bytes = vec![Form::Coefficients.code()];
        bytes.extend((self.exponent as i16).to_le_bytes());
        bytes.extend(low.to_le_bytes());
        bytes.push(bits as u8);
        pack(self.integers.iter().map(|each| each.wrapping_sub(low) as u64), bits, &mut bytes);
        bytes
    }

    fn read(bytes: &mut Cursor<'_>, count: usize) -> Result<Self, Fault> {
        let (_, exponent, low, bits) = (bytes.u8()?, i32::from(bytes.i16()?), bytes.i64()?, u32::from(bytes.u8()?));
        check_coefficients(count, exponent, "")?;
        if bits > u64::BITS {
            return Err(Fault::new("", format!("integers of {bits} bits"), "integers have at most 64 bits"));
        }
        let packed = bytes.take(packed_bytes(count, bits))?;
        let integers = unpack(packed, count, bits).map(|offset| low.wrapping_add(offset as i64)).collect();
        Ok(Self { integers, exponent })
    }
}
