//! Segment files that were written elsewhere.

use std::fs::File;
use std::path::Path;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::keyfile::KeyFile;
use crate::{ALIGNMENT, Digest, Error, Form, Header, KeyContent, Result, SegmentError, Shape, Tenant};

/// A segment file that came from elsewhere, as content of an import: each row is held against its checksum when it is
/// read.
pub struct SegmentFile {
    header: Header,
    file: KeyFile,
    path: String,
}

impl SegmentFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// `Io`; `Damaged`, `NewerVersion`: it does not begin with a whole header, or has another length than that says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let (file, path) = (KeyFile::open(&path)?, path.as_ref().display().to_string());
        let found = file.len();
        let short = || Error::damaged(&path, format!("it has {found} bytes, less than its header"));
        let start = |bytes: usize| if found < bytes { Err(short()) } else { file.read_at(0, bytes) };
        let length = Header::length(&path, &start(ALIGNMENT)?)?;
        let header = Header::decode(&path, &start(length)?)?;
        let expected = Header::segment_bytes(&header.shape, header.layout());
        if found as u64 != expected {
            return Err(Error::damaged(&path, format!("it has {found} bytes, its header says {expected}")));
        }
        Ok(Self { header, file, path })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file, if it is byte for byte what an import under this header would write.
    pub(crate) fn same_as(&self, header: &Header) -> Option<(&File, &Path)> {
        let encoded = header.encode();
        let is_same = self.file.read_at(0, encoded.len()).is_ok_and(|own| own == encoded);
        is_same.then(|| self.file.file())
    }

    /// # Errors
    /// `Source`: it is not a key of this tenant. `OtherParameters`.
    pub(crate) fn check_owner(&self, tenant: Option<&Tenant>, digest: Option<Digest>) -> Result<()> {
        let name = &self.header.name;
        if let Some(expected) = tenant.filter(|expected| **expected != name.tenant) {
            return Err(Error::of_source(format!(
                "{}: it holds {name}, and tenant '{expected}' was named: a segment is bound to its tenant; import it for \
                 that one, or make it for '{expected}'",
                self.path
            )));
        }
        match digest.filter(|expected| *expected != name.digest) {
            Some(expected) => {
                Err(Error::OtherParameters { found: name.digest.to_string(), expected: expected.to_string() })
            }
            None => Ok(()),
        }
    }

    /// # Errors
    /// `DamagedRow`: an expanded row is another than when the file was written: its seed was changed.
    pub(crate) fn check_rows(&self, checked: &Header) -> Result<()> {
        let mut pairs = self.header.row_checksums.iter().zip(&checked.row_checksums);
        let Some(number) = pairs.position(|(own, found)| own != found) else { return Ok(()) };
        let row = self.header.layout().rows(&self.header.shape).nth(number).unwrap_or(0);
        Err(self.damaged(row).into())
    }

    fn damaged(&self, row: usize) -> SegmentError {
        SegmentError::DamagedRow { path: self.path.clone(), row, place: self.header.describe(row) }
    }
}

impl KeyContent for SegmentFile {
    fn shape(&self) -> &Shape {
        &self.header.shape
    }

    fn secret_tag(&self) -> &str {
        &self.header.secret_tag
    }

    fn form(&self) -> Form {
        self.header.form
    }

    fn fill(&self, row: usize, words: &mut [u64]) -> Result<(), SegmentError> {
        let stored = self.header.layout().stored(&self.header.shape, row).ok_or_else(|| self.damaged(row))?;
        self.file.read_into(self.header.stored_offset(stored), cast_slice_mut(words))?;
        if self.header.is_row(row, cast_slice(words)) { Ok(()) } else { Err(self.damaged(row)) }
    }
}
