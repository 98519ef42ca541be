//! Segments on a real disk: the imported words come back exactly, and nothing else does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;

use common::{Folder, file, flip, import, key, listed, name, open, small, tenant};
use penstock_store::synthetic::{Random, SyntheticKey};
use penstock_store::{Error, Header, KeyContent, KeyId, Layout, Pool, Reader, Result, SegmentError, Shape, Store};

const KEYS: [KeyId; 3] = [KeyId::Relin, KeyId::Conj, KeyId::Rot(5)];

fn words_of(store: &Store, owner: &str, id: KeyId, limbs: usize) -> Result<Vec<(usize, Vec<u64>)>> {
    let segment = store.segment(&name(owner, id))?;
    let shape = segment.header.shape.clone();
    let mut rows = vec![];
    segment.read(0, limbs, &Pool::new(0), |row, buffer| {
        rows.push((row, buffer.words()[..shape.ring_dim()].to_vec()));
    })?;
    rows.sort();
    Ok(rows)
}

#[test]
fn every_reader_gives_back_what_was_imported() {
    for (reader, direct) in [(Reader::Auto, true), (Reader::Pread, true), (Reader::Pread, false), (Reader::Auto, false)]
    {
        let folder = Folder::new();
        let (store, opening) = Store::open_folder(folder.path(), reader, direct).unwrap();
        assert_eq!(opening, Default::default());
        for id in KEYS {
            import(&store, "alice", id);
        }
        let mut names = listed(&store);
        names.sort();
        assert_eq!(names, KEYS.map(|id| name("alice", id)));
        for id in KEYS {
            for limbs in 1..=6 {
                let rows = words_of(&store, "alice", id, limbs).unwrap();
                assert_eq!(rows.len() * small().row_stride(), small().bytes_needed(limbs) as usize);
                assert!(rows.iter().all(|(row, words)| *words == common::words("alice", id)[*row]), "{id} at {limbs}");
            }
        }
    }
}

#[test]
fn rows_of_a_small_ring_are_padded_to_pages() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let tiny = SyntheticKey { shape: penstock_store::synthetic::shape(16, 3, 1, 3), seed: 5, tag: String::new() };
    let imported = store.import(&tenant("t"), KeyId::Relin, &tiny).unwrap();
    assert_eq!(imported.bytes, 4096 + 24 * 4096);
    let segment = store.segment(&imported.name).unwrap();
    let mut count = 0;
    segment
        .read(0, 3, &Pool::new(0), |row, buffer| {
            assert_eq!(buffer.words()[..16], tiny.words(row));
            count += 1;
        })
        .unwrap();
    assert_eq!(count, 24);
}

#[test]
fn a_flipped_bit_in_any_row_is_found_before_the_row_is_used() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    import(&store, "alice", KeyId::Relin);
    let path = file(folder.path(), "alice", KeyId::Relin);
    let mut random = Random::new(11);
    let header = Header::encoded_bytes(&small(), Layout::full(&small())) as u64;
    for row in 0..small().num_rows() {
        let bit = (header + (row * small().row_stride()) as u64) * 8 + random.below(small().row_bytes() as u64 * 8);
        flip(&path, bit);
        let mut used = vec![];
        let segment = store.segment(&name("alice", KeyId::Relin)).unwrap();
        let read = segment.read(0, 6, &Pool::new(0), |row, _| used.push(row));
        assert!(
            matches!(read, Err(Error::Segment(SegmentError::DamagedRow { row: found, .. })) if found == row),
            "row {row}"
        );
        assert!(!used.contains(&row));
        let verified = store.verify(&store.list().unwrap()[0]);
        assert_eq!(verified.damaged_rows, 1);
        assert!(verified.fault.unwrap().to_string().contains(&small().describe(row)));
        flip(&path, bit);
    }
    assert!(store.verify(&store.list().unwrap()[0]).fault.is_none());
}

#[test]
fn a_flipped_bit_in_the_header_is_found() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    import(&store, "alice", KeyId::Relin);
    let path = file(folder.path(), "alice", KeyId::Relin);
    let mut random = Random::new(12);
    for _ in 0..200 {
        let bit = random.below(Header::encoded_bytes(&small(), Layout::full(&small())) as u64 * 8);
        flip(&path, bit);
        assert!(store.segment(&name("alice", KeyId::Relin)).is_err_and(|error| error.is_damage()), "bit {bit}");
        flip(&path, bit);
    }
}

#[test]
fn truncated_and_foreign_files_are_refused_and_not_listed() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    import(&store, "alice", KeyId::Relin);
    import(&store, "alice", KeyId::Conj);
    let path = file(folder.path(), "alice", KeyId::Relin);
    let whole = fs::read(&path).unwrap();
    let mut foreign = whole.clone();
    foreign[..8].copy_from_slice(b"SQLite f");
    let longer = [&whole[..], &[0; 4096]].concat();
    let cuts = [0, 1, 4095, 4096, 4097, 8192, whole.len() / 2, whole.len() - 4096, whole.len() - 1];
    let cut = cuts.map(|length| whole[..length].to_vec());
    for bytes in cut.into_iter().chain([foreign, longer]) {
        fs::write(&path, &bytes).unwrap();
        assert!(words_of(&store, "alice", KeyId::Relin, 6).is_err_and(|error| error.is_damage()), "{}", bytes.len());
        let (again, opening) = open(folder.path());
        if bytes.len() != whole.len() {
            assert_eq!(listed(&again), [name("alice", KeyId::Conj)], "{}", bytes.len());
            assert_eq!(opening.damaged.len(), 1);
            let garbage = again.gc(None, true).unwrap();
            assert_eq!(garbage.len(), 1, "{garbage:?}");
        }
        // Another import heals.
        import(&again, "alice", KeyId::Relin);
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert!(again.list().unwrap().iter().all(|entry| again.verify(entry).fault.is_none()));
    }
}

#[test]
fn a_missing_key_is_named_with_the_command_that_imports_it() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    import(&store, "alice", KeyId::Relin);
    let message = store.segment(&name("alice", KeyId::Rot(25))).err().unwrap().to_string();
    for part in [
        "rot:25",
        "'alice'",
        &small().digest().to_string(),
        "penstock keys import --tenant alice --params SET --key rot:25",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(store.segment(&name("bob", KeyId::Relin)).err().unwrap().to_string().contains("nor any other key"));
}

/// A key with one word that is not below its modulus.
struct Overflowing(SyntheticKey, usize, usize);

impl KeyContent for Overflowing {
    fn shape(&self) -> &Shape {
        &self.0.shape
    }
    fn secret_tag(&self) -> &str {
        &self.0.tag
    }
    fn fill(&self, row: usize, words: &mut [u64]) -> Result<(), SegmentError> {
        self.0.fill(row, words)?;
        if row == self.1 {
            words[self.2] = self.0.shape.modulus(row);
        }
        Ok(())
    }
}

#[test]
fn every_word_is_checked_against_its_modulus_before_anything_is_written() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for (row, word) in [(0, 0), (0, 511), (47, 0), (47, 511), (20, 255)] {
        let content = Overflowing(key("alice", KeyId::Relin), row, word);
        let error = store.import(&tenant("alice"), KeyId::Relin, &content).unwrap_err();
        assert!(error.to_string().contains(&small().describe(row)), "{error}");
        assert!(listed(&store).is_empty());
        assert!(!file(folder.path(), "alice", KeyId::Relin).exists());
    }
}

#[test]
fn a_galois_element_that_no_rotation_has_is_refused() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for element in [0, 1, 4, 1023, 1024, 1025, u64::MAX] {
        assert!(store.import(&tenant("a"), KeyId::Rot(element), &key("a", KeyId::Rot(element))).is_err(), "{element}");
    }
    assert_eq!(KeyId::automorphism(1023, 512), KeyId::Conj);
    assert_eq!(KeyId::automorphism(5, 512), KeyId::Rot(5));
}

#[test]
fn imports_of_one_key_at_once_leave_one_of_them() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let path = folder.path();
            scope.spawn(move || {
                // As processes do: each with a separate store.
                let (store, _) = open(path);
                for _ in 0..10 {
                    let content = SyntheticKey { seed, ..key("alice", KeyId::Relin) };
                    store.import(&tenant("alice"), KeyId::Relin, &content).unwrap();
                }
            });
        }
    });
    let (store, opening) = open(folder.path());
    assert_eq!(opening, Default::default());
    assert!(store.verify(&store.entry(&name("alice", KeyId::Relin)).unwrap()).fault.is_none());
}
