//! The importer of OpenFHE's bytes reads its own output, and no input makes it panic.

use super::*;
use crate::openfhe_bytes::{
    CiphertextWriter, Stated, parse_ciphertext, parse_evaluation_key, parse_evaluation_keys, read_row,
};
use crate::{Error, KeyRows};

const N: usize = 64;

fn words(of: &[u32]) -> Vec<u8> {
    of.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A list of polynomials in OpenFHE's layout, by hand, with pointers to objects that are somewhere before.
fn list(out: &mut Vec<u8>, polynomials: &[Vec<Vec<u64>>], moduli: &[u64], first: bool) {
    out.extend((polynomials.len() as u64).to_le_bytes());
    for (p, rows) in polynomials.iter().enumerate() {
        let versions = first && p == 0;
        out.extend(words(if versions { &[0] } else { &[] }));
        out.extend((rows.len() as u64).to_le_bytes());
        for (l, row) in rows.iter().enumerate() {
            let versions = versions && l == 0;
            out.extend(words(if versions { &[0, 0x4000_0000] } else { &[0x4000_0000] }));
            out.push(1);
            out.extend(words(if versions { &[0] } else { &[] }));
            out.extend((row.len() as u64).to_le_bytes());
            row.iter().for_each(|word| out.extend(word.to_le_bytes()));
            out.extend(moduli[l].to_le_bytes());
            out.extend(words(&[0, 0x4000_0000, 5 + l as u32]));
        }
        out.extend(words(&[0, 0x4000_0000, 4]));
    }
}

/// A context's bytes, as far as the importer looks at them: anything, then the key tag.
fn prefix(out: &mut Vec<u8>) {
    out.extend(b"the crypto context, which is skipped");
    out.extend(32u64.to_le_bytes());
    out.extend(b"0123456789abcdef0123456789abcdef");
}

fn ciphertext_bytes(polynomials: &[Vec<Vec<u64>>], moduli: &[u64], level: u32) -> Vec<u8> {
    let mut out = Vec::new();
    prefix(&mut out);
    list(&mut out, polynomials, moduli, true);
    out.extend(words(&[32, level, 0, 1]));
    out.extend(2f64.powi(50).to_le_bytes());
    out.extend(words(&[1, 0, 4, 0x8000_0009, 0, 0]));
    out
}

fn key_bytes(random: &mut Random, moduli: &[u64]) -> (Vec<u8>, Vec<Vec<Vec<u64>>>) {
    let mut out = vec![1];
    out.extend(words(&[0x8000_0001]));
    let class = b"lbcrypto::EvalKeyRelinImpl<lbcrypto::DCRTPoly>";
    out.extend((class.len() as u64).to_le_bytes());
    out.extend(class);
    prefix(&mut out);
    let rows: Vec<_> = (0..4).map(|_| random.rows(moduli, N)).collect();
    list(&mut out, &rows[..2], moduli, true);
    list(&mut out, &rows[2..], moduli, false);
    (out, rows)
}

#[test]
fn a_written_ciphertext_is_read_back() {
    let context = &contexts(&parameters(N, 3, Scaling::FixedManual))[0];
    let mut random = Random(8);
    for limbs in [7, 2, 1] {
        let moduli = &MODULI_Q[..limbs];
        let rows: Vec<_> = (0..2).map(|_| random.rows(moduli, N)).collect();
        let bytes = ciphertext_bytes(&rows, moduli, 7 - limbs as u32);
        let read = context.import(&bytes).unwrap();
        for (p, rows) in rows.iter().enumerate() {
            assert_eq!(read.words(p), rows.concat());
        }
        assert_eq!((read.slots(), read.degree(), read.scale()), (32, 1, 2f64.powi(50)));
        let writer = CiphertextWriter::like(&bytes).unwrap();
        let written = context.export(&read, &writer).unwrap();
        let again = context.import(&written).unwrap();
        assert_eq!((again.words(0), again.words(1)), (read.words(0), read.words(1)));
        assert_eq!(parse_ciphertext(&written).unwrap().key_tag.as_deref(), Some("0123456789abcdef0123456789abcdef"));
        assert_eq!(
            context.export(&again, &CiphertextWriter::like(&written).unwrap()).unwrap(),
            written,
            "a fixed point"
        );
    }
}

#[test]
fn a_key_is_read_row_by_row() {
    let mut random = Random(9);
    let (bytes, rows) = key_bytes(&mut random, &MODULI_Q[..3]);
    let key = parse_evaluation_key(bytes.as_slice()).unwrap();
    assert_eq!((key.ring_dim, key.dnum, key.moduli.as_slice()), (N, 2, &MODULI_Q[..3]));
    assert_eq!(key.key_tag.as_deref(), Some("0123456789abcdef0123456789abcdef"));
    let loaded = KeyRows::from_openfhe(&bytes, &Arena::new(0)).unwrap();
    for (p, part) in Part::BOTH.into_iter().enumerate() {
        for digit in 0..2 {
            for (limb, expected) in rows[2 * p + digit].iter().enumerate() {
                let mut row = vec![0; N];
                read_row(bytes.as_slice(), key.row(part, digit, limb).unwrap(), limb, &mut row).unwrap();
                assert_eq!(row, *expected);
                assert_eq!(loaded.row(part, digit, limb), Some(row.as_slice()));
            }
        }
        assert!(key.row(part, 2, 0).is_none() && key.row(part, 0, 3).is_none());
        assert!(loaded.row(part, 2, 0).is_none() && loaded.row(part, 0, 3).is_none());
    }
}

#[test]
fn a_word_that_is_not_below_its_modulus_is_found() {
    let context = &contexts(&parameters(N, 3, Scaling::FixedManual))[0];
    let mut rows: Vec<_> = (0..2).map(|_| Random(10).rows(&MODULI_Q[..2], N)).collect();
    rows[1][1][17] = MODULI_Q[1];
    let error = context.import(&ciphertext_bytes(&rows, &MODULI_Q[..2], 5)).unwrap_err();
    assert_eq!(error, Error::Word { limb: 1, index: 17, word: MODULI_Q[1], modulus: MODULI_Q[1] });
}

#[test]
fn foreign_and_inconsistent_ciphertexts_are_refused() {
    let context = &contexts(&parameters(N, 3, Scaling::FixedManual))[0];
    let rows = |moduli: &[u64]| -> Vec<_> { (0..2).map(|_| Random(11).rows(moduli, N)).collect() };
    let wrong_level = ciphertext_bytes(&rows(&MODULI_Q[..2]), &MODULI_Q[..2], 4);
    assert!(context.import(&wrong_level).unwrap_err().to_string().contains("level 4"));
    let foreign = ciphertext_bytes(&rows(&MODULI_P[..2]), &MODULI_P[..2], 5);
    assert!(context.import(&foreign).unwrap_err().to_string().contains("moduli"));
    for bytes in [&b""[..], b"\x01", &[0; 4096], &[0xff; 4096]] {
        assert!(matches!(context.import(bytes), Err(Error::Bytes { .. })));
        assert!(matches!(parse_evaluation_keys(bytes), Err(Error::Bytes { .. })));
    }
}

/// What a ciphertext says of itself behind its rows: slots, level, hops, degree, scale.
fn stating(bytes: &[u8], slots: u32, degree: u32, scale: f64) -> Vec<u8> {
    let at = bytes.len() - 24 - 24;
    let mut changed = bytes.to_vec();
    changed[at..at + 4].copy_from_slice(&slots.to_le_bytes());
    changed[at + 12..at + 16].copy_from_slice(&degree.to_le_bytes());
    changed[at + 16..at + 24].copy_from_slice(&scale.to_le_bytes());
    changed
}

#[test]
fn slots_degrees_and_scales_that_no_ciphertext_has_are_refused() {
    let rows: Vec<_> = (0..2).map(|_| Random(14).rows(&MODULI_Q[..2], N)).collect();
    let bytes_for = |context: &Context| {
        let level = context.parameters().moduli_q.len() as u32 - 2;
        ciphertext_bytes(&rows, &MODULI_Q[..2], level)
    };
    let scale = 2f64.powi(50);
    let manual = &contexts(&parameters(N, 3, Scaling::FixedManual))[0];
    let automatic = &contexts(&parameters(N, 3, Scaling::FlexibleAuto))[0];
    for context in [manual, automatic] {
        let bytes = bytes_for(context);
        for (slots, degree, scale) in [(32, 1, scale), (1, 2, scale * scale), (8, 1, 0.0), (8, 1, 1.0)] {
            let read = context.import(&stating(&bytes, slots, degree, scale)).unwrap();
            assert_eq!((read.slots(), read.degree(), read.scale()), (slots, degree, scale));
        }
        let wrong = [(0, 1, scale), (33, 1, scale), (64, 1, scale), (u32::MAX, 1, scale), (8, u32::MAX, scale)];
        let unreal = [f64::NAN, f64::INFINITY, -1.0, 5e-324, 1e-300, 1e300].map(|scale| (8, 1, scale));
        for (slots, degree, scale) in wrong.into_iter().chain(unreal) {
            let error = context.import(&stating(&bytes, slots, degree, scale)).unwrap_err();
            assert!(matches!(error, Error::Operand { .. } | Error::Bytes { .. }), "{slots} {degree} {scale}: {error}");
        }
    }
    // Only a program that rescales by itself lets degrees grow.
    for (degree, fits) in [(0, false), (3, true), (8, true), (9, false)] {
        assert_eq!(manual.import(&stating(&bytes_for(manual), 8, degree, scale)).is_ok(), fits);
        assert!(automatic.import(&stating(&bytes_for(automatic), 8, degree, scale)).is_err());
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let mut random = Random(12);
    let rows: Vec<_> = (0..2).map(|_| random.rows(&MODULI_Q[..2], N)).collect();
    let whole = ciphertext_bytes(&rows, &MODULI_Q[..2], 5);
    let (key, _) = key_bytes(&mut random, &MODULI_Q[..2]);
    let context = &contexts(&parameters(N, 3, Scaling::FixedManual))[0];
    let arena = Arena::new(0);
    for end in 0..whole.len() - 12 {
        assert!(context.import(&whole[..end]).is_err(), "{end} of {} bytes", whole.len());
    }
    for end in 0..key.len() {
        assert!(KeyRows::from_openfhe(&key[..end], &arena).is_err());
    }
    for round in 0..20_000 {
        for original in [&whole, &key] {
            let mut bytes = original.clone();
            for _ in 0..=round % 4 {
                let at = random.word() as usize % bytes.len();
                bytes[at] = match random.word() % 3 {
                    0 => 0xff,
                    1 => bytes[at] ^ (1 << (random.word() % 8)),
                    _ => random.word() as u8,
                };
            }
            let _ = context.import(&bytes);
            if let Ok(keys) = parse_evaluation_keys(bytes.as_slice()) {
                for key in keys {
                    let _ = KeyRows::from_spans(&bytes, &key, &arena);
                }
            }
        }
    }
}

#[test]
fn a_writer_refuses_rows_that_do_not_fit() {
    let bytes = ciphertext_bytes(&[Random(13).rows(&MODULI_Q[..2], N)], &MODULI_Q[..2], 5);
    let writer = CiphertextWriter::like(&bytes).unwrap();
    let stated = Stated { slots: 1, level: 0, noise_scale_degree: 1, scale: 1.0 };
    assert!(writer.write(&stated, &MODULI_Q[..2], &[3], &[&[0; 128]]).is_err());
    assert!(writer.write(&stated, &MODULI_Q[..2], &[3, 3], &[&[0; 127]]).is_err());
    assert!(writer.write(&stated, &[], &[], &[]).is_err());
}
