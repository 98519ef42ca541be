//! The public key: what anybody encrypts with.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use penstock_ckks::openfhe_bytes::{KeyObject, parse_key_object, read_row, write_key_object};
use penstock_seed::{Seed, expand};

use crate::error::{Error, Result};
use crate::protected::Protected;
use crate::random::{Stream, public_seed};
use crate::ring::Ring;
use crate::sample::errors;
use crate::secret::SecretKey;

/// b = e - a s, and a, at every limb of Q.
pub struct PublicKey {
    pub(crate) tag: String,
    /// b's rows, then a's.
    pub(crate) rows: Vec<u64>,
    /// The seed of a, of a key that was made here.
    pub(crate) seed: Option<Seed>,
}

impl PublicKey {
    /// A new public key of a secret.
    ///
    /// # Errors
    /// [`Error::Random`]: the system has no random bytes. [`Error::Forked`]: a child of the secret's process asks.
    pub fn generate(ring: &Ring, secret: &SecretKey) -> Result<Self> {
        let secret = secret.here(ring)?;
        let (n, limbs) = (ring.ring_dim(), ring.num_q());
        let seed = public_seed()?;
        let mut error = Protected::<u64>::new(n);
        errors(&mut Stream::new()?, &mut error);
        let mut rows = vec![0; 2 * limbs * n];
        let (b, a) = rows.split_at_mut(limbs * n);
        let jobs = b.chunks_exact_mut(n).zip(a.chunks_exact_mut(n)).enumerate().collect();
        ring.context().each(jobs, |(limb, (b, a))| {
            expand(&seed, 0, limb as u32, ring.shape().moduli()[limb], a);
            let mut product = Protected::<u64>::new(n);
            ring.product(limb, a, secret.row(limb), &mut product);
            ring.evaluated(limb, &error, b);
            ring.kernels().subtract(&ring.primes()[limb], b, &product);
            Ok(())
        })?;
        Ok(Self { tag: secret.tag().to_owned(), rows, seed: Some(seed) })
    }

    /// The name of the key pair.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn row(&self, ring: &Ring, polynomial: usize, limb: usize) -> &[u64] {
        let n = ring.ring_dim();
        let at = (polynomial * ring.num_q() + limb) * n;
        &self.rows[at..at + n]
    }

    /// Reads the bytes that OpenFHE wrote.
    ///
    /// # Errors
    /// [`Error::Ring`]: they are not a public key of these parameters.
    pub fn from_openfhe(ring: &Ring, bytes: &[u8]) -> Result<Self> {
        let parsed = parse_key_object(bytes, KeyObject::Public)?;
        let (n, limbs) = (ring.ring_dim(), ring.num_q());
        let moduli: Vec<u64> = parsed.polynomials[0].iter().map(|row| row.modulus).collect();
        if parsed.ring_dim != n || moduli != ring.described().moduli {
            let what = format!("a public key of N = {} and {} limbs", parsed.ring_dim, moduli.len());
            return Err(Error::value(what, "its parameters are not those of this client"));
        }
        let mut rows = vec![0; 2 * limbs * n];
        for (row, span) in rows.chunks_exact_mut(n).zip(parsed.polynomials.iter().flatten()) {
            read_row(bytes, span, 0, row)?;
        }
        Ok(Self { tag: parsed.key_tag, rows, seed: None })
    }

    /// Writes it as OpenFHE does.
    ///
    /// # Errors
    /// [`Error::File`]: the file system refuses.
    pub fn write_openfhe(&self, ring: &Ring, path: &Path) -> Result<()> {
        let file = |why: io::Error| Error::File { path: path.to_owned(), why };
        let out = io::BufWriter::new(std::fs::File::create(path).map_err(file)?);
        write_key_object(out, KeyObject::Public, ring.described(), &self.tag, |polynomial, limb| {
            Ok(Cow::Borrowed(self.row(ring, polynomial, limb)))
        })
        .map_err(file)
    }

    /// Whether it is the public key of `secret`: b + a s is an error, at the first limb.
    ///
    /// # Errors
    /// [`Error::Forked`]: a child of the secret's process asks.
    pub fn belongs_to(&self, ring: &Ring, secret: &SecretKey) -> Result<bool> {
        let secret = secret.here(ring)?;
        let n = ring.ring_dim();
        let mut sum = Protected::<u64>::new(n);
        ring.product(0, self.row(ring, 1, 0), secret.row(0), &mut sum);
        ring.kernels().add(&ring.primes()[0], &mut sum, self.row(ring, 0, 0));
        let mut error = Protected::<u64>::new(n);
        ring.coefficients(0, &sum, &mut error);
        let modulus = ring.primes()[0].modulus;
        // Errors of deviation 3.19 stay below 40. With another key they fill the modulus.
        Ok(self.tag == secret.tag() && error.iter().all(|word| modulus.centred(*word).unsigned_abs() < 64))
    }
}
