//! The fixed beginning and end of a file.

use sha2::{Digest, Sha256};

/// The number of the format. A reader reads its own number and those below it.
pub const VERSION: u32 = 1;
/// The first bytes of every package, of any version.
pub const MAGIC: [u8; 8] = *b"PENSTPKG";
/// The last ones.
pub const END: [u8; 8] = *b"GKPTSNEP";
pub const HEADER_BYTES: usize = 16;
pub const FOOTER_BYTES: usize = 64;

/// Magic, version, and four bytes 0.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The version of a header; `None`: the file is not a package.
pub fn version(header: &[u8; HEADER_BYTES]) -> Option<u32> {
    let [a, b, c, d] = [header[8], header[9], header[10], header[11]];
    header.starts_with(&MAGIC).then(|| u32::from_le_bytes([a, b, c, d]))
}

/// The place and the digest of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    pub offset: u64,
    pub length: u64,
    /// SHA-256 of the tables.
    pub digest: [u8; 32],
}

impl Footer {
    pub fn write(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.digest);
        bytes[48..52].copy_from_slice(&VERSION.to_le_bytes());
        bytes[56..].copy_from_slice(&END);
        bytes
    }

    /// `None`: not the end of a package of this version.
    pub fn read(bytes: &[u8; FOOTER_BYTES]) -> Option<Self> {
        let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[16..48]);
        let footer = Self { offset: word(0), length: word(8), digest };
        (footer.write() == *bytes).then_some(footer)
    }
}

/// SHA-256 of parts, one after another.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().into()
}
