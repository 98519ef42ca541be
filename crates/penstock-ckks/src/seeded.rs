//! Fresh ciphertexts of half the size: of the two polynomials, the uniform one is a seed.
//!
//! Only the key's owner can make them (`c1` is drawn, and `c0 = -c1 s + e + m`); anybody expands them. Little-endian:
//!
//! ```text
//! 0    8       PSTKSCT\n
//! 8    4 × 6   version; bytes of the prefix; N; limbs; degree; slots
//! 32   8       scale, a double
//! 40   32      seed of c1: row (digit 0, limb) of `penstock_seed::expand`
//! 72   8 each  moduli
//!      …       prefix: OpenFHE's bytes in front of a ciphertext's polynomials, padded with zeros to 8 bytes
//!      8N each rows of c0
//!      8       XXH3-64 of all before
//! ```

use penstock_seed::{Seed, expand};
use xxhash_rust::xxh3::xxh3_64;

use crate::context::Context;
use crate::error::Error;
use crate::openfhe_bytes::RowSpan;
use crate::rows::CiphertextHeader;

/// The first bytes of a seeded ciphertext.
pub const MAGIC: [u8; 8] = *b"PSTKSCT\n";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 72;
const OBJECT: &str = "seeded ciphertext";

/// The header of a seeded ciphertext, and the places of its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct SeededBytes {
    /// Words of a row.
    pub ring_dim: usize,
    /// 1, or 2 at the full chain of `flexible-auto-ext`.
    pub degree: u32,
    /// Values that it holds.
    pub slots: u32,
    /// The factor that values are multiplied by.
    pub scale: f64,
    /// Of c1.
    pub seed: Seed,
    /// Of c0.
    pub rows: Vec<RowSpan>,
    prefix: std::ops::Range<usize>,
}

/// Whether bytes begin as a seeded ciphertext does.
pub fn is_seeded(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

impl SeededBytes {
    /// Reads the layout, and holds the content against its checksum.
    ///
    /// # Errors
    /// [`Error::Bytes`]: not the bytes of a whole seeded ciphertext of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |offset: usize, what: String| Error::Bytes { object: OBJECT, offset, what };
        if !is_seeded(bytes) || bytes.len() < FIXED_BYTES + 8 {
            return Err(wrong(0, format!("{} bytes that do not begin as one", bytes.len())));
        }
        let word = |at: usize| {
            let mut four = [0; 4];
            four.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(four)
        };
        let long = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        if word(8) != VERSION {
            let what = format!("version {}, where this program reads {VERSION}: take a newer penstock", word(8));
            return Err(wrong(8, what));
        }
        let (prefix_bytes, ring_dim, limbs) = (word(12) as usize, word(16) as usize, word(20) as usize);
        if !ring_dim.is_power_of_two() || !(16..=1 << 20).contains(&ring_dim) || !(1..=1 << 10).contains(&limbs) {
            return Err(wrong(16, format!("N = {ring_dim}, {limbs} limbs")));
        }
        let prefix = FIXED_BYTES + 8 * limbs..FIXED_BYTES + 8 * limbs + prefix_bytes;
        let rows_at = prefix.end.next_multiple_of(8);
        let expected = rows_at + 8 * ring_dim * limbs + 8;
        if bytes.len() != expected {
            return Err(wrong(bytes.len(), format!("{} bytes, where its header says {expected}", bytes.len())));
        }
        if xxh3_64(&bytes[..expected - 8]) != long(expected - 8) {
            return Err(wrong(expected - 8, "its content differs from its checksum".to_owned()));
        }
        let mut seed = [0; 32];
        seed.copy_from_slice(&bytes[40..72]);
        let row = |limb: usize| {
            let at = rows_at + 8 * ring_dim * limb;
            RowSpan { bytes: at..at + 8 * ring_dim, modulus: long(FIXED_BYTES + 8 * limb) }
        };
        Ok(Self {
            ring_dim,
            degree: word(24),
            slots: word(28),
            scale: f64::from_bits(long(32)),
            seed: Seed(seed),
            rows: (0..limbs).map(row).collect(),
            prefix,
        })
    }

    /// OpenFHE's bytes in front of the polynomials.
    pub fn prefix<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.prefix.clone()]
    }

    /// The tag of the key pair that it was made with.
    pub fn key_tag(&self, bytes: &[u8]) -> Option<String> {
        let tag = self.prefix(bytes);
        let tag = tag.get(tag.len().checked_sub(32)?..)?;
        std::str::from_utf8(tag).ok().filter(|tag| tag.bytes().all(|c| c.is_ascii_hexdigit())).map(str::to_owned)
    }

    /// The bytes of a ciphertext: its header, the rows of `c0`, and the seed of `c1`.
    ///
    /// # Errors
    /// [`Error::Operand`]: the rows are not those of as many limbs.
    pub fn write(
        prefix: &[u8],
        moduli: &[u64],
        header: &CiphertextHeader,
        words: &[u64],
        seed: &Seed,
    ) -> Result<Vec<u8>, Error> {
        let limbs = moduli.len();
        let ring_dim = words.len().checked_div(limbs).unwrap_or(0);
        if header.limbs != limbs || ring_dim * limbs != words.len() || ring_dim == 0 {
            let what = format!("{} words for {limbs} limbs", words.len());
            return Err(Error::Operand { operation: "write", what, rule: "each limb has N words" });
        }
        let rows_at = (FIXED_BYTES + 8 * limbs + prefix.len()).next_multiple_of(8);
        let mut out = Vec::with_capacity(rows_at + 8 * words.len() + 8);
        out.extend_from_slice(&MAGIC);
        for word in [VERSION, prefix.len() as u32, ring_dim as u32, limbs as u32, header.degree, header.slots] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&header.scale.to_bits().to_le_bytes());
        out.extend_from_slice(&seed.0);
        moduli.iter().for_each(|modulus| out.extend_from_slice(&modulus.to_le_bytes()));
        out.extend_from_slice(prefix);
        out.resize(rows_at, 0);
        if cfg!(target_endian = "little") {
            out.extend_from_slice(bytemuck::cast_slice(words));
        } else {
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        let checksum = xxh3_64(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }
}

impl Context {
    /// The rows of `c1` of a seed, in the place of a ciphertext's.
    pub(crate) fn expand_seed(&self, seed: &Seed, words: &mut [u64]) -> Result<(), Error> {
        let jobs = words.chunks_exact_mut(self.ring_dim()).enumerate().collect();
        self.workers.each(jobs, |(limb, row)| {
            expand(seed, 0, limb as u32, self.primes[limb].modulus.value(), row);
            Ok(())
        })
    }
}
