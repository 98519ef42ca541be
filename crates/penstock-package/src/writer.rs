//! Writing a package: constants as they come, then the tables. The file has no place in a folder until its caller
//! renames it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::constant::Constant;
use crate::error::{Error, Fault, Result};
use crate::frame::{Footer, HEADER_BYTES, header, sha256};
use crate::limits;
use crate::rules;
use crate::tables::{Entry, Kind, Tables};
use crate::tables_bytes;

const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// Tables to write. The writer adds the index of constants.
pub type Content = Tables;

/// A package that is being written. A writer that is dropped leaves a file that no reader opens.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    offset: u64,
    entries: Vec<Entry>,
    /// Digest of a vector -> its number.
    known: HashMap<[u8; 32], u32>,
}

impl Writer {
    /// Begins a package at `path`; a file that is there is emptied.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let opened = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = opened.map_err(|error| Error::io(&path, "write", error))?;
        let mut file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
        file.write_all(&header()).map_err(|error| Error::io(&path, "write", error))?;
        Ok(Self { path, file, offset: HEADER_BYTES as u64, entries: Vec::new(), known: HashMap::new() })
    }

    /// Constants so far.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The index entry of a constant.
    pub fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number as usize)
    }

    /// Writes a constant, and gives its number; the same vector has the same number.
    ///
    /// # Errors
    /// [`Error::Refused`]: a value that is not finite, too many values or constants. [`Error::Io`].
    pub fn add(&mut self, constant: &Constant) -> Result<u32> {
        let number = self.entries.len() as u32;
        let place = format!("constant {number}");
        constant.check(&place).map_err(Error::Refused)?;
        let most = if constant.kind() == Kind::Coefficients { limits::MAX_RING_DIM } else { limits::MAX_VALUES };
        if constant.len() > most as usize {
            let what = format!("{} values", constant.len());
            return Err(Error::Refused(Fault::new(
                place,
                what,
                "constants have at most 2^17 values, or 2^18 coefficients",
            )));
        }
        let identity = constant.identity();
        if let Some(known) = self.known.get(&identity) {
            return Ok(*known);
        }
        if number >= limits::MAX_CONSTANTS {
            return Err(Error::Refused(Fault::new(place, "one too many", "packages have at most 10^6 constants")));
        }
        let (bytes, form) = constant.write();
        self.write(&bytes)?;
        self.entries.push(Entry {
            offset: self.offset,
            bytes: bytes.len() as u32,
            values: constant.len() as u32,
            kind: constant.kind(),
            form,
            digest: sha256(&[&bytes]),
        });
        self.offset += bytes.len() as u64;
        self.known.insert(identity, number);
        Ok(number)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io(&self.path, "write", error))
    }

    /// Reads back a constant that was added.
    ///
    /// # Errors
    /// [`Error::NoConstant`], [`Error::Io`]; [`Error::Rule`], [`Error::Damaged`]: somebody changed the file.
    pub fn constant(&mut self, number: u32) -> Result<Constant> {
        let Some(entry) = self.entries.get(number as usize).copied() else {
            let path = self.path.display().to_string();
            return Err(Error::NoConstant { path, number, constants: self.entries.len() });
        };
        self.file.flush().map_err(|error| Error::io(&self.path, "write", error))?;
        let mut bytes = vec![0; entry.bytes as usize];
        let read = self.file.get_ref().read_exact_at(&mut bytes, entry.offset);
        read.map_err(|error| Error::io(&self.path, "read", error))?;
        if sha256(&[&bytes]) != entry.digest {
            return Err(Error::damaged(&self.path, format!("constant {number} differs from its digest")));
        }
        Constant::read(&bytes, &entry).map_err(|fault| Error::rule(&self.path, fault.of_constant(number)))
    }

    /// Checks and writes the tables; the whole file is on the disk after it. Gives its bytes.
    ///
    /// # Errors
    /// [`Error::Refused`]: the content breaks a rule of the format. [`Error::Io`].
    pub fn finish(mut self, content: Content) -> Result<u64> {
        let tables = Tables { constants: std::mem::take(&mut self.entries), ..content };
        rules::check(&tables, HEADER_BYTES as u64, self.offset).map_err(Error::Refused)?;
        let bytes = tables_bytes::write(&tables).map_err(Error::Refused)?;
        let footer = Footer { offset: self.offset, length: bytes.len() as u64, digest: sha256(&[&bytes]) }.write();
        self.write(&bytes)?;
        self.write(&footer)?;
        let io = |error| Error::io(&self.path, "write", error);
        let file = self.file.into_inner().map_err(|error| io(error.into_error()))?;
        file.sync_all().map_err(io)?;
        Ok(self.offset + (bytes.len() + footer.len()) as u64)
    }
}
