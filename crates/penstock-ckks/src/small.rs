//! Ciphertexts of a smaller ring: inner products of encrypted rows with an encrypted vector, and many results packed into
//! one ciphertext of a large ring.
//!
//! A small ciphertext in Y becomes one of the large ring by Y = X^r, r = N/n, and r of them fill it: the sum of X^t times
//! ciphertext t. It is under the small secret in X^r; a key switch takes it to the large pair's ephemeral secret. A product
//! needs no key in its own ring: its third polynomial, under the square of the secret, is switched in the large one.

use penstock_seed::{Seed, expand};
use xxhash_rust::xxh3::xxh3_64;

use crate::buffer::Words;
use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::{Digit, Prime};
use crate::keys::KeyView;

/// Rows of one sum of products: sums of more would not be exact in the working form.
const GROUP: usize = 4;

/// XXH3-64 of words, as little-endian bytes.
pub fn row_checksum(words: &[u64]) -> u64 {
    if cfg!(target_endian = "little") {
        return xxh3_64(bytemuck::cast_slice(words));
    }
    xxh3_64(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
}

/// Encrypted polynomials under one seed: row k has the uniform half (digit k, limb 0) of the seed's expansion.
#[derive(Debug, Clone, Copy)]
pub struct SeededRows<'a> {
    /// The other halves, row by row: evaluations, canonical, at the first limb.
    pub words: &'a [u64],
    /// Of the uniform halves.
    pub seed: Seed,
}

impl Context {
    /// The ciphertext of one seeded polynomial at the first limb.
    ///
    /// # Errors
    /// [`Error::Operand`]: not one polynomial, or such a scale cannot be; [`Error::Word`]: a word that is too large.
    pub fn seeded_polynomial(&self, row: SeededRows<'_>, scale: f64, slots: u32) -> Result<Ciphertext, Error> {
        const OPERATION: &str = "take a seeded polynomial";
        let n = self.ring_dim();
        if row.words.len() != n {
            let what = format!("{} words", row.words.len());
            return Err(Error::Operand { operation: OPERATION, what, rule: "it has as many as the ring dimension" });
        }
        let mut words = vec![0; 2 * n];
        words[..n].copy_from_slice(row.words);
        expand(&row.seed, 0, 0, self.primes[0].modulus.value(), &mut words[n..]);
        let header = crate::CiphertextHeader { polynomials: 2, limbs: 1, degree: 1, scale, slots };
        self.ciphertext_from_rows(&header, &words)
    }

    /// For each block the sum of the products of its row k with ciphertext k of `vector`: three polynomials, one limb.
    ///
    /// # Errors
    /// [`Error::Operand`]: a block that has not as many rows as the vector has ciphertexts, or these are not of one limb
    /// and two polynomials; [`Error::Word`]: a word that is too large.
    pub fn inner_products(&self, blocks: &[SeededRows<'_>], vector: &[&Ciphertext]) -> Result<Vec<Ciphertext>, Error> {
        const OPERATION: &str = "inner products";
        let n = self.ring_dim();
        for each in vector {
            self.check_relinearized(OPERATION, each)?;
        }
        let wrong = |what: String, rule| Err(Error::Operand { operation: OPERATION, what, rule });
        let Some(first) = vector.first().filter(|first| first.limbs == 1) else {
            return wrong(format!("a vector of {}", vector.len()), "it has at least one ciphertext, of one limb");
        };
        if vector.iter().any(|each| each.limbs != 1 || each.scale != first.scale) {
            return wrong("ciphertexts of several limbs or scales".to_owned(), "each has one limb and the same scale");
        }
        if let Some(block) = blocks.iter().find(|block| block.words.len() != vector.len() * n) {
            let what = format!("a block of {} words", block.words.len());
            return wrong(what, "it has a row for each ciphertext of the vector");
        }
        let slots: Vec<std::sync::Mutex<Option<Ciphertext>>> =
            blocks.iter().map(|_| std::sync::Mutex::new(None)).collect();
        self.workers.each(blocks.iter().zip(&slots).collect(), |(block, slot)| {
            let polynomials = self.inner_product(block, vector)?;
            let made = Ciphertext { polynomials, degree: 2, ..first.described() };
            *slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(made);
            Ok(())
        })?;
        let found =
            slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner));
        Ok(found.collect())
    }

    fn inner_product(&self, block: &SeededRows<'_>, vector: &[&Ciphertext]) -> Result<Vec<Words>, Error> {
        let (n, p) = (self.ring_dim(), &self.primes[0]);
        let q = p.modulus.value();
        if let Some(index) = block.words.iter().position(|word| *word >= q) {
            return Err(Error::Word { limb: 0, index, word: block.words[index], modulus: q });
        }
        let mut sums: Vec<Words> = (0..3).map(|_| self.arena.words(n)).collect::<Result<_, _>>()?;
        for sum in &mut sums {
            sum.fill(0);
        }
        let mut uniform = self.arena.words(GROUP * n)?;
        let mut part = self.arena.words(n)?;
        for (group, rows) in block.words.chunks(GROUP * n).enumerate() {
            let count = rows.len() / n;
            for (k, row) in uniform.chunks_exact_mut(n).take(count).enumerate() {
                expand(&block.seed, (group * GROUP + k) as u32, 0, q, row);
            }
            let b: Vec<Digit<'_>> = rows.chunks_exact(n).map(canonical).collect();
            let a: Vec<Digit<'_>> = uniform.chunks_exact(n).take(count).map(canonical).collect();
            let of = |polynomial: usize| -> Vec<&[u64]> {
                (0..count).map(|k| vector[group * GROUP + k].row(polynomial, 0)).collect()
            };
            let (vector_b, vector_a) = (of(0), of(1));
            for (at, digits, rows) in [(0, &b, &vector_b), (1, &b, &vector_a), (1, &a, &vector_b), (2, &a, &vector_a)] {
                self.kernels.sum_of_products(p, digits, rows, &mut part);
                self.kernels.add(p, &mut sums[at], &part);
            }
        }
        Ok(sums)
    }

    /// Ciphertexts of one limb of the smaller ring of `small`, side by side: coefficient i of ciphertext t is coefficient
    /// i r + t of the result. Where there are fewer than r of them, the rest is zero. It is under the small secret in X^r.
    ///
    /// # Errors
    /// [`Error::Operand`]: no ciphertexts, more than fit, or not alike; [`Error::Parameters`]: the rings do not have the
    /// same first modulus.
    pub fn pack_small(&self, small: &Context, parts: &[&Ciphertext]) -> Result<Ciphertext, Error> {
        const OPERATION: &str = "pack small ciphertexts";
        let (n, own) = (small.ring_dim(), self.ring_dim());
        let (from, to) = (&small.primes[0], &self.primes[0]);
        if n >= own || from.modulus.value() != to.modulus.value() {
            let what =
                format!("rings of N = {n} and {own}, first moduli {} and {}", from.modulus.value(), to.modulus.value());
            return Err(Error::Parameters {
                what,
                rule: "the first ring is smaller, and the first modulus is the same",
            });
        }
        let ratio = own / n;
        for each in parts {
            small.check(OPERATION, each)?;
        }
        let alike = |a: &Ciphertext, b: &Ciphertext| {
            (a.polynomials.len(), a.limbs, a.scale) == (b.polynomials.len(), 1, b.scale)
        };
        let Some(first) =
            parts.first().filter(|first| parts.len() <= ratio && parts.iter().all(|each| alike(each, first)))
        else {
            let what = format!("{} ciphertexts", parts.len());
            let rule = "at least one and at most N/n, of one limb, with as many polynomials and the same scale";
            return Err(Error::Operand { operation: OPERATION, what, rule });
        };
        let scale = from.modulus.inverse(from.modulus.reduce(n as u64));
        let mut polynomials = Vec::with_capacity(first.polynomials.len());
        for _ in 0..first.polynomials.len() {
            polynomials.push(self.arena.words(own)?);
        }
        self.workers.each(polynomials.iter_mut().enumerate().collect(), |(polynomial, row)| {
            row.fill(0);
            let mut coefficients = self.arena.words(n)?;
            for (t, part) in parts.iter().enumerate() {
                self.kernels.inverse(from, part.row(polynomial, 0), scale, &mut coefficients);
                for (word, value) in row[t..].iter_mut().step_by(ratio).zip(coefficients.iter()) {
                    *word = *value;
                }
            }
            self.kernels.to_working(to, row);
            self.kernels.forward(to, row);
            self.kernels.to_canonical(to, row);
            Ok(())
        })?;
        // Its coefficients are read as values of their own: it is no product any more.
        let header = Ciphertext { ring_dim: own, slots: (own / 2) as u32, degree: 1, ..first.described() };
        Ok(Ciphertext { polynomials, ..header })
    }

    /// Switches packed small ciphertexts to the ephemeral secret: two polynomials. `key` is the one from the small secret,
    /// `squared` the one from its square, for three polynomials.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context, of several limbs, or three polynomials without `squared`;
    /// [`Error::KeyRow`]: a row of a key is missing; those of [`Context::to_sparse_moduli`].
    pub fn switch_small(
        &self,
        a: &Ciphertext,
        key: &dyn KeyView,
        squared: Option<&dyn KeyView>,
    ) -> Result<Ciphertext, Error> {
        const OPERATION: &str = "switch from a smaller ring";
        self.check(OPERATION, a)?;
        let third = (a.polynomials.len() > 2).then_some(squared);
        if a.limbs != 1 || matches!(third, Some(None)) {
            let what = format!("a ciphertext of {} limbs and {} polynomials", a.limbs, a.polynomials.len());
            let rule = "it has one limb; a third polynomial needs the key from the square";
            return Err(Error::Operand { operation: OPERATION, what, rule });
        }
        let mut polynomials = self.to_ephemeral(a.row(1, 0), Some(a.row(0, 0)), key)?;
        if let Some(Some(squared)) = third {
            let more = self.to_ephemeral(a.row(2, 0), None, squared)?;
            for (sum, more) in polynomials.iter_mut().zip(&more) {
                self.kernels.add(first_prime(self), sum, more);
            }
        }
        Ok(Ciphertext { polynomials, ..a.described() })
    }
}

fn canonical(row: &[u64]) -> Digit<'_> {
    Digit { row, canonical: true }
}

fn first_prime(context: &Context) -> &Prime {
    &context.primes[0]
}
