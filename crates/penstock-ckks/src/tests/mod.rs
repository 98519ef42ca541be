//! Operations against slow twins that follow the definitions, at toy (insecure) parameters, on every kernel path.
//!
//! `tests/differential` of the Python package compares the words with OpenFHE itself.

mod bytes;
mod encapsulated;
mod key_switching;
mod leveled;
mod passes;
mod residues;
mod rows;

use crate::buffer::Arena;
use crate::cipher::Ciphertext;
use crate::kernels::{CpuPath, Kernels, Prime};
use crate::keys::KeyView;
use crate::modulus::Modulus;
use crate::{Context, Machine, Parameters, Part, Scaling};

pub(crate) struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Rows of canonical words.
    pub fn rows(&mut self, moduli: &[u64], n: usize) -> Vec<Vec<u64>> {
        moduli.iter().map(|q| (0..n).map(|_| self.word() % q).collect()).collect()
    }
}

/// 60-, 50- and 59-bit primes that are 1 mod 2^17.
pub(crate) const MODULI_Q: [u64; 7] = [
    1152921504606584833,
    1125899903827969,
    1125899908022273,
    1125899902124033,
    1125899911168001,
    576460752300015617,
    576460752298835969,
];
pub(crate) const MODULI_P: [u64; 4] =
    [1152921504598720513, 1152921504597016577, 1152921504595968001, 1152921504592822273];

pub(crate) fn parameters(ring_dim: usize, dnum: usize, scaling: Scaling) -> Parameters {
    Parameters {
        ring_dim,
        moduli_q: if scaling.is_automatic() { MODULI_Q[..5].to_vec() } else { MODULI_Q.to_vec() },
        moduli_p: MODULI_P.to_vec(),
        dnum,
        scaling,
        scale_bits: 50,
    }
}

/// A context on every path that there is and on those that check their ranges, with one thread and with two.
pub(crate) fn contexts(parameters: &Parameters) -> Vec<Context> {
    let paths = CpuPath::ALL.into_iter().chain([CpuPath::Checked4, CpuPath::Checked8]);
    let paths = paths.filter(|path| path.is_available());
    paths
        .flat_map(|path| [1, 2].map(|threads| Machine { path, threads, keep_bytes: 1 << 20 }))
        .map(|machine| Context::new(parameters.clone(), machine).unwrap())
        .collect()
}

/// Random words: to arithmetic every ciphertext looks like that.
pub(crate) fn ciphertext(context: &Context, random: &mut Random, polynomials: usize, limbs: usize) -> Ciphertext {
    let n = context.ring_dim();
    let moduli = &context.parameters().moduli_q[..limbs];
    let polynomials = (0..polynomials)
        .map(|_| {
            let mut words = context.arena().words(limbs * n).unwrap();
            words.copy_from_slice(&random.rows(moduli, n).concat());
            words
        })
        .collect();
    let scale = context.scales.factor(context.level(limbs));
    Ciphertext { polynomials, limbs, ring_dim: n, degree: 1, scale, slots: n as u32 / 2 }
}

/// Sixty-four primes just above 2^50 that are 1 mod 2^8, as Q, with one of 60 bits as P: a digit for each limb.
pub(crate) fn many_digits() -> Parameters {
    let is_prime = |q: u64| Modulus::new(q).is_some_and(|m| [2, 3, 5, 7].iter().all(|base| m.pow(*base, q - 1) == 1));
    let moduli_q = (1u64..).map(|k| (1 << 50) + 1 + (k << 8)).filter(|q| is_prime(*q)).take(64).collect();
    let scaling = Scaling::FixedManual;
    Parameters { ring_dim: 128, moduli_q, moduli_p: MODULI_P[..1].to_vec(), dnum: 64, scaling, scale_bits: 50 }
}

/// A ciphertext of the same word in each place of a limb: `of` the modulus.
pub(crate) fn flat(context: &Context, limbs: usize, of: impl Fn(u64) -> u64) -> Ciphertext {
    let mut made = ciphertext(context, &mut Random(0), 2, limbs);
    for words in &mut made.polynomials {
        for (row, q) in words.chunks_exact_mut(context.ring_dim()).zip(&context.parameters().moduli_q) {
            row.fill(of(*q));
        }
    }
    made
}

/// Random words in the shape of a key.
pub(crate) struct RandomKey(Vec<Vec<Vec<u64>>>, usize);

impl RandomKey {
    pub fn new(context: &Context, random: &mut Random) -> Self {
        let p = context.parameters();
        let moduli: Vec<u64> = p.moduli_q.iter().chain(&p.moduli_p).copied().collect();
        Self((0..2 * p.dnum).map(|_| random.rows(&moduli, p.ring_dim)).collect(), p.dnum)
    }

    /// The same word in each place of a limb: `of` the modulus.
    pub fn flat(context: &Context, of: impl Fn(u64) -> u64) -> Self {
        let p = context.parameters();
        let rows: Vec<_> = p.moduli_q.iter().chain(&p.moduli_p).map(|q| vec![of(*q); p.ring_dim]).collect();
        Self(vec![rows; 2 * p.dnum], p.dnum)
    }
}

impl KeyView for RandomKey {
    fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]> {
        let part = if part == Part::A { 0 } else { self.1 };
        self.0.get(part + digit)?.get(limb).map(Vec::as_slice)
    }
}

/// The portable transforms, which have separate tests.
pub(crate) struct Plain(pub Vec<(Kernels, Prime)>);

impl Plain {
    pub fn new(moduli: &[u64], n: usize) -> Self {
        let kernels = Kernels::of(CpuPath::Portable).unwrap();
        Self(moduli.iter().map(|q| (kernels, kernels.prime(*q, n, &Arena::new(0)).unwrap())).collect())
    }

    pub fn coefficients(&self, limb: usize, row: &[u64]) -> Vec<u64> {
        let (kernels, p) = &self.0[limb];
        let mut out = vec![0; row.len()];
        kernels.inverse(p, row, p.modulus.inverse(row.len() as u64), &mut out);
        out
    }

    pub fn evaluations(&self, limb: usize, mut row: Vec<u64>) -> Vec<u64> {
        let (kernels, p) = &self.0[limb];
        kernels.forward(p, &mut row);
        row
    }
}
