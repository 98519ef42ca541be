//! Ciphertexts, in and out.

use super::grammar::{HEAD_BYTES, NEW_OBJECT, PLAIN_POINTER, Polynomials, RowSpan, key_tag};
use crate::error::Error;

const OBJECT: &str = "ciphertext";
/// Ids of the objects in a written ciphertext: far above those of the context in front of it.
const FIRST_ID: u32 = 1 << 16;

/// The header of a serialized ciphertext, and the places of its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct CiphertextBytes {
    /// Words of a row.
    pub ring_dim: usize,
    /// Values that it holds.
    pub slots: u32,
    /// Scalings done, in OpenFHE's counting: 0 when fresh.
    pub level: u32,
    /// 1 after encryption, 2 after a product that has not been rescaled.
    pub noise_scale_degree: u32,
    /// The factor that messages are multiplied by; 0 where OpenFHE lost it (a product with a plaintext at one limb).
    pub scale: f64,
    /// The tag of the secret key it belongs to.
    pub key_tag: Option<String>,
    /// Polynomials, and of each the limbs.
    pub polynomials: Vec<Vec<RowSpan>>,
    /// The 12 bytes behind the scale that are only handed on: the integer scale, the encoding.
    trailer: [u8; 12],
    hops: u32,
    start: usize,
}

/// Reads the layout of a serialized ciphertext; its rows are copied by [`super::read_row`].
///
/// # Errors
/// [`Error::Bytes`] where the bytes do not follow the layout.
pub fn parse_ciphertext(bytes: &[u8]) -> Result<CiphertextBytes, Error> {
    let mut polynomials = Polynomials::find(bytes, OBJECT)?;
    let rows = polynomials.list()?;
    let (ring_dim, start) = (polynomials.ring_dim, polynomials.start);
    let cursor = &mut polynomials.cursor;
    if rows.iter().any(|limbs| !limbs.iter().map(|row| row.modulus).eq(rows[0].iter().map(|row| row.modulus))) {
        return Err(cursor.error("the polynomials of a ciphertext differ in their moduli"));
    }
    let (slots, level, hops, noise_scale_degree) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let scale = cursor.f64()?;
    if !(scale.is_finite() && scale >= 0.0) {
        return Err(cursor.error(format!("a scale of {scale}")));
    }
    let mut trailer = [0; 12];
    trailer.copy_from_slice(&cursor.take(12)?);
    let key_tag = key_tag(bytes, start);
    Ok(CiphertextBytes {
        ring_dim,
        slots,
        level,
        noise_scale_degree,
        scale,
        key_tag,
        polynomials: rows,
        trailer,
        hops,
        start,
    })
}

/// Writes ciphertexts that OpenFHE reads, for the context and the key of one that it wrote.
#[derive(Debug, Clone)]
pub struct CiphertextWriter {
    prefix: Vec<u8>,
    hops: u32,
    trailer: [u8; 12],
}

/// What a written ciphertext says of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stated {
    /// Values that it holds.
    pub slots: u32,
    /// Scalings done.
    pub level: u32,
    /// 1, or 2 after a product.
    pub noise_scale_degree: u32,
    /// The factor that messages are multiplied by.
    pub scale: f64,
}

impl CiphertextWriter {
    /// Takes the context and the key tag of `bytes`, any ciphertext of the key pair.
    ///
    /// # Errors
    /// [`Error::Bytes`] where these are not the bytes of a ciphertext.
    pub fn like(bytes: &[u8]) -> Result<Self, Error> {
        let parsed = parse_ciphertext(bytes)?;
        Ok(Self { prefix: bytes[..parsed.start].to_vec(), hops: parsed.hops, trailer: parsed.trailer })
    }

    /// The bytes of a ciphertext.
    ///
    /// `polynomials`: of each its rows, concatenated (`moduli.len() * ring_dim` words); `roots`: of each modulus the
    /// minimal primitive root of order `2 * ring_dim`.
    ///
    /// # Errors
    /// [`Error::Operand`] where the lengths do not fit together.
    pub fn write(
        &self,
        stated: &Stated,
        moduli: &[u64],
        roots: &[u64],
        polynomials: &[&[u64]],
    ) -> Result<Vec<u8>, Error> {
        let limbs = moduli.len();
        let words = polynomials.first().map_or(0, |rows| rows.len());
        let ring_dim = words.checked_div(limbs).unwrap_or(0);
        if ring_dim == 0 || roots.len() != limbs || polynomials.iter().any(|rows| rows.len() != ring_dim * limbs) {
            return Err(Error::Operand {
                operation: "write",
                what: format!("{limbs} moduli, {} roots, {words} words", roots.len()),
                rule: "each polynomial holds ring_dim words for each modulus",
            });
        }
        let capacity = self.prefix.len() + HEAD_BYTES + polynomials.len() * limbs * (8 * ring_dim + 128) + 1024;
        let mut out = Vec::with_capacity(capacity);
        out.extend_from_slice(&self.prefix);
        let mut emit = Emit { out, ring_dim };
        emit.u64(polynomials.len() as u64);
        for (p, rows) in polynomials.iter().enumerate() {
            if p == 0 {
                emit.u32(0);
            }
            emit.u64(limbs as u64);
            for (l, row) in rows.chunks_exact(ring_dim).enumerate() {
                emit.limb(row, moduli[l], roots[l], FIRST_ID + l as u32, p == 0, p == 0 && l == 0);
            }
            emit.u32(0);
            emit.u32(PLAIN_POINTER);
            let id = FIRST_ID + limbs as u32;
            emit.u32(if p == 0 { id | NEW_OBJECT } else { id });
            if p == 0 {
                emit.rns_parameters(moduli);
            }
        }
        for word in [stated.slots, stated.level, self.hops, stated.noise_scale_degree] {
            emit.u32(word);
        }
        emit.u64(stated.scale.to_bits());
        emit.out.extend_from_slice(&self.trailer);
        emit.u32((FIRST_ID + limbs as u32 + 1) | NEW_OBJECT);
        emit.u64(0); // no metadata
        Ok(emit.out)
    }
}

struct Emit {
    out: Vec<u8>,
    ring_dim: usize,
}

impl Emit {
    fn u32(&mut self, word: u32) {
        self.out.extend_from_slice(&word.to_le_bytes());
    }

    fn u64(&mut self, word: u64) {
        self.out.extend_from_slice(&word.to_le_bytes());
    }

    fn orders(&mut self) {
        self.u32(2 * self.ring_dim as u32);
        self.u32(self.ring_dim as u32);
    }

    fn limb(&mut self, row: &[u64], modulus: u64, root: u64, id: u32, new: bool, versions: bool) {
        if versions {
            self.u32(0);
        }
        self.u32(PLAIN_POINTER);
        self.out.push(1);
        if versions {
            self.u32(0);
        }
        self.u64(row.len() as u64);
        if cfg!(target_endian = "little") {
            self.out.extend_from_slice(bytemuck::cast_slice(row));
        } else {
            row.iter().for_each(|word| self.u64(*word));
        }
        self.u64(modulus);
        self.u32(0);
        self.u32(PLAIN_POINTER);
        self.u32(if new { id | NEW_OBJECT } else { id });
        if new {
            self.orders();
            self.u64(modulus);
            self.u64(root);
            self.u64(0);
            self.u64(0);
        }
    }

    fn rns_parameters(&mut self, moduli: &[u64]) {
        self.orders();
        let product = product(moduli);
        let bits = 64 * product.len() as u32 - product.last().map_or(0, |word| word.leading_zeros());
        self.u64(product.len() as u64);
        product.iter().for_each(|word| self.u64(*word));
        self.u32(bits);
        for _ in 0..3 {
            self.u64(1); // a big number of one word, 0, without bits
            self.u64(0);
            self.u32(0);
        }
        self.u64(moduli.len() as u64);
        for l in 0..moduli.len() {
            self.u32(PLAIN_POINTER);
            self.u32(FIRST_ID + l as u32);
        }
    }
}

/// The product of all moduli, little-endian words without leading zeros.
fn product(moduli: &[u64]) -> Vec<u64> {
    let mut words = vec![1u64];
    for modulus in moduli {
        let mut carry = 0u128;
        for word in &mut words {
            carry += u128::from(*word) * u128::from(*modulus);
            *word = carry as u64;
            carry >>= 64;
        }
        if carry != 0 {
            words.push(carry as u64);
        }
    }
    words
}

impl CiphertextBytes {
    /// The moduli of the limbs.
    pub fn moduli(&self) -> Vec<u64> {
        self.polynomials.first().map_or_else(Vec::new, |rows| rows.iter().map(|row| row.modulus).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_the_product() {
        assert_eq!(product(&[3, 5]), [15]);
        assert_eq!(product(&[1 << 60, 1 << 60]), [0, 1 << 56]);
        assert_eq!(product(&[u64::MAX, u64::MAX]), [1, u64::MAX - 1]);
    }
}
