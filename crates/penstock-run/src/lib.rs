//! Runs a whole program on ciphertexts. The program is known from its first task to its last one, so that a value is
//! freed after its last use, a constant is encoded before its use and kept for the next one where that fits, and tasks
//! that do not depend on each other run side by side.
//!
//! [`Program`] is the tasks in an order that respects their operands; [`run`] executes it on a [`Device`] with evaluation
//! keys, vectors and inputs from a [`Supply`]. The caller decides how: from a disk, say.

mod cpu;
mod device;
mod encoded;
mod error;
mod lanes;
mod program;
mod recording;
#[cfg(test)]
mod tests;

pub use cpu::{Cpu, Encoded, Operand, Value};
pub use device::Device;
pub use error::Error;
pub use lanes::{Counts, Options, Outcome, TaskTime, run};
pub use program::{Form, Program, Task, Vector};
pub use recording::{Buffer, Recording};

use std::sync::Arc;

use penstock_ckks as ckks;

/// The source of keys, vectors and inputs of a run. Called from several threads.
pub trait Supply: Sync {
    /// What can go wrong.
    type Error: From<ckks::Error> + From<Error> + Send;

    /// The rows of a key for a key switch at so many limbs, which stay until the result is dropped. Keys are asked for in
    /// the order of the tasks, unless [`Options::keys_in_order`] is false.
    ///
    /// # Errors
    /// The supply's.
    fn key(&self, key: u32, limbs: usize) -> Result<Arc<dyn ckks::KeyView>, Self::Error>;

    /// A vector that the program encodes: as many values as slots, a power of two.
    ///
    /// # Errors
    /// The supply's.
    fn vector(&self, number: u32) -> Result<Vec<ckks::Complex>, Self::Error>;

    /// An encrypted input; each is asked for once.
    ///
    /// # Errors
    /// The supply's.
    fn input(&self, number: u32) -> Result<ckks::Ciphertext, Self::Error>;

    /// A result. Each comes once.
    ///
    /// # Errors
    /// The supply's.
    fn output(&self, number: u32, result: ckks::Ciphertext) -> Result<(), Self::Error>;
}
