//! The loop: takes the next event, lets it happen, and when all events of an instant have happened
//! gives out the buses.

use super::calendar::{Calendar, Kind};
use super::consumer::{Consumer, Room};
use super::flash::{Bus, Die, Group};
use super::histogram::Histogram;
use super::jobs::{Class, Job, Jobs};
use super::layout::Layout;
use super::period::Period;
use super::source::Source;
use super::spec::{ConsumerSpec, RunSpec};
use super::table::Table;
use super::translation::Translation;
use crate::{Error, Watch, error::conserve};

/// What an event is about, where that is no job: a consumer.
pub(crate) const OTHER: u32 = 1 << 31;
/// It is the last output of a consumer.
pub(crate) const FINAL: u32 = 1 << 30;

/// The clock's end; a duration is at most 2^52 ps, so no sum overflows.
const CLOCK_END: i64 = i64::MAX - (1 << 60);
const WATCH_EVENTS: u64 = 1 << 20;

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

#[derive(Debug, Clone, Default)]
pub(crate) struct Servers {
    pub(crate) dram: Server,
    pub(crate) edram: Server,
    pub(crate) upload: Server,
    pub(crate) download: Server,
    pub(crate) aggregator: Server,
}

pub(crate) struct Run<'a> {
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
}

impl<'a> Run<'a> {
    pub(crate) fn new(spec: &'a RunSpec) -> Self {
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
            spec,
        }
    }

    /// Plays everything.
    pub(crate) fn play(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let mut period = Period::new(self.spec, self.layout.width());
        self.begin_traffic();
        self.ask_all();
        if self.spec.pages == 0 {
            self.flush();
        }
        let mut next_watch = WATCH_EVENTS;
        loop {
            let next = self.calendar.next();
            if self.touched != 0 && next.is_none_or(|(time, _)| time > self.now) {
                self.grant_all();
                continue;
            }
            let Some((time, kind)) = next else { break };
            if time > self.now {
                if time > CLOCK_END {
                    return Err(Error::ClockOverflow { at: format!("after {} pages", self.delivered) });
                }
                if self.source.asked >= period.look_at {
                    period.look(self);
                    if self.calendar.next().is_some_and(|(next, _)| next != time) {
                        continue;
                    }
                }
                self.now = time;
            }
            let about = self.calendar.take(kind);
            self.events += 1;
            self.happen(kind, about);
            if self.events >= next_watch {
                next_watch = self.events + WATCH_EVENTS;
                if watch() {
                    return Err(Error::Interrupted);
                }
            }
        }
        self.account()
    }

    #[inline]
    fn happen(&mut self, kind: Kind, about: u32) {
        match kind {
            Kind::Upload => self.uploaded(about),
            Kind::Download => {
                let ends = self.servers.dram.serve(self.now, self.spec.timing.dram);
                self.calendar.push(ends, Kind::Dram, about);
            }
            Kind::Dram => self.through_dram(about),
            Kind::Edram => self.metadata_is_there(about as usize),
            Kind::Aggregate => self.upload_output(about),
            Kind::Serve => self.served(about as usize),
            Kind::Corrected => self.corrected(about),
            Kind::Sent => self.sent(about),
            Kind::Commanded | Kind::Filled => {
                self.buses[about as usize].busy = false;
                self.touch(about as u8);
            }
            Kind::Sensed => self.sensed(about as u16),
            Kind::Programmed => self.programmed(about as u16),
            Kind::Erased => self.erased(about as u16),
            Kind::ReadComes => self.read_comes(),
            Kind::WriteComes => self.write_comes(),
        }
    }

    /// Whether the scan and what follows from it goes on.
    pub(crate) fn scan_goes_on(&self) -> bool {
        self.delivered < self.spec.pages
            || self.outputs_made > self.outputs_sent
            || self.consumers.iter().any(|consumer| !consumer.is_idle())
    }

    /// A request's job, on its way to the die that has its page.
    #[inline]
    pub(crate) fn start(&mut self, class: Class, logical: u64, physical: u64, since: i64) -> u32 {
        let (place, row) = self.layout.find(physical);
        self.start_at(class, logical, place, row, since)
    }

    #[inline]
    pub(crate) fn start_at(
        &mut self,
        class: Class,
        logical: u64,
        place: super::layout::Place,
        row: u32,
        since: i64,
    ) -> u32 {
        let programs = matches!(class, Class::Write | Class::Erase);
        self.jobs.add(Job {
            since,
            logical,
            row,
            next: super::jobs::NONE,
            die: place.die,
            channel: place.channel,
            plane: place.plane,
            class,
            tries: 0,
            programs,
        })
    }

    /// Every account must be even.
    fn account(&self) -> Result<(), Error> {
        conserve("pages asked for and pages scanned", i128::from(self.source.asked), i128::from(self.spec.pages))?;
        conserve("pages scanned and pages delivered", i128::from(self.spec.pages), i128::from(self.delivered))?;
        conserve("latencies and pages", i128::from(self.latency.count), i128::from(self.delivered))?;
        conserve("jobs under way at the end", self.jobs.under_way() as i128, 0)?;
        conserve("outputs made and sent", i128::from(self.outputs_made), i128::from(self.outputs_sent))?;
        conserve(
            "reads that came and were served",
            i128::from(self.source.reads.begun),
            self.read_latency.count.into(),
        )?;
        conserve(
            "writes that came and were served",
            i128::from(self.source.writes.begun),
            self.write_latency.count.into(),
        )?;
        let room = i64::from(self.spec.behaviour.host_buffer_pages);
        conserve("the host's buffer at the end", self.host_room.free.into(), room.into())?;
        conserve("the write buffer at the end", self.write_room.into(), room.into())?;
        for (consumer, spec) in self.consumers.iter().zip(&self.consumer_specs) {
            conserve("a consumer idle at the end", i128::from(consumer.is_idle()), 1)?;
            conserve("a consumer's buffer at the end", consumer.room.free.into(), spec.buffer_pages.into())?;
            conserve("a consumer's busy time within the run", consumer.busy.max(self.now).into(), self.now.into())?;
        }
        let elapsed = i128::from(self.now);
        for bus in &self.buses {
            conserve("busy time of a bus within the run", i128::from(bus.taken).max(elapsed), elapsed)?;
        }
        let servers = &self.servers;
        for (what, busy, units) in [
            ("busy time of dies within the run", self.array_busy, self.dies.len()),
            ("busy time of DRAM within the run", servers.dram.busy, 1),
            ("busy time of eDRAM within the run", servers.edram.busy, 1),
            ("busy time of PCIe to the host within the run", servers.upload.busy, 1),
            ("busy time of PCIe to the drive within the run", servers.download.busy, 1),
            ("busy time of the aggregator within the run", servers.aggregator.busy, 1),
        ] {
            let limit = elapsed * units as i128;
            conserve(what, i128::from(busy).max(limit), limit)?;
        }
        self.translation.as_ref().map_or(Ok(()), Translation::account)
    }
}
