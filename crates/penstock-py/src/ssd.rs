//! Bindings of the simulated solid-state drive. The input is an object with the attributes that are
//! named here (`penstock.lab.instorage.flash.input.EngineInput`).

use penstock_sim::{self as sim, ssd};
use pyo3::prelude::*;

use crate::detached;
use crate::errors::Arg;

#[derive(FromPyObject)]
struct Consumer {
    channels: Vec<u32>,
    chunk_pages: u32,
    buffer_pages: u32,
    serve: i64,
    dram: i64,
    edram: i64,
    upload: i64,
    final_upload: i64,
}

#[derive(FromPyObject)]
struct Traffic {
    interval: i64,
    span_pages: u64,
    requests: u64,
    seed: u64,
}

#[derive(FromPyObject)]
pub struct DriveInput {
    channels: u32,
    chips_per_channel: u32,
    dies_per_chip: u32,
    planes_per_die: u32,
    blocks_per_plane: u32,
    pages_per_block: u32,
    spare_blocks: u32,
    order: String,
    read_command: i64,
    further_plane: i64,
    sense: i64,
    data_out: i64,
    program_command: i64,
    data_in: i64,
    program: i64,
    erase_command: i64,
    erase: i64,
    correction: i64,
    dram: i64,
    upload: i64,
    download: i64,
    convoy: bool,
    multi_plane: bool,
    cache_read: bool,
    retry: u64,
    max_retries: u32,
    host_buffer_pages: u32,
    first_page: u64,
    pages: u64,
    random_span: u64,
    queue_depth: u32,
    seed: u64,
    to_host: bool,
    consumers: Vec<Consumer>,
    host_consumer: Option<Consumer>,
    aggregate: Option<i64>,
    cached_pages: u32,
    entries: u32,
    ahead: bool,
    reads: Traffic,
    writes: Traffic,
    collect_below: u32,
    wear_gap: u32,
    jump: bool,
}

impl From<Consumer> for ssd::ConsumerSpec {
    fn from(given: Consumer) -> Self {
        let Consumer { channels, chunk_pages, buffer_pages, serve, dram, edram, upload, final_upload } = given;
        Self { channels, chunk_pages, buffer_pages, serve, dram, edram, upload, final_upload }
    }
}

impl From<Traffic> for ssd::TrafficSpec {
    fn from(given: Traffic) -> Self {
        let Traffic { interval, span_pages, requests, seed } = given;
        Self { interval, span_pages, requests, seed }
    }
}

impl From<DriveInput> for ssd::RunSpec {
    fn from(given: DriveInput) -> Self {
        Self {
            geometry: ssd::Geometry {
                channels: given.channels,
                chips_per_channel: given.chips_per_channel,
                dies_per_chip: given.dies_per_chip,
                planes_per_die: given.planes_per_die,
                blocks_per_plane: given.blocks_per_plane,
                pages_per_block: given.pages_per_block,
                spare_blocks: given.spare_blocks,
                order: given.order,
            },
            timing: ssd::Timing {
                read_command: given.read_command,
                further_plane: given.further_plane,
                sense: given.sense,
                data_out: given.data_out,
                program_command: given.program_command,
                data_in: given.data_in,
                program: given.program,
                erase_command: given.erase_command,
                erase: given.erase,
                correction: given.correction,
                dram: given.dram,
                upload: given.upload,
                download: given.download,
            },
            behaviour: ssd::Behaviour {
                convoy: given.convoy,
                multi_plane: given.multi_plane,
                cache_read: given.cache_read,
                retry: given.retry,
                max_retries: given.max_retries,
                host_buffer_pages: given.host_buffer_pages,
            },
            first_page: given.first_page,
            pages: given.pages,
            random_span: given.random_span,
            queue_depth: given.queue_depth,
            seed: given.seed,
            to_host: given.to_host,
            consumers: given.consumers.into_iter().map(Into::into).collect(),
            host_consumer: given.host_consumer.map(Into::into),
            aggregate: given.aggregate,
            mapping: ssd::MappingSpec { cached_pages: given.cached_pages, entries: given.entries, ahead: given.ahead },
            reads: given.reads.into(),
            writes: given.writes.into(),
            collect_below: given.collect_below,
            wear_gap: given.wear_gap,
            jump: given.jump,
        }
    }
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
pub struct DriveLatency {
    count: u64,
    mean_ps: Option<f64>,
    p50_ps: Option<i64>,
    p99_ps: Option<i64>,
    max_ps: Option<i64>,
}

impl DriveLatency {
    fn new(py: Python<'_>, from: &ssd::Histogram) -> PyResult<Py<Self>> {
        let latency = Self {
            count: from.count,
            mean_ps: from.mean(),
            p50_ps: from.percentile(0.5),
            p99_ps: from.percentile(0.99),
            max_ps: (from.count > 0).then_some(from.max),
        };
        Py::new(py, latency)
    }
}

/// Lane, its number, work, start and end, and the page that is sent.
type Interval = (&'static str, u32, &'static str, i64, i64, Option<u64>);

fn interval(seen: &ssd::Interval) -> Interval {
    let (lane, number) = match seen.lane {
        ssd::Lane::Channel(channel) => ("channel", channel),
        ssd::Lane::Die(die) => ("die", die),
        ssd::Lane::Drive => ("drive", 0),
    };
    (lane, number, seen.work, seen.start, seen.end, seen.page)
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
pub struct DriveRun {
    pages: u64,
    scan_end_ps: i64,
    end_ps: i64,
    latency: Py<DriveLatency>,
    read_latency: Py<DriveLatency>,
    write_latency: Py<DriveLatency>,
    events: u64,
    jumped_events: u64,
    period_pages: Option<u64>,
    bus_busy_ps: Vec<i64>,
    array_busy_ps: i64,
    dram_busy_ps: i64,
    edram_busy_ps: i64,
    upload_busy_ps: i64,
    download_busy_ps: i64,
    aggregator_busy_ps: i64,
    chunks: Vec<u64>,
    consumer_busy_ps: Vec<i64>,
    consumer_wait_ps: Vec<i64>,
    outputs: u64,
    final_outputs: u64,
    retries: u64,
    table_reads: u64,
    written_pages: u64,
    moved_pages: u64,
    erases: u64,
    max_erases: u32,
    intervals: Option<Vec<Interval>>,
    intervals_left_out: u64,
}

#[pyfunction]
#[pyo3(signature = (given, max_intervals = None))]
pub fn play_drive(py: Python<'_>, given: Arg<DriveInput>, max_intervals: Option<usize>) -> PyResult<DriveRun> {
    let spec = ssd::RunSpec::from(given.of::<sim::Error>("the drive")?);
    let (run, seen) = detached(py, |watch| match max_intervals {
        None => ssd::play(&spec, watch).map(|run| (run, None)),
        Some(most) => ssd::play_recorded(&spec, most, watch).map(|(run, seen)| (run, Some(seen))),
    })?;
    Ok(DriveRun {
        pages: run.pages,
        scan_end_ps: run.scan_end,
        end_ps: run.end,
        latency: DriveLatency::new(py, &run.latency)?,
        read_latency: DriveLatency::new(py, &run.read_latency)?,
        write_latency: DriveLatency::new(py, &run.write_latency)?,
        events: run.events,
        jumped_events: run.jumped_events,
        period_pages: run.period_pages,
        bus_busy_ps: run.bus_busy,
        array_busy_ps: run.array_busy,
        dram_busy_ps: run.dram_busy,
        edram_busy_ps: run.edram_busy,
        upload_busy_ps: run.upload_busy,
        download_busy_ps: run.download_busy,
        aggregator_busy_ps: run.aggregator_busy,
        chunks: run.consumers.iter().map(|each| each.chunks).collect(),
        consumer_busy_ps: run.consumers.iter().map(|each| each.busy).collect(),
        consumer_wait_ps: run.consumers.iter().map(|each| each.wait).collect(),
        outputs: run.outputs,
        final_outputs: run.final_outputs,
        retries: run.retries,
        table_reads: run.table_reads,
        written_pages: run.written_pages,
        moved_pages: run.moved_pages,
        erases: run.erases,
        max_erases: run.max_erases,
        intervals_left_out: seen.as_ref().map_or(0, |seen| seen.left_out),
        intervals: seen.map(|seen| seen.intervals.iter().map(interval).collect()),
    })
}
