//! Keys with a seed in the place of part A, keys whose rows end below the top of the chain, and both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{Folder, file, flip, key, name, open, small, tenant};
use penstock_ckks::{KeyView, Part};
use penstock_store::synthetic::{FormedKey, Random};
use penstock_store::{
    Cache, Error, Form, Header, KeyContent, KeyId, Layout, Options, Policy, Reader, Seed, SegmentError, Shape, Store,
    Use, write_segment,
};
use xxhash_rust::xxh3::xxh3_64;

const FORMS: [(usize, bool); 5] = [(6, false), (6, true), (4, false), (4, true), (1, true)];

fn formed(owner: &str, id: KeyId, (limbs, seeded): (usize, bool)) -> FormedKey {
    let key = key(owner, id);
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&key.seed.to_le_bytes());
    FormedKey { key, form: Form { limbs, seed: seeded.then_some(Seed(seed)) } }
}

fn rot(number: usize) -> KeyId {
    KeyId::Rot(2 * number as u64 + 3)
}

/// A store with one key of alice's for each form.
fn store(folder: &Path) -> Store {
    let (store, _) = open(folder);
    for (number, form) in FORMS.into_iter().enumerate() {
        store.import(&tenant("alice"), rot(number), &formed("alice", rot(number), form)).unwrap();
    }
    store
}

/// Every row of a get is the content's. There are only the rows of a key switch at these limbs.
fn check(got: &penstock_store::PinnedKey, content: &FormedKey) {
    for row in 0..small().num_rows() {
        let (part, digit, limb) = small().place(row);
        let wanted = small().rows_needed(got.limbs()).iter().any(|run| run.contains(&row));
        let found = got.row(Part::BOTH[part], digit, limb);
        assert_eq!(found.is_some(), wanted, "{}", small().describe(row));
        assert!(found.is_none_or(|words| words == content.words(row)), "{}", small().describe(row));
    }
}

/// Gives a header that was changed a good checksum again.
fn seal(bytes: &mut [u8]) {
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let checksum = xxh3_64(&bytes[..length - 8]);
    bytes[length - 8..length].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn a_file_of_each_form_has_its_stored_rows_and_no_others() {
    let folder = Folder::new();
    store(folder.path());
    for (number, form) in FORMS.into_iter().enumerate() {
        let content = formed("alice", rot(number), form);
        let bytes = fs::read(file(folder.path(), "alice", rot(number))).unwrap();
        let layout = Layout { limbs: form.0, seeded: form.1 };
        assert_eq!(bytes.len() as u64, Header::segment_bytes(&small(), layout));
        let stored = (0..small().num_rows()).filter(|&row| layout.stored(&small(), row).is_some());
        let rows: Vec<u8> = stored.flat_map(|row| content.words(row)).flat_map(u64::to_le_bytes).collect();
        assert!(bytes[Header::encoded_bytes(&small(), layout)..] == rows, "{form:?}"); // N = 512: rows fill their pages
        assert_eq!(u32::from(bytes[8]), if form == (6, false) { 1 } else { 2 });
    }
}

#[test]
fn gets_of_each_form_have_the_words_of_its_key_and_read_the_stored_rows() {
    for reader in [Reader::Uring, Reader::Pread] {
        let folder = Folder::new();
        store(folder.path());
        let Ok((store, _)) = Store::open_folder(folder.path(), reader, true) else { continue };
        let store = Arc::new(store);
        for (number, form) in FORMS.into_iter().enumerate() {
            let content = formed("alice", rot(number), form);
            let layout = content.form().layout();
            for limbs in 1..=form.0 {
                let cache = Cache::new(store.clone(), Options::new(1 << 20)).unwrap();
                let session = cache.session(tenant("alice"), small().digest());
                check(&session.get(rot(number), limbs).unwrap(), &content);
                let stats = cache.stats();
                assert_eq!(stats.read_bytes, layout.stored_bytes(&small(), limbs));
                assert_eq!(stats.read_bytes + stats.expanded_bytes, small().bytes_needed(limbs));
                assert_eq!(stats.resident_bytes, small().bytes_needed(limbs));
                // And then the difference alone.
                check(&session.get(rot(number), form.0).unwrap(), &content);
                assert_eq!(cache.stats().read_bytes, layout.stored_bytes(&small(), form.0));
            }
        }
    }
}

#[test]
fn random_gets_of_all_forms_under_a_budget_have_the_right_words() {
    let folder = Folder::new();
    let store = Arc::new(store(folder.path()));
    for (seed, policy) in [(1, Policy::Future), (2, Policy::Lru), (3, Policy::Future)] {
        let mut random = Random::new(seed);
        let mut one = |_| {
            let number = random.below(5) as usize;
            (number, 1 + random.below(FORMS[number].0 as u64) as usize)
        };
        let uses: Vec<(usize, usize)> = (0..150).map(&mut one).collect();
        let prefetch_uses = if seed == 3 { 0 } else { 8 };
        let options = Options { policy, prefetch_uses, ..Options::new(2 * small().bytes_needed(6)) };
        let cache = Cache::new(store.clone(), options).unwrap();
        let plan = cache.plan(uses.iter().map(|&(at, limbs)| Use { name: name("alice", rot(at)), limbs }).collect(), 0);
        let session = cache.session(tenant("alice"), small().digest()).following(&plan);
        for (number, limbs) in uses {
            check(&session.get(rot(number), limbs).unwrap(), &formed("alice", rot(number), FORMS[number]));
        }
        let stats = cache.stats();
        assert!(stats.expanded_bytes > 0 && stats.peak_resident_bytes <= options.budget_bytes);
        let kept = stats.resident_bytes + stats.evicted_bytes + stats.dropped_bytes;
        assert_eq!(stats.read_bytes + stats.expanded_bytes, kept);
        assert_eq!(stats.failures, 0);
    }
}

#[test]
fn a_truncated_key_above_its_rows_is_an_error_that_moves_nothing() {
    let folder = Folder::new();
    let cache = Cache::new(Arc::new(store(folder.path())), Options::new(small().bytes_needed(6))).unwrap();
    let session = cache.session(tenant("alice"), small().digest());
    session.get(rot(0), 6).unwrap(); // fills the budget
    let before = cache.stats();
    for (number, limbs) in [(2, 5), (3, 6), (4, 2)] {
        let error = session.get(rot(number), limbs).err().unwrap();
        let has = FORMS[number].0;
        assert!(matches!(&error, Error::AboveRows { has: found, .. } if *found == has), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("up to {has} limbs, and {limbs} were asked for")), "{text}");
    }
    let after = cache.stats();
    assert_eq!((after.read_bytes, after.evictions), (before.read_bytes, 0));
    // Limbs that no key of the set has are another error.
    assert!(matches!(session.get(rot(2), 7).err().unwrap(), Error::Segment(SegmentError::Value { .. })));
    // A plan above the rows fails nothing but that read ahead, and the get says why.
    let plan = cache.plan(vec![Use { name: name("alice", rot(4)), limbs: 3 }], 0);
    let error = session.following(&plan).get(rot(4), 3).err().unwrap();
    assert!(matches!(error, Error::AboveRows { .. }));
    assert!(session.get(rot(4), 1).is_ok());
}

#[test]
fn a_single_row_is_read_or_expanded_and_one_that_the_key_has_not_is_refused() {
    let folder = Folder::new();
    let store = store(folder.path());
    for (number, form) in FORMS.into_iter().enumerate() {
        let (content, layout) = (formed("alice", rot(number), form), Layout { limbs: form.0, seeded: form.1 });
        let segment = store.segment(&name("alice", rot(number))).unwrap();
        for row in 0..small().num_rows() {
            let found = segment.row(row);
            if layout.number(&small(), row).is_some() {
                assert!(found.unwrap().words()[..small().ring_dim()] == *content.words(row), "{form:?} {row}");
            } else {
                assert!(matches!(found.err(), Some(Error::AboveRows { has, .. }) if has == form.0), "{form:?} {row}");
            }
        }
    }
}

#[test]
fn a_full_key_replaces_a_truncated_one_and_the_other_way_round() {
    let folder = Folder::new();
    let store = Arc::new(store(folder.path()));
    let cache = Cache::new(store.clone(), Options::new(1 << 20)).unwrap();
    let session = cache.session(tenant("alice"), small().digest());
    for form in [(2, true), (6, false), (3, false), (6, true)] {
        let content = formed("alice", rot(0), form);
        assert!(store.import(&tenant("alice"), rot(0), &content).unwrap().replaced);
        check(&session.get(rot(0), form.0).unwrap(), &content);
        assert_eq!(session.get(rot(0), 6).is_ok(), form.0 == 6);
        assert!(store.verify(&store.entry(&name("alice", rot(0))).unwrap()).fault.is_none());
    }
}

#[test]
fn a_flipped_bit_in_any_stored_row_is_found() {
    let folder = Folder::new();
    let store = store(folder.path());
    let mut random = Random::new(11);
    for (number, form) in FORMS.into_iter().enumerate() {
        let layout = Layout { limbs: form.0, seeded: form.1 };
        let path = file(folder.path(), "alice", rot(number));
        let entry = store.entry(&name("alice", rot(number))).unwrap();
        for stored in 0..layout.num_stored(&small()) {
            let start = Header::encoded_bytes(&small(), layout) + stored * small().row_stride();
            let bit = start as u64 * 8 + random.below(small().row_bytes() as u64 * 8);
            flip(&path, bit);
            let verified = store.verify(&entry);
            let row = layout.row(&small(), stored);
            assert!(
                matches!(verified.fault, Some(Error::Segment(SegmentError::DamagedRow { row: found, .. })) if found == row),
                "{form:?} {row}"
            );
            assert_eq!(verified.damaged_rows, 1);
            flip(&path, bit);
        }
        assert!(store.verify(&entry).fault.is_none());
    }
}

#[test]
fn a_changed_seed_is_found_whether_or_not_the_header_was_sealed_again() {
    let folder = Folder::new();
    let path = file(folder.path(), "alice", rot(1));
    let store = store(folder.path());
    let whole = fs::read(&path).unwrap();
    flip(&path, 210 * 8);
    let error = store.segment(&name("alice", rot(1))).err().unwrap();
    assert!(error.to_string().contains("it differs from its checksum"), "{error}");
    // With a good checksum the header is not the one that the index names.
    let mut sealed = fs::read(&path).unwrap();
    seal(&mut sealed);
    fs::write(&path, &sealed).unwrap();
    assert!(matches!(
        store.segment(&name("alice", rot(1))),
        Err(Error::Segment(SegmentError::WrongKey { field: "header", .. }))
    ));
    // Without the index, the rows that it expands into differ from their checksums.
    drop(store);
    fs::remove_file(folder.path().join("index.sqlite")).unwrap();
    let (store, opening) = open(folder.path());
    assert_eq!(opening.adopted.len(), FORMS.len());
    let cache = Cache::new(Arc::new(store), Options::new(1 << 20)).unwrap();
    let session = cache.session(tenant("alice"), small().digest());
    let error = session.get(rot(1), 1).err().unwrap();
    assert!(matches!(&error, Error::Segment(SegmentError::DamagedRow { .. })), "{error}");
    assert!(error.to_string().contains("expanded from the seed"), "{error}");
    fs::write(&path, &whole).unwrap();
    let (store, _) = open(folder.path());
    store.gc(None, false).unwrap(); // the index row is put anew
    assert!(store.verify(&store.entry(&name("alice", rot(1))).unwrap()).fault.is_none());
}

#[test]
fn a_seed_of_another_key_tenant_or_pair_is_not_taken_for_the_keys_own() {
    // The seed, the header's checksum and all of part B are in order; the rows were made for another identity.
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let one = formed("alice", rot(1), (6, true));
    store.import(&tenant("alice"), rot(1), &one).unwrap();
    let bytes = fs::read(file(folder.path(), "alice", rot(1))).unwrap();
    let elsewhere = folder.path().join("elsewhere.pkey");
    for (at, value) in [(65, b'b'), (56, 7), (130, b'T')] {
        let mut forged = bytes.clone();
        forged[at] = value;
        seal(&mut forged);
        fs::write(&elsewhere, &forged).unwrap();
        let error = store.import_segment(&elsewhere, None, None, false).unwrap_err();
        assert!(matches!(&error, Error::Segment(SegmentError::DamagedRow { .. })), "{at}: {error}");
    }
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn a_given_segment_becomes_the_stores_own_file() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let path = folder.path().join("given.pkey");
    write_segment(&path, &tenant("alice"), rot(1), &formed("alice", rot(1), FORMS[0])).unwrap();
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let own = file(folder.path(), "alice", rot(1));
    for replaced in [false, true, true] {
        let imported = store.import_segment(&path, Some(&tenant("alice")), Some(small().digest()), true).unwrap();
        assert_eq!(imported.replaced, replaced);
        assert_eq!(inode(&path), inode(&own));
        assert_eq!(fs::read_dir(own.parent().unwrap()).unwrap().count(), 1);
    }
    assert!(store.verify(&store.entry(&name("alice", rot(1))).unwrap()).fault.is_none());
    fs::remove_file(&path).unwrap();

    // A damaged one is refused as ever.
    let bytes = fs::read(&own).unwrap();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert!(store.import_segment(&path, None, None, true).is_err());
    assert!(fs::read(&own).unwrap() == bytes);
}

#[test]
fn a_segment_from_elsewhere_is_imported_as_it_is() {
    let (folder, outside) = (Folder::new(), Folder::new());
    let (store, _) = open(folder.path());
    for (number, form) in FORMS.into_iter().enumerate() {
        let (content, path) = (formed("alice", rot(number), form), outside.path().join(format!("{number}.pkey")));
        let bytes = write_segment(&path, &tenant("alice"), rot(number), &content).unwrap();
        assert_eq!(bytes, fs::metadata(&path).unwrap().len());
        for replaced in [false, true] {
            let imported = store.import_segment(&path, Some(&tenant("alice")), Some(small().digest()), false).unwrap();
            assert_eq!(
                (imported.name, imported.bytes, imported.replaced),
                (name("alice", rot(number)), bytes, replaced)
            );
        }
        assert!(fs::read(&path).unwrap() == fs::read(file(folder.path(), "alice", rot(number))).unwrap());
        let entry = store.entry(&name("alice", rot(number))).unwrap();
        assert_eq!((entry.layout.limbs, entry.layout.seeded), form);
        assert!(store.verify(&entry).fault.is_none());
    }
}

#[test]
fn a_segment_from_elsewhere_that_is_not_whole_changes_nothing() {
    let (folder, outside) = (Folder::new(), Folder::new());
    let (store, _) = open(folder.path());
    let path = outside.path().join("key.pkey");
    let mut random = Random::new(5);
    for form in FORMS {
        let content = formed("alice", rot(1), form);
        write_segment(&path, &tenant("alice"), rot(1), &content).unwrap();
        let whole = fs::read(&path).unwrap();
        let import = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            store.import_segment(&path, None, None, false).unwrap_err()
        };
        for _ in 0..20 {
            let mut flipped = whole.clone();
            flipped[random.below(whole.len() as u64) as usize] ^= 1 << random.below(8);
            assert!(import(&flipped).is_damage());
        }
        for length in [0, 7, 4095, 4096, 5000, whole.len() - 4096, whole.len() - 1] {
            assert!(import(&whole[..length]).is_damage(), "{length}");
        }
        assert!(import(&[&whole[..], &[0]].concat()).is_damage());
        let mut newer = whole.clone();
        newer[8] = 5;
        seal(&mut newer);
        let error = import(&newer);
        assert!(matches!(error, Error::Segment(SegmentError::NewerVersion { version: 5, .. })), "{error}");
        fs::write(&path, &whole).unwrap();
        for (tenant, digest) in
            [(Some(tenant("bob")), None), (None, Some(penstock_store::synthetic::shape(512, 5, 2, 3).digest()))]
        {
            let error = store.import_segment(&path, tenant.as_ref(), digest, false).unwrap_err();
            assert!(
                matches!(error, Error::Segment(SegmentError::Source(_)) | Error::OtherParameters { .. }),
                "{error}"
            );
        }
        assert!(store.list().unwrap().is_empty());
        assert!(!file(folder.path(), "alice", rot(1)).exists());
    }
}

#[test]
fn a_segment_from_elsewhere_with_a_word_above_its_modulus_is_refused() {
    /// Its words are checked by nobody before: the header is written by hand.
    struct Wild(FormedKey);
    impl KeyContent for Wild {
        fn shape(&self) -> &Shape {
            self.0.shape()
        }
        fn secret_tag(&self) -> &str {
            self.0.secret_tag()
        }
        fn form(&self) -> Form {
            self.0.form
        }
        fn fill(&self, row: usize, words: &mut [u64]) -> Result<(), SegmentError> {
            self.0.fill(row, words)?;
            words[3] = small().modulus(row);
            Ok(())
        }
    }
    let (folder, outside) = (Folder::new(), Folder::new());
    let (store, _) = open(folder.path());
    let path = outside.path().join("key.pkey");
    let content = formed("alice", rot(1), (6, true));
    assert!(write_segment(&path, &tenant("alice"), rot(1), &Wild(content.clone())).is_err());
    assert!(!path.exists());
    write_segment(&path, &tenant("alice"), rot(1), &content).unwrap();
    // A forger who knows the format: the word, its row's checksum and the header's checksum fit.
    let mut bytes = fs::read(&path).unwrap();
    let mut header =
        Header::decode("x", &bytes[..8192.min(bytes.len())]).or_else(|_| Header::decode("x", &bytes[..4096])).unwrap();
    let (row, layout) = (small().row(1, 0, 6), header.layout());
    let start = header.stored_offset(layout.stored(&small(), row).unwrap()) as usize;
    bytes[start..start + 8].copy_from_slice(&small().modulus(row).to_le_bytes());
    let number = layout.number(&small(), row).unwrap();
    let words = &bytes[start..start + small().row_bytes()];
    header.row_checksums[number] = header.row_checksum(row, words);
    bytes[..header.encode().len()].copy_from_slice(&header.encode());
    fs::write(&path, &bytes).unwrap();
    let error = store.import_segment(&path, None, None, false).unwrap_err();
    assert!(error.to_string().contains("not below its modulus"), "{error}");
    assert!(store.list().unwrap().is_empty());
}
