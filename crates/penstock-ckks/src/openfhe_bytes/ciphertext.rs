//! Ciphertexts, in and out.

use std::borrow::Cow;
use std::io;

use super::archive::{Archive, Chain, Class, ContextDescription};
use super::grammar::{Polynomials, RowSpan, key_tag};
use super::objects::check_tag;
use crate::error::Error;
use crate::seeded::{SeededBytes, is_seeded};

const OBJECT: &str = "ciphertext";
/// Ids of the objects in a written ciphertext: far above all ids of the context in front of it.
const FIRST_ID: u32 = 1 << 16;
/// Of a fresh ciphertext: the integer scale 1 and the encoding of CKKS.
const FRESH_TRAILER: [u8; 12] = [1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];

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

/// Writes ciphertexts that OpenFHE reads, for a context and a key pair.
#[derive(Debug, Clone)]
pub struct CiphertextWriter {
    prefix: Vec<u8>,
    hops: u32,
    trailer: [u8; 12],
    chain: WrittenChain,
}

/// What polynomials refer to.
#[derive(Debug, Clone)]
enum WrittenChain {
    /// Objects of the context in the prefix, which has this many.
    OfContext(Chain, u32),
    /// Their own objects: the numbers in the prefix are not known.
    Own,
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
        if is_seeded(bytes) {
            let prefix = SeededBytes::parse(bytes)?.prefix(bytes).to_vec();
            return Ok(Self { prefix, hops: 0, trailer: FRESH_TRAILER, chain: WrittenChain::Own });
        }
        let parsed = parse_ciphertext(bytes)?;
        let prefix = bytes[..parsed.start].to_vec();
        Ok(Self { prefix, hops: parsed.hops, trailer: parsed.trailer, chain: WrittenChain::Own })
    }

    /// Writes ciphertexts of `context` for the key pair with this tag.
    ///
    /// # Errors
    /// [`Error::Operand`] where the tag is not 32 hexadecimal digits.
    pub fn of(context: &ContextDescription, key_tag: &str) -> Result<Self, Error> {
        check_tag(key_tag)?;
        let made = || -> io::Result<Self> {
            let mut archive = Archive::begin(Vec::new(), context.ring_dim)?;
            archive.plain_object()?;
            archive.versions(&[Class::Ciphertext, Class::CryptoObject])?;
            let (_, chain) = archive.context(context)?;
            archive.text(key_tag)?;
            let (prefix, objects) = archive.end();
            Ok(Self { prefix, hops: 0, trailer: FRESH_TRAILER, chain: WrittenChain::OfContext(chain, objects) })
        };
        made().map_err(in_memory)
    }

    /// The bytes in front of the polynomials: the context and the key tag.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
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
        let foreign = matches!(&self.chain, WrittenChain::OfContext(chain, _) if !chain.moduli.starts_with(moduli));
        if ring_dim == 0
            || foreign
            || roots.len() != limbs
            || polynomials.iter().any(|rows| rows.len() != ring_dim * limbs)
        {
            return Err(Error::Operand {
                operation: "write",
                what: format!("{limbs} moduli, {} roots, {words} words", roots.len()),
                rule: "each polynomial holds ring_dim words for each modulus, and moduli are the context's",
            });
        }
        let capacity = self.prefix.len() + polynomials.len() * limbs * (8 * ring_dim + 128) + 2048;
        let mut out = Vec::with_capacity(capacity);
        out.extend_from_slice(&self.prefix);
        self.written(out, stated, Chain::new(moduli, roots), ring_dim, polynomials).map_err(in_memory)
    }

    fn written(
        &self,
        out: Vec<u8>,
        stated: &Stated,
        own: Chain,
        ring_dim: usize,
        polynomials: &[&[u64]],
    ) -> io::Result<Vec<u8>> {
        let limbs = own.moduli.len();
        let (mut chain, objects, shared) = match &self.chain {
            WrittenChain::OfContext(chain, objects) => (chain.truncated(limbs), *objects, limbs == chain.moduli.len()),
            WrittenChain::Own => (own, FIRST_ID - 1, true),
        };
        let mut archive = Archive::resume(out, ring_dim, objects);
        archive.u64(polynomials.len() as u64)?;
        for rows in polynomials {
            archive.polynomial(&mut chain, |limb| Ok(Cow::Borrowed(&rows[limb * ring_dim..(limb + 1) * ring_dim])))?;
            if !shared {
                chain.whole = None; // in OpenFHE each polynomial below the full chain brings its own
            }
        }
        for word in [stated.slots, stated.level, self.hops, stated.noise_scale_degree] {
            archive.u32(word)?;
        }
        archive.u64(stated.scale.to_bits())?;
        archive.bytes(&self.trailer)?;
        archive.new_object()?;
        archive.u64(0)?; // no metadata
        Ok(archive.end().0)
    }
}

/// Writing to memory does not fail.
fn in_memory(why: io::Error) -> Error {
    Error::System { what: "a ciphertext in memory", why: why.to_string() }
}

impl CiphertextBytes {
    /// The moduli of the limbs.
    pub fn moduli(&self) -> Vec<u64> {
        self.polynomials.first().map_or_else(Vec::new, |rows| rows.iter().map(|row| row.modulus).collect())
    }
}
