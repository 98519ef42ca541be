//! Jumps over a steady state. At the end of instants in which the scan has asked for another row of pages, the whole
//! state is written down relative to now and to the scan's position. If the same state comes again, the steps between
//! will repeat too, as long as pages are left. The run then jumps over whole periods, and every count grows by the same
//! multiple of its growth in one.
//!
//! States are compared word by word, not by a hash. The kept state follows Brent's rule (1980): one, and a later one
//! after 1, 2, 4, … comparisons without a match.

use super::consumer::Consumer;
use super::histogram::Histogram;
use super::jobs::{Class, Job, Queue};
use super::source::Stream;
use super::spec::RunSpec;
use super::state::{OTHER, Run, Servers};

/// Larger tables are not written down at each row.
const MOST_TABLE_PAGES: u32 = 4096;

/// All that grows while a state comes again.
#[derive(Debug, Clone)]
struct Counts {
    now: i64,
    asked: u64,
    delivered: u64,
    streams: Vec<Stream>,
    bus_taken: Vec<i64>,
    array_busy: i64,
    servers: Servers,
    consumers: Vec<Consumer>,
    outputs_made: u64,
    outputs_sent: u64,
    output_uploads: [u64; 2],
    table_reads: u64,
    events: u64,
    latency: Histogram,
}

pub(crate) struct Period {
    /// Pages asked for at which to look again.
    pub(crate) look_at: u64,
    every: u64,
    state: Vec<i64>,
    kept: Vec<i64>,
    counts: Option<Counts>,
    /// Comparisons with the kept state, and after how many it is replaced.
    compared: u64,
    patience: u64,
}

impl Period {
    pub(crate) fn new(spec: &RunSpec, width: u64) -> Self {
        let steady = spec.jump
            && !spec.is_random()
            && spec.behaviour.retry == 0
            && spec.reads.interval == 0
            && spec.writes.interval == 0
            && spec.mapping.cached_pages <= MOST_TABLE_PAGES;
        let every = width * u64::from(spec.queue_depth).div_ceil(width);
        Self {
            look_at: if steady { every } else { u64::MAX },
            every,
            state: Vec::new(),
            kept: Vec::new(),
            counts: None,
            compared: 0,
            patience: 1,
        }
    }

    /// Looks whether the state has come before; if so, jumps, and never looks again.
    pub(crate) fn look<O>(&mut self, run: &mut Run<'_, O>) {
        self.look_at = (run.source.asked / self.every + 1) * self.every;
        self.state.clear();
        write_state(run, &mut self.state);
        if let Some(counts) = &self.counts
            && self.state == self.kept
        {
            jump(run, counts);
            self.look_at = u64::MAX;
            return;
        }
        self.compared += 1;
        if self.counts.is_none() || self.compared == self.patience {
            self.compared = 0;
            self.patience *= 2;
            std::mem::swap(&mut self.kept, &mut self.state);
            self.counts = Some(count(run));
        }
    }
}

fn count<O>(run: &Run<'_, O>) -> Counts {
    Counts {
        now: run.now,
        asked: run.source.asked,
        delivered: run.delivered,
        streams: run.source.streams.clone(),
        bus_taken: run.buses.iter().map(|bus| bus.taken).collect(),
        array_busy: run.array_busy,
        servers: run.servers.clone(),
        consumers: run.consumers.clone(),
        outputs_made: run.outputs_made,
        outputs_sent: run.outputs_sent,
        output_uploads: run.output_uploads,
        table_reads: run.table.as_ref().map_or(0, |table| table.reads),
        events: run.events,
        latency: run.latency.clone(),
    }
}

/// The state, in words: two runs with the same words go on in the same way.
fn write_state<O>(run: &Run<'_, O>, state: &mut Vec<i64>) {
    let source = &run.source;
    state.push(source.host_room);
    source.streams.iter().for_each(|stream| state.extend(stream.state()));
    for (kind, time, about) in run.calendar.all() {
        state.extend([kind as i64, time - run.now]);
        use super::calendar::Kind::{Corrected, Dram, Sent, Upload};
        if matches!(kind, Corrected | Dram | Sent | Upload) && about & OTHER == 0 {
            write_job(run, about, state);
        } else {
            state.push(about.into());
        }
    }
    for server in [&run.servers.dram, &run.servers.edram, &run.servers.upload, &run.servers.aggregator] {
        state.push((server.free_at - run.now).max(0));
    }
    for die in &run.dies {
        let flags = die.array as i64 | i64::from(die.sending) << 8 | i64::from(die.writes_turn) << 9;
        state.push(flags);
        for queue in [&die.reads, &die.inside, &die.out] {
            write_queue(run, queue, state);
        }
    }
    for bus in &run.buses {
        let turns = i64::from(bus.last_command) | i64::from(bus.last_send) << 8 | i64::from(bus.busy) << 16;
        let fill = i64::from(bus.fill_next) << 17;
        state.extend([turns | fill, bus.commands as i64, bus.sends as i64, bus.blocked as i64]);
    }
    state.push(run.host_room.free);
    state.extend(run.host_room.waiting.iter().map(|&channel| i64::from(channel)));
    for consumer in &run.consumers {
        let fetch = if consumer.fetching > 0 {
            let idle = if consumer.serving == 0 { consumer.idle_since } else { i64::MIN };
            run.now - consumer.fetching_since.max(idle)
        } else {
            -1
        };
        state.extend([consumer.room.free, consumer.loose.into(), consumer.ready as i64, consumer.fetching.into()]);
        state.extend([fetch, consumer.fetched.into(), consumer.serving.into()]);
        state.push(consumer.room.waiting.len() as i64);
        state.extend(consumer.room.waiting.iter().map(|&channel| i64::from(channel)));
    }
    if let Some(table) = &run.table {
        let page = table_page(run);
        state.extend([(page % run.layout.width()) as i64]);
        for stream in &source.streams {
            state.push((u64::from(stream.row) * run.layout.width()) as i64 - (page * table.entries) as i64);
        }
        // Near the scan's end nothing is read ahead; the jump ends before that matters.
        for entry in table.by_age() {
            state.extend([entry.page as i64 - page as i64, i64::from(entry.is_loading)]);
            write_queue(run, &entry.waiting, state);
        }
    }
}

fn write_queue<O>(run: &Run<'_, O>, queue: &Queue, state: &mut Vec<i64>) {
    for job in queue.iter(&run.jobs) {
        write_content(run, job, state);
    }
    state.push(-1);
}

fn write_job<O>(run: &Run<'_, O>, at: u32, state: &mut Vec<i64>) {
    write_content(run, &run.jobs[at], state);
}

/// Page of the table in which the first stream is; 0 without a table.
fn table_page<O>(run: &Run<'_, O>) -> u64 {
    let position = u64::from(run.source.streams[0].row) * run.layout.width();
    run.table.as_ref().map_or(0, |table| position / table.entries)
}

fn write_content<O>(run: &Run<'_, O>, job: &Job, state: &mut Vec<i64>) {
    let place = i64::from(job.die) | i64::from(job.plane) << 16 | (job.class as i64) << 24;
    state.push(place);
    // Rows of data move with the stream; the table's pages go by their number.
    state.push(match job.class {
        Class::Table => job.logical as i64 - table_page(run) as i64,
        _ => i64::from(job.row) - i64::from(run.source.streams[run.source.stream_of(job.channel)].row),
    });
    state.push(run.now - job.since);
}

/// Goes on as many whole periods later as pages are left for.
fn jump<O>(run: &mut Run<'_, O>, since: &Counts) {
    let pages = run.source.asked - since.asked;
    // A table's last page is not followed by another: the scan's end is played.
    let played = run.table.as_ref().map_or(0, |table| 2 * table.entries);
    let left = |(stream, before): (&Stream, &Stream)| {
        let asked = stream.asked - before.asked;
        (stream.pages - stream.asked).saturating_sub(played).checked_div(asked).unwrap_or(u64::MAX)
    };
    let times = run.source.streams.iter().zip(&since.streams).map(left).min().unwrap_or(0);
    if times == 0 || times == u64::MAX {
        return;
    }
    let signed = times as i64;
    let by = (run.now - since.now) * signed;
    run.period_pages = Some(pages);
    run.jumped_events = (run.events - since.events) * times;
    run.events += run.jumped_events;
    run.latency.repeat(&since.latency, times);
    run.source.asked += pages * times;
    run.delivered += (run.delivered - since.delivered) * times;
    for (bus, before) in run.buses.iter_mut().zip(&since.bus_taken) {
        bus.taken += (bus.taken - before) * signed;
    }
    run.array_busy += (run.array_busy - since.array_busy) * signed;
    for (server, before) in [
        (&mut run.servers.dram, &since.servers.dram),
        (&mut run.servers.edram, &since.servers.edram),
        (&mut run.servers.upload, &since.servers.upload),
        (&mut run.servers.aggregator, &since.servers.aggregator),
    ] {
        server.busy += (server.busy - before.busy) * signed;
        server.free_at += by;
    }
    for (consumer, before) in run.consumers.iter_mut().zip(&since.consumers) {
        consumer.chunks += (consumer.chunks - before.chunks) * times;
        consumer.busy += (consumer.busy - before.busy) * signed;
        consumer.wait += (consumer.wait - before.wait) * signed;
        consumer.idle_since += by;
        consumer.fetching_since += by;
    }
    run.outputs_made += (run.outputs_made - since.outputs_made) * times;
    run.outputs_sent += (run.outputs_sent - since.outputs_sent) * times;
    for (uploads, before) in run.output_uploads.iter_mut().zip(since.output_uploads) {
        *uploads += (*uploads - before) * times;
    }
    if let Some(table) = &mut run.table {
        table.reads += (table.reads - since.table_reads) * times;
    }
    move_pages(run, since, times, by);
    run.now += by;
    run.scan_end += by;
    run.calendar.shift(by);
}

/// Moves the scan, the table's pages and all active work forward by `times` periods, and by `by` in time.
fn move_pages<O>(run: &mut Run<'_, O>, since: &Counts, times: u64, by: i64) {
    let width = run.layout.width();
    let rows: Vec<u32> = run
        .source
        .streams
        .iter_mut()
        .zip(&since.streams)
        .map(|(stream, before)| {
            let rows = (stream.row - before.row) * times as u32;
            stream.row += rows;
            stream.asked += (stream.asked - before.asked) * times;
            rows
        })
        .collect();
    let mut table_pages = 0;
    if let Some(table) = &mut run.table {
        // Every stream has gone as many rows, and they hold whole pages of the table: the states say so.
        table_pages = u64::from(rows[0]) * width / table.entries;
        table.shift(table_pages);
    }
    for job in run.jobs.each_mut() {
        let rows = rows[run.source.stream_of(job.channel)];
        job.since += by;
        match job.class {
            Class::Table => {
                job.logical += table_pages;
                job.row = job.row.wrapping_sub((table_pages / width) as u32);
            }
            _ => {
                job.row = job.row.wrapping_add(rows);
                job.logical += u64::from(rows) * width;
            }
        }
    }
}
