//! The loop: takes the next event, lets it happen, and when all events of an instant have happened
//! gives out the buses. When the scan is over it is counted, and what is under way goes on to its end.

use super::calendar::Kind;
use super::observer::{Observer, Recording};
use super::period::Period;
use super::result::RunResult;
use super::spec::RunSpec;
use super::state::{CLOCK_END, Run, Unit};
use super::translation::Translation;
use crate::{Error, Watch, error::conserve};

const WATCH_EVENTS: u64 = 1 << 20;

impl<O: Observer> Run<'_, O> {
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
            if !self.comes(kind) {
                self.calendar.take(kind);
                self.events += 1;
                continue;
            }
            if time > self.now {
                if self.delivered == self.spec.pages && self.over.is_none() && self.is_over() {
                    self.over = Some(self.counted());
                }
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
                let ends = self.serve(Unit::Dram, self.spec.timing.dram);
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
        }
        self.translation.as_ref().map_or(Ok(()), Translation::account)
    }
}

/// No unit was busy for longer than the time that is told.
fn within<O>(run: &Run<'_, O>, result: &RunResult) -> Result<(), Error> {
    let elapsed = i128::from(result.counted_until());
    let dies = run.dies.len();
    let buses = result.bus_busy.iter().map(|&busy| ("busy time of a bus", busy, 1));
    let consumers =
        result.consumers.iter().map(|each| ("a consumer's busy and waiting time", each.busy + each.wait, 1));
    let others = [
        ("busy time of dies", result.array_busy, dies),
        ("busy time of DRAM", result.dram_busy, 1),
        ("busy time of eDRAM", result.edram_busy, 1),
        ("busy time of PCIe to the host", result.upload_busy, 1),
        ("busy time of PCIe to the drive", result.download_busy, 1),
        ("busy time of the aggregator", result.aggregator_busy, 1),
    ];
    for (what, busy, units) in buses.chain(consumers).chain(others) {
        let limit = elapsed * units as i128;
        conserve(what, i128::from(busy).clamp(0, limit), busy.into())?;
    }
    Ok(())
}

/// Plays a run to its end.
///
/// # Errors
/// A rule of the spec that is broken, the end of the clock, an account that does not add up, or the
/// watch's wish to stop.
pub fn play(spec: &RunSpec, watch: &mut Watch<'_>) -> Result<RunResult, Error> {
    observed(spec, (), watch).map(|(result, ())| result)
}

/// As [`play`], and when units were busy: the first `most` intervals, in the order in which they were planned. As the
/// counts, they end with the scan. No steady state is jumped.
///
/// # Errors
/// Those of [`play`].
pub fn play_recorded(spec: &RunSpec, most: usize, watch: &mut Watch<'_>) -> Result<(RunResult, Recording), Error> {
    let (result, seen) = observed(&RunSpec { jump: false, ..spec.clone() }, Recording::new(most), watch)?;
    let end = result.counted_until();
    Ok((result, seen.until(end)))
}

fn observed<O: Observer>(spec: &RunSpec, observer: O, watch: &mut Watch<'_>) -> Result<(RunResult, O), Error> {
    spec.check()?;
    let mut run = Run::new(spec, observer);
    run.play(watch)?;
    let counted = run.over.take().unwrap_or_else(|| run.counted());
    let result = RunResult { end: run.now, events: run.events, ..counted };
    within(&run, &result)?;
    Ok((result, run.observer))
}
