//! How long requests took: exact count, sum and extremes, and a histogram for percentiles.

/// Buckets per doubling: each is at most 1/1024 of its value wide, and its middle is within 0.05 %.
const PRECISION: u32 = 10;
const FINE: u64 = 1 << PRECISION;

/// Latencies in picoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    pub count: u64,
    pub sum: i128,
    pub min: i64,
    pub max: i64,
}

fn bucket(value: u64) -> usize {
    if value < FINE {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() - PRECISION;
    ((u64::from(octave) << PRECISION) + (value >> octave)) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> i64 {
    let bucket = bucket as u64;
    if bucket < 2 * FINE {
        return bucket as i64;
    }
    let octave = (bucket >> PRECISION) - 1;
    let low = (bucket - (octave << PRECISION)) << octave;
    (low + (1 << octave) / 2) as i64
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Vec::new(), count: 0, sum: 0, min: i64::MAX, max: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, value: i64) {
        let at = bucket(value.max(0) as u64);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.count += 1;
        self.sum += i128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// The smallest latency that at least `share` of all do not exceed, to the middle of its bucket.
    pub fn percentile(&self, share: f64) -> Option<i64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle(at).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// The mean, exact up to the last rounding.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Adds what has come since `earlier` once more, `times` over.
    pub(crate) fn repeat(&mut self, earlier: &Histogram, times: u64) {
        for (at, count) in self.counts.iter_mut().enumerate() {
            let before = earlier.counts.get(at).copied().unwrap_or(0);
            *count += (*count - before) * times;
        }
        self.count += (self.count - earlier.count) * times;
        self.sum += (self.sum - earlier.sum) * i128::from(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_near_every_value_in_it() {
        for value in (0..5_000_000u64).step_by(37).chain([1 << 40, (1 << 50) + 12345]) {
            let off = (middle(bucket(value)) - value as i64).abs() as f64;
            assert!(off <= value as f64 / 2048.0 + 1e-9, "{value}: {off}");
        }
    }

    #[test]
    fn buckets_rise_with_values() {
        let mut last = 0;
        for value in 0..100_000u64 {
            let at = bucket(value);
            assert!(at == last || at == last + 1 || value == 0, "{value}");
            last = at;
        }
    }

    #[test]
    fn percentiles_of_equal_values_are_exact() {
        let mut histogram = Histogram::default();
        (0..10).for_each(|_| histogram.add(50_770_123));
        assert_eq!(histogram.percentile(0.5), Some(50_770_123));
        assert_eq!(histogram.mean(), Some(50_770_123.0));
        assert_eq!(Histogram::default().percentile(0.5), None);
    }

    #[test]
    fn a_median_of_two_halves_is_the_lower_one() {
        let mut histogram = Histogram::default();
        (0..5).for_each(|_| histogram.add(10));
        (0..5).for_each(|_| histogram.add(20));
        assert_eq!(histogram.percentile(0.5), Some(10));
        assert_eq!(histogram.percentile(0.51), Some(20));
    }
}
