//! Switches to and from an ephemeral secret, by whole integers.

use super::*;

/// A key of one digit over q_0 and the first modulus of P.
struct SmallKey(Vec<Vec<u64>>);

impl KeyView for SmallKey {
    fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]> {
        let part = if part == Part::A { 0 } else { 2 };
        if digit > 0 || limb > 1 { None } else { self.0.get(part + limb).map(Vec::as_slice) }
    }
}

#[test]
fn the_switch_to_the_sparse_secret_is_the_rounded_product_with_its_key() {
    let parameters = parameters(64, 3, Scaling::FixedManual);
    let (q, p) = (parameters.moduli_q[0], parameters.moduli_p[0]);
    let plain = Plain::new(&[q, p], 64);
    let [mq, mp] = [0, 1].map(|k| plain.0[k].1.modulus);
    for context in contexts(&parameters) {
        let mut random = Random(41);
        let a = ciphertext(&context, &mut random, 2, 1);
        let key = SmallKey([random.rows(&[q, p], 64), random.rows(&[q, p], 64)].concat());
        let found = context.to_sparse(&a, &key).unwrap();
        assert_eq!((found.limbs(), found.degree(), found.scale()), (1, a.degree(), a.scale()));
        let second = plain.coefficients(0, a.row(1, 0));
        let over_p =
            plain.evaluations(1, second.iter().map(|word| mp.reduce_signed(mq.centred(*word))).collect::<Vec<_>>());
        for (half, part) in [Part::B, Part::A].into_iter().enumerate() {
            let product: Vec<u64> =
                over_p.iter().zip(key.row(part, 0, 1).unwrap()).map(|(x, y)| mp.mul(*x, *y)).collect();
            let rest: Vec<i64> = plain.coefficients(1, &product).iter().map(|word| mp.centred(*word)).collect();
            let rest = plain.evaluations(0, rest.iter().map(|word| mq.reduce_signed(*word)).collect());
            for (k, rest) in rest.iter().enumerate() {
                let whole = mq.mul(a.row(1, 0)[k], key.row(part, 0, 0).unwrap()[k]);
                let mut expected = mq.mul(mq.sub(whole, *rest), mq.inverse(mq.reduce(p)));
                if half == 0 {
                    expected = mq.add(expected, a.row(0, 0)[k]);
                }
                assert_eq!(found.row(half, 0)[k], expected, "{:?}", context.path());
            }
        }
        let wide = ciphertext(&context, &mut random, 2, 2);
        assert!(context.to_sparse(&wide, &key).is_err());
        assert!(context.to_sparse(&a, &SmallKey(key.0[..3].to_vec())).is_err());
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
