//! One prime of the chain with the tables of its transforms, laid out for the kernels that will read them.

use std::sync::{Arc, OnceLock};

use super::arithmetic::DOUBLE_LIMIT;
use crate::buffer::{Arena, Words};
use crate::error::Error;
use crate::modulus::Modulus;

/// A prime, its root and the tables of its transforms.
#[derive(Debug)]
pub struct Prime {
    /// The prime.
    pub modulus: Modulus,
    /// The minimal primitive root of order 2N.
    pub root: u64,
    /// Whether its working form is doubles: it is small enough, and the kernels have a fused multiply-add.
    pub(super) double: bool,
    pub(super) forward: Table,
    pub(super) backward: Table,
    /// Of forward transforms of polynomials in X^2, X^4, …: as much of the last stages, made when it is asked for.
    sparse: [OnceLock<LastStages>; usize::BITS as usize],
    lanes: usize,
}

/// Powers of a root, in bit-reversed order.
#[derive(Debug)]
pub(super) struct Table {
    pub factors: Words,
    pub quotients: Words,
    pub last: LastStages,
}

/// The same powers as the last stages of a transform read them: row by row of its squares.
#[derive(Debug)]
pub(super) struct LastStages {
    pub factors: Words,
    pub quotients: Words,
}

impl Prime {
    /// Tables for rows of `ring_dim` words, for kernels of `lanes` lanes (1: portable).
    ///
    /// # Errors
    /// [`Error::Parameters`]: not an odd prime of at most 60 bits that is 1 mod 2N.
    pub(super) fn new(q: u64, ring_dim: usize, lanes: usize, arena: &Arc<Arena>) -> Result<Self, Error> {
        let rule = "the modulus must be a prime of at most 60 bits, 1 mod 2N";
        let refused = || Error::Parameters { what: format!("modulus {q} at N = {ring_dim}"), rule };
        let modulus = Modulus::new(q).ok_or_else(refused)?;
        let root = modulus.minimal_root(ring_dim).ok_or_else(refused)?;
        let double = lanes > 1 && q < DOUBLE_LIMIT;
        Ok(Self {
            modulus,
            root,
            double,
            forward: Table::new(modulus, root, ring_dim, lanes, double, arena)?,
            backward: Table::new(modulus, modulus.inverse(root), ring_dim, lanes, double, arena)?,
            sparse: [const { OnceLock::new() }; usize::BITS as usize],
            lanes,
        })
    }

    /// The last stages of a forward transform of a polynomial in X^gap (a power of two), of `ring_dim / gap` words.
    pub(super) fn last_stages(&self, gap: usize) -> Result<&LastStages, Error> {
        if gap == 1 {
            return Ok(&self.forward.last);
        }
        let place = &self.sparse[gap.trailing_zeros() as usize];
        if let Some(made) = place.get() {
            return Ok(made);
        }
        // The powers of root^gap in their order are the first of the root's.
        let made = LastStages::new(&self.forward, self.forward.factors.len() / gap, self.lanes)?;
        Ok(place.get_or_init(|| made))
    }

    /// Whether its words are of more than 51 bits.
    pub(crate) fn is_wide(&self) -> bool {
        self.modulus.value() >= DOUBLE_LIMIT
    }
}

impl Table {
    fn new(
        q: Modulus,
        root: u64,
        ring_dim: usize,
        lanes: usize,
        double: bool,
        arena: &Arc<Arena>,
    ) -> Result<Self, Error> {
        let mut powers = vec![0; ring_dim];
        let (mut power, step) = (1, q.shoup(root));
        for k in 0..ring_dim {
            powers[bit_reversed(k, ring_dim)] = power;
            power = q.mul_shoup(power, step);
        }
        let (mut factors, mut quotients) = (arena.words(ring_dim)?, arena.words(ring_dim)?);
        for ((factor, quotient), power) in factors.iter_mut().zip(quotients.iter_mut()).zip(&powers) {
            (*factor, *quotient) = encode(q, double, *power);
        }
        let empty = LastStages { factors: arena.words(0)?, quotients: arena.words(0)? };
        let made = Self { factors, quotients, last: empty };
        Ok(Self { last: LastStages::new(&made, ring_dim, lanes)?, ..made })
    }
}

impl LastStages {
    /// Those of a transform of `length` words.
    fn new(table: &Table, length: usize, lanes: usize) -> Result<Self, Error> {
        let count = length / lanes * (lanes - 1);
        let arena = table.factors.arena();
        let (mut factors, mut quotients) = (arena.words(count)?, arena.words(count)?);
        for ((factor, quotient), index) in factors.iter_mut().zip(quotients.iter_mut()).zip(row_indices(length, lanes))
        {
            (*factor, *quotient) = (table.factors[index], table.quotients[index]);
        }
        Ok(Self { factors, quotients })
    }
}

/// The two words that kernels keep of a factor: a signed double, or the factor and its Shoup quotient.
pub(super) fn encode(q: Modulus, double: bool, factor: u64) -> (u64, u64) {
    if double {
        ((q.centred(factor) as f64).to_bits(), 0)
    } else {
        let shoup = q.shoup(factor);
        (shoup.factor, shoup.quotient)
    }
}

/// Indices of the factors of the last log2(lanes) stages, for each square vector by vector, one a lane.
fn row_indices(ring_dim: usize, lanes: usize) -> impl Iterator<Item = usize> {
    let squares = if lanes > 1 { ring_dim / (lanes * lanes) } else { 0 };
    (0..squares).flat_map(move |square| {
        // Vector k of a square is node k + 1 of a tree of factors whose root is one node a lane.
        (1..lanes).flat_map(move |node| {
            (0..lanes).map(move |lane| {
                let depth = node.ilog2();
                let top = ring_dim / lanes + square * lanes + lane;
                (top << depth) + (node - (1 << depth))
            })
        })
    })
}

/// The bits of `k < ring_dim` (a power of two) in reverse.
pub(crate) fn bit_reversed(k: usize, ring_dim: usize) -> usize {
    if ring_dim <= 1 { k } else { k.reverse_bits() >> (usize::BITS - ring_dim.trailing_zeros()) }
}
