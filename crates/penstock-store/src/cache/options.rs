//! How a cache behaves.

use std::time::Duration;

/// Which rows leave when others need their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The key that was used longest ago, whole.
    Lru,
    /// Belady's rule on limbs: the rows with the latest use in the known futures leave. Without a future it decides by
    /// age, like LRU.
    Future,
}

/// How a cache behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Most bytes of rows in memory, in use or not.
    pub budget_bytes: u64,
    pub policy: Policy,
    /// The number of uses that a separate thread reads ahead of the program; 0: never ahead.
    pub prefetch_uses: usize,
    /// Bytes of each tenant that the keys of others do not displace, as far as the budget allows that.
    pub floor_bytes: u64,
    /// The longest wait of a get for rows in use by others, before it fails.
    pub patience: Duration,
}

impl Options {
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            policy: Policy::Future,
            prefetch_uses: 64,
            floor_bytes: 0,
            patience: Duration::from_secs(60),
        }
    }
}
