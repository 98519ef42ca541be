//! The header of a segment file: the key's name, its owner, and the checksum of each of its rows.
//!
//! Little-endian, padded with zeros to a multiple of 4 KiB; the rows follow. `docs/guides/keystore.md` has the table. A full key
//! of a first pair has version 1, as all keys had before there were other forms. Keys to and from a sparse secret have
//! version 3, keys from a smaller ring version 4: older programs name the version and refuse. Every other key has version 2.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::shape::{ALIGNMENT, WORD_BYTES};
use crate::{Error, Form, KeyId, KeyName, Layout, Result, Seed, Shape, Tenant};

const MAGIC: [u8; 8] = *b"PSTKKEY\n";
/// The first version has neither a form nor a pair.
const BEFORE_FORMS: u64 = 1;
const FORMS: u64 = 2;
/// Keys to and from a sparse secret; all else as in version 2.
const SPARSE: u64 = 3;
/// Keys from a smaller ring; all else as in version 3.
const VERSION: u64 = 4;
const FIXED_BYTES: usize = 256;
/// Where versions from 2 on have their own fields.
const FORM_AT: usize = 200;
/// A key with a seed states the version of its expansion, one without states 0.
const SEEDED: u64 = penstock_seed::VERSION as u64;
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
    /// Of this key; the file states that of the set, from which it follows.
    pub shape: Shape,
    /// The rows that the key has, and the seed of part A if one stands for it.
    pub form: Form,
    /// One for each row that the key has, stored or expanded, in the order of [`Shape::row`]. A changed seed shows here:
    /// its rows are others.
    pub row_checksums: Vec<u64>,
}

impl Header {
    pub fn layout(&self) -> Layout {
        self.form.layout()
    }

    /// The checksum of a row: XXH3 seeded with whose row it is and where, so that a row of another key, tenant or
    /// place does not pass for it.
    pub fn row_checksum(&self, row: usize, words: &[u8]) -> u64 {
        row_checksum(identity_seed(&self.name, &self.secret_tag), row, words)
    }

    /// Whether the words of a row are those that were imported.
    pub fn is_row(&self, row: usize, words: &[u8]) -> bool {
        let number = self.layout().number(&self.shape, row);
        let expected = number.and_then(|number| self.row_checksums.get(number));
        expected.is_some_and(|expected| self.row_checksum(row, words) == *expected)
    }

    /// Bytes of the header of such a key.
    pub fn encoded_bytes(shape: &Shape, layout: Layout) -> usize {
        let words = shape.set().moduli().len() + layout.num_rows(shape);
        (FIXED_BYTES + words * WORD_BYTES + CHECKSUM_BYTES).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of the segment of such a key: its header and its stored rows.
    pub fn segment_bytes(shape: &Shape, layout: Layout) -> u64 {
        (Self::encoded_bytes(shape, layout) + layout.num_stored(shape) * shape.row_stride()) as u64
    }

    /// Where the stored row at this place begins in the segment.
    pub fn stored_offset(&self, stored: usize) -> u64 {
        (Self::encoded_bytes(&self.shape, self.layout()) + stored * self.shape.row_stride()) as u64
    }

    fn version(&self) -> u64 {
        match self.name.key {
            KeyId::FromSmall | KeyId::FromSmallSquared => VERSION,
            KeyId::ToSparse | KeyId::ToDense => SPARSE,
            _ if self.layout().is_full(&self.shape) && self.name.pair == KeyName::FIRST_PAIR => BEFORE_FORMS,
            _ => FORMS,
        }
    }

    /// The checksum that ends the header; the index keeps it, and so knows one import from another.
    pub fn checksum(&self) -> u64 {
        let bytes = self.encode();
        xxh3_64(&bytes[..bytes.len() - CHECKSUM_BYTES])
    }

    pub fn encode(&self) -> Vec<u8> {
        let shape = self.shape.set();
        let mut out = vec![0; Self::encoded_bytes(&self.shape, self.layout())];
        let total = out.len();
        let mut at = Writer { out: &mut out, at: 0 };
        at.bytes(&MAGIC);
        let version = self.version();
        at.number(version, 4);
        at.number(total as u64, 4);
        at.number(shape.ring_dim() as u64, 4);
        at.number(shape.num_q() as u64, 4);
        at.number(shape.num_p() as u64, 4);
        at.number(shape.digits() as u64, 4);
        at.bytes(&shape.digest().to_bytes());
        let key = self.name.key;
        at.number(KeyId::KINDS.iter().take_while(|each| each.kind() != key.kind()).count() as u64, 8);
        at.number(if let KeyId::Rot(element) = key { element } else { 0 }, 8);
        at.text(self.name.tenant.as_str(), Tenant::MAX_BYTES);
        at.text(&self.secret_tag, MAX_TAG_BYTES);
        if version >= FORMS {
            at.at = FORM_AT;
            at.number(self.form.limbs as u64, 4);
            at.number(if self.form.seed.is_some() { SEEDED } else { 0 }, 4);
            at.bytes(&self.form.seed.map_or([0; 32], |seed| seed.0));
            at.number(u64::from(self.name.pair), 4);
        }
        at.at = FIXED_BYTES;
        for &word in shape.moduli().iter().chain(&self.row_checksums) {
            at.number(word, WORD_BYTES);
        }
        let checksum = xxh3_64(&out[..total - CHECKSUM_BYTES]);
        out[total - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Which row this is, for messages: of part A, that it comes from the seed.
    pub fn describe(&self, row: usize) -> String {
        let (place, layout) = (self.shape.describe(row), self.layout());
        let expanded = layout.number(&self.shape, row).is_some() && layout.stored(&self.shape, row).is_none();
        if expanded { format!("{place}, expanded from the seed") } else { place }
    }

    /// The length of the header that `start`, the first 4 KiB of a file, begins.
    ///
    /// # Errors
    /// `Damaged`: no segment begins like this. `NewerVersion`.
    pub fn length(path: &str, start: &[u8]) -> Result<usize> {
        let mut at = Reader { bytes: start, at: 0 };
        if start.len() < ALIGNMENT || at.bytes(8) != MAGIC {
            return Err(Error::damaged(path, "it is not a segment of keys (its first bytes are others)"));
        }
        let (version, length) = (at.number(4), at.number(4) as usize);
        if version > VERSION {
            return Err(Error::NewerVersion { path: path.into(), what: "its version", version, read: VERSION });
        }
        if version < BEFORE_FORMS {
            return Err(Error::damaged(path, format!("its version is {version}, the first one is {BEFORE_FORMS}")));
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
        let key = match (KeyId::KINDS.get(at.number(8) as usize), at.number(8)) {
            (Some(KeyId::Rot(_)), element) => KeyId::Rot(element),
            (Some(key), 0) => *key,
            _ => return Err(wrong("the kind of key")),
        };
        let tenant = at.text(Tenant::MAX_BYTES).and_then(|name| Tenant::new(name).ok()).ok_or(wrong("the tenant"))?;
        let secret_tag = at.text(MAX_TAG_BYTES).ok_or(wrong("the tag of the secret key"))?.to_owned();
        let version = Reader { bytes: content, at: 8 }.number(4);
        let (limbs, seed, pair) = if version == BEFORE_FORMS {
            (num_q, None, KeyName::FIRST_PAIR)
        } else {
            at.at = FORM_AT;
            let (limbs, seeded) = (at.number(4) as usize, at.number(4));
            let mut seed = [0; 32];
            seed.copy_from_slice(at.bytes(32));
            let seed = match seeded {
                0 => None,
                SEEDED => Some(Seed(seed)),
                version => {
                    let what = "the version of its seed's expansion";
                    return Err(Error::NewerVersion { path: path.into(), what, version, read: SEEDED });
                }
            };
            (limbs, seed, at.number(4) as u32)
        };
        at.at = FIXED_BYTES;
        // Before anything is allocated by the numbers of the file.
        if num_q.saturating_add(num_p).saturating_mul(WORD_BYTES) > content.len() - FIXED_BYTES {
            return Err(wrong("the number of limbs"));
        }
        let moduli: Vec<u64> = (0..num_q + num_p).map(|_| at.number(WORD_BYTES)).collect();
        let shape = Shape::new(ring_dim, &moduli[..num_q], &moduli[num_q..], digits)
            .and_then(|set| set.for_key(key))
            .map_err(|error| Error::damaged(path, error.to_string()))?;
        key.check(ring_dim).map_err(|error| Error::damaged(path, error.to_string()))?;
        let form = Form { limbs, seed };
        form.check(&shape).map_err(|error| Error::damaged(path, error.to_string()))?;
        if Self::encoded_bytes(&shape, form.layout()) != bytes.len() {
            return Err(wrong("its length does not fit the shape"));
        }
        let row_checksums = (0..form.layout().num_rows(&shape)).map(|_| at.number(WORD_BYTES)).collect();
        if shape.digest().to_bytes() != digest {
            return Err(wrong("the digest of the parameters"));
        }
        let name = KeyName { tenant, digest: shape.digest(), pair, key };
        let header = Self { name, secret_tag, shape, form, row_checksums };
        if pair < KeyName::FIRST_PAIR || header.version() != version {
            return Err(wrong("a version that its form and pair do not have"));
        }
        Ok(header)
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

    fn header_of(limbs: usize, seed: Option<Seed>, pair: u32) -> Header {
        header_for(KeyId::Rot(5), limbs, seed, pair)
    }

    fn header_for(key: KeyId, limbs: usize, seed: Option<Seed>, pair: u32) -> Header {
        let (shape, form) = (shape(64, 5, 2, 3).for_key(key).unwrap(), Form { limbs, seed });
        let name = KeyName { pair, ..KeyName::new(Tenant::new("alice").unwrap(), shape.digest(), key) };
        let rows = form.layout().num_rows(&shape) as u64;
        let row_checksums = (0..rows).map(|row| row.wrapping_mul(0x0123_4567_89ab_cdef)).collect();
        Header { name, secret_tag: "00ff".into(), shape, form, row_checksums }
    }

    fn header() -> Header {
        header_of(5, None, 1)
    }

    /// One of each form, one of a second pair, of the keys to and from a sparse secret, and from a smaller ring.
    fn headers() -> [Header; 11] {
        let seed = Some(Seed([7; 32]));
        [
            header(),
            header_of(3, None, 1),
            header_of(5, seed, 1),
            header_of(3, seed, 1),
            header_of(5, None, 2),
            header_for(KeyId::ToSparse, 1, None, 1),
            header_for(KeyId::ToSparse, 1, seed, 2),
            header_for(KeyId::ToDense, 5, None, 1),
            header_for(KeyId::ToDense, 3, seed, 1),
            header_for(KeyId::FromSmall, 1, None, 1),
            header_for(KeyId::FromSmallSquared, 1, seed, 2),
        ]
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        for (header, version) in headers().into_iter().zip([1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4]) {
            let bytes = header.encode();
            assert_eq!((bytes.len(), bytes[8]), (4096, version));
            assert_eq!(Header::decode("x", &bytes).unwrap(), header);
            assert_eq!(header.checksum().to_le_bytes(), bytes[4088..]);
        }
    }

    #[test]
    fn any_flipped_bit_of_a_header_is_found() {
        for header in headers() {
            let bytes = header.encode();
            // Every bit of the used bytes, and one in every padding byte.
            let used = FIXED_BYTES + 64 * 8;
            for bit in (0..used * 8).chain((used * 8..bytes.len() * 8).step_by(9)) {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Header::decode("x", &flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_header_of_a_newer_version_is_named_and_other_spellings_are_refused() {
        let with = |header: &Header, changes: &[(usize, u8)]| {
            let mut bytes = header.encode();
            changes.iter().for_each(|&(at, value)| bytes[at] = value);
            let checksum = xxh3_64(&bytes[..4088]);
            bytes[4088..].copy_from_slice(&checksum.to_le_bytes());
            Header::decode("x", &bytes).unwrap_err()
        };
        let [full, truncated, seeded, ..] = headers();
        assert!(matches!(with(&full, &[(8, 5)]), Error::NewerVersion { version: 5, read: 4, .. }));
        assert!(with(&full, &[(8, 0)]).is_damage());
        // A full key of a first pair has one version, and a version-2 header states a form that the key can have.
        assert!(with(&full, &[(8, 2), (FORM_AT, 5), (FORM_AT + 40, 1)]).is_damage());
        for limbs in [0, 6] {
            assert!(with(&truncated, &[(FORM_AT, limbs)]).to_string().contains("limbs"));
        }
        let error = with(&seeded, &[(FORM_AT + 4, 2)]);
        assert!(matches!(error, Error::NewerVersion { version: 2, read: 1, .. }) && error.to_string().contains("seed"));
        assert!(with(&seeded, &[(FORM_AT + 40, 0)]).is_damage());
        // A program of version 2 sees the version first, and names it.
        let to_sparse = header_for(KeyId::ToSparse, 1, None, 1);
        assert_eq!(to_sparse.encode()[8], 3);
        for version in [1, 2] {
            assert!(with(&to_sparse, &[(8, version)]).is_damage());
        }
        assert!(with(&full, &[(8, 3), (FORM_AT, 5), (FORM_AT + 40, 1)]).is_damage());
        // Nor does a key from a smaller ring pass for one of an earlier version.
        assert!(with(&to_sparse, &[(48, 5)]).is_damage());
        assert!(with(&header_for(KeyId::FromSmall, 1, None, 1), &[(8, 3)]).is_damage());
        assert!(with(&to_sparse, &[(48, 7)]).is_damage());
        assert!(with(&to_sparse, &[(FORM_AT, 2)]).to_string().contains("limbs"));
    }

    #[test]
    fn a_header_with_a_good_checksum_and_wild_fields_is_refused_without_a_panic() {
        let good = headers().map(|header| header.encode());
        let mut random = Random::new(7);
        for round in 0..20_000 {
            let mut wild = good[round % good.len()].clone();
            for _ in 0..=random.below(4) {
                let at = random.below(FIXED_BYTES as u64 + 64) as usize;
                wild[at] = random.next_word() as u8;
            }
            let checksum = xxh3_64(&wild[..4088]);
            wild[4088..].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(read) = Header::decode("x", &wild) {
                // An accepted header is consistent in itself; padding and reserved bytes may differ.
                assert_eq!(read.shape.digest(), read.name.digest);
                assert_eq!(read.row_checksums.len(), read.layout().num_rows(&read.shape));
                assert!(read.form.check(&read.shape).is_ok());
            }
        }
    }
}
