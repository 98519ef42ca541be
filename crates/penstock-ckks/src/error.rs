//! What can go wrong, in one place: what, where, the rule, the remedy.

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Serialized bytes do not follow OpenFHE's layout.
    #[error("byte {offset}: {what}; these are not the bytes of an OpenFHE 1.6 {object} (binary format)")]
    Bytes {
        /// The object being read: `ciphertext`, `evaluation key`.
        object: &'static str,
        /// Where in the input.
        offset: usize,
        /// What was found.
        what: String,
    },
    /// A coefficient is not below its modulus.
    #[error("word {index} of limb {limb} is {word}, not below its modulus {modulus}: the bytes are damaged or foreign")]
    Word {
        /// Limb of the row.
        limb: usize,
        /// Position in the row.
        index: usize,
        /// The word.
        word: u64,
        /// The modulus that it must be below.
        modulus: u64,
    },
    /// Parameters that this crate cannot compute with.
    #[error("{what}: {rule}")]
    Parameters {
        /// The parameter and its value.
        what: String,
        /// What is accepted.
        rule: &'static str,
    },
    /// An operand does not belong to this context, or not to this operation.
    #[error("{operation}: {what}; {rule}")]
    Operand {
        /// The operation that was asked for.
        operation: &'static str,
        /// The fault of the operand.
        what: String,
        /// The accepted values, or the remedy.
        rule: &'static str,
    },
    /// Nothing is left to rescale or to drop.
    #[error(
        "{operation}: needs {needed} limbs, the ciphertext has {limbs}: the program is deeper than the parameters; \
         refresh the ciphertext or take parameters with more limbs"
    )]
    Depth {
        /// The operation that was asked for.
        operation: &'static str,
        /// Limbs of the ciphertext.
        limbs: usize,
        /// Limbs that it takes.
        needed: usize,
    },
    /// A row of a key is not there.
    #[error("the {part} row of digit {digit}, limb {limb} is not loaded: ask the key source for the rows in use")]
    KeyRow {
        /// `a` or `b`.
        part: &'static str,
        /// Digit of the decomposition.
        digit: usize,
        /// Limb: of Q, then of P.
        limb: usize,
    },
    /// A kernel path that this machine does not have.
    #[error("kernel path '{asked}': {rule}")]
    Cpu {
        /// The path that was asked for.
        asked: String,
        /// What is there.
        rule: String,
    },
    /// The system refused memory or threads.
    #[error("{what}: {why}")]
    System {
        /// The request.
        what: &'static str,
        /// The system's answer.
        why: String,
    },
}
