//! Importing what OpenFHE serialized: real bytes, and a great many damaged ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Folder, open, openfhe, tenant};
use penstock_ckks::openfhe_bytes::parse_evaluation_key;
use penstock_ckks::{KeyView, Part};
use penstock_store::synthetic::Random;
use penstock_store::{
    Cache, Checked, Error, KeyContent, KeyFile, KeyId, KeyName, Layout, OpenFheKey, Options, Params, SegmentError,
};

const NUM_Q: usize = 3;

#[test]
fn openfhes_keys_come_back_word_by_word() {
    let Some(samples) = openfhe::samples() else { return };
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let imported =
        store.import_openfhe(&tenant("alice"), &samples.rotations[..], Params::Limbs(NUM_Q), None, None).unwrap();
    assert_eq!(imported.iter().map(|each| each.name.key).collect::<Vec<_>>(), [KeyId::Rot(5), KeyId::Rot(25)]);
    let relin = store
        .import_openfhe(&tenant("alice"), &samples.relin[..], Params::Limbs(NUM_Q), Some(KeyId::Relin), None)
        .unwrap();
    let digest = relin[0].name.digest;
    assert!(imported.iter().all(|each| each.name.digest == digest && !each.replaced));
    let cache = Cache::new(Arc::new(store), Options::new(1 << 20)).unwrap();
    let session = cache.session(tenant("alice"), digest);
    for (bytes, ids) in
        [(&samples.rotations[..], vec![KeyId::Rot(5), KeyId::Rot(25)]), (&samples.relin[..], vec![KeyId::Relin])]
    {
        let mut from = 0;
        for id in ids {
            let key = session.get(id, NUM_Q).unwrap();
            assert_eq!(key.shape().num_p(), key.shape().moduli().len() - NUM_Q);
            for (part, digit, limb) in in_file_order(key.shape()) {
                // The file has N, the words and the modulus one after the other.
                let mut pattern = 16u64.to_le_bytes().to_vec();
                let words = key.row(Part::BOTH[part], digit, limb).unwrap();
                words.iter().chain([&key.shape().moduli()[limb]]).for_each(|word| pattern.extend(word.to_le_bytes()));
                let at = bytes[from..].windows(pattern.len()).position(|window| window == pattern).expect("the row");
                from += at + pattern.len();
            }
        }
    }
}

#[test]
fn a_file_with_more_or_other_keys_than_it_counts_is_refused() {
    let Some(samples) = openfhe::samples() else { return };
    let whole = &samples.rotations[..];
    assert_eq!(OpenFheKey::parse(whole, NUM_Q).unwrap().len(), 2);
    let set = |at: usize, byte: u8| {
        let mut changed = whole.to_vec();
        changed[at] = byte;
        changed
    };
    let second = whole.windows(8).position(|window| window == [25, 0, 0, 0, 1, 0, 0, 0]).unwrap();
    for (bytes, reason) in [
        (set(5, 1), "behind the last key"),
        ([whole, b"x"].concat(), "1 bytes behind the last key"),
        ([&samples.relin[..], b"x"].concat(), "1 bytes behind the last key"),
        ([&samples.context_rotations[..], whole].concat(), "behind the last key"),
        (set(second, 5), "the key of automorphism 5 behind that of 5"),
        (set(second, 3), "the key of automorphism 3 behind that of 5"),
    ] {
        let error = OpenFheKey::parse(&bytes[..], NUM_Q).err().expect(reason);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

fn in_file_order(shape: &penstock_store::Shape) -> Vec<(usize, usize, usize)> {
    let (digits, limbs) = (shape.digits(), shape.moduli().len());
    let digit = |part| (0..digits).flat_map(move |digit| (0..limbs).map(move |limb| (part, digit, limb)));
    (0..2).flat_map(digit).collect()
}

/// Every word of every row.
fn rows(key: &impl KeyContent) -> Vec<Vec<u64>> {
    let shape = key.shape();
    let row = |row| {
        let mut words = vec![0; shape.ring_dim()];
        key.fill(row, &mut words).unwrap();
        words
    };
    (0..shape.num_rows()).map(row).collect()
}

#[test]
fn what_a_context_keeps_is_named_by_what_the_file_says() {
    let Some(samples) = openfhe::samples() else { return };
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let alice = tenant("alice");
    let rotations =
        store.import_openfhe(&alice, &samples.context_rotations[..], Params::Limbs(NUM_Q), None, None).unwrap();
    assert_eq!(rotations.iter().map(|each| each.name.key).collect::<Vec<_>>(), [KeyId::Rot(5), KeyId::Rot(25)]);
    let relin = store.import_openfhe(&alice, &samples.context_relin[..], Params::Limbs(NUM_Q), None, None).unwrap();
    assert_eq!(relin.iter().map(|each| each.name.key).collect::<Vec<_>>(), [KeyId::Relin]);
    assert_eq!(relin[0].name.digest, rotations[0].name.digest);
    let wrong = store.import_openfhe(&alice, &samples.context_relin[..], Params::Limbs(NUM_Q), Some(KeyId::Conj), None);
    assert!(matches!(wrong, Err(Error::Segment(SegmentError::Value { .. }))));
    // The file is the list, followed by the content of a file of the key alone or of the map: tag and list are 48 or 56
    // bytes.
    let single = [&[1], &samples.context_relin[57..]].concat();
    let map = [&[1], &samples.context_rotations[49..]].concat();
    for (inside, whole) in [(&single[..], &samples.context_relin[..]), (&map[..], &samples.context_rotations[..])] {
        let inside = OpenFheKey::parse(inside, NUM_Q).unwrap();
        let whole = OpenFheKey::parse(whole, NUM_Q).unwrap();
        assert_eq!(inside.iter().map(rows).collect::<Vec<_>>(), whole.iter().map(rows).collect::<Vec<_>>());
    }
}

#[test]
fn keys_of_two_secrets_or_of_higher_powers_are_not_imported() {
    let Some(samples) = openfhe::samples() else { return };
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let keys = OpenFheKey::parse(&samples.two_secrets[..], NUM_Q).unwrap();
    let ids: Vec<_> = keys.iter().map(|key| key.id().unwrap()).collect();
    assert_eq!((ids.len(), ids.iter().filter(|id| **id == KeyId::Rot(5)).count()), (4, 2));
    let error =
        store.import_openfhe(&tenant("t"), &samples.two_secrets[..], Params::Limbs(NUM_Q), None, None).unwrap_err();
    assert!(
        matches!(&error, Error::WrongSecret { .. }) && error.to_string().contains("serialize one's keys"),
        "{error}"
    );
    let error = store.import_openfhe(&tenant("t"), &samples.powers[..], Params::Limbs(NUM_Q), None, None).unwrap_err();
    assert!(error.to_string().contains("power 3"), "{error}");
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn a_key_is_not_taken_from_another_secrets_list() {
    let Some(samples) = openfhe::samples() else { return };
    let tag = samples.context_rotations[17..49].to_vec();
    let mut swapped = samples.context_rotations.to_vec();
    swapped[17..49].copy_from_slice(&tag.iter().rev().copied().collect::<Vec<_>>());
    let error = OpenFheKey::parse(&swapped[..], NUM_Q).err().unwrap();
    assert!(error.to_string().contains("another secret key"), "{error}");
}

#[test]
fn a_file_is_imported_row_by_row_like_bytes_in_memory() {
    let Some(samples) = openfhe::samples() else { return };
    let folder = Folder::new();
    for bytes in [
        &samples.rotations[..],
        &samples.relin[..],
        &samples.context_rotations[..],
        &samples.context_relin[..],
        &samples.two_secrets[..],
    ] {
        let path = folder.path().join("keys.bin");
        std::fs::write(&path, bytes).unwrap();
        let file = KeyFile::open(&path).unwrap();
        let (from_file, from_memory) =
            (OpenFheKey::parse(&file, NUM_Q).unwrap(), OpenFheKey::parse(bytes, NUM_Q).unwrap());
        assert_eq!(from_file.len(), from_memory.len());
        for (file, memory) in from_file.iter().zip(&from_memory) {
            assert_eq!((file.id(), file.secret_tag()), (memory.id(), memory.secret_tag()));
            assert_eq!(rows(file), rows(memory));
        }
        // Cut anywhere, it is refused with the byte where it ends.
        for cut in (0..bytes.len()).step_by(97) {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(
                matches!(OpenFheKey::parse(&KeyFile::open(&path).unwrap(), NUM_Q), Err(Error::OpenFhe(_))),
                "{cut}"
            );
        }
        // Cut after it was opened: an error of the reading.
        std::fs::write(&path, bytes).unwrap();
        let file = KeyFile::open(&path).unwrap();
        let keys = OpenFheKey::parse(&file, NUM_Q).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let mut words = vec![0; 16];
        let last = keys[0].shape().row(1, 1, 3);
        assert!(matches!(keys[keys.len() - 1].fill(last, &mut words), Err(SegmentError::Source(_))));
    }
    assert!(matches!(KeyFile::open(folder.path()), Err(Error::Segment(SegmentError::Io { .. }))));
    assert!(matches!(KeyFile::open(folder.path().join("gone")), Err(Error::Segment(SegmentError::Io { .. }))));
}

#[test]
fn what_a_file_does_not_say_the_caller_has_to() {
    let Some(samples) = openfhe::samples() else { return };
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let import = |bytes, num_q, key| store.import_openfhe(&tenant("t"), bytes, Params::Limbs(num_q), key, None);
    assert!(matches!(import(&samples.relin[..], NUM_Q, None), Err(Error::Segment(SegmentError::Value { .. }))));
    assert!(matches!(
        import(&samples.rotations[..], NUM_Q, Some(KeyId::Relin)),
        Err(Error::Segment(SegmentError::Value { .. }))
    ));
    assert!(matches!(
        import(&samples.relin[..], 0, Some(KeyId::Relin)),
        Err(Error::Segment(SegmentError::Shape { .. }))
    ));
    assert!(matches!(
        import(&samples.relin[..], 99, Some(KeyId::Relin)),
        Err(Error::Segment(SegmentError::Shape { .. }))
    ));
    assert!(matches!(import(b"", NUM_Q, None), Err(Error::OpenFhe(_))));
    let other = penstock_store::synthetic::shape(16, NUM_Q, 2, 2);
    let refused = store.import_openfhe(&tenant("t"), &samples.relin[..], Params::Of(&other), Some(KeyId::Relin), None);
    assert!(matches!(refused, Err(Error::OtherParameters { .. })));
    assert!(store.list().unwrap().is_empty());
}

/// The file of one key without the limbs of Q from `limbs` on, as a key that was made at a level has it: each row lies
/// between its length (8 bytes, behind a mark of 5) and its modulus, format and pointer.
fn at_level(whole: &[u8], limbs: usize) -> Vec<u8> {
    let layout = parse_evaluation_key(whole).unwrap();
    let moduli = layout.moduli.len();
    let mut drop = vec![];
    let mut bytes = whole.to_vec();
    for part in Part::BOTH {
        for digit in 0..layout.dnum {
            let span = |limb| layout.row(part, digit, limb).unwrap().bytes.clone();
            // The first row of the file states the versions of a limb and a row.
            let first = (part, digit) == (Part::A, 0);
            let count = span(0).start - if first { 8 + 4 + 5 + 4 + 8 } else { 8 + 5 + 8 };
            assert_eq!(bytes[count..count + 8], (moduli as u64).to_le_bytes());
            bytes[count..count + 8].copy_from_slice(&((moduli - (NUM_Q - limbs)) as u64).to_le_bytes());
            for limb in limbs..NUM_Q {
                drop.push(span(limb).start - 13..span(limb + 1).start - 13);
            }
        }
    }
    for range in drop.into_iter().rev() {
        bytes.drain(range);
    }
    bytes
}

#[test]
fn a_key_that_was_made_at_a_level_is_a_truncated_key_of_its_parameters() {
    let Some(samples) = openfhe::samples() else { return };
    let whole = &OpenFheKey::parse(&samples.relin[..], NUM_Q).unwrap()[0];
    let shape = whole.shape().clone();
    for limbs in 1..NUM_Q {
        let folder = Folder::new();
        let (store, _) = open(folder.path());
        let bytes = at_level(&samples.relin, limbs);
        let imported =
            store.import_openfhe(&tenant("t"), &bytes[..], Params::Of(&shape), Some(KeyId::Relin), None).unwrap();
        let name = imported[0].name.clone();
        assert_eq!(name.digest, shape.digest());
        assert_eq!(store.entry(&name).unwrap().layout, Layout { limbs, seeded: false });
        let cache = Cache::new(Arc::new(store), Options::new(1 << 20)).unwrap();
        let session = cache.session(tenant("t"), shape.digest());
        let key = session.get(KeyId::Relin, limbs).unwrap();
        let mut words = vec![0; shape.ring_dim()];
        for row in shape.rows_needed(limbs).into_iter().flatten() {
            let (part, digit, limb) = shape.place(row);
            whole.fill(row, &mut words).unwrap();
            assert_eq!(key.row(Part::BOTH[part], digit, limb).unwrap(), words, "{}", shape.describe(row));
        }
        assert!(matches!(session.get(KeyId::Relin, limbs + 1), Err(Error::AboveRows { .. })));
    }
    // A whole key is whole, and other moduli are another set.
    assert_eq!(OpenFheKey::parse_for(&samples.relin[..], &shape, None).unwrap()[0].form().limbs, NUM_Q);
    let mut cut = at_level(&samples.relin, 2);
    let p = shape.moduli()[NUM_Q].to_le_bytes();
    while let Some(at) = cut.windows(8).position(|window| window == p) {
        cut[at..at + 8].copy_from_slice(&shape.moduli()[2].to_le_bytes());
    }
    assert!(matches!(
        OpenFheKey::parse_for(&cut[..], &shape, None),
        Err(Error::Segment(SegmentError::Shape { .. }) | Error::OtherParameters { .. })
    ));
}

/// Imports up to the point of writing: parses, checks every word, and makes the header.
fn check(bytes: &[u8], num_q: usize) -> bool {
    let Ok(keys) = OpenFheKey::parse(bytes, num_q) else { return false };
    keys.iter().all(|key| {
        let id = key.id().unwrap_or(KeyId::Relin);
        let name = KeyName::new(tenant("t"), key.shape().digest(), id);
        Checked::new(name, key).is_ok()
    })
}

/// One damaged input: bits, bytes, words that mean something, cuts, repeats, moves.
fn damage(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=random.below(3) {
        let length = bytes.len() as u64;
        // Half of all damage is in the first 2 KiB, where the structure is.
        let within = if random.below(2) == 0 { length.min(2048) } else { length };
        let at = random.below(within.max(1)) as usize;
        let word = [0, 1, 2, 15, 16, 17, 32, 1 << 20, 1 << 31, 1 << 32, 1 << 62, u64::MAX, random.next_word()];
        let word = word[random.below(13) as usize].to_le_bytes();
        match random.below(8) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < bytes.len() => bytes[at] = random.next_word() as u8,
            3 | 4 if at + 8 <= bytes.len() => bytes[at..at + 8].copy_from_slice(&word),
            5 if at + 4 <= bytes.len() => bytes[at..at + 4].copy_from_slice(&word[..4]),
            6 => bytes.truncate(at),
            _ => {
                let end = (at + 1 + random.below(600) as usize).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                if random.below(2) == 0 {
                    bytes.splice(at.min(end)..at.min(end), piece); // twice
                } else {
                    bytes.drain(at.min(end)..end); // not at all
                }
            }
        }
    }
    bytes
}

/// `PENSTOCK_FUZZ_RUNS` runs, 2,000 where it is not set: none may panic. In release mode a million take minutes.
#[test]
fn damaged_bytes_are_refused_or_imported_and_never_panic() {
    let Some(samples) = openfhe::samples() else { return };
    let runs: u64 = std::env::var("PENSTOCK_FUZZ_RUNS").map_or(2_000, |runs| runs.parse().unwrap());
    let inputs = [
        &samples.rotations[..],
        &samples.relin[..],
        &samples.context_rotations[..],
        &samples.context_relin[..],
        &samples.two_secrets[..],
    ];
    assert!(inputs.iter().all(|bytes| check(bytes, NUM_Q)));
    let (passed, done) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (passed, done) = (&passed, &done);
            scope.spawn(move || {
                let mut random = Random::new(0xf0 + worker);
                for _ in 0..runs / 2 {
                    let whole = inputs[random.below(inputs.len() as u64) as usize];
                    let bytes = damage(whole, &mut random);
                    let num_q = if random.below(8) == 0 { random.below(8) as usize } else { NUM_Q };
                    passed.fetch_add(u64::from(check(&bytes, num_q)), Ordering::Relaxed);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (passed, done) = (passed.into_inner(), done.into_inner());
    println!("{done} damaged inputs: {passed} were still keys, {} refused, none panicked", done - passed);
    // Some damage hits skipped bytes (the context) or makes another word below its modulus; most does not.
    assert!(passed > 0 && passed < done, "the damage is all or nothing: {passed} of {done}");
}
