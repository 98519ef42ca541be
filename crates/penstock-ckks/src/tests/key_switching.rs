//! Key switching by its definition: conversions through whole integers, the automorphism on all limbs of Q and P, then
//! the division by P.

use super::residues::{approximate_crt, inverse};
use super::*;

/// Digits over Q and P: for each digit and target limb, evaluations.
fn digits(context: &Context, plain: &Plain, row_of: &dyn Fn(usize) -> Vec<u64>, limbs: usize) -> Vec<Vec<Vec<u64>>> {
    let p = context.parameters();
    let alpha = p.moduli_q.len().div_ceil(p.dnum);
    let targets: Vec<usize> = (0..limbs).chain(p.moduli_q.len()..p.moduli_q.len() + p.moduli_p.len()).collect();
    let coefficients: Vec<Vec<u64>> = (0..limbs).map(|limb| plain.coefficients(limb, &row_of(limb))).collect();
    (0..limbs.div_ceil(alpha))
        .map(|digit| {
            let own = digit * alpha..((digit + 1) * alpha).min(limbs);
            let moduli = &p.moduli_q[own.clone()];
            let integers: Vec<_> = (0..p.ring_dim)
                .map(|k| approximate_crt(&own.clone().map(|limb| coefficients[limb][k]).collect::<Vec<_>>(), moduli))
                .collect();
            let each = targets.iter().map(|target| {
                if own.contains(target) {
                    return row_of(*target);
                }
                let q = plain.0[*target].1.modulus.value();
                plain.evaluations(*target, integers.iter().map(|integer| integer.modulo(q)).collect())
            });
            each.collect()
        })
        .collect()
}

/// Both polynomials over Q and P after the product with the key.
fn inner(
    context: &Context,
    plain: &Plain,
    digits: &[Vec<Vec<u64>>],
    key: &RandomKey,
    limbs: usize,
) -> [Vec<Vec<u64>>; 2] {
    let targets = limbs + context.count_p();
    [Part::B, Part::A].map(|part| {
        (0..targets)
            .map(|target| {
                let limb = context.chain_index(target, limbs);
                let m = plain.0[limb].1.modulus;
                let mut sum = vec![0; context.ring_dim()];
                for (d, digit) in digits.iter().enumerate() {
                    let row = key.row(part, d, limb).unwrap();
                    for (k, to) in sum.iter_mut().enumerate() {
                        *to = m.add(*to, m.mul(digit[target][k], row[k]));
                    }
                }
                sum
            })
            .collect()
    })
}

/// The division by P, through the integer of the P part.
fn divided(context: &Context, plain: &Plain, rows: &[Vec<u64>], limbs: usize) -> Vec<Vec<u64>> {
    let p = context.parameters();
    let parts: Vec<Vec<u64>> =
        (0..context.count_p()).map(|e| plain.coefficients(context.count_q() + e, &rows[limbs + e])).collect();
    let integers: Vec<_> = (0..p.ring_dim)
        .map(|k| approximate_crt(&parts.iter().map(|part| part[k]).collect::<Vec<_>>(), &p.moduli_p))
        .collect();
    (0..limbs)
        .map(|limb| {
            let m = plain.0[limb].1.modulus;
            let lifted = plain.evaluations(limb, integers.iter().map(|x| x.modulo(m.value())).collect());
            let by = p.moduli_p.iter().fold(1, |product, p| m.mul(product, m.reduce(*p)));
            let by = inverse(by, m.value());
            rows[limb].iter().zip(lifted).map(|(x, y)| m.mul(m.sub(*x, y), by)).collect()
        })
        .collect()
}

#[test]
fn a_rotation_is_decompose_multiply_permute_divide() {
    for (n, digit_count, scaling) in
        [(64, 2, Scaling::FlexibleAuto), (64, 3, Scaling::FixedManual), (128, 5, Scaling::FlexibleAuto)]
    {
        let parameters = parameters(n, digit_count, scaling);
        let moduli: Vec<u64> = parameters.moduli_q.iter().chain(&parameters.moduli_p).copied().collect();
        let plain = Plain::new(&moduli, n);
        for context in contexts(&parameters) {
            let mut random = Random(n as u64);
            let key = RandomKey::new(&context, &mut random);
            for limbs in [context.count_q(), 3, 1] {
                let a = ciphertext(&context, &mut random, 2, limbs);
                let automorphism = context.automorphism(crate::rotation_galois_element(-3, n)).unwrap();
                let digits = digits(&context, &plain, &|limb| a.row(1, limb).to_vec(), limbs);
                let mut sums = inner(&context, &plain, &digits, &key, limbs);
                for (limb, row) in sums[0].iter_mut().enumerate().take(limbs) {
                    // c_0 times P joins before the division
                    let m = plain.0[limb].1.modulus;
                    let by = parameters.moduli_p.iter().fold(1, |product, p| m.mul(product, m.reduce(*p)));
                    row.iter_mut().zip(a.row(0, limb)).for_each(|(x, c)| *x = m.add(*x, m.mul(*c, by)));
                }
                let hoisted = context.decompose(&a).unwrap();
                let got = [
                    context.rotate(&a, &automorphism, &key).unwrap(),
                    context.rotate_hoisted(&a, &hoisted, &automorphism, &key).unwrap(),
                    context
                        .rotate_hoisted_extended(&a, &hoisted, &automorphism, &key)
                        .and_then(|sum| context.mod_down(&sum))
                        .unwrap(),
                    // P a has nothing to round: it is the same rotation, without a division before it.
                    context
                        .extend(&a)
                        .and_then(|raised| {
                            let own = context.decompose_extended(&raised)?;
                            context.mod_down(&context.rotate_extended(&raised, &own, &automorphism, &key)?)
                        })
                        .unwrap(),
                ];
                for (half, sum) in sums.iter().enumerate() {
                    let moved: Vec<Vec<u64>> = sum
                        .iter()
                        .map(|row| {
                            let mut out = vec![0; n];
                            automorphism.permute(row, &mut out);
                            out
                        })
                        .collect();
                    let expected = divided(&context, &plain, &moved, limbs).concat();
                    for (how, got) in got.iter().enumerate() {
                        let at = format!("{:?}, N = {n}, {limbs} limbs, way {how}", context.path());
                        assert!(got.words(half) == expected, "{at}, polynomial {half}");
                    }
                }
            }
        }
    }
}

#[test]
fn only_the_rows_in_use_are_read() {
    struct Watched<'a>(&'a RandomKey, std::sync::Mutex<std::collections::BTreeSet<(u8, usize, usize)>>);
    impl KeyView for Watched<'_> {
        fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]> {
            self.1.lock().unwrap().insert((part as u8, digit, limb));
            self.0.row(part, digit, limb)
        }
    }
    let context = &contexts(&parameters(64, 3, Scaling::FixedManual))[0];
    let mut random = Random(1);
    let key = RandomKey::new(context, &mut random);
    for limbs in 1..=7 {
        let a = ciphertext(context, &mut random, 2, limbs);
        let watched = Watched(&key, Default::default());
        context.rotate(&a, &context.automorphism(5).unwrap(), &watched).unwrap();
        let expected = context.rows_in_use(limbs).map(|(part, digit, limb)| (part as u8, digit, limb)).collect();
        assert_eq!(watched.1.into_inner().unwrap(), expected, "{limbs} limbs");
    }
}

#[test]
fn a_missing_row_is_named_and_foreign_operands_are_refused() {
    struct Nothing;
    impl KeyView for Nothing {
        fn row(&self, _: Part, _: usize, _: usize) -> Option<&[u64]> {
            None
        }
    }
    let context = &contexts(&parameters(64, 2, Scaling::FlexibleAuto))[0];
    let other = &contexts(&parameters(128, 2, Scaling::FlexibleAuto))[0];
    let mut random = Random(2);
    let automorphism = context.automorphism(5).unwrap();
    let (a, three) = (ciphertext(context, &mut random, 2, 3), ciphertext(context, &mut random, 3, 3));
    let missing = context.rotate(&a, &automorphism, &Nothing).unwrap_err();
    assert!(matches!(missing, crate::Error::KeyRow { .. }), "{missing}");
    assert!(context.rotate(&three, &automorphism, &Nothing).unwrap_err().to_string().contains("relinearize"));
    assert!(other.add(&a, &a).unwrap_err().to_string().contains("N = 64"));
    assert!(context.automorphism(4).is_err());
    let digits = context.decompose(&a).unwrap();
    let b = ciphertext(context, &mut random, 2, 2);
    let foreign = [
        context.rotate_hoisted(&b, &digits, &automorphism, &Nothing).unwrap_err(),
        context.rotate_hoisted_extended(&b, &digits, &automorphism, &Nothing).unwrap_err(),
    ];
    for error in foreign.map(|error| error.to_string()) {
        assert!(error.contains("digits of 3 limbs with a ciphertext of 2"), "{error}");
    }
}

#[test]
fn many_digits_of_the_widest_products_are_summed_exactly() {
    let parameters = many_digits();
    let mut first = None;
    for context in contexts(&parameters) {
        let automorphism = context.automorphism(crate::rotation_galois_element(1, context.ring_dim())).unwrap();
        // Each digit is 1, and each product about half of its modulus: an odd word, so that no sum beyond 2^53 is exact.
        let key = RandomKey::flat(&context, |q| q / 2 - 1);
        let found: Vec<_> = [64, 45, 31, 17, 9]
            .map(|limbs| {
                let a = flat(&context, limbs, |_| 1);
                let rotated = context.rotate(&a, &automorphism, &key).unwrap();
                [rotated.words(0).to_vec(), rotated.words(1).to_vec()]
            })
            .to_vec();
        let first = first.get_or_insert_with(|| found.clone());
        assert!(*first == found, "{:?}", context.path());
        // By the definition: a sum of nine words, times P, over P, plus c_0.
        let q = parameters.moduli_q[0];
        let sum = (u128::from(q / 2 - 1) * 9 % u128::from(q)) as u64;
        let p = context.primes()[0].modulus;
        let special = parameters.moduli_p[0];
        let rest = (u128::from(special / 2 - 1) * 9 % u128::from(special)) as u64;
        let divided = p.mul(p.sub(sum, p.reduce(rest)), p.inverse(p.reduce(special)));
        assert!(found[4][1][..context.ring_dim()].iter().all(|word| *word == divided), "{:?}", context.path());
    }
}
