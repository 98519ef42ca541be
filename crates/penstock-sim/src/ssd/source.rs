//! Requests: the scan's, in a window of the queue's depth, and other traffic's, at a steady rate.
//!
//! The host asks for pages in the order of their numbers, over all channels. Consumers in the drive ask
//! for those of each channel in that order, and each channel has an equal share of the window, so that
//! one that is full does not hold up the others.

use super::calendar::Kind;
use super::jobs::Class;
use super::layout::{Layout, below};
use super::run::Run;
use super::spec::{RunSpec, TrafficSpec};

/// A part of the scan that is asked for in order: all of it, or one channel's.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// Where its next page is: which of its places, and which row.
    place: u32,
    pub(crate) row: u32,
    pub(crate) asked: u64,
    pub(crate) pages: u64,
    pub(crate) under_way: u32,
    window: u32,
}

impl Stream {
    /// The position within a row and the use of the window, for the comparison of states.
    pub(crate) fn state(&self) -> [i64; 2] {
        [self.place.into(), self.under_way.into()]
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Pages of the scan that have been asked for.
    pub(crate) asked: u64,
    pub(crate) streams: Vec<Stream>,
    /// Places of each stream's pages in a row, as indices into the layout.
    places: Vec<Vec<u32>>,
    by_channel: bool,
    /// Pages that the host's buffer still has room for.
    pub(crate) host_room: i64,
    pub(crate) reads: Arrivals,
    pub(crate) writes: Arrivals,
}

/// Requests that come at a steady rate, number `i` after `i + 1` intervals: those that wait need no list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrivals {
    come: u64,
    /// Of `come`, those that do not wait at the host any more.
    pub(crate) begun: u64,
    pub(crate) under_way: u32,
}

impl Source {
    pub(crate) fn new(spec: &RunSpec, layout: &Layout) -> Self {
        let by_channel = !spec.consumers.is_empty() && !spec.is_random();
        let width = layout.width();
        let streams = if by_channel { spec.geometry.channels } else { 1 };
        let mut places = vec![Vec::new(); streams as usize];
        for (index, place) in layout.places.iter().enumerate() {
            places[if by_channel { usize::from(place.channel) } else { 0 }].push(index as u32);
        }
        let (first, end) = (spec.first_page, spec.first_page + spec.pages);
        let streams = places
            .iter()
            .enumerate()
            .map(|(index, places)| {
                let count = places.len() as u64;
                let before = |page: u64| {
                    let in_row = places.partition_point(|&place| u64::from(place) < page % width) as u64;
                    page / width * count + in_row
                };
                let (share, extra) = (spec.queue_depth / streams, spec.queue_depth % streams);
                Stream {
                    place: (before(first) % count) as u32,
                    row: (before(first) / count) as u32,
                    asked: 0,
                    pages: before(end) - before(first),
                    under_way: 0,
                    window: (share + u32::from((index as u32) < extra)).max(1),
                }
            })
            .collect();
        Self {
            asked: 0,
            streams,
            places,
            by_channel,
            host_room: spec.host_consumer.as_ref().map_or(i64::MAX / 2, |host| i64::from(host.buffer_pages)),
            reads: Arrivals::default(),
            writes: Arrivals::default(),
        }
    }

    /// The stream that a page of a channel belongs to.
    #[inline]
    pub(crate) fn stream_of(&self, channel: u8) -> usize {
        if self.by_channel { usize::from(channel) } else { 0 }
    }
}

impl Run<'_> {
    /// Asks for the first pages of every stream.
    pub(crate) fn ask_all(&mut self) {
        (0..self.source.streams.len()).for_each(|stream| self.ask(stream));
    }

    /// Asks for as many pages of a stream as its window allows.
    #[inline]
    pub(crate) fn ask(&mut self, index: usize) {
        loop {
            let stream = &mut self.source.streams[index];
            if stream.under_way >= stream.window || stream.asked >= stream.pages || self.source.host_room <= 0 {
                return;
            }
            let places = &self.source.places[index];
            let (place, row) = (places[stream.place as usize], stream.row);
            stream.place += 1;
            if stream.place as usize == places.len() {
                stream.place = 0;
                stream.row += 1;
            }
            stream.asked += 1;
            stream.under_way += 1;
            let asked = self.source.asked;
            self.source.asked += 1;
            if self.spec.host_consumer.is_some() {
                self.source.host_room -= 1;
            }
            let at = if self.spec.is_random() {
                let logical = self.spec.first_page + below(self.spec.random_span, self.spec.seed, asked);
                self.start(Class::Scan, logical, self.physical(logical), self.now)
            } else {
                let logical = u64::from(row) * self.layout.width() + u64::from(place);
                if self.translation.is_some() {
                    self.start(Class::Scan, logical, self.physical(logical), self.now)
                } else {
                    self.start_at(Class::Scan, logical, self.layout.places[place as usize], row, self.now)
                }
            };
            self.look_up(at);
        }
    }

    /// Where a logical page is now.
    #[inline]
    pub(crate) fn physical(&self, logical: u64) -> u64 {
        self.translation.as_ref().map_or(logical, |translation| translation.find(logical))
    }

    pub(crate) fn begin_traffic(&mut self) {
        for (traffic, kind) in [(&self.spec.reads, Kind::ReadComes), (&self.spec.writes, Kind::WriteComes)] {
            if traffic.interval > 0 {
                self.calendar.push(traffic.interval, kind, 0);
            }
        }
    }

    /// Whether requests still come, given how many have: as many as were asked for, or while the scan lasts.
    fn goes_on(&self, traffic: &TrafficSpec, come: u64) -> bool {
        if traffic.requests > 0 { come < traffic.requests } else { self.scan_goes_on() }
    }

    pub(crate) fn read_comes(&mut self) {
        if self.goes_on(&self.spec.reads, self.source.reads.come) {
            self.source.reads.come += 1;
            self.calendar.push(self.now + self.spec.reads.interval, Kind::ReadComes, 0);
            self.begin_reads();
        }
    }

    pub(crate) fn write_comes(&mut self) {
        if self.goes_on(&self.spec.writes, self.source.writes.come) {
            self.source.writes.come += 1;
            self.calendar.push(self.now + self.spec.writes.interval, Kind::WriteComes, 0);
            self.begin_writes();
        }
    }

    /// Whether the next request that has come may begin: what waits when the scan ends is not played.
    fn may_begin(&self, traffic: &TrafficSpec, arrivals: Arrivals) -> bool {
        arrivals.begun < arrivals.come && (traffic.requests > 0 || self.scan_goes_on())
    }

    /// Reads that wait begin, as far as the queue has room: it is as deep as the scan's.
    pub(crate) fn begin_reads(&mut self) {
        let traffic = &self.spec.reads;
        while self.source.reads.under_way < self.spec.queue_depth && self.may_begin(traffic, self.source.reads) {
            let index = self.source.reads.begun;
            self.source.reads.begun += 1;
            self.source.reads.under_way += 1;
            let logical = below(traffic.span_pages, traffic.seed, index);
            let since = (index as i64 + 1) * traffic.interval;
            let at = self.start(Class::Read, logical, self.physical(logical), since);
            self.look_up(at);
        }
    }

    /// Writes that wait come in, as far as the write buffer has room.
    pub(crate) fn begin_writes(&mut self) {
        let traffic = &self.spec.writes;
        while self.write_room > 0 && self.may_begin(traffic, self.source.writes) {
            let index = self.source.writes.begun;
            self.source.writes.begun += 1;
            self.write_room -= 1;
            let logical = below(traffic.span_pages, traffic.seed, index);
            let since = (index as i64 + 1) * traffic.interval;
            let at = self.start(Class::Write, logical, logical, since);
            let ends = self.servers.download.serve(self.now, self.spec.timing.download);
            self.calendar.push(ends, Kind::Download, at);
        }
    }
}
