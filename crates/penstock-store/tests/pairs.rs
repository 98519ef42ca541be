//! A tenant replaces its key pair: both are there for a while, and no session sees keys of two.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::sync::Arc;

use common::{Folder, flip, import, key, listed, name, open, small, tenant};
use penstock_ckks::{KeyView, Part};
use penstock_store::synthetic::{FormedKey, SyntheticKey};
use penstock_store::{
    Cache, Error, Form, KeyContent, KeyId, KeyName, Opening, Options, SegmentError, Session, Store, Use, write_segment,
};

/// Alice's key from the secret key with this tag.
fn of_tag(id: KeyId, tag: &str) -> SyntheticKey {
    let old = key("alice", id);
    SyntheticKey {
        seed: tag.bytes().fold(old.seed, |seed, byte| seed.wrapping_mul(31) + u64::from(byte)),
        tag: tag.into(),
        ..old
    }
}

fn put(store: &Store, id: KeyId, tag: &str) -> KeyName {
    store.import(&tenant("alice"), id, &of_tag(id, tag)).unwrap().name
}

fn name_of(pair: u32, id: KeyId) -> KeyName {
    KeyName { pair, ..name("alice", id) }
}

/// A store with two keys of alice's first pair, and one of bob's.
fn store(folder: &Folder) -> Arc<Store> {
    let (store, _) = open(folder.path());
    put(&store, KeyId::Relin, "old");
    put(&store, KeyId::Conj, "old");
    import(&store, "bob", KeyId::Relin);
    Arc::new(store)
}

fn session(cache: &Cache, tag: Option<&str>) -> Session {
    let session = cache.session(tenant("alice"), small().digest());
    tag.map_or(session.clone(), |tag| session.of_secret(tag))
}

/// Whether a session's key is that of this tag, word for word.
fn gets(session: &Session, id: KeyId, tag: &str) -> bool {
    let got = session.get(id, 3).unwrap();
    let row = small().row(1, 0, 2);
    got.row(Part::B, 0, 2).unwrap() == of_tag(id, tag).words(row)
}

#[test]
fn a_second_secret_key_is_refused_until_a_replacement_was_begun() {
    let folder = Folder::new();
    let store = store(&folder);
    let error = store.import(&tenant("alice"), KeyId::Relin, &of_tag(KeyId::Relin, "new")).unwrap_err();
    assert!(matches!(&error, Error::WrongSecret { .. }) && error.to_string().contains("keys replace"), "{error}");
    // Nobody else's, and not of a tenant without keys.
    let other = small().digest();
    assert!(matches!(store.replace(&tenant("carol"), other), Err(Error::Segment(SegmentError::Value { .. }))));
    assert_eq!(store.replace(&tenant("alice"), other).unwrap(), 2);
    assert!(store.import(&tenant("bob"), KeyId::Conj, &of_tag(KeyId::Conj, "new")).is_err());
    assert_eq!(put(&store, KeyId::Relin, "new"), name_of(2, KeyId::Relin));
    // One new pair, not two; keys of both go where they belong.
    let third = store.import(&tenant("alice"), KeyId::Relin, &of_tag(KeyId::Relin, "third")).unwrap_err();
    assert!(matches!(third, Error::WrongSecret { .. }), "{third}");
    assert_eq!(put(&store, KeyId::Conj, "old"), name_of(1, KeyId::Conj));
    assert_eq!(put(&store, KeyId::Conj, "new"), name_of(2, KeyId::Conj));
    let untold = SyntheticKey { tag: String::new(), ..of_tag(KeyId::Rot(5), "new") };
    let error = store.import(&tenant("alice"), KeyId::Rot(5), &untold).unwrap_err();
    assert!(error.to_string().contains("write the keys with a tag"), "{error}");
    let expected =
        [name_of(1, KeyId::Conj), name_of(1, KeyId::Relin), name_of(2, KeyId::Conj), name_of(2, KeyId::Relin)];
    assert_eq!(listed(&store)[..4], expected);
    for entry in store.list().unwrap() {
        assert!(store.verify(&entry).fault.is_none(), "{}", entry.name);
    }
}

#[test]
fn sessions_see_the_keys_of_their_pair_alone() {
    let folder = Folder::new();
    let store = store(&folder);
    let cache = Cache::new(store.clone(), Options::new(1 << 20)).unwrap();
    let [any, old, new] = [None, Some("old"), Some("new")].map(|tag| session(&cache, tag));
    assert!(gets(&any, KeyId::Relin, "old") && gets(&old, KeyId::Relin, "old"));
    assert!(matches!(new.get(KeyId::Relin, 3).err().unwrap(), Error::OtherSecret { .. }));
    store.replace(&tenant("alice"), small().digest()).unwrap();
    put(&store, KeyId::Relin, "new");
    put(&store, KeyId::Rot(5), "new");
    // Jobs with the old pair go on, in the same cache; who is bound to none sees the oldest pair, and nothing of another.
    assert!(gets(&any, KeyId::Relin, "old") && gets(&old, KeyId::Relin, "old") && gets(&new, KeyId::Relin, "new"));
    assert!(matches!(any.get(KeyId::Rot(5), 3).err().unwrap(), Error::Missing { .. }));
    assert!(matches!(old.get(KeyId::Rot(5), 3).err().unwrap(), Error::OtherSecret { .. }));
    assert!(gets(&new, KeyId::Rot(5), "new"));
    assert!(matches!(new.get(KeyId::Conj, 3).err().unwrap(), Error::OtherSecret { .. }));
    // A plan of the new pair is read ahead of its gets.
    let uses = [KeyId::Rot(5), KeyId::Relin].map(|id| {
        let name = store.name_for(&tenant("alice"), small().digest(), id, Some("new"));
        assert_eq!(name, name_of(2, id));
        Use { name, limbs: 6 }
    });
    let plan = cache.plan(uses.to_vec(), 0);
    let planned = new.following(&plan);
    assert!([KeyId::Rot(5), KeyId::Relin].into_iter().all(|id| planned.get(id, 6).is_ok()));
    assert_eq!((plan.remaining(), cache.stats().unplanned), (0, 0));
}

#[test]
fn the_old_pair_goes_once_no_session_uses_it() {
    let folder = Folder::new();
    let store = store(&folder);
    let (alice, digest) = (tenant("alice"), small().digest());
    let error = store.retire(&alice, digest).unwrap_err();
    assert!(
        matches!(&error, Error::Segment(SegmentError::Value { .. })) && error.to_string().contains("keys replace"),
        "{error}"
    );
    store.replace(&alice, digest).unwrap();
    assert!(store.retire(&alice, digest).is_err()); // nothing takes its place yet
    put(&store, KeyId::Relin, "new");
    let cache = Cache::new(store.clone(), Options::new(1 << 20)).unwrap();
    let (old, new) = (session(&cache, Some("old")), session(&cache, Some("new")));
    old.hold().unwrap();
    let used = old.clone();
    // Another process looks at the same store.
    let (second, opening) = open(folder.path());
    assert_eq!(opening, Opening::default());
    for _ in 0..2 {
        let kept = second.retire(&alice, digest).unwrap();
        assert_eq!(kept.iter().map(|each| each.kept).collect::<Vec<_>>(), [true, true]);
        assert!(gets(&used, KeyId::Relin, "old"));
        drop(old.clone());
    }
    drop((old, used));
    assert!(gets(&new, KeyId::Relin, "new"));
    let gone = second.retire(&alice, digest).unwrap();
    assert_eq!(
        gone.iter().map(|each| (each.path.clone(), each.kept)).collect::<Vec<_>>(),
        [(name_of(1, KeyId::Conj).path(), false), (name_of(1, KeyId::Relin).path(), false),]
    );
    assert_eq!(listed(&store), [name_of(2, KeyId::Relin), name("bob", KeyId::Relin)]);
    assert!(!folder.path().join(name_of(1, KeyId::Relin).path()).exists());
    assert!(matches!(session(&cache, Some("old")).get(KeyId::Relin, 3).err().unwrap(), Error::OtherSecret { .. }));
    // Who is bound to no pair sees the one that is there now.
    assert!(gets(&session(&cache, None), KeyId::Relin, "new"));
    // And again: numbers go on.
    assert_eq!(store.replace(&alice, digest).unwrap(), 3);
    assert_eq!(put(&store, KeyId::Relin, "newest"), name_of(3, KeyId::Relin));
    assert_eq!(store.retire(&alice, digest).unwrap().len(), 1);
    let leftover = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert!(leftover.iter().filter(|name| name.to_string_lossy().starts_with("use-")).count() <= 1, "{leftover:?}");
}

#[test]
fn pairs_outlive_the_index_and_exchanged_files_are_found() {
    let folder = Folder::new();
    let first = store(&folder);
    first.replace(&tenant("alice"), small().digest()).unwrap();
    put(&first, KeyId::Relin, "new");
    let before = first.list().unwrap();
    drop(first);
    fs::remove_file(folder.path().join("index.sqlite")).unwrap();
    let (again, opening) = open(folder.path());
    assert_eq!((again.list().unwrap(), opening.adopted.len()), (before, 4));
    // Between the pairs of one tenant, too.
    let [one, two] = [1, 2].map(|pair| folder.path().join(name_of(pair, KeyId::Relin).path()));
    let bytes = [&one, &two].map(|path| fs::read(path).unwrap());
    fs::write(&one, &bytes[1]).unwrap();
    fs::write(&two, &bytes[0]).unwrap();
    for pair in [1, 2] {
        let error = again.segment(&name_of(pair, KeyId::Relin)).err().unwrap();
        assert!(
            matches!(
                &error,
                Error::Segment(SegmentError::WrongKey { .. }) | Error::Segment(SegmentError::Damaged { .. })
            ),
            "{error}"
        );
    }
    assert!(again.gc(None, true).unwrap().iter().all(|each| each.kept));
    fs::write(&one, &bytes[0]).unwrap();
    fs::write(&two, &bytes[1]).unwrap();
    flip(&two, 5000 * 8);
    assert_eq!(again.verify(&again.entry(&name_of(2, KeyId::Relin)).unwrap()).damaged_rows, 1);
}

#[test]
fn a_segment_of_the_new_pair_is_imported_and_a_tenant_removed_with_all_pairs() {
    let (folder, outside) = (Folder::new(), Folder::new());
    let store = store(&folder);
    let (alice, path) = (tenant("alice"), outside.path().join("k.pkey"));
    let form = Form { limbs: 2, ..Form::full(&small()) };
    let content = FormedKey { key: of_tag(KeyId::Relin, "new"), form };
    write_segment(&path, &alice, KeyId::Relin, &content).unwrap();
    assert!(matches!(store.import_segment(&path, None, None, false), Err(Error::WrongSecret { .. })));
    store.replace(&alice, small().digest()).unwrap();
    let imported = store.import_segment(&path, None, None, false).unwrap();
    assert_eq!(imported.name, name_of(2, KeyId::Relin));
    let entry = store.entry(&imported.name).unwrap();
    assert!(store.verify(&entry).fault.is_none());
    assert_eq!(entry.secret_tag, content.secret_tag());
    assert_eq!(store.gc(Some(&alice), false).unwrap().len(), 3);
    assert_eq!(listed(&store), [name("bob", KeyId::Relin)]);
}
