//! Ciphertexts and keys as bare rows of words: what travels between an evaluator and a node that owns keys.

use crate::buffer::Words;
use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::keys::{KeyRows, KeyView};

/// The header of a ciphertext, without its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CiphertextHeader {
    /// 2, or 3 between a product and its relinearization.
    pub polynomials: usize,
    /// RNS limbs.
    pub limbs: usize,
    /// 1 after encryption, 2 after a product that has not been rescaled.
    pub degree: u32,
    /// The factor that values are multiplied by.
    pub scale: f64,
    /// Values that it holds.
    pub slots: u32,
}

impl Context {
    /// A ciphertext of rows, polynomial by polynomial, limb by limb; every word is checked against its modulus.
    ///
    /// # Errors
    /// [`Error::Operand`]: the header does not fit the context or the words; [`Error::Word`]: a word that is too large.
    pub fn ciphertext_from_rows(&self, header: &CiphertextHeader, words: &[u64]) -> Result<Ciphertext, Error> {
        let n = self.ring_dim();
        let refused = |what: String, rule| Err(Error::Operand { operation: "import", what, rule });
        let CiphertextHeader { polynomials, limbs, degree, scale, slots } = *header;
        if !(2..=3).contains(&polynomials) || limbs == 0 || limbs > self.count_q() {
            let what = format!("{polynomials} polynomials of {limbs} limbs");
            return refused(what, "ciphertexts have 2 polynomials, products 3, and no more limbs than the parameters");
        }
        if words.len() != polynomials * limbs * n {
            let what = format!("{} words for {polynomials} polynomials of {limbs} limbs", words.len());
            return refused(what, "a limb has N words");
        }
        self.check_described(degree, scale, slots)?;
        let mut found = Vec::with_capacity(polynomials);
        for part in words.chunks_exact(limbs * n) {
            let moduli = self.parameters().moduli_q[..limbs].iter().copied();
            found.push(self.checked_rows(part, moduli.enumerate())?);
        }
        Ok(Ciphertext { polynomials: found, limbs, ring_dim: n, degree, scale, slots })
    }

    /// Writes the rows of a key that operations at `limbs` limbs read, in the order of [`Context::rows_in_use`], into the
    /// first of `words`, and returns their number.
    ///
    /// # Errors
    /// [`Error::Operand`]: no such number of limbs, or too few words; [`Error::KeyRow`]: a row is missing.
    pub fn write_key_rows(&self, key: &dyn KeyView, limbs: usize, words: &mut [u64]) -> Result<usize, Error> {
        self.check_limbs(limbs)?;
        let count = self.key_words(limbs);
        let Some(words) = words.get_mut(..count) else {
            let what = format!("room for {} words", words.len());
            return Err(Error::Operand { operation: "export", what, rule: "a key has more at so many limbs" });
        };
        for (room, (part, digit, limb)) in words.chunks_exact_mut(self.ring_dim()).zip(self.rows_in_use(limbs)) {
            room.copy_from_slice(key.words(part, digit, limb, self.ring_dim())?);
        }
        Ok(count)
    }

    /// A key of the rows that [`Context::write_key_rows`] writes; every word is checked against its modulus.
    ///
    /// # Errors
    /// [`Error::Operand`]: another number of words; [`Error::Word`]: a word that is too large.
    pub fn key_from_rows(&self, words: &[u64], limbs: usize) -> Result<KeyRows, Error> {
        self.check_limbs(limbs)?;
        if words.len() != self.key_words(limbs) {
            let what = format!("{} words for a key at {limbs} limbs", words.len());
            let rule = "a key switch reads the rows of Q's limbs and of P, of both parts of each digit";
            return Err(Error::Operand { operation: "import", what, rule });
        }
        let moduli = self.rows_in_use(limbs).map(|(_, _, limb)| (limb, self.primes[limb].modulus.value()));
        let words = self.checked_rows(words, moduli)?;
        let p = self.count_q()..self.count_q() + self.count_p();
        Ok(KeyRows { ring_dim: self.ring_dim(), limbs, p, digits: self.active_digits(limbs), words })
    }

    fn check_limbs(&self, limbs: usize) -> Result<(), Error> {
        if (1..=self.count_q()).contains(&limbs) {
            return Ok(());
        }
        let rule = "the parameters have fewer limbs, and an operation needs one";
        Err(Error::Operand { operation: "import", what: format!("a key at {limbs} limbs"), rule })
    }

    /// Words of a key at `limbs` limbs.
    fn key_words(&self, limbs: usize) -> usize {
        2 * self.active_digits(limbs) * (limbs + self.count_p()) * self.ring_dim()
    }

    /// A copy of rows, each below its modulus; `moduli`: (limb, modulus) of each.
    fn checked_rows(&self, words: &[u64], moduli: impl Iterator<Item = (usize, u64)>) -> Result<Words, Error> {
        let n = self.ring_dim();
        let mut copy = self.arena.words(words.len())?;
        let rows = copy.chunks_exact_mut(n).zip(words.chunks_exact(n)).zip(moduli);
        self.workers.each(rows.collect(), |((to, from), (limb, modulus))| {
            to.copy_from_slice(from);
            // The largest first: one pass that the compiler makes wide, and no search where all is well.
            if to.iter().copied().fold(0, u64::max) < modulus {
                return Ok(());
            }
            let index = to.iter().position(|word| *word >= modulus).unwrap_or_default();
            Err(Error::Word { limb, index, word: to[index], modulus })
        })?;
        Ok(copy)
    }
}
