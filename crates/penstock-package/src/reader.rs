//! Reading a package: the tables at once, each constant when it is used.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use penstock_ckks::SlotTables;

use crate::constant::{Coefficients, Constant};
use crate::embedding::slot_values;
use crate::error::{Error, Fault, Result};
use crate::frame::{FOOTER_BYTES, Footer, HEADER_BYTES, VERSION, header, sha256, version};
use crate::rules;
use crate::tables::{Entry, Tables};
use crate::tables_bytes::{self, HEAD_BYTES, Head};

/// A package whose tables were read and checked. Several threads may read constants at the same time.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: File,
    tables: Tables,
    file_bytes: u64,
    embedding: OnceLock<SlotTables>,
}

impl Reader {
    /// Opens a package. Reads and checks all of it but its constants.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NewerVersion`], [`Error::Rule`]: it cannot be used. [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |source| Error::io(path, "read", source);
        let described = std::fs::metadata(path).map_err(io)?;
        // A folder fails where it is read, with the system's words; a pipe would wait for its other end.
        if !described.is_file() && !described.is_dir() {
            return Err(Error::damaged(path, "it is not an ordinary file"));
        }
        let file = File::open(path).map_err(io)?;
        let file_bytes = file.metadata().map_err(io)?.len();
        let footer = read_frame(&file, path, file_bytes)?;
        let tables = read_tables(&file, path, &footer)?;
        rules::check(&tables, HEADER_BYTES as u64, footer.offset).map_err(|fault| Error::rule(path, fault))?;
        Ok(Self { path: path.to_owned(), file, tables, file_bytes, embedding: OnceLock::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Everything but the constants' bytes.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    fn entry(&self, number: u32) -> Result<&Entry> {
        self.tables.constants.get(number as usize).ok_or_else(|| Error::NoConstant {
            path: self.path.display().to_string(),
            number,
            constants: self.tables.constants.len(),
        })
    }

    /// The stored bytes of a constant, checked against their digest.
    ///
    /// # Errors
    /// [`Error::NoConstant`]; [`Error::Damaged`]: they have changed; [`Error::Io`].
    pub fn constant_bytes(&self, number: u32) -> Result<Vec<u8>> {
        let entry = self.entry(number)?;
        let bytes = read_at(&self.file, &self.path, entry.offset, entry.bytes as usize)?;
        if sha256(&[&bytes]) != entry.digest {
            return Err(Error::damaged(&self.path, format!("constant {number} differs from its digest")));
        }
        Ok(bytes)
    }

    /// Reads a constant.
    ///
    /// # Errors
    /// Those of [`Reader::constant_bytes`]; [`Error::Rule`]: the bytes are not a constant.
    pub fn constant(&self, number: u32) -> Result<Constant> {
        let bytes = self.constant_bytes(number)?;
        Constant::read(&bytes, self.entry(number)?).map_err(|fault| self.fault(number, fault))
    }

    /// The values of a constant, real and imaginary parts, without the zeros at their end. Of coefficients: the values
    /// in all slots, at least as many as the program has.
    ///
    /// # Errors
    /// Those of [`Reader::constant`].
    pub fn constant_values(&self, number: u32) -> Result<Vec<[f64; 2]>> {
        Ok(match self.constant(number)? {
            Constant::Real(values) => values.into_iter().map(|value| [value, 0.0]).collect(),
            Constant::Complex(values) => values,
            Constant::Coefficients(coefficients) => self.embedded(number, &coefficients)?,
        })
    }

    /// The values in the slots of coefficients that were read from constant `number`.
    ///
    /// # Errors
    /// [`Error::Rule`]: they overflow.
    pub fn embedded(&self, number: u32, coefficients: &Coefficients) -> Result<Vec<[f64; 2]>> {
        let tables = self.embedding.get_or_init(|| SlotTables::new(self.tables.ring_dim as usize));
        slot_values(tables, coefficients, self.tables.slots as usize).map_err(|fault| self.fault(number, fault))
    }

    fn fault(&self, number: u32, fault: Fault) -> Error {
        Error::rule(&self.path, fault.of_constant(number))
    }
}

fn read_at(file: &File, path: &Path, offset: u64, count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(Error::damaged(path, format!("it ends before byte {}", offset + count as u64)))
        }
        Err(error) => Err(Error::io(path, "read", error)),
    }
}

/// Checks beginning and end of a file.
fn read_frame(file: &File, path: &Path, file_bytes: u64) -> Result<Footer> {
    let mut begin = [0; HEADER_BYTES];
    if file_bytes >= HEADER_BYTES as u64 {
        begin.copy_from_slice(&read_at(file, path, 0, HEADER_BYTES)?);
    }
    match version(&begin) {
        None => return Err(Error::damaged(path, "it does not begin as a program package does")),
        Some(version) if version > VERSION => {
            let path = path.display().to_string();
            return Err(Error::NewerVersion { path, version, read: VERSION });
        }
        Some(_) if begin != header() => return Err(Error::damaged(path, "its header is not that of a version")),
        Some(_) => {}
    }
    let cut_short = || Error::damaged(path, "it does not end as a program package does");
    let rest = file_bytes.checked_sub((HEADER_BYTES + FOOTER_BYTES) as u64).ok_or_else(cut_short)?;
    let mut end = [0; FOOTER_BYTES];
    end.copy_from_slice(&read_at(file, path, file_bytes - FOOTER_BYTES as u64, FOOTER_BYTES)?);
    let footer = Footer::read(&end).ok_or_else(cut_short)?;
    let constants = footer.offset.checked_sub(HEADER_BYTES as u64);
    if constants.and_then(|constants| constants.checked_add(footer.length)) != Some(rest) {
        let what = format!("its tables are {} bytes at offset {}", footer.length, footer.offset);
        return Err(Error::damaged(path, format!("{what}, and it has {file_bytes} bytes")));
    }
    Ok(footer)
}

/// Reads tables once their counts agree with their length.
fn read_tables(file: &File, path: &Path, footer: &Footer) -> Result<Tables> {
    let rule = |fault| Error::rule(path, fault);
    if footer.length < HEAD_BYTES as u64 {
        return Err(Error::damaged(path, format!("its tables have {} bytes", footer.length)));
    }
    let head = Head::read(&read_at(file, path, footer.offset, HEAD_BYTES)?).map_err(rule)?;
    if head.tables_bytes() != footer.length {
        let what = format!("its tables have {} bytes, and by their counts {}", footer.length, head.tables_bytes());
        return Err(Error::damaged(path, what));
    }
    let bytes = read_at(file, path, footer.offset, footer.length as usize)?;
    if sha256(&[&bytes]) != footer.digest {
        return Err(Error::damaged(path, "its tables differ from their digest"));
    }
    // Its own head, in case the file was changed between the two reads.
    let head = Head::read(&bytes).map_err(rule)?;
    tables_bytes::read(&head, &bytes).map_err(rule)
}
