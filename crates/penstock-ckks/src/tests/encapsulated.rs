//! Switches to and from an ephemeral secret, by whole integers.

use super::*;
use crate::modulus::Modulus;

/// A key of one digit over q_0 and the auxiliary primes.
struct SmallKey(Vec<Vec<u64>>);

impl KeyView for SmallKey {
    fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]> {
        let part = if part == Part::A { 0 } else { 3 };
        if digit > 0 || limb > 2 { None } else { self.0.get(part + limb).map(Vec::as_slice) }
    }
}

/// The number in [-P/2, P/2) with these remainders by two moduli.
fn centred_of(moduli: [u64; 2], remainders: [u64; 2]) -> i128 {
    let [p, r] = moduli;
    let inverse = Modulus::new(r).map(|r| r.inverse(r.reduce(p))).unwrap();
    let lift = |x: u64| i128::from(x);
    let step = (lift(remainders[1]) - lift(remainders[0])).rem_euclid(lift(r)) * lift(inverse) % lift(r);
    let (x, whole) = (lift(remainders[0]) + lift(p) * step, lift(p) * lift(r));
    if 2 * x >= whole { x - whole } else { x }
}

#[test]
fn the_switch_to_the_sparse_secret_is_the_rounded_product_with_its_key() {
    let parameters = parameters(64, 3, Scaling::FixedManual);
    for context in contexts(&parameters) {
        let moduli = context.to_sparse_moduli().unwrap();
        assert_eq!(moduli[0], parameters.moduli_q[0]);
        assert!(moduli[1..].iter().all(|p| p >> 32 == 1));
        let plain = Plain::new(&moduli, 64);
        let by: Vec<_> = plain.0.iter().map(|each| each.1.modulus).collect();
        let whole = i128::from(moduli[1]) * i128::from(moduli[2]);
        let mut random = Random(41);
        let a = ciphertext(&context, &mut random, 2, 1);
        let key = SmallKey([random.rows(&moduli, 64), random.rows(&moduli, 64)].concat());
        let found = context.to_sparse(&a, &key).unwrap();
        assert_eq!((found.limbs(), found.degree(), found.scale()), (1, a.degree(), a.scale()));
        let second: Vec<i64> = plain.coefficients(0, a.row(1, 0)).iter().map(|word| by[0].centred(*word)).collect();
        for (half, part) in [Part::B, Part::A].into_iter().enumerate() {
            let rests: Vec<Vec<u64>> = [1, 2]
                .map(|limb| {
                    let over = second.iter().map(|word| by[limb].reduce_signed(*word)).collect();
                    let over = plain.evaluations(limb, over);
                    let row = key.row(part, 0, limb).unwrap();
                    let product: Vec<u64> = over.iter().zip(row).map(|(x, y)| by[limb].mul(*x, *y)).collect();
                    plain.coefficients(limb, &product)
                })
                .into();
            let rest = |k: usize| centred_of([moduli[1], moduli[2]], [rests[0][k], rests[1][k]]);
            let rest = (0..64).map(|k| rest(k).rem_euclid(i128::from(moduli[0])) as u64).collect();
            let rest = plain.evaluations(0, rest);
            let inverse = by[0].inverse((whole % i128::from(moduli[0])) as u64);
            for (k, rest) in rest.iter().enumerate() {
                let product = by[0].mul(a.row(1, 0)[k], key.row(part, 0, 0).unwrap()[k]);
                let mut expected = by[0].mul(by[0].sub(product, *rest), inverse);
                if half == 0 {
                    expected = by[0].add(expected, a.row(0, 0)[k]);
                }
                assert_eq!(found.row(half, 0)[k], expected, "{:?}", context.path());
            }
        }
        let wide = ciphertext(&context, &mut random, 2, 2);
        assert!(context.to_sparse(&wide, &key).is_err());
        assert!(context.to_sparse(&a, &SmallKey(key.0[..5].to_vec())).is_err());
    }
}

#[test]
fn the_switch_back_is_a_relinearization_of_a_ciphertext_with_nothing_in_the_middle() {
    let parameters = parameters(64, 3, Scaling::FixedManual);
    for context in contexts(&parameters) {
        let mut random = Random(42);
        let a = ciphertext(&context, &mut random, 2, 7);
        let key = RandomKey::new(&context, &mut random);
        let mut product = ciphertext(&context, &mut random, 3, 7);
        product.polynomials[0].copy_from_slice(a.words(0));
        product.polynomials[1].fill(0);
        product.polynomials[2].copy_from_slice(a.words(1));
        let (found, twin) = (context.to_dense(&a, &key).unwrap(), context.relinearize(&product, &key).unwrap());
        for half in 0..2 {
            assert!(found.words(half) == twin.words(half), "{:?}", context.path());
        }
    }
}
