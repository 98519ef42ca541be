//! Links in a store lead nowhere: a link that one tenant plants reaches neither another tenant nor the rest of the
//! disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;

use common::{Folder, file, import, key, name, open, small, tenant};
use penstock_store::{KeyId, Reader, Store, TEMPORARY_PREFIX};

const ROT: KeyId = KeyId::Rot(5);

#[test]
fn a_link_under_a_foreseeable_temporary_name_is_not_written_to() {
    let (folder, victim) = (Folder::new(), Folder::new());
    let (store, _) = open(folder.path());
    import(&store, "alice", ROT);
    let target = victim.path().join("file");
    fs::write(&target, "untouched").unwrap();
    let keys = file(folder.path(), "alice", ROT).parent().unwrap().to_owned();
    for number in 0..64 {
        let planted = keys.join(format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id()));
        symlink(&target, planted).unwrap();
    }
    import(&store, "alice", KeyId::Relin);
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
}

#[test]
fn a_link_from_one_tenants_folder_to_anothers_reaches_no_key() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    import(&store, "alice", ROT);
    let before = fs::read(file(folder.path(), "alice", ROT)).unwrap();
    symlink("alice", folder.path().join("mallory")).unwrap();
    let error = store.import(&tenant("mallory"), ROT, &key("mallory", ROT)).unwrap_err().to_string();
    assert!(error.contains("/mallory") && error.contains("it is a link"), "{error}");
    // Nor one level below.
    fs::create_dir(folder.path().join("carol")).unwrap();
    let digest = small().digest().to_string();
    symlink(format!("../alice/{digest}"), folder.path().join("carol").join(&digest)).unwrap();
    let error = store.import(&tenant("carol"), ROT, &key("carol", ROT)).unwrap_err().to_string();
    assert!(error.contains("it is a link"), "{error}");
    assert_eq!(fs::read(file(folder.path(), "alice", ROT)).unwrap(), before);
    assert!(store.segment(&name("alice", ROT)).is_ok());
}

#[test]
fn a_segment_that_is_a_link_is_not_read_and_a_pipe_is_not_waited_for() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let (store, _) = open(folder.path());
    import(&store, "alice", ROT);
    let path = file(folder.path(), "alice", ROT);
    let away = elsewhere.path().join("key");
    fs::rename(&path, &away).unwrap();
    symlink(&away, &path).unwrap();
    let error = store.segment(&name("alice", ROT)).err().unwrap().to_string();
    assert!(error.contains("it is a link"), "{error}");
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = store.segment(&name("alice", ROT)).err().unwrap().to_string();
    assert!(error.contains("this is not a file"), "{error}");
    // An import puts a whole key in the place of either.
    import(&store, "alice", ROT);
    assert!(store.segment(&name("alice", ROT)).is_ok());
}

#[test]
fn an_index_or_a_lock_that_is_a_link_makes_no_file_elsewhere() {
    for planted in ["index.sqlite", "lock"] {
        let (folder, victim) = (Folder::new(), Folder::new());
        let target = victim.path().join("made");
        symlink(&target, folder.path().join(planted)).unwrap();
        assert!(Store::open_folder(folder.path(), Reader::Auto, true).is_err(), "{planted}");
        assert!(!target.exists(), "{planted}");
    }
}

#[test]
fn a_store_may_itself_lie_behind_a_link() {
    let (folder, other) = (Folder::new(), Folder::new());
    let link = other.path().join("keys");
    symlink(folder.path(), &link).unwrap();
    let (store, _) = open(&link);
    import(&store, "alice", ROT);
    assert!(store.segment(&name("alice", ROT)).is_ok());
    assert!(file(folder.path(), "alice", ROT).is_file());
}
