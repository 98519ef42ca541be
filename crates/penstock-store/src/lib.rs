//! Evaluation keys out of core: on disk or in an object store, a budget of them in memory, many tenants.
//!
//! A [`Store`] holds segments, one a key, and their index; [`OpenFheKey`] is the form for import. A [`Cache`] keeps
//! rows in memory and reads ahead along a [`Plan`]; a [`Session`] hands one tenant's keys out, a [`PinnedKey`] at a
//! time. Format and guarantees are in `docs/guides/keystore.md`. No secret key enters this crate.
//!
//! ```
//! use std::sync::Arc;
//!
//! use penstock_ckks::{KeyView, Part};
//! use penstock_store::synthetic::{SyntheticKey, shape};
//! use penstock_store::{Cache, KeyId, Options, Reader, Store, Tenant};
//!
//! # fn main() -> penstock_store::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("penstock-store-doc-{}", std::process::id()));
//! let (store, _) = Store::open_folder(&folder, Reader::Auto, true)?;
//! let alice = Tenant::new("alice")?;
//! let key = SyntheticKey { shape: shape(512, 6, 2, 3), seed: 1, tag: "alice".into() };
//! store.import(&alice, KeyId::Rot(5), &key)?;
//!
//! let cache = Cache::new(Arc::new(store), Options::new(1 << 20))?;
//! let session = cache.session(alice, key.shape.digest());
//! let rows = session.get(KeyId::Rot(5), 4)?; // what a key switch at 4 limbs reads
//! assert_eq!(rows.row(Part::A, 1, 3).map(<[u64]>::len), Some(512));
//! assert!(rows.row(Part::A, 1, 4).is_none()); // the fifth limb of Q
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod backend;
mod buffer;
mod cache;
mod error;
mod export;
mod index;
mod keyfile;
mod openfhe;
mod pairs;
mod read;
mod segment;
mod store;

#[cfg(feature = "object-store")]
pub use backend::ObjectBackend;
pub use backend::{Backend, Done, Fill, Listed, LocalFolder, Piece, Reader, Source};
pub use buffer::{Pool, Row};
pub use cache::{Cache, Options, PinnedKey, Plan, Policy, Read, Session, Stats, Use};
pub use error::{Error, Result};
pub use export::minimal_roots;
pub use index::Entry;
pub use keyfile::KeyFile;
pub use openfhe::{OpenFheKey, Params};
pub use penstock_segment::whole::TEMPORARY_PREFIX;
pub use penstock_segment::{
    ALIGNMENT, Checked, Digest, Error as SegmentError, Form, Header, KeyContent, KeyId, KeyName, Layout, PARTS, Seed,
    Shape, Tenant, WORD_BYTES, synthetic, write_segment,
};
pub use read::Segment;
pub use segment::SegmentFile;
pub use store::{Garbage, Imported, Opening, Store, Verified};

// Words lie in files and in OpenFHE's bytes as little-endian numbers, and are used in place.
const _: () = assert!(cfg!(target_endian = "little"), "penstock-store needs a little-endian machine");
