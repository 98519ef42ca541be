//! Runs on small drives: jumps equal events, accounts are even, and impossible specs are refused.

use super::layout::below;
use super::{
    Behaviour, ConsumerSpec, Geometry, Lane, MappingSpec, RunResult, RunSpec, Timing, TrafficSpec, play, play_recorded,
};
use crate::Error;

const QUIET: TrafficSpec = TrafficSpec { interval: 0, span_pages: 0, requests: 0, seed: 0 };

fn small() -> RunSpec {
    RunSpec {
        geometry: Geometry {
            channels: 4,
            chips_per_channel: 2,
            dies_per_chip: 2,
            planes_per_die: 2,
            blocks_per_plane: 64,
            pages_per_block: 32,
            spare_blocks: 8,
            order: "pcwd".into(),
        },
        timing: Timing {
            read_command: 290,
            further_plane: 650,
            sense: 30_000,
            data_out: 20_480,
            program_command: 290,
            data_in: 20_480,
            program: 390_000,
            erase_command: 290,
            erase: 3_800_000,
            correction: 0,
            dram: 1_280,
            upload: 4_550,
            download: 4_550,
        },
        behaviour: Behaviour {
            convoy: false,
            multi_plane: true,
            cache_read: false,
            retry: 0,
            max_retries: 3,
            host_buffer_pages: 64,
        },
        first_page: 0,
        pages: 20_000,
        random_span: 0,
        queue_depth: 64,
        seed: 1,
        to_host: false,
        consumers: Vec::new(),
        host_consumer: None,
        aggregate: None,
        mapping: MappingSpec { cached_pages: 0, entries: 64, ahead: true },
        reads: QUIET,
        writes: QUIET,
        collect_below: 3,
        wear_gap: 0,
        jump: false,
    }
}

fn run(spec: &RunSpec) -> RunResult {
    play(spec, &mut || false).unwrap()
}

/// A number from `low` to `high`, by the case and a running number.
struct Draw(u64, u64);

impl Draw {
    fn from(&mut self, low: u64, high: u64) -> u64 {
        self.1 += 1;
        low + below(high - low + 1, self.0, self.1)
    }

    fn u32(&mut self, low: u64, high: u64) -> u32 {
        self.from(low, high) as u32
    }

    fn time(&mut self, high: u64) -> i64 {
        // Round times make ties, which are where an order could be wrong.
        let step = [1, 100, 1000][self.from(0, 2) as usize];
        (self.from(0, high) / step * step) as i64
    }

    fn chance(&mut self) -> bool {
        self.from(0, 1) == 1
    }
}

fn drawn(case: u64) -> RunSpec {
    let d = &mut Draw(case, 0);
    let orders = ["pcwd", "cwdp", "wdcp", "dpcw", "cpwd"];
    let mut spec = small();
    spec.geometry = Geometry {
        channels: d.u32(1, 4),
        chips_per_channel: d.u32(1, 3),
        dies_per_chip: d.u32(1, 2),
        planes_per_die: d.u32(1, 3),
        blocks_per_plane: d.u32(40, 60),
        pages_per_block: d.u32(20, 40),
        spare_blocks: d.u32(6, 9),
        order: orders[d.from(0, 4) as usize].into(),
    };
    let sense = 1 + d.time(40_000);
    spec.timing = Timing {
        read_command: d.time(500),
        further_plane: d.time(800),
        sense,
        data_out: d.time(20_000),
        correction: if d.chance() { 0 } else { d.time(9_000) },
        dram: d.time(3_000),
        upload: d.time(9_000),
        ..spec.timing
    };
    spec.behaviour.convoy = d.chance();
    spec.behaviour.multi_plane = d.chance();
    spec.behaviour.cache_read = d.chance();
    spec.behaviour.host_buffer_pages = d.u32(1, 40);
    spec.queue_depth = d.u32(1, 80);
    spec.first_page = d.from(0, 50);
    spec.pages = d.from(1, spec.geometry.logical_pages() - spec.first_page);
    let consumer = |d: &mut Draw, channels: Vec<u32>| {
        let chunk_pages = d.u32(1, 7);
        ConsumerSpec {
            channels,
            chunk_pages,
            buffer_pages: chunk_pages + d.u32(0, 20),
            serve: d.time(90_000),
            dram: d.time(3_000),
            edram: d.time(2_000),
            upload: d.time(1_000),
            final_upload: d.time(5_000),
        }
    };
    match d.from(0, 3) {
        0 => {}
        1 => spec.to_host = true,
        2 => {
            spec.to_host = true;
            spec.host_consumer = Some(consumer(d, Vec::new()));
        }
        _ => {
            let groups = d.u32(1, u64::from(spec.geometry.channels));
            spec.consumers = (0..groups)
                .map(|group| consumer(d, (group..spec.geometry.channels).step_by(groups as usize).collect()))
                .collect();
            spec.aggregate = d.chance().then(|| d.time(2_000));
        }
    }
    if d.from(0, 3) == 0 {
        spec.mapping = MappingSpec { cached_pages: d.u32(1, 4), entries: d.u32(8, 64), ahead: d.chance() };
    }
    spec
}

#[test]
fn a_run_that_jumps_equals_one_that_plays_every_event() {
    let mut jumped = 0;
    for case in 0..120 {
        let spec = drawn(case);
        let played = run(&spec);
        let mut short = run(&RunSpec { jump: true, ..spec.clone() });
        jumped += u32::from(short.jumped_events > 0);
        short.jumped_events = 0;
        short.period_pages = None;
        assert_eq!(short, played, "case {case}: {spec:?}");
    }
    assert!(jumped > 60, "only {jumped} of 120 runs jumped");
}

#[test]
fn a_table_in_the_flash_jumps_as_well() {
    let mut spec = small();
    spec.geometry.channels = 1;
    spec.geometry.chips_per_channel = 1;
    spec.mapping = MappingSpec { cached_pages: 2, entries: 64, ahead: true };
    spec.pages = spec.geometry.logical_pages();
    let played = run(&spec);
    assert_eq!(played.table_reads, spec.pages.div_ceil(64));
    let mut short = run(&RunSpec { jump: true, ..spec.clone() });
    assert!(short.jumped_events > 0);
    short.jumped_events = 0;
    short.period_pages = None;
    assert_eq!(short, played);
}

#[test]
fn the_same_spec_gives_the_same_result() {
    for case in 0..20 {
        let mut spec = drawn(case);
        spec.random_span = spec.geometry.logical_pages() - spec.first_page;
        spec.behaviour.retry = 1 << 61;
        spec.reads = TrafficSpec { interval: 50_000, span_pages: 500, requests: 0, seed: case };
        spec.writes = TrafficSpec { interval: 90_000, span_pages: 300, requests: 0, seed: case };
        assert_eq!(run(&spec), run(&spec));
    }
}

#[test]
fn every_page_of_mixed_traffic_is_accounted_for() {
    for case in 0..60 {
        let mut spec = drawn(1000 + case);
        let logical = spec.geometry.logical_pages();
        spec.behaviour.retry = 1 << 62;
        spec.timing.erase = 400_000;
        spec.reads = TrafficSpec { interval: 70_000, span_pages: logical, requests: 300, seed: case };
        spec.writes = TrafficSpec { interval: 30_000, span_pages: logical / 3 + 1, requests: 4000, seed: case };
        spec.wear_gap = (case % 3) as u32 * 2;
        // `account` has compared every count and every place of a written page.
        let got = run(&spec);
        assert_eq!(got.pages, spec.pages);
        assert!(got.read_latency.count <= 300 && got.written_pages <= got.write_latency.count);
        let alone = run(&RunSpec { pages: 0, random_span: 0, ..spec });
        assert_eq!((alone.read_latency.count, alone.written_pages), (300, 4000));
        assert!(alone.retries > 0);
    }
}

#[test]
fn what_is_recorded_adds_up_to_what_is_counted() {
    for case in 0..40 {
        let mut spec = drawn(2000 + case);
        let logical = spec.geometry.logical_pages();
        spec.behaviour.retry = 1 << 62;
        spec.reads = TrafficSpec { interval: 70_000, span_pages: logical, requests: 30, seed: case };
        spec.writes = TrafficSpec { interval: 90_000, span_pages: logical / 3 + 1, requests: 900, seed: case };
        let expected = run(&spec);
        let (got, seen) = play_recorded(&spec, usize::MAX, &mut || false).unwrap();
        assert_eq!((&got, seen.left_out), (&expected, 0));
        // Other traffic goes on behind the scan, and is not recorded.
        assert!(seen.intervals.iter().all(|each| each.start < got.scan_end && each.end <= got.scan_end));
        let busy = |lane: &dyn Fn(Lane, &str) -> bool| -> i64 {
            let those = seen.intervals.iter().filter(|each| lane(each.lane, each.work));
            those.map(|each| each.end - each.start).sum()
        };
        let dies = i64::from(spec.geometry.channels * spec.geometry.dies_per_channel());
        let erases = i64::try_from(got.erases).unwrap();
        assert!(erases * spec.timing.erase <= got.array_busy && got.array_busy <= dies * got.scan_end);
        for (channel, &taken) in got.bus_busy.iter().enumerate() {
            assert_eq!(busy(&|lane, _| lane == Lane::Channel(channel as u32)), taken);
        }
        assert_eq!(busy(&|lane, _| matches!(lane, Lane::Die(_))), got.array_busy);
        for (name, counted) in [
            ("dram", got.dram_busy),
            ("edram", got.edram_busy),
            ("upload", got.upload_busy),
            ("download", got.download_busy),
            ("aggregator", got.aggregator_busy),
        ] {
            assert_eq!(busy(&|_, work| work == name), counted, "{name}");
        }
        let (_, short) = play_recorded(&spec, 100, &mut || false).unwrap();
        assert_eq!(short.intervals, seen.intervals[..short.intervals.len()]);
        assert_eq!(short.left_out + short.intervals.len() as u64, seen.intervals.len() as u64);
    }
}

#[test]
fn traffic_that_outlasts_a_scan_is_not_counted_in_it() {
    let mut spec = RunSpec { pages: 500, to_host: true, ..small() };
    let alone = run(&spec);
    // No request comes before the scan is over.
    let late = TrafficSpec { interval: 2 * alone.scan_end, span_pages: 100, requests: 0, seed: 3 };
    (spec.reads, spec.writes) = (late.clone(), late);
    let quiet = run(&spec);
    assert_eq!(RunResult { events: alone.events, ..quiet.clone() }, alone);
    assert_eq!(quiet.events, alone.events + 2, "arrivals of nothing");
    (spec.reads.requests, spec.writes.requests) = (7, 7);
    let more = run(&spec);
    assert_eq!(RunResult { events: alone.events, end: alone.end, ..more.clone() }, alone);
    assert!(more.end > 14 * alone.scan_end, "and they are played");
}

#[test]
fn a_run_ends_with_its_last_request_not_with_the_next_one_s_time() {
    let reads = TrafficSpec { interval: 1_000_000_000, span_pages: 100, requests: 2, seed: 3 };
    let got = run(&RunSpec { pages: 0, reads, ..small() });
    assert_eq!(got.read_latency.count, 2);
    assert_eq!(got.end, 2_000_000_000 + got.read_latency.max);
}

#[test]
fn writes_that_fill_the_flash_are_collected_and_levelled() {
    let mut spec = small();
    spec.geometry.channels = 1;
    spec.geometry.chips_per_channel = 1;
    spec.geometry.dies_per_chip = 1;
    spec.pages = 0;
    let logical = spec.geometry.logical_pages();
    // All writes fall on an eighth of the drive: without levelling the rest is never erased.
    spec.writes = TrafficSpec { interval: 300_000, span_pages: logical / 8, requests: 40_000, seed: 9 };
    let hot = run(&spec);
    assert!(hot.moved_pages < hot.written_pages, "hot pages collect with few moves");
    spec.wear_gap = 8;
    let even = run(&spec);
    assert!(even.max_erases < hot.max_erases / 2, "{even:?} and {hot:?}");
    assert!(even.moved_pages > hot.moved_pages, "and that is paid with moves");
}

#[test]
fn writes_hold_up_reads_and_reads_writes() {
    let mut spec = small();
    spec.to_host = true;
    spec.timing.upload = 1_000;
    let alone = run(&spec);
    spec.writes = TrafficSpec { interval: 200_000, span_pages: 5_000, requests: 0, seed: 2 };
    let mixed = run(&spec);
    assert!(mixed.scan_end > alone.scan_end * 101 / 100, "{} and {}", mixed.scan_end, alone.scan_end);
    assert!(mixed.write_latency.count > 0 && mixed.write_latency.mean() < mixed.latency.mean());
}

#[test]
fn a_watch_stops_a_run() {
    let spec = RunSpec { pages: 28_000, queue_depth: 1, ..small() };
    assert!(play(&spec, &mut || true).is_ok(), "short runs are not asked about");
    let spec = RunSpec { random_span: 100, pages: 1 << 40, ..small() };
    assert_eq!(play(&spec, &mut || true), Err(Error::Interrupted));
}

#[test]
fn time_past_the_clock_is_an_error() {
    let mut spec = RunSpec { to_host: true, ..small() };
    spec.timing.upload = 1 << 52;
    assert!(matches!(play(&spec, &mut || false), Err(Error::ClockOverflow { .. })));
}

fn refused(change: impl FnOnce(&mut RunSpec), what: &str) {
    let mut spec = small();
    change(&mut spec);
    match play(&spec, &mut || false) {
        Err(Error::Value { what: got, .. }) => assert!(got.contains(what), "{got} is not {what}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn impossible_specs_are_refused_by_name() {
    refused(|spec| spec.geometry.channels = 0, "channels");
    refused(|spec| spec.geometry.channels = 65, "channels");
    refused(|spec| spec.geometry.planes_per_die = 0, "planes_per_die");
    refused(|spec| spec.geometry.dies_per_chip = 40, "dies per channel");
    refused(|spec| spec.geometry.spare_blocks = 64, "spare_blocks");
    refused(|spec| spec.geometry.order = "pcwc".into(), "order");
    refused(|spec| spec.timing.sense = -1, "sense");
    refused(|spec| spec.timing.upload = i64::MAX, "upload");
    refused(|spec| spec.queue_depth = 0, "queue_depth");
    refused(|spec| spec.pages = u64::MAX, "the scan's last page");
    refused(|spec| spec.first_page = u64::MAX, "the scan's last page");
    refused(|spec| spec.pages = spec.geometry.logical_pages() + 1, "the scan's last page");
    refused(|spec| spec.behaviour.host_buffer_pages = 0, "host_buffer_pages");
    refused(|spec| spec.mapping = MappingSpec { cached_pages: 1, entries: 0, ahead: false }, "entries");
    let consumer = |channels: &[u32]| ConsumerSpec {
        channels: channels.to_vec(),
        chunk_pages: 4,
        buffer_pages: 8,
        serve: 1,
        dram: 0,
        edram: 0,
        upload: 0,
        final_upload: 0,
    };
    refused(|spec| spec.consumers = vec![consumer(&[0, 1, 2])], "channel");
    refused(|spec| spec.consumers = vec![consumer(&[0, 1, 2, 3]), consumer(&[3])], "consumers[1].channels");
    refused(|spec| spec.consumers = vec![consumer(&[0, 1, 2, 3, 4])], "consumers[0].channels");
    refused(
        |spec| spec.consumers = vec![ConsumerSpec { buffer_pages: 3, ..consumer(&[0, 1, 2, 3]) }],
        "consumers[0].buffer_pages",
    );
    refused(
        |spec| spec.consumers = vec![ConsumerSpec { chunk_pages: 0, ..consumer(&[0, 1, 2, 3]) }],
        "consumers[0].chunk_pages",
    );
    refused(|spec| (spec.to_host, spec.consumers) = (true, vec![consumer(&[0, 1, 2, 3])]), "to_host");
    refused(|spec| spec.host_consumer = Some(consumer(&[])), "to_host");
    refused(|spec| spec.reads = TrafficSpec { interval: 1, ..QUIET }, "reads.span_pages");
    let writes = TrafficSpec { interval: 1000, span_pages: 10, ..QUIET };
    refused(|spec| (spec.writes, spec.geometry.spare_blocks) = (writes.clone(), 5), "spare_blocks");
    refused(|spec| (spec.writes, spec.collect_below) = (writes.clone(), 1), "collect_below");
}
