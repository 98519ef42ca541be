//! The place of serialized bytes: in memory, or in a file too large for it.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::Error;

/// Serialized bytes. Parsing reads a few bytes at a time and passes over the rows, so that an input need not be in
/// memory.
pub trait Input {
    /// Their number.
    fn bytes(&self) -> usize;

    /// Those in `range`.
    ///
    /// # Errors
    /// [`Error::Bytes`]: they are not all there. [`Error::System`]: they cannot be read.
    fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>, Error>;
}

impl Input for [u8] {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>, Error> {
        let offset = range.start;
        let what = || format!("{} bytes were asked for, and the input has {}", range.len(), self.len());
        let bytes = self.get(range.clone()).ok_or_else(|| Error::Bytes { object: "input", offset, what: what() })?;
        Ok(Cow::Borrowed(bytes))
    }
}
