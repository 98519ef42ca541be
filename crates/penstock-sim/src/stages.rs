//! Time through any number of stages: the channels of several memory levels, decoding, compute,
//! communication. [`crate::Work`] is the case of one channel, one decode stage and compute, made fast.

use crate::clock::{self, Attoseconds, attoseconds, seconds};
use crate::error::{every, length, not_negative, rule};
use crate::{Error, WATCH_MASK, Watch};

/// How the stages of the operations share the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StageMode<'a> {
    /// Nothing overlaps.
    Serial,
    /// A pipeline in program order; the first stages run ahead as far as the window allows.
    Overlap(Window<'a>),
    /// Everything overlaps.
    Bound,
}

/// How far the first stage may run ahead of the end of the last.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Window<'a> {
    /// Operations; `None`: no limit.
    pub depth: Option<usize>,
    /// `(n,)` of each operation, next to `depth`; `None`: no limit.
    pub depths: Option<&'a [i64]>,
    /// Bytes that are under way or wait for their operation; `None`: no limit.
    pub buffer_bytes: Option<f64>,
}

impl<'a> StageMode<'a> {
    /// The mode called `name`; only `overlap` looks at the window.
    ///
    /// # Errors
    /// An unknown name; a depth or a buffer that is negative or no number.
    pub fn by_name(
        name: &str,
        depth: Option<i64>,
        buffer_bytes: Option<f64>,
        depths: Option<&'a [i64]>,
    ) -> Result<Self, Error> {
        match name {
            "serial" => Ok(StageMode::Serial),
            "bound" => Ok(StageMode::Bound),
            "overlap" => {
                let checked = |depth| {
                    usize::try_from(depth).map_err(|_| Error::value("prefetch_depth", depth, "a depth is not negative"))
                };
                let depth = depth.map(checked).transpose()?;
                let bytes = buffer_bytes.unwrap_or_default();
                rule(bytes >= 0.0, "prefetch_buffer_bytes", bytes, "a buffer is not negative")?;
                every("prefetch_depths", depths.unwrap_or(&[]), "a depth is not negative", |depth| depth >= 0)?;
                Ok(StageMode::Overlap(Window { depth, depths, buffer_bytes }))
            }
            _ => Err(Error::value("mode", name, "the modes are serial, overlap, bound")),
        }
    }
}

/// The sums of a play through `s` stages.
#[derive(Debug, Clone, PartialEq)]
pub struct StageTotals {
    /// `(s,)` busy time of each stage.
    pub busy_s: Vec<f64>,
    /// `(s,)` time in which each stage waits: `total - busy`.
    pub idle_s: Vec<f64>,
    /// From the start of the first operation to the end of the last.
    pub total_s: f64,
    /// Operations that hold more bytes than the whole buffer: they wait until it is empty.
    pub oversized: i64,
    /// `(s,)` of `(n,)` start and end of each operation in each stage, if asked for.
    pub schedule: Option<Vec<StageSchedule>>,
}

/// `(n,)` start and end of each operation in one stage, in seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StageSchedule {
    pub start_s: Vec<f64>,
    pub end_s: Vec<f64>,
}

/// Plays operations through stages. The crate's documentation defines the rules.
///
/// `stages_s` is `(s,)` of `(n,)`: seconds of each operation in each stage; the last stage returns the operation's part
/// of the window. `held_bytes` is `(n,)`.
///
/// # Errors
/// No stage, lengths differ, a value is not finite or negative; a timeline of [`StageMode::Bound`],
/// which puts no operation at a time; [`Error::ClockOverflow`]; [`Error::Interrupted`].
pub fn play_stages(
    stages_s: &[&[f64]],
    held_bytes: &[f64],
    mode: StageMode<'_>,
    timeline: bool,
    watch: &mut Watch<'_>,
) -> Result<StageTotals, Error> {
    check(stages_s, held_bytes)?;
    if let StageMode::Overlap(Window { depths: Some(depths), .. }) = mode {
        length("prefetch_depths", depths.len(), held_bytes.len(), "one element for each of held_bytes")?;
    }
    let placed = !timeline || mode != StageMode::Bound;
    rule(placed, "mode", "bound", "it puts no operation at a time, so it has no timeline")?;
    let num_stages = stages_s.len();
    let mut busy = vec![0; num_stages];
    let mut ends: Vec<Attoseconds> = vec![0; num_stages];
    let mut schedule = timeline.then(|| vec![StageSchedule::default(); num_stages]);
    let mut ahead = match mode {
        StageMode::Overlap(window) => Some(Ahead::new(window, held_bytes)),
        _ => None,
    };
    for i in 0..held_bytes.len() {
        if i & WATCH_MASK == WATCH_MASK && watch() {
            return Err(Error::Interrupted);
        }
        // Serial: an operation starts where the one before ended.
        let mut ready = match &mut ahead {
            Some(ahead) => ahead.release(i),
            None => ends[num_stages - 1],
        };
        for (stage, durations) in stages_s.iter().enumerate() {
            let duration = attoseconds(durations[i])
                .ok_or_else(|| Error::ClockOverflow { at: format!("at operation {i}, stage {stage}") })?;
            busy[stage] += duration;
            let start = ready.max(ends[stage]);
            ready = start + duration;
            ends[stage] = ready;
            if let Some(schedule) = &mut schedule {
                schedule[stage].start_s.push(seconds(start));
                schedule[stage].end_s.push(seconds(ready));
            }
        }
        if let Some(ahead) = &mut ahead {
            ahead.ends.push(ready);
        }
    }
    let total = match mode {
        StageMode::Bound => busy.iter().copied().max().unwrap_or(0),
        _ => ends[num_stages - 1],
    };
    for &time in busy.iter().chain([&total]) {
        clock::check(time, || format!("over {} operations", held_bytes.len()))?;
    }
    Ok(StageTotals {
        busy_s: busy.iter().map(|&time| seconds(time)).collect(),
        idle_s: busy.iter().map(|&time| seconds(total - time)).collect(),
        total_s: seconds(total),
        oversized: ahead.map_or(0, |ahead| ahead.oversized),
        schedule,
    })
}

fn check(stages_s: &[&[f64]], held_bytes: &[f64]) -> Result<(), Error> {
    if stages_s.is_empty() {
        return Err(Error::Length { what: "stages_s", got: 0, expected: 1, rule: "there is one stage at least" });
    }
    let named = stages_s.iter().enumerate().map(|(i, &stage)| (format!("stages_s[{i}]"), stage));
    for (what, array) in named.chain([("held_bytes".to_owned(), held_bytes)]) {
        length("stages_s", array.len(), held_bytes.len(), "one element for each of held_bytes")?;
        not_negative(&what, array)?;
    }
    Ok(())
}

/// When the window lets an operation in.
struct Ahead<'a> {
    window: Window<'a>,
    held_bytes: &'a [f64],
    /// Bytes of all operations before, with one element more than operations seen.
    sums: Vec<f64>,
    /// The first operation that fits into the buffer together with all up to the present one.
    first: usize,
    /// When the last stage of each operation ended.
    ends: Vec<Attoseconds>,
    oversized: i64,
}

impl<'a> Ahead<'a> {
    fn new(window: Window<'a>, held_bytes: &'a [f64]) -> Self {
        let mut sums = Vec::with_capacity(held_bytes.len() + 1);
        sums.push(0.0);
        Self { window, held_bytes, sums, first: 0, ends: Vec::with_capacity(held_bytes.len()), oversized: 0 }
    }

    /// The earliest start of operation `i`; all before it are in `ends`.
    fn release(&mut self, i: usize) -> Attoseconds {
        let sum = self.sums[i] + self.held_bytes[i];
        self.sums.push(sum);
        let mut after = 0;
        if let Some(depth) = self.window.depth {
            after = i.saturating_sub(depth);
        }
        if let Some(depths) = self.window.depths {
            // Checked to be not negative.
            after = after.max(i.saturating_sub(depths[i] as usize));
        }
        if let Some(buffer) = self.window.buffer_bytes {
            while self.first < i && sum - self.sums[self.first] > buffer {
                self.first += 1;
            }
            self.oversized += i64::from(self.held_bytes[i] > buffer);
            after = after.max(self.first);
        }
        // The operations before `after` must have ended: the last of them is the last to end.
        if after == 0 { 0 } else { self.ends[after - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Tier, Work};

    fn play(stages: &[&[f64]], held: &[f64], mode: StageMode<'_>) -> StageTotals {
        play_stages(stages, held, mode, mode != StageMode::Bound, &mut || false).unwrap()
    }

    fn overlap(depth: Option<usize>, buffer_bytes: Option<f64>) -> StageMode<'static> {
        StageMode::Overlap(Window { depth, buffer_bytes, depths: None })
    }

    #[test]
    fn each_operation_may_run_ahead_by_its_own_depth() {
        let (io, compute, held) = ([1.0; 4], [10.0; 4], [4.0; 4]);
        let starts = |depths: &[i64]| {
            let window = Window { depths: Some(depths), ..Window::default() };
            play(&[&io, &compute], &held, StageMode::Overlap(window)).schedule.unwrap().remove(0).start_s
        };
        for depth in 0..4 {
            let same = play(&[&io, &compute], &held, overlap(Some(depth), None)).schedule.unwrap().remove(0).start_s;
            assert_eq!(starts(&[depth as i64; 4]), same);
        }
        // Nothing ahead but the third, which may begin when the first has ended.
        assert_eq!(starts(&[0, 0, 1, 0]), [0.0, 11.0, 12.0, 32.0]);
        let few = Window { depths: Some(&[0]), ..Window::default() };
        let message =
            play_stages(&[&io], &held, StageMode::Overlap(few), false, &mut || false).unwrap_err().to_string();
        assert!(message.starts_with("prefetch_depths has 1 elements, 4 expected"), "{message}");
        let message = StageMode::by_name("overlap", None, None, Some(&[0, -1])).unwrap_err().to_string();
        assert!(message.starts_with("prefetch_depths[1] is -1"), "{message}");
    }

    #[test]
    fn one_channel_decoding_and_compute_are_what_work_plays() {
        let (compute, bytes) = ([3.0, 1.0, 2.0, 0.5], [2.0, 4.0, 0.0, 1.0]);
        let decode = bytes.map(|b| b / 2.0);
        let work = Work::new(&compute, &bytes, &[1.0; 4]).unwrap();
        let tier = Tier { bandwidth_bytes_per_s: 1.0, latency_s: 0.0, decode_bytes_per_s: 2.0 };
        for depth in 0..5 {
            let expected = work.play(&tier, Mode::Overlap { depth }, &mut || false).unwrap();
            let got = play(&[&bytes, &decode, &compute], &bytes, overlap(Some(depth), None));
            assert_eq!((got.total_s, got.busy_s[0]), (expected.total_s, expected.io_s), "{depth}");
            assert_eq!(got.idle_s[2], expected.stall_s);
        }
        for (mode, stage_mode) in [(Mode::Serial, StageMode::Serial), (Mode::Bound, StageMode::Bound)] {
            let expected = work.play(&tier, mode, &mut || false).unwrap();
            assert_eq!(play(&[&bytes, &decode, &compute], &bytes, stage_mode).total_s, expected.total_s);
        }
    }

    #[test]
    fn a_buffer_bounds_the_bytes_that_run_ahead() {
        // Transfers of 1 s and 4 bytes, compute of 10 s. A buffer of 8 bytes holds two operations.
        let (io, compute, held) = ([1.0; 4], [10.0; 4], [4.0; 4]);
        let got = play(&[&io, &compute], &held, overlap(None, Some(8.0)));
        assert_eq!(got.schedule.unwrap()[0].start_s, [0.0, 1.0, 11.0, 21.0]);
        let roomy = play(&[&io, &compute], &held, overlap(None, Some(16.0)));
        assert_eq!(roomy.schedule.unwrap()[0].start_s, [0.0, 1.0, 2.0, 3.0]);
        let one_byte_short = play(&[&io, &compute], &held, overlap(None, Some(7.0)));
        assert_eq!(one_byte_short.schedule.unwrap()[0].start_s, [0.0, 11.0, 22.0, 33.0]);
        assert_eq!((got.oversized, got.total_s, one_byte_short.total_s), (0, 41.0, 44.0));
    }

    #[test]
    fn what_is_larger_than_the_buffer_waits_until_it_is_empty() {
        let (io, compute, held) = ([1.0; 3], [5.0; 3], [2.0, 9.0, 2.0]);
        let got = play(&[&io, &compute], &held, overlap(None, Some(4.0)));
        assert_eq!(got.schedule.unwrap()[0].start_s, [0.0, 6.0, 12.0]);
        assert_eq!(got.oversized, 1);
    }

    #[test]
    fn the_stricter_of_depth_and_buffer_holds() {
        let (io, compute, held) = ([1.0; 4], [10.0; 4], [4.0; 4]);
        let starts = |mode| play(&[&io, &compute], &held, mode).schedule.unwrap().remove(0).start_s;
        assert_eq!(starts(overlap(Some(1), Some(1e9))), [0.0, 1.0, 11.0, 21.0]);
        assert_eq!(starts(overlap(Some(3), Some(8.0))), [0.0, 1.0, 11.0, 21.0]);
        assert_eq!(starts(overlap(None, None)), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn four_stages_flow_in_order() {
        // Two channels, decoding, compute; all operations wait at the slowest, the second.
        let stages: [&[f64]; 4] = [&[1.0; 3], &[4.0; 3], &[2.0; 3], &[3.0; 3]];
        let got = play(&stages, &[1.0; 3], overlap(None, None));
        assert_eq!(got.total_s, 1.0 + 4.0 + 2.0 + 3.0 + 2.0 * 4.0);
        assert_eq!(got.busy_s, [3.0, 12.0, 6.0, 9.0]);
        assert_eq!(got.idle_s[1], 6.0);
        assert_eq!(play(&stages, &[1.0; 3], StageMode::Serial).total_s, 30.0);
        assert_eq!(play(&stages, &[1.0; 3], StageMode::Bound).total_s, 12.0);
    }

    #[test]
    fn bad_input_is_named() {
        let message = |stages: &[&[f64]], held: &[f64], mode, timeline| {
            play_stages(stages, held, mode, timeline, &mut || false).unwrap_err().to_string()
        };
        assert!(message(&[], &[], StageMode::Serial, false).contains("one stage at least"));
        assert!(message(&[&[1.0]], &[], StageMode::Serial, false).contains("has 1 elements, 0 expected"));
        assert!(message(&[&[1.0], &[-1.0]], &[0.0], StageMode::Serial, false).starts_with("stages_s[1][0] is -1"));
        assert!(message(&[&[1.0]], &[f64::NAN], StageMode::Serial, false).starts_with("held_bytes[0] is NaN"));
        assert!(message(&[&[1.0]], &[0.0], StageMode::Bound, true).contains("no timeline"));
        assert!(message(&[&[1e9]], &[0.0], StageMode::Serial, false).contains("operation 0, stage 0"));
        assert!(message(&[&[5e6, 5e6]], &[0.0; 2], StageMode::Serial, false).contains("over 2 operations"));
        assert!(StageMode::by_name("overlap", Some(-1), None, None).is_err());
        assert!(StageMode::by_name("overlap", None, Some(-1.0), None).is_err());
        assert!(StageMode::by_name("sideways", None, None, None).is_err());
        assert_eq!(StageMode::by_name("overlap", Some(2), None, None), Ok(overlap(Some(2), None)));
    }

    #[test]
    fn no_operations_take_no_time_and_a_watch_stops_many() {
        assert_eq!(play(&[&[], &[]], &[], overlap(None, Some(0.0))).total_s, 0.0);
        let zeros = vec![0.0; WATCH_MASK + 2];
        let stopped = play_stages(&[&zeros], &zeros, StageMode::Serial, false, &mut || true);
        assert_eq!(stopped, Err(Error::Interrupted));
    }
}
