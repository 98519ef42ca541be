use std::path::Path;

use thiserror::Error;

/// Why a name, a key or its segment is refused. Each message says what, where, the rule and the remedy.
#[derive(Debug, Error)]
pub enum Error {
    /// A name or number of the caller breaks a rule.
    #[error("{what} is {value}: {rule}")]
    Value { what: String, value: String, rule: &'static str },

    /// The key's dimensions or moduli are none that hybrid key switching over this ring can have.
    #[error("the shape of a key: {what}")]
    Shape { what: String },

    /// A segment file is not a whole segment: truncated, overwritten, of another format.
    #[error("{path}: {what}; import the key again, or remove the file with 'penstock keys gc'")]
    Damaged { path: String, what: String },

    /// A segment that a later program wrote.
    #[error(
        "{path}: {what} is {version}, this program reads up to {read}: the key is not used; read it with the program \
         that wrote it, or import the key again"
    )]
    NewerVersion { path: String, what: &'static str, version: u64, read: u64 },

    /// One row of a segment differs from its checksum.
    #[error("{path}: row {row} ({place}) differs from its checksum: the key is not used; import it again")]
    DamagedRow { path: String, row: usize, place: String },

    /// The segment is whole, and holds something else than it was asked for.
    #[error(
        "{path}: its {field} is {found}, {expected} was asked for: the key is not used; import it again, or see what \
         'penstock keys gc --dry-run' says of the file"
    )]
    WrongKey { path: String, field: &'static str, found: String, expected: String },

    /// The file system or the object store refused.
    #[error("cannot {doing} {path}: {what}")]
    Io {
        path: String,
        doing: &'static str,
        what: String,
        #[source]
        source: std::io::Error,
    },

    /// The source of a key breaks a rule of its format.
    #[error("{0}")]
    Source(String),
}

impl Error {
    pub fn value(what: impl Into<String>, value: impl ToString, rule: &'static str) -> Self {
        Error::Value { what: what.into(), value: value.to_string(), rule }
    }

    pub fn shape(what: impl Into<String>) -> Self {
        Error::Shape { what: what.into() }
    }

    pub fn damaged(path: &str, what: impl Into<String>) -> Self {
        Error::Damaged { path: path.into(), what: what.into() }
    }

    /// `source` with the remedy that suits it.
    pub fn io(path: impl AsRef<Path>, doing: &'static str, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{
            FileTooLarge, NotFound, OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
            WouldBlock,
        };
        let what = match source.kind() {
            StorageFull | QuotaExceeded => "the disk is full; free some space, or use a store on another disk".into(),
            FileTooLarge => "the file is larger than this process may write; raise the limit with 'ulimit -f'".into(),
            NotFound => "it does not exist; check the path, or import the key again".into(),
            PermissionDenied => "permission denied; use a folder that you own, or change its permissions".into(),
            ReadOnlyFilesystem => "the file system is read-only; use a folder on a writable one".into(),
            OutOfMemory => "out of memory; free some, raise the limit ('ulimit -v'), or take a smaller budget".into(),
            WouldBlock => format!("{source}; free some memory, or raise the limits ('ulimit -v', 'ulimit -u')"),
            _ => source.to_string(),
        };
        Error::Io { path: path.as_ref().display().to_string(), doing, what, source }
    }

    /// Whether the file itself is at fault, so that another import of the key heals it.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. } | Error::DamagedRow { .. } | Error::NewerVersion { .. } | Error::WrongKey { .. }
        )
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
