//! Bytes that claim to be a ciphertext of OpenFHE's: parsed, every row read; and a writer made from them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_ckks::openfhe_bytes::{CiphertextWriter, parse_ciphertext, read_row};

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_ciphertext(bytes);
    assert_eq!(CiphertextWriter::like(bytes).is_ok(), parsed.is_ok());
    let Ok(parsed) = parsed else { return };
    let mut words = vec![0; parsed.ring_dim];
    for (limb, row) in parsed.polynomials.iter().flat_map(|rows| rows.iter().enumerate()) {
        if read_row(bytes, row, limb, &mut words).is_ok() {
            assert!(words.iter().all(|word| *word < row.modulus));
        }
    }
});
