//! Requests are made: the scan's as its window allows, other traffic's as they come.

use super::calendar::Kind;
use super::jobs::Class;
use super::layout::below;
use super::observer::Observer;
use super::source::Arrivals;
use super::spec::TrafficSpec;
use super::state::{Run, Unit};

impl<O: Observer> Run<'_, O> {
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

    /// The present place of a logical page.
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

    /// Whether something happens at an event: the one that follows the last request brings none, and takes no time.
    #[inline(always)]
    pub(crate) fn comes(&self, kind: Kind) -> bool {
        match kind {
            Kind::ReadComes => self.goes_on(&self.spec.reads, self.source.reads.come),
            Kind::WriteComes => self.goes_on(&self.spec.writes, self.source.writes.come),
            _ => true,
        }
    }

    pub(crate) fn read_comes(&mut self) {
        self.source.reads.come += 1;
        self.calendar.push(self.now + self.spec.reads.interval, Kind::ReadComes, 0);
        self.begin_reads();
    }

    pub(crate) fn write_comes(&mut self) {
        self.source.writes.come += 1;
        self.calendar.push(self.now + self.spec.writes.interval, Kind::WriteComes, 0);
        self.begin_writes();
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
            let ends = self.serve(Unit::Download, self.spec.timing.download);
            self.calendar.push(ends, Kind::Download, at);
        }
    }
}
