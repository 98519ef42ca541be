//! Evaluation keys as the evaluator sees them: rows that somebody else owns.

use std::ops::Range;
use std::sync::Arc;

use crate::buffer::{Arena, Words};
use crate::context::Context;
use crate::error::Error;
use crate::openfhe_bytes::{self, Part};

/// The rows of one evaluation key, wherever they are.
///
/// A key source may hold only the rows in use (`Context::rows_in_use`). A row is the words of one limb, canonical, in
/// OpenFHE's order; 64-byte alignment makes it faster, none is needed.
pub trait KeyView: Send + Sync {
    /// The words of a row, or `None` where it is not loaded. `limb` counts the moduli of Q, then of P.
    fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]>;
}

impl dyn KeyView + '_ {
    /// A row of `n` words, which a key switch cannot do without.
    pub(crate) fn words(&self, part: Part, digit: usize, limb: usize, n: usize) -> Result<&[u64], Error> {
        let row = self.row(part, digit, limb).filter(|row| row.len() == n);
        row.ok_or(Error::KeyRow { part: part.name(), digit, limb })
    }
}

/// A key in memory: all of its rows, or those that operations at up to so many limbs read.
#[derive(Debug)]
pub struct KeyRows {
    pub(crate) ring_dim: usize,
    pub(crate) limbs: usize,
    /// The numbers of the limbs whose rows lie behind those of the first `limbs`: P's.
    pub(crate) p: Range<usize>,
    pub(crate) digits: usize,
    pub(crate) words: Words,
}

impl KeyRows {
    /// Copies the rows of a serialized key, and checks every word against its modulus.
    ///
    /// # Errors
    /// [`Error::Bytes`] or [`Error::Word`]: the bytes are not a key.
    pub fn from_openfhe(bytes: &[u8], arena: &Arc<Arena>) -> Result<Self, Error> {
        Self::from_spans(bytes, &openfhe_bytes::parse_evaluation_key(bytes)?, arena)
    }

    /// The same, for a key of a map that was parsed already.
    ///
    /// # Errors
    /// [`Error::Bytes`] or [`Error::Word`]: the bytes are not a key.
    pub fn from_spans(
        bytes: &[u8],
        key: &openfhe_bytes::EvaluationKeyBytes,
        arena: &Arc<Arena>,
    ) -> Result<Self, Error> {
        let (limbs, n) = (key.moduli.len(), key.ring_dim);
        let mut words = arena.words(2 * key.dnum * limbs * n)?;
        let mut rows = words.chunks_exact_mut(n);
        for part in Part::BOTH {
            for digit in 0..key.dnum {
                for limb in 0..limbs {
                    if let (Some(span), Some(row)) = (key.row(part, digit, limb), rows.next()) {
                        openfhe_bytes::read_row(bytes, span, limb, row)?;
                    }
                }
            }
        }
        Ok(Self { ring_dim: n, limbs, p: limbs..limbs, digits: key.dnum, words })
    }
}

impl Context {
    /// Copies a serialized key, and checks that it is one for this context's parameters: a key to the sparse secret is
    /// known by its moduli.
    ///
    /// # Errors
    /// [`Error::Bytes`] or [`Error::Word`]: the bytes are not a key; [`Error::Operand`]: a key for other
    /// parameters.
    pub fn import_key(&self, bytes: &[u8], key: &openfhe_bytes::EvaluationKeyBytes) -> Result<KeyRows, Error> {
        let own = self.parameters();
        let moduli = own.moduli_q.iter().chain(&own.moduli_p);
        let fits = key.dnum == own.dnum && key.moduli.iter().eq(moduli) || self.is_to_sparse(key);
        if key.ring_dim != own.ring_dim || !fits {
            return Err(Error::Operand {
                operation: "import",
                what: format!("a key of N = {}, {} moduli and {} digits", key.ring_dim, key.moduli.len(), key.dnum),
                rule: "its parameters are not the context's: import it with the parameters it was made with",
            });
        }
        KeyRows::from_spans(bytes, key, self.arena())
    }

    fn is_to_sparse(&self, key: &openfhe_bytes::EvaluationKeyBytes) -> bool {
        let mut own = self.parameters().moduli_q.iter().chain(&self.parameters().moduli_p);
        let first_of_q_only = key.moduli.first() == own.next() && key.moduli.get(1) != own.next();
        first_of_q_only && key.dnum == 1 && self.to_sparse_moduli().is_ok_and(|moduli| moduli == key.moduli)
    }
}

impl KeyView for KeyRows {
    fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]> {
        let place = match limb {
            limb if limb < self.limbs => limb,
            limb if self.p.contains(&limb) => self.limbs + limb - self.p.start,
            _ => return None,
        };
        if digit >= self.digits {
            return None;
        }
        let at = ((part as usize * self.digits + digit) * (self.limbs + self.p.len()) + place) * self.ring_dim;
        self.words.get(at..at + self.ring_dim)
    }
}
