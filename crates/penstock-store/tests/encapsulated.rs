//! The keys to and from an ephemeral sparse secret: stored, used under a budget, and in OpenFHE's bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use common::{Folder, flip, key, open, openfhe, small, tenant};
use penstock_ckks::openfhe_bytes::{
    ContextDescription, EvaluationKeyBytes, KeyFileLayout, Part, SecretDistribution, parse_evaluation_keys, read_row,
};
use penstock_ckks::{KeyView, Scaling};
use penstock_store::synthetic::{FormedKey, Random};
use penstock_store::{
    Cache, Error, Form, Header, KeyContent, KeyId, KeyName, OpenFheKey, Options, Params, Policy, Seed, SegmentError,
    Session, Shape, Store, Use, minimal_roots, write_segment,
};

const ROW: u64 = 4096;

/// A synthetic key to the sparse secret, which has its own shape.
fn to_sparse(seeded: bool) -> FormedKey {
    let mut key = key("alice", KeyId::ToSparse);
    key.shape = small().for_key(KeyId::ToSparse).unwrap();
    FormedKey { key, form: Form { limbs: 1, seed: seeded.then_some(Seed([5; 32])) } }
}

fn to_dense(limbs: usize, seeded: bool) -> FormedKey {
    FormedKey { key: key("alice", KeyId::ToDense), form: Form { limbs, seed: seeded.then_some(Seed([6; 32])) } }
}

fn name(id: KeyId) -> KeyName {
    KeyName::new(tenant("alice"), small().digest(), id)
}

fn import(store: &Store, seeded: bool, limbs: usize) {
    store.import(&tenant("alice"), KeyId::Rot(5), &key("alice", KeyId::Rot(5))).unwrap();
    store.import(&tenant("alice"), KeyId::ToSparse, &to_sparse(seeded)).unwrap();
    store.import(&tenant("alice"), KeyId::ToDense, &to_dense(limbs, seeded)).unwrap();
}

fn session(store: Store, options: Options) -> (Cache, Session) {
    let cache = Cache::new(Arc::new(store), options).unwrap();
    let session = cache.session(tenant("alice"), small().digest());
    (cache, session)
}

fn check(got: &penstock_store::PinnedKey, content: &FormedKey) {
    let shape = &content.key.shape;
    assert_eq!(got.shape(), shape);
    for row in 0..shape.num_rows() {
        let (part, digit, limb) = shape.place(row);
        let wanted = shape.rows_needed(got.limbs()).iter().any(|run| run.contains(&row));
        let found = got.row(Part::BOTH[part], digit, limb);
        assert_eq!(found.is_some(), wanted, "{}", shape.describe(row));
        assert!(found.is_none_or(|words| words == content.words(row)), "{}", shape.describe(row));
    }
}

#[test]
fn one_session_gives_all_keys_of_a_set_whatever_their_shapes() {
    for (seeded, limbs) in [(false, 6), (true, 3)] {
        let folder = Folder::new();
        import(&open(folder.path()).0, seeded, limbs);
        // Opened again: from the index alone, and from the files alone.
        for without_index in [false, true] {
            if without_index {
                fs::remove_file(folder.path().join("index.sqlite")).unwrap();
            }
            let (store, opening) = open(folder.path());
            assert_eq!(opening.adopted.len(), if without_index { 3 } else { 0 });
            let names: Vec<String> = store.list().unwrap().iter().map(|entry| entry.name.key.to_string()).collect();
            assert_eq!(names, ["rot:5", "to-dense", "to-sparse"]);
            let entry = store.entry(&name(KeyId::ToSparse)).unwrap();
            let file = folder.path().join(name(KeyId::ToSparse).path());
            assert_eq!(fs::metadata(&file).unwrap().len(), entry.bytes());
            assert_eq!(entry.bytes(), ROW + if seeded { 3 } else { 6 } * ROW);
            assert_eq!((entry.shape.set(), entry.stored_bytes(1)), (&small(), entry.bytes() - ROW));
            assert!(store.list().unwrap().iter().all(|entry| store.verify(entry).fault.is_none()));
            let (cache, session) = session(store, Options::new(1 << 20));
            check(&session.get(KeyId::ToSparse, 1).unwrap(), &to_sparse(seeded));
            assert_eq!(cache.stats().resident_bytes, 6 * ROW);
            check(&session.get(KeyId::ToDense, limbs).unwrap(), &to_dense(limbs, seeded));
            let error = session.get(KeyId::ToSparse, 2).err().unwrap();
            assert!(error.to_string().contains("limbs is 2"), "{error}");
        }
    }
}

#[test]
fn files_of_both_keys_have_version_3_and_damage_in_them_is_found() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    import(&store, true, 3);
    for id in [KeyId::ToSparse, KeyId::ToDense] {
        let file = folder.path().join(name(id).path());
        assert_eq!(fs::read(&file).unwrap()[8], 3);
        flip(&file, 8 * (ROW + 100));
        let verified = store.verify(&store.entry(&name(id)).unwrap());
        assert!(
            matches!(verified.fault, Some(Error::Segment(SegmentError::DamagedRow { .. }))),
            "{:?}",
            verified.fault
        );
        assert_eq!(verified.damaged_rows, 1);
    }
    let place = store.verify(&store.entry(&name(KeyId::ToSparse)).unwrap()).fault.unwrap().to_string();
    assert!(place.contains("part B, digit 0, limb 0 of P"), "{place}");
}

#[test]
fn a_segment_file_of_each_is_imported_elsewhere() {
    let folder = Folder::new();
    let (path, elsewhere) = (folder.path().join("one.pkey"), folder.path().join("store"));
    let (store, _) = open(&elsewhere);
    for (id, content) in [(KeyId::ToSparse, to_sparse(true)), (KeyId::ToDense, to_dense(3, true))] {
        write_segment(&path, &tenant("alice"), id, &content).unwrap();
        store.import_segment(&path, Some(&tenant("alice")), Some(small().digest()), false).unwrap();
        let (_, session) = session(open(&elsewhere).0, Options::new(1 << 20));
        check(&session.get(id, content.form.limbs).unwrap(), &content);
    }
    // A key of the set's shape is none to the sparse secret.
    let wrong = store.import(&tenant("alice"), KeyId::ToSparse, &key("alice", KeyId::ToSparse));
    assert!(matches!(wrong, Err(Error::Segment(SegmentError::Value { .. }))));
}

/// Bytes of a key at its limbs.
fn bytes(id: KeyId, limbs: usize) -> u64 {
    match (id, limbs) {
        (_, 0) => 0,
        (KeyId::ToSparse, _) => 6 * ROW,
        _ => (limbs.div_ceil(2) * 2 * (limbs + 2)) as u64 * ROW,
    }
}

#[test]
fn a_budget_holds_with_keys_of_two_shapes_read_ahead_or_not() {
    let folder = Folder::new();
    import(&open(folder.path()).0, true, 6);
    let mut random = Random::new(3);
    let all = [KeyId::Rot(5), KeyId::ToSparse, KeyId::ToDense];
    let trace: Vec<(KeyId, usize)> = (0..300)
        .map(|_| match all[random.below(3) as usize] {
            KeyId::ToSparse => (KeyId::ToSparse, 1),
            id => (id, 1 + random.below(6) as usize),
        })
        .collect();
    let contents = BTreeMap::from([
        (KeyId::Rot(5), FormedKey { key: key("alice", KeyId::Rot(5)), form: Form::full(&small()) }),
        (KeyId::ToSparse, to_sparse(true)),
        (KeyId::ToDense, to_dense(6, true)),
    ]);
    let budget = bytes(KeyId::Rot(5), 6) + 3 * ROW; // two whole keys never fit
    for (policy, prefetch_uses) in [(Policy::Lru, 0), (Policy::Future, 0), (Policy::Future, 8)] {
        let options = Options { policy, prefetch_uses, ..Options::new(budget) };
        let (cache, session) = session(open(folder.path()).0, options);
        let plan = cache.plan(trace.iter().map(|&(key, limbs)| Use { name: name(key), limbs }).collect(), 0);
        let session = session.following(&plan);
        let (mut requested, mut most) = (0, 0);
        for &(id, limbs) in &trace {
            let got = session.get(id, limbs).unwrap();
            check(&got, &contents[&id]);
            requested += bytes(id, limbs);
            most = most.max(cache.stats().resident_bytes);
        }
        drop(plan);
        let stats = cache.stats();
        assert!(stats.evictions > 0 && most <= budget && stats.peak_resident_bytes <= budget, "{stats:?}");
        assert_eq!((stats.requested_bytes, stats.failures, stats.unplanned), (requested, 0, 0));
        if prefetch_uses == 0 {
            assert_eq!(stats.read_bytes + stats.expanded_bytes, stats.resident_bytes + stats.evicted_bytes);
        }
    }
    let (_, session) = session(open(folder.path()).0, Options::new(5 * ROW));
    let error = session.get(KeyId::ToSparse, 1).err().unwrap();
    assert!(matches!(error, Error::Budget { needed, .. } if needed == 6 * ROW), "{error}");
}

/// The keys of a file by their numbers, with every word.
type Words = BTreeMap<u32, (Vec<u64>, Vec<Vec<u64>>)>;

fn words(bytes: &[u8]) -> Words {
    let rows = |key: &EvaluationKeyBytes| {
        let places = Part::BOTH.into_iter().flat_map(|part| (0..key.dnum).map(move |digit| (part, digit)));
        let limbs = key.moduli.len();
        places
            .flat_map(|(part, digit)| (0..limbs).map(move |limb| (part, digit, limb)))
            .map(|(part, digit, limb)| {
                let mut words = vec![0; key.ring_dim];
                read_row(bytes, key.row(part, digit, limb).unwrap(), limb, &mut words).unwrap();
                words
            })
            .collect()
    };
    let keys = parse_evaluation_keys(bytes).unwrap();
    keys.iter().map(|key| (key.galois_element.unwrap(), (key.moduli.clone(), rows(key)))).collect()
}

/// Limbs of Q of the sample, whose first special prime is the first of 60 bits behind q_0.
fn num_q(moduli: &[u64]) -> usize {
    1 + moduli[1..].iter().position(|modulus| modulus >> 55 != 0).unwrap()
}

fn described(shape: &Shape) -> ContextDescription {
    let mut roots = minimal_roots(shape).unwrap();
    roots.truncate(shape.num_q());
    ContextDescription {
        ring_dim: shape.ring_dim(),
        moduli: shape.moduli()[..shape.num_q()].to_vec(),
        roots,
        slots: 8,
        scale_bits: 50,
        depth: shape.num_q() as u32 - 1,
        dnum: shape.digits() as u32,
        scaling: Scaling::FlexibleAuto,
        secret: SecretDistribution::SparseEncapsulated,
        security: None,
    }
}

#[test]
fn openfhes_map_comes_in_and_goes_out_word_by_word() {
    let Some(samples) = openfhe::samples() else { return };
    let (tag, alice) = (&samples.encapsulated_tag, tenant("alice"));
    let expected = words(&samples.context_encapsulated);
    assert_eq!(expected, words(&samples.encapsulated));
    let (to_sparse, to_dense) = (expected[&1020].0.clone(), expected[&1022].0.clone());
    assert_eq!(to_sparse.len(), 3);
    for bytes in [&samples.context_encapsulated, &samples.encapsulated] {
        let folder = Folder::new();
        let (store, _) = open(folder.path());
        let imported = store.import_openfhe(&alice, &bytes[..], Params::Limbs(num_q(&to_dense)), None, None).unwrap();
        let entries = store.list().unwrap();
        assert!(entries.iter().all(|entry| entry.secret_tag == *tag && store.verify(entry).fault.is_none()));
        let entry = store.entry(&KeyName { key: KeyId::ToSparse, ..imported[0].name.clone() }).unwrap();
        assert_eq!(entry.shape.moduli(), to_sparse);
        assert_eq!(entry.bytes(), ROW + 6 * ROW);
        let keys: Vec<KeyId> = imported.iter().map(|each| each.name.key).collect();
        assert_eq!(keys[keys.len() - 3..], [KeyId::ToSparse, KeyId::ToDense, KeyId::Conj]);
        let names: Vec<KeyName> = imported.into_iter().map(|each| each.name).collect();
        let mut out = vec![];
        store.export_openfhe(&names, &described(entry.shape.set()), KeyFileLayout::Objects, &mut out).unwrap();
        assert_eq!(words(&out), expected);
        // Chosen ones of a file.
        let chosen = Folder::new();
        let (chosen, _) = open(chosen.path());
        let limbs = Params::Limbs(num_q(&to_dense));
        let some = |only: &[KeyId]| chosen.import_openfhe(&alice, &bytes[..], limbs, None, Some(only));
        assert_eq!(some(&[KeyId::ToDense, KeyId::ToSparse]).unwrap().len(), 2);
        assert_eq!(chosen.list().unwrap().len(), 2);
        assert!(some(&[KeyId::ToDense, KeyId::Relin]).unwrap_err().to_string().contains("does not hold it"));
        // Both keys alone, in a file of their own, and back.
        let both: Vec<KeyName> =
            names.into_iter().filter(|name| matches!(name.key, KeyId::ToSparse | KeyId::ToDense)).collect();
        for names in [&both[..], &both[..1]] {
            let mut out = vec![];
            store.export_openfhe(names, &described(entry.shape.set()), KeyFileLayout::Objects, &mut out).unwrap();
            let again = Folder::new();
            let (again, _) = open(again.path());
            let imported = again.import_openfhe(&alice, &out[..], Params::Of(entry.shape.set()), None, None).unwrap();
            assert_eq!(imported.iter().map(|each| each.name.clone()).collect::<Vec<_>>(), names);
            assert!(again.list().unwrap().iter().all(|entry| entry.secret_tag == *tag));
        }
    }
}

#[test]
fn a_key_to_the_sparse_secret_needs_its_parameters_and_has_their_moduli() {
    let Some(samples) = openfhe::samples() else { return };
    let bytes = &samples.encapsulated[..];
    let num_q = num_q(&words(bytes)[&1022].0);
    let found = OpenFheKey::parse(bytes, num_q).unwrap();
    let set = found.last().unwrap().shape().clone();
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let alice = tenant("alice");
    store.import_openfhe(&alice, bytes, Params::Limbs(num_q), None, None).unwrap();
    let name = KeyName::new(alice.clone(), set.digest(), KeyId::ToSparse);
    let mut alone = vec![];
    store.export_openfhe(&[name], &described(&set), KeyFileLayout::Objects, &mut alone).unwrap();
    let error = store.import_openfhe(&alice, &alone[..], Params::Limbs(num_q), None, None).unwrap_err();
    assert!(error.to_string().contains("with the name of its parameters"), "{error}");
    // Another set with the same N.
    let moduli = [&set.moduli()[1..2], &set.moduli()[..1], &set.moduli()[2..]].concat();
    let other = Shape::new(512, &moduli[..num_q], &moduli[num_q..], set.digits()).unwrap();
    let error = store.import_openfhe(&alice, &alone[..], Params::Of(&other), None, None).unwrap_err();
    assert!(error.to_string().contains("sparse secret has N = 512"), "{error}");
    // Even numbers other than the two are of no key.
    let mut odd = alone.clone();
    let at = odd.windows(4).position(|window| window == 1020u32.to_le_bytes()).unwrap();
    odd[at..at + 4].copy_from_slice(&1018u32.to_le_bytes());
    let error = store.import_openfhe(&alice, &odd[..], Params::Of(&set), None, None).unwrap_err();
    assert!(!matches!(error, Error::WrongSecret { .. }), "{error}");
    let header = Header::segment_bytes(&set.for_key(KeyId::ToSparse).unwrap(), to_sparse(false).form.layout());
    assert_eq!(header, 7 * ROW);
    assert_eq!(found[found.len() - 3].form(), Form { limbs: 1, seed: None });
}
