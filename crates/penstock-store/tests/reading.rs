//! A store that may only be read: keys are listed, verified and handed out, and nothing is written.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use common::{Folder, file, import, key, listed, name, open, small, tenant, words};
use penstock_ckks::{KeyView, Part};
use penstock_store::{Cache, Error, KeyId, Options, Reader, Store};

const NOBODY: u32 = 65534;

/// What a thread does whose user may read the folder, and may not write to it.
fn reading<T: Send>(folder: &Path, act: impl FnOnce() -> T + Send) -> T {
    permit(folder, 0o555, 0o444);
    let done = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            // Root may write everywhere. This holds for the thread alone.
            #[allow(unsafe_code)]
            // SAFETY: it changes which files this thread may use, and nothing else.
            unsafe {
                libc::setfsuid(NOBODY);
            }
            act()
        });
        reader.join().unwrap()
    });
    permit(folder, 0o755, 0o644);
    done
}

fn permit(folder: &Path, folders: u32, files: u32) {
    for path in below(folder) {
        let mode = if path.is_dir() { folders } else { files };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
}

/// A folder and its content.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut at = 0;
    while at < found.len() {
        if found[at].is_dir() {
            found.extend(fs::read_dir(&found[at]).unwrap().map(|entry| entry.unwrap().path()));
        }
        at += 1;
    }
    found
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    below(folder)
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// A store with two keys of alice's.
fn made() -> Folder {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    import(&store, "alice", KeyId::Relin);
    import(&store, "alice", KeyId::Rot(5));
    folder
}

fn both() -> Vec<penstock_store::KeyName> {
    vec![name("alice", KeyId::Relin), name("alice", KeyId::Rot(5))]
}

#[test]
fn keys_are_listed_verified_and_read_where_nothing_can_be_written() {
    let folder = made();
    // As on a medium to which nobody but an importer has written.
    for lock in [true, false] {
        if !lock {
            fs::remove_file(folder.path().join("lock")).unwrap();
        }
        let before = contents(folder.path());
        reading(folder.path(), || {
            let (store, opening) = open(folder.path());
            assert!(opening.read_only && opening.adopted.is_empty() && opening.lost.is_empty());
            assert_eq!(listed(&store), both());
            assert!(store.list().unwrap().iter().all(|entry| store.verify(entry).fault.is_none()));
            assert!(store.gc(None, true).unwrap().is_empty());
            let cache = Cache::new(Arc::new(store), Options::new(1 << 20)).unwrap();
            let rows = cache.session(tenant("alice"), small().digest()).get(KeyId::Rot(5), 6).unwrap();
            assert_eq!(rows.row(Part::B, 2, 5).unwrap(), words("alice", KeyId::Rot(5))[small().row(1, 2, 5)]);
        });
        assert_eq!(contents(folder.path()), before);
    }
}

#[test]
fn writing_says_that_the_store_may_only_be_read() {
    let folder = made();
    let before = contents(folder.path());
    reading(folder.path(), || {
        let (store, _) = open(folder.path());
        let imported = store.import(&tenant("alice"), KeyId::Conj, &key("alice", KeyId::Conj)).map(|_| ());
        for refused in [imported, store.gc(Some(&tenant("alice")), false).map(|_| ())] {
            let Err(error @ Error::ReadOnly { .. }) = refused else { panic!("{refused:?}") };
            let said = error.to_string();
            assert!(said.contains(&format!("{}: this store is read-only", folder.path().display())), "{said}");
            assert!(said.contains("permission denied") && said.contains("that you may write to"), "{said}");
        }
    });
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_store_that_is_opened_to_be_read_shows_imports_and_changes_nothing() {
    let folder = made();
    let before = contents(folder.path());
    let (store, opening) = Store::open_folder_reading(folder.path(), Reader::Pread, true).unwrap();
    assert!(opening.read_only && opening.adopted.is_empty());
    assert_eq!(listed(&store), both());
    let store = Arc::new(store);
    let cache = Cache::new(Arc::clone(&store), Options::new(1 << 20)).unwrap();
    cache.session(tenant("alice"), small().digest()).get(KeyId::Rot(5), 6).unwrap();
    let refused = store.import(&tenant("alice"), KeyId::Conj, &key("alice", KeyId::Conj));
    assert!(refused.unwrap_err().to_string().contains("it was opened to be read"));
    assert_eq!(contents(folder.path()), before);
    let (writer, _) = open(folder.path());
    import(&writer, "alice", KeyId::Conj);
    assert_eq!(listed(&store).len(), 3);
}

#[test]
fn what_another_process_imports_is_seen() {
    let folder = made();
    let (writer, _) = open(folder.path());
    reading(folder.path(), || {
        let (store, _) = open(folder.path());
        thread::scope(|scope| {
            // Of the user who may write.
            let importer = scope.spawn(|| {
                #[allow(unsafe_code)]
                // SAFETY: as in `reading`.
                unsafe {
                    libc::setfsuid(libc::geteuid());
                }
                permit(folder.path(), 0o755, 0o644);
                import(&writer, "alice", KeyId::Conj);
                permit(folder.path(), 0o555, 0o444);
            });
            importer.join().unwrap();
        });
        assert_eq!(listed(&store).len(), 3);
        assert!(store.segment(&name("alice", KeyId::Conj)).is_ok());
    });
}

#[test]
fn an_index_that_is_missing_damaged_or_behind_is_made_good_in_memory() {
    type Fault = fn(&Path);
    let faults: [(&str, Fault, &[KeyId], usize, usize); 5] = [
        (
            "no index",
            |folder| fs::remove_file(folder.join("index.sqlite")).unwrap(),
            &[KeyId::Relin, KeyId::Rot(5)],
            2,
            0,
        ),
        (
            "no database",
            |folder| fs::write(folder.join("index.sqlite"), "x").unwrap(),
            &[KeyId::Relin, KeyId::Rot(5)],
            2,
            0,
        ),
        (
            "cut short",
            |folder| fs::File::options().write(true).open(folder.join("index.sqlite")).unwrap().set_len(5000).unwrap(),
            &[KeyId::Relin, KeyId::Rot(5)],
            2,
            0,
        ),
        (
            "a segment is gone",
            |folder| fs::remove_file(file(folder, "alice", KeyId::Rot(5))).unwrap(),
            &[KeyId::Relin],
            0,
            1,
        ),
        (
            "a row is missing",
            |folder| {
                let aside = folder.join("aside");
                fs::copy(file(folder, "alice", KeyId::Rot(5)), &aside).unwrap();
                fs::remove_file(file(folder, "alice", KeyId::Rot(5))).unwrap();
                drop(open(folder)); // its row goes
                fs::rename(aside, file(folder, "alice", KeyId::Rot(5))).unwrap();
            },
            &[KeyId::Relin, KeyId::Rot(5)],
            1,
            0,
        ),
    ];
    for (what, fault, whole, adopted, lost) in faults {
        let folder = made();
        fault(folder.path());
        let before = contents(folder.path());
        reading(folder.path(), || {
            let (store, opening) = open(folder.path());
            let whole: Vec<_> = whole.iter().map(|id| name("alice", *id)).collect();
            assert_eq!((listed(&store), opening.adopted.len(), opening.lost.len()), (whole, adopted, lost), "{what}");
            assert_eq!(opening.index_rebuilt, matches!(what, "no database" | "cut short"), "{what}");
            assert!(store.list().unwrap().iter().all(|entry| store.verify(entry).fault.is_none()), "{what}");
            assert!(store.gc(None, false).is_err(), "{what}");
        });
        assert_eq!(contents(folder.path()), before, "{what}");
    }
}
