//! How a cache behaves.

use std::time::Duration;

/// Which rows leave when others need their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The key that was used longest ago, whole.
    Lru,
    /// Belady's rule on limbs: what the known futures use last. Without a future it decides by age, like LRU.
    Future,
}

/// How a cache behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Most bytes of rows in memory, in use or not.
    pub budget_bytes: u64,
    pub policy: Policy,
    /// How many uses ahead of the program keys are read, by a thread of its own; 0: never ahead.
    pub prefetch_uses: usize,
    /// How long a get waits for others to let go of what they use, before it fails.
    pub patience: Duration,
}

impl Options {
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, policy: Policy::Future, prefetch_uses: 64, patience: Duration::from_secs(60) }
    }
}
