//! Pairs with an ephemeral secret: its weight, its file, and the two keys at work.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use penstock_ckks::kernels::Prime;
use penstock_ckks::{KeyView, Machine, Parameters, Part, Scaling};
use penstock_client::{Error, EvaluationKey, Phase, PublicKey, Ring, RingParameters, SecretKey, SecretKind};
use penstock_segment::{KeyContent, KeyId, Shape};

const N: usize = 1 << 11;
const KINDS: [SecretKind; 2] = [SecretKind::SparseEncapsulated, SecretKind::UniformEncapsulated];

/// The largest primes of `bits` bits that are 1 mod 2N, by trial division.
fn primes(bits: u32, count: usize) -> Vec<u64> {
    let is_prime = |q: u64| {
        let power = |e: u64| {
            let (mut p, mut b) = (1u128, 3u128);
            let mut e = e;
            while e > 0 {
                p = if e & 1 == 1 { p * b % u128::from(q) } else { p };
                (b, e) = (b * b % u128::from(q), e >> 1);
            }
            p
        };
        (3..1000).step_by(2).all(|d| !q.is_multiple_of(d)) && power(q - 1) == 1
    };
    (1..).map(|k| (1u64 << bits) + 1 - k * 2 * N as u64).filter(|q| is_prime(*q)).take(count).collect()
}

fn ring(secret: SecretKind) -> Ring {
    let wide = primes(60, 3);
    let evaluator = Parameters {
        ring_dim: N,
        moduli_q: [&wide[..1], &primes(50, 3)].concat(),
        moduli_p: wide[1..].to_vec(),
        dnum: 2,
        scaling: Scaling::FixedManual,
        scale_bits: 50,
    };
    let machine = Machine { keep_bytes: 0, ..Machine::new(1).unwrap() };
    Ring::new(RingParameters { evaluator, slots: 16, depth: 3, secret, security: None }, machine).unwrap()
}

/// The rows of a made key, as its content gives them.
struct Rows(Shape, HashMap<(usize, usize, usize), Vec<u64>>);

impl Rows {
    fn of(key: &EvaluationKey) -> Self {
        let shape = key.shape().clone();
        let rows = shape.rows_needed(key.form().limbs).into_iter().flatten().map(|row| {
            let mut words = vec![0; N];
            key.fill(row, &mut words).unwrap();
            (shape.place(row), words)
        });
        let rows = rows.collect();
        Self(shape, rows)
    }
}

impl KeyView for Rows {
    fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]> {
        self.1.get(&(part as usize, digit, limb)).map(Vec::as_slice)
    }
}

/// The centred coefficients of a phase at one limb.
fn coefficients(ring: &Ring, phase: &Phase, limb: usize) -> Vec<i64> {
    let p: &Prime = &ring.context().primes()[limb];
    let mut out = vec![0; N];
    let scale = p.modulus.inverse(p.modulus.reduce(N as u64));
    ring.context().kernels().inverse(p, &phase.words[limb * N..(limb + 1) * N], scale, &mut out);
    out.iter().map(|word| p.modulus.centred(*word)).collect()
}

#[test]
fn an_ephemeral_secret_has_its_weight_and_other_pairs_have_none() {
    for kind in KINDS {
        let ring = ring(kind);
        let mut sums = vec![0u32; N];
        for _ in 0..200 {
            let secret = SecretKey::generate(&ring).unwrap();
            let words = secret.here(&ring).unwrap();
            let ephemeral = words.ephemeral().unwrap();
            assert!(ephemeral.iter().all(|value| (-1..=1).contains(value)));
            assert_eq!(ephemeral.iter().filter(|value| **value != 0).count(), 32);
            let weight = words.coefficients().iter().filter(|value| **value != 0).count();
            assert!(if kind == SecretKind::SparseEncapsulated { weight == 192 } else { weight > N / 2 }, "{weight}");
            sums.iter_mut().zip(ephemeral).for_each(|(sum, value)| *sum += u32::from(value.unsigned_abs()));
        }
        // 3.1 expected in each place.
        assert!(sums.iter().all(|sum| *sum < 20) && sums.iter().filter(|sum| **sum > 0).count() > N * 9 / 10);
    }
    let plain = ring(SecretKind::UniformTernary);
    let secret = SecretKey::generate(&plain).unwrap();
    assert!(secret.here(&plain).unwrap().ephemeral().is_none());
    for id in [KeyId::ToSparse, KeyId::ToDense] {
        let error = EvaluationKey::generate(&plain, &secret, id, 1, true).err().unwrap().to_string();
        assert!(error.contains(&format!("key '{id}'")) && error.contains("sparse-encapsulated"), "{error}");
    }
}

#[test]
fn to_the_sparse_secret_and_back_is_the_message_with_small_noise_and_few_overflows() {
    for (kind, seeded) in KINDS.into_iter().zip([true, false]) {
        let ring = ring(kind);
        let secret = SecretKey::generate(&ring).unwrap();
        let public = PublicKey::generate(&ring, &secret).unwrap();
        let made = |id, limbs| EvaluationKey::generate(&ring, &secret, id, limbs, seeded).unwrap();
        let to_sparse = made(KeyId::ToSparse, 4);
        assert_eq!((to_sparse.form().limbs, to_sparse.bytes()), (1, 3 * 8 * N));
        let to_sparse = Rows::of(&to_sparse);
        let context = ring.context();
        assert_eq!(context.to_sparse_moduli().unwrap(), to_sparse.0.moduli());
        let values: Vec<[f64; 2]> = (0..16).map(|k| [f64::from(k) / 16.0 - 0.5, 0.0]).collect();
        let fresh = context.import(&ring.encrypt(&public, &values, 4, 1).unwrap()).unwrap();
        let low = context.mod_drop(&fresh, 1).unwrap();
        let writer = penstock_ckks::openfhe_bytes::CiphertextWriter::of(ring.described(), secret.tag()).unwrap();
        let phase = |a: &penstock_ckks::Ciphertext| ring.phase(&secret, &context.export(a, &writer).unwrap()).unwrap();
        let message = coefficients(&ring, &phase(&low), 0);
        let sparse = context.to_sparse(&low, &to_sparse).unwrap();
        // It is not a ciphertext of the main secret any more.
        let noise = coefficients(&ring, &phase(&sparse), 0);
        assert!(noise.iter().zip(&message).any(|(a, b)| (a - b).unsigned_abs() > 1 << 50));
        for limbs in [1, 2, 4] {
            let to_dense = Rows::of(&made(KeyId::ToDense, limbs));
            let raised = context.mod_raise(&sparse, limbs).unwrap();
            let back = phase(&context.to_dense(&raised, &to_dense).unwrap());
            let found = coefficients(&ring, &back, 0);
            let error = found.iter().zip(&message).map(|(a, b)| (a - b).unsigned_abs()).max().unwrap();
            assert!(error > 0 && error < 1 << 9, "2^{:.1} at {limbs} limbs", (error as f64).log2());
            for limb in 1..limbs {
                // The number is the message plus a small multiple of q_0.
                let (q, p) = (context.primes()[0].modulus.value(), context.primes()[limb].modulus);
                let inverse = p.inverse(p.reduce(q));
                let overflows = coefficients(&ring, &back, limb).into_iter().zip(&found).map(|(a, b)| {
                    let difference = p.sub(p.reduce_signed(a), p.reduce_signed(*b));
                    p.centred(p.mul(difference, inverse)).unsigned_abs()
                });
                let most = overflows.max().unwrap();
                assert!(most > 0 && most <= 16, "{most} times q_0 at limb {limb}");
            }
        }
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("penstock-client-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_keeps_both_secrets_sealed_or_not() {
    let folder = Folder::new("both");
    for (number, kind) in KINDS.into_iter().enumerate() {
        let ring = ring(kind);
        let secret = SecretKey::generate(&ring).unwrap();
        for passphrase in [None, Some(&b"correct horse"[..])] {
            let path = folder.0.join(format!("{number}-{}", passphrase.is_some()));
            secret.write(&ring, &path, passphrase).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes[8], 2);
            assert_eq!(bytes.len(), 72 + N / 2 + 32 + if passphrase.is_some() { 52 + 16 } else { 0 });
            let read = SecretKey::read(&ring, &path, passphrase).unwrap();
            let (one, two) = (read.here(&ring).unwrap(), secret.here(&ring).unwrap());
            assert_eq!((one.coefficients(), one.ephemeral()), (two.coefficients(), two.ephemeral()));
            assert!(read.is_locked() || !secret.is_locked());
            // Another kind of set, of the same parameters.
            let other = self::ring(KINDS[1 - number]);
            assert!(matches!(SecretKey::read(&other, &path, passphrase), Err(Error::Other { .. })));
        }
    }
    // A pair without an ephemeral secret is written as ever.
    let plain = ring(SecretKind::SparseTernary);
    let path = folder.0.join("plain");
    SecretKey::generate(&plain).unwrap().write(&plain, &path, None).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes[8], bytes.len()), (1, 72 + N / 4 + 32));
    assert!(SecretKey::read(&plain, &path, None).unwrap().here(&plain).unwrap().ephemeral().is_none());
}

#[test]
fn an_ephemeral_secret_of_another_weight_is_damage() {
    let folder = Folder::new("weight");
    let ring = ring(SecretKind::UniformEncapsulated);
    let path = folder.0.join("secret");
    SecretKey::generate(&ring).unwrap().write(&ring, &path, None).unwrap();
    let whole = fs::read(&path).unwrap();
    let read = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole[..whole.len() - 32].to_vec();
        change(&mut bytes);
        let checksum = <sha2::Sha256 as sha2::Digest>::digest(&bytes);
        bytes.extend_from_slice(&checksum);
        fs::write(&path, bytes).unwrap();
        SecretKey::read(&ring, &path, None).err().unwrap().to_string()
    };
    let ephemeral = 72 + N / 4;
    let error = read(&|bytes| bytes[ephemeral..].fill(0b0101_0101)); // all 0
    assert!(error.contains("its ephemeral secret is none"), "{error}");
    let error = read(&|bytes| bytes[ephemeral] = 0xff);
    assert!(error.contains("not -1, 0 or 1"), "{error}");
    assert!(read(&|bytes| bytes.truncate(ephemeral)).contains("bytes"));
    let error = read(&|bytes| bytes[8] = 1);
    assert!(error.contains("the version of a file of such a secret"), "{error}");
    let error = read(&|bytes| bytes[8] = 3);
    assert!(error.contains("version 3, and this program reads 2"), "{error}");
}
