//! RNS-CKKS evaluation on raw limbs, word for word as OpenFHE 1.6.1 does it. No secret key ever enters this crate:
//! OpenFHE generates keys, encrypts and decrypts. The crate sees only ciphertexts, plaintexts and evaluation keys.
//!
//! [`Context`] evaluates; [`openfhe_bytes`] reads and writes OpenFHE's serialized objects; [`kernels`] are the inner
//! loops for AVX-512, AVX2 and any other processor. The order of operations that makes the words equal is in
//! `docs/guides/native.md`.

mod automorphism;
mod auxiliary;
pub mod buffer;
mod cipher;
mod constants;
mod context;
mod encapsulated;
mod encode;
pub mod error;
mod extended;
pub mod kernels;
mod keys;
mod keyswitch;
mod levels;
pub mod modulus;
pub mod openfhe_bytes;
mod process;
mod products;
mod raise;
mod rows;
mod scalars;
mod scaling;
mod seeded;
mod slots;
mod small;
mod sums;
#[cfg(test)]
mod tests;
mod transfer;
mod workers;

/// The page of this crate: its example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/native.md")]
struct NativePage;

pub use automorphism::{Automorphism, rotation_galois_element};
pub use auxiliary::auxiliary_moduli;
pub use cipher::{Ciphertext, Plaintext};
pub use context::{Context, Machine, Parameters};
pub use encode::Coefficients;
pub use error::Error;
pub use extended::{ExtendedCiphertext, ExtendedPlaintext, WeightedTerms};
pub use keys::{KeyRows, KeyView};
pub use keyswitch::Digits;
pub use openfhe_bytes::Part;
pub use process::{OfProcess, Process};
pub use rows::CiphertextHeader;
pub use scaling::Scaling;
pub use seeded::{SeededBytes, is_seeded};
pub use slots::{Complex, SlotTables};
pub use small::{SeededRows, row_checksum};
pub use transfer::ciphertext_tag;
pub use workers::{help, on_this_thread};
