//! Bytes that claim to be a segment's header. Its checksum is made good, so that the fields behind it are reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_store::{ALIGNMENT, Header};
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|input: &[u8]| {
    let mut bytes = input.to_vec();
    bytes.resize(input.len().next_multiple_of(ALIGNMENT).max(ALIGNMENT), 0);
    let Ok(length) = Header::length("fuzzed", &bytes) else { return };
    bytes.resize(length, 0);
    let checksum = xxh3_64(&bytes[..length - 8]);
    bytes[length - 8..].copy_from_slice(&checksum.to_le_bytes());
    if let Ok(header) = Header::decode("fuzzed", &bytes) {
        assert_eq!(header.row_checksums.len(), header.layout().num_rows(&header.shape));
        assert_eq!(header.encode().len(), length);
    }
});
