//! The secret key in OpenFHE's bytes, in and out.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use penstock_ckks::openfhe_bytes::{KeyObject, parse_key_object, read_row, write_key_object};

use crate::error::{Error, Result};
use crate::protected::Protected;
use crate::ring::Ring;
use crate::secret::{SecretKey, ternary_of};

/// Files are read whole; none of OpenFHE's keys is larger.
const MOST_BYTES: u64 = 1 << 32;

impl SecretKey {
    /// Reads the bytes that OpenFHE wrote, and checks that every limb holds the same ternary polynomial. They have no
    /// ephemeral secret: an encapsulated pair gets a new one.
    ///
    /// # Errors
    /// [`Error::Ring`], [`Error::Value`]: they are not a ternary secret key of these parameters.
    pub fn from_openfhe(ring: &Ring, bytes: &[u8]) -> Result<Self> {
        let parsed = parse_key_object(bytes, KeyObject::Private)?;
        let n = ring.ring_dim();
        let moduli: Vec<u64> = parsed.polynomials[0].iter().map(|row| row.modulus).collect();
        if parsed.ring_dim != n || moduli != ring.described().moduli {
            let what = format!("a secret key of N = {} and {} limbs", parsed.ring_dim, moduli.len());
            return Err(Error::value(what, "its parameters are not those of this client"));
        }
        let mut row = Protected::<u64>::new(n);
        let mut coefficients = Protected::<u64>::new(n);
        read_row(bytes, &parsed.polynomials[0][0], 0, &mut row)?;
        ring.coefficients(0, &row, &mut coefficients);
        let made =
            Self::of(ring, ternary_of(&mut coefficients, moduli[0])?, Self::new_ephemeral(ring)?, parsed.key_tag)?;
        let words = made.here(ring)?;
        for (limb, span) in parsed.polynomials[0].iter().enumerate() {
            read_row(bytes, span, limb, &mut row)?;
            if row[..] != *words.row(limb) {
                return Err(Error::value("a secret key", format!("limb {limb} differs from limb 0: it is damaged")));
            }
        }
        drop(words);
        Ok(made)
    }

    /// Reads a file of OpenFHE. Its bytes are wiped.
    ///
    /// # Errors
    /// As [`SecretKey::from_openfhe`]. [`Error::File`]: it cannot be read.
    pub fn read_openfhe(ring: &Ring, path: &Path) -> Result<Self> {
        let file = |why: io::Error| Error::File { path: path.to_owned(), why };
        let mut opened = File::open(path).map_err(file)?;
        let bytes = opened.metadata().map_err(file)?.len();
        if bytes > MOST_BYTES {
            let rule = "it is more than any secret key of OpenFHE's has";
            return Err(Error::value(format!("{}: {bytes} bytes", path.display()), rule));
        }
        let mut content = Protected::<u8>::new(bytes as usize);
        opened.read_exact(&mut content).map_err(file)?;
        Self::from_openfhe(ring, &content)
    }

    /// Writes a new file as OpenFHE does, readable by its owner only. An ephemeral secret has no place in it.
    ///
    /// # Errors
    /// [`Error::File`]: it is there already, or the file system refuses.
    pub fn write_openfhe(&self, ring: &Ring, path: &Path) -> Result<()> {
        let file = |why: io::Error| Error::File { path: path.to_owned(), why };
        let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(file)?;
        let secret = self.here(ring)?;
        // Unbuffered: a buffer would keep words of the secret.
        write_key_object(out, KeyObject::Private, ring.described(), self.tag(), |_, limb| {
            Ok(Cow::Borrowed(secret.row(limb)))
        })
        .map_err(file)
    }
}
