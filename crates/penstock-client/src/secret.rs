//! The secret key: ternary coefficients, and its evaluations at every limb of Q and P. An encapsulated pair has a second,
//! ephemeral one.

use std::sync::Arc;

use penstock_ckks::OfProcess;
use penstock_ckks::kernels::Prime;
use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::kept::Kept;
use crate::protected::{Protected, release_spare};
use crate::random::{self, Stream};
use crate::ring::Ring;
use crate::sample::{EPHEMERAL_WEIGHT, SPARSE_WEIGHT, sparse_ternary, ternary};

/// A secret key. It is wiped when it is dropped, and has no `Debug`.
pub struct SecretKey {
    words: OfProcess<Words>,
    /// For a child of a fork, whose memory has no word of the secret until it uses the key.
    kept: Option<Kept>,
    tag: String,
}

struct Words {
    coefficients: Protected<i8>,
    /// Evaluations, limb by limb: Q's, then P's.
    rows: Protected<u64>,
    /// The ephemeral secret of an encapsulated pair: nothing is encrypted with it but two keys.
    ephemeral: Option<Protected<i8>>,
}

impl Words {
    fn of(ring: &Ring, coefficients: Protected<i8>, ephemeral: Option<Protected<i8>>) -> Result<Self> {
        let n = ring.ring_dim();
        let words = widened(&coefficients);
        release_spare();
        let mut rows = Protected::<u64>::new(n * ring.primes().len());
        ring.context().each(rows.chunks_exact_mut(n).enumerate().collect(), |(limb, row)| {
            ring.evaluated(limb, &words, row);
            Ok(())
        })?;
        Ok(Self { coefficients, rows, ephemeral })
    }

    /// The same, of the parent's memory.
    fn taken(ring: &Ring, kept: Option<&Kept>) -> Result<Self> {
        let n = ring.ring_dim();
        let parts = if ring.secret().is_encapsulated() { 2 } else { 1 };
        let all = kept.and_then(|kept| kept.read(parts * n)).ok_or(Error::Forked)?;
        let part = |at: usize| {
            let mut found = Protected::<i8>::new(n);
            found.copy_from_slice(&all[at * n..(at + 1) * n]);
            found
        };
        Self::of(ring, part(0), (parts == 2).then(|| part(1)))
    }
}

impl SecretKey {
    /// A new key of the ring's distribution, with a random tag.
    ///
    /// # Errors
    /// [`Error::Random`]: the system has no random bytes. [`Error::Value`]: too small a ring for a sparse secret.
    pub fn generate(ring: &Ring) -> Result<Self> {
        let mut coefficients = Protected::new(ring.ring_dim());
        let mut stream = Stream::new()?;
        if ring.secret().is_sparse() {
            sparse_ternary(&mut stream, SPARSE_WEIGHT.min(ring.ring_dim()), &mut coefficients)?;
        } else {
            ternary(&mut stream, &mut coefficients);
        }
        let mut name = [0; 16];
        random::fill(&mut name)?;
        let tag = name.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::of(ring, coefficients, Self::new_ephemeral(ring)?, tag)
    }

    /// A new ephemeral secret, of a separate random stream; `None`: the ring's pairs have none.
    ///
    /// # Errors
    /// As [`SecretKey::generate`].
    pub fn new_ephemeral(ring: &Ring) -> Result<Option<Protected<i8>>> {
        if !ring.secret().is_encapsulated() {
            return Ok(None);
        }
        let mut coefficients = Protected::new(ring.ring_dim());
        sparse_ternary(&mut Stream::new()?, EPHEMERAL_WEIGHT, &mut coefficients)?;
        Ok(Some(coefficients))
    }

    /// The key of these coefficients.
    ///
    /// # Errors
    /// [`Error::Value`]: another number of coefficients, or one that is not -1, 0 or 1; an ephemeral secret that is not
    /// as the ring's are.
    pub fn of(ring: &Ring, coefficients: Protected<i8>, ephemeral: Option<Protected<i8>>, tag: String) -> Result<Self> {
        penstock_ckks::openfhe_bytes::check_tag(&tag)?;
        if coefficients.len() != ring.ring_dim() || coefficients.iter().any(|value| !(-1..=1).contains(value)) {
            let what = format!("a secret key of {} coefficients", coefficients.len());
            return Err(Error::value(what, format!("{} of them, each -1, 0 or 1", ring.ring_dim())));
        }
        let n = ring.ring_dim();
        let fits = |secret: &Protected<i8>| {
            let weight: usize = secret.iter().map(|value| usize::from(value.unsigned_abs())).sum();
            secret.len() == n && secret.iter().all(|value| (-1..=1).contains(value)) && weight == EPHEMERAL_WEIGHT
        };
        if ephemeral.is_some() != ring.secret().is_encapsulated() || ephemeral.as_ref().is_some_and(|it| !fits(it)) {
            let rule =
                format!("pairs of encapsulated secrets have one with {EPHEMERAL_WEIGHT} of -1 or 1, others none");
            return Err(Error::value("an ephemeral secret", rule));
        }
        let kept = Kept::new([&coefficients, ephemeral.as_deref().unwrap_or_default()]);
        Ok(Self { words: OfProcess::new(Words::of(ring, coefficients, ephemeral)?), kept, tag })
    }

    /// Its name, which every ciphertext and key of the pair carries: 32 hexadecimal digits.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Its words. A child of a fork takes them from its parent when it first uses the key.
    ///
    /// # Errors
    /// [`Error::Forked`]: the parent has dropped it, or the system keeps no memory for children.
    pub fn here(&self, ring: &Ring) -> Result<Here<'_>> {
        Ok(Here { words: self.words.get_or_make(|| Words::taken(ring, self.kept.as_ref()))?, tag: &self.tag })
    }

    /// Its words, where they are: [`Error::Forked`] in a child that has not used it yet.
    pub(crate) fn there(&self) -> Result<Here<'_>> {
        Ok(Here { words: self.words.get().ok_or(Error::Forked)?, tag: &self.tag })
    }

    /// Whether the system keeps it out of the swap.
    pub fn is_locked(&self) -> bool {
        self.words.get().is_some_and(|words| {
            let ephemeral = words.ephemeral.as_ref().is_none_or(Protected::is_locked);
            words.coefficients.is_locked() && words.rows.is_locked() && ephemeral
        })
    }
}

/// The words of a secret key, in this process.
pub struct Here<'a> {
    words: Arc<Words>,
    tag: &'a str,
}

impl Here<'_> {
    /// As [`SecretKey::tag`].
    pub fn tag(&self) -> &str {
        self.tag
    }

    /// -1, 0 or 1 each.
    pub fn coefficients(&self) -> &[i8] {
        &self.words.coefficients
    }

    /// -1, 0 or 1 each; `None`: the pair has no ephemeral secret.
    pub fn ephemeral(&self) -> Option<&[i8]> {
        self.words.ephemeral.as_deref()
    }

    /// The ephemeral secret's evaluations modulo a prime; empty where the pair has none.
    pub(crate) fn ephemeral_row(&self, ring: &Ring, p: &Prime) -> Protected<u64> {
        let ephemeral = self.words.ephemeral.as_ref();
        let mut row = Protected::<u64>::new(ephemeral.map_or(0, |ephemeral| ephemeral.len()));
        if let Some(ephemeral) = ephemeral {
            ring.evaluated_by(p, &widened(ephemeral), &mut row);
        }
        row
    }

    /// Its evaluations at a limb of the chain.
    pub(crate) fn row(&self, limb: usize) -> &[u64] {
        let n = self.words.coefficients.len();
        &self.words.rows[limb * n..(limb + 1) * n]
    }
}

/// Coefficients as signed words.
fn widened(coefficients: &Protected<i8>) -> Protected<u64> {
    let mut words = Protected::<u64>::new(coefficients.len());
    for (word, value) in words.iter_mut().zip(coefficients.iter()) {
        *word = i64::from(*value) as u64;
    }
    words
}

/// The ternary values of canonical coefficients at one modulus.
///
/// # Errors
/// [`Error::Value`]: a coefficient is not -1, 0 or 1.
pub(crate) fn ternary_of(canonical: &mut [u64], modulus: u64) -> Result<Protected<i8>> {
    let mut values = Protected::<i8>::new(canonical.len());
    let mut wrong = 0u64;
    for (value, word) in values.iter_mut().zip(canonical.iter()) {
        let (one, minus) = (u64::from(*word == 1), u64::from(*word == modulus - 1));
        wrong |= 1 - (u64::from(*word == 0) | one | minus);
        *value = one as i8 - minus as i8;
    }
    canonical.zeroize();
    if wrong != 0 {
        return Err(Error::value("a secret key", "each of its coefficients is -1, 0 or 1"));
    }
    Ok(values)
}
