//! What a cache of keys counts, and its latest reads.

use std::time::Instant;

use crate::KeyName;

/// Reads that are kept until [`super::Cache::take_reads`] takes them; older ones are forgotten.
pub(super) const MOST_READS: usize = 4096;

/// One load of rows of a key.
#[derive(Clone, Debug)]
pub struct Read {
    pub name: KeyName,
    /// From storage.
    pub read_bytes: u64,
    /// That seeds were expanded into.
    pub expanded_bytes: u64,
    /// By the thread that reads ahead; else by a get, which waited for it.
    pub ahead: bool,
    pub began: Instant,
    pub ended: Instant,
}

/// Sums since the cache was made. `hits + misses` is the number of finished gets, and
/// `read_bytes + expanded_bytes = resident + evicted + dropped bytes` while nothing is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Gets that found every row there, or on its way.
    pub hits: u64,
    /// Hits that had to wait for a prefetch to end.
    pub late_hits: u64,
    /// Gets that read rows themselves.
    pub misses: u64,
    /// Gets that failed: the key is missing or damaged, the disk refused, the budget is too small.
    pub failures: u64,
    /// Bytes of rows that were asked for.
    pub requested_bytes: u64,
    /// Bytes of rows that gets had to read or expand themselves.
    pub miss_bytes: u64,
    /// Bytes of rows that were read from storage, by gets and ahead of them.
    pub read_bytes: u64,
    /// Bytes of rows that seeds were expanded into: they were not read, and are in memory as the others are.
    pub expanded_bytes: u64,
    /// Bytes of rows that were read or expanded ahead.
    pub prefetched_bytes: u64,
    /// Times that rows of a key were given up for others.
    pub evictions: u64,
    pub evicted_bytes: u64,
    /// Bytes given up because their key was imported again.
    pub dropped_bytes: u64,
    /// Gets that the attached future did not have.
    pub unplanned: u64,
    /// Reads ahead that failed; the get that needs the rows tries again, and says why.
    pub prefetch_failures: u64,
    /// Seconds in gets, summed over threads: the cost of the keys for the program.
    pub wait_s: f64,
    /// Seconds of reading, expanding and checking, ahead or not.
    pub read_s: f64,
    pub resident_bytes: u64,
    pub peak_resident_bytes: u64,
}
