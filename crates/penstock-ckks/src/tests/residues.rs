//! Integers of many words, for twins: little-endian u64, no cleverness.

/// A non-negative integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Big(Vec<u64>);

impl Big {
    pub fn product(of: impl IntoIterator<Item = u64>) -> Self {
        of.into_iter().fold(Self(vec![1]), |product, factor| product.times(factor))
    }

    pub fn times(&self, factor: u64) -> Self {
        let mut carry = 0u128;
        let mut words: Vec<u64> = Vec::new();
        for word in &self.0 {
            carry += u128::from(*word) * u128::from(factor);
            words.push(carry as u64);
            carry >>= 64;
        }
        words.push(carry as u64);
        Self(words)
    }

    pub fn plus(&self, other: &Self) -> Self {
        let mut carry = 0u128;
        let mut words = Vec::new();
        for k in 0..self.0.len().max(other.0.len()) {
            let word = |of: &Self| u128::from(of.0.get(k).copied().unwrap_or(0));
            carry += word(self) + word(other);
            words.push(carry as u64);
            carry >>= 64;
        }
        words.push(carry as u64);
        Self(words)
    }

    pub fn modulo(&self, q: u64) -> u64 {
        self.0.iter().rev().fold(0, |rest, word| ((u128::from(rest) << 64 | u128::from(*word)) % u128::from(q)) as u64)
    }
}

/// `sum of (x_k * (D/q_k)^-1 mod q_k) * D/q_k`: the integer, not reduced by D, that an approximate base conversion
/// takes residues of; it is x plus a small multiple of D.
pub(crate) fn approximate_crt(residues: &[u64], moduli: &[u64]) -> Big {
    let parts = residues.iter().zip(moduli).enumerate().map(|(k, (x, q))| {
        let others = Big::product(moduli.iter().enumerate().filter(|(j, _)| *j != k).map(|(_, q)| *q));
        let y = u128::from(*x) * u128::from(inverse(others.modulo(*q), *q)) % u128::from(*q);
        others.times(y as u64)
    });
    parts.fold(Big(vec![0]), |sum, part| sum.plus(&part))
}

pub(crate) fn inverse(a: u64, q: u64) -> u64 {
    // Extended Euclid.
    let (mut old, mut new) = ((i128::from(q), 0i128), (i128::from(a), 1i128));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old.1.rem_euclid(i128::from(q)) as u64
}

#[test]
fn the_integers_of_the_twins_are_right() {
    let moduli = [97, 101, 103];
    let x = 654_321u64;
    let residues = moduli.map(|q| x % q);
    let sum = approximate_crt(&residues, &moduli);
    let d = 97 * 101 * 103;
    assert_eq!(sum.modulo(d), x % d);
    assert_eq!(inverse(3, 97) * 3 % 97, 1);
}
