//! The header of a segment file: the key's name, its owner, and the checksum of each of its rows.
//!
//! Little-endian, padded with zeros to a multiple of 4 KiB; the rows follow. `docs/keystore.md` has the table.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::shape::{ALIGNMENT, WORD_BYTES};
use crate::{Error, KeyId, KeyName, Result, Shape, Tenant};

const MAGIC: [u8; 8] = *b"PSTKKEY\n";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 256;
const CHECKSUM_BYTES: usize = 8;
const MAX_TAG_BYTES: usize = 64;
/// A header of the largest shape that [`Shape::new`] accepts is smaller.
const MAX_HEADER_BYTES: usize = 4 << 20;

/// What the first bytes of a segment say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: KeyName,
    /// The tag that the library gave the secret key behind this key: all keys of a tenant under one set of parameters
    /// have the same.
    pub secret_tag: String,
    pub shape: Shape,
    /// One for each row, in the order of the segment.
    pub row_checksums: Vec<u64>,
}

impl Header {
    /// The checksum of a row: XXH3 seeded with whose row it is and where, so that a row of another key, tenant or
    /// place does not pass for it.
    pub fn row_checksum(&self, row: usize, words: &[u8]) -> u64 {
        row_checksum(identity_seed(&self.name, &self.secret_tag), row, words)
    }

    /// Bytes of the header of a key of this shape.
    pub fn encoded_bytes(shape: &Shape) -> usize {
        (FIXED_BYTES + (shape.moduli().len() + shape.num_rows()) * WORD_BYTES + CHECKSUM_BYTES)
            .next_multiple_of(ALIGNMENT)
    }

    /// Bytes of a segment of this shape: its header and its rows.
    pub fn segment_bytes(shape: &Shape) -> u64 {
        (Self::encoded_bytes(shape) + shape.num_rows() * shape.row_stride()) as u64
    }

    /// The place of a row in the segment.
    pub fn row_offset(&self, row: usize) -> u64 {
        (Self::encoded_bytes(&self.shape) + row * self.shape.row_stride()) as u64
    }

    /// The checksum that ends the header; the index keeps it, and so knows one import from another.
    pub fn checksum(&self) -> u64 {
        let bytes = self.encode();
        xxh3_64(&bytes[..bytes.len() - CHECKSUM_BYTES])
    }

    pub fn encode(&self) -> Vec<u8> {
        let shape = &self.shape;
        let mut out = vec![0; Self::encoded_bytes(shape)];
        let total = out.len();
        let mut at = Writer { out: &mut out, at: 0 };
        at.bytes(&MAGIC);
        at.number(VERSION as u64, 4);
        at.number(total as u64, 4);
        at.number(shape.ring_dim() as u64, 4);
        at.number(shape.num_q() as u64, 4);
        at.number(shape.num_p() as u64, 4);
        at.number(shape.digits() as u64, 4);
        at.bytes(&shape.digest().to_bytes());
        let (kind, element) = match self.name.key {
            KeyId::Relin => (0, 0),
            KeyId::Conj => (1, 0),
            KeyId::Rot(element) => (2, element),
        };
        at.number(kind, 8);
        at.number(element, 8);
        at.text(self.name.tenant.as_str(), Tenant::MAX_BYTES);
        at.text(&self.secret_tag, MAX_TAG_BYTES);
        at.at = FIXED_BYTES;
        for &word in shape.moduli().iter().chain(&self.row_checksums) {
            at.number(word, WORD_BYTES);
        }
        let checksum = xxh3_64(&out[..total - CHECKSUM_BYTES]);
        out[total - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The length of the header that `start`, the first 4 KiB of a file, begins.
    ///
    /// # Errors
    /// `Damaged`: no segment begins like this.
    pub fn length(path: &str, start: &[u8]) -> Result<usize> {
        let mut at = Reader { bytes: start, at: 0 };
        if start.len() < ALIGNMENT || at.bytes(8) != MAGIC {
            return Err(Error::damaged(path, "it is not a segment of keys (its first bytes are others)"));
        }
        let (version, length) = (at.number(4), at.number(4) as usize);
        if version != u64::from(VERSION) {
            return Err(Error::damaged(path, format!("its version is {version}, this program reads {VERSION}")));
        }
        if !(ALIGNMENT..=MAX_HEADER_BYTES).contains(&length) || length % ALIGNMENT != 0 {
            return Err(Error::damaged(path, format!("its header cannot have {length} bytes")));
        }
        Ok(length)
    }

    /// The header in `bytes`, which are as many as [`Header::length`] says.
    ///
    /// # Errors
    /// `Damaged`: the checksum or any field is wrong.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| Error::damaged(path, format!("its header is damaged: {what}"));
        if Self::length(path, bytes)? != bytes.len() {
            return Err(wrong("its length"));
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if xxh3_64(content).to_le_bytes() != checksum {
            return Err(wrong("it differs from its checksum"));
        }
        // Whole, and so written by somebody who knows the format: still nothing is taken on trust.
        let mut at = Reader { bytes: content, at: 16 };
        let [ring_dim, num_q, num_p, digits] = [(); 4].map(|()| at.number(4) as usize);
        let mut digest = [0; 16];
        digest.copy_from_slice(at.bytes(16));
        let key = match (at.number(8), at.number(8)) {
            (0, 0) => KeyId::Relin,
            (1, 0) => KeyId::Conj,
            (2, element) => KeyId::Rot(element),
            _ => return Err(wrong("the kind of key")),
        };
        let tenant = at.text(Tenant::MAX_BYTES).and_then(|name| Tenant::new(name).ok()).ok_or(wrong("the tenant"))?;
        let secret_tag = at.text(MAX_TAG_BYTES).ok_or(wrong("the tag of the secret key"))?.to_owned();
        at.at = FIXED_BYTES;
        // Before anything is allocated by the numbers of the file.
        if num_q.saturating_add(num_p).saturating_mul(WORD_BYTES) > content.len() - FIXED_BYTES {
            return Err(wrong("the number of limbs"));
        }
        let moduli: Vec<u64> = (0..num_q + num_p).map(|_| at.number(WORD_BYTES)).collect();
        let shape = Shape::new(ring_dim, &moduli[..num_q], &moduli[num_q..], digits)
            .map_err(|error| Error::damaged(path, error.to_string()))?;
        key.check(ring_dim).map_err(|error| Error::damaged(path, error.to_string()))?;
        if Self::encoded_bytes(&shape) != bytes.len() {
            return Err(wrong("its length does not fit the shape"));
        }
        let row_checksums = (0..shape.num_rows()).map(|_| at.number(WORD_BYTES)).collect();
        if shape.digest().to_bytes() != digest {
            return Err(wrong("the digest of the parameters"));
        }
        let name = KeyName { tenant, digest: shape.digest(), key };
        Ok(Self { name, secret_tag, shape, row_checksums })
    }

    /// Whether a secret key's tag can be kept: visible ASCII, at most 64 bytes.
    pub fn check_tag(tag: &str) -> Result<()> {
        if tag.len() > MAX_TAG_BYTES || !tag.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(Error::value("secret key's tag", format!("'{tag}'"), "at most 64 visible ASCII characters"));
        }
        Ok(())
    }
}

/// The seed of the checksums of one key's rows.
pub(crate) fn identity_seed(name: &KeyName, secret_tag: &str) -> u64 {
    xxh3_64(format!("{}\n{}\n{}\n{secret_tag}", name.tenant, name.digest, name.key).as_bytes())
}

pub(crate) fn row_checksum(identity_seed: u64, row: usize, words: &[u8]) -> u64 {
    // An odd multiplier: every row of a key has a different seed.
    xxh3_64_with_seed(words, identity_seed ^ (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn number(&mut self, value: u64, bytes: usize) {
        self.bytes(&value.to_le_bytes()[..bytes]);
    }

    /// One byte of length, and room for `most` bytes.
    fn text(&mut self, text: &str, most: usize) {
        self.number(text.len() as u64, 1);
        self.bytes(text.as_bytes());
        self.at += most - text.len();
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let read = &self.bytes[self.at..self.at + count];
        self.at += count;
        read
    }

    fn number(&mut self, count: usize) -> u64 {
        let mut word = [0; 8];
        word[..count].copy_from_slice(self.bytes(count));
        u64::from_le_bytes(word)
    }

    fn text(&mut self, most: usize) -> Option<&'a str> {
        let length = self.number(1) as usize;
        let room = self.bytes(most);
        std::str::from_utf8(room.get(..length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Random, shape};

    fn header() -> Header {
        let shape = shape(64, 5, 2, 3);
        let name = KeyName { tenant: Tenant::new("alice").unwrap(), digest: shape.digest(), key: KeyId::Rot(5) };
        let row_checksums = (0..shape.num_rows() as u64).map(|row| row.wrapping_mul(0x0123_4567_89ab_cdef)).collect();
        Header { name, secret_tag: "00ff".into(), shape, row_checksums }
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let header = header();
        let bytes = header.encode();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(Header::decode("x", &bytes).unwrap(), header);
        assert_eq!(header.checksum().to_le_bytes(), bytes[4088..]);
    }

    #[test]
    fn any_flipped_bit_of_a_header_is_found() {
        let bytes = header().encode();
        // Every bit of the used bytes, and one in every padding byte.
        let used = FIXED_BYTES + 64 * 8;
        for bit in (0..used * 8).chain((used * 8..bytes.len() * 8).step_by(9)) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode("x", &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_header_with_a_good_checksum_and_wild_fields_is_refused_without_a_panic() {
        let good = header();
        let bytes = good.encode();
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let mut wild = bytes.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(FIXED_BYTES as u64 + 64) as usize;
                wild[at] = random.next_word() as u8;
            }
            let checksum = xxh3_64(&wild[..4088]);
            wild[4088..].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(read) = Header::decode("x", &wild) {
                // An accepted header is consistent in itself; padding and reserved bytes may differ.
                assert_eq!(read.shape.digest(), read.name.digest);
                assert_eq!(read.row_checksums.len(), read.shape.num_rows());
            }
        }
    }
}
