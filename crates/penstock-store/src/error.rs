use std::path::{Path, PathBuf};

use penstock_segment::Error as SegmentError;
use rusqlite::ErrorCode;
use thiserror::Error;

/// Why a key was not imported, found or handed out. Each message says what, where, the rule and the remedy.
#[derive(Debug, Error)]
pub enum Error {
    /// A name, a key or its segment is refused, or the file system.
    #[error(transparent)]
    Segment(#[from] SegmentError),

    /// A use of a truncated key above its rows.
    #[error(
        "{key} has the rows of a key switch at up to {has} limbs, and {limbs} were asked for: a truncated key is used at its \
         limbs or below; make it anew for {limbs} limbs or more, and import it"
    )]
    AboveRows { key: String, has: usize, limbs: usize },

    /// A key that no file of OpenFHE's can hold.
    #[error("{key} is not exported: {why}")]
    NotExported { key: String, why: String },

    /// An import whose key belongs to somebody else, by the tag that the library gave its secret key.
    #[error("the key comes from the secret key with tag {found}, {rule}")]
    WrongSecret { found: String, rule: String },

    /// A key for a use whose ciphertexts are of another key pair.
    #[error(
        "key {key} of tenant '{tenant}' was made from another secret key than the ciphertexts: import the keys of that \
         key pair, or encrypt again"
    )]
    OtherSecret { tenant: String, key: String },

    /// The store has no such key.
    #[error(
        "tenant '{tenant}' has no key {key} for parameters {digest}{held}; \
         import it: penstock keys import --tenant {tenant} --params SET --key {key} FILE"
    )]
    Missing { tenant: String, key: String, digest: String, held: String },

    /// The folder of the store, or a file of it, may not be written to.
    #[error(
        "{path}: this store is read-only here ({why}): its keys are listed, verified and read; to import or remove some, \
         use a store that you may write to"
    )]
    ReadOnly { path: PathBuf, why: String },

    /// A read ended before the bytes that were asked for.
    #[error("{path}: {got} of {wanted} bytes at offset {offset}: the file is cut short; import the key again")]
    ShortRead { path: String, offset: u64, wanted: usize, got: usize },

    /// The index cannot be read or written.
    #[error("the index {path}: {source}; {}", index_remedy(source))]
    Index {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },

    /// A store or cache of the parent, in a child that a fork made.
    #[error(
        "{what} was opened before a fork, and its threads, locks and connections are the parent's: open it again in this \
         process"
    )]
    Forked { what: String },

    /// The key was imported again while rows of it were read.
    #[error("{key} was imported again while it was read: try again")]
    Replaced { key: String },

    /// The data needed in memory at once does not fit.
    #[error("{key} at {limbs} limbs needs {needed} bytes, and {rule}")]
    Budget { key: String, limbs: usize, needed: u64, rule: String },

    /// A key to import is for another set of parameters than was named.
    #[error("the key is for parameters {found}, not for those named, {expected}: name the set it was generated with")]
    OtherParameters { found: String, expected: String },

    /// The bytes to import are not a key from OpenFHE.
    #[error(transparent)]
    OpenFhe(#[from] penstock_ckks::Error),
}

impl Error {
    pub(crate) fn value(what: impl Into<String>, value: impl ToString, rule: &'static str) -> Self {
        SegmentError::value(what, value, rule).into()
    }

    pub(crate) fn shape(what: impl Into<String>) -> Self {
        SegmentError::shape(what).into()
    }

    pub(crate) fn damaged(path: &str, what: impl Into<String>) -> Self {
        SegmentError::damaged(path, what).into()
    }

    pub(crate) fn of_source(what: impl Into<String>) -> Self {
        SegmentError::Source(what.into()).into()
    }

    /// `source` with the remedy that suits it.
    pub fn io(path: impl AsRef<Path>, doing: &'static str, source: std::io::Error) -> Self {
        SegmentError::io(path, doing, source).into()
    }

    /// Whether the file itself is at fault, so that another import of the key heals it.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Segment(error) => error.is_damage(),
            error => matches!(error, Error::ShortRead { .. }),
        }
    }
}

fn index_remedy(source: &rusqlite::Error) -> &'static str {
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full; free some space, or use a store on another disk",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another process is writing it; try again",
        _ => "it is built again from the segments when the file is moved away",
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
