//! The negacyclic transform with vectors, written once for every [`Lanes`] and [`Arithmetic`].
//!
//! Order: input coefficients in their natural order; output word rev(j) is the value at root^(2j+1). Radix-4 passes
//! (two stages each) down to squares of LANES * LANES words; a square does its first stages by columns, is transposed,
//! and does the last ones by rows. Passes over more than [`CACHED`] words run over the whole row, the rest block by
//! block, so that a block stays in the first cache.
//!
//! Ranges of [`Double`](super::arithmetic::Double): every second pass of a forward transform settles, and so does a square
//! first; residues reach 3.6 q. An inverse pass settles its sums, and reaches 3.4 q.

use super::arithmetic::Arithmetic;
use super::lanes::Lanes;
use super::prime::{LastStages, Table};

const CACHED: usize = 4096;

/// The factors of one transform, as chunks.
#[derive(Clone, Copy)]
struct Factors<'a, L: Lanes, A: Arithmetic<L>> {
    arithmetic: A,
    table: &'a Table,
    rows: (&'a [L::Chunk], &'a [L::Chunk]),
}

impl<'a, L: Lanes, A: Arithmetic<L>> Factors<'a, L, A> {
    #[inline(always)]
    fn new(arithmetic: A, table: &'a Table, last: &'a LastStages) -> Self {
        let rows = (bytemuck::cast_slice(&last.factors), bytemuck::cast_slice(&last.quotients));
        Self { arithmetic, table, rows }
    }

    /// One factor in every lane.
    #[inline(always)]
    fn one(&self, index: usize) -> A::Factor {
        self.arithmetic.splat((self.table.factors[index], self.table.quotients[index]))
    }

    /// Factors of the node `node` of the tree: its own, and those of its two children.
    #[inline(always)]
    fn three(&self, node: usize) -> [A::Factor; 3] {
        [self.one(node), self.one(2 * node), self.one(2 * node + 1)]
    }

    #[inline(always)]
    fn seven(&self, node: usize) -> [A::Factor; 7] {
        let [a, b, c] = self.three(node);
        [a, b, c, self.one(4 * node), self.one(4 * node + 1), self.one(4 * node + 2), self.one(4 * node + 3)]
    }

    /// Factors of the rows of square `square`, one a lane.
    #[inline(always)]
    fn row(&self, square: usize, k: usize) -> A::Factor {
        let at = square * (L::LANES - 1) + k;
        self.arithmetic.load(&self.rows.0[at], &self.rows.1[at])
    }
}

/// In place: from the arithmetic's residues to its residues, settled. `last` is of a transform of the row's length.
#[inline(always)]
pub(super) fn forward<L: Lanes, A: Arithmetic<L>>(lanes: L, a: A, row: &mut [u64], table: &Table, last: &LastStages) {
    let n = row.len();
    let factors = Factors::<L, A>::new(a, table, last);
    let data: &mut [L::Chunk] = bytemuck::cast_slice_mut(row);
    let square = L::LANES * L::LANES;
    let (mut blocks, mut size, mut pass) = (1, n, 0);
    if (n / square).trailing_zeros() % 2 == 1 {
        let w = factors.one(1);
        let (low, high) = data.split_at_mut(data.len() / 2);
        for (x, y) in low.iter_mut().zip(high) {
            let (u, v) = a.forward(lanes.load(x), lanes.load(y), w);
            lanes.store(x, u);
            lanes.store(y, v);
        }
        (blocks, size) = (2, n / 2);
    }
    while size > CACHED.max(square) {
        for (k, block) in data.chunks_exact_mut(size / L::LANES).enumerate() {
            forward_pass(lanes, a, block, factors.three(blocks + k), pass % 2 == 1);
        }
        (blocks, size, pass) = (4 * blocks, size / 4, pass + 1);
    }
    for (b, part) in data.chunks_exact_mut(size / L::LANES).enumerate() {
        let (mut blocks, mut size, mut pass, mut first) = (blocks, size, pass, b);
        while size > square {
            for (k, block) in part.chunks_exact_mut(size / L::LANES).enumerate() {
                forward_pass(lanes, a, block, factors.three(blocks + first + k), pass % 2 == 1);
            }
            (blocks, size, pass, first) = (4 * blocks, size / 4, pass + 1, 4 * first);
        }
        for (k, chunk) in part.chunks_exact_mut(L::LANES).enumerate() {
            forward_square(lanes, a, chunk, &factors, blocks, first + k);
        }
    }
}

/// Two stages.
#[inline(always)]
fn forward_pass<L: Lanes, A: Arithmetic<L>>(lanes: L, a: A, block: &mut [L::Chunk], w: [A::Factor; 3], settle: bool) {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let (b0, b1) = low.split_at_mut(low.len() / 2);
    let (b2, b3) = high.split_at_mut(high.len() / 2);
    for (((p0, p1), p2), p3) in b0.iter_mut().zip(b1).zip(b2).zip(b3) {
        let (mut x0, mut x1) = (lanes.load(p0), lanes.load(p1));
        if settle {
            (x0, x1) = (a.settle(x0), a.settle(x1));
        }
        let (x0, x2) = a.forward(x0, lanes.load(p2), w[0]);
        let (x1, x3) = a.forward(x1, lanes.load(p3), w[0]);
        let (x0, x1) = a.forward(x0, x1, w[1]);
        let (x2, x3) = a.forward(x2, x3, w[2]);
        lanes.store(p0, x0);
        lanes.store(p1, x1);
        lanes.store(p2, x2);
        lanes.store(p3, x3);
    }
}

#[inline(always)]
fn forward_square<L: Lanes, A: Arithmetic<L>>(
    lanes: L,
    a: A,
    chunk: &mut [L::Chunk],
    factors: &Factors<'_, L, A>,
    blocks: usize,
    square: usize,
) {
    let mut x = load_square(lanes, chunk);
    for v in &mut x[..L::LANES / 2] {
        *v = a.settle(*v);
    }
    if L::LANES == 8 {
        forward_8(a, &mut x, factors.seven(blocks + square));
        lanes.transpose(&mut x);
        for v in &mut x[..4] {
            *v = a.settle(*v);
        }
        forward_8(a, &mut x, row_seven(factors, square));
    } else {
        forward_4(a, &mut x, factors.three(blocks + square));
        lanes.transpose(&mut x);
        forward_4(a, &mut x, row_three(factors, square));
    }
    for v in &mut x[..L::LANES] {
        *v = a.finish(*v);
    }
    lanes.transpose(&mut x);
    store_square(lanes, chunk, &x);
}

#[inline(always)]
fn row_three<L: Lanes, A: Arithmetic<L>>(f: &Factors<'_, L, A>, square: usize) -> [A::Factor; 3] {
    [f.row(square, 0), f.row(square, 1), f.row(square, 2)]
}

#[inline(always)]
fn row_seven<L: Lanes, A: Arithmetic<L>>(f: &Factors<'_, L, A>, square: usize) -> [A::Factor; 7] {
    let [a, b, c] = row_three(f, square);
    [a, b, c, f.row(square, 3), f.row(square, 4), f.row(square, 5), f.row(square, 6)]
}

#[inline(always)]
fn load_square<L: Lanes>(lanes: L, chunk: &[L::Chunk]) -> [L::Int; 8] {
    let mut x = [lanes.splat(0); 8];
    for (v, words) in x.iter_mut().zip(chunk) {
        *v = lanes.load(words);
    }
    x
}

#[inline(always)]
fn store_square<L: Lanes>(lanes: L, chunk: &mut [L::Chunk], x: &[L::Int; 8]) {
    for (v, words) in x.iter().zip(chunk) {
        lanes.store(words, *v);
    }
}

#[inline(always)]
fn forward_4<L: Lanes, A: Arithmetic<L>>(a: A, x: &mut [L::Int; 8], w: [A::Factor; 3]) {
    for k in 0..2 {
        (x[k], x[k + 2]) = a.forward(x[k], x[k + 2], w[0]);
    }
    for h in 0..2 {
        (x[2 * h], x[2 * h + 1]) = a.forward(x[2 * h], x[2 * h + 1], w[1 + h]);
    }
}

#[inline(always)]
fn forward_8<L: Lanes, A: Arithmetic<L>>(a: A, x: &mut [L::Int; 8], w: [A::Factor; 7]) {
    for k in 0..4 {
        (x[k], x[k + 4]) = a.forward(x[k], x[k + 4], w[0]);
    }
    for h in 0..2 {
        for k in 4 * h..4 * h + 2 {
            (x[k], x[k + 2]) = a.forward(x[k], x[k + 2], w[1 + h]);
        }
    }
    for h in 0..4 {
        (x[2 * h], x[2 * h + 1]) = a.forward(x[2 * h], x[2 * h + 1], w[3 + h]);
    }
}

/// From canonical evaluations to canonical coefficients times `scale`, which holds 1/N.
#[inline(always)]
pub(super) fn inverse<L: Lanes, A: Arithmetic<L>>(
    lanes: L,
    a: A,
    source: &[u64],
    row: &mut [u64],
    table: &Table,
    scale: (u64, u64),
) {
    let n = row.len();
    let factors = Factors::<L, A>::new(a, table, &table.last);
    let scale = a.splat(scale);
    let source: &[L::Chunk] = bytemuck::cast_slice(source);
    let data: &mut [L::Chunk] = bytemuck::cast_slice_mut(row);
    let square = L::LANES * L::LANES;
    let odd = (n / square).trailing_zeros() % 2 == 1;
    let whole = if odd { n / 2 } else { n };
    let mut cached = whole;
    while cached > CACHED.max(square) {
        cached /= 4;
    }
    let squares = n / square;
    let parts = source.chunks_exact(cached / L::LANES).zip(data.chunks_exact_mut(cached / L::LANES));
    for (b, (from, part)) in parts.enumerate() {
        let first = b * (cached / square);
        for (k, (from, chunk)) in from.chunks_exact(L::LANES).zip(part.chunks_exact_mut(L::LANES)).enumerate() {
            inverse_square(lanes, a, from, chunk, &factors, squares, first + k);
        }
        let mut size = 4 * square;
        while size <= cached {
            let last = size == n;
            let first = b * (cached / size);
            for (k, block) in part.chunks_exact_mut(size / L::LANES).enumerate() {
                inverse_pass(lanes, a, block, factors.three(n / size + first + k), last.then_some(scale));
            }
            size *= 4;
        }
    }
    let mut size = 4 * cached;
    while size <= whole {
        let last = size == n;
        for (k, block) in data.chunks_exact_mut(size / L::LANES).enumerate() {
            inverse_pass(lanes, a, block, factors.three(n / size + k), last.then_some(scale));
        }
        size *= 4;
    }
    if odd {
        let w = factors.one(1);
        let (low, high) = data.split_at_mut(data.len() / 2);
        for (x, y) in low.iter_mut().zip(high) {
            let (u, v) = a.inverse(lanes.load(x), lanes.load(y), w);
            lanes.store(x, a.canonical(a.mul(u, scale)));
            lanes.store(y, a.canonical(a.mul(v, scale)));
        }
    } else if n == square {
        for words in data {
            let x = a.mul(lanes.load(words), scale);
            lanes.store(words, a.canonical(x));
        }
    }
}

#[inline(always)]
fn inverse_pass<L: Lanes, A: Arithmetic<L>>(
    lanes: L,
    a: A,
    block: &mut [L::Chunk],
    w: [A::Factor; 3],
    scale: Option<A::Factor>,
) {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let (b0, b1) = low.split_at_mut(low.len() / 2);
    let (b2, b3) = high.split_at_mut(high.len() / 2);
    for (((p0, p1), p2), p3) in b0.iter_mut().zip(b1).zip(b2).zip(b3) {
        let (x0, x1) = a.inverse(lanes.load(p0), lanes.load(p1), w[1]);
        let (x2, x3) = a.inverse(lanes.load(p2), lanes.load(p3), w[2]);
        let (x0, x2) = a.inverse(x0, x2, w[0]);
        let (x1, x3) = a.inverse(x1, x3, w[0]);
        let (x0, x1, x2, x3) = match scale {
            Some(scale) => (
                a.canonical(a.mul(x0, scale)),
                a.canonical(a.mul(x1, scale)),
                a.canonical(a.mul(x2, scale)),
                a.canonical(a.mul(x3, scale)),
            ),
            None => (a.settle(x0), a.settle(x1), x2, x3),
        };
        lanes.store(p0, x0);
        lanes.store(p1, x1);
        lanes.store(p2, x2);
        lanes.store(p3, x3);
    }
}

#[inline(always)]
fn inverse_square<L: Lanes, A: Arithmetic<L>>(
    lanes: L,
    a: A,
    from: &[L::Chunk],
    chunk: &mut [L::Chunk],
    factors: &Factors<'_, L, A>,
    blocks: usize,
    square: usize,
) {
    let mut x = load_square(lanes, from);
    for v in &mut x[..L::LANES] {
        *v = a.import(*v);
    }
    lanes.transpose(&mut x);
    if L::LANES == 8 {
        inverse_8(a, &mut x, row_seven(factors, square));
        lanes.transpose(&mut x);
        inverse_8(a, &mut x, factors.seven(blocks + square));
    } else {
        inverse_4(a, &mut x, row_three(factors, square));
        lanes.transpose(&mut x);
        inverse_4(a, &mut x, factors.three(blocks + square));
    }
    store_square(lanes, chunk, &x);
}

#[inline(always)]
fn inverse_4<L: Lanes, A: Arithmetic<L>>(a: A, x: &mut [L::Int; 8], w: [A::Factor; 3]) {
    for h in 0..2 {
        (x[2 * h], x[2 * h + 1]) = a.inverse(x[2 * h], x[2 * h + 1], w[1 + h]);
    }
    for k in 0..2 {
        (x[k], x[k + 2]) = a.inverse(x[k], x[k + 2], w[0]);
        x[k] = a.settle(x[k]);
    }
}

#[inline(always)]
fn inverse_8<L: Lanes, A: Arithmetic<L>>(a: A, x: &mut [L::Int; 8], w: [A::Factor; 7]) {
    for h in 0..4 {
        (x[2 * h], x[2 * h + 1]) = a.inverse(x[2 * h], x[2 * h + 1], w[3 + h]);
    }
    for h in 0..2 {
        for k in 4 * h..4 * h + 2 {
            (x[k], x[k + 2]) = a.inverse(x[k], x[k + 2], w[1 + h]);
        }
    }
    // Sums of four; the other lanes are at most 1.7.
    (x[0], x[4]) = (a.settle(x[0]), a.settle(x[4]));
    for k in 0..4 {
        (x[k], x[k + 4]) = a.inverse(x[k], x[k + 4], w[0]);
        x[k] = a.settle(x[k]);
    }
}
