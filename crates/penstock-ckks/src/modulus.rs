//! Scalar arithmetic modulo one prime: tables, constants and the portable kernels are made of it.

/// A prime of at most 60 bits, with the constants of its reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modulus {
    q: u64,
    /// 2^64 mod q, and its Shoup quotient.
    word: Shoup,
    /// floor(2^64 / q).
    barrett: u64,
}

/// A factor and floor(factor * 2^64 / q): multiplying by it takes two products and no division (Shoup).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shoup {
    /// The factor, below the modulus.
    pub factor: u64,
    /// floor(factor * 2^64 / q).
    pub quotient: u64,
}

/// All bits, or none: words may be those of a secret, on which no branch depends.
#[inline]
fn where_negative(x: i64) -> u64 {
    (x >> 63) as u64
}

impl Modulus {
    /// `q` must be odd and of 2 to 60 bits; that it is prime is the caller's word.
    pub fn new(q: u64) -> Option<Self> {
        if q.is_multiple_of(2) || !(3..1 << 60).contains(&q) {
            return None;
        }
        let word = ((1u128 << 64) % u128::from(q)) as u64;
        let barrett = ((1u128 << 64) / u128::from(q)) as u64;
        Some(Self { q, word: Shoup { factor: word, quotient: quotient(word, q) }, barrett })
    }

    /// The prime.
    #[inline]
    pub fn value(self) -> u64 {
        self.q
    }

    /// `x mod q`.
    #[inline]
    pub fn reduce(self, x: u64) -> u64 {
        let estimate = ((u128::from(x) * u128::from(self.barrett)) >> 64) as u64;
        let rest = x.wrapping_sub(estimate.wrapping_mul(self.q));
        self.once(self.once(rest))
    }

    /// `x mod q` for the whole range: the upper word times 2^64 mod q, plus the lower.
    #[inline]
    pub fn reduce_wide(self, x: u128) -> u64 {
        self.add(self.mul_shoup((x >> 64) as u64, self.word), self.reduce(x as u64))
    }

    /// `a * b mod q` of any two words.
    #[inline]
    pub fn mul(self, a: u64, b: u64) -> u64 {
        self.reduce_wide(u128::from(a) * u128::from(b))
    }

    /// `a + b mod q` of canonical words.
    #[inline]
    pub fn add(self, a: u64, b: u64) -> u64 {
        self.once(a + b)
    }

    /// `a - b mod q` of canonical words.
    #[inline]
    pub fn sub(self, a: u64, b: u64) -> u64 {
        self.once(a + self.q - b)
    }

    /// `-a mod q` of a canonical word.
    #[inline]
    pub fn neg(self, a: u64) -> u64 {
        self.once(self.q - a)
    }

    /// `x mod q` of a signed word.
    #[inline]
    pub fn reduce_signed(self, x: i64) -> u64 {
        let rest = self.reduce(x.unsigned_abs());
        rest ^ ((rest ^ self.neg(rest)) & where_negative(x))
    }

    /// `a^e mod q`.
    pub fn pow(self, a: u64, mut e: u64) -> u64 {
        let (mut base, mut power) = (self.reduce(a), 1);
        while e > 0 {
            if e & 1 == 1 {
                power = self.mul(power, base);
            }
            base = self.mul(base, base);
            e >>= 1;
        }
        power
    }

    /// The inverse of a word that q does not divide.
    pub fn inverse(self, a: u64) -> u64 {
        self.pow(a, self.q - 2)
    }

    /// Prepares a factor.
    pub fn shoup(self, factor: u64) -> Shoup {
        let factor = self.reduce(factor);
        Shoup { factor, quotient: quotient(factor, self.q) }
    }

    /// `a * factor mod q`, for any word `a`.
    #[inline]
    pub fn mul_shoup(self, a: u64, by: Shoup) -> u64 {
        self.once(self.mul_shoup_lazy(a, by))
    }

    /// `a * factor mod q` in [0, 2q), for any word `a`.
    #[inline]
    pub fn mul_shoup_lazy(self, a: u64, by: Shoup) -> u64 {
        let estimate = ((u128::from(a) * u128::from(by.quotient)) >> 64) as u64;
        a.wrapping_mul(by.factor).wrapping_sub(estimate.wrapping_mul(self.q))
    }

    /// The signed representative in (-q/2, q/2] of a canonical word.
    #[inline]
    pub fn centred(self, a: u64) -> i64 {
        let is_above = where_negative((self.q / 2).wrapping_sub(a) as i64);
        a.wrapping_sub(self.q & is_above) as i64
    }

    /// `x mod q` of a word below 2q: a minimum, since x - q wraps around where it is below 0.
    #[inline]
    fn once(self, x: u64) -> u64 {
        x.min(x.wrapping_sub(self.q))
    }

    /// The smallest of the primitive roots of unity of order `2 * ring_dim`: the one that OpenFHE's transforms use.
    /// `None` where there is none (q is not 1 mod 2N, or not prime).
    pub fn minimal_root(self, ring_dim: usize) -> Option<u64> {
        let order = 2 * ring_dim as u64;
        if !(self.q - 1).is_multiple_of(order) {
            return None;
        }
        let minus_one = self.q - 1;
        let candidates = (2..200).map(|g| self.pow(g, (self.q - 1) / order));
        let root = candidates.into_iter().find(|r| self.pow(*r, order / 2) == minus_one)?;
        // The others are its odd powers.
        let square = self.shoup(self.mul(root, root));
        let mut power = root;
        let mut least = root;
        for _ in 1..ring_dim {
            power = self.mul_shoup(power, square);
            least = least.min(power);
        }
        Some(least)
    }
}

fn quotient(factor: u64, q: u64) -> u64 {
    ((u128::from(factor) << 64) / u128::from(q)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMES: [u64; 4] = [97, 1125899906842817, 1152921504606844417, 1152921504606844289];

    fn words(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ (state >> 29)
        })
    }

    #[test]
    fn every_reduction_equals_the_division() {
        for q in PRIMES {
            let m = Modulus::new(q).unwrap();
            let edges = [0, 1, q - 1, q, q + 1, u64::MAX, u64::MAX - 1, 1 << 63];
            let some: Vec<u64> = edges.into_iter().chain(words(q).take(200)).collect();
            for &a in &some {
                assert_eq!(m.reduce(a), a % q);
                assert_eq!(m.reduce_signed(a as i64), (i128::from(a as i64)).rem_euclid(i128::from(q)) as u64);
                for &b in &some {
                    let product = u128::from(a) * u128::from(b);
                    assert_eq!(m.mul(a, b), (product % u128::from(q)) as u64);
                    assert_eq!(
                        m.mul_shoup(a, m.shoup(b)),
                        ((u128::from(a) * u128::from(b % q)) % u128::from(q)) as u64
                    );
                    assert_eq!(
                        m.reduce_wide(u128::from(a) << 64 | u128::from(b)),
                        ((u128::from(a) << 64 | u128::from(b)) % u128::from(q)) as u64
                    );
                    assert_eq!(m.sub(a % q, b % q), (a % q + q - b % q) % q);
                }
            }
        }
    }

    #[test]
    fn inverses_and_centred_representatives() {
        for q in PRIMES {
            let m = Modulus::new(q).unwrap();
            for a in words(q).take(50).map(|a| a % q).filter(|a| *a > 0) {
                assert_eq!(m.mul(a, m.inverse(a)), 1);
                assert_eq!(i128::from(m.centred(a)).rem_euclid(i128::from(q)) as u64, a);
                assert!(m.centred(a).unsigned_abs() <= q / 2);
            }
        }
    }

    #[test]
    fn the_root_is_primitive_and_no_smaller_one_is() {
        let (q, ring_dim) = (97, 16); // 97 = 3 * 32 + 1
        let m = Modulus::new(q).unwrap();
        let root = m.minimal_root(ring_dim).unwrap();
        let primitive = |r: u64| m.pow(r, ring_dim as u64) == q - 1;
        assert_eq!(Some(root), (1..q).find(|r| primitive(*r)));
        assert_eq!(m.minimal_root(32), None, "97 is not 1 mod 64");
        assert_eq!(Modulus::new(1 << 60), None);
        assert_eq!(Modulus::new((1 << 60) + 33), None);
    }
}
