//! Evaluation keys of hybrid key switching.

use super::entries::{Entries, Entry, OBJECT};
use super::grammar::{Cursor, Polynomials, RowSpan, key_tag};
use super::input::Input;
use crate::error::Error;

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

/// The places of one key's rows in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationKeyBytes {
    /// Words of a row.
    pub ring_dim: usize,
    /// The moduli of a row: Q's, then P's; the same for every digit.
    pub moduli: Vec<u64>,
    /// Digits of the decomposition.
    pub dnum: usize,
    /// The automorphism it is for, where the file is a map of automorphism keys; `None` for a single key.
    pub galois_element: Option<u32>,
    /// The power of the secret key that it relinearizes, where the file is a context's multiplication keys: 2, 3, …
    pub secret_power: Option<u32>,
    /// The tag of the secret key it belongs to (32 hexadecimal characters). The key to the sparse secret takes it from
    /// the other keys of the file.
    pub key_tag: Option<String>,
    rows: Vec<RowSpan>,
}

impl EvaluationKeyBytes {
    /// The words of one row; `None` where there is no such digit or limb.
    pub fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&RowSpan> {
        let limbs = self.moduli.len();
        if digit >= self.dnum || limb >= limbs {
            return None;
        }
        let part = match part {
            Part::A => 0,
            Part::B => 1,
        };
        self.rows.get((part * self.dnum + digit) * limbs + limb)
    }
}

/// The keys of a file: one key, a map of automorphism keys, or a context's keys of either kind (`SerializeEvalMultKey`,
/// `SerializeEvalAutomorphismKey`).
///
/// Only the layout is read: rows are copied and checked against their moduli by [`super::read_row`].
///
/// # Errors
/// [`Error::Bytes`] where the bytes do not follow the layout; [`Error::System`] where they cannot be read.
pub fn parse_evaluation_keys<I: Input + ?Sized>(input: &I) -> Result<Vec<EvaluationKeyBytes>, Error> {
    let (mut entries, mut entry) = Entries::open(input)?;
    let mut polynomials = Polynomials::find(input, OBJECT)?;
    let mut tag = key_tag(input, polynomials.start);
    let mut keys = Vec::new();
    loop {
        // OpenFHE gives the key to the sparse secret the tag of that secret, which no other key and no ciphertext has.
        let to_sparse = entry.galois_element == Some(to_sparse_element(polynomials.ring_dim));
        if entries.tag.is_some() && to_sparse {
            tag.clone_from(&entries.tag);
        }
        if entries.tag.is_some() && entries.tag != tag {
            return Err(polynomials.cursor.error("a key in the list of another secret key"));
        }
        keys.push(one_key(&mut polynomials, entry, tag)?);
        match entries.next(&mut polynomials.cursor)? {
            Some(next) => (entry, tag) = next,
            None => break,
        }
    }
    end_of(&polynomials.cursor)?;
    let to_sparse = |key: &EvaluationKeyBytes| key.galois_element == Some(to_sparse_element(key.ring_dim));
    if entries.tag.is_none()
        && let Some(tag) = keys.iter().find(|key| !to_sparse(key)).map(|key| key.key_tag.clone())
    {
        keys.iter_mut().filter(|key| to_sparse(key)).for_each(|key| key.key_tag.clone_from(&tag));
    }
    Ok(keys)
}

/// The number of the key to the ephemeral sparse secret in OpenFHE's maps: even, as no automorphism is.
pub fn to_sparse_element(ring_dim: usize) -> u32 {
    2 * ring_dim as u32 - 4
}

/// The number of the key from the ephemeral sparse secret back.
pub fn to_dense_element(ring_dim: usize) -> u32 {
    2 * ring_dim as u32 - 2
}

/// Nothing follows the last key: a count that is too small would lose the rest.
fn end_of<I: Input + ?Sized>(cursor: &Cursor<'_, I>) -> Result<(), Error> {
    match cursor.input.bytes() - cursor.at {
        0 => Ok(()),
        left => Err(cursor.error(format!("{left} bytes behind the last key"))),
    }
}

/// The key of a file that holds one.
///
/// # Errors
/// [`Error::Bytes`] where the bytes do not follow the layout, or hold several keys.
pub fn parse_evaluation_key<I: Input + ?Sized>(input: &I) -> Result<EvaluationKeyBytes, Error> {
    let mut keys = parse_evaluation_keys(input)?;
    match (keys.pop(), keys.len()) {
        (Some(key), 0) => Ok(key),
        (_, others) => Err(Error::Bytes {
            object: OBJECT,
            offset: 0,
            what: format!("{} keys, where one was expected", others + 1),
        }),
    }
}

fn one_key<I: Input + ?Sized>(
    polynomials: &mut Polynomials<'_, I>,
    entry: Entry,
    key_tag: Option<String>,
) -> Result<EvaluationKeyBytes, Error> {
    let mut parts = polynomials.list()?;
    let dnum = parts.len();
    let b = polynomials.list()?;
    if b.len() != dnum {
        return Err(polynomials.cursor.error(format!("{dnum} polynomials in part a, {} in part b", b.len())));
    }
    parts.extend(b);
    let moduli: Vec<u64> = parts[0].iter().map(|row| row.modulus).collect();
    if parts.iter().any(|part| !part.iter().map(|row| row.modulus).eq(moduli.iter().copied())) {
        return Err(polynomials.cursor.error("the digits of a key differ in their moduli"));
    }
    Ok(EvaluationKeyBytes {
        ring_dim: polynomials.ring_dim,
        moduli,
        dnum,
        galois_element: entry.galois_element,
        secret_power: entry.secret_power,
        key_tag,
        rows: parts.into_iter().flatten().collect(),
    })
}
