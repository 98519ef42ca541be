//! What a run took.

use super::histogram::Histogram;
use super::observer::{Observer, Recording};
use super::spec::RunSpec;
use super::state::Run;
use crate::{Error, Watch};

/// What one consumer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerResult {
    pub chunks: u64,
    pub busy: i64,
    /// Time in which it was idle and only the metadata of its next chunk was missing.
    pub wait: i64,
}

/// Times in picoseconds. Busy times are sums over all units of a kind, except those of buses.
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
    pub retries: u64,
    pub table_reads: u64,
    pub written_pages: u64,
    pub moved_pages: u64,
    pub erases: u64,
    pub max_erases: u32,
}

/// Plays a run to its end.
///
/// # Errors
/// A rule of the spec that is broken, the end of the clock, an account that does not add up, or the
/// watch's wish to stop.
pub fn play(spec: &RunSpec, watch: &mut Watch<'_>) -> Result<RunResult, Error> {
    observed(spec, (), watch).map(|(result, ())| result)
}

/// As [`play`], and when units were busy: the first `most` intervals, in the order in which they were planned. No steady
/// state is jumped.
///
/// # Errors
/// Those of [`play`].
pub fn play_recorded(spec: &RunSpec, most: usize, watch: &mut Watch<'_>) -> Result<(RunResult, Recording), Error> {
    observed(&RunSpec { jump: false, ..spec.clone() }, Recording::new(most), watch)
}

fn observed<O: Observer>(spec: &RunSpec, observer: O, watch: &mut Watch<'_>) -> Result<(RunResult, O), Error> {
    spec.check()?;
    let mut run = Run::new(spec, observer);
    run.play(watch)?;
    let translation = run.translation.as_ref();
    let result = RunResult {
        pages: run.delivered,
        scan_end: run.scan_end,
        end: run.now,
        events: run.events,
        jumped_events: run.jumped_events,
        period_pages: run.period_pages,
        bus_busy: run.buses.iter().map(|bus| bus.taken).collect(),
        array_busy: run.array_busy,
        dram_busy: run.servers.dram.busy,
        edram_busy: run.servers.edram.busy,
        upload_busy: run.servers.upload.busy,
        download_busy: run.servers.download.busy,
        aggregator_busy: run.servers.aggregator.busy,
        consumers: run
            .consumers
            .iter()
            .map(|each| ConsumerResult { chunks: each.chunks, busy: each.busy, wait: each.wait })
            .collect(),
        outputs: run.output_uploads[0],
        final_outputs: run.output_uploads[1],
        retries: run.retries,
        table_reads: run.table.as_ref().map_or(0, |table| table.reads),
        written_pages: translation.map_or(0, |each| each.host_pages),
        moved_pages: translation.map_or(0, |each| each.moved_pages),
        erases: translation.map_or(0, |each| each.erases),
        max_erases: translation.map_or(0, |each| each.max_erases),
        latency: run.latency,
        read_latency: run.read_latency,
        write_latency: run.write_latency,
    };
    Ok((result, run.observer))
}
