//! The format of stored evaluation keys: what names a key, its shape and form, and the segment file that holds it.
//!
//! Both sides know it. The key's owner writes segments, and a store keeps them: so this crate links neither the one's
//! ciphers nor the other's index. The format is in `docs/guides/keystore.md`. No secret key enters this crate.
#![deny(unsafe_code)]

mod error;
mod form;
mod header;
mod name;
mod segment;
mod shape;
pub mod synthetic;
pub mod whole;

pub use error::{Error, Result};
pub use form::{Form, Layout};
pub use header::Header;
pub use name::{KeyId, KeyName, SEGMENT_ENDING, Tenant};
pub use penstock_seed::Seed;
pub use segment::{Checked, KeyContent, write_segment};
pub use shape::{ALIGNMENT, Digest, PARTS, Shape, WORD_BYTES};

// Words lie in files as little-endian numbers, and are used in place.
const _: () = assert!(cfg!(target_endian = "little"), "penstock-segment needs a little-endian machine");
