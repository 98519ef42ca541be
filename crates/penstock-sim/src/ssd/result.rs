//! What a run took.

use super::histogram::Histogram;

/// What one consumer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerResult {
    pub chunks: u64,
    pub busy: i64,
    /// Time in which it was idle and only the metadata of its next chunk was missing.
    pub wait: i64,
}

/// Times in picoseconds. Busy times are sums over all units of a kind, except those of buses.
///
/// All counts and busy times but those of events cover the time until `scan_end`, or until `end` where nothing is
/// scanned: what has ended by then, and the part by then of what goes on. Other traffic's rest is played, and not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    pub pages: u64,
    /// When the last page of the scan was read, computed on and its output sent.
    pub scan_end: i64,
    /// When the last event happened.
    pub end: i64,
    pub latency: Histogram,
    pub read_latency: Histogram,
    pub write_latency: Histogram,
    pub events: u64,
    /// Of `events`, the jumped ones.
    pub jumped_events: u64,
    pub period_pages: Option<u64>,
    /// Of each channel's bus.
    pub bus_busy: Vec<i64>,
    pub array_busy: i64,
    pub dram_busy: i64,
    pub edram_busy: i64,
    pub upload_busy: i64,
    pub download_busy: i64,
    pub aggregator_busy: i64,
    pub consumers: Vec<ConsumerResult>,
    /// Outputs of chunks, and last outputs, that were sent.
    pub outputs: u64,
    pub final_outputs: u64,
    /// Senses that failed error correction.
    pub retries: u64,
    pub table_reads: u64,
    pub written_pages: u64,
    pub moved_pages: u64,
    pub erases: u64,
    pub max_erases: u32,
}

impl RunResult {
    /// The time that all counts cover.
    pub(crate) fn counted_until(&self) -> i64 {
        if self.pages > 0 { self.scan_end } else { self.end }
    }
}
