//! Program packages: one file that holds a program on encrypted vectors as data. It has no ciphertext, no key and no
//! code. The format is in `docs/reference/package-format.md`.
//!
//! [`Reader`] checks everything that a file declares before it allocates memory for it, and reads constants when they
//! are used, from several threads if need be. [`Writer`] streams constants to a file and then writes the tables.

#![forbid(unsafe_code)]

mod bits;
mod constant;
mod cursor;
mod embedding;
mod error;
mod forms;
mod frame;
pub mod limits;
mod names;
mod reader;
mod rules;
mod rules_values;
mod tables;
mod tables_bytes;
mod writer;

pub use constant::{Coefficients, Constant};
pub use error::{Error, Fault, Result};
pub use forms::Form;
pub use frame::VERSION;
pub use penstock_operations::Operation;
pub use reader::Reader;
pub use tables::{Entry, Input, Instruction, Instructions, Key, Kind, Output, Scope, Series, Tables};
pub use writer::{Content, Writer};
