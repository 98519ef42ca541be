//! Writing a key as a segment: checksums first, then header and rows in one pass.

use std::io::{self, Write};

use bytemuck::cast_slice;

use crate::buffer::Row;
use crate::header::{Header, identity_seed, row_checksum};
use crate::{Error, Form, KeyName, Result, Shape};

/// Where the words of a key come from.
pub trait KeyContent {
    fn shape(&self) -> &Shape;

    /// The library's name of the secret key behind this key; empty if it has none.
    fn secret_tag(&self) -> &str;

    /// The rows that the key has, and the seed of part A if one stands for it.
    fn form(&self) -> Form {
        Form::full(self.shape())
    }

    /// Writes the words of one row, in the numbering of [`Shape::row`], into `words`, which has N of them. Asked only for
    /// rows that the segment stores.
    ///
    /// # Errors
    /// `Source`: the row cannot be read.
    fn fill(&self, row: usize, words: &mut [u64]) -> Result<()>;
}

/// A key that was read once: each word is below its modulus, each row has its checksum.
pub struct Checked<'a> {
    header: Header,
    content: &'a dyn KeyContent,
}

impl<'a> Checked<'a> {
    /// Reads `content` once, as the key `name`.
    ///
    /// # Errors
    /// `Source`: a word is not below its modulus. `WrongKey`, `Value`: name, tag or shape do not fit the content.
    pub fn new(name: KeyName, content: &'a dyn KeyContent) -> Result<Self> {
        let shape = content.shape().clone();
        name.key.check(shape.ring_dim())?;
        Header::check_tag(content.secret_tag())?;
        if shape.digest() != name.digest {
            return Err(Error::WrongKey {
                path: name.to_string(),
                field: "digest of parameters",
                found: shape.digest().to_string(),
                expected: name.digest.to_string(),
            });
        }
        let seed = identity_seed(&name, content.secret_tag());
        let mut buffer = Row::new(shape.row_bytes())?;
        let mut row_checksums = Vec::with_capacity(shape.num_rows());
        for row in 0..shape.num_rows() {
            let words = &mut buffer.words_mut()[..shape.ring_dim()];
            content.fill(row, words)?;
            let modulus = shape.modulus(row);
            if let Some(at) = words.iter().position(|&word| word >= modulus) {
                return Err(Error::Source(format!(
                    "{name}: word {at} of {} is {}, not below its modulus {modulus}: this is not a key of these parameters",
                    shape.describe(row),
                    words[at]
                )));
            }
            row_checksums.push(row_checksum(seed, row, cast_slice(words)));
        }
        let header = Header { name, secret_tag: content.secret_tag().to_owned(), shape, row_checksums };
        Ok(Self { header, content })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the segment.
    pub fn bytes(&self) -> u64 {
        Header::segment_bytes(&self.header.shape)
    }

    /// Writes the segment.
    ///
    /// # Errors
    /// Errors of `out`; errors of the content on its second reading, with kind `Other`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.header.encode())?;
        let shape = &self.header.shape;
        let mut buffer = Row::new(shape.row_bytes()).map_err(io::Error::other)?;
        for row in 0..shape.num_rows() {
            let words = &mut buffer.words_mut()[..shape.ring_dim()];
            self.content.fill(row, words).map_err(io::Error::other)?;
            if self.header.row_checksum(row, cast_slice(words)) != self.header.row_checksums[row] {
                return Err(io::Error::other("the key changed while it was imported; import it again"));
            }
            out.write_all(&buffer.bytes()[..shape.row_stride()])?;
        }
        Ok(())
    }
}
