//! Writing a key as a segment: checksums first, then header and rows in one pass.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::backend::{Backend, LocalFolder, Reader};
use crate::buffer::Row;
use crate::header::{Header, identity_seed, row_checksum};
use crate::keyfile::KeyFile;
use crate::shape::ALIGNMENT;
use crate::{Digest, Error, Form, KeyId, KeyName, Result, Shape, Tenant};

/// Where the words of a key come from.
pub trait KeyContent {
    /// The shape of whole keys of these parameters, of truncated keys too; or the key's own ([`Shape::for_key`]).
    fn shape(&self) -> &Shape;

    /// The library's name of the secret key behind this key; empty if it has none.
    fn secret_tag(&self) -> &str;

    /// The rows that the key has, and the seed of part A if one stands for it.
    fn form(&self) -> Form {
        Form::full(self.shape())
    }

    /// Writes the words of one row, in the numbering of [`Shape::row`] of the key's own shape, into `words`, which has N of them. Asked only for
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
    /// `Source`: a word is not below its modulus. `WrongKey`, `Value`: name, tag, shape or form do not fit the content.
    pub fn new(name: KeyName, content: &'a dyn KeyContent) -> Result<Self> {
        let (shape, form) = (content.shape().for_key(name.key)?, content.form());
        name.key.check(shape.ring_dim())?;
        form.check(&shape)?;
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
        let layout = form.layout();
        let mut buffer = Row::new(shape.row_bytes())?;
        let mut row_checksums = Vec::with_capacity(layout.num_rows(&shape));
        for row in layout.rows(&shape) {
            let words = &mut buffer.words_mut()[..shape.ring_dim()];
            if layout.stored(&shape, row).is_some() {
                content.fill(row, words)?;
                check_words(&name, &shape, row, words)?;
            } else {
                form.expand(&shape, row, words);
            }
            row_checksums.push(row_checksum(seed, row, cast_slice(words)));
        }
        let header = Header { name, secret_tag: content.secret_tag().to_owned(), shape, form, row_checksums };
        Ok(Self { header, content })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the segment.
    pub fn bytes(&self) -> u64 {
        Header::segment_bytes(&self.header.shape, self.header.layout())
    }

    /// The same key as one of another pair of its tenant. No checksum of a row changes.
    pub(crate) fn of_pair(mut self, pair: u32) -> Self {
        self.header.name.pair = pair;
        self
    }

    /// Writes the segment.
    ///
    /// # Errors
    /// Errors of `out`; errors of the content on its second reading, with kind `Other`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.header.encode())?;
        let (shape, layout) = (&self.header.shape, self.header.layout());
        let mut buffer = Row::new(shape.row_bytes()).map_err(io::Error::other)?;
        for row in layout.rows(shape).filter(|&row| layout.stored(shape, row).is_some()) {
            let words = &mut buffer.words_mut()[..shape.ring_dim()];
            self.content.fill(row, words).map_err(io::Error::other)?;
            if !self.header.is_row(row, cast_slice(words)) {
                return Err(io::Error::other("the key changed while it was imported; import it again"));
            }
            out.write_all(&buffer.bytes()[..shape.row_stride()])?;
        }
        Ok(())
    }
}

fn check_words(name: &KeyName, shape: &Shape, row: usize, words: &[u64]) -> Result<()> {
    let modulus = shape.modulus(row);
    let Some(at) = words.iter().position(|&word| word >= modulus) else { return Ok(()) };
    Err(Error::Source(format!(
        "{name}: word {at} of {} is {}, not below its modulus {modulus}: this is not a key of these parameters",
        shape.describe(row),
        words[at]
    )))
}

/// Writes a key as a separate segment file, for [`crate::Store::import_segment`] of a store elsewhere. The file appears
/// whole, or not at all. Returns its bytes.
///
/// # Errors
/// Those of [`Checked::new`]; `Io`: the file cannot be written.
pub fn write_segment(path: impl AsRef<Path>, tenant: &Tenant, key: KeyId, content: &dyn KeyContent) -> Result<u64> {
    let path = path.as_ref();
    let name = KeyName::new(tenant.clone(), content.shape().digest(), key);
    let checked = Checked::new(name, content)?;
    let no_name = || Error::io(path, "write", io::ErrorKind::InvalidInput.into());
    let file = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_name)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = LocalFolder::new(folder, Reader::Pread, false)?;
    folder.put(file, checked.bytes(), &mut |out| checked.write(out))?;
    Ok(checked.bytes())
}

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

    /// Whether the file at `path` begins as segments do.
    pub fn is_segment(path: impl AsRef<Path>) -> bool {
        let start = File::open(path).and_then(|mut file| {
            let mut start = [0; 8];
            io::Read::read_exact(&mut file, &mut start).map(|()| start)
        });
        start.is_ok_and(|start| Header::begins(&start))
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
            return Err(Error::Source(format!(
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
        Err(self.damaged(row))
    }

    fn damaged(&self, row: usize) -> Error {
        Error::DamagedRow { path: self.path.clone(), row, place: self.header.describe(row) }
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

    fn fill(&self, row: usize, words: &mut [u64]) -> Result<()> {
        let stored = self.header.layout().stored(&self.header.shape, row).ok_or_else(|| self.damaged(row))?;
        self.file.read_into(self.header.stored_offset(stored), cast_slice_mut(words))?;
        if self.header.is_row(row, cast_slice(words)) { Ok(()) } else { Err(self.damaged(row)) }
    }
}
