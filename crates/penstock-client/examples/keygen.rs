//! Seconds of making a key: `cargo run --release -p penstock-client --example keygen`.

use std::time::Instant;

use penstock_ckks::{Machine, Parameters, Scaling};
use penstock_client::{EvaluationKey, Ring, RingParameters, SecretKey, SecretKind};
use penstock_segment::KeyId;

/// Primes of about `bits` bits that are 1 modulo 2^17.
fn primes(bits: u32, count: usize, avoid: &[u64]) -> Vec<u64> {
    let is_prime = |n: u64| {
        let power = |mut b: u128, mut e: u64| -> u64 {
            let (m, mut p) = (u128::from(n), 1u128);
            b %= m;
            while e > 0 {
                if e & 1 == 1 {
                    p = p * b % m;
                }
                b = b * b % m;
                e >>= 1;
            }
            p as u64
        };
        let (mut odd, mut twos) = (n - 1, 0);
        while odd % 2 == 0 {
            (odd, twos) = (odd / 2, twos + 1);
        }
        [2u128, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37].into_iter().all(|a| {
            let mut x = power(a, odd);
            let passes = x == 1;
            passes
                || (0..twos).any(|_| {
                    let before = x;
                    x = (u128::from(x) * u128::from(x) % u128::from(n)) as u64;
                    before == n - 1
                })
        })
    };
    let below = |k: u64| (1u64 << bits) + 1 - (k << 17);
    (1..).map(below).filter(|n| is_prime(*n) && !avoid.contains(n)).take(count).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let q0 = primes(60, 1, &[]);
    let special = primes(60, 4, &q0);
    for threads in [1, 2] {
        let evaluator = Parameters {
            ring_dim: 1 << 16,
            moduli_q: [&q0[..], &primes(50, 10, &[])].concat(),
            moduli_p: special.clone(),
            dnum: 3,
            scaling: Scaling::FixedManual,
            scale_bits: 50,
        };
        let secret = SecretKind::UniformTernary;
        let parameters = RingParameters { evaluator, slots: 1 << 15, depth: 10, secret, security: None };
        let ring = Ring::new(parameters, Machine { keep_bytes: 0, ..Machine::new(threads)? })?;
        let secret = SecretKey::generate(&ring)?;
        for id in [KeyId::Rot(5), KeyId::Relin] {
            let mut best = f64::INFINITY;
            for _ in 0..20 {
                let begun = Instant::now();
                let key = EvaluationKey::generate(&ring, &secret, id, 11, true)?;
                best = best.min(begun.elapsed().as_secs_f64());
                assert!(key.bytes() > 0);
            }
            println!("{threads} threads, {id}: {:.1} ms", 1e3 * best);
        }
    }
    Ok(())
}
