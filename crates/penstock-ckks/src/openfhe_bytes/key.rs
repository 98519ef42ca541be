//! Evaluation keys of hybrid key switching.

use super::grammar::{Cursor, NEW_OBJECT, PLAIN_POINTER, Polynomials, RowSpan, key_tag};
use crate::error::Error;

const OBJECT: &str = "evaluation key";
const CLASS: &[u8] = b"lbcrypto::EvalKeyRelinImpl<lbcrypto::DCRTPoly>";

/// Which of a digit's two polynomials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The uniform polynomial (OpenFHE's vector A).
    A,
    /// The one that hides the secret (OpenFHE's vector B).
    B,
}

impl Part {
    /// Both, in OpenFHE's order.
    pub const BOTH: [Part; 2] = [Part::A, Part::B];

    /// `a` or `b`.
    pub fn name(self) -> &'static str {
        match self {
            Part::A => "a",
            Part::B => "b",
        }
    }
}

/// Where the rows of one key are in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationKeyBytes {
    /// Words of a row.
    pub ring_dim: usize,
    /// The moduli of a row: Q's, then P's; the same for every digit.
    pub moduli: Vec<u64>,
    /// Digits of the decomposition (`dnum`).
    pub digits: usize,
    /// The automorphism it is for, where the file is a map of automorphism keys; `None` for a single key.
    pub galois_element: Option<u32>,
    /// The tag of the secret key it belongs to (32 hexadecimal characters).
    pub key_tag: Option<String>,
    rows: Vec<RowSpan>,
}

impl EvaluationKeyBytes {
    /// The words of one row; `None` where there is no such digit or limb.
    pub fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&RowSpan> {
        let limbs = self.moduli.len();
        if digit >= self.digits || limb >= limbs {
            return None;
        }
        let part = match part {
            Part::A => 0,
            Part::B => 1,
        };
        self.rows.get((part * self.digits + digit) * limbs + limb)
    }
}

/// The keys of a file: one key, or a map of automorphism keys.
///
/// Only the layout is read: rows are copied and checked against their moduli by [`super::read_row`].
///
/// # Errors
/// [`Error::Bytes`] where the bytes do not follow the layout.
pub fn parse_evaluation_keys(bytes: &[u8]) -> Result<Vec<EvaluationKeyBytes>, Error> {
    let (count, mut galois_element) = opening(bytes)?;
    let mut polynomials = Polynomials::find(bytes, OBJECT)?;
    let mut tag = key_tag(bytes, polynomials.start);
    let mut keys = Vec::new();
    loop {
        keys.push(one_key(&mut polynomials, galois_element, tag)?);
        if keys.len() as u64 == count {
            return Ok(keys);
        }
        (galois_element, tag) = next_entry(&mut polynomials.cursor)?;
    }
}

/// The key of a file that holds one.
///
/// # Errors
/// [`Error::Bytes`] where the bytes do not follow the layout, or hold several keys.
pub fn parse_evaluation_key(bytes: &[u8]) -> Result<EvaluationKeyBytes, Error> {
    let mut keys = parse_evaluation_keys(bytes)?;
    match (keys.pop(), keys.len()) {
        (Some(key), 0) => Ok(key),
        (_, others) => Err(Error::Bytes {
            object: OBJECT,
            offset: 0,
            what: format!("{} keys, where one was expected", others + 1),
        }),
    }
}

/// Number of keys in the file, and the automorphism of the first.
fn opening(bytes: &[u8]) -> Result<(u64, Option<u32>), Error> {
    let mut cursor = Cursor { bytes, at: 0, object: OBJECT };
    if cursor.u8()? != 1 {
        return Err(cursor.error("the input is not little-endian binary"));
    }
    cursor.expect_u32(NEW_OBJECT | 1, "the id of the first object")?;
    let single = bytes.get(cursor.at + 8..cursor.at + 8 + CLASS.len()) == Some(CLASS);
    if single {
        return Ok((1, None));
    }
    let count = cursor.u64()?;
    if count == 0 {
        return Err(cursor.error("a map without keys"));
    }
    let galois_element = cursor.u32()?;
    cursor.expect_u32(NEW_OBJECT | 1, "the id of the class of keys")?;
    if cursor.u64()? != CLASS.len() as u64 || cursor.take(CLASS.len())? != CLASS {
        return Err(cursor.error("not a key of hybrid key switching"));
    }
    Ok((count, Some(galois_element)))
}

fn next_entry(cursor: &mut Cursor<'_>) -> Result<(Option<u32>, Option<String>), Error> {
    let galois_element = cursor.u32()?;
    cursor.expect_u32(1, "the class of the next key")?;
    if cursor.u32()? & NEW_OBJECT == 0 {
        return Err(cursor.error("the same key twice"));
    }
    cursor.expect_u32(PLAIN_POINTER, "the mark of the context")?;
    cursor.take(4)?;
    if cursor.u64()? != 32 {
        return Err(cursor.error("no key tag"));
    }
    cursor.take(32)?;
    Ok((Some(galois_element), key_tag(cursor.bytes, cursor.at)))
}

fn one_key(
    polynomials: &mut Polynomials<'_>,
    galois_element: Option<u32>,
    key_tag: Option<String>,
) -> Result<EvaluationKeyBytes, Error> {
    let mut parts = polynomials.list()?;
    let digits = parts.len();
    let b = polynomials.list()?;
    if b.len() != digits {
        return Err(polynomials.cursor.error(format!("{digits} polynomials in part a, {} in part b", b.len())));
    }
    parts.extend(b);
    let moduli: Vec<u64> = parts[0].iter().map(|row| row.modulus).collect();
    if parts.iter().any(|part| !part.iter().map(|row| row.modulus).eq(moduli.iter().copied())) {
        return Err(polynomials.cursor.error("the digits of a key differ in their moduli"));
    }
    Ok(EvaluationKeyBytes {
        ring_dim: polynomials.ring_dim,
        moduli,
        digits,
        galois_element,
        key_tag,
        rows: parts.into_iter().flatten().collect(),
    })
}
