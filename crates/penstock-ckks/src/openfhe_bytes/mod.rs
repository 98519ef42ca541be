//! OpenFHE 1.6's serialized ciphertexts and keys (`BINARY`), read and written without OpenFHE.
//!
//! Input is untrusted: every length is checked before it is used, nothing panics, and work is linear in the input.
//! Parsing finds where rows are; [`read_row`] copies one and checks every word against its modulus, so that rows can
//! go straight from a file's buffer to where they will stay.

mod archive;
mod ciphertext;
mod entries;
mod grammar;
mod input;
mod key;
mod objects;

pub use archive::{Archive, ContextDescription, SecretDistribution};
pub use ciphertext::{CiphertextBytes, CiphertextWriter, Stated, parse_ciphertext};
pub use grammar::RowSpan;
pub use input::Input;
pub use key::{
    EvaluationKeyBytes, Part, parse_evaluation_key, parse_evaluation_keys, to_dense_element, to_sparse_element,
};
pub use objects::{
    EvaluationKeyWriter, KeyFileLayout, KeyObject, ObjectBytes, check_tag, parse_key_object, write_key_object,
};

use crate::error::Error;

/// Copies the words of `span` out of `input` and checks each against the modulus. `limb` only names the row in errors.
///
/// # Errors
/// [`Error::Word`]: a word is not below the modulus. [`Error::Bytes`]: the span is not of these bytes, or `row` is not
/// as long as it. [`Error::System`]: the input cannot be read.
pub fn read_row<I: Input + ?Sized>(input: &I, span: &RowSpan, limb: usize, row: &mut [u64]) -> Result<(), Error> {
    if span.bytes.len() != 8 * row.len() {
        return Err(Error::Bytes {
            object: "row",
            offset: span.bytes.start,
            what: format!("{} words were asked for, from {} bytes", row.len(), span.bytes.len()),
        });
    }
    bytemuck::cast_slice_mut(row).copy_from_slice(&input.read(span.bytes.clone())?);
    let mut above = false;
    for word in row.iter_mut() {
        *word = u64::from_le(*word);
        above |= *word >= span.modulus;
    }
    if !above {
        return Ok(());
    }
    let index = row.iter().position(|word| *word >= span.modulus).unwrap_or_default();
    Err(Error::Word { limb, index, word: row[index], modulus: span.modulus })
}
