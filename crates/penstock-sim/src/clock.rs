//! Seconds in and out; attoseconds in between. See the crate's documentation for why.

use crate::Error;

pub(crate) type Attoseconds = i128;

const PER_SECOND: f64 = 1e18;
const PER_PICOSECOND: i128 = 1_000_000;

/// The end of the clock: the largest `i64` of picoseconds, about 106 days.
pub const LIMIT_ATTOSECONDS: i128 = i64::MAX as i128 * PER_PICOSECOND;

/// Rounds half to even. `None` past the limit, and for a value that is not a number.
#[inline]
pub(crate) fn attoseconds(seconds: f64) -> Option<Attoseconds> {
    let scaled = (seconds * PER_SECOND).round_ties_even();
    if scaled < i64::MAX as f64 {
        // The conversion to 64 bits is one instruction, to 128 it is a call.
        return Some(i128::from(scaled as i64));
    }
    (scaled <= LIMIT_ATTOSECONDS as f64).then_some(scaled as i128)
}

/// The seconds of a number of attoseconds.
#[inline]
pub fn seconds(time: i128) -> f64 {
    time as f64 / PER_SECOND
}

/// `Ok` if `time` is on the clock.
pub(crate) fn check(time: Attoseconds, at: impl FnOnce() -> String) -> Result<(), Error> {
    if time <= LIMIT_ATTOSECONDS { Ok(()) } else { Err(Error::ClockOverflow { at: at() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_half_to_even() {
        assert_eq!(attoseconds(0.0), Some(0));
        assert_eq!(attoseconds(1.5e-18), Some(2));
        assert_eq!(attoseconds(2.5e-18), Some(2));
        assert_eq!(attoseconds(1.0), Some(1_000_000_000_000_000_000));
        assert_eq!(attoseconds(1000.0), Some(1_000_000_000_000_000_000_000));
    }

    #[test]
    fn the_clock_ends_where_picoseconds_of_64_bits_end() {
        let days = LIMIT_ATTOSECONDS as f64 / PER_SECOND / 86_400.0;
        assert!((106.0..107.0).contains(&days), "{days}");
        assert!(attoseconds(9.2e6).is_some());
        assert_eq!(attoseconds(9.3e6), None);
        assert_eq!(attoseconds(f64::INFINITY), None);
        assert_eq!(attoseconds(f64::NAN), None);
        assert!(check(LIMIT_ATTOSECONDS, String::new).is_ok());
        assert!(check(LIMIT_ATTOSECONDS + 1, String::new).is_err());
    }
}
