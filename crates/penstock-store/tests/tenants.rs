//! No tenant gets another's key: whatever is swapped on disk or in the index is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;

use common::{Folder, file, import, key, listed, name, open, small, tenant};
use penstock_store::synthetic::SyntheticKey;
use penstock_store::{Error, KeyId, Pool, SegmentError, Store};

const ROT: KeyId = KeyId::Rot(5);

fn two_tenants() -> (Folder, Store) {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for owner in ["alice", "bob"] {
        for id in [ROT, KeyId::Rot(25), KeyId::Relin] {
            import(&store, owner, id);
        }
    }
    (folder, store)
}

/// The error of reading a key; a panic where it is handed out.
fn refused(store: &Store, owner: &str, id: KeyId) -> Error {
    let read = store.segment(&name(owner, id)).and_then(|segment| {
        segment.read(0, 6, &Pool::new(0), |row, buffer| {
            assert_eq!(buffer.words()[..512], common::words(owner, id)[row], "another key's row was handed out");
        })
    });
    read.expect_err("the key was handed out")
}

fn swap(a: &std::path::Path, b: &std::path::Path) {
    let (one, other) = (fs::read(a).unwrap(), fs::read(b).unwrap());
    fs::write(a, other).unwrap();
    fs::write(b, one).unwrap();
}

#[test]
fn files_swapped_between_tenants_are_refused() {
    let (folder, store) = two_tenants();
    swap(&file(folder.path(), "alice", ROT), &file(folder.path(), "bob", ROT));
    // In a store that is open, and in one that is opened afterwards.
    for store in [store, open(folder.path()).0] {
        for owner in ["alice", "bob"] {
            assert!(matches!(
                refused(&store, owner, ROT),
                Error::Segment(SegmentError::WrongKey { field: "tenant", .. })
            ));
            assert!(store.segment(&name(owner, KeyId::Relin)).is_ok());
        }
    }
    // Also where the index is gone and built from the files.
    fs::remove_file(folder.path().join("index.sqlite")).unwrap();
    let (store, opening) = open(folder.path());
    assert_eq!(opening.damaged.len(), 2);
    assert_eq!(opening.adopted.len(), 4);
    assert!(matches!(refused(&store, "alice", ROT), Error::Missing { .. }));
}

#[test]
fn files_swapped_between_keys_of_one_tenant_are_refused() {
    let (folder, store) = two_tenants();
    swap(&file(folder.path(), "alice", ROT), &file(folder.path(), "alice", KeyId::Rot(25)));
    assert!(matches!(refused(&store, "alice", ROT), Error::Segment(SegmentError::WrongKey { field: "key", .. })));
}

/// Writes a header with other fields and a good checksum: what somebody with the format's description can do.
fn forge(path: &std::path::Path, change: impl FnOnce(&mut penstock_store::Header)) {
    let mut bytes = fs::read(path).unwrap();
    let length = penstock_store::Header::encoded_bytes(&small(), penstock_store::Layout::full(&small()));
    let mut header = penstock_store::Header::decode("forged", &bytes[..length]).unwrap();
    change(&mut header);
    bytes[..length].copy_from_slice(&header.encode());
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_key_whose_tags_were_rewritten_is_refused() {
    let (folder, store) = two_tenants();
    let path = file(folder.path(), "alice", ROT);
    let own = fs::read(&path).unwrap();
    // Bob's key under alice's name, its tenant rewritten and its header's checksum made good.
    fs::copy(file(folder.path(), "bob", ROT), &path).unwrap();
    forge(&path, |header| header.name.tenant = tenant("alice"));
    assert!(matches!(
        refused(&store, "alice", ROT),
        Error::Segment(SegmentError::WrongKey { field: "secret key's tag", .. })
    ));
    // The tag of the secret key as well.
    forge(&path, |header| header.secret_tag = "tag-of-alice".into());
    assert!(matches!(refused(&store, "alice", ROT), Error::Segment(SegmentError::WrongKey { field: "header", .. })));
    // Even without the index: the checksums of the rows are bound to whose they are.
    fs::remove_file(folder.path().join("index.sqlite")).unwrap();
    let (store, _) = open(folder.path());
    assert!(matches!(refused(&store, "alice", ROT), Error::Segment(SegmentError::DamagedRow { row: 0, .. })));
    // Only another import heals.
    import(&store, "alice", ROT);
    assert_eq!(fs::read(&path).unwrap(), own);
}

#[test]
fn rows_of_another_key_do_not_pass_even_where_they_are_whole() {
    let (folder, store) = two_tenants();
    let (path, other) = (file(folder.path(), "alice", ROT), file(folder.path(), "bob", ROT));
    let (own, theirs) = (fs::read(&path).unwrap(), fs::read(other).unwrap());
    let length = penstock_store::Header::encoded_bytes(&small(), penstock_store::Layout::full(&small()));
    fs::write(&path, [&own[..length], &theirs[length..]].concat()).unwrap();
    assert!(matches!(refused(&store, "alice", ROT), Error::Segment(SegmentError::DamagedRow { row: 0, .. })));
}

#[test]
fn index_rows_swapped_between_tenants_are_refused() {
    let (folder, store) = two_tenants();
    let connection = rusqlite::Connection::open(folder.path().join("index.sqlite")).unwrap();
    connection
        .execute_batch(
            "UPDATE keys SET tenant = 'carol' WHERE tenant = 'alice';
             UPDATE keys SET tenant = 'alice' WHERE tenant = 'bob';
             UPDATE keys SET tenant = 'bob' WHERE tenant = 'carol';",
        )
        .unwrap();
    for owner in ["alice", "bob"] {
        assert!(matches!(
            refused(&store, owner, ROT),
            Error::Segment(SegmentError::WrongKey { field: "secret key's tag", .. })
        ));
    }
    // Files and index rows together: the headers still say whose they are.
    for id in [ROT, KeyId::Rot(25), KeyId::Relin] {
        swap(&file(folder.path(), "alice", id), &file(folder.path(), "bob", id));
    }
    for owner in ["alice", "bob"] {
        assert!(matches!(refused(&store, owner, ROT), Error::Segment(SegmentError::WrongKey { field: "tenant", .. })));
    }
}

#[test]
fn what_is_whole_is_not_removed_whatever_the_index_or_the_path_say() {
    let (folder, store) = two_tenants();
    let connection = rusqlite::Connection::open(folder.path().join("index.sqlite")).unwrap();
    connection
        .execute_batch(
            "UPDATE keys SET header_checksum = 5 WHERE tenant = 'bob' AND key = 'rot:5';
             UPDATE keys SET secret_tag = 'tag-of-bob' WHERE tenant = 'alice';",
        )
        .unwrap();
    let dry = store.gc(None, true).unwrap();
    assert!(dry.len() == 4 && dry.iter().all(|each| each.kept), "{dry:?}");
    assert!(matches!(refused(&store, "alice", ROT), Error::Segment(SegmentError::WrongKey { .. })));
    assert_eq!(store.gc(None, false).unwrap(), dry);
    assert_eq!(store.gc(None, false).unwrap(), []);
    assert!(store.list().unwrap().iter().all(|entry| store.verify(entry).fault.is_none()));
    // Files exchanged, and a folder under another tenant's name.
    swap(&file(folder.path(), "alice", ROT), &file(folder.path(), "alice", KeyId::Rot(25)));
    fs::rename(folder.path().join("bob"), folder.path().join("robert")).unwrap();
    let (store, opening) = open(folder.path());
    assert_eq!((opening.damaged.len(), opening.lost.len()), (3, 3));
    let found = store.gc(None, false).unwrap();
    assert_eq!(found.iter().filter(|each| each.kept && each.reason.contains("move the file")).count(), 5, "{found:?}");
    // Put back, all are there again.
    swap(&file(folder.path(), "alice", ROT), &file(folder.path(), "alice", KeyId::Rot(25)));
    fs::rename(folder.path().join("robert"), folder.path().join("bob")).unwrap();
    let (store, _) = open(folder.path());
    assert_eq!(store.list().unwrap().iter().filter(|entry| store.verify(entry).fault.is_none()).count(), 6);
}

#[test]
fn other_parameters_are_other_keys() {
    let (_folder, store) = two_tenants();
    let mut other = name("alice", ROT);
    other.digest = penstock_store::synthetic::shape(512, 6, 2, 2).digest();
    let message = store.segment(&other).err().unwrap().to_string();
    assert!(message.contains("its 3 keys are for other parameters"), "{message}");
    // A file moved to where keys of other parameters lie.
    let (folder, store) = two_tenants();
    let target = folder.path().join(other.path());
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::copy(file(folder.path(), "alice", ROT), target).unwrap();
    drop(store);
    let (store, opening) = open(folder.path());
    assert_eq!(opening.damaged.len(), 1);
    assert!(store.segment(&other).is_err());
}

#[test]
fn a_key_of_another_secret_key_is_not_imported() {
    let (_folder, store) = two_tenants();
    let error = store.import(&tenant("alice"), KeyId::Conj, &key("bob", KeyId::Conj)).unwrap_err();
    assert!(error.to_string().contains("one tenant has one secret key"), "{error}");
    assert!(!error.to_string().contains("tenant 'bob'"), "{error}");
    let stranger = SyntheticKey { tag: "tag-of-nobody".into(), ..key("alice", KeyId::Conj) };
    let error = store.import(&tenant("alice"), KeyId::Conj, &stranger).unwrap_err();
    assert!(error.to_string().contains("one tenant has one secret key"), "{error}");
    assert_eq!(listed(&store).len(), 6);
    // After the old keys are removed the tenant starts anew.
    assert_eq!(store.gc(Some(&tenant("alice")), true).unwrap().len(), 3);
    assert_eq!(listed(&store).len(), 6);
    assert_eq!(store.gc(Some(&tenant("alice")), false).unwrap().len(), 3);
    store.import(&tenant("alice"), KeyId::Conj, &stranger).unwrap();
    assert_eq!(listed(&store).len(), 4);
}

#[test]
fn keys_that_another_tenant_imported_first_do_not_lock_their_owner_out() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    // Mallory has seen alice's evaluation keys, which are not secret.
    store.import(&tenant("mallory"), ROT, &key("alice", ROT)).unwrap();
    import(&store, "alice", ROT);
    assert_eq!(listed(&store).len(), 2);
    assert!(store.verify(&store.entry(&name("alice", ROT)).unwrap()).fault.is_none());
}
