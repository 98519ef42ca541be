//! Evaluation keys of hybrid key switching: full, seeded, and as far as a program uses them.
//!
//! Digit j of the key from a secret t to the secret s has a uniform part a and, at each limb, b = -a s + e, to which
//! P t is added at the limbs of the digit. The error e is one small polynomial a digit, whatever the limb. Source: Han
//! and Ki, CT-RSA 2020 (ePrint 2019/688); signs and order are OpenFHE 1.6.1's.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use penstock_ckks::buffer::Words;
use penstock_ckks::kernels::Prime;
use penstock_ckks::openfhe_bytes::{EvaluationKeyWriter, KeyFileLayout, Part};
use penstock_seed::{Seed, expand};
use penstock_segment::{Form, KeyContent, KeyId, Shape, Tenant, write_segment};

use crate::error::{Error, Result};
use crate::protected::Protected;
use crate::random::{Stream, public_seed};
use crate::ring::Ring;
use crate::sample::errors;
use crate::secret::SecretKey;

/// An evaluation key: part B in memory, part A as a seed.
pub struct EvaluationKey {
    shape: Shape,
    tag: String,
    id: KeyId,
    seed: Seed,
    /// Whether readers get the seed, and not the rows of part A.
    seeded: bool,
    limbs: usize,
    /// Digit by digit; P's limbs, then Q's. In memory that the next key uses again: new memory takes as long as its words.
    b: Words,
}

impl EvaluationKey {
    /// The key of `id` for key switches at up to `limbs` limbs; the one to the sparse secret is for one limb.
    ///
    /// # Errors
    /// [`Error::Value`]: no such number of limbs. [`Error::Random`]: the system has no random bytes. [`Error::Segment`]:
    /// no such key.
    pub fn generate(ring: &Ring, secret: &SecretKey, id: KeyId, limbs: usize, seeded: bool) -> Result<Self> {
        if id.is_from_small() {
            let rule = "it comes from another ring: make it with that ring's secret";
            return Err(Error::value(format!("key '{id}'"), rule));
        }
        Self::make(ring, secret, id, limbs, seeded, &[])
    }

    /// The key from the secret of a smaller ring, in X^(N/n), or from its square, to the ephemeral secret of this pair.
    /// A ciphertext of the smaller ring, put into this one by the same map, is switched by it.
    ///
    /// # Errors
    /// As [`EvaluationKey::generate`]; [`Error::Value`]: no smaller ring.
    pub fn from_small(ring: &Ring, secret: &SecretKey, small: &SecretKey, squared: bool, seeded: bool) -> Result<Self> {
        let id = if squared { KeyId::FromSmallSquared } else { KeyId::FromSmall };
        let (n, small) = (ring.ring_dim(), small.there()?);
        let given = small.coefficients();
        if given.len() >= n {
            let what = format!("a secret of N = {}", given.len());
            return Err(Error::value(what, format!("the smaller ring has N below {n}")));
        }
        let mut embedded = Protected::<u64>::new(n);
        for (word, value) in embedded.iter_mut().step_by(n / given.len()).zip(given) {
            *word = i64::from(*value) as u64;
        }
        Self::make(ring, secret, id, 1, seeded, &embedded)
    }

    /// `small`: the coefficients that a key from a smaller ring switches from.
    fn make(ring: &Ring, secret: &SecretKey, id: KeyId, limbs: usize, seeded: bool, small: &[u64]) -> Result<Self> {
        let secret = secret.here(ring)?;
        ring.check_limbs(limbs)?;
        id.check(ring.ring_dim())?;
        let (n, shape) = (ring.ring_dim(), ring.shape().for_key(id)?);
        let limbs = limbs.min(shape.num_q());
        if (id.has_one_limb() || id == KeyId::ToDense) && secret.ephemeral().is_none() {
            let rule = "this pair has no ephemeral secret: take a parameter set whose secret is 'sparse-encapsulated' or \
                        'uniform-encapsulated'";
            return Err(Error::value(format!("key '{id}'"), rule));
        }
        let primes: Vec<&Prime> = match id {
            _ if id.has_one_limb() => ring.primes()[..1].iter().chain(ring.context().auxiliary_primes()?).collect(),
            _ => ring.primes().iter().collect(),
        };
        // The key of an automorphism switches to the secret that the automorphism turns into s: its inverse of s.
        let turned = match id {
            KeyId::Relin => None,
            KeyId::Conj => Some(ring.automorphism(2 * n as u64 - 1)?),
            KeyId::Rot(element) => Some(ring.automorphism(inverse(element, n))?),
            KeyId::ToSparse | KeyId::ToDense | KeyId::FromSmall | KeyId::FromSmallSquared => None,
        };
        let seed = public_seed()?;
        let (rows, digits) = (limbs + shape.num_p(), shape.active_digits(limbs));
        let mut noise = Protected::<u64>::new(digits * n);
        for error in noise.chunks_exact_mut(n) {
            errors(&mut Stream::new()?, error);
        }
        let mut b = ring.context().arena().words(digits * rows * n)?;
        // A job is a limb, with its row of every digit. It prepares the secrets once.
        let mut jobs: Vec<(usize, Vec<&mut [u64]>)> = (0..rows).map(|place| (place, vec![])).collect();
        for (at, row) in b.chunks_exact_mut(n).enumerate() {
            jobs[at % rows].1.push(row);
        }
        ring.context().each(jobs, |(place, out)| {
            let limb = limb_at(&shape, place);
            let (kernels, p) = (ring.kernels(), primes[limb]);
            let mut new = Protected::<u64>::new(if turned.is_some() { n } else { 0 });
            let ephemeral = match id {
                _ if id.has_one_limb() || id == KeyId::ToDense => secret.ephemeral_row(ring, p),
                _ => Protected::new(0),
            };
            let to: &[u64] = match &turned {
                None if id.has_one_limb() => &ephemeral,
                None => secret.row(limb),
                Some(automorphism) => {
                    automorphism.permute(secret.row(limb), &mut new);
                    &new
                }
            };
            let (mut a, mut product) = (vec![0; n], Protected::<u64>::new(n));
            for (digit, row) in out.into_iter().enumerate() {
                expand(&seed, digit as u32, limb as u32, shape.moduli()[limb], &mut a);
                ring.product_by(p, &a, to, &mut product);
                ring.evaluated_by(p, &noise[digit * n..(digit + 1) * n], row);
                kernels.subtract(p, row, &product);
                if limb < shape.num_q() && limb / shape.digit_limbs() == digit {
                    let mut own = Protected::<u64>::new(small.len());
                    if !small.is_empty() {
                        ring.evaluated_by(p, small, &mut own);
                    }
                    let from = if small.is_empty() { secret.row(limb) } else { &own };
                    match id {
                        KeyId::Relin | KeyId::FromSmallSquared => ring.product_by(p, from, from, &mut product),
                        KeyId::ToDense => product.copy_from_slice(&ephemeral),
                        _ => product.copy_from_slice(from),
                    }
                    let special = shape.moduli()[shape.num_q()..].iter();
                    let factor = special.fold(1, |factor, q| p.modulus.mul(factor, p.modulus.reduce(*q)));
                    kernels.scale(p, &mut product, factor);
                    kernels.add(p, row, &product);
                }
            }
            Ok(())
        })?;
        Ok(Self { shape, tag: secret.tag().to_owned(), id, seed, seeded, limbs, b })
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Bytes of part B in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.b)
    }

    /// Writes it as a segment that a key store of `tenant` imports; its bytes.
    ///
    /// # Errors
    /// [`Error::Segment`]: the file system refuses.
    pub fn write(&self, path: &Path, tenant: &Tenant) -> Result<u64> {
        Ok(write_segment(path, tenant, self.id, self)?)
    }

    /// Writes it as OpenFHE does: a map of one automorphism, or a single key for products.
    ///
    /// # Errors
    /// [`Error::Value`]: it is not whole, and OpenFHE reads whole keys. [`Error::File`]: the file system refuses.
    pub fn write_openfhe(&self, ring: &Ring, path: &Path) -> Result<()> {
        if self.limbs != self.shape.num_q() {
            let what = format!("a key for {} of {} limbs", self.limbs, self.shape.num_q());
            return Err(Error::value(what, "OpenFHE reads whole keys only: make it for every limb"));
        }
        if self.id.is_from_small() {
            let rule = "OpenFHE switches no ciphertext between rings: write it as a segment";
            return Err(Error::value(format!("key '{}'", self.id), rule));
        }
        let file = |why: io::Error| Error::File { path: path.to_owned(), why };
        let out = io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).map_err(file)?);
        self.openfhe(ring, out).and_then(|mut out| out.flush()).map_err(file)
    }

    fn openfhe<W: Write>(&self, ring: &Ring, out: W) -> io::Result<W> {
        let roots: Vec<u64> = ring.primes()[ring.num_q()..].iter().map(|p| p.root).collect();
        let p = (&ring.shape().moduli()[ring.num_q()..], &roots[..]);
        let element = self.id.map_element(ring.ring_dim());
        let mut writer = match element {
            None => EvaluationKeyWriter::single(out, KeyFileLayout::Objects, ring.described(), p, &self.tag)?,
            Some(_) => EvaluationKeyWriter::map(out, KeyFileLayout::Objects, ring.described(), p, &self.tag, 1)?,
        };
        if let Some(element) = element {
            writer.element(element)?;
        }
        let row = |part, digit, limb| {
            let mut words = vec![0; self.shape.ring_dim()];
            self.fill(self.shape.row(usize::from(part == Part::B), digit, limb), &mut words)
                .map_err(io::Error::other)?;
            Ok(Cow::Owned(words))
        };
        if self.id == KeyId::ToSparse {
            let auxiliary = ring.context().auxiliary_primes().map_err(io::Error::other)?;
            let roots: Vec<u64> = ring.primes()[..1].iter().chain(auxiliary).map(|p| p.root).collect();
            writer.key_over(self.shape.moduli(), &roots, row)?;
        } else {
            writer.key(row)?;
        }
        Ok(writer.into_inner())
    }
}

/// The limb of the chain at a place of a digit's rows: P's first, then Q's.
fn limb_at(shape: &Shape, place: usize) -> usize {
    if place < shape.num_p() { shape.num_q() + place } else { place - shape.num_p() }
}

/// The inverse of an odd number modulo 2N.
fn inverse(element: u64, ring_dim: usize) -> u64 {
    let mask = 2 * ring_dim as u64 - 1;
    // The group of odd numbers modulo 2N has N elements.
    let (mut power, mut base, mut e) = (1u64, element & mask, ring_dim as u64 - 1);
    while e > 0 {
        if e & 1 == 1 {
            power = power.wrapping_mul(base) & mask;
        }
        base = base.wrapping_mul(base) & mask;
        e >>= 1;
    }
    power
}

impl KeyContent for EvaluationKey {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn secret_tag(&self) -> &str {
        &self.tag
    }

    fn form(&self) -> Form {
        Form { limbs: self.limbs, seed: self.seeded.then_some(self.seed) }
    }

    fn fill(&self, row: usize, words: &mut [u64]) -> penstock_segment::Result<()> {
        let (part, digit, limb) = self.shape.place(row);
        if part == 0 {
            expand(&self.seed, digit as u32, limb as u32, self.shape.moduli()[limb], words);
            return Ok(());
        }
        let n = self.shape.ring_dim();
        let place = if limb < self.shape.num_q() { self.shape.num_p() + limb } else { limb - self.shape.num_q() };
        let at = (digit * (self.limbs + self.shape.num_p()) + place) * n;
        words.copy_from_slice(&self.b[at..at + n]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_are_inverses() {
        for n in [64, 1 << 16] {
            for element in [1, 3, 5, 25, 2 * n as u64 - 1] {
                assert_eq!(inverse(element, n) * element % (2 * n as u64), 1);
            }
        }
    }
}
