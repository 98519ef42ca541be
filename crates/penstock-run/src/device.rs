//! The holder of values, which does the work.

use penstock_ckks as ckks;

use crate::program::{Form, Task};

/// A device holds values in its own memory and performs tasks on them. Several threads call it.
///
/// It never sees `mult_over_scale`, which is a `mult_scalar` by then. Only ciphertexts cross to the host and back, as
/// [`ckks::Ciphertext::words`] and [`ckks::Context::ciphertext_from_rows`]. A panic ends the run.
pub trait Device: Sync {
    /// A ciphertext, digits, or a ciphertext over Q and P.
    type Value: Send + Sync;
    /// An encoded vector.
    type Vector: Send + Sync;

    /// Tables of the parameters, for encoding, and the threads of the host.
    fn host(&self) -> &ckks::Context;

    /// The result of an `input`.
    ///
    /// # Errors
    /// The memory is full.
    fn import(&self, task: &Task, ciphertext: ckks::Ciphertext) -> Result<Self::Value, ckks::Error>;

    /// The operand of an `output`, for the host.
    ///
    /// # Errors
    /// Another value; no memory.
    fn export(&self, task: &Task, value: &Self::Value) -> Result<ckks::Ciphertext, ckks::Error>;

    /// The second half of an encoding, which takes the threads: vectors of one form, at least one.
    ///
    /// # Errors
    /// The memory is full.
    fn encode(&self, form: Form, coefficients: Vec<ckks::Coefficients>) -> Result<Vec<Self::Vector>, ckks::Error>;

    /// Bytes of an encoded vector.
    fn vector_bytes(&self, vector: &Self::Vector) -> u64;

    /// The results of a task that is neither an input nor an output.
    ///
    /// # Errors
    /// The operation takes other operands.
    fn perform(
        &self,
        task: &Task,
        operands: &[&Self::Value],
        key: Option<&dyn ckks::KeyView>,
        vectors: &[&Self::Vector],
    ) -> Result<Vec<Self::Value>, ckks::Error>;

    /// The scale of a ciphertext.
    ///
    /// # Errors
    /// Another value.
    fn scale(&self, value: &Self::Value) -> Result<f64, ckks::Error>;

    /// Bytes of a value, the same from its making to [`Device::free`]: at most those of the program's `value_bytes`.
    fn bytes(&self, value: &Self::Value) -> u64;

    /// Gives the memory of a value back: of every value, after its last use or at the end of a run that failed or panicked.
    fn free(&self, value: Self::Value);
}
