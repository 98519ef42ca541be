//! What can go wrong on the side of the key's owner.

use std::path::PathBuf;

/// An error of this crate. None holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The evaluator's crate refused: parameters, bytes, an operand.
    #[error(transparent)]
    Ring(#[from] penstock_ckks::Error),
    /// The format of stored keys refused.
    #[error(transparent)]
    Segment(#[from] penstock_segment::Error),
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes ({0}): no key is made without them")]
    Random(String),
    /// A file could not be read or written.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        why: std::io::Error,
    },
    /// A file is not a whole key.
    #[error("{path}: {what}: nothing is made from it; put the right file back")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where it differs.
        what: String,
    },
    /// A file of a later version of this format.
    #[error("{path}: it is of version {found}, and this program reads {known}: take a newer penstock")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// A key of other parameters, or of another pair.
    #[error("{path}: {field} is {found}, not {expected}: it belongs to other parameters or to another key pair")]
    Other {
        /// The file.
        path: PathBuf,
        /// What differs.
        field: &'static str,
        /// In the file.
        found: String,
        /// Asked for.
        expected: String,
    },
    /// A sealed file without its passphrase.
    #[error("{0}: it is sealed: give its passphrase")]
    Sealed(PathBuf),
    /// A passphrase that does not open the file.
    #[error("{0}: the passphrase is wrong, or the file was changed: nothing is read from it")]
    Passphrase(PathBuf),
    /// A secret key in a child of a fork.
    #[error(
        "the secret key was made before a fork, and stays with the process that made it: load the pair again in this \
         process, or use it there"
    )]
    Forked,
    /// A secret file that others may read or change.
    #[error(
        "{path}: others may read or change it (mode {mode:04o}), so that it is no secret: find out who did, then 'chmod \
         600' it; if somebody may have read it, make a new pair"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// An argument that is not possible.
    #[error("{what}: {rule}")]
    Value {
        /// The argument.
        what: String,
        /// What is accepted.
        rule: String,
    },
    /// A header that its program or its parameters do not give a result.
    #[error(
        "a ciphertext states {what} {found}, where {whose} {expected}: nothing is decrypted, since an evaluator that \
         states something else gets at the secret key; ask for the result of that program and set again"
    )]
    Header {
        /// The part of the header.
        what: &'static str,
        /// In the ciphertext.
        found: String,
        /// Whose word counts: "its program states" or "the parameter set has".
        whose: &'static str,
        /// That word.
        expected: String,
    },
    /// A result that is noise, or larger than a message.
    #[error(
        "decryption failed at {limbs} limbs: coefficients of the result have more than the {bits:.0} bits that a \
         decryption reads, at a scale of 2^{scale_bits:.0}; the values outgrew the modulus or the noise drowned them: scale the data down, or take a set \
         with a wider first modulus"
    )]
    Drowned {
        /// Limbs of the ciphertext.
        limbs: usize,
        /// log2 of the largest integer that is read.
        bits: f64,
        /// log2 of the scale.
        scale_bits: f64,
    },
    /// Values with imaginary parts that no error has.
    #[error(
        "decryption failed at {limbs} limbs: the imaginary parts of the values, {imaginary:.2e} (rms) beside real parts of \
         {real:.2e}, are too large to be error, and this decryption returns real values; the values are complex, they \
         outgrew the modulus, or the noise drowned them: decrypt complex values with their imaginary parts \
         ('--complex', decrypt_complex); else scale the data down, or take a set with a wider first modulus"
    )]
    Imaginary {
        /// Limbs of the ciphertext.
        limbs: usize,
        /// Root of the mean square of the imaginary parts.
        imaginary: f64,
        /// The same of the real parts.
        real: f64,
    },
}

impl Error {
    /// An impossible argument.
    pub(crate) fn value(what: impl Into<String>, rule: impl Into<String>) -> Self {
        Error::Value { what: what.into(), rule: rule.into() }
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
