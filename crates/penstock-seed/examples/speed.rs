//! Seconds of an expansion: `cargo run --release -p penstock-seed --example speed`.

use std::time::Instant;

use penstock_seed::{Seed, expand};

fn main() {
    let mut words = vec![0; 1 << 16];
    for modulus in [1125899906842817, 1152921504606844417] {
        let mut best = f64::INFINITY;
        for digit in 0..400 {
            let begun = Instant::now();
            expand(&Seed([1; 32]), digit, 0, modulus, &mut words);
            best = best.min(begun.elapsed().as_secs_f64());
        }
        println!("{modulus}: {:.2} GB/s", 8.0 * words.len() as f64 / best / 1e9);
    }
}
