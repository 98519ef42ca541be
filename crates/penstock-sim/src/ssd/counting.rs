//! What had been done by now: counts of what has ended, and busy times.

use super::calendar::Kind;
use super::observer::Observer;
use super::result::{ConsumerResult, RunResult};
use super::state::{Run, Server};

impl Server {
    /// The busy time until now: what has come and is not served yet lies without a gap before `free_at`.
    fn busy_by(&self, now: i64) -> i64 {
        self.busy - (self.free_at - now).max(0)
    }
}

impl<O: Observer> Run<'_, O> {
    /// The result so far. Units that are at work have been busy until now, not until they will be done.
    pub(crate) fn counted(&self) -> RunResult {
        let (bus_busy, array_busy) = self.flash_busy();
        let (translation, servers) = (self.translation.as_ref(), &self.servers);
        RunResult {
            pages: self.delivered,
            scan_end: self.scan_end,
            end: self.now,
            events: self.events,
            jumped_events: self.jumped_events,
            period_pages: self.period_pages,
            bus_busy,
            array_busy,
            dram_busy: servers.dram.busy_by(self.now),
            edram_busy: servers.edram.busy_by(self.now),
            upload_busy: servers.upload.busy_by(self.now),
            download_busy: servers.download.busy_by(self.now),
            aggregator_busy: servers.aggregator.busy_by(self.now),
            // They are idle: the scan is over.
            consumers: self
                .consumers
                .iter()
                .map(|each| ConsumerResult { chunks: each.chunks, busy: each.busy, wait: each.wait })
                .collect(),
            outputs: self.output_uploads[0],
            final_outputs: self.output_uploads[1],
            retries: self.retries,
            table_reads: self.table.as_ref().map_or(0, |table| table.reads),
            written_pages: translation.map_or(0, |each| each.host_pages),
            moved_pages: translation.map_or(0, |each| each.moved_pages),
            erases: translation.map_or(0, |each| each.erases),
            max_erases: translation.map_or(0, |each| each.max_erases),
            latency: self.latency.clone(),
            read_latency: self.read_latency.clone(),
            write_latency: self.write_latency.clone(),
        }
    }

    /// The busy time until now of each bus, and of all dies.
    fn flash_busy(&self) -> (Vec<i64>, i64) {
        let timing = &self.spec.timing;
        let mut buses: Vec<i64> = self.buses.iter().map(|bus| bus.taken).collect();
        let mut array = self.array_busy;
        for (kind, time, about) in self.calendar.all() {
            let left = time - self.now;
            match kind {
                Kind::Commanded | Kind::Filled => buses[about as usize] -= left,
                Kind::Sent => buses[usize::from(self.jobs[about].channel)] -= left,
                // A die begins when its command, or its data, is there.
                Kind::Sensed => array -= left.min(timing.sense),
                Kind::Programmed => array -= left.min(timing.program),
                Kind::Erased => array -= left.min(timing.erase),
                _ => {}
            }
        }
        (buses, array)
    }
}
