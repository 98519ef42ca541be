//! Which version runs, and the way into it.

use std::sync::Arc;

#[cfg(target_arch = "x86_64")]
use super::arithmetic::{Arithmetic, Double, Word};
#[cfg(test)]
use super::checked::{Checked4, Checked8};
use super::prime::LastStages;
#[cfg(target_arch = "x86_64")]
use super::prime::encode;
use super::{Digit, Prime, Source, portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512, rows, transform};
use crate::buffer::Arena;
use crate::error::Error;
use crate::modulus::Modulus;

/// A version of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CpuPath {
    /// 8 lanes: AVX-512 F and DQ.
    Avx512,
    /// 4 lanes: AVX2 and FMA.
    Avx2,
    /// Plain Rust.
    Portable,
    /// 4 lanes that check their ranges.
    #[cfg(test)]
    Checked4,
    /// 8 lanes that check their ranges.
    #[cfg(test)]
    Checked8,
}

impl CpuPath {
    /// All, the fastest first.
    pub const ALL: [CpuPath; 3] = [CpuPath::Avx512, CpuPath::Avx2, CpuPath::Portable];
    /// The environment variable that names the path to take.
    pub const VARIABLE: &'static str = "PENSTOCK_CPU";

    /// `avx512`, `avx2` or `portable`.
    pub fn name(self) -> &'static str {
        match self {
            CpuPath::Avx512 => "avx512",
            CpuPath::Avx2 => "avx2",
            CpuPath::Portable => "portable",
            #[cfg(test)]
            CpuPath::Checked4 | CpuPath::Checked8 => "checked",
        }
    }

    /// The path of a name.
    ///
    /// # Errors
    /// [`Error::Cpu`] where there is no such path.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|path| path.name() == name);
        found.ok_or_else(|| Error::Cpu { asked: name.to_owned(), rule: "choose avx512, avx2 or portable".to_owned() })
    }

    /// Whether this machine has its instructions.
    pub fn is_available(self) -> bool {
        Kernels::of(self).is_ok()
    }

    /// The path that `PENSTOCK_CPU` names, else the fastest that this machine has.
    ///
    /// # Errors
    /// [`Error::Cpu`] where the named path does not exist or is not available.
    pub fn choose() -> Result<Self, Error> {
        match std::env::var(Self::VARIABLE) {
            Ok(name) if !name.is_empty() => {
                let path = Self::by_name(&name)?;
                Kernels::of(path).map(|_| path)
            }
            _ => Ok(Self::ALL.into_iter().find(|path| path.is_available()).unwrap_or(CpuPath::Portable)),
        }
    }
}

/// The kernels of one path. All rows have the ring dimension's length, which is a power of two of at least 64.
#[derive(Debug, Clone, Copy)]
pub struct Kernels(Version);

#[derive(Debug, Clone, Copy)]
enum Version {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    Portable,
    #[cfg(test)]
    Checked4(Checked4),
    #[cfg(test)]
    Checked8(Checked8),
}

/// Smallest row: one square of 8 vectors of 8 lanes.
pub(crate) const MIN_RING_DIM: usize = 64;

/// Runs `$body` with `$lanes` bound to the version's lanes, compiled for its instructions; `$plain` without.
macro_rules! dispatch {
    ($self:ident, |$lanes:ident $(, $x:ident: $type:ty)*| $body:expr, $plain:expr) => {
        match $self.0 {
            #[cfg(target_arch = "x86_64")]
            Version::Avx512($lanes) => {
                #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
                fn run($lanes: Avx512 $(, $x: $type)*) {
                    $body
                }
                // SAFETY: an `Avx512` exists only where these features were found.
                unsafe { run($lanes $(, $x)*) }
            }
            #[cfg(target_arch = "x86_64")]
            Version::Avx2($lanes) => {
                #[target_feature(enable = "avx2,fma")]
                fn run($lanes: Avx2 $(, $x: $type)*) {
                    $body
                }
                // SAFETY: an `Avx2` exists only where these features were found.
                unsafe { run($lanes $(, $x)*) }
            }
            Version::Portable => $plain,
            #[cfg(test)]
            Version::Checked4($lanes) => $body,
            #[cfg(test)]
            Version::Checked8($lanes) => $body,
        }
    };
}

impl Kernels {
    /// The kernels of a path.
    ///
    /// # Errors
    /// [`Error::Cpu`] where this machine does not have its instructions.
    pub fn of(path: CpuPath) -> Result<Self, Error> {
        let version = match path {
            #[cfg(target_arch = "x86_64")]
            CpuPath::Avx512 => Avx512::detect().map(Version::Avx512),
            #[cfg(target_arch = "x86_64")]
            CpuPath::Avx2 => Avx2::detect().map(Version::Avx2),
            #[cfg(not(target_arch = "x86_64"))]
            CpuPath::Avx512 | CpuPath::Avx2 => None,
            CpuPath::Portable => Some(Version::Portable),
            #[cfg(test)]
            CpuPath::Checked4 => Some(Version::Checked4(Checked4)),
            #[cfg(test)]
            CpuPath::Checked8 => Some(Version::Checked8(Checked8)),
        };
        version.map(Self).ok_or_else(|| Error::Cpu {
            asked: path.name().to_owned(),
            rule: "this processor does not have its instructions; unset PENSTOCK_CPU to take the fastest it has"
                .to_owned(),
        })
    }

    /// The path in use.
    pub fn path(self) -> CpuPath {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Version::Avx512(_) => CpuPath::Avx512,
            #[cfg(target_arch = "x86_64")]
            Version::Avx2(_) => CpuPath::Avx2,
            Version::Portable => CpuPath::Portable,
            #[cfg(test)]
            Version::Checked4(_) => CpuPath::Checked4,
            #[cfg(test)]
            Version::Checked8(_) => CpuPath::Checked8,
        }
    }

    /// A prime with the tables of these kernels.
    ///
    /// # Errors
    /// [`Error::Parameters`]: not an odd prime of at most 60 bits that is 1 mod 2N, or N is not a power of two
    /// from 64.
    pub fn prime(self, q: u64, ring_dim: usize, arena: &Arc<Arena>) -> Result<Prime, Error> {
        if !ring_dim.is_power_of_two() || ring_dim < MIN_RING_DIM {
            let rule = "the ring dimension must be a power of two, at least 64";
            return Err(Error::Parameters { what: format!("ring dimension {ring_dim}"), rule });
        }
        let lanes = match self.path() {
            CpuPath::Avx512 => 8,
            CpuPath::Avx2 => 4,
            CpuPath::Portable => 1,
            #[cfg(test)]
            CpuPath::Checked4 => 4,
            #[cfg(test)]
            CpuPath::Checked8 => 8,
        };
        Prime::new(q, ring_dim, lanes, arena)
    }

    /// Coefficients in the working form to evaluations in the working form, in place.
    pub fn forward(self, p: &Prime, row: &mut [u64]) {
        p.check(&[row.len()]);
        self.forward_with(p, &p.forward.last, row);
    }

    /// [`Kernels::forward`] of a polynomial in X^gap: the first N / gap words of `row` are its coefficients. Its
    /// evaluations come in runs of `gap` that are the same.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory for the tables.
    pub fn forward_sparse(self, p: &Prime, gap: usize, row: &mut [u64]) -> Result<(), Error> {
        p.check(&[row.len()]);
        let count = row.len() / gap;
        assert!(gap.is_power_of_two() && count >= MIN_RING_DIM, "{count} coefficients of {} words", row.len());
        self.forward_with(p, p.last_stages(gap)?, &mut row[..count]);
        for k in (0..if gap > 1 { count } else { 0 }).rev() {
            let word = row[k];
            row[gap * k..gap * (k + 1)].fill(word);
        }
        Ok(())
    }

    fn forward_with(self, p: &Prime, last: &LastStages, row: &mut [u64]) {
        dispatch!(
            self,
            |lanes, p: &Prime, last: &LastStages, row: &mut [u64]| if p.double {
                transform::forward(lanes, Double::new(lanes, p.modulus), row, &p.forward, last)
            } else {
                transform::forward(lanes, Word::new(lanes, p.modulus), row, &p.forward, last)
            },
            portable::forward(p.modulus, &p.forward, row)
        );
    }

    /// Canonical evaluations to canonical coefficients times `scale`, which must hold 1/N.
    pub fn inverse(self, p: &Prime, row: &[u64], scale: u64, out: &mut [u64]) {
        p.check(&[row.len(), out.len()]);
        dispatch!(
            self,
            |lanes, p: &Prime, row: &[u64], scale: u64, out: &mut [u64]| if p.double {
                transform::inverse(
                    lanes,
                    Double::new(lanes, p.modulus),
                    row,
                    out,
                    &p.backward,
                    encode(p.modulus, p.double, scale),
                )
            } else {
                transform::inverse(
                    lanes,
                    Word::new(lanes, p.modulus),
                    row,
                    out,
                    &p.backward,
                    encode(p.modulus, p.double, scale),
                )
            },
            portable::inverse(p.modulus, &p.backward, row, scale, out)
        );
    }

    /// `sum of source * factor mod q`, in the working form.
    pub fn convert(self, p: &Prime, sources: &[Source<'_>], out: &mut [u64]) {
        for source in sources {
            assert_eq!(source.row.len(), out.len(), "rows of one conversion have one length");
        }
        assert!(out.len().is_multiple_of(8) && !sources.is_empty(), "whole vectors, and something to convert");
        dispatch!(
            self,
            |lanes, p: &Prime, sources: &[Source<'_>], out: &mut [u64]| rows::convert(
                lanes, p.modulus, p.double, sources, out
            ),
            portable::convert(p.modulus, sources, out)
        );
    }

    /// Canonical sums over the digits of `digit * key`, for two keys' rows (parts b and a).
    pub fn inner_product(self, p: &Prime, digits: &[Digit<'_>], keys: [&[&[u64]]; 2], out: [&mut [u64]; 2]) {
        for (digit, (k0, k1)) in digits.iter().zip(keys[0].iter().zip(keys[1])) {
            p.check(&[digit.row.len(), k0.len(), k1.len()]);
        }
        assert!(digits.len() == keys[0].len() && digits.len() == keys[1].len(), "a key row for each digit");
        p.check(&[out[0].len(), out[1].len()]);
        dispatch!(
            self,
            |lanes, p: &Prime, digits: &[Digit<'_>], keys: [&[&[u64]]; 2], out: [&mut [u64]; 2]| rows::inner_product(
                lanes, p.modulus, p.double, digits, keys, out
            ),
            {
                let [out0, out1] = out;
                portable::sum_of_products(p.modulus, digits, keys[0], out0);
                portable::sum_of_products(p.modulus, digits, keys[1], out1);
            }
        );
    }

    /// Canonical sums over the digits of `digit * key`, for one key.
    pub fn sum_of_products(self, p: &Prime, digits: &[Digit<'_>], key: &[&[u64]], out: &mut [u64]) {
        for (digit, key) in digits.iter().zip(key) {
            p.check(&[digit.row.len(), key.len()]);
        }
        assert!(digits.len() == key.len(), "a key row for each digit");
        p.check(&[out.len()]);
        dispatch!(
            self,
            |lanes, p: &Prime, digits: &[Digit<'_>], key: &[&[u64]], out: &mut [u64]| rows::sum_of_products(
                lanes, p.modulus, p.double, digits, key, out
            ),
            portable::sum_of_products(p.modulus, digits, key, out)
        );
    }

    /// `lifted <- (x - lifted) * factor + plus`: `lifted` in the working form before, canonical after; the rest canonical.
    pub fn subtract_and_scale(self, p: &Prime, x: &[u64], lifted: &mut [u64], factor: u64, plus: Option<&[u64]>) {
        p.check(&[x.len(), lifted.len(), plus.map_or(x.len(), <[u64]>::len)]);
        dispatch!(
            self,
            |lanes, p: &Prime, x: &[u64], lifted: &mut [u64], factor: u64, plus: Option<&[u64]>| {
                rows::subtract_and_scale(lanes, p.modulus, p.double, x, lifted, factor, plus)
            },
            portable::subtract_and_scale(p.modulus, x, lifted, factor, plus)
        );
    }

    /// Canonical coefficients minus q where the bit of the word is set in `signs` and the word is not 0 (signed words).
    pub fn negate_where(self, p: &Prime, signs: &[u8], row: &mut [u64]) {
        p.check(&[row.len(), 8 * signs.len()]);
        let q = p.modulus.value();
        dispatch!(
            self,
            |lanes, q: u64, signs: &[u8], row: &mut [u64]| rows::negate_where(lanes, q, signs, row),
            portable::negate_where(q, signs, row)
        );
    }

    /// From the working form to canonical words, in place.
    pub fn to_canonical(self, p: &Prime, row: &mut [u64]) {
        p.check(&[row.len()]);
        dispatch!(self, |lanes, p: &Prime, row: &mut [u64]| rows::canonical(lanes, p.modulus, p.double, row), ());
    }

    /// From canonical words to the working form, in place.
    pub fn to_working(self, p: &Prime, row: &mut [u64]) {
        p.check(&[row.len()]);
        dispatch!(self, |lanes, p: &Prime, row: &mut [u64]| rows::working(lanes, p.modulus, p.double, row), ());
    }

    /// `row += other`, canonical.
    pub fn add(self, p: &Prime, row: &mut [u64], other: &[u64]) {
        p.check(&[row.len(), other.len()]);
        let q = p.modulus;
        dispatch!(
            self,
            |lanes, q: Modulus, row: &mut [u64], other: &[u64]| rows::add(lanes, q.value(), row, other),
            portable::add(q, row, other)
        );
    }

    /// `row -= other`, canonical.
    pub fn subtract(self, p: &Prime, row: &mut [u64], other: &[u64]) {
        p.check(&[row.len(), other.len()]);
        let q = p.modulus;
        dispatch!(
            self,
            |lanes, q: Modulus, row: &mut [u64], other: &[u64]| rows::subtract(lanes, q.value(), row, other),
            portable::subtract(q, row, other)
        );
    }

    /// `row *= factor`, canonical.
    pub fn scale(self, p: &Prime, row: &mut [u64], factor: u64) {
        p.check(&[row.len()]);
        dispatch!(
            self,
            |lanes, p: &Prime, row: &mut [u64], factor: u64| rows::scale(lanes, p.modulus, p.double, row, factor),
            portable::scale(p.modulus, row, factor)
        );
    }
}

impl Prime {
    /// Every row of a call has the ring dimension's length. A broken call is a defect of this crate, not of its input.
    fn check(&self, lengths: &[usize]) {
        let ring_dim = self.forward.factors.len();
        assert!(lengths.iter().all(|length| *length == ring_dim), "rows of {lengths:?} words, where N is {ring_dim}");
    }
}
