//! The distributions of the scheme: ternary secrets, discrete Gaussian errors, and the wide Gaussian of flooding.
//!
//! No branch and no address depends on a sampled value, except where a doc comment says so.

use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::random::Stream;
use crate::tables::{BASE, BASE_DEVIATION, ERROR};

/// Nonzero coefficients of a sparse secret, as OpenFHE takes.
pub const SPARSE_WEIGHT: usize = 192;
/// Nonzero coefficients of an ephemeral secret, under which bootstrapping raises the modulus: OpenFHE's number for a first
/// modulus of at most 60 bits.
pub const EPHEMERAL_WEIGHT: usize = 32;

/// Half-width of a convolution: 6 in units of the deviation times sqrt(2 pi). The smoothing parameter of the integers
/// is below it at 2^-160.
const SMOOTHING: f64 = 6.0;
/// The largest deviation of flooding: 14 of them fit a signed word.
pub const MAX_FLOODING: f64 = (1u64 << 58) as f64;

/// -1, 0 and 1 alike: floor(3 w / 2^64) - 1 of a 64-bit word, which is off uniform by less than 2^-62.
pub fn ternary(stream: &mut Stream, out: &mut [i8]) {
    for value in out {
        *value = ((u128::from(stream.word()) * 3) >> 64) as i8 - 1;
    }
}

/// `weight` coefficients of -1 or 1, the rest 0: as many of each, but for one or two. A sorting network on random
/// numbers puts them in random places.
///
/// Its number of tries for the signs depends on their sum, and the sum tells nothing of a key.
///
/// # Errors
/// [`Error::Value`]: more of them than coefficients, or not a power of two of these.
pub fn sparse_ternary(stream: &mut Stream, weight: usize, out: &mut [i8]) -> Result<()> {
    if weight > out.len() || !out.len().is_power_of_two() {
        return Err(Error::value(format!("{weight} of {} coefficients", out.len()), "a power of two of them, no more"));
    }
    let mut places = vec![0u64; out.len()];
    loop {
        let mut positive = 0;
        // The upper 62 bits are the random number that is sorted by, the lower two the coefficient plus 1.
        for (k, place) in places.iter_mut().enumerate() {
            let word = stream.word();
            let sign = word & 1;
            let chosen = u64::from(k < weight);
            positive += (sign & chosen) as usize;
            *place = (word & !3) | (chosen * (2 * sign) + (1 - chosen));
        }
        // OpenFHE's rule: half of them are 1, give or take one.
        if positive.abs_diff(weight / 2) <= 1 {
            break;
        }
    }
    sort(&mut places);
    for (value, place) in out.iter_mut().zip(&places) {
        *value = (place & 3) as i8 - 1;
    }
    places.zeroize();
    Ok(())
}

/// Batcher's bitonic network: the same comparisons whatever the values.
fn sort(values: &mut [u64]) {
    let count = values.len();
    let mut size = 2;
    while size <= count {
        let mut stride = size / 2;
        while stride > 0 {
            for low in 0..count {
                let high = low ^ stride;
                if high > low {
                    let (a, b) = (values[low], values[high]);
                    let (least, most) = (a.min(b), a.max(b));
                    let ascending = low & size == 0;
                    (values[low], values[high]) = if ascending { (least, most) } else { (most, least) };
                }
            }
            stride /= 2;
        }
        size *= 2;
    }
}

/// Discrete Gaussian errors of standard deviation 3.19, as signed words. Each is compared with the whole table.
pub fn errors(stream: &mut Stream, out: &mut [u64]) {
    for value in out {
        let word = stream.word();
        let (sign, uniform) = (word & 1, word >> 1);
        let magnitude: u64 = ERROR.iter().map(|below| u64::from(uniform >= *below)).sum();
        *value = signed(magnitude, sign);
    }
}

/// `magnitude`, negative where `sign` is 1.
#[inline(always)]
fn signed(magnitude: u64, sign: u64) -> u64 {
    (magnitude ^ sign.wrapping_neg()).wrapping_add(sign)
}

/// Samples of the rounded-up deviation of a flooding, which a plan makes of small ones.
///
/// A discrete Gaussian of any width is a sum of narrow ones with whole factors: Micciancio and Walter, "Gaussian Sampling
/// over the Integers: Efficient, Generic, Constant-Time", CRYPTO 2017 (ePrint 2017/259).
#[derive(Debug, Clone, PartialEq)]
pub struct FloodingPlan {
    /// Of each level, the factors of its two samples of the level below.
    factors: Vec<(i64, i64)>,
    /// Of the last sum: `factor` times one sample, plus another.
    last: Option<i64>,
    deviation: f64,
}

impl FloodingPlan {
    /// A plan of at least the asked deviation.
    ///
    /// # Errors
    /// [`Error::Value`]: not a positive number, or more than 2^58.
    pub fn new(deviation: f64) -> Result<Self> {
        if !(deviation > 0.0 && deviation <= MAX_FLOODING) {
            let rule = "flooding adds noise of a standard deviation above 0, at most 2^58 of a coefficient";
            return Err(Error::value(format!("a standard deviation of {deviation}"), rule));
        }
        let (mut factors, mut reached) = (vec![], BASE_DEVIATION);
        if deviation <= reached {
            return Ok(Self { factors, last: None, deviation: reached });
        }
        let width = (2.0 * std::f64::consts::PI).sqrt() / SMOOTHING;
        while deviation > reached * (reached * width) {
            let first = (reached * width / 2f64.sqrt()).floor();
            let second = (first - 1.0).max(1.0);
            factors.push((first as i64, second as i64));
            reached *= first.hypot(second);
        }
        let factor = ((deviation / reached).powi(2) - 1.0).max(1.0).sqrt().ceil();
        Ok(Self { factors, last: Some(factor as i64), deviation: reached * factor.hypot(1.0) })
    }

    /// The deviation of its samples: not less than was asked for.
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// One sample.
    pub fn sample(&self, stream: &mut Stream) -> i64 {
        match self.last {
            None => self.level(stream, self.factors.len()),
            Some(factor) => factor * self.level(stream, self.factors.len()) + self.level(stream, self.factors.len()),
        }
    }

    fn level(&self, stream: &mut Stream, level: usize) -> i64 {
        if level == 0 {
            return base(stream);
        }
        let (first, second) = self.factors[level - 1];
        first * self.level(stream, level - 1) + second * self.level(stream, level - 1)
    }
}

/// A discrete Gaussian of standard deviation 34, compared with the whole table.
fn base(stream: &mut Stream) -> i64 {
    let word = stream.wide_word();
    let (sign, uniform) = ((word & 1) as u64, word >> 1);
    let magnitude: u64 = BASE.iter().map(|below| u64::from(uniform >= *below)).sum();
    signed(magnitude, sign) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::ERROR_DEVIATION;

    const COUNT: usize = 10_000_000;

    /// Chi-square of counts against probabilities, in standard deviations from its mean; rare values are one bin.
    fn deviation_of_chi_square(counts: &[f64], probabilities: &[f64]) -> f64 {
        let total: f64 = counts.iter().sum();
        let (mut chi, mut bins, mut rare) = (0.0, 0.0, (0.0, 0.0));
        for (count, probability) in counts.iter().zip(probabilities) {
            let expected = probability * total;
            if expected < 20.0 {
                rare = (rare.0 + count, rare.1 + expected);
                continue;
            }
            chi += (count - expected).powi(2) / expected;
            bins += 1.0;
        }
        if rare.1 >= 5.0 {
            chi += (rare.0 - rare.1).powi(2) / rare.1;
            bins += 1.0;
        }
        (chi - (bins - 1.0)) / (2.0 * (bins - 1.0)).sqrt()
    }

    fn gaussian(sigma: f64, most: i64) -> Vec<f64> {
        let weights: Vec<f64> = (-most..=most).map(|x| (-(x as f64).powi(2) / (2.0 * sigma * sigma)).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    #[test]
    fn errors_are_the_discrete_gaussian_of_the_tables() {
        let mut values = vec![0; COUNT];
        errors(&mut Stream::repeatable(1), &mut values);
        let most = ERROR.len() as i64;
        let mut counts = vec![0.0; 2 * most as usize + 1];
        for value in &values {
            counts[(*value as i64 + most) as usize] += 1.0;
        }
        let chi = deviation_of_chi_square(&counts, &gaussian(ERROR_DEVIATION, most));
        assert!(chi.abs() < 4.0, "{chi}");
        let square: f64 = values.iter().map(|value| (*value as i64 as f64).powi(2)).sum::<f64>() / COUNT as f64;
        assert!((square.sqrt() - ERROR_DEVIATION).abs() < 0.005, "{}", square.sqrt());
    }

    #[test]
    fn ternary_values_are_alike() {
        let mut values = vec![0; COUNT];
        ternary(&mut Stream::repeatable(2), &mut values);
        let mut counts = [0.0; 3];
        values.iter().for_each(|value| counts[(value + 1) as usize] += 1.0);
        let chi = deviation_of_chi_square(&counts, &[1.0 / 3.0; 3]);
        assert!(chi.abs() < 4.0, "{chi} {counts:?}");
    }

    #[test]
    fn sparse_secrets_have_their_weight_in_every_place_alike() {
        let (n, weight, draws) = (1 << 10, 192, 10_000); // 10^7 coefficients
        let mut stream = Stream::repeatable(3);
        let (mut places, mut signs) = (vec![0.0; n], [0f64; 2]);
        let mut values = vec![0; n];
        for _ in 0..draws {
            sparse_ternary(&mut stream, weight, &mut values).unwrap();
            let ones = values.iter().filter(|value| **value == 1).count();
            assert_eq!(values.iter().filter(|value| **value != 0).count(), weight);
            assert!(ones.abs_diff(weight / 2) <= 1, "{ones}");
            for (place, value) in places.iter_mut().zip(&values) {
                *place += f64::from(value.unsigned_abs());
                if *value != 0 {
                    signs[usize::from(*value == 1)] += 1.0;
                }
            }
        }
        // Counts of a fixed weight vary less than counts of independent places, by 1 - weight / n.
        let chi = deviation_of_chi_square(&places, &vec![1.0 / n as f64; n]) + 0.0;
        assert!(chi < 4.0, "{chi}");
        assert!((signs[0] - signs[1]).abs() / (signs[0] + signs[1]) < 0.005, "{signs:?}");
        assert!(sparse_ternary(&mut stream, n + 1, &mut values).is_err());
    }

    #[test]
    fn the_network_sorts() {
        for count in [1, 2, 64, 4096] {
            let mut stream = Stream::repeatable(4);
            let mut values: Vec<u64> = (0..count).map(|_| stream.word() >> 50).collect();
            let mut expected = values.clone();
            expected.sort_unstable();
            sort(&mut values);
            assert_eq!(values, expected);
        }
    }

    #[test]
    fn narrow_flooding_is_the_base_and_wide_flooding_a_gaussian_of_its_deviation() {
        let plan = FloodingPlan::new(1.0).unwrap();
        let mut stream = Stream::repeatable(5);
        let most = BASE.len() as i64;
        let mut counts = vec![0.0; 2 * most as usize + 1];
        for _ in 0..300_000 {
            counts[(plan.sample(&mut stream) + most) as usize] += 1.0;
        }
        let chi = deviation_of_chi_square(&counts, &gaussian(BASE_DEVIATION, most));
        assert!(chi.abs() < 4.0, "{chi}");
        for bits in [6, 10, 20, 33, 47, 58] {
            let asked = 2f64.powi(bits);
            let plan = FloodingPlan::new(asked).unwrap();
            assert!(plan.deviation() >= asked && plan.deviation() < 1.6 * asked, "2^{bits}: {plan:?}");
            let count = 20_000;
            // Sixteen bins of equal probability of the normal distribution, by its quantiles.
            const QUANTILES: [f64; 8] =
                [0.0, 0.157_310_7, 0.318_639_4, 0.488_776_4, 0.674_489_8, 0.887_146_6, 1.150_349_4, 1.534_120_5];
            let mut bins = [0.0; 16];
            let mut square = 0.0;
            for _ in 0..count {
                let z = plan.sample(&mut stream) as f64 / plan.deviation();
                square += z * z;
                let bin = QUANTILES.iter().filter(|q| z.abs() >= **q).count() - 1;
                bins[if z < 0.0 { bin } else { 8 + bin }] += 1.0;
            }
            let spread = (square / count as f64).sqrt();
            assert!((spread - 1.0).abs() < 0.02, "2^{bits}: {spread}");
            if bits >= 10 {
                let chi = deviation_of_chi_square(&bins, &[1.0 / 16.0; 16]);
                assert!(chi < 4.5, "2^{bits}: {chi}");
            }
        }
        assert!(FloodingPlan::new(0.0).is_err() && FloodingPlan::new(f64::NAN).is_err());
        assert!(FloodingPlan::new(2f64.powi(59)).is_err());
    }
}
