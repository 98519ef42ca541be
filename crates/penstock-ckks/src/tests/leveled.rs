//! Products, rescaling, sums and scalars by their definitions.

use super::*;
use crate::modulus::Modulus;

fn by_limb(context: &Context, limbs: usize, f: impl Fn(Modulus, usize) -> Vec<u64>) -> Vec<u64> {
    (0..limbs).flat_map(|limb| f(context.primes[limb].modulus, limb)).collect()
}

fn zip(a: &[u64], b: &[u64], f: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()
}

#[test]
fn a_product_is_the_tensor_product() {
    for context in contexts(&parameters(64, 3, Scaling::FixedManual)) {
        let mut random = Random(3);
        for limbs in [1, 4, 7] {
            let (a, b) = (ciphertext(&context, &mut random, 2, limbs), ciphertext(&context, &mut random, 2, limbs));
            for (product, b) in
                [(context.mult_no_relin(&a, &b).unwrap(), &b), (context.square_no_relin(&a).unwrap(), &a)]
            {
                let term = |i: usize, j: usize| {
                    by_limb(&context, limbs, |m, l| zip(a.row(i, l), b.row(j, l), |x, y| m.mul(x, y)))
                };
                let middle = by_limb(&context, limbs, |m, l| {
                    let n = context.ring_dim();
                    zip(&term(0, 1)[l * n..][..n], &term(1, 0)[l * n..][..n], |x, y| m.add(x, y))
                });
                assert!(product.words(0) == term(0, 0), "{:?}", context.path());
                assert!(product.words(1) == middle, "{:?}", context.path());
                assert!(product.words(2) == term(1, 1), "{:?}", context.path());
                assert_eq!((product.degree(), product.polynomials()), (2, 3));
                assert_eq!(product.scale(), a.scale() * b.scale());
            }
        }
    }
}

#[test]
fn rescaling_divides_and_rounds_to_the_nearest() {
    let parameters = parameters(64, 3, Scaling::FixedManual);
    let plain = Plain::new(&parameters.moduli_q, 64);
    for context in contexts(&parameters) {
        let mut random = Random(4);
        for limbs in [7, 6, 3, 2] {
            let a = ciphertext(&context, &mut random, 2, limbs);
            let divided = context.rescale(&a).unwrap();
            assert_eq!(divided.limbs(), limbs - 1);
            for half in 0..2 {
                let last = plain.coefficients(limbs - 1, a.row(half, limbs - 1));
                let q_last = plain.0[limbs - 1].1.modulus;
                for limb in 0..limbs - 1 {
                    let m = plain.0[limb].1.modulus;
                    let by = super::residues::inverse(m.reduce(q_last.value()), m.value());
                    let rest = |x: u64| {
                        // x - last, which q_last divides, where last is the representative next to 0
                        let centred = if 2 * x > q_last.value() {
                            i128::from(x) - i128::from(q_last.value())
                        } else {
                            i128::from(x)
                        };
                        centred.rem_euclid(i128::from(m.value())) as u64
                    };
                    let expected =
                        zip(&plain.coefficients(limb, a.row(half, limb)), &last, |x, l| m.mul(m.sub(x, rest(l)), by));
                    let got = plain.coefficients(limb, divided.row(half, limb));
                    assert!(got == expected, "{:?}, {limbs} limbs, limb {limb}", context.path());
                }
            }
        }
    }
}

#[test]
fn sums_and_numbers_follow_their_definitions() {
    for context in contexts(&parameters(64, 3, Scaling::FixedManual)) {
        let mut random = Random(5);
        let limbs = 6;
        let (a, b) = (ciphertext(&context, &mut random, 2, limbs), ciphertext(&context, &mut random, 2, limbs + 1));
        let sum = context.add(&a, &b).unwrap();
        let difference = context.sub(&a, &b).unwrap();
        let negated = context.negate(&a).unwrap();
        let scaled = context.mult_scalar(&a, -1.5).unwrap();
        let shifted = context.add_scalar(&a, -0.25).unwrap();
        for half in 0..2 {
            let each = |f: &dyn Fn(Modulus, u64, u64) -> u64| {
                by_limb(&context, limbs, |m, l| zip(a.row(half, l), b.row(half, l), |x, y| f(m, x, y)))
            };
            assert!(sum.words(half) == each(&|m, x, y| (x + y) % m.value()));
            assert!(difference.words(half) == each(&|m, x, y| (x + m.value() - y) % m.value()));
            assert!(negated.words(half) == each(&|m, x, _| (m.value() - x) % m.value()));
            // OpenFHE adds 1/2 and cuts off, so a negative number that was whole moves one up.
            let factor = (3u64 << 49) - 1;
            assert!(scaled.words(half) == each(&|m, x, _| m.neg(m.mul(x, m.reduce(factor)))), "{:?}", context.path());
            let summand = if half == 0 { 1u64 << 48 } else { 0 };
            assert!(shifted.words(half) == each(&|m, x, _| m.sub(x, m.reduce(summand))));
        }
        assert_eq!((scaled.degree(), scaled.scale()), (2, a.scale() * 2f64.powi(50)));
        assert!(context.mult_scalar(&a, f64::NAN).is_err());
    }
}

#[test]
fn numbers_that_do_not_fit_a_word_are_scaled_in_steps() {
    let context = &contexts(&parameters(64, 3, Scaling::FixedManual))[0];
    let a = ciphertext(context, &mut Random(6), 2, 5);
    // 2^150 * 2^50: 2^200 modulo each prime, exactly, since 2^150 has one bit.
    let scaled = context.mult_scalar(&a, 2f64.powi(150)).unwrap();
    let shifted = context.add_scalar(&a, 2f64.powi(150)).unwrap();
    for limb in 0..5 {
        let m = context.primes[limb].modulus;
        let factor = m.pow(2, 200);
        assert_eq!(scaled.row(0, limb)[5], m.mul(a.row(0, limb)[5], factor));
        assert_eq!(shifted.row(0, limb)[5], m.add(a.row(0, limb)[5], factor));
    }
}

#[test]
fn an_automatic_technique_rescales_when_it_multiplies_and_meets_at_the_lower_level() {
    for context in contexts(&parameters(64, 2, Scaling::FlexibleAuto)) {
        let mut random = Random(7);
        let key = RandomKey::new(&context, &mut random);
        let (a, low) = (ciphertext(&context, &mut random, 2, 5), ciphertext(&context, &mut random, 2, 2));
        let product = context.mult(&a, &a, &key).unwrap();
        assert_eq!((product.limbs(), product.degree()), (5, 2));
        let again = context.mult(&product, &product, &key).unwrap();
        assert_eq!((again.limbs(), again.degree()), (4, 2));
        assert_eq!(context.rescale(&product).unwrap().limbs(), 5, "not by the program");
        for high in [&a, &product, &again] {
            let sum = context.add(high, &low).unwrap();
            assert_eq!((sum.limbs(), sum.degree(), sum.scale()), (2, 1, low.scale()));
            let product = context.mult(high, &low, &key).unwrap();
            assert_eq!((product.limbs(), product.degree()), (2, 2));
        }
        let small = context.rescale_and_drop(&product, 2).unwrap();
        assert_eq!((small.limbs(), small.degree()), (2, 1));
        let one = context.rescale_and_drop(&a, 1).unwrap();
        assert!(matches!(
            context.mult(&context.mult(&one, &one, &key).unwrap(), &one, &key),
            Err(crate::Error::Depth { .. })
        ));
    }
}

#[test]
fn an_encoded_vector_is_the_rounded_interpolation() {
    let parameters = parameters(64, 3, Scaling::FixedManual);
    let plain = Plain::new(&parameters.moduli_q, 64);
    for context in contexts(&parameters) {
        let values: Vec<[f64; 2]> = (0..8).map(|k| [(k as f64).sin(), 0.1 * k as f64]).collect();
        let encoded = context.encode(&values, 3, 1, 8).unwrap();
        let m = plain.0[0].1.modulus;
        let coefficients = plain.coefficients(0, &encoded.words()[..64]);
        // Evaluate at the roots of order 128 that belong to the slots: 5^k.
        for (k, value) in values.iter().enumerate() {
            let power = 5usize.pow(k as u32) % 128;
            let mut sum = [0.0; 2];
            for (j, c) in coefficients.iter().enumerate() {
                let angle = std::f64::consts::PI * (j * power % 128) as f64 / 64.0;
                let c = m.centred(*c) as f64 / 2f64.powi(50);
                sum = [sum[0] + c * angle.cos(), sum[1] + c * angle.sin()];
            }
            assert!((sum[0] - value[0]).abs() + (sum[1] - value[1]).abs() < 1e-12, "{sum:?} {value:?}");
        }
        assert!(context.encode(&values, 3, 1, 4).is_err(), "more values than slots");
        assert!(context.encode(&values, 3, 1, 64).is_err(), "more slots than N/2");
        assert!(context.encode(&[[f64::INFINITY, 0.0]], 3, 1, 8).is_err());
        assert!(context.encode(&[[1e-40, 0.0]], 3, 1, 8).is_err(), "would round to 0");
    }
}

/// What `work` says of numbers that it refuses.
fn refusal<T: std::fmt::Debug>(made: Result<T, crate::Error>) -> String {
    made.unwrap_err().to_string()
}

#[test]
fn numbers_that_the_modulus_does_not_hold_are_refused_before_they_overflow() {
    for scaling in [Scaling::FixedManual, Scaling::FixedAuto, Scaling::FlexibleAuto, Scaling::FlexibleAutoExt] {
        let context = &contexts(&parameters(64, 3, scaling))[0];
        for limbs in 2..=context.count_q() {
            let a = ciphertext(context, &mut Random(8), 2, limbs);
            // The powers of two around the bound: their bits and those of the scale add up to the modulus less a bit.
            let level = context.level(limbs);
            let sum = (context.held_bits(limbs) - 1.0 - context.scales.fresh(level).log2()).exp2();
            let factor = (context.held_bits(limbs) - 1.0 - context.scales.factor(level).log2()).exp2();
            for sign in [1.0, -1.0] {
                let (small, large) = (0.999 * sign, 1.001 * sign);
                assert!(context.add_scalar(&a, sum * small).is_ok() && context.sub_scalar(&a, sum * small).is_ok());
                assert!(context.mult_scalar(&a, factor * small).is_ok());
                assert!(context.weighted_sum_scalar(&[&a], &[factor * small]).is_ok());
                assert!(context.encode(&[[sum * small, 0.0]; 8], limbs, 1, 8).is_ok());
                for value in [large, 1e200 * sign, 1e300 * sign, f64::MAX * sign] {
                    let [to_add, to_multiply] =
                        [sum, factor].map(|most| if value == large { most * large } else { value });
                    assert!(refusal(context.add_scalar(&a, to_add)).contains("bits at"), "{to_add}, {limbs} limbs");
                    assert!(refusal(context.sub_scalar(&a, to_add)).contains("bits at"));
                    assert!(refusal(context.mult_scalar(&a, to_multiply)).contains("bits at"));
                    assert!(refusal(context.weighted_sum_scalar(&[&a], &[to_multiply])).contains("bits at"));
                    for values in [[[to_add, 0.0]; 8], [[0.0, to_add]; 8]] {
                        let said = refusal(context.encode(&values, limbs, 1, 8));
                        assert!(said.contains("values whose coefficients have"), "{said}");
                        assert!(context.encode_extended(&values, limbs, 1, 8).is_err());
                    }
                }
            }
            // Each value times the scale is a double, and their sum is not.
            let said = refusal(context.encode(&[[f64::MAX / 2f64.powi(52), 0.0]; 8], limbs, 1, 8));
            assert!(said.contains("values whose coefficients have"), "{said}");
        }
        let single = ciphertext(context, &mut Random(9), 2, 3);
        let mut product = context.mult_scalar(&single, 1.0).unwrap();
        assert_eq!(product.degree(), 2);
        let held = context.held_bits(product.limbs());
        let bits = held - 1.0 - product.scale().log2();
        assert!(context.add_scalar(&product, (bits - 0.01).exp2()).is_ok());
        assert!(refusal(context.add_scalar(&product, (bits + 0.01).exp2())).contains("bits at"));
        assert!(context.encode(&[[(bits + 0.01).exp2(), 0.0]; 8], product.limbs(), 2, 8).is_err());
        // Nothing can be decrypted there, and OpenFHE computes.
        product = context.mod_drop(&product, 1).unwrap();
        assert!(context.add_scalar(&product, 1.0).is_ok());
    }
}

#[test]
fn a_raised_ciphertext_holds_the_same_integers() {
    let parameters = parameters(64, 3, Scaling::FixedManual);
    let plain = Plain::new(&parameters.moduli_q, 64);
    for context in contexts(&parameters) {
        let mut random = Random(14);
        let a = ciphertext(&context, &mut random, 2, 1);
        let raised = context.mod_raise(&a, 6).unwrap();
        assert_eq!(raised.limbs(), 6);
        for half in 0..2 {
            let first = plain.0[0].1.modulus;
            let integers: Vec<i64> =
                plain.coefficients(0, a.row(half, 0)).iter().map(|word| first.centred(*word)).collect();
            for limb in 0..6 {
                let m = plain.0[limb].1.modulus;
                let expected: Vec<u64> = integers.iter().map(|integer| m.reduce_signed(*integer)).collect();
                assert!(plain.coefficients(limb, raised.row(half, limb)) == expected, "{:?}", context.path());
            }
        }
        assert!(context.mod_raise(&raised, 7).is_err() && context.mod_raise(&a, 8).is_err());
    }
}

#[test]
fn monomials_shift_coefficients_and_whole_factors_scale_them() {
    let parameters = parameters(64, 3, Scaling::FixedManual);
    let plain = Plain::new(&parameters.moduli_q, 64);
    for context in contexts(&parameters) {
        let mut random = Random(15);
        let a = ciphertext(&context, &mut random, 2, 4);
        for power in [0, 1, 32, 64, 100, 127, 129] {
            let shifted = context.mult_monomial(&a, power).unwrap();
            for limb in 0..4 {
                let m = plain.0[limb].1.modulus;
                let mut expected = vec![0; 64];
                for (k, c) in plain.coefficients(limb, a.row(1, limb)).into_iter().enumerate() {
                    let to = (k + power) % 128;
                    expected[to % 64] = if to < 64 { c } else { m.neg(c) };
                }
                assert!(plain.coefficients(limb, shifted.row(1, limb)) == expected, "X^{power}");
            }
        }
        let scaled = context.mult_integer(&a, u64::MAX).unwrap();
        assert!(
            scaled.words(0) == by_limb(&context, 4, |m, l| a.row(0, l).iter().map(|x| m.mul(*x, u64::MAX)).collect())
        );
    }
}

#[test]
fn a_product_over_q_and_p_divides_to_the_product() {
    for context in contexts(&parameters(64, 3, Scaling::FixedManual)) {
        let mut random = Random(16);
        let a = ciphertext(&context, &mut random, 2, 5);
        let values: Vec<[f64; 2]> = (0..32).map(|k| [0.1 * k as f64, -0.3]).collect();
        let plain = context.encode(&values, 5, 1, 32).unwrap();
        let extended = context.encode_extended(&values, 5, 1, 32).unwrap();
        // P a has nothing to round, so the division is exact.
        let raised = context.extend(&a).unwrap();
        let product = context.mod_down(&context.mult_plain_extended(&raised, &extended).unwrap()).unwrap();
        let expected = context.mult_plain(&a, &plain).unwrap();
        assert_eq!((product.words(0), product.words(1)), (expected.words(0), expected.words(1)));
        assert_eq!((product.scale(), product.degree()), (a.scale() * plain.scale(), 2));
        assert!(context.mult_plain_extended(&raised, &context.encode_extended(&values, 4, 1, 32).unwrap()).is_err());
    }
}

#[test]
fn sums_over_q_and_p_divide_to_the_sum_of_what_was_raised() {
    for context in contexts(&parameters(64, 3, Scaling::FixedManual)) {
        let mut random = Random(17);
        let (a, b) = (ciphertext(&context, &mut random, 2, 5), ciphertext(&context, &mut random, 2, 5));
        let [left, right] = [&a, &b].map(|each| context.extend(each).unwrap());
        let sum = context.mod_down(&context.add_extended(&left, &right).unwrap()).unwrap();
        let expected = context.add(&a, &b).unwrap();
        assert_eq!((sum.words(0), sum.words(1)), (expected.words(0), expected.words(1)));
        let shorter = context.extend(&ciphertext(&context, &mut random, 2, 4)).unwrap();
        assert!(context.add_extended(&left, &shorter).is_err());
    }
}

#[test]
fn rescale_now_divides_under_every_technique() {
    let manual = &contexts(&parameters(64, 3, Scaling::FixedManual))[0];
    let automatic = &contexts(&parameters(64, 3, Scaling::FlexibleAuto))[0];
    let a = ciphertext(manual, &mut Random(18), 2, 5);
    let expected = manual.rescale(&a).unwrap();
    for context in [manual, automatic] {
        let reduced = context.rescale_now(&a).unwrap();
        assert_eq!((reduced.words(0), reduced.limbs()), (expected.words(0), 4));
        let last = context.parameters().moduli_q[4] as f64;
        let divisor = if context.parameters().scaling.is_automatic() { last } else { 2f64.powi(50) };
        assert_eq!(reduced.scale(), a.scale() / divisor);
        assert!(context.scale_at(0).is_err() && context.scale_at(context.count_q() + 1).is_err());
    }
    assert_eq!(manual.scale_at(3).unwrap(), 2f64.powi(50));
    assert_eq!(
        automatic.scale_at(automatic.count_q()).unwrap(),
        *automatic.parameters().moduli_q.last().unwrap() as f64
    );
}
