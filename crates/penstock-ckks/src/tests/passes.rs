//! Sums that are done in one pass, against the same sums step by step.

use super::*;
use crate::{Complex, ExtendedCiphertext, WeightedTerms};

fn values(random: &mut Random, count: usize) -> Vec<Complex> {
    let mut real = || (random.word() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
    (0..count).map(|_| [real(), real()]).collect()
}

fn is_refused(result: Option<crate::Error>) -> bool {
    matches!(result, Some(crate::Error::Operand { .. }))
}

fn same(a: &ExtendedCiphertext, b: &ExtendedCiphertext) -> bool {
    (0..2).all(|half| a.words(half) == b.words(half))
}

#[test]
fn a_weighted_sum_over_q_and_p_is_the_sum_of_the_products() {
    // All slots, slots of a polynomial in X^2 and X^4, and too few for a transform of that length.
    for (n, slots) in [(256, 128), (256, 64), (512, 64), (256, 16)] {
        let mut first = None;
        for context in contexts(&parameters(n, 3, Scaling::FlexibleAuto)) {
            let mut random = Random(n as u64 + slots as u64);
            for limbs in [4, 2] {
                let terms: Vec<_> =
                    (0..3).map(|_| context.extend(&ciphertext(&context, &mut random, 2, limbs)).unwrap()).collect();
                let vectors: Vec<_> = (0..3).map(|_| values(&mut random, slots)).collect();
                let plus = context.extend(&ciphertext(&context, &mut random, 2, limbs)).unwrap();
                let plains: Vec<_> =
                    vectors.iter().map(|each| context.encode_coefficients(each, limbs, 1, slots).unwrap()).collect();
                for plus in [None, Some(&plus)] {
                    let (terms, plains): (Vec<_>, Vec<_>) = (terms.iter().collect(), plains.iter().collect());
                    let found = context.weighted_sum_extended(&terms, &plains, plus).unwrap();
                    let products = terms.iter().zip(&vectors).map(|(term, vector)| {
                        let plain = context.encode_extended(vector, limbs, 1, slots).unwrap();
                        context.mult_plain_extended(term, &plain).unwrap()
                    });
                    let expected = products.reduce(|sum, next| context.add_extended(&sum, &next).unwrap()).unwrap();
                    let lowered = context.mod_down(&found).unwrap();
                    let of_twin = context.mod_down(&expected).unwrap();
                    assert_eq!((lowered.degree, lowered.scale), (of_twin.degree, of_twin.scale));
                    let expected = match plus {
                        Some(plus) => context.add_extended(&expected, plus).unwrap(),
                        None => expected,
                    };
                    assert!(same(&found, &expected), "N = {n}, {slots} slots, {:?}", context.path());
                    if limbs == 4 && plus.is_none() {
                        let first = first.get_or_insert_with(|| found.words(0).to_vec());
                        assert!(*first == found.words(0), "paths differ: {:?}", context.path());
                    }
                }
            }
        }
    }
}

#[test]
fn sums_of_several_ciphertexts_with_the_same_plaintexts_are_the_sums_of_each() {
    for context in contexts(&parameters(256, 3, Scaling::FlexibleAuto)) {
        let mut random = Random(7);
        let mut extended = || context.extend(&ciphertext(&context, &mut random, 2, 3)).unwrap();
        let operands: Vec<_> = (0..3).map(|_| [extended(), extended(), extended()]).collect();
        let mut random = Random(8);
        let plains: Vec<_> =
            (0..2).map(|_| context.encode_coefficients(&values(&mut random, 64), 3, 1, 64).unwrap()).collect();
        let plains: Vec<_> = plains.iter().collect();
        let terms: Vec<_> = operands.iter().map(|each| [&each[0], &each[1]]).collect();
        // The second sum has nothing added.
        let sums: Vec<_> = terms
            .iter()
            .enumerate()
            .map(|(at, terms)| WeightedTerms { terms, plus: (at != 1).then(|| &operands[at][2]) })
            .collect();
        let found = context.weighted_sums_extended(&sums, &plains).unwrap();
        assert_eq!(found.len(), 3);
        for (found, sum) in found.iter().zip(&sums) {
            assert!(same(found, &context.weighted_sum_extended(sum.terms, &plains, sum.plus).unwrap()));
        }
        assert!(!same(&found[0], &found[2]));
        assert!(is_refused(context.weighted_sums_extended(&[], &plains).err()));
        let short = WeightedTerms { terms: &terms[0][..1], plus: None };
        assert!(is_refused(context.weighted_sums_extended(&[sums[0], short], &plains).err()));
    }
}

#[test]
fn a_weighted_sum_of_plaintexts_is_the_sum_of_the_products() {
    for scaling in [Scaling::FlexibleAuto, Scaling::FixedManual] {
        for context in contexts(&parameters(256, 3, scaling)) {
            let mut random = Random(31);
            for (limbs, count) in [(4, 1), (3, 9), (1, 40)] {
                let terms: Vec<_> = (0..count).map(|_| ciphertext(&context, &mut random, 2, limbs)).collect();
                let vectors: Vec<_> = (0..count).map(|_| values(&mut random, 64)).collect();
                let (terms, vectors): (Vec<_>, Vec<&[Complex]>) =
                    (terms.iter().collect(), vectors.iter().map(Vec::as_slice).collect());
                let plains = context.encode_many(&vectors, limbs, 1, 64).unwrap();
                for (plain, vector) in plains.iter().zip(&vectors) {
                    let twin = context.encode(vector, limbs, 1, 64).unwrap();
                    assert!(plain.polynomial[..] == twin.polynomial[..] && plain.scale == twin.scale);
                }
                let products = terms.iter().zip(&plains).map(|(term, plain)| context.mult_plain(term, plain).unwrap());
                let twin = products.reduce(|sum, next| context.add(&sum, &next).unwrap()).unwrap();
                let plains: Vec<_> = plains.iter().collect();
                let found = context.weighted_sum_plain(&terms, &plains).unwrap();
                assert_eq!((found.limbs(), found.degree(), found.scale()), (twin.limbs(), twin.degree(), twin.scale()));
                assert!((0..2).all(|half| found.words(half) == twin.words(half)), "{:?}", context.path());
                assert!(context.weighted_sum_plain(&terms, &plains[1..]).is_err());
            }
        }
    }
    let context = &contexts(&parameters(256, 3, Scaling::FixedManual))[0];
    let mut random = Random(2);
    let mut product = ciphertext(context, &mut random, 2, 2);
    product.degree = 2;
    let plain = context.encode(&values(&mut random, 64), 2, 1, 64).unwrap();
    assert!(context.weighted_sum_plain(&[], &[]).is_err());
    assert!(context.weighted_sum_plain(&[&product], &[&plain]).is_err());
    assert!(context.encode_many(&[&[[f64::NAN, 0.0]; 64]], 2, 1, 64).is_err());
}

#[test]
fn coefficients_that_a_conversion_does_not_take_are_encoded_all_the_same() {
    // Values of 2^11 at a scale of 2^50: coefficients above 2^60.
    let context = &contexts(&parameters(256, 3, Scaling::FlexibleAuto))[0];
    let large = vec![[2048.0, 0.0]; 128];
    let made = context.encode_coefficients(&large, 4, 1, 128).unwrap();
    let mut row = vec![0; 256];
    for target in [0, 1, 4] {
        context.encode_row(&made, target, &mut row).unwrap();
        let p = &context.primes[target];
        context.kernels.to_canonical(p, &mut row);
        let scaled = (2048.0 * context.scales.factor(context.level(4))).round();
        assert!(row.iter().all(|word| *word == p.modulus.reduce_wide(scaled as u128)), "limb {target}");
    }
}

#[test]
fn a_weighted_sum_of_numbers_is_the_sum_of_the_products() {
    for scaling in [Scaling::FixedManual, Scaling::FlexibleAuto] {
        for context in contexts(&parameters(256, 3, scaling)) {
            let mut random = Random(7);
            let terms: Vec<_> = (0..9).map(|_| ciphertext(&context, &mut random, 2, 5)).collect();
            let weights = [0.25, -1.5, 1e-3, 3.0, 0.0, 1e9, -0.7, 2.0f64.powi(-40), 1.0];
            let found = context.weighted_sum_scalar(&terms.iter().collect::<Vec<_>>(), &weights).unwrap();
            let products = terms.iter().zip(weights).map(|(term, weight)| context.mult_scalar(term, weight).unwrap());
            let expected = products.reduce(|sum, next| context.add(&sum, &next).unwrap()).unwrap();
            assert!((0..2).all(|k| found.words(k) == expected.words(k)), "{scaling:?}, {:?}", context.path());
            assert_eq!((found.scale, found.degree), (expected.scale, expected.degree));
        }
    }
}

#[test]
fn sums_of_what_does_not_fit_are_refused() {
    let context = &contexts(&parameters(256, 3, Scaling::FixedManual))[0];
    let mut random = Random(1);
    let [high, low] = [5, 4].map(|limbs| ciphertext(context, &mut random, 2, limbs));
    assert!(is_refused(context.weighted_sum_scalar(&[&high, &low], &[1.0, 1.0]).err()));
    assert!(is_refused(context.weighted_sum_scalar(&[], &[]).err()));
    assert!(is_refused(context.weighted_sum_scalar(&[&high], &[f64::NAN]).err()));
    let plain = context.encode_coefficients(&[[1.0, 0.0]], 5, 1, 128).unwrap();
    let (high, low) = (context.extend(&high).unwrap(), context.extend(&low).unwrap());
    assert!(is_refused(context.weighted_sum_extended(&[], &[], None).err()));
    assert!(is_refused(context.weighted_sum_extended(&[&low], &[&plain], None).err()));
    assert!(is_refused(context.weighted_sum_extended(&[&high], &[&plain], Some(&low)).err()));
    assert!(is_refused(context.weighted_sum_extended(&[&high, &high], &[&plain], None).err()));
}

#[test]
fn long_sums_of_the_widest_products_are_exact() {
    let parameters = many_digits();
    for context in contexts(&parameters) {
        let limbs = 3;
        // A plaintext of 1 in each evaluation, and terms of about half of each modulus: an odd word, so that no sum beyond
        // 2^53 is exact.
        let ones = vec![[2f64.powi(-50), 0.0]; context.ring_dim() / 2];
        let slots = ones.len();
        let term = flat(&context, limbs, |q| q / 2 - 1);
        // Times P, they are the same words.
        let special = parameters.moduli_p[0];
        let over_special = |q: u64| Modulus::new(q).map_or(0, |m| m.mul(q / 2 - 1, m.inverse(m.reduce(special))));
        let extended = context.extend(&flat(&context, limbs, over_special)).unwrap();
        let coefficients = context.encode_coefficients(&ones, limbs, 1, slots).unwrap();
        let plain = context.encode(&ones, limbs, 1, slots).unwrap();
        for count in [1, 8, 9, 16, 17, 32, 33, 64] {
            let at = format!("{:?}, {count} terms", context.path());
            let sum = context.weighted_sum_plain(&vec![&term; count], &vec![&plain; count]).unwrap();
            let over_p =
                context.weighted_sum_extended(&vec![&extended; count], &vec![&coefficients; count], None).unwrap();
            let numbers = context.weighted_sum_scalar(&vec![&term; count], &vec![2f64.powi(-50); count]).unwrap();
            for limb in 0..limbs {
                let p = context.primes()[limb].modulus;
                let word = p.mul(p.value() / 2 - 1, count as u64);
                assert!(sum.row(0, limb).iter().chain(numbers.row(1, limb)).all(|each| *each == word), "{at}");
                let row = &over_p.words(1)[limb * context.ring_dim()..][..context.ring_dim()];
                assert!(row.iter().all(|each| *each == word), "{at}");
            }
        }
    }
}
