//! What the tests of the store share: small keys, and folders that go away.
#![allow(dead_code)] // Each test file uses its part of it.
#![allow(clippy::unwrap_used)]

pub mod openfhe;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use penstock_store::synthetic::{SyntheticKey, shape};
use penstock_store::{KeyId, KeyName, Opening, Reader, Shape, Store, Tenant};

/// A folder below the system's temporary one, removed when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("penstock-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// 6 limbs of Q, 2 of P, 3 digits of 2 limbs over N = 512: rows of 4 KiB, a key of 192 KiB.
pub fn small() -> Shape {
    shape(512, 6, 2, 3)
}

pub fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// The key that `tenant` has under this id: its words depend on both.
pub fn key(owner: &str, id: KeyId) -> SyntheticKey {
    let seed = format!("{owner} {id}").bytes().fold(17, |seed: u64, byte| seed.wrapping_mul(257) + u64::from(byte));
    SyntheticKey { shape: small(), seed, tag: format!("tag-of-{owner}") }
}

type Words = Arc<Vec<Vec<u64>>>;

/// The words of every row of that key. They are made once.
pub fn words(owner: &str, id: KeyId) -> Words {
    static MADE: Mutex<BTreeMap<(String, KeyId), Words>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let make = || Arc::new((0..small().num_rows()).map(|row| key(owner, id).words(row)).collect());
    made.entry((owner.to_owned(), id)).or_insert_with(make).clone()
}

pub fn name(owner: &str, id: KeyId) -> KeyName {
    KeyName::new(tenant(owner), small().digest(), id)
}

pub fn open(folder: &Path) -> (Store, Opening) {
    Store::open_folder(folder, Reader::Auto, true).unwrap()
}

pub fn import(store: &Store, owner: &str, id: KeyId) {
    store.import(&tenant(owner), id, &key(owner, id)).unwrap();
}

/// The names that the store lists.
pub fn listed(store: &Store) -> Vec<KeyName> {
    store.list().unwrap().into_iter().map(|entry| entry.name).collect()
}

/// The file of a key.
pub fn file(folder: &Path, owner: &str, id: KeyId) -> PathBuf {
    folder.join(name(owner, id).path())
}

/// Flips one bit of a file.
pub fn flip(file: &Path, bit: u64) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    std::fs::write(file, bytes).unwrap();
}
