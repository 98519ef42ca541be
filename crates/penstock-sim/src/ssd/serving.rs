//! The work of accelerators: pages collect, chunks are served, outputs leave.

use super::calendar::Kind;
use super::observer::Observer;
use super::state::{FINAL, OTHER, Run, Unit};

impl<O: Observer> Run<'_, O> {
    /// A page of the scan is in the buffer of a consumer.
    #[inline]
    pub(crate) fn collect_page(&mut self, index: usize) {
        let chunk = self.consumer_specs[index].chunk_pages;
        let consumer = &mut self.consumers[index];
        consumer.loose += 1;
        if consumer.loose == chunk {
            consumer.loose = 0;
            consumer.ready += 1;
            self.advance(index);
        }
    }

    /// The scan is over: the remaining pages make a chunk.
    pub(crate) fn flush(&mut self) {
        for index in 0..self.consumers.len() {
            self.advance(index);
            self.finish(index);
        }
    }

    /// Asks for metadata of the next chunk, and serves the one whose metadata is there.
    pub(crate) fn advance(&mut self, index: usize) {
        let spec = self.consumer_specs[index];
        let over = self.delivered == self.spec.pages;
        loop {
            let consumer = &mut self.consumers[index];
            if consumer.fetched > 0 && consumer.serving == 0 {
                consumer.serving = std::mem::take(&mut consumer.fetched);
                consumer.busy += spec.serve;
                self.calendar.push(self.now + spec.serve, Kind::Serve, index as u32);
            }
            if consumer.fetched > 0 || consumer.fetching > 0 {
                return;
            }
            if consumer.ready > 0 {
                consumer.ready -= 1;
                consumer.fetching = spec.chunk_pages;
            } else if over && consumer.loose > 0 {
                consumer.fetching = std::mem::take(&mut consumer.loose);
            } else {
                return;
            }
            consumer.fetching_since = self.now;
            if spec.dram > 0 {
                let ends = self.serve(Unit::Dram, spec.dram);
                self.calendar.push(ends, Kind::Dram, OTHER | index as u32);
                return;
            }
            if spec.edram > 0 {
                let ends = self.serve(Unit::Edram, spec.edram);
                self.calendar.push(ends, Kind::Edram, index as u32);
                return;
            }
            consumer.fetched = std::mem::take(&mut consumer.fetching);
        }
    }

    /// Metadata has come out of DRAM.
    pub(crate) fn metadata_from_dram(&mut self, index: usize) {
        let edram = self.consumer_specs[index].edram;
        if edram > 0 {
            let ends = self.serve(Unit::Edram, edram);
            self.calendar.push(ends, Kind::Edram, index as u32);
        } else {
            self.metadata_is_there(index);
        }
    }

    pub(crate) fn metadata_is_there(&mut self, index: usize) {
        let consumer = &mut self.consumers[index];
        if consumer.serving == 0 {
            consumer.wait += self.now - consumer.fetching_since.max(consumer.idle_since);
        }
        consumer.fetched = std::mem::take(&mut consumer.fetching);
        self.advance(index);
    }

    /// A chunk is served.
    pub(crate) fn served(&mut self, index: usize) {
        let now = self.now;
        self.scan_end = now;
        let consumer = &mut self.consumers[index];
        let pages = std::mem::take(&mut consumer.serving);
        consumer.idle_since = now;
        consumer.chunks += 1;
        if index < self.spec.consumers.len() {
            self.touched |= consumer.room.give(pages);
        } else {
            self.source.host_room += i64::from(pages);
            self.ask(0);
        }
        if self.consumer_specs[index].upload > 0 {
            self.output(index as u32);
        }
        self.advance(index);
        self.finish(index);
    }

    /// Sends the last output, once.
    fn finish(&mut self, index: usize) {
        let over = self.delivered == self.spec.pages;
        let consumer = &mut self.consumers[index];
        if over && consumer.is_idle() && !consumer.final_made {
            consumer.final_made = true;
            if self.consumer_specs[index].final_upload > 0 {
                self.output(index as u32 | FINAL);
            }
        }
    }

    /// An output sets out, by the aggregator if there is one.
    fn output(&mut self, token: u32) {
        self.outputs_made += 1;
        if let Some(time) = self.spec.aggregate {
            let ends = self.serve(Unit::Aggregator, time);
            self.calendar.push(ends, Kind::Aggregate, token);
        } else {
            self.upload_output(token);
        }
    }

    pub(crate) fn upload_output(&mut self, token: u32) {
        let spec = self.consumer_specs[(token & !FINAL) as usize];
        let time = if token & FINAL != 0 { spec.final_upload } else { spec.upload };
        let ends = self.serve(Unit::Upload, time);
        self.calendar.push(ends, Kind::Upload, token | OTHER);
    }
}
