//! Every path against definitions: schoolbook products, direct sums in 128 bits, the value of a polynomial.

use super::checked::Bound;
use super::*;
use crate::buffer::Arena;

/// Primes that are 1 mod 2^18: just above and below 2^50, 45, 55, 59 and 60 bits.
fn primes() -> Vec<u64> {
    let below = |limit: u64| (1..).map(|k| (limit >> 18 << 18) + 1 - (k << 18)).find(|q| is_prime(*q)).unwrap();
    let above = |limit: u64| (1..).map(|k| (limit >> 18 << 18) + 1 + (k << 18)).find(|q| is_prime(*q)).unwrap();
    vec![below(1 << 60), above(1 << 50), below(1 << 50), below(1 << 45), below(1 << 55), above(1 << 59), above(1 << 51)]
}

fn is_prime(q: u64) -> bool {
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(q)) as u64;
    [2u64, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37].iter().all(|base| {
        let (mut x, mut e, mut b) = (1u64, (q - 1) >> (q - 1).trailing_zeros(), *base);
        while e > 0 {
            if e & 1 == 1 {
                x = mul(x, b);
            }
            b = mul(b, b);
            e >>= 1;
        }
        let mut squares = (0..(q - 1).trailing_zeros()).scan(x, |x, _| Some(std::mem::replace(x, mul(*x, *x))));
        x == 1 || squares.any(|x| x == q - 1)
    })
}

struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Words below q: random, or all at an edge, where ranges are widest.
    fn row(&mut self, q: u64, n: usize) -> Vec<u64> {
        match self.word() % 4 {
            0 => vec![q - 1; n],
            1 => (0..n).map(|_| if self.word().is_multiple_of(2) { q - 1 } else { q / 2 + 1 }).collect(),
            _ => (0..n).map(|_| self.word() % q).collect(),
        }
    }
}

/// Every path of this machine, and those that check their ranges.
fn paths() -> Vec<Kernels> {
    let paths = CpuPath::ALL.into_iter().chain([CpuPath::Checked4, CpuPath::Checked8]);
    let available: Vec<_> = paths.filter_map(|path| Kernels::of(path).ok()).collect();
    assert!(available.iter().any(|kernels| kernels.path() == CpuPath::Portable));
    available
}

fn forward(kernels: Kernels, p: &Prime, row: &[u64]) -> Vec<u64> {
    let mut row = row.to_vec();
    kernels.to_working(p, &mut row);
    kernels.forward(p, &mut row);
    kernels.to_canonical(p, &mut row);
    row
}

fn inverse(kernels: Kernels, p: &Prime, row: &[u64]) -> Vec<u64> {
    let mut out = vec![0; row.len()];
    kernels.inverse(p, row, p.modulus.inverse(row.len() as u64), &mut out);
    out
}

#[test]
fn word_k_is_the_value_at_an_odd_power_of_the_root() {
    let n = 128;
    for q in primes() {
        let row = Random(q).row(q, n);
        for kernels in paths() {
            let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
            let values = forward(kernels, &p, &row);
            for (k, value) in values.iter().enumerate() {
                let x = p.modulus.pow(p.root, 2 * bit_reversed(k, n) as u64 + 1);
                let expected = row.iter().rev().fold(0, |sum, c| p.modulus.add(p.modulus.mul(sum, x), *c));
                assert_eq!(*value, expected, "{:?}, q = {q}, word {k}", kernels.path());
            }
        }
    }
}

#[test]
fn a_product_of_evaluations_is_the_negacyclic_product() {
    let n = 64;
    for q in primes() {
        let mut random = Random(q);
        let (a, b) = (random.row(q, n), random.row(q, n));
        for kernels in paths() {
            let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
            let m = p.modulus;
            let mut expected = vec![0; n];
            for i in 0..n {
                for j in 0..n {
                    let term = m.mul(a[i], b[j]);
                    let to = &mut expected[(i + j) % n];
                    *to = if i + j < n { m.add(*to, term) } else { m.sub(*to, term) };
                }
            }
            let (fa, fb) = (forward(kernels, &p, &a), forward(kernels, &p, &b));
            let (mut product, mut other) = (vec![0; n], vec![0; n]);
            let digits = [Digit { row: &fa, canonical: true }];
            kernels.inner_product(&p, &digits, [&[&fb], &[&fb]], [&mut product, &mut other]);
            assert_eq!(product, other);
            assert_eq!(inverse(kernels, &p, &product), expected, "{:?}, q = {q}", kernels.path());
        }
    }
}

#[test]
fn transforms_of_all_sizes_are_inverse_and_the_same_on_every_path() {
    for log_n in 6..=17 {
        let n = 1 << log_n;
        for q in primes() {
            let mut random = Random(q + log_n);
            let rows: Vec<_> = (0..3).map(|_| random.row(q, n)).collect();
            for row in rows {
                let mut first = None;
                for kernels in paths() {
                    let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
                    let values = forward(kernels, &p, &row);
                    assert!(inverse(kernels, &p, &values) == row, "{:?}, q = {q}, N = {n}", kernels.path());
                    let first = first.get_or_insert_with(|| values.clone());
                    assert!(*first == values, "{:?}, q = {q}, N = {n}", kernels.path());
                }
            }
        }
    }
}

#[test]
fn a_conversion_is_the_direct_sum() {
    let n = 64;
    for (q, count, wide) in primes().into_iter().flat_map(|q| (1..=11).map(move |count| (q, count, count % 2 == 0))) {
        let mut random = Random(q ^ count);
        let from: Vec<u64> =
            (0..count).map(|k| if wide && k % 3 == 0 { (1 << 60) - 1 } else { (1 << 50) + (1 << 44) }).collect();
        let rows: Vec<Vec<u64>> = from
            .iter()
            .map(|limit| {
                let sign = random.word() % 2;
                let row = random.row(*limit, n);
                row.into_iter().map(|word| if sign == 0 { word } else { word.wrapping_neg() }).collect()
            })
            .collect();
        let factors: Vec<u64> = (0..count).map(|_| random.row(q, 1)[0]).collect();
        for kernels in paths() {
            let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
            let sources: Vec<_> =
                rows.iter().zip(&factors).map(|(row, factor)| Source { row, factor: *factor, wide }).collect();
            let mut out = vec![0; n];
            kernels.convert(&p, &sources, &mut out);
            kernels.to_canonical(&p, &mut out);
            for (k, word) in out.iter().enumerate() {
                let sum = sources.iter().fold(0, |sum, source| {
                    p.modulus.add(sum, p.modulus.mul(p.modulus.reduce_signed(source.row[k] as i64), source.factor))
                });
                assert_eq!(*word, sum, "{:?}, q = {q}, {count} sources, wide {wide}", kernels.path());
            }
        }
    }
}

/// Rows whose sums are widest: residues and products of 0, near q/2 and near q, and words that are long in both halves.
fn edges(q: u64, n: usize) -> Vec<Vec<u64>> {
    let carries = ((q >> 30) - 1) << 30 | ((1 << 30) - 1);
    [1, q / 2 - 1, q / 2, q / 2 + 1, q - 1, carries].map(|word| vec![word; n]).to_vec()
}

/// Every path's inner product and sum of products of digits that are canonical or in the working form in turn, against
/// the sum in whole integers.
fn assert_inner_products(q: u64, x: &[Vec<u64>], keys: [&[Vec<u64>]; 2]) {
    let n = x[0].len();
    let expected = keys.map(|key| {
        let of = |k: usize| {
            x.iter().zip(key).map(|(x, key)| u128::from(x[k]) * u128::from(key[k]) % u128::from(q)).sum::<u128>()
        };
        (0..n).map(|k| (of(k) % u128::from(q)) as u64).collect::<Vec<_>>()
    });
    for kernels in paths() {
        let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
        let mut working = x.to_vec();
        working.iter_mut().for_each(|row| kernels.to_working(&p, row));
        let digits: Vec<_> = (0..x.len())
            .map(|d| Digit { row: if d % 2 == 0 { &x[d] } else { &working[d] }, canonical: d % 2 == 0 })
            .collect();
        let keys = keys.map(|key| key.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (mut out0, mut out1, mut alone) = (vec![0; n], vec![0; n], vec![0; n]);
        kernels.inner_product(&p, &digits, [&keys[0], &keys[1]], [&mut out0, &mut out1]);
        let at = format!("{:?}, q = {q}, {} digits", kernels.path(), x.len());
        assert!([&out0, &out1] == [&expected[0], &expected[1]], "{at}");
        kernels.sum_of_products(&p, &digits, &keys[1], &mut alone);
        assert!(alone == expected[1], "{at}");
    }
}

#[test]
fn an_inner_product_is_the_direct_sum() {
    for (q, count) in primes().into_iter().flat_map(|q| (1..=64).map(move |count| (q, count))) {
        let mut random = Random(q ^ count);
        let mut rows = || -> Vec<Vec<u64>> { (0..count).map(|_| random.row(q, 64)).collect() };
        let (x, b, a) = (rows(), rows(), rows());
        assert_inner_products(q, &x, [&b, &a]);
    }
}

#[test]
fn an_inner_product_of_the_widest_operands_is_the_direct_sum() {
    for q in primes() {
        let edges = edges(q, 64);
        for (x, (b, a)) in edges.iter().flat_map(|x| edges.iter().zip(edges.iter().rev()).map(move |pair| (x, pair))) {
            for count in [1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 45, 64] {
                let repeat = |row: &Vec<u64>| vec![row.clone(); count];
                assert_inner_products(q, &repeat(x), [&repeat(b), &repeat(a)]);
            }
        }
    }
}

#[test]
fn the_widest_conversion_is_the_direct_sum() {
    let n = 64;
    for (q, kernels) in primes().into_iter().flat_map(|q| paths().into_iter().map(move |kernels| (q, kernels))) {
        let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
        let mut out = vec![0; n];
        // The largest words of narrow and of wide sources, and factors at the edges.
        for (limit, wide) in [((1i64 << 50) + (1 << 44) - 1, false), ((1 << 60) - 1, true)] {
            for word in [limit, -limit] {
                let row = vec![word as u64; n];
                for factor in [1, q / 2, q - 1, q - 2] {
                    let source = Source { row: &row, factor, wide };
                    let of_one = p.modulus.mul(p.modulus.reduce_signed(word), factor);
                    for count in 1..=64 {
                        kernels.convert(&p, &vec![source; count], &mut out);
                        kernels.to_canonical(&p, &mut out);
                        let expected = p.modulus.mul(of_one, count as u64);
                        let at = format!("{:?}, q = {q}, {count} sources of {word}", kernels.path());
                        assert!(out.iter().all(|word| *word == expected), "{at}, factor {factor}");
                    }
                }
            }
        }
    }
}

/// The transforms run on bounds instead of residues: [`Bound`] refuses one that leaves its range.
#[test]
fn every_transform_keeps_its_ranges_for_every_input() {
    for log_n in 6..=17 {
        let n = 1 << log_n;
        let q = primes().into_iter().find(|q| *q < 1 << 50).unwrap();
        macro_rules! with {
            ($path:ident) => {
                let p = Kernels::of(CpuPath::$path).unwrap().prime(q, n, &Arena::new(0)).unwrap();
                for double in [true, false] {
                    let largest = if double { Bound::SETTLED } else { 8.0 };
                    let mut row = vec![f64::to_bits(largest); n];
                    transform::forward(checked::$path, Bound { double }, &mut row, &p.forward, &p.forward.last);
                    let settled = if double { Bound::SETTLED } else { 1.0 };
                    assert!(row.iter().all(|bound| f64::from_bits(*bound) <= settled), "N = {n}");
                    let mut out = vec![0; n];
                    transform::inverse(
                        checked::$path,
                        Bound { double },
                        &vec![f64::to_bits(1.0); n],
                        &mut out,
                        &p.backward,
                        (0, 0),
                    );
                    assert!(out.iter().all(|bound| f64::from_bits(*bound) == 1.0), "N = {n}");
                }
            };
        }
        with!(Checked4);
        with!(Checked8);
    }
}

#[test]
fn elementwise_kernels_follow_their_definitions() {
    let n = 64;
    for q in primes() {
        let mut random = Random(q);
        for _ in 0..8 {
            let (x, y, z) = (random.row(q, n), random.row(q, n), random.row(q, n));
            let factor = random.row(q, 1)[0];
            let signs: Vec<u8> = (0..n / 8).map(|_| random.word() as u8).collect();
            for kernels in paths() {
                let p = kernels.prime(q, n, &Arena::new(0)).unwrap();
                let (m, path) = (p.modulus, kernels.path());
                let each = |f: &dyn Fn(usize) -> u64| (0..n).map(f).collect::<Vec<_>>();
                let mut got = x.clone();
                kernels.add(&p, &mut got, &y);
                assert_eq!(got, each(&|k| m.add(x[k], y[k])), "{path:?}");
                got.copy_from_slice(&x);
                kernels.subtract(&p, &mut got, &y);
                assert_eq!(got, each(&|k| m.sub(x[k], y[k])), "{path:?}");
                got.copy_from_slice(&x);
                kernels.scale(&p, &mut got, factor);
                assert_eq!(got, each(&|k| m.mul(x[k], factor)), "{path:?}");
                got.copy_from_slice(&x);
                kernels.negate_where(&p, &signs, &mut got);
                let signed =
                    |k: usize| if signs[k / 8] >> (k % 8) & 1 == 1 && x[k] > 0 { x[k].wrapping_sub(q) } else { x[k] };
                assert_eq!(got, each(&signed), "{path:?}");
                for plus in [None, Some(z.as_slice())] {
                    got.copy_from_slice(&y);
                    kernels.to_working(&p, &mut got);
                    kernels.subtract_and_scale(&p, &x, &mut got, factor, plus);
                    let expected = |k: usize| m.add(m.mul(m.sub(x[k], y[k]), factor), plus.map_or(0, |z| z[k]));
                    assert_eq!(got, each(&expected), "{path:?}, q = {q}");
                }
            }
        }
    }
}

#[test]
fn a_path_that_is_not_there_is_refused_by_name() {
    assert!(matches!(CpuPath::by_name("neon"), Err(crate::Error::Cpu { .. })));
    assert_eq!(CpuPath::by_name("avx2").unwrap(), CpuPath::Avx2);
}
