//! The ring of a client: the evaluator's context, and what OpenFHE writes of it.

use std::sync::Arc;

use penstock_ckks::kernels::{Digit, Kernels, Prime, Source};
use penstock_ckks::openfhe_bytes::{ContextDescription, SecretDistribution};
use penstock_ckks::{Automorphism, Context, Machine, Parameters};
use penstock_segment::Shape;

use crate::error::{Error, Result};

/// The distribution of a pair's secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// -1, 0 and 1 alike.
    UniformTernary,
    /// A fixed number of -1 and 1 ([`crate::sample::SPARSE_WEIGHT`]).
    SparseTernary,
    /// The same, and an ephemeral one of [`crate::sample::EPHEMERAL_WEIGHT`] while bootstrapping raises the modulus.
    SparseEncapsulated,
    /// A uniform one, and the same ephemeral one.
    UniformEncapsulated,
}

impl SecretKind {
    /// The kind of a parameter set's name for it.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "uniform-ternary" => Self::UniformTernary,
            "sparse-ternary" => Self::SparseTernary,
            "sparse-encapsulated" => Self::SparseEncapsulated,
            "uniform-encapsulated" => Self::UniformEncapsulated,
            _ => return None,
        })
    }

    /// Whether the pair has an ephemeral secret.
    pub fn is_encapsulated(self) -> bool {
        matches!(self, Self::SparseEncapsulated | Self::UniformEncapsulated)
    }

    /// Whether the pair's own secret is sparse.
    pub fn is_sparse(self) -> bool {
        matches!(self, Self::SparseTernary | Self::SparseEncapsulated)
    }

    /// The distribution that an OpenFHE context states for OpenFHE to evaluate with such a pair. It has no name for a
    /// uniform secret with an ephemeral one, and only its key generation would draw another.
    pub fn described(self) -> SecretDistribution {
        match self {
            Self::UniformTernary => SecretDistribution::UniformTernary,
            Self::SparseTernary => SecretDistribution::SparseTernary,
            Self::SparseEncapsulated | Self::UniformEncapsulated => SecretDistribution::SparseEncapsulated,
        }
    }
}

/// The parameters of a client, as OpenFHE has them.
#[derive(Debug, Clone, PartialEq)]
pub struct RingParameters {
    /// Those of the evaluator.
    pub evaluator: Parameters,
    /// Values of a plaintext.
    pub slots: u32,
    /// The multiplicative depth that was asked for.
    pub depth: u32,
    /// The distribution of secret keys.
    pub secret: SecretKind,
    /// The classical security that OpenFHE holds the set to; `None`: none.
    pub security: Option<u32>,
}

/// Parameters with their tables and threads. It holds no secret.
pub struct Ring {
    context: Context,
    described: ContextDescription,
    shape: Shape,
    secret: SecretKind,
}

impl Ring {
    /// Builds the tables.
    ///
    /// # Errors
    /// [`Error::Ring`], [`Error::Segment`]: the numbers do not fit together.
    pub fn new(parameters: RingParameters, machine: Machine) -> Result<Self> {
        let RingParameters { evaluator, slots, depth, secret, security } = parameters;
        if !slots.is_power_of_two() || slots as usize > evaluator.ring_dim / 2 {
            return Err(Error::value(format!("{slots} slots"), "a power of two, up to N / 2"));
        }
        let shape = Shape::new(evaluator.ring_dim, &evaluator.moduli_q, &evaluator.moduli_p, evaluator.dnum)?;
        let context = Context::new(evaluator, machine)?;
        let own = context.parameters();
        let described = ContextDescription {
            ring_dim: own.ring_dim,
            moduli: own.moduli_q.clone(),
            roots: context.roots(),
            slots,
            scale_bits: own.scale_bits,
            depth,
            dnum: own.dnum as u32,
            scaling: own.scaling,
            secret: secret.described(),
            security,
        };
        Ok(Self { context, described, shape, secret })
    }

    /// The evaluator's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What OpenFHE writes of it.
    pub fn described(&self) -> &ContextDescription {
        &self.described
    }

    /// The shape of its evaluation keys.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The distribution of secret keys.
    pub fn secret(&self) -> SecretKind {
        self.secret
    }

    /// N.
    pub fn ring_dim(&self) -> usize {
        self.shape.ring_dim()
    }

    pub(crate) fn num_q(&self) -> usize {
        self.shape.num_q()
    }

    pub(crate) fn primes(&self) -> &[Prime] {
        self.context.primes()
    }

    pub(crate) fn kernels(&self) -> Kernels {
        self.context.kernels()
    }

    /// `limbs` where a ciphertext may have so many.
    pub(crate) fn check_limbs(&self, limbs: usize) -> Result<()> {
        if (1..=self.num_q()).contains(&limbs) {
            return Ok(());
        }
        Err(Error::value(format!("{limbs} limbs"), format!("at least 1, at most {}", self.num_q())))
    }

    /// The automorphism of a Galois element.
    pub(crate) fn automorphism(&self, element: u64) -> Result<Arc<Automorphism>> {
        Ok(self.context.automorphism(element)?)
    }

    /// Small signed coefficients at one limb of the chain, in evaluation order, canonical.
    pub(crate) fn evaluated(&self, limb: usize, coefficients: &[u64], out: &mut [u64]) {
        self.evaluated_by(&self.primes()[limb], coefficients, out);
    }

    /// The same modulo a prime.
    pub(crate) fn evaluated_by(&self, p: &Prime, coefficients: &[u64], out: &mut [u64]) {
        let kernels = self.kernels();
        kernels.convert(p, &[Source { row: coefficients, factor: 1, wide: false }], out);
        kernels.forward(p, out);
        kernels.to_canonical(p, out);
    }

    /// `out = a * b` of evaluations.
    pub(crate) fn product(&self, limb: usize, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.product_by(&self.primes()[limb], a, b, out);
    }

    /// The same modulo a prime.
    pub(crate) fn product_by(&self, p: &Prime, a: &[u64], b: &[u64], out: &mut [u64]) {
        let a = Digit { row: a, canonical: true };
        self.kernels().sum_of_products(p, &[a], &[b], out);
    }

    /// The canonical coefficients of evaluations.
    pub(crate) fn coefficients(&self, limb: usize, row: &[u64], out: &mut [u64]) {
        let p = &self.primes()[limb];
        let scale = p.modulus.inverse(p.modulus.reduce(self.ring_dim() as u64));
        self.kernels().inverse(p, row, scale, out);
    }
}
