//! The same store over an object store: in memory and in a folder, through one trait.
#![cfg(feature = "object-store")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;

use common::{Folder, import, listed, name, small, words};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use penstock_ckks::{KeyView, Part};
use penstock_store::{Backend, Cache, Error, KeyId, ObjectBackend, Options, SegmentError, Store};

const ROT: KeyId = KeyId::Rot(5);

fn read_all(store: Arc<Store>, owner: &str, id: KeyId) -> Result<(), Error> {
    let cache = Cache::new(store, Options::new(1 << 20)).unwrap();
    let session = cache.session(common::tenant(owner), small().digest());
    for limbs in 1..=6 {
        let got = session.get(id, limbs)?;
        for row in small().rows_needed(limbs).into_iter().flatten() {
            let (part, digit, limb) = small().place(row);
            assert_eq!(got.row(Part::BOTH[part], digit, limb).unwrap(), words(owner, id)[row]);
        }
    }
    Ok(())
}

fn works(backend: Arc<dyn Backend>) {
    let folder = Folder::new();
    let (store, _) = Store::open(folder.path(), backend.clone()).unwrap();
    import(&store, "alice", ROT);
    import(&store, "bob", ROT);
    let store = Arc::new(store);
    for owner in ["alice", "bob"] {
        read_all(store.clone(), owner, ROT).unwrap();
    }
    // Another index over the same objects finds them.
    let elsewhere = Folder::new();
    let (other, opening) = Store::open(elsewhere.path(), backend).unwrap();
    assert_eq!(opening.adopted, [name("alice", ROT), name("bob", ROT)]);
    assert!(other.list().unwrap().iter().all(|entry| other.verify(entry).fault.is_none()));
    assert_eq!(other.gc(Some(&common::tenant("bob")), false).unwrap().len(), 1);
    assert_eq!(listed(&other), [name("alice", ROT)]);
}

#[test]
fn a_store_in_memory_works_like_one_in_a_folder() {
    works(Arc::new(ObjectBackend::new(Arc::new(InMemory::new()), "memory").unwrap()));
}

#[test]
fn urls_name_object_stores() {
    works(Arc::new(ObjectBackend::from_url("memory:///keys", []).unwrap()));
    let folder = Folder::new();
    let url = format!("file://{}", folder.path().display());
    works(Arc::new(ObjectBackend::from_url(&url, []).unwrap()));
    for url in ["", "keys", "ftp://host/keys"] {
        assert!(matches!(ObjectBackend::from_url(url, []), Err(Error::Segment(SegmentError::Value { .. }))), "{url}");
    }
    assert_eq!(ObjectBackend::from_url("s3://bucket/keys", []).is_ok(), cfg!(feature = "s3"));
}

#[test]
fn damage_in_an_object_is_found_like_damage_in_a_file() {
    let objects = Arc::new(InMemory::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let folder = Folder::new();
    let backend = ObjectBackend::new(objects.clone() as Arc<dyn ObjectStore>, "memory").unwrap();
    let (store, _) = Store::open(folder.path(), Arc::new(backend)).unwrap();
    let store = Arc::new(store);
    import(&store, "alice", ROT);
    let path = Path::from(name("alice", ROT).path());
    let whole = runtime.block_on(async { objects.get(&path).await.unwrap().bytes().await.unwrap() });
    let replace = |bytes: Vec<u8>| runtime.block_on(objects.put(&path, bytes.into())).map(|_| ()).unwrap();
    let mut flipped = whole.to_vec();
    flipped[5000] ^= 4;
    replace(flipped);
    assert!(matches!(read_all(store.clone(), "alice", ROT), Err(Error::Segment(SegmentError::DamagedRow { .. }))));
    replace(whole[..whole.len() - 1].to_vec());
    assert!(read_all(store.clone(), "alice", ROT).unwrap_err().is_damage());
    runtime.block_on(objects.delete(&path)).unwrap();
    assert!(matches!(read_all(store.clone(), "alice", ROT), Err(Error::Segment(SegmentError::Io { .. }))));
    import(&store, "alice", ROT);
    read_all(store, "alice", ROT).unwrap();
}
