//! Accelerators: pages collect in a buffer, chunks of them are served, outputs leave.

use super::calendar::Kind;
use super::run::{FINAL, OTHER, Run};

/// Room for pages, and the channels that wait for it in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    pub(crate) free: i64,
    pub(crate) waiting: Vec<u8>,
}

impl Room {
    pub(crate) fn new(free: u32) -> Self {
        Self { free: i64::from(free), waiting: Vec::with_capacity(64) }
    }

    /// Takes a place, unless there is none beyond those of channels that have waited longer.
    #[inline]
    pub(crate) fn take(&mut self, channel: u8) -> bool {
        if self.waiting.is_empty() {
            if self.free > 0 {
                self.free -= 1;
                return true;
            }
            self.waiting.push(channel);
            return false;
        }
        match self.waiting.iter().position(|&each| each == channel) {
            Some(at) if (at as i64) < self.free => {
                self.waiting.remove(at);
                self.free -= 1;
                true
            }
            Some(_) => false,
            None if (self.waiting.len() as i64) < self.free => {
                self.free -= 1;
                true
            }
            None => {
                self.waiting.push(channel);
                false
            }
        }
    }

    /// Gives places back, and says which channels may now take one, as bits.
    #[inline]
    pub(crate) fn give(&mut self, places: u32) -> u64 {
        self.free += i64::from(places);
        let served = self.waiting.len().min(usize::try_from(self.free).unwrap_or(0));
        self.waiting[..served].iter().fold(0, |bits, &channel| bits | 1 << channel)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Consumer {
    pub(crate) room: Room,
    /// Pages that are not in a whole chunk yet.
    pub(crate) loose: u32,
    /// Whole chunks whose metadata is not asked for yet.
    pub(crate) ready: u64,
    /// Pages of the chunk whose metadata is on its way; 0: none.
    pub(crate) fetching: u32,
    pub(crate) fetching_since: i64,
    /// Pages of the chunk whose metadata is there; 0: none.
    pub(crate) fetched: u32,
    /// Pages of the chunk being served; 0: none.
    pub(crate) serving: u32,
    pub(crate) idle_since: i64,
    pub(crate) chunks: u64,
    pub(crate) busy: i64,
    pub(crate) wait: i64,
    pub(crate) final_made: bool,
}

impl Consumer {
    pub(crate) fn is_idle(&self) -> bool {
        self.loose == 0 && self.ready == 0 && self.fetching == 0 && self.fetched == 0 && self.serving == 0
    }
}

impl Run<'_> {
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

    /// The scan is over: what is left makes a chunk.
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
                let ends = self.servers.dram.serve(self.now, spec.dram);
                self.calendar.push(ends, Kind::Dram, OTHER | index as u32);
                return;
            }
            if spec.edram > 0 {
                let ends = self.servers.edram.serve(self.now, spec.edram);
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
            let ends = self.servers.edram.serve(self.now, edram);
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
            let ends = self.servers.aggregator.serve(self.now, time);
            self.calendar.push(ends, Kind::Aggregate, token);
        } else {
            self.upload_output(token);
        }
    }

    pub(crate) fn upload_output(&mut self, token: u32) {
        let spec = self.consumer_specs[(token & !FINAL) as usize];
        let time = if token & FINAL != 0 { spec.final_upload } else { spec.upload };
        let ends = self.servers.upload.serve(self.now, time);
        self.calendar.push(ends, Kind::Upload, token | OTHER);
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn who_waits_longest_is_served_first() {
        let mut room = Room::new(1);
        assert!(room.take(3));
        assert!(!room.take(5));
        assert!(!room.take(2));
        assert_eq!(room.give(1), 1 << 5);
        assert!(!room.take(2), "channel 5 came before");
        assert!(!room.take(7), "and so did both before 7");
        assert!(room.take(5));
        assert_eq!(room.give(2), 1 << 2 | 1 << 7);
        assert!(room.take(7) && room.take(2));
        assert!(room.waiting.is_empty() && room.free == 0);
    }
}
