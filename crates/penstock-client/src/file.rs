//! Files of a key pair. A secret file is its owner's alone (mode 0600), has a checksum, and may be sealed.
//!
//! Little-endian:
//!
//! ```text
//! secret   0    8      PSTKSEC\n
//!          8    4 × 4  version: 2 with an ephemeral secret, 1 without; 1 where it is sealed; N; distribution (1 ternary,
//!                      2 sparse, 3 sparse and encapsulated, 4 ternary and encapsulated)
//!          24   16     digest of the parameters, as of evaluation keys
//!          40   32     tag of the key pair
//!          72   3 × 4  sealed: memory (KiB), passes and lanes of Argon2id
//!          84   16     sealed: salt
//!          100  24     sealed: nonce
//!          …    N / 4  coefficients, two bits each: 0, 1, 2 for -1, 0, 1; version 2: as many of the ephemeral secret;
//!                      sealed: XChaCha20-Poly1305, 16 bytes more, with everything before as associated data
//!          last 32     SHA-256 of all before
//! public   0    8      PSTKPUB\n
//!          8    4 × 3  version; N; limbs
//!          20   16     digest
//!          36   32     tag
//!          68   32     seed of the uniform polynomial
//!          100         rows of the other, 8N bytes each
//!          last 32     SHA-256 of all before
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use penstock_seed::{Seed, expand};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::protected::Protected;
use crate::public::PublicKey;
use crate::random;
use crate::ring::{Ring, SecretKind};
use crate::secret::SecretKey;

const SECRET_MAGIC: [u8; 8] = *b"PSTKSEC\n";
const PUBLIC_MAGIC: [u8; 8] = *b"PSTKPUB\n";
/// Secret files with an ephemeral secret.
const VERSION: u32 = 2;
/// All other files.
const PLAIN: u32 = 1;
const CHECKSUM_BYTES: usize = 32;
const SECRET_HEAD: usize = 72;
const SEAL_BYTES: usize = 12 + 16 + 24;
const AUTHENTICATION_BYTES: usize = 16;
const PUBLIC_HEAD: usize = 100;
/// Argon2id, the second choice of RFC 9106: 64 MiB, 3 passes, 4 lanes.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 4;
/// A file that asks for more than these, or for more memory in all its passes, is not opened: it would take the memory
/// of the machine, or minutes. One that asks for less memory is none of ours, and tells little of its passphrase's cost.
const MOST_MEMORY_KIB: u32 = 1 << 20;
const LEAST_MEMORY_KIB: u32 = 8 << 10;
const MOST_LANES: u32 = 64;
const MOST_WORK_KIB: u64 = 4 << 20;
/// Files are read whole; none of ours is larger.
const MOST_BYTES: u64 = 1 << 32;

impl SecretKey {
    /// Writes a new file that only its owner may read; sealed if there is a passphrase.
    ///
    /// # Errors
    /// [`Error::File`]: it is there already, or the file system refuses. [`Error::Value`]: an empty passphrase.
    pub fn write(&self, ring: &Ring, path: &Path, passphrase: Option<&[u8]>) -> Result<()> {
        let secret = self.here(ring)?;
        if passphrase.is_some_and(<[u8]>::is_empty) {
            return Err(Error::value("an empty passphrase", "it seals nothing: give one of at least a byte, or none"));
        }
        let mut out = Zeroizing::new(Vec::with_capacity(SECRET_HEAD + SEAL_BYTES + ring.ring_dim() / 2 + 64));
        out.extend_from_slice(&SECRET_MAGIC);
        let distribution = distribution_number(ring.secret());
        let version = if secret.ephemeral().is_some() { VERSION } else { PLAIN };
        for word in [version, u32::from(passphrase.is_some()), ring.ring_dim() as u32, distribution] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&ring.shape().digest().to_bytes());
        out.extend_from_slice(self.tag().as_bytes());
        let ephemeral = secret.ephemeral().unwrap_or_default();
        let mut packed: Zeroizing<Vec<u8>> = Zeroizing::new(Vec::with_capacity(ring.ring_dim() / 2));
        packed.extend(secret.coefficients().chunks(4).chain(ephemeral.chunks(4)).map(four_packed));
        match passphrase {
            None => out.extend_from_slice(&packed),
            Some(passphrase) => {
                for word in [MEMORY_KIB, PASSES, LANES] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                let (mut salt, mut nonce) = ([0; 16], [0; 24]);
                random::fill(&mut salt)?;
                random::fill(&mut nonce)?;
                out.extend_from_slice(&salt);
                out.extend_from_slice(&nonce);
                let cipher = sealing(passphrase, &salt, [MEMORY_KIB, PASSES, LANES])?;
                let payload = Payload { msg: &packed, aad: &out };
                let failed = |_| Error::value("a sealed file", "the cipher failed");
                let sealed = cipher.encrypt(&XNonce::from(nonce), payload).map_err(failed)?;
                out.extend_from_slice(&sealed);
            }
        }
        finish(path, &mut out)
    }

    /// Reads a file of this module.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Version`], [`Error::Other`]: it is not a whole secret key of these parameters.
    /// [`Error::Sealed`], [`Error::Passphrase`]: it needs a passphrase, or another one. [`Error::Exposed`]: others may
    /// read or change it. [`Error::File`]: it cannot be read.
    pub fn read(ring: &Ring, path: &Path, passphrase: Option<&[u8]>) -> Result<Self> {
        let opened = File::open(path).map_err(|why| Error::File { path: path.to_owned(), why })?;
        let bytes = whole(path, its_owners(path, opened)?, &SECRET_MAGIC, SECRET_HEAD, VERSION)?;
        let content = &bytes[..bytes.len() - CHECKSUM_BYTES];
        let damaged = |what: &str| Error::Damaged { path: path.to_owned(), what: what.to_owned() };
        let sealed = number(content, 12) == 1;
        same(path, "the ring dimension", u64::from(number(content, 16)), ring.ring_dim() as u64)?;
        let distribution = u64::from(distribution_number(ring.secret()));
        same(path, "the distribution of the secret", u64::from(number(content, 20)), distribution)?;
        same_digest(path, &content[24..40], ring)?;
        let tag = tag_of(content, 40).ok_or_else(|| damaged("its tag is not hexadecimal"))?;
        let head = SECRET_HEAD + if sealed { SEAL_BYTES } else { 0 };
        let version = if ring.secret().is_encapsulated() { VERSION } else { PLAIN };
        same(path, "the version of a file of such a secret", u64::from(number(content, 8)), u64::from(version))?;
        let secrets = if version == VERSION { 2 } else { 1 };
        let expected = head + secrets * ring.ring_dim() / 4 + if sealed { AUTHENTICATION_BYTES } else { 0 };
        if content.len() != expected {
            return Err(damaged(&format!("it has {} bytes, not {}", bytes.len(), expected + CHECKSUM_BYTES)));
        }
        let packed = match (sealed, passphrase) {
            (false, _) => Zeroizing::new(content[head..].to_vec()),
            (true, None) => return Err(Error::Sealed(path.to_owned())),
            (true, Some(passphrase)) => {
                let costs = [number(content, 72), number(content, 76), number(content, 80)];
                let work = u64::from(costs[0]) * u64::from(costs[1]);
                if costs[0] > MOST_MEMORY_KIB || costs[2] > MOST_LANES || work > MOST_WORK_KIB {
                    return Err(damaged("its seal asks for more memory or time than penstock ever does"));
                }
                if costs[0] < LEAST_MEMORY_KIB || costs[1] == 0 || costs[2] == 0 {
                    return Err(damaged("its seal asks for less memory or time than penstock ever does"));
                }
                let cipher = sealing(passphrase, &content[84..100], costs)?;
                let mut nonce = [0; 24];
                nonce.copy_from_slice(&content[100..124]);
                let payload = Payload { msg: &content[head..], aad: &content[..head] };
                let opened = cipher.decrypt(&XNonce::from(nonce), payload);
                Zeroizing::new(opened.map_err(|_| Error::Passphrase(path.to_owned()))?)
            }
        };
        let mut parts = packed.chunks_exact(ring.ring_dim() / 4);
        let mut next = || match parts.next().and_then(unpacked) {
            Some(coefficients) => Ok(coefficients),
            None => Err(damaged("a coefficient is not -1, 0 or 1")),
        };
        let coefficients = next()?;
        let ephemeral = if secrets == 2 { Some(next()?) } else { None };
        Self::of(ring, coefficients, ephemeral, tag).map_err(|error| match error {
            Error::Value { .. } => damaged("its ephemeral secret is none"),
            error => error,
        })
    }
}

impl PublicKey {
    /// Writes a new file.
    ///
    /// # Errors
    /// [`Error::Value`]: a key of OpenFHE, which has no seed. [`Error::File`]: the file system refuses.
    pub fn write(&self, ring: &Ring, path: &Path) -> Result<()> {
        let rule = "it came from OpenFHE, whose uniform half has no seed: keep OpenFHE's file";
        let seed = self.seed.ok_or_else(|| Error::value("a public key", rule))?;
        let (n, limbs) = (ring.ring_dim(), ring.num_q());
        let mut out = Vec::with_capacity(PUBLIC_HEAD + 8 * n * limbs + CHECKSUM_BYTES);
        out.extend_from_slice(&PUBLIC_MAGIC);
        for word in [PLAIN, n as u32, limbs as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&ring.shape().digest().to_bytes());
        out.extend_from_slice(self.tag().as_bytes());
        out.extend_from_slice(&seed.0);
        self.rows[..limbs * n].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        finish(path, &mut out)
    }

    /// Reads a file of this module.
    ///
    /// # Errors
    /// As [`SecretKey::read`].
    pub fn read(ring: &Ring, path: &Path) -> Result<Self> {
        let opened = File::open(path).map_err(|why| Error::File { path: path.to_owned(), why })?;
        let bytes = whole(path, opened, &PUBLIC_MAGIC, PUBLIC_HEAD, PLAIN)?;
        let content = &bytes[..bytes.len() - CHECKSUM_BYTES];
        let (n, limbs) = (ring.ring_dim(), ring.num_q());
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        same(path, "the ring dimension", u64::from(number(content, 12)), n as u64)?;
        same(path, "the number of limbs", u64::from(number(content, 16)), limbs as u64)?;
        same_digest(path, &content[20..36], ring)?;
        let tag = tag_of(content, 36).ok_or_else(|| damaged("its tag is not hexadecimal".to_owned()))?;
        if content.len() != PUBLIC_HEAD + 8 * n * limbs {
            return Err(damaged(format!("it has {} bytes", bytes.len())));
        }
        let mut seed = Seed([0; 32]);
        seed.0.copy_from_slice(&content[68..100]);
        let mut rows = vec![0; 2 * n * limbs];
        let (b, a) = rows.split_at_mut(n * limbs);
        for (word, eight) in b.iter_mut().zip(content[PUBLIC_HEAD..].chunks_exact(8)) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(eight);
            *word = u64::from_le_bytes(bytes);
        }
        for (limb, (a, b)) in a.chunks_exact_mut(n).zip(b.chunks_exact(n)).enumerate() {
            let modulus = ring.shape().moduli()[limb];
            if b.iter().any(|word| *word >= modulus) {
                return Err(damaged(format!("a word of limb {limb} is not below its modulus")));
            }
            expand(&seed, 0, limb as u32, modulus, a);
        }
        Ok(Self { tag, rows, seed: Some(seed) })
    }
}

/// The coefficients of bytes that [`four_packed`] made; `None`: they are not such.
fn unpacked(packed: &[u8]) -> Option<Protected<i8>> {
    let mut coefficients = Protected::<i8>::new(4 * packed.len());
    let mut wrong = false;
    for (four, byte) in coefficients.chunks_mut(4).zip(packed) {
        for (k, value) in four.iter_mut().enumerate() {
            let bits = byte >> (2 * k) & 3;
            wrong |= bits == 3;
            *value = bits as i8 - 1;
        }
    }
    (!wrong).then_some(coefficients)
}

/// Four coefficients in a byte.
fn four_packed(four: &[i8]) -> u8 {
    four.iter().enumerate().fold(0, |byte, (k, value)| byte | ((value + 1) as u8) << (2 * k))
}

fn distribution_number(secret: SecretKind) -> u32 {
    match secret {
        SecretKind::UniformTernary => 1,
        SecretKind::SparseTernary => 2,
        SecretKind::SparseEncapsulated => 3,
        SecretKind::UniformEncapsulated => 4,
    }
}

fn sealing(passphrase: &[u8], salt: &[u8], [memory, passes, lanes]: [u32; 3]) -> Result<XChaCha20Poly1305> {
    let refused = |error: argon2::Error| Error::value("a passphrase's key", error.to_string());
    let params = Params::new(memory, passes, lanes, Some(32)).map_err(refused)?;
    // We bring the memory and wipe it: it holds the passphrase's key.
    let mut blocks = Zeroizing::new(Vec::<Block>::new());
    blocks.try_reserve_exact(params.block_count()).map_err(|_| refused(argon2::Error::OutOfMemory))?;
    blocks.resize(params.block_count(), Block::default());
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(passphrase, salt, &mut *key, &mut blocks[..])
        .map_err(refused)?;
    Ok(XChaCha20Poly1305::new(&Key::from(*key)))
}

/// Adds the checksum, and writes a new file of its owner's.
fn finish(path: &Path, out: &mut Vec<u8>) -> Result<()> {
    let checksum = Sha256::digest(&out[..]);
    out.extend_from_slice(&checksum);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(out)?;
        file.sync_all()
    };
    write().map_err(|why| {
        if why.kind() != io::ErrorKind::AlreadyExists {
            // An unfinished file is of no use to anybody.
            let _ = std::fs::remove_file(path);
        }
        Error::File { path: path.to_owned(), why }
    })
}

/// An open file that nobody but its owner may read or change.
fn its_owners(path: &Path, opened: File) -> Result<File> {
    let found = opened.metadata().map_err(|why| Error::File { path: path.to_owned(), why })?;
    let mode = found.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 { Ok(opened) } else { Err(Error::Exposed { path: path.to_owned(), mode }) }
}

/// A file with the right first bytes, checksum, and a version up to `known`.
fn whole(path: &Path, opened: File, magic: &[u8; 8], head: usize, known: u32) -> Result<Zeroizing<Vec<u8>>> {
    let file = |why| Error::File { path: path.to_owned(), why };
    let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
    let length = opened.metadata().map_err(file)?.len();
    if length > MOST_BYTES {
        return Err(damaged(format!("it has {length} bytes, more than any key of a pair")));
    }
    // Room for one byte more, so that a secret is never moved to other memory while it is read.
    let mut bytes = Zeroizing::new(Vec::with_capacity(length as usize + 64));
    opened.take(length).read_to_end(&mut bytes).map_err(file)?;
    if bytes.len() < head + CHECKSUM_BYTES || !bytes.starts_with(magic) {
        return Err(damaged(
            "it is not such a file of penstock (its first bytes are others, or it is too short)".into(),
        ));
    }
    let version = number(&bytes, 8);
    if version > known {
        return Err(Error::Version { path: path.to_owned(), found: version, known });
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if Sha256::digest(content)[..] != *checksum {
        return Err(damaged("it differs from its checksum".to_owned()));
    }
    if version == 0 {
        return Err(damaged("its version is 0".to_owned()));
    }
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

fn tag_of(bytes: &[u8], at: usize) -> Option<String> {
    let tag = std::str::from_utf8(&bytes[at..at + 32]).ok()?;
    tag.bytes().all(|c| c.is_ascii_hexdigit()).then(|| tag.to_owned())
}

fn same(path: &Path, field: &'static str, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Other { path: path.to_owned(), field, found: found.to_string(), expected: expected.to_string() })
}

fn same_digest(path: &Path, found: &[u8], ring: &Ring) -> Result<()> {
    let expected = ring.shape().digest();
    if found == expected.to_bytes() {
        return Ok(());
    }
    let found = found.iter().map(|byte| format!("{byte:02x}")).collect();
    let field = "the digest of the parameters";
    Err(Error::Other { path: path.to_owned(), field, found, expected: expected.to_string() })
}
