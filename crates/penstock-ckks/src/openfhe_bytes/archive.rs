//! Objects as OpenFHE 1.6 writes them (`BINARY`): the crypto context in front, its shared parts once, then references.
//!
//! OpenFHE's archive is cereal's. A shared object has a number, and its content where it comes first; so has the name
//! of a class behind a pointer to its base; the version of a class stands where its first object does. An object
//! that is written here has OpenFHE's bytes, to the last.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::grammar::{NEW_OBJECT, PLAIN_POINTER};
use crate::scaling::Scaling;

/// Bits of the special primes, and what OpenFHE's parameters are where nobody sets them.
const AUXILIARY_BITS: u32 = 60;
const EXTRA_BITS_EXT: u32 = 20;
const REGISTER_BITS: u32 = 64;
const COMPRESSION_LEVEL: u32 = 3;
const STANDARD_DEVIATION: f32 = 3.19;
const ASSURANCE: f32 = 36.0;
const STATISTICAL_SECURITY: f64 = 30.0;
/// Encryption, key switching, levels, series and bootstrapping: what `penstock` enables of a context.
const FEATURES: u32 = 0b101_1011;
const CKKS_SCHEME: u32 = 1;
const HYBRID: u32 = 2;
const STANDARD_ENCRYPTION: u32 = 0;
const HPS_MULTIPLICATION: u32 = 1;
/// Of OpenFHE's `SecurityLevel`: none stated.
const LEVEL_NOT_SET: u32 = 6;

/// The distribution of a secret key, as OpenFHE numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretDistribution {
    /// -1, 0 and 1 alike.
    UniformTernary,
    /// As many -1 and 1 as OpenFHE takes, the rest 0.
    SparseTernary,
    /// As many as [`Self::SparseTernary`], and a sparser one while bootstrapping raises the modulus.
    SparseEncapsulated,
}

impl SecretDistribution {
    fn number(self) -> u32 {
        match self {
            SecretDistribution::UniformTernary => 1,
            SecretDistribution::SparseTernary => 2,
            SecretDistribution::SparseEncapsulated => 3,
        }
    }
}

/// What OpenFHE writes of a CKKS context of hybrid key switching.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextDescription {
    /// N.
    pub ring_dim: usize,
    /// The moduli of Q.
    pub moduli: Vec<u64>,
    /// Of each the minimal primitive root of order 2N.
    pub roots: Vec<u64>,
    /// The batch size: values of a plaintext.
    pub slots: u32,
    /// log2 of the scale.
    pub scale_bits: u32,
    /// The multiplicative depth that was asked for.
    pub depth: u32,
    /// Digits of key switching.
    pub dnum: u32,
    /// The scaling technique.
    pub scaling: Scaling,
    /// The distribution of secret keys.
    pub secret: SecretDistribution,
    /// The classical security that OpenFHE was asked to hold the set to: 128, 192, 256; `None`: none.
    pub security: Option<u32>,
}

/// The numbers of the objects of Q in an archive: what polynomials refer to.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub moduli: Vec<u64>,
    pub roots: Vec<u64>,
    /// Of each limb, where it has one.
    pub limbs: Vec<Option<u32>>,
    /// Of the whole, where it has one.
    pub whole: Option<u32>,
}

impl Chain {
    /// The moduli of polynomials that bring their own.
    pub fn new(moduli: &[u64], roots: &[u64]) -> Self {
        Self { moduli: moduli.to_vec(), roots: roots.to_vec(), limbs: vec![None; moduli.len()], whole: None }
    }

    /// The first `limbs` of it: a new chain if they are not all.
    pub fn truncated(&self, limbs: usize) -> Self {
        Self {
            moduli: self.moduli[..limbs].to_vec(),
            roots: self.roots[..limbs].to_vec(),
            limbs: self.limbs[..limbs].to_vec(),
            whole: self.whole.filter(|_| limbs == self.moduli.len()),
        }
    }
}

/// Classes that have a version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    CryptoObject,
    Key,
    EvalKey,
    EvalKeyRelin,
    PublicKey,
    PrivateKey,
    Ciphertext,
    Context,
    Parameters,
    ParametersRns,
    ParametersRlwe,
    ParametersBase,
    Encoding,
    Chain,
    ChainBase,
    BigNumber,
    Limb,
    LimbBase,
    Number,
    Polynomial,
    LimbPolynomial,
    Row,
}

/// Writes one archive.
pub struct Archive<W> {
    out: W,
    objects: u32,
    names: u32,
    seen: BTreeSet<Class>,
    ring_dim: usize,
}

impl<W: Write> Archive<W> {
    /// A new archive of polynomials of `ring_dim` words.
    pub(super) fn begin(mut out: W, ring_dim: usize) -> io::Result<Self> {
        out.write_all(&[1])?; // little-endian
        Ok(Self { out, objects: 0, names: 0, seen: BTreeSet::new(), ring_dim })
    }

    /// Goes on behind a prefix that holds a context; numbers of objects from `objects` on are free.
    pub(super) fn resume(out: W, ring_dim: usize, objects: u32) -> Self {
        use Class::*;
        let seen = BTreeSet::from([
            CryptoObject,
            Key,
            EvalKey,
            EvalKeyRelin,
            PublicKey,
            PrivateKey,
            Ciphertext,
            Context,
            Parameters,
            ParametersRns,
            ParametersRlwe,
            ParametersBase,
            Encoding,
            Chain,
            ChainBase,
            BigNumber,
            Limb,
            LimbBase,
            Number,
        ]);
        Self { out, objects, names: 0, seen, ring_dim }
    }

    /// The output, and the number of its last object.
    pub(super) fn end(self) -> (W, u32) {
        (self.out, self.objects)
    }

    pub(super) fn u32(&mut self, word: u32) -> io::Result<()> {
        self.out.write_all(&word.to_le_bytes())
    }

    pub(super) fn u64(&mut self, word: u64) -> io::Result<()> {
        self.out.write_all(&word.to_le_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.u64(text.len() as u64)?;
        self.out.write_all(text.as_bytes())
    }

    /// The version of each class that comes first: 1 of contexts and ciphertexts, 0 of all others.
    pub(super) fn versions(&mut self, classes: &[Class]) -> io::Result<()> {
        classes.iter().try_for_each(|class| {
            if self.seen.insert(*class) {
                self.u32(u32::from(matches!(class, Class::Context | Class::Ciphertext)))
            } else {
                Ok(())
            }
        })
    }

    /// The number of a new object.
    pub(super) fn new_object(&mut self) -> io::Result<u32> {
        self.objects += 1;
        self.u32(self.objects | NEW_OBJECT)?;
        Ok(self.objects)
    }

    /// A pointer to an object of a class that has no other.
    pub(super) fn plain_object(&mut self) -> io::Result<u32> {
        self.u32(PLAIN_POINTER)?;
        self.new_object()
    }

    pub(super) fn plain_reference(&mut self, object: u32) -> io::Result<()> {
        self.u32(PLAIN_POINTER)?;
        self.u32(object)
    }

    /// A new name of a class behind a pointer to its base; its number.
    pub(super) fn name(&mut self, name: &str) -> io::Result<u32> {
        self.names += 1;
        self.u32(self.names | NEW_OBJECT)?;
        self.text(name)?;
        Ok(self.names)
    }

    fn orders(&mut self) -> io::Result<()> {
        let ring_dim = self.ring_dim as u32; // at most 2^20
        self.u32(2 * ring_dim)?;
        self.u32(ring_dim)
    }

    /// A crypto context behind a pointer, its number and its chain of Q.
    pub(super) fn context(&mut self, described: &ContextDescription) -> io::Result<(u32, Chain)> {
        use Class::{Context, Encoding, Parameters, ParametersBase, ParametersRlwe, ParametersRns};
        let context = self.plain_object()?;
        self.versions(&[Context])?;
        self.name("lbcrypto::CryptoParametersCKKSRNS")?;
        self.new_object()?;
        self.versions(&[Parameters, ParametersRns, ParametersRlwe, ParametersBase])?;
        let mut chain = Chain::new(&described.moduli, &described.roots);
        chain.whole = Some(self.plain_object()?);
        self.chain_content(&mut chain, true)?;
        self.plain_object()?;
        self.versions(&[Encoding])?;
        self.u64(u64::from(described.scale_bits))?; // the "plaintext modulus" of CKKS
        for _ in 0..3 {
            self.u64(0)?; // roots and moduli of packed integers
        }
        self.u32(0)?; // their generator
        self.u32(described.slots)?;
        self.rlwe_parameters(described)?;
        self.rns_parameters(described)?;
        self.name("lbcrypto::SchemeCKKSRNS")?;
        self.new_object()?;
        for _ in 0..3 {
            self.u32(0)?; // versions of the scheme's three classes
        }
        self.name("lbcrypto::FHECKKSRNS")?;
        self.new_object()?;
        self.u64(0)?; // no bootstrapping was prepared
        self.u32(0)?; // no correction factor
        self.u32(0)?; // no switch of schemes
        self.u32(FEATURES)?;
        self.u32(CKKS_SCHEME)?;
        Ok((context, chain))
    }

    fn rlwe_parameters(&mut self, described: &ContextDescription) -> io::Result<()> {
        self.u32(STANDARD_DEVIATION.to_bits())?;
        self.u32(ASSURANCE.to_bits())?;
        self.u64(1)?; // noise scale
        self.u32(0)?; // digit size of another key switching
        self.u64(0)?; // noise estimate
        self.u32(described.depth)?;
        for word in [0, 0, 0, 2, described.secret.number(), 0, 1, 0, 0] {
            // counts of additions, key switches, hops; the power of relinearization; secrets; modes: proxy
            // re-encryption, several parties, execution, decryption
            self.u32(word)?;
        }
        let level = match described.security {
            Some(128) => 0,
            Some(192) => 1,
            Some(256) => 2,
            _ => LEVEL_NOT_SET,
        };
        self.u32(level)?;
        self.u64(0)?; // flooding
        self.u64(STATISTICAL_SECURITY.to_bits())?;
        self.u64(1f64.to_bits())?; // adversarial queries
        self.u32(1) // parties
    }

    fn rns_parameters(&mut self, described: &ContextDescription) -> io::Result<()> {
        let scaling = match described.scaling {
            Scaling::FixedManual => 0,
            Scaling::FixedAuto => 1,
            Scaling::FlexibleAuto => 2,
            Scaling::FlexibleAutoExt => 3,
        };
        for word in [HYBRID, scaling, STANDARD_ENCRYPTION, HPS_MULTIPLICATION, described.dnum] {
            self.u32(word)?;
        }
        let extra = if described.scaling == Scaling::FlexibleAutoExt { EXTRA_BITS_EXT } else { 0 };
        for word in [AUXILIARY_BITS, extra, COMPRESSION_LEVEL, 1, REGISTER_BITS, 0] {
            self.u32(word)?; // …, the composite degree, …, real values
        }
        Ok(())
    }

    /// The moduli of a chain, limbs that have no number yet with their content. `first`: limbs behind the first of all
    /// archive objects bring versions.
    fn chain_content(&mut self, chain: &mut Chain, first: bool) -> io::Result<()> {
        use Class::{BigNumber, ChainBase};
        if first {
            self.versions(&[Class::Chain, ChainBase])?;
        }
        self.orders()?;
        self.versions(&[BigNumber])?;
        let product = product(&chain.moduli);
        let bits = 64 * product.len() as u32 - product.last().map_or(0, |word| word.leading_zeros());
        self.u64(product.len() as u64)?;
        product.iter().try_for_each(|word| self.u64(*word))?;
        self.u32(bits)?;
        for _ in 0..3 {
            self.u64(1)?; // a big number of one word, 0, without bits
            self.u64(0)?;
            self.u32(0)?;
        }
        self.u64(chain.moduli.len() as u64)?;
        for limb in 0..chain.moduli.len() {
            match chain.limbs[limb] {
                Some(object) => self.plain_reference(object)?,
                None => chain.limbs[limb] = Some(self.limb_object(chain.moduli[limb], chain.roots[limb])?),
            }
        }
        Ok(())
    }

    fn limb_object(&mut self, modulus: u64, root: u64) -> io::Result<u32> {
        let object = self.plain_object()?;
        self.versions(&[Class::Limb, Class::LimbBase])?;
        self.orders()?;
        self.versions(&[Class::Number])?;
        for word in [modulus, root, 0, 0] {
            self.u64(word)?;
        }
        Ok(object)
    }

    /// A polynomial in evaluation order: `row(limb)` gives its words.
    pub(super) fn polynomial<'a>(
        &mut self,
        chain: &mut Chain,
        mut row: impl FnMut(usize) -> io::Result<std::borrow::Cow<'a, [u64]>>,
    ) -> io::Result<()> {
        self.versions(&[Class::Polynomial])?;
        self.u64(chain.moduli.len() as u64)?;
        for limb in 0..chain.moduli.len() {
            self.versions(&[Class::LimbPolynomial])?;
            self.u32(PLAIN_POINTER)?;
            self.bytes(&[1])?;
            self.versions(&[Class::Row])?;
            let words = row(limb)?;
            self.u64(words.len() as u64)?;
            if cfg!(target_endian = "little") {
                self.bytes(bytemuck::cast_slice(&words))?;
            } else {
                words.iter().try_for_each(|word| self.u64(*word))?;
            }
            self.u64(chain.moduli[limb])?;
            self.u32(0)?; // evaluation order
            match chain.limbs[limb] {
                Some(object) => self.plain_reference(object)?,
                None => chain.limbs[limb] = Some(self.limb_object(chain.moduli[limb], chain.roots[limb])?),
            }
        }
        self.u32(0)?; // evaluation order
        match chain.whole {
            Some(object) => self.plain_reference(object),
            None => {
                chain.whole = Some(self.plain_object()?);
                self.chain_content(chain, false)
            }
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
