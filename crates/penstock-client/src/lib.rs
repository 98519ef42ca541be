//! The side of the key's owner: key pairs, evaluation keys, encryption and decryption, without OpenFHE.
//!
//! Keys, ciphertexts and words are OpenFHE 1.6.1's, both ways. Evaluation keys may be *seeded* (the uniform half is 32
//! bytes) and *truncated* (only the rows that a program uses). Nothing that evaluates or serves links this crate.
//! `docs/guides/client.md` has the threat model, and names the parts that are not constant-time.
//!
//! Randomness is the operating system's, expanded by ChaCha20 ([`random`]); the public halves by ChaCha12
//! (`penstock-seed`). Secrets are wiped when they are dropped.
#![deny(unsafe_code)]

mod cipher;
mod decode;
pub mod error;
mod evaluation;
mod file;
mod kept;
mod openfhe;
mod phase;
mod polynomials;
mod protected;
mod public;
pub mod random;
mod ring;
pub mod sample;
mod secret;
mod tables;

pub use cipher::Stated;
pub use error::{Error, Result};
pub use evaluation::EvaluationKey;
pub use phase::Phase;
pub use protected::Protected;
pub use public::PublicKey;
pub use ring::{Ring, RingParameters, SecretKind};
pub use secret::{Here, SecretKey};
