//! Where segments lie: a local folder, or any object store.

mod local;
#[cfg(feature = "object-store")]
mod object;
mod pread;
#[cfg(feature = "s3")]
mod s3;
#[cfg(target_os = "linux")]
mod uring;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::Result;
use crate::buffer::Row;

pub use local::{LocalFolder, Reader};
#[cfg(feature = "object-store")]
pub use object::ObjectBackend;

/// A file of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Below the store's root, with `/` between the parts.
    pub path: String,
    pub bytes: u64,
}

/// A run of neighbouring bytes and the buffers that they are read into, one after the other.
pub struct Piece {
    pub offset: u64,
    pub rows: Vec<Row>,
    /// What the caller knows the piece by: the number of its first row.
    pub first_row: usize,
}

impl Piece {
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.bytes().len()).sum()
    }
}

/// The action on a piece after its arrival. An error ends the reading.
pub type Done<'a> = &'a mut dyn FnMut(Piece) -> Result<()>;

/// An open segment.
pub trait Source: Send + Sync {
    /// Bytes of the file when it was opened.
    fn bytes(&self) -> u64;

    /// Reads every piece, whole, and hands each to `done`, in any order, while others are still being read.
    ///
    /// # Errors
    /// `Io` or `ShortRead`, of the first piece that fails; nothing is read any more when it returns.
    fn read(&self, pieces: Vec<Piece>, done: Done<'_>) -> Result<()>;
}

/// What writes the content of a file.
pub type Fill<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// A place for files whose names appear only when they are whole. Used by several threads at once.
pub trait Backend: Send + Sync {
    /// The place, for messages.
    fn describe(&self) -> String;

    /// Every file under its final name, in order.
    fn list(&self) -> Result<Vec<Listed>>;

    /// Bytes of one file; `None` where there is none.
    fn size(&self, path: &str) -> Result<Option<u64>>;

    fn open(&self, path: &str) -> Result<Box<dyn Source>>;

    /// Writes a file of `bytes` bytes; a file of this name is replaced. After any failure, the name holds its old
    /// content.
    fn put(&self, path: &str, bytes: u64, fill: Fill<'_>) -> Result<()>;

    /// Gives the regular file `source` the name `path`, too, without a copy; a file of this name is replaced. `false`:
    /// this place cannot, and nothing has changed.
    fn adopt(&self, source: &File, from: &Path, path: &str) -> Result<bool> {
        let _ = (source, from, path);
        Ok(false)
    }

    /// Removes a file; nothing where there is none.
    fn remove(&self, path: &str) -> Result<()>;

    /// Unfinished files that a killed process left behind.
    fn leftovers(&self) -> Result<Vec<Listed>> {
        Ok(vec![])
    }

    /// A note to the user about the way of reading files: fallbacks with their reasons.
    fn notes(&self) -> Vec<String> {
        vec![]
    }
}
