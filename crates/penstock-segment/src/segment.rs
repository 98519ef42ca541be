//! Writing a key as a segment: checksums first, then header and rows in one pass.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use bytemuck::cast_slice;

use crate::header::{Header, identity_seed, row_checksum};
use crate::shape::WORD_BYTES;
use crate::{Error, Form, KeyId, KeyName, Result, Shape, Tenant, whole};

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
        let mut buffer = row_buffer(&shape)?;
        let mut row_checksums = Vec::with_capacity(layout.num_rows(&shape));
        for row in layout.rows(&shape) {
            let words = &mut buffer[..shape.ring_dim()];
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
    pub fn of_pair(mut self, pair: u32) -> Self {
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
        let mut buffer = row_buffer(shape).map_err(io::Error::other)?;
        for row in layout.rows(shape).filter(|&row| layout.stored(shape, row).is_some()) {
            let words = &mut buffer[..shape.ring_dim()];
            self.content.fill(row, words).map_err(io::Error::other)?;
            if !self.header.is_row(row, cast_slice(words)) {
                return Err(io::Error::other("the key changed while it was imported; import it again"));
            }
            out.write_all(cast_slice(&buffer))?;
        }
        Ok(())
    }
}

/// A row with its padding, zeros at first.
fn row_buffer(shape: &Shape) -> Result<Vec<u64>> {
    let (mut buffer, words) = (vec![], shape.row_stride() / WORD_BYTES);
    let no_memory = |_| Error::io("memory for rows", "take", io::ErrorKind::OutOfMemory.into());
    buffer.try_reserve_exact(words).map_err(no_memory)?;
    buffer.resize(words, 0);
    Ok(buffer)
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

/// Writes a key as a separate segment file, which a store elsewhere imports. The file appears whole, or not at all.
/// Returns its bytes.
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
    fs::create_dir_all(folder).map_err(|error| Error::io(folder, "make the folder", error))?;
    let opened = File::open(folder).map_err(|error| Error::io(folder, "open", error))?;
    whole::put(opened.as_fd(), file, checked.bytes(), |out| checked.write(out))
        .map_err(|error| Error::io(folder.join(file), "write", error))?;
    Ok(checked.bytes())
}
