//! A file of serialized keys, read row by row: an import holds one row of it in memory, however long it is.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use penstock_ckks::Error as CkksError;
use penstock_ckks::openfhe_bytes::Input;

use crate::{Error, Result, SegmentError};

/// An open file.
pub struct KeyFile {
    file: File,
    path: PathBuf,
    bytes: usize,
}

impl KeyFile {
    /// # Errors
    /// `Io`: it cannot be opened, or is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| Error::io(path, "read", error);
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(failed(std::io::Error::other("it is not a regular file; write the keys to one")));
        }
        let bytes = usize::try_from(found.len()).map_err(|error| failed(std::io::Error::other(error)))?;
        Ok(Self { file, path: path.to_owned(), bytes })
    }

    pub(crate) fn file(&self) -> (&File, &Path) {
        (&self.file, &self.path)
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// `bytes` bytes at `offset`; the caller has held both against the file's length.
    pub(crate) fn read_at(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.read_into(offset, &mut read)?;
        Ok(read)
    }

    pub(crate) fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Result<(), SegmentError> {
        self.file.read_exact_at(bytes, offset).map_err(|error| SegmentError::io(&self.path, "read", error))
    }
}

impl Input for KeyFile {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn read(&self, range: Range<usize>) -> std::result::Result<Cow<'_, [u8]>, CkksError> {
        // Before anything is allocated by the numbers of the file.
        if range.end > self.bytes || range.start > range.end {
            let what = format!("bytes up to {} were asked for, and the file has {}", range.end, self.bytes);
            return Err(CkksError::Bytes { object: "file", offset: range.start, what });
        }
        let mut bytes = vec![0; range.len()];
        self.file.read_exact_at(&mut bytes, range.start as u64).map_err(|error| CkksError::System {
            what: "reading the keys",
            why: format!("{}: {error}", self.path.display()),
        })?;
        Ok(Cow::Owned(bytes))
    }
}
