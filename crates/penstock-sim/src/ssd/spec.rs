//! The input of a run, in whole picoseconds and pages, and its rules.

use crate::Error;
use crate::error::rule;

/// The number of each; a page is `page_bytes`, but the engine counts pages only.
#[derive(Debug, Clone)]
pub struct Geometry {
    pub channels: u32,
    pub chips_per_channel: u32,
    pub dies_per_chip: u32,
    pub planes_per_die: u32,
    pub blocks_per_plane: u32,
    pub pages_per_block: u32,
    /// Of `blocks_per_plane`, the blocks that are empty at first.
    pub spare_blocks: u32,
    /// Order in which consecutive pages go over `c`hannels, `w`ays (chips), `d`ies and `p`lanes,
    /// the fastest first: a permutation of `cwdp`.
    pub order: String,
}

impl Geometry {
    pub(crate) fn dies_per_channel(&self) -> u32 {
        self.chips_per_channel * self.dies_per_chip
    }

    pub(crate) fn planes(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.dies_per_channel()) * u64::from(self.planes_per_die)
    }

    pub(crate) fn logical_pages(&self) -> u64 {
        let blocks = u64::from(self.blocks_per_plane - self.spare_blocks);
        self.planes() * blocks * u64::from(self.pages_per_block)
    }
}

/// Durations in picoseconds.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The bus is taken by the command and address of a read of one plane.
    pub read_command: i64,
    /// And the command time of each further plane.
    pub further_plane: i64,
    pub sense: i64,
    /// One request's data out of a register.
    pub data_out: i64,
    pub program_command: i64,
    /// One page's data into a register.
    pub data_in: i64,
    pub program: i64,
    pub erase_command: i64,
    pub erase: i64,
    /// Pipelined: pages do not wait for each other.
    pub correction: i64,
    /// One request through DRAM on its way to or from the host.
    pub dram: i64,
    pub upload: i64,
    pub download: i64,
}

/// What the flash can do, and who gets a bus next.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Data goes before commands, and one die of a chip works at a time.
    pub convoy: bool,
    /// One command reads or programs the same page of several planes.
    pub multi_plane: bool,
    /// A die senses while its last pages are still being sent.
    pub cache_read: bool,
    /// A page must be sensed again with this probability, in units of 2^-64.
    pub retry: u64,
    pub max_retries: u32,
    /// Pages that DRAM holds for the host at once, reads and writes apart.
    pub host_buffer_pages: u32,
}

/// An accelerator that serves pages in chunks.
#[derive(Debug, Clone)]
pub struct ConsumerSpec {
    /// Empty for the host's.
    pub channels: Vec<u32>,
    pub chunk_pages: u32,
    pub buffer_pages: u32,
    pub serve: i64,
    /// Metadata of a chunk through DRAM, then eDRAM; 0 where there is none.
    pub dram: i64,
    pub edram: i64,
    /// The output of a chunk through PCIe; 0 where there is none.
    pub upload: i64,
    /// The last output.
    pub final_upload: i64,
}

/// The logical-to-physical table.
#[derive(Debug, Clone)]
pub struct MappingSpec {
    /// Pages of the table that are at hand at once; 0: all, and look-ups cost nothing.
    pub cached_pages: u32,
    /// Entries of one page of the table.
    pub entries: u32,
    /// A page that is asked for brings the next.
    pub ahead: bool,
}

/// Requests that come at a steady rate.
#[derive(Debug, Clone)]
pub struct TrafficSpec {
    /// Picoseconds between two; 0: no traffic.
    pub interval: i64,
    /// Logical pages that they fall on.
    pub span_pages: u64,
    /// How many; 0: as long as the scan lasts.
    pub requests: u64,
    pub seed: u64,
}

/// One run.
#[derive(Debug, Clone)]
pub struct RunSpec {
    pub geometry: Geometry,
    pub timing: Timing,
    pub behaviour: Behaviour,
    pub first_page: u64,
    pub pages: u64,
    /// Pages are drawn from so many from `first_page` on; 0: they are read in order.
    pub random_span: u64,
    pub queue_depth: u32,
    pub seed: u64,
    /// Pages go through DRAM and PCIe to the host.
    pub to_host: bool,
    pub consumers: Vec<ConsumerSpec>,
    pub host_consumer: Option<ConsumerSpec>,
    /// Each output passes the aggregator for so long; `None`: there is none.
    pub aggregate: Option<i64>,
    pub mapping: MappingSpec,
    pub reads: TrafficSpec,
    pub writes: TrafficSpec,
    /// Garbage collection begins in a plane with fewer free blocks.
    pub collect_below: u32,
    /// A cold block is moved where all free blocks of its plane have so many more erases; 0: never.
    pub wear_gap: u32,
    /// Jump whole periods of a steady state.
    pub jump: bool,
}

/// Longest duration of anything, 2^52 ps or 75 minutes: no sum of a few leaves the clock.
const LONGEST: i64 = 1 << 52;
/// Channels of a drive and dies of a channel: a bus is granted by looking at one word of bits.
const WORD: u32 = 64;
/// Jobs are counted in 31 bits.
const MOST_PAGES_AT_ONCE: u32 = 1 << 24;

impl RunSpec {
    pub(crate) fn is_random(&self) -> bool {
        self.random_span > 0
    }

    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), Error> {
        self.check_geometry()?;
        self.check_timing()?;
        self.check_scan()?;
        self.check_consumers()?;
        self.check_traffic()
    }

    fn check_geometry(&self) -> Result<(), Error> {
        let g = &self.geometry;
        for (what, value) in [
            ("channels", g.channels),
            ("chips_per_channel", g.chips_per_channel),
            ("dies_per_chip", g.dies_per_chip),
            ("planes_per_die", g.planes_per_die),
            ("blocks_per_plane", g.blocks_per_plane),
            ("pages_per_block", g.pages_per_block),
        ] {
            rule(value >= 1, what, value, "a drive has at least one")?;
            rule(value <= 1 << 20, what, value, "at most 2^20")?;
        }
        rule(g.channels <= WORD, "channels", g.channels, "at most 64")?;
        let dies = u64::from(g.chips_per_channel) * u64::from(g.dies_per_chip);
        rule(dies <= u64::from(WORD), "dies per channel", dies, "at most 64")?;
        rule(g.planes_per_die <= 16, "planes_per_die", g.planes_per_die, "at most 16")?;
        let rows = u64::from(g.blocks_per_plane) * u64::from(g.pages_per_block);
        rule(rows <= 1 << 31, "pages per plane", rows, "at most 2^31")?;
        let spare = g.spare_blocks;
        rule(spare < g.blocks_per_plane, "spare_blocks", spare, "fewer than all blocks of a plane")?;
        let mut letters: Vec<char> = g.order.chars().collect();
        letters.sort_unstable();
        rule(letters == ['c', 'd', 'p', 'w'], "order", &g.order, "each of the letters c, w, d and p once")
    }

    fn check_timing(&self) -> Result<(), Error> {
        let t = &self.timing;
        for (what, value) in [
            ("read_command", t.read_command),
            ("further_plane", t.further_plane),
            ("sense", t.sense),
            ("data_out", t.data_out),
            ("program_command", t.program_command),
            ("data_in", t.data_in),
            ("program", t.program),
            ("erase_command", t.erase_command),
            ("erase", t.erase),
            ("correction", t.correction),
            ("dram", t.dram),
            ("upload", t.upload),
            ("download", t.download),
        ] {
            duration(what, value)?;
        }
        let b = &self.behaviour;
        rule(b.host_buffer_pages >= 1, "host_buffer_pages", b.host_buffer_pages, "room for at least one page")?;
        rule(b.max_retries <= 255, "max_retries", b.max_retries, "at most 255")
    }

    fn check_scan(&self) -> Result<(), Error> {
        let logical = self.geometry.logical_pages();
        let extent = if self.is_random() { self.random_span } else { self.pages };
        let end = self.first_page.checked_add(extent);
        rule(
            end.is_some_and(|end| end <= logical),
            "the scan's last page",
            end.map_or("past 2^64".to_owned(), |end| end.to_string()),
            "within the drive's logical pages",
        )?;
        rule(self.queue_depth >= 1, "queue_depth", self.queue_depth, "at least 1")?;
        rule(self.queue_depth <= MOST_PAGES_AT_ONCE, "queue_depth", self.queue_depth, "at most 2^24")?;
        let m = &self.mapping;
        rule(m.cached_pages <= MOST_PAGES_AT_ONCE, "cached_pages", m.cached_pages, "at most 2^24")?;
        rule(m.cached_pages == 0 || m.entries >= 1, "entries", m.entries, "at least 1 in a page of the table")
    }

    fn check_consumers(&self) -> Result<(), Error> {
        let mut fed = vec![false; self.geometry.channels as usize];
        for (index, consumer) in self.consumers.iter().chain(&self.host_consumer).enumerate() {
            let what = |name: &str| format!("consumers[{index}].{name}");
            rule(consumer.chunk_pages >= 1, what("chunk_pages"), consumer.chunk_pages, "at least 1")?;
            let (room, chunk) = (consumer.buffer_pages, consumer.chunk_pages);
            rule(room >= chunk, what("buffer_pages"), room, "room for at least one chunk, or none is ever complete")?;
            rule(room <= MOST_PAGES_AT_ONCE, what("buffer_pages"), room, "at most 2^24")?;
            for (name, value) in [
                ("serve", consumer.serve),
                ("dram", consumer.dram),
                ("edram", consumer.edram),
                ("upload", consumer.upload),
                ("final_upload", consumer.final_upload),
            ] {
                duration(&what(name), value)?;
            }
            for &channel in &consumer.channels {
                let known = fed.get_mut(channel as usize);
                let free = known.is_some_and(|fed| !std::mem::replace(fed, true));
                rule(free, what("channels"), channel, "a channel of the drive that feeds no other consumer")?;
            }
        }
        if !self.consumers.is_empty() {
            let idle = fed.iter().position(|fed| !fed);
            rule(
                idle.is_none(),
                "channel",
                idle.unwrap_or_default(),
                "every channel feeds a consumer, since a scan reads all",
            )?;
        }
        rule(self.consumers.len() <= WORD as usize, "consumers", self.consumers.len(), "at most 64")?;
        rule(
            self.consumers.is_empty() || !self.to_host,
            "to_host",
            true,
            "false where consumers in the drive read the pages",
        )?;
        rule(
            self.host_consumer.is_none() || self.to_host,
            "to_host",
            false,
            "true where the host computes on the pages",
        )?;
        self.aggregate.map_or(Ok(()), |time| duration("aggregate", time))
    }

    fn check_traffic(&self) -> Result<(), Error> {
        for (name, traffic) in [("reads", &self.reads), ("writes", &self.writes)] {
            let what = |field: &str| format!("{name}.{field}");
            duration(&what("interval"), traffic.interval)?;
            if traffic.interval > 0 {
                let logical = self.geometry.logical_pages();
                let span = traffic.span_pages;
                rule(span >= 1 && span <= logical, what("span_pages"), span, "1 to the drive's logical pages")?;
            }
        }
        if self.writes.interval > 0 {
            let (spare, below) = (self.geometry.spare_blocks, self.collect_below);
            rule(below >= 2, "collect_below", below, "at least 2: one block for the host and one to collect into")?;
            rule(
                spare >= below + 3,
                "spare_blocks",
                spare,
                "at least collect_below + 3 blocks a plane where there are writes",
            )?;
        }
        Ok(())
    }
}

fn duration(what: &str, value: i64) -> Result<(), Error> {
    rule((0..=LONGEST).contains(&value), what, value, "picoseconds from 0 to 2^52 (75 minutes)")
}
