//! When a read ahead can wait no longer: how fast a program uses keys, and how fast keys are read.

use std::time::Instant;

/// How much a new value counts in a moving average.
const SHARE: f64 = 0.125;
/// The allowed delay of a read in standard deviations before it begins: recent measurements are not a promise.
const SPARED_DEVIATIONS: f64 = 2.0;

/// The moving mean and variance of recent measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moving {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Moving {
    /// With one more value; the first one has no variance.
    pub(super) fn and(known: Option<Self>, value: f64) -> Self {
        let Some(Self { mean, variance }) = known else { return Self { mean: value, variance: 0.0 } };
        let step = value - mean;
        Self { mean: mean + SHARE * step, variance: variance + SHARE * (step * step - variance) }
    }
}

/// The speed of a program along its plan while it does not wait for keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Seconds from one use to the next.
    pub(super) use_s: Option<Moving>,
    last: Option<Instant>,
}

impl Pace {
    /// A get begins: until here the program computed.
    pub(super) fn begins(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.use_s = Some(Moving::and(self.use_s, now.saturating_duration_since(last).as_secs_f64()));
        }
    }

    /// A get has ended: from here on the program computes.
    pub(super) fn ends(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

/// Whether some of `reads` would come too late if none of them began now: the rule "forestall" of Kimbrel et al. (OSDI
/// 1996), with deviations to spare. They are done one after the other; of each: in how many uses it is needed, and bytes.
pub(super) fn is_urgent(reads: impl IntoIterator<Item = (usize, u64)>, use_s: Moving, byte_s: Moving) -> bool {
    let (mut reading_s, mut variance) = (0.0, 0.0);
    reads.into_iter().any(|(uses, bytes)| {
        let (uses, bytes) = (uses as f64, bytes as f64);
        reading_s += bytes * byte_s.mean;
        variance += bytes * bytes * byte_s.variance;
        reading_s + SPARED_DEVIATIONS * (variance + uses * use_s.variance).sqrt() >= uses * use_s.mean
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn steady(mean: f64) -> Moving {
        Moving { mean, variance: 0.0 }
    }

    #[test]
    fn reads_wait_as_long_as_all_of_them_come_in_time() {
        let is_urgent = |reads: &[(usize, u64)]| is_urgent(reads.iter().copied(), steady(0.1), steady(0.001));
        assert!(!is_urgent(&[]));
        assert!(is_urgent(&[(0, 1)]));
        assert!(!is_urgent(&[(10, 999)]));
        assert!(is_urgent(&[(10, 1001)]));
        // Each alone would come in time, all together not.
        assert!(!is_urgent(&[(10, 400), (11, 400)]));
        assert!(is_urgent(&[(10, 400), (11, 400), (12, 401)]));
    }

    #[test]
    fn what_varies_is_begun_earlier() {
        let reads = [(16, 1000)]; // 1.6 s until then, 1 s of reading: 0.6 s to spare
        let one_read = Moving { mean: 0.001, variance: 0.29e-3 * 0.29e-3 };
        assert!(!is_urgent(reads, steady(0.1), one_read));
        assert!(is_urgent(reads, steady(0.1), Moving { variance: 0.31e-3 * 0.31e-3, ..one_read }));
        // 16 uses deviate by four times the deviation of one.
        let one_use = Moving { mean: 0.1, variance: 0.07 * 0.07 };
        assert!(!is_urgent(reads, one_use, steady(0.001)));
        assert!(is_urgent(reads, Moving { variance: 0.08 * 0.08, ..one_use }, steady(0.001)));
    }

    #[test]
    fn waits_for_keys_are_no_part_of_the_pace() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let at = |millis| start + Duration::from_millis(millis);
        pace.begins(at(0));
        assert_eq!(pace.use_s, None);
        for turn in 0..100 {
            pace.ends(at(100 * turn + 70)); // 70 ms of waiting, 30 ms of computing
            pace.begins(at(100 * turn + 100));
        }
        assert!(pace.use_s.is_some_and(|use_s| (use_s.mean - 0.030).abs() < 1e-9 && use_s.variance < 1e-18));
    }

    #[test]
    fn a_moving_average_follows_what_changes() {
        let first = Moving::and(None, 4.0);
        assert_eq!(first, steady(4.0));
        let mut moving = Moving::and(Some(first), 12.0);
        assert_eq!(moving, Moving { mean: 5.0, variance: 8.0 });
        (0..200).for_each(|_| moving = Moving::and(Some(moving), 1.0));
        assert!((moving.mean - 1.0).abs() < 1e-4 && moving.variance < 1e-4);
    }
}
