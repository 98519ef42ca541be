//! Evaluation keys out of core.
#![deny(unsafe_code)]

mod backend;
mod buffer;
mod cache;
mod error;
mod header;
mod index;
mod name;
mod openfhe;
mod read;
mod segment;
mod shape;
mod store;
pub mod synthetic;

#[cfg(feature = "object-store")]
pub use backend::ObjectBackend;
pub use backend::{Backend, Done, Fill, Listed, LocalFolder, Piece, Reader, Source, TEMPORARY_PREFIX};
pub use buffer::{Pool, Row};
pub use cache::{Cache, Options, PinnedKey, Plan, Policy, Session, Stats, Use};
pub use error::{Error, Result};
pub use header::Header;
pub use index::Entry;
pub use name::{KeyId, KeyName, Tenant};
pub use openfhe::OpenFheKey;
pub use read::Segment;
pub use segment::{Checked, KeyContent};
pub use shape::{ALIGNMENT, Digest, PARTS, Shape, WORD_BYTES};
pub use store::{Garbage, Imported, Opening, Store, Verified};

// Words lie in files and in OpenFHE's bytes as little-endian numbers, and are used in place.
const _: () = assert!(cfg!(target_endian = "little"), "penstock-store needs a little-endian machine");
