//! The sequence of the keys in one file.
//!
//! ```text
//! file      u8 1, then one of:
//!   key        the key
//!   map        pointer, u64 count, of each: u32 Galois element, key
//!   contexts   u64 secret keys, of each: u64 32, its tag, then
//!                automorphisms: a map
//!                products:      u64 count, of each: key (for the square of the secret, its cube, …)
//! key       u32 class (0x80000001 and its name the first time, then 1), u32 id, …
//! ```

use super::grammar::{Cursor, NEW_OBJECT, PLAIN_POINTER, key_tag};
use super::input::Input;
use crate::error::Error;

/// What messages call the object of these bytes.
pub(super) const OBJECT: &str = "evaluation key";
const CLASS: &[u8] = b"lbcrypto::EvalKeyRelinImpl<lbcrypto::DCRTPoly>";
const TAG_BYTES: usize = 32;
/// The power of the secret key that the first of a list of multiplication keys is for.
const SQUARE: u32 = 2;

/// A key's purpose as its file states it; nothing if the file is that key alone.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    pub galois_element: Option<u32>,
    pub secret_power: Option<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum List {
    Automorphisms,
    Products,
}

/// The keys that are still to come.
pub(super) struct Entries {
    list: Option<List>,
    keys_left: u64,
    secrets_left: u64,
    next_power: u32,
    last_element: Option<u32>,
    /// The tag of the secret key whose list this is, where the file has several lists.
    pub tag: Option<String>,
}

impl Entries {
    /// Reads up to the class of the first key.
    pub fn open<I: Input + ?Sized>(input: &I) -> Result<(Self, Entry), Error> {
        let mut cursor = Cursor { input, at: 0, object: OBJECT };
        if cursor.u8()? != 1 {
            return Err(cursor.error("the input is not little-endian binary"));
        }
        let mut entries =
            Self { list: None, keys_left: 0, secrets_left: 0, next_power: SQUARE, last_element: None, tag: None };
        let (start, first) = (cursor.at, cursor.u32()?);
        cursor.at = start;
        if first & NEW_OBJECT == 0 {
            entries.secrets_left = cursor.u64()?;
            entries.secret(&mut cursor)?;
        } else if !begins_with_a_class(&mut cursor)? {
            cursor.at = start;
            entries.list(&mut cursor, List::Automorphisms)?;
        } else {
            return Ok((entries, Entry::default()));
        }
        let entry = entries.entry(&mut cursor)?;
        if !begins_with_a_class(&mut cursor)? {
            return Err(cursor.error("not a key of hybrid key switching"));
        }
        Ok((entries, entry))
    }

    /// The purpose of the next key, and the tag of its secret key; the cursor stays at its polynomials.
    pub fn next<I: Input + ?Sized>(
        &mut self,
        cursor: &mut Cursor<'_, I>,
    ) -> Result<Option<(Entry, Option<String>)>, Error> {
        if self.keys_left == 0 {
            if self.secrets_left == 0 {
                return Ok(None);
            }
            self.secret(cursor)?;
        }
        let entry = self.entry(cursor)?;
        cursor.expect_u32(1, "the class of the next key")?;
        if cursor.u32()? & NEW_OBJECT == 0 {
            return Err(cursor.error("the same key twice"));
        }
        cursor.expect_u32(PLAIN_POINTER, "the mark of the context")?;
        if cursor.u32()? & NEW_OBJECT != 0 {
            return Err(cursor.error("keys of another crypto context: serialize those of one context at a time"));
        }
        if cursor.u64()? != TAG_BYTES as u64 {
            return Err(cursor.error("no key tag"));
        }
        cursor.skip(TAG_BYTES)?;
        Ok(Some((entry, key_tag(cursor.input, cursor.at))))
    }

    /// The beginning of the list of one secret key's keys.
    fn secret<I: Input + ?Sized>(&mut self, cursor: &mut Cursor<'_, I>) -> Result<(), Error> {
        let what = "a context without keys";
        self.secrets_left = self.secrets_left.checked_sub(1).ok_or_else(|| cursor.error(what))?;
        if cursor.u64()? != TAG_BYTES as u64 {
            return Err(cursor.error("no key tag"));
        }
        cursor.skip(TAG_BYTES)?;
        self.tag = key_tag(cursor.input, cursor.at);
        if self.tag.is_none() {
            return Err(cursor.error("the tag of a secret key is 32 hexadecimal digits"));
        }
        let (start, first) = (cursor.at, cursor.u32()?);
        cursor.at = start;
        self.list(cursor, if first & NEW_OBJECT == 0 { List::Products } else { List::Automorphisms })
    }

    fn list<I: Input + ?Sized>(&mut self, cursor: &mut Cursor<'_, I>, list: List) -> Result<(), Error> {
        if self.list.replace(list).is_some_and(|before| before != list) {
            return Err(cursor.error("keys of automorphisms and of products in one file"));
        }
        if list == List::Automorphisms && cursor.u32()? & NEW_OBJECT == 0 {
            return Err(cursor.error("the same map twice"));
        }
        self.next_power = SQUARE;
        self.last_element = None;
        self.keys_left = cursor.u64()?;
        if self.keys_left == 0 { Err(cursor.error("a map without keys")) } else { Ok(()) }
    }

    fn entry<I: Input + ?Sized>(&mut self, cursor: &mut Cursor<'_, I>) -> Result<Entry, Error> {
        self.keys_left -= 1; // `list` and `next` have seen that there is one
        match self.list {
            Some(List::Automorphisms) => {
                let element = cursor.u32()?;
                // OpenFHE's maps are in order, and have one key for each.
                match self.last_element.replace(element).filter(|last| *last >= element) {
                    Some(last) => Err(cursor.error(format!("the key of automorphism {element} behind that of {last}"))),
                    None => Ok(Entry { galois_element: Some(element), secret_power: None }),
                }
            }
            _ => {
                let power = self.next_power;
                self.next_power = power.saturating_add(1);
                Ok(Entry { galois_element: None, secret_power: Some(power) })
            }
        }
    }
}

/// Whether a named class of evaluation keys begins here.
fn begins_with_a_class<I: Input + ?Sized>(cursor: &mut Cursor<'_, I>) -> Result<bool, Error> {
    cursor.expect_u32(NEW_OBJECT | 1, "the id of the first object")?;
    Ok(cursor.u64()? == CLASS.len() as u64 && cursor.take(CLASS.len()).is_ok_and(|name| *name == *CLASS))
}
