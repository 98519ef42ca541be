//! The forced hit ratio: no cache, a stated share of every access is served.

use crate::{Error, accesses};

/// The loads that remain behind a forced hit ratio. Expected values, so fractions of a byte are meant.
#[derive(Debug, Clone, PartialEq)]
pub struct ForcedReplay {
    /// `(n,)` bytes that each operation loads: `(1 - hit_ratio) * requested`, one multiplication.
    pub miss_bytes: Vec<f64>,
    /// `(n,)` transfers of each operation: `(1 - hit_ratio) * accesses`.
    pub transfers: Vec<f64>,
    pub accesses: i64,
    pub requested_bytes: i64,
}

/// Serves `hit_ratio` of each access. Nothing is drawn at random, so the closed forms hold exactly.
///
/// `start` is `(n + 1,)`, `bytes` is `(m,)`; which object an access asks for does not matter.
///
/// # Errors
/// `hit_ratio` is not in `[0, 1]`, or the arrays break a rule of [`crate::Accesses::new`].
pub fn replay_forced(start: &[i64], bytes: &[i64], hit_ratio: f64) -> Result<ForcedReplay, Error> {
    if !(0.0..=1.0).contains(&hit_ratio) {
        return Err(Error::value("hit_ratio", hit_ratio, "a hit ratio lies between 0 and 1"));
    }
    accesses::check_rows(start, bytes.len())?;
    let requested_bytes = accesses::check_bytes(bytes)?;
    let miss_ratio = 1.0 - hit_ratio;
    let rows = || start.windows(2).map(|w| &bytes[w[0] as usize..w[1] as usize]);
    Ok(ForcedReplay {
        miss_bytes: rows().map(|row| miss_ratio * row.iter().sum::<i64>() as f64).collect(),
        transfers: rows().map(|row| miss_ratio * row.len() as f64).collect(),
        accesses: bytes.len() as i64,
        requested_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stated_share_of_each_operation_is_loaded() {
        let got = replay_forced(&[0, 2, 2, 3], &[100, 60, 7], 0.75).unwrap();
        assert_eq!(got.miss_bytes, [40.0, 0.0, 1.75]);
        assert_eq!(got.transfers, [0.5, 0.0, 0.25]);
        assert_eq!((got.accesses, got.requested_bytes), (3, 167));
    }

    #[test]
    fn a_ratio_outside_its_range_is_refused() {
        for ratio in [-0.001, 1.001, f64::NAN, f64::INFINITY] {
            let message = replay_forced(&[0], &[], ratio).unwrap_err().to_string();
            assert!(message.starts_with("hit_ratio is"), "{message}");
        }
        assert!(replay_forced(&[0], &[], 1.0).is_ok());
    }
}
