//! The way of a page from its die to where it is wanted.

use super::calendar::Kind;
use super::consumer::Room;
use super::jobs::Class;
use super::layout::mix;
use super::observer::Observer;
use super::state::{FINAL, OTHER, Run, Unit};

impl<O: Observer> Run<'_, O> {
    /// The room that a page of a channel needs where it goes; `None`: any number may go there.
    #[inline]
    fn room_of(&mut self, class: Class, channel: u8) -> Option<&mut Room> {
        match class {
            Class::Scan => match self.consumer_of[channel as usize] {
                u8::MAX if self.spec.to_host => Some(&mut self.host_room),
                u8::MAX => None,
                consumer => Some(&mut self.consumers[consumer as usize].room),
            },
            Class::Read => Some(&mut self.host_room),
            _ => None,
        }
    }

    /// Whether there is room where a page goes; if so it is taken, if not its channel waits for it.
    #[inline]
    pub(crate) fn make_room(&mut self, at: u32, channel: u8) -> bool {
        self.room_of(self.jobs[at].class, channel).is_none_or(|room| room.take(channel))
    }

    /// A page leaves error correction: it is read again, or goes where it is wanted.
    #[inline]
    pub(crate) fn corrected(&mut self, at: u32) {
        let job = &self.jobs[at];
        let retry = self.spec.behaviour.retry;
        if retry > 0 && u32::from(job.tries) < self.spec.behaviour.max_retries {
            let page = u64::from(job.row) << 20 | u64::from(job.die) << 4 | u64::from(job.plane);
            if mix(self.spec.seed.wrapping_add(u64::from(job.tries) << 32), page) < retry {
                let (class, channel) = (job.class, job.channel);
                self.jobs[at].tries += 1;
                self.retries += 1;
                // If its room were kept, a page in its way could wait for that room.
                self.touched |= self.room_of(class, channel).map_or(0, |room| room.give(1));
                self.enqueue_first(at);
                return;
            }
        }
        match job.class {
            Class::Scan => {
                let consumer = self.consumer_of[job.channel as usize];
                if self.spec.to_host {
                    self.enter_dram(at);
                } else {
                    self.deliver(at);
                    if consumer != u8::MAX {
                        self.collect_page(consumer as usize);
                        self.check_end();
                    }
                }
            }
            Class::Read => self.enter_dram(at),
            Class::Table => self.table_page_is_there(at),
            Class::Move => self.move_was_read(at),
            Class::Write | Class::Erase => {}
        }
    }

    #[inline]
    fn enter_dram(&mut self, at: u32) {
        let ends = self.serve(Unit::Dram, self.spec.timing.dram);
        self.calendar.push(ends, Kind::Dram, at);
    }

    #[inline]
    pub(crate) fn through_dram(&mut self, about: u32) {
        if about & OTHER != 0 {
            self.metadata_from_dram((about & !OTHER) as usize);
        } else if self.jobs[about].class == Class::Write {
            self.write_is_buffered(about);
        } else {
            let ends = self.serve(Unit::Upload, self.spec.timing.upload);
            self.calendar.push(ends, Kind::Upload, about);
        }
    }

    #[inline]
    pub(crate) fn uploaded(&mut self, about: u32) {
        if about & OTHER != 0 {
            self.outputs_sent += 1;
            self.output_uploads[usize::from(about & FINAL != 0)] += 1;
            self.scan_end = self.now;
            return;
        }
        self.touched |= self.host_room.give(1);
        if self.jobs[about].class == Class::Read {
            self.read_latency.add(self.now - self.jobs[about].since);
            self.jobs.remove(about);
            self.source.reads.under_way -= 1;
            self.begin_reads();
            return;
        }
        self.deliver(about);
        if self.spec.host_consumer.is_some() {
            self.collect_page(self.consumers.len() - 1);
            self.check_end();
        }
    }

    /// A page of the scan is where it is wanted.
    #[inline]
    fn deliver(&mut self, at: u32) {
        let job = &self.jobs[at];
        let stream = self.source.stream_of(job.channel);
        self.latency.add(self.now - job.since);
        self.jobs.remove(at);
        self.delivered += 1;
        self.scan_end = self.now;
        self.source.streams[stream].under_way -= 1;
        self.ask(stream);
    }

    fn check_end(&mut self) {
        if self.delivered == self.spec.pages {
            self.flush();
        }
    }
}
