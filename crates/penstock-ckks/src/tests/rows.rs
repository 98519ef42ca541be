//! Ciphertexts and keys that travel as bare rows.

use super::*;
use crate::{CiphertextHeader, Error};

fn header(a: &Ciphertext) -> CiphertextHeader {
    CiphertextHeader {
        polynomials: a.polynomials(),
        limbs: a.limbs(),
        degree: a.degree(),
        scale: a.scale(),
        slots: a.slots(),
    }
}

fn rows(a: &Ciphertext) -> Vec<u64> {
    (0..a.polynomials()).flat_map(|p| a.words(p).to_vec()).collect()
}

fn key_rows(context: &Context, key: &dyn KeyView, limbs: usize) -> Vec<u64> {
    let mut words = vec![7; context.rows_in_use(limbs).count() * context.ring_dim() + 3];
    let count = context.write_key_rows(key, limbs, &mut words).unwrap();
    assert!(words[count..] == [7; 3]);
    words.truncate(count);
    words
}

#[test]
fn a_rotation_with_a_key_that_came_as_rows_is_the_same() {
    for context in contexts(&parameters(64, 3, Scaling::FlexibleAuto)) {
        let mut random = Random(11);
        let key = RandomKey::new(&context, &mut random);
        let turn = context.automorphism(5).unwrap();
        for limbs in [context.count_q(), 3, 1] {
            let a = ciphertext(&context, &mut random, 2, limbs);
            let words = key_rows(&context, &key, limbs);
            let came = context.key_from_rows(&words, limbs).unwrap();
            let copy = context.ciphertext_from_rows(&header(&a), &rows(&a)).unwrap();
            let (expected, got) =
                (context.rotate(&a, &turn, &key).unwrap(), context.rotate(&copy, &turn, &came).unwrap());
            assert_eq!(header(&expected), header(&got));
            assert!(rows(&expected) == rows(&got), "{limbs} limbs on {:?}", context.path());
            assert!(key_rows(&context, &came, limbs) == words);
            let mut few = vec![0; words.len() - 1];
            assert!(matches!(context.write_key_rows(&key, limbs, &mut few), Err(Error::Operand { .. })));
            if limbs < context.count_q() {
                let above = ciphertext(&context, &mut random, 2, limbs + 1);
                assert!(matches!(context.rotate(&above, &turn, &came), Err(Error::KeyRow { .. })));
            }
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let context = &contexts(&parameters(64, 3, Scaling::FixedManual))[0];
    let mut random = Random(12);
    let a = ciphertext(context, &mut random, 2, 4);
    let (good, words) = (header(&a), rows(&a));
    for wrong in [
        CiphertextHeader { polynomials: 1, ..good },
        CiphertextHeader { polynomials: 3, ..good },
        CiphertextHeader { polynomials: usize::MAX, ..good },
        CiphertextHeader { limbs: 0, ..good },
        CiphertextHeader { limbs: 5, ..good },
        CiphertextHeader { limbs: usize::MAX, ..good },
        CiphertextHeader { degree: 0, ..good },
        CiphertextHeader { scale: f64::NAN, ..good },
        CiphertextHeader { scale: 0.0, ..good },
        CiphertextHeader { slots: 33, ..good },
        CiphertextHeader { slots: 64, ..good },
    ] {
        assert!(matches!(context.ciphertext_from_rows(&wrong, &words), Err(Error::Operand { .. })), "{wrong:?}");
    }
    let mut damaged = words.clone();
    let modulus = context.parameters().moduli_q[2];
    damaged[2 * 64 + 7] = modulus;
    let expected = Error::Word { limb: 2, index: 7, word: modulus, modulus };
    assert_eq!(context.ciphertext_from_rows(&good, &damaged).unwrap_err(), expected);

    let key = key_rows(context, &RandomKey::new(context, &mut random), 2);
    for limbs in [0, 1, 3, 8, usize::MAX] {
        assert!(matches!(context.key_from_rows(&key, limbs), Err(Error::Operand { .. })), "{limbs} limbs");
    }
    let mut damaged = key;
    let last = damaged.len() - 1;
    damaged[last] = u64::MAX;
    assert!(matches!(context.key_from_rows(&damaged, 2), Err(Error::Word { index: 63, .. })));
}
