//! One prime of the chain with the tables of its transforms, laid out for the kernels that will read them.

use std::sync::Arc;

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
}

/// Powers of a root, in bit-reversed order, and again as the rows of the last stages read them.
#[derive(Debug)]
pub(super) struct Table {
    pub factors: Words,
    pub quotients: Words,
    pub row_factors: Words,
    pub row_quotients: Words,
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
        })
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
        let table = |indices: &mut dyn Iterator<Item = usize>, count: usize| -> Result<(Words, Words), Error> {
            let (mut factors, mut quotients) = (arena.words(count)?, arena.words(count)?);
            for ((factor, quotient), index) in factors.iter_mut().zip(quotients.iter_mut()).zip(indices) {
                (*factor, *quotient) = encode(q, double, powers[index]);
            }
            Ok((factors, quotients))
        };
        let (factors, quotients) = table(&mut (0..ring_dim), ring_dim)?;
        let count = ring_dim / lanes * (lanes - 1);
        let (row_factors, row_quotients) = table(&mut row_indices(ring_dim, lanes), count)?;
        Ok(Self { factors, quotients, row_factors, row_quotients })
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
