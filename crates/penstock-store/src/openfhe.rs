//! Keys that OpenFHE serialized, as content of segments. The layout is read by `penstock-ckks`, which also checks
//! every word against its modulus.

use std::collections::BTreeSet;

use penstock_ckks::openfhe_bytes::{EvaluationKeyBytes, Input, Part, parse_evaluation_keys, read_row};

use crate::{Digest, Error, Form, Imported, KeyContent, KeyId, Result, SegmentError, Shape, Store, Tenant};

/// One key of an input that OpenFHE wrote in its BINARY format: bytes in memory, or a [`crate::KeyFile`].
pub struct OpenFheKey<'a, I: ?Sized = [u8]> {
    input: &'a I,
    layout: EvaluationKeyBytes,
    shape: Shape,
    /// Limbs of Q that the file has: fewer than the shape for a key that was made at a level.
    limbs: usize,
    id: Option<KeyId>,
}

impl<'a, I: Input + ?Sized> OpenFheKey<'a, I> {
    /// The keys in `input`: a serialized evaluation key, a map of automorphism keys, or a context's automorphism or
    /// multiplication keys. `num_q` is the number of limbs of Q: the key holds the moduli of Q and P in one list, and
    /// does not say where P begins.
    ///
    /// # Errors
    /// `OpenFhe`: the bytes are not from OpenFHE. `Shape`: not with this number of limbs of Q. `Source`: a key
    /// for a higher power of the secret.
    pub fn parse(input: &'a I, num_q: usize) -> Result<Vec<Self>> {
        let layouts = parse_evaluation_keys(input)?;
        // The key to the sparse secret does not have the moduli of the others, and they have not its.
        let other = layouts.iter().find(|layout| stated_id(layout) != Some(KeyId::ToSparse));
        let set = other.map(|layout| Self::new(input, layout.clone(), num_q).map(|key| key.shape)).transpose()?;
        let one = |layout: EvaluationKeyBytes| match (stated_id(&layout), &set) {
            (Some(KeyId::ToSparse), Some(set)) => Self::to_sparse(input, layout, set),
            (Some(KeyId::ToSparse), None) => Err(Error::shape(
                "the file has the key to the sparse secret alone, which does not state the moduli of the others: import \
                 it with the name of its parameters",
            )),
            _ => Self::new(input, layout, num_q),
        };
        layouts.into_iter().map(one).collect()
    }

    /// The same for keys of these parameters. A key that was made at a level has the moduli of fewer limbs of Q, and then
    /// those of P (openfhe-development, pull request 1292; OpenFHE 1.6.1 makes none): it is a truncated key of the whole
    /// chain. `key`: of a file that holds a single key and does not say which.
    ///
    /// # Errors
    /// Those of [`OpenFheKey::parse`]; `OtherParameters`.
    pub fn parse_for(input: &'a I, full: &Shape, key: Option<KeyId>) -> Result<Vec<Self>> {
        let one = |layout: EvaluationKeyBytes| match limbs_of(&layout, full) {
            _ if stated_id(&layout).or(key) == Some(KeyId::ToSparse) => Self::to_sparse(input, layout, full),
            Some(limbs) => Ok(Self { limbs, ..Self::stated(input, layout, full.clone())? }),
            None => {
                let found = Self::new(input, layout, full.num_q())?;
                if found.shape == *full { Ok(found) } else { Err(found.other_parameters(full.digest())) }
            }
        };
        parse_evaluation_keys(input)?.into_iter().map(one).collect()
    }

    fn new(input: &'a I, layout: EvaluationKeyBytes, num_q: usize) -> Result<Self> {
        let Some((q, p)) = layout.moduli.split_at_checked(num_q) else {
            let limbs = layout.moduli.len();
            return Err(Error::shape(format!(
                "the key has {limbs} limbs of Q and P together, Q alone should have {num_q}; a key that was made at a \
                 level is imported with the name of its parameters"
            )));
        };
        let shape = Shape::new(layout.ring_dim, q, p, layout.dnum)?;
        Self::stated(input, layout, shape)
    }

    /// A key with every limb of `shape`, of the identity that the file states.
    fn stated(input: &'a I, layout: EvaluationKeyBytes, shape: Shape) -> Result<Self> {
        if let Some(power) = layout.secret_power.filter(|power| *power != 2) {
            return Err(Error::of_source(format!(
                "the file holds the key for power {power} of the secret: ciphertexts are relinearized after each product \
                 here; write the keys of EvalMultKeyGen, not those of EvalMultKeysGen"
            )));
        }
        Ok(Self { input, limbs: shape.num_q(), shape, id: stated_id(&layout), layout })
    }

    /// The key to the sparse secret of these parameters.
    fn to_sparse(input: &'a I, layout: EvaluationKeyBytes, set: &Shape) -> Result<Self> {
        let shape = set.for_key(KeyId::ToSparse)?;
        if layout.ring_dim != shape.ring_dim() || layout.dnum != 1 || layout.moduli != shape.moduli() {
            return Err(Error::of_source(format!(
                "the file's key to the sparse secret has N = {}, {} digits and the moduli {:?}; by these parameters it has \
                 N = {}, 1 digit and {:?}, as OpenFHE 1.6.1 makes it: make it with that version, or name the parameters \
                 it was made with",
                layout.ring_dim,
                layout.dnum,
                layout.moduli,
                shape.ring_dim(),
                shape.moduli()
            )));
        }
        Self::stated(input, layout, shape)
    }

    /// The identity of the key if the file states it: an entry of a map or of a context's list.
    pub fn id(&self) -> Option<KeyId> {
        self.id
    }
}

/// How the parameters of keys to import are named.
#[derive(Clone, Copy, Debug)]
pub enum Params<'a> {
    /// The number of limbs of Q. Every key is whole.
    Limbs(usize),
    /// The shape of whole keys; others are refused.
    Of(&'a Shape),
}

/// The identity that a file states of a key.
fn stated_id(layout: &EvaluationKeyBytes) -> Option<KeyId> {
    let of_map = |element| KeyId::automorphism(u64::from(element), layout.ring_dim);
    if layout.secret_power == Some(2) { Some(KeyId::Relin) } else { layout.galois_element.map(of_map) }
}

/// The limbs of Q of a key that was made at a level of these parameters, with whole or with its own digits; `None`: not
/// such a key.
fn limbs_of(layout: &EvaluationKeyBytes, full: &Shape) -> Option<usize> {
    let limbs = layout.moduli.len().checked_sub(full.num_p()).filter(|limbs| (1..full.num_q()).contains(limbs))?;
    let (q, p) = layout.moduli.split_at(limbs);
    let same =
        layout.ring_dim == full.ring_dim() && [q, p] == [&full.moduli()[..limbs], &full.moduli()[full.num_q()..]];
    (same && (full.active_digits(limbs)..=full.digits()).contains(&layout.dnum)).then_some(limbs)
}

impl Store {
    /// Imports every key of an input that OpenFHE wrote. `key` is needed for a single key, which does not state its
    /// purpose, and must agree with a file that does; `only` these of a file that holds more. Only one row is in memory at
    /// a time, besides the input's own.
    ///
    /// # Errors
    /// Those of [`OpenFheKey::parse`] and [`Store::import`]; `Value`: no `key` for a file that does not say, or another
    /// one, or the file does not hold one of `only`; `WrongSecret`: keys of several secret keys; `OtherParameters`. Keys
    /// before the one that fails are in the store, whole.
    pub fn import_openfhe<I: Input + ?Sized>(
        &self,
        tenant: &Tenant,
        input: &I,
        params: Params<'_>,
        key: Option<KeyId>,
        only: Option<&[KeyId]>,
    ) -> Result<Vec<Imported>> {
        let found = match params {
            Params::Limbs(num_q) => OpenFheKey::parse(input, num_q)?,
            Params::Of(shape) => OpenFheKey::parse_for(input, shape, key)?,
        };
        let ids: Vec<KeyId> = found.iter().map(|each| each.named(key)).collect::<Result<_>>()?;
        if ids.iter().zip(&found).any(|(id, each)| *id == KeyId::ToSparse && each.shape.set() == &each.shape) {
            return Err(Error::value(
                "key",
                KeyId::ToSparse,
                "it does not state the other moduli: name the parameters",
            ));
        }
        let secrets: BTreeSet<&str> = found.iter().map(OpenFheKey::secret_tag).collect();
        if secrets.len() > 1 {
            return Err(Error::WrongSecret {
                found: secrets.into_iter().collect::<Vec<_>>().join(" and with tag "),
                rule: "in one file: a tenant has one secret key; serialize one's keys at a time, by its tag".into(),
            });
        }
        if let Some(missing) = only.and_then(|only| only.iter().find(|id| !ids.contains(id))) {
            return Err(Error::value("key", missing, "the file does not hold it; name keys that it holds"));
        }
        let wanted = |id: &KeyId| only.is_none_or(|only| only.contains(id));
        let chosen = found.iter().zip(ids).filter(|(_, id)| wanted(id));
        chosen.map(|(each, id)| self.import(tenant, id, each)).collect()
    }
}

impl<I: Input + ?Sized> OpenFheKey<'_, I> {
    fn named(&self, key: Option<KeyId>) -> Result<KeyId> {
        match (self.id, key) {
            (Some(id), Some(key)) if id != key => Err(Error::value(
                "key",
                key,
                "the file says what its keys are for, and holds another one; leave it out",
            )),
            (Some(id), _) | (None, Some(id)) => Ok(id),
            (None, None) => {
                const RULE: &str = "the file holds a single key, which does not say what it is for: relin, conj, \
                                    rot:<galois_element>, to-sparse or to-dense";
                Err(Error::value("key", "not given", RULE))
            }
        }
    }

    fn other_parameters(&self, expected: Digest) -> Error {
        let shape = &self.shape;
        let found = format!(
            "{} (N = {}, {} limbs of Q, {} of P, {} digits, q_0 = {})",
            shape.digest(),
            shape.ring_dim(),
            shape.num_q(),
            shape.num_p(),
            shape.digits(),
            shape.moduli()[0]
        );
        Error::OtherParameters { found, expected: expected.to_string() }
    }
}

impl<I: Input + ?Sized> KeyContent for OpenFheKey<'_, I> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn secret_tag(&self) -> &str {
        self.layout.key_tag.as_deref().unwrap_or("")
    }

    fn form(&self) -> Form {
        Form { limbs: self.limbs, seed: None }
    }

    fn fill(&self, row: usize, words: &mut [u64]) -> Result<(), SegmentError> {
        let (part, digit, limb) = self.shape.place(row);
        let missing = || SegmentError::Source(format!("the key has no row for {}", self.shape.describe(row)));
        // The file has P's limbs right behind its own of Q.
        let at = if limb < self.shape.num_q() { limb } else { limb - (self.shape.num_q() - self.limbs) };
        let span = self.layout.row(Part::BOTH[part], digit, at).ok_or_else(missing)?;
        read_row(self.input, span, limb, words).map_err(|error| SegmentError::Source(error.to_string()))
    }
}
