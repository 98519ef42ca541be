use std::fmt;
use std::path::Path;

use thiserror::Error;

/// What breaks a rule, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// For example `instruction 17 (rotate_hoisted)`.
    pub place: String,
    pub what: String,
    pub rule: &'static str,
}

impl Fault {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>, rule: &'static str) -> Self {
        Self { place: place.into(), what: what.into(), rule }
    }

    /// The same fault inside a constant.
    pub(crate) fn of_constant(mut self, number: u32) -> Self {
        self.place = if self.place.is_empty() {
            format!("constant {number}")
        } else {
            format!("constant {number}, {}", self.place)
        };
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.what, self.rule)
    }
}

/// Why a package was not read or written. Each message says what, where, the rule and the remedy.
#[derive(Debug, Error)]
pub enum Error {
    /// The file is not a whole package: of another format, cut short, changed.
    #[error("{path}: {what}: the package is not used; copy it again, or make it again")]
    Damaged { path: String, what: String },

    /// A file that a later program wrote.
    #[error("{path}: its format is version {version}, this program reads versions up to {read}: upgrade penstock")]
    NewerVersion { path: String, version: u32, read: u32 },

    /// The content of a file breaks a rule of the format.
    #[error("{path}: {fault}: the package is not used; make it again")]
    Rule { path: String, fault: Fault },

    /// A constant that the package does not have.
    #[error("{path}: it has {constants} constants, and number {number} was asked for: numbers start at 0")]
    NoConstant { path: String, number: u32, constants: usize },

    /// The content to write breaks a rule of the format.
    #[error("the package is not written: {0}")]
    Refused(Fault),

    /// The file system refused.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        path: String,
        doing: &'static str,
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Error::Damaged { path: path.display().to_string(), what: what.into() }
    }

    pub(crate) fn rule(path: &Path, fault: Fault) -> Self {
        Error::Rule { path: path.display().to_string(), fault }
    }

    pub(crate) fn io(path: &Path, doing: &'static str, source: std::io::Error) -> Self {
        Error::Io { path: path.display().to_string(), doing, source }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
