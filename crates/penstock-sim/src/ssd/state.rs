//! All that a run knows, and what every event does to it: a job starts, joins its die's queue, and its bus is looked at.

use super::calendar::Calendar;
use super::consumer::{Consumer, Room};
use super::flash::{Array, Bus, Die, Group};
use super::histogram::Histogram;
use super::jobs::{Class, Job, Jobs, NONE};
use super::layout::{Layout, Place};
use super::observer::{Interval, Lane, Observer};
use super::result::RunResult;
use super::source::Source;
use super::spec::{ConsumerSpec, RunSpec};
use super::table::Table;
use super::translation::Translation;

/// The subject of an event other than a job: a consumer.
pub(crate) const OTHER: u32 = 1 << 31;
/// It is the last output of a consumer.
pub(crate) const FINAL: u32 = 1 << 30;

/// The clock's end; a duration is at most 2^52 ps, so no sum overflows.
pub(crate) const CLOCK_END: i64 = i64::MAX - (1 << 60);

/// Serves one after another, in the order in which they come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Server {
    pub(crate) free_at: i64,
    pub(crate) busy: i64,
}

impl Server {
    /// When something is done that comes now and takes `time`.
    #[inline]
    pub(crate) fn serve(&mut self, now: i64, time: i64) -> i64 {
        // At most just past the clock's end, where the loop stops.
        self.free_at = self.free_at.max(now).saturating_add(time).min(CLOCK_END + 1);
        self.busy = self.busy.saturating_add(time);
        self.free_at
    }
}

/// Who serves one after another.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Dram,
    Edram,
    Upload,
    Download,
    Aggregator,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Servers {
    pub(crate) dram: Server,
    pub(crate) edram: Server,
    pub(crate) upload: Server,
    pub(crate) download: Server,
    pub(crate) aggregator: Server,
}

pub(crate) struct Run<'a, O> {
    /// The observer of busy units.
    pub(crate) observer: O,
    pub(crate) spec: &'a RunSpec,
    pub(crate) layout: Layout,
    pub(crate) dies_per_channel: u32,
    /// Bits of all dies that a busy die blocks: its own, or under `convoy` its chip's.
    pub(crate) chip_masks: Vec<u64>,
    pub(crate) group: Group,
    pub(crate) program_group: Group,
    pub(crate) cache_read: bool,
    pub(crate) consumer_specs: Vec<&'a ConsumerSpec>,
    pub(crate) consumer_of: Vec<u8>,
    pub(crate) now: i64,
    pub(crate) calendar: Calendar,
    pub(crate) jobs: Jobs,
    pub(crate) dies: Vec<Die>,
    pub(crate) buses: Vec<Bus>,
    /// Channels whose bus may be given, as bits.
    pub(crate) touched: u64,
    pub(crate) servers: Servers,
    pub(crate) host_room: Room,
    pub(crate) write_room: i64,
    pub(crate) consumers: Vec<Consumer>,
    pub(crate) source: Source,
    pub(crate) table: Option<Table>,
    pub(crate) translation: Option<Translation>,
    /// Sum over dies of the time that they sensed, programmed or erased.
    pub(crate) array_busy: i64,
    pub(crate) latency: Histogram,
    pub(crate) read_latency: Histogram,
    pub(crate) write_latency: Histogram,
    /// Pages of the scan that are where they are wanted.
    pub(crate) delivered: u64,
    pub(crate) scan_end: i64,
    pub(crate) outputs_made: u64,
    pub(crate) outputs_sent: u64,
    pub(crate) output_uploads: [u64; 2],
    pub(crate) retries: u64,
    pub(crate) events: u64,
    pub(crate) jumped_events: u64,
    pub(crate) period_pages: Option<u64>,
    /// What the scan took and all counts, when it was over.
    pub(crate) over: Option<RunResult>,
}

impl<'a, O: Observer> Run<'a, O> {
    pub(crate) fn new(spec: &'a RunSpec, observer: O) -> Self {
        let geometry = &spec.geometry;
        let layout = Layout::new(geometry);
        let dies_per_channel = geometry.dies_per_channel();
        let chip = (1u64 << (geometry.dies_per_chip - 1) << 1).wrapping_sub(1);
        let chip_masks = (0..dies_per_channel)
            .map(|die| match spec.behaviour.convoy {
                true => chip << (die / geometry.dies_per_chip * geometry.dies_per_chip),
                false => 1 << die,
            })
            .collect();
        let consumer_specs: Vec<_> = spec.consumers.iter().chain(&spec.host_consumer).collect();
        let mut consumer_of = vec![u8::MAX; geometry.channels as usize];
        for (index, consumer) in spec.consumers.iter().enumerate() {
            consumer.channels.iter().for_each(|&channel| consumer_of[channel as usize] = index as u8);
        }
        let planes = if spec.behaviour.multi_plane { geometry.planes_per_die } else { 1 };
        Self {
            observer,
            dies_per_channel,
            chip_masks,
            group: Group { planes, block: 0 },
            program_group: Group { planes, block: geometry.pages_per_block },
            cache_read: spec.behaviour.cache_read,
            consumer_of,
            now: 0,
            calendar: Calendar::new(),
            jobs: Jobs::default(),
            dies: vec![Die::default(); (geometry.channels * dies_per_channel) as usize],
            buses: vec![Bus::default(); geometry.channels as usize],
            touched: 0,
            servers: Servers::default(),
            host_room: Room::new(spec.behaviour.host_buffer_pages),
            write_room: i64::from(spec.behaviour.host_buffer_pages),
            consumers: consumer_specs
                .iter()
                .map(|each| Consumer { room: Room::new(each.buffer_pages), ..Consumer::default() })
                .collect(),
            consumer_specs,
            source: Source::new(spec, &layout),
            table: (spec.mapping.cached_pages > 0).then(|| Table::new(&spec.mapping)),
            translation: (spec.writes.interval > 0).then(|| Translation::new(spec)),
            layout,
            array_busy: 0,
            latency: Histogram::default(),
            read_latency: Histogram::default(),
            write_latency: Histogram::default(),
            delivered: 0,
            scan_end: 0,
            outputs_made: 0,
            outputs_sent: 0,
            output_uploads: [0; 2],
            retries: 0,
            events: 0,
            jumped_events: 0,
            period_pages: None,
            over: None,
            spec,
        }
    }

    /// When a unit is done with something that comes now and takes `time`.
    #[inline(always)]
    pub(crate) fn serve(&mut self, unit: Unit, time: i64) -> i64 {
        let servers = &mut self.servers;
        let (server, work) = match unit {
            Unit::Dram => (&mut servers.dram, "dram"),
            Unit::Edram => (&mut servers.edram, "edram"),
            Unit::Upload => (&mut servers.upload, "upload"),
            Unit::Download => (&mut servers.download, "download"),
            Unit::Aggregator => (&mut servers.aggregator, "aggregator"),
        };
        let end = server.serve(self.now, time);
        if time > 0 {
            self.observer.busy(Interval { lane: Lane::Drive, work, start: end - time, end, page: None });
        }
        end
    }

    /// Whether the scan and what follows from it goes on.
    pub(crate) fn scan_goes_on(&self) -> bool {
        self.delivered < self.spec.pages
            || self.outputs_made > self.outputs_sent
            || self.consumers.iter().any(|consumer| !consumer.is_idle())
    }

    /// Whether there was a scan, and it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.spec.pages > 0 && !self.scan_goes_on()
    }

    /// A request's job, on its way to the die that has its page.
    #[inline]
    pub(crate) fn start(&mut self, class: Class, logical: u64, physical: u64, since: i64) -> u32 {
        let (place, row) = self.layout.find(physical);
        self.start_at(class, logical, place, row, since)
    }

    #[inline]
    pub(crate) fn start_at(&mut self, class: Class, logical: u64, place: Place, row: u32, since: i64) -> u32 {
        let programs = matches!(class, Class::Write | Class::Erase);
        self.jobs.add(Job {
            since,
            logical,
            row,
            next: NONE,
            die: place.die,
            channel: place.channel,
            plane: place.plane,
            class,
            tries: 0,
            programs,
        })
    }

    /// A job joins its die's queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, at: u32) {
        let (die, channel, programs) = (self.jobs[at].die, self.jobs[at].channel, self.jobs[at].programs);
        let queue = if programs { &mut self.dies[die as usize].writes } else { &mut self.dies[die as usize].reads };
        queue.push(&mut self.jobs, at);
        self.update(die, channel);
    }

    /// A job that failed goes before all others of its die.
    pub(crate) fn enqueue_first(&mut self, at: u32) {
        let (die, channel) = (self.jobs[at].die, self.jobs[at].channel);
        self.dies[die as usize].reads.push_first(&mut self.jobs, at);
        self.update(die, channel);
    }

    /// What a die would begin next.
    #[inline]
    pub(crate) fn update(&mut self, die: u16, channel: u8) {
        let this = &self.dies[die as usize];
        let bit = 1u64 << (u32::from(die) - u32::from(channel) * self.dies_per_channel);
        let bus = &mut self.buses[channel as usize];
        bus.commands &= !bit;
        bus.fills &= !bit;
        if this.writes.is_empty() || (!this.reads.is_empty() && !this.writes_turn) {
            if !this.reads.is_empty() {
                bus.commands |= bit;
            }
        } else if self.jobs[this.writes.first].class == Class::Erase {
            bus.commands |= bit;
        } else {
            bus.fills |= bit;
        }
        self.touch(channel);
    }

    /// The bus of a channel is looked at when all events of this instant have happened.
    #[inline]
    pub(crate) fn touch(&mut self, channel: u8) {
        self.touched |= 1 << channel;
    }

    /// A die's array has nothing to do any more.
    pub(crate) fn release(&mut self, die: u16, channel: u8) {
        self.dies[die as usize].array = Array::Free;
        let bit = u32::from(die) - u32::from(channel) * self.dies_per_channel;
        self.buses[channel as usize].blocked &= !self.chip_masks[bit as usize];
        self.touch(channel);
    }
}
