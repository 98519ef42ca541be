//! The part of OpenFHE 1.6's BINARY format (cereal, little-endian) that holds polynomials.
//!
//! Everything before the first polynomial (the crypto context) is skipped: its end is found by the shape of what
//! follows. From there on every byte is accounted for:
//!
//! ```text
//! polynomials  u64 count, then each:
//!   polynomial u64 limbs, then each limb, then i32 format, pointer -> RNS parameters
//!   limb       u32 0x40000000, u8 1, u64 N, N words of u64, u64 modulus, i32 format, pointer -> limb parameters
//!   pointer    u32 0x40000000, u32 id; a set top bit of the id says that the object itself follows
//! ```
//!
//! The first polynomial, limb and row of a file carry a class version (u32 0) besides. A row is not 8-byte aligned.

use std::borrow::Cow;
use std::ops::Range;

use super::input::Input;
use crate::error::Error;

/// "Not polymorphic", in front of every pointer.
pub(super) const PLAIN_POINTER: u32 = 0x4000_0000;
/// Set in an id where the object follows.
pub(super) const NEW_OBJECT: u32 = 0x8000_0000;
/// From the count of polynomials to the first word: u64, u32, u64, u32, u32, u8, u32, u64.
pub(super) const HEAD_BYTES: usize = 8 + 4 + 8 + 4 + 4 + 1 + 4 + 8;
/// The crypto context in front of the first polynomial is about 1 kB; more than this is not searched.
const SEARCHED_BYTES: usize = 1 << 20;
const MAX_LIMBS: u64 = 1 << 10;
const MAX_POLYNOMIALS: u64 = 1 << 10;

/// The place of one limb's words, and their modulus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSpan {
    /// Bytes of the N words in the input (little-endian u64, any alignment).
    pub bytes: Range<usize>,
    /// The modulus that every word must be below.
    pub modulus: u64,
}

/// A position in untrusted bytes: every read is checked.
pub(super) struct Cursor<'a, I: ?Sized> {
    pub input: &'a I,
    pub at: usize,
    pub object: &'static str,
}

impl<'a, I: Input + ?Sized> Cursor<'a, I> {
    pub fn error(&self, what: impl Into<String>) -> Error {
        Error::Bytes { object: self.object, offset: self.at, what: what.into() }
    }

    pub fn take(&mut self, count: usize) -> Result<Cow<'a, [u8]>, Error> {
        let range = self.skip(count)?;
        self.input.read(range)
    }

    /// Passes over bytes that are there, and need not be looked at.
    pub fn skip(&mut self, count: usize) -> Result<Range<usize>, Error> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.input.bytes());
        let end = end.ok_or_else(|| self.error(format!("the input ends where {count} bytes were expected")))?;
        Ok(std::mem::replace(&mut self.at, end)..end)
    }

    fn word<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Error> {
        let mut word = [0; BYTES];
        word.copy_from_slice(&self.take(BYTES)?);
        Ok(word)
    }

    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.word()?))
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.word()?))
    }

    pub fn f64(&mut self) -> Result<f64, Error> {
        Ok(f64::from_bits(self.u64()?))
    }

    pub fn expect_u32(&mut self, value: u32, what: &str) -> Result<(), Error> {
        let at = self.at;
        let got = self.u32()?;
        if got == value {
            return Ok(());
        }
        self.at = at;
        Err(self.error(format!("{what} should be {value:#x}, is {got:#x}")))
    }

    fn count(&mut self, most: u64, what: &str) -> Result<usize, Error> {
        let at = self.at;
        let got = self.u64()?;
        if (1..=most).contains(&got) {
            return Ok(got as usize); // `most` fits a usize
        }
        self.at = at;
        Err(self.error(format!("{got} {what}, where 1 to {most} are possible")))
    }
}

/// The polynomials of one file.
pub(super) struct Polynomials<'a, I: ?Sized> {
    pub cursor: Cursor<'a, I>,
    /// Words of a row.
    pub ring_dim: usize,
    /// Where the count of the first list of polynomials stands.
    pub start: usize,
    seen_polynomial: bool,
    seen_limb: bool,
}

impl<'a, I: Input + ?Sized> Polynomials<'a, I> {
    /// Finds the first list of polynomials by its shape.
    pub fn find(input: &'a I, object: &'static str) -> Result<Self, Error> {
        let bytes = input.read(0..input.bytes().min(SEARCHED_BYTES + HEAD_BYTES))?;
        let last = bytes.len().saturating_sub(HEAD_BYTES);
        let found = (0..=last).find_map(|start| ring_dim_at(bytes.get(start..start + HEAD_BYTES)?).map(|n| (start, n)));
        let mut cursor = Cursor { input, at: 0, object };
        let (start, ring_dim) = found.ok_or_else(|| cursor.error("no polynomial in evaluation order was found"))?;
        cursor.at = start;
        Ok(Self { cursor, ring_dim, start, seen_polynomial: false, seen_limb: false })
    }

    /// Finds the first polynomial of an object that holds one, without a list.
    pub fn find_single(input: &'a I, object: &'static str) -> Result<Self, Error> {
        let bytes = input.read(0..input.bytes().min(SEARCHED_BYTES + HEAD_BYTES))?;
        // As the head of a list without its count.
        let head = |start: usize| -> Option<usize> {
            let one = [&1u64.to_le_bytes()[..], bytes.get(start..start + HEAD_BYTES - 8)?].concat();
            ring_dim_at(&one)
        };
        let last = (bytes.len() + 8).saturating_sub(HEAD_BYTES);
        let found = (0..=last).find_map(|start| head(start).map(|n| (start, n)));
        let mut cursor = Cursor { input, at: 0, object };
        let (start, ring_dim) = found.ok_or_else(|| cursor.error("no polynomial in evaluation order was found"))?;
        cursor.at = start;
        Ok(Self { cursor, ring_dim, start, seen_polynomial: false, seen_limb: false })
    }

    /// A list of polynomials: the rows of each.
    pub fn list(&mut self) -> Result<Vec<Vec<RowSpan>>, Error> {
        let count = self.cursor.count(MAX_POLYNOMIALS, "polynomials")?;
        (0..count).map(|_| self.polynomial()).collect()
    }

    /// One polynomial: its rows.
    pub fn polynomial(&mut self) -> Result<Vec<RowSpan>, Error> {
        if !std::mem::replace(&mut self.seen_polynomial, true) {
            self.cursor.expect_u32(0, "the version of a polynomial")?;
        }
        let limbs = self.cursor.count(MAX_LIMBS, "limbs")?;
        let rows = (0..limbs).map(|_| self.limb()).collect::<Result<_, _>>()?;
        self.format()?;
        if self.pointer()? {
            self.rns_parameters()?;
        }
        Ok(rows)
    }

    fn limb(&mut self) -> Result<RowSpan, Error> {
        let first = !std::mem::replace(&mut self.seen_limb, true);
        if first {
            self.cursor.expect_u32(0, "the version of a limb")?;
        }
        self.cursor.expect_u32(PLAIN_POINTER, "the mark of a row")?;
        if self.cursor.u8()? != 1 {
            return Err(self.cursor.error("a limb without a row"));
        }
        if first {
            self.cursor.expect_u32(0, "the version of a row")?;
        }
        let words = self.cursor.u64()?;
        if words != self.ring_dim as u64 {
            return Err(self.cursor.error(format!("a row of {words} words among rows of {}", self.ring_dim)));
        }
        let bytes = self.cursor.skip(8 * self.ring_dim)?;
        let modulus = self.cursor.u64()?;
        if modulus >> 61 != 0 || modulus % (2 * words) != 1 {
            return Err(self.cursor.error(format!("{modulus} is no modulus of N = {words}")));
        }
        self.format()?;
        if self.pointer()? {
            self.limb_parameters()?;
        }
        Ok(RowSpan { bytes, modulus })
    }

    fn format(&mut self) -> Result<(), Error> {
        self.cursor.expect_u32(0, "the format (0 is evaluation order)")
    }

    /// Whether the object follows.
    fn pointer(&mut self) -> Result<bool, Error> {
        self.cursor.expect_u32(PLAIN_POINTER, "the mark of a pointer")?;
        Ok(self.cursor.u32()? & NEW_OBJECT != 0)
    }

    fn limb_parameters(&mut self) -> Result<(), Error> {
        self.orders()?;
        self.cursor.skip(4 * 8).map(|_| ()) // modulus, root, and two words that are 0
    }

    fn rns_parameters(&mut self) -> Result<(), Error> {
        self.orders()?;
        for _ in 0..4 {
            let words = self.cursor.count(MAX_LIMBS, "words of a big number")?;
            self.cursor.skip(8 * words + 4)?;
        }
        for _ in 0..self.cursor.count(MAX_LIMBS, "limb parameters")? {
            if self.pointer()? {
                self.limb_parameters()?;
            }
        }
        Ok(())
    }

    fn orders(&mut self) -> Result<(), Error> {
        let ring_dim = self.ring_dim as u32; // at most 2^20
        self.cursor.expect_u32(2 * ring_dim, "the cyclotomic order")?;
        self.cursor.expect_u32(ring_dim, "the ring dimension")
    }
}

/// The ring dimension, if these bytes look like the head of a list of polynomials.
fn ring_dim_at(head: &[u8]) -> Option<usize> {
    let mut cursor = Cursor { input: head, at: 0, object: "" };
    // Most places fail here, and the rest of them is not looked at.
    cursor.u64().ok().filter(|polynomials| (1..=MAX_POLYNOMIALS).contains(polynomials))?;
    let version = cursor.u32().ok()?;
    let limbs = cursor.u64().ok()?;
    let rest = (cursor.u32().ok()?, cursor.u32().ok()?, cursor.u8().ok()?, cursor.u32().ok()?);
    let words = cursor.u64().ok()?;
    let plausible = (1..=MAX_LIMBS).contains(&limbs)
        && version == 0
        && rest == (0, PLAIN_POINTER, 1, 0)
        && words.is_power_of_two()
        && (16..=1 << 20).contains(&words);
    plausible.then_some(words as usize)
}

/// The 32-character key tag that stands right before the polynomials, if there is one.
pub(super) fn key_tag<I: Input + ?Sized>(input: &I, start: usize) -> Option<String> {
    let field = input.read(start.checked_sub(40)?..start).ok()?;
    let (length, tag) = field.split_at(8);
    if length != 32u64.to_le_bytes() || !tag.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    std::str::from_utf8(tag).ok().map(str::to_owned)
}
