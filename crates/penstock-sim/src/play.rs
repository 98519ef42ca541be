use crate::clock::{self, Attoseconds, attoseconds, seconds};
use crate::error::{is_amount, length, not_negative, rule};
use crate::{Error, WATCH_MASK, Watch};

/// How compute, transfers and decoding share the time. The crate's documentation defines each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Serial,
    /// Transfers run ahead of compute by at most `depth` operations.
    Overlap {
        depth: usize,
    },
    Bound,
}

impl Mode {
    /// The mode called `name`; only `overlap` looks at `depth`.
    ///
    /// # Errors
    /// An unknown name; a negative depth.
    pub fn by_name(name: &str, depth: i64) -> Result<Self, Error> {
        match name {
            "serial" => Ok(Mode::Serial),
            "bound" => Ok(Mode::Bound),
            "overlap" => match usize::try_from(depth) {
                Ok(depth) => Ok(Mode::Overlap { depth }),
                Err(_) => Err(Error::value("prefetch_depth", depth, "a depth is not negative")),
            },
            _ => Err(Error::value("mode", name, "the modes are serial, overlap, bound")),
        }
    }
}

/// The source behind the cache: a backing tier and, between it and compute, a decode stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tier {
    /// Positive; infinite is allowed.
    pub bandwidth_bytes_per_s: f64,
    /// Added once a transfer.
    pub latency_s: f64,
    /// Positive; infinite where nothing is decoded.
    pub decode_bytes_per_s: f64,
}

impl Tier {
    fn check(&self) -> Result<(), Error> {
        let positive = |what: &str, value: f64| rule(value > 0.0, what, value, "a rate is a positive number");
        positive("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s)?;
        positive("decode_bytes_per_s", self.decode_bytes_per_s)?;
        rule(is_amount(self.latency_s), "latency_s", self.latency_s, "a latency is finite and not negative")
    }
}

/// The sums of a play.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeTotals {
    /// Busy time of the compute unit.
    pub compute_s: f64,
    /// Busy time of the channel.
    pub io_s: f64,
    pub decode_s: f64,
    /// From the start of the first operation to the end of the last.
    pub total_s: f64,
    /// `total - compute`: the time in which compute waits.
    pub stall_s: f64,
}

/// When one operation was where, in attoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationTimes {
    pub io_start: Attoseconds,
    pub io_end: Attoseconds,
    pub decode_start: Attoseconds,
    pub decode_end: Attoseconds,
    pub compute_start: Attoseconds,
    pub compute_end: Attoseconds,
}

/// Start and end of every operation on each resource, `(n,)` each, in seconds. An operation that
/// loads nothing has an empty interval on the channel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    pub io_start_s: Vec<f64>,
    pub io_end_s: Vec<f64>,
    pub decode_start_s: Vec<f64>,
    pub decode_end_s: Vec<f64>,
    pub compute_start_s: Vec<f64>,
    pub compute_end_s: Vec<f64>,
}

impl Schedule {
    fn push(&mut self, times: OperationTimes) {
        self.io_start_s.push(seconds(times.io_start));
        self.io_end_s.push(seconds(times.io_end));
        self.decode_start_s.push(seconds(times.decode_start));
        self.decode_end_s.push(seconds(times.decode_end));
        self.compute_start_s.push(seconds(times.compute_start));
        self.compute_end_s.push(seconds(times.compute_end));
    }
}

/// The work of a program, checked once and played over any number of tiers.
///
/// Programs repeat a few operations many times. Operations that compute, load and transfer alike take the
/// same time over a tier, which is worked out once for all of them; times are whole numbers, so that sums do
/// not depend on their order.
#[derive(Debug, Clone)]
pub struct Work {
    /// `(n,)` which of `distinct` each operation is.
    which: Vec<u32>,
    /// In the order in which they first come.
    distinct: Vec<Operation>,
}

/// The request of equal operations.
#[derive(Debug, Clone, Copy)]
struct Operation {
    compute: Attoseconds,
    io_bytes: f64,
    transfers: f64,
    /// The first of them.
    first: usize,
    count: i128,
}

/// Durations of one operation.
#[derive(Clone, Copy)]
struct Step {
    compute: Attoseconds,
    io: Attoseconds,
    decode: Attoseconds,
}

impl Work {
    /// `compute_s`, `io_bytes` and `transfers` are `(n,)`: the compute time of each operation, its loads, and the
    /// number of transfers (fractions are expected values).
    ///
    /// # Errors
    /// Lengths differ; a value is not finite or negative; a time is past the clock's limit.
    pub fn new(compute_s: &[f64], io_bytes: &[f64], transfers: &[f64]) -> Result<Self, Error> {
        for (what, array) in [("compute_s", compute_s), ("io_bytes", io_bytes), ("transfers", transfers)] {
            length(what, array.len(), compute_s.len(), "one element for each of compute_s")?;
            not_negative(what, array)?;
        }
        let (which, counts) = alike([compute_s, io_bytes, transfers]);
        let distinct = counts
            .into_iter()
            .map(|(first, count)| {
                let compute = on_clock(compute_s[first], first)?;
                Ok(Operation { compute, io_bytes: io_bytes[first], transfers: transfers[first], first, count })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { which, distinct })
    }

    /// Plays the work over `tier`.
    ///
    /// # Errors
    /// `tier` breaks a rule; [`Error::ClockOverflow`]; [`Error::Interrupted`].
    pub fn play(&self, tier: &Tier, mode: Mode, watch: &mut Watch<'_>) -> Result<TimeTotals, Error> {
        let steps = self.steps(tier)?;
        let sums = self.sums(&steps);
        let total = match mode {
            Mode::Serial => sums.compute + sums.io + sums.decode,
            Mode::Bound => sums.compute.max(sums.io).max(sums.decode),
            Mode::Overlap { depth } => self.advance(&steps, self.overlap(depth), watch, |_| {})?,
        };
        self.totals(sums, total)
    }

    /// As [`Work::play`], with the times of each operation.
    ///
    /// # Errors
    /// As [`Work::play`]; the mode is [`Mode::Bound`], which puts no operation at a time.
    pub fn play_schedule(
        &self,
        tier: &Tier,
        mode: Mode,
        watch: &mut Watch<'_>,
    ) -> Result<(TimeTotals, Schedule), Error> {
        let steps = self.steps(tier)?;
        let mut schedule = Schedule::default();
        let observe = |times| schedule.push(times);
        let total = match mode {
            Mode::Bound => {
                return Err(Error::value("mode", "bound", "it puts no operation at a time, so it has no timeline"));
            }
            Mode::Serial => self.advance(&steps, Serial::default(), watch, observe)?,
            Mode::Overlap { depth } => self.advance(&steps, self.overlap(depth), watch, observe)?,
        };
        Ok((self.totals(self.sums(&steps), total)?, schedule))
    }

    /// The times of each distinct operation on `tier`.
    fn steps(&self, tier: &Tier) -> Result<Vec<Step>, Error> {
        tier.check()?;
        self.distinct
            .iter()
            .map(|each| {
                let io_s = each.io_bytes / tier.bandwidth_bytes_per_s + each.transfers * tier.latency_s;
                let io = on_clock(io_s, each.first)?;
                let decode = on_clock(each.io_bytes / tier.decode_bytes_per_s, each.first)?;
                Ok(Step { compute: each.compute, io, decode })
            })
            .collect()
    }

    /// Of all operations.
    fn sums(&self, steps: &[Step]) -> Step {
        let mut sums = Step { compute: 0, io: 0, decode: 0 };
        for (step, each) in steps.iter().zip(&self.distinct) {
            sums.compute += step.compute * each.count;
            sums.io += step.io * each.count;
            sums.decode += step.decode * each.count;
        }
        sums
    }

    fn overlap(&self, depth: usize) -> Overlap {
        // More buffers than operations are never used.
        Overlap::new(depth.min(self.which.len()) + 1)
    }

    /// Puts one operation after another; gives the end of the last.
    fn advance<R: Rule>(
        &self,
        steps: &[Step],
        mut rule: R,
        watch: &mut Watch<'_>,
        mut observe: impl FnMut(OperationTimes),
    ) -> Result<Attoseconds, Error> {
        let mut end = 0;
        for (i, &which) in self.which.iter().enumerate() {
            if i & WATCH_MASK == WATCH_MASK && watch() {
                return Err(Error::Interrupted);
            }
            let times = rule.place(steps[which as usize]);
            end = times.compute_end;
            observe(times);
        }
        Ok(end)
    }

    fn totals(&self, sums: Step, total: Attoseconds) -> Result<TimeTotals, Error> {
        for time in [total, sums.compute, sums.io, sums.decode] {
            clock::check(time, || format!("over {} operations", self.which.len()))?;
        }
        Ok(TimeTotals {
            compute_s: seconds(sums.compute),
            io_s: seconds(sums.io),
            decode_s: seconds(sums.decode),
            total_s: seconds(total),
            stall_s: seconds(total - sums.compute),
        })
    }
}

/// Finds the places of three arrays that hold the same three numbers: of each place a number, and of each number the
/// first place and the count. Numbers go by first place.
fn alike(arrays: [&[f64]; 3]) -> (Vec<u32>, Vec<(usize, i128)>) {
    const EMPTY: u32 = u32::MAX;
    let [a, b, c] = arrays;
    let slot_of = |key: [u64; 3], bits: u32| {
        let mixed = key[0] ^ key[1].rotate_left(21) ^ key[2].rotate_left(42);
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize
    };
    let (mut bits, mut keys, mut counts) = (8, Vec::<[u64; 3]>::new(), Vec::<(usize, i128)>::new());
    let mut slots = vec![EMPTY; 1 << bits];
    let mut which = Vec::with_capacity(a.len());
    for place in 0..a.len() {
        let key = [a[place].to_bits(), b[place].to_bits(), c[place].to_bits()];
        let mut at = slot_of(key, bits);
        while slots[at] != EMPTY && keys[slots[at] as usize] != key {
            at = (at + 1) & (slots.len() - 1);
        }
        if slots[at] == EMPTY {
            slots[at] = keys.len() as u32;
            keys.push(key);
            counts.push((place, 0));
        }
        let number = slots[at];
        counts[number as usize].1 += 1;
        which.push(number);
        if keys.len() * 2 > slots.len() {
            bits += 2;
            slots = vec![EMPTY; 1 << bits];
            for (number, &key) in keys.iter().enumerate() {
                let mut at = slot_of(key, bits);
                while slots[at] != EMPTY {
                    at = (at + 1) & (slots.len() - 1);
                }
                slots[at] = number as u32;
            }
        }
    }
    (which, counts)
}

fn on_clock(duration_s: f64, operation: usize) -> Result<Attoseconds, Error> {
    attoseconds(duration_s).ok_or_else(|| Error::ClockOverflow { at: format!("at operation {operation}") })
}

/// Puts one operation after another in time.
trait Rule {
    fn place(&mut self, step: Step) -> OperationTimes;
}

#[derive(Default)]
struct Serial {
    now: Attoseconds,
}

impl Rule for Serial {
    #[inline]
    fn place(&mut self, step: Step) -> OperationTimes {
        let io_end = self.now + step.io;
        let decode_end = io_end + step.decode;
        let compute_end = decode_end + step.compute;
        let io_start = std::mem::replace(&mut self.now, compute_end);
        OperationTimes { io_start, io_end, decode_start: io_end, decode_end, compute_start: decode_end, compute_end }
    }
}

struct Overlap {
    /// When each buffer becomes free, in a ring.
    free: Vec<Attoseconds>,
    /// The oldest.
    at: usize,
    last: OperationTimes,
}

impl Overlap {
    fn new(buffers: usize) -> Self {
        Self { free: vec![0; buffers], at: 0, last: OperationTimes::default() }
    }
}

impl Rule for Overlap {
    #[inline]
    fn place(&mut self, step: Step) -> OperationTimes {
        let free = &mut self.free[self.at];
        let io_start = self.last.io_end.max(*free);
        let io_end = io_start + step.io;
        let decode_start = io_end.max(self.last.decode_end);
        let decode_end = decode_start + step.decode;
        let compute_start = decode_end.max(self.last.compute_end);
        let compute_end = compute_start + step.compute;
        *free = compute_end;
        self.at = if self.at + 1 == self.free.len() { 0 } else { self.at + 1 };
        self.last = OperationTimes { io_start, io_end, decode_start, decode_end, compute_start, compute_end };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTO: f64 = 1e-18;

    fn tier(bandwidth: f64) -> Tier {
        Tier { bandwidth_bytes_per_s: bandwidth, latency_s: 0.0, decode_bytes_per_s: f64::INFINITY }
    }

    fn total(work: &Work, tier: &Tier, mode: Mode) -> f64 {
        work.play(tier, mode, &mut || false).unwrap().total_s
    }

    #[test]
    fn a_hand_computed_overlap_with_decoding() {
        // Seconds: compute 3 1 2, transfer 2 4 1, decode 1 2 0.5; depth 1.
        let work = Work::new(&[3.0, 1.0, 2.0], &[2.0, 4.0, 1.0], &[1.0; 3]).unwrap();
        let tier = Tier { decode_bytes_per_s: 2.0, ..tier(1.0) };
        let (totals, schedule) = work.play_schedule(&tier, Mode::Overlap { depth: 1 }, &mut || false).unwrap();
        // Operation 2 waits for the buffer of operation 0, which is free at 6 = its own turn on the channel.
        assert_eq!(schedule.io_start_s, [0.0, 2.0, 6.0]);
        assert_eq!(schedule.io_end_s, [2.0, 6.0, 7.0]);
        assert_eq!(schedule.decode_start_s, [2.0, 6.0, 8.0]);
        assert_eq!(schedule.decode_end_s, [3.0, 8.0, 8.5]);
        assert_eq!(schedule.compute_start_s, [3.0, 8.0, 9.0]);
        assert_eq!(schedule.compute_end_s, [6.0, 9.0, 11.0]);
        assert_eq!((totals.total_s, totals.compute_s, totals.io_s, totals.decode_s), (11.0, 6.0, 7.0, 3.5));
        assert_eq!(totals.stall_s, 5.0);
    }

    #[test]
    fn transfers_wait_for_a_buffer() {
        // Transfers of 1 s, compute of 10 s, depth 2: three buffers, so the fourth transfer starts when
        // the first compute ends, at 11.
        let work = Work::new(&[10.0; 5], &[1.0; 5], &[1.0; 5]).unwrap();
        let (_, schedule) = work.play_schedule(&tier(1.0), Mode::Overlap { depth: 2 }, &mut || false).unwrap();
        assert_eq!(schedule.io_start_s, [0.0, 1.0, 2.0, 11.0, 21.0]);
    }

    #[test]
    fn depth_zero_is_serial_and_a_depth_past_the_end_changes_nothing() {
        let (compute, bytes) = ([3.0, 1.0, 2.0], [2.0, 4.0, 1.0]);
        let work = Work::new(&compute, &bytes, &[1.0; 3]).unwrap();
        let tier = Tier { decode_bytes_per_s: 2.0, latency_s: 0.25, ..tier(1.0) };
        assert_eq!(total(&work, &tier, Mode::Overlap { depth: 0 }), total(&work, &tier, Mode::Serial));
        assert_eq!(
            total(&work, &tier, Mode::Overlap { depth: 3 }),
            total(&work, &tier, Mode::Overlap { depth: usize::MAX })
        );
    }

    #[test]
    fn latency_is_paid_once_a_transfer() {
        let work = Work::new(&[0.0, 0.0], &[8.0, 0.0], &[3.0, 0.5]).unwrap();
        let tier = Tier { latency_s: 2.0, ..tier(4.0) };
        assert_eq!(total(&work, &tier, Mode::Serial), 2.0 + 3.0 * 2.0 + 0.5 * 2.0);
    }

    #[test]
    fn bound_takes_the_busiest_resource() {
        let work = Work::new(&[3.0, 1.0], &[2.0, 4.0], &[1.0; 2]).unwrap();
        assert_eq!(total(&work, &tier(1.0), Mode::Bound), 6.0);
        assert_eq!(total(&work, &tier(2.0), Mode::Bound), 4.0);
        assert_eq!(total(&work, &Tier { decode_bytes_per_s: 0.5, ..tier(2.0) }, Mode::Bound), 12.0);
        assert!(work.play_schedule(&tier(1.0), Mode::Bound, &mut || false).is_err());
    }

    #[test]
    fn nothing_to_do_takes_no_time() {
        let work = Work::new(&[], &[], &[]).unwrap();
        for mode in [Mode::Serial, Mode::Bound, Mode::Overlap { depth: 1 }] {
            assert_eq!(total(&work, &tier(1.0), mode), 0.0);
        }
    }

    #[test]
    fn bad_numbers_are_named() {
        let message = |r: Result<Work, Error>| r.map(|_| ()).unwrap_err().to_string();
        assert!(message(Work::new(&[1.0, f64::NAN], &[0.0; 2], &[0.0; 2])).starts_with("compute_s[1] is NaN"));
        assert!(message(Work::new(&[1.0], &[-1.0], &[0.0])).starts_with("io_bytes[0] is -1"));
        assert!(message(Work::new(&[1.0], &[0.0], &[f64::INFINITY])).starts_with("transfers[0] is inf"));
        assert!(message(Work::new(&[1.0], &[0.0; 2], &[0.0])).starts_with("io_bytes has 2 elements, 1 expected"));
        let work = Work::new(&[1.0], &[1.0], &[1.0]).unwrap();
        for bad in [0.0, -1.0, f64::NAN] {
            assert!(work.play(&tier(bad), Mode::Serial, &mut || false).is_err());
            let slow_decode = Tier { decode_bytes_per_s: bad, ..tier(1.0) };
            assert!(work.play(&slow_decode, Mode::Serial, &mut || false).is_err());
        }
        for bad in [-ATTO, f64::NAN, f64::INFINITY] {
            assert!(work.play(&Tier { latency_s: bad, ..tier(1.0) }, Mode::Serial, &mut || false).is_err());
        }
    }

    #[test]
    fn modes_go_by_name() {
        assert_eq!(Mode::by_name("serial", -1), Ok(Mode::Serial));
        assert_eq!(Mode::by_name("overlap", 0), Ok(Mode::Overlap { depth: 0 }));
        assert!(Mode::by_name("overlap", -1).is_err());
        assert!(Mode::by_name("parallel", 1).is_err());
    }

    #[test]
    fn the_clock_runs_out_after_106_days() {
        let message = |e: Error| e.to_string();
        let long = [5e6];
        assert!(Work::new(&long, &[0.0], &[0.0]).is_ok());
        let twice = Work::new(&[5e6, 5e6], &[0.0; 2], &[0.0; 2]).unwrap();
        let error = twice.play(&tier(1.0), Mode::Serial, &mut || false).unwrap_err();
        assert!(message(error).contains("over 2 operations"));
        let slow = Work::new(&[1.0], &[1e7], &[0.0]).unwrap();
        let error = slow.play(&tier(1.0), Mode::Serial, &mut || false).unwrap_err();
        assert!(message(error).contains("at operation 0"));
    }

    #[test]
    fn a_watch_stops_a_long_play() {
        let n = WATCH_MASK + 2;
        let (zeros, mut asked) = (vec![0.0; n], 0);
        let work = Work::new(&zeros, &zeros, &zeros).unwrap();
        let stop = &mut || {
            asked += 1;
            true
        };
        assert_eq!(work.play(&tier(1.0), Mode::Overlap { depth: 1 }, stop), Err(Error::Interrupted));
        assert_eq!(asked, 1);
    }

    #[test]
    fn what_is_alike_is_found_among_many() {
        // 3000 distinct operations, so that the table grows; each three times, and zeros of both signs.
        let value = |i: usize| (i % 3000) as f64 * 0.37;
        let arrays: [Vec<f64>; 3] = [0, 1, 2].map(|k| (0..9000).map(|i| value(i) * f64::from(k)).collect());
        let (which, counts) = alike([&arrays[0], &arrays[1], &arrays[2]]);
        assert_eq!(counts.len(), 3000);
        assert!(counts.iter().enumerate().all(|(number, &(first, count))| first == number && count == 3));
        assert!(which.iter().enumerate().all(|(i, &number)| number as usize == i % 3000));
        let zeros = [0.0, -0.0, 0.0];
        assert_eq!(alike([&zeros; 3]).0, [0, 1, 0]);
        assert_eq!(alike([&[]; 3]), (vec![], vec![]));
    }

    #[test]
    fn sums_and_schedules_agree_on_operations_that_repeat() {
        let compute: Vec<f64> = (0..500).map(|i| f64::from(i % 7) * 1.3e-6).collect();
        let bytes: Vec<f64> = (0..500).map(|i| f64::from(i % 5) * 1e5 / 3.0).collect();
        let transfers: Vec<f64> = (0..500).map(|i| f64::from(i % 2)).collect();
        let work = Work::new(&compute, &bytes, &transfers).unwrap();
        let tier = Tier { bandwidth_bytes_per_s: 7e9, latency_s: 1e-6, decode_bytes_per_s: 3e10 };
        for mode in [Mode::Serial, Mode::Overlap { depth: 2 }] {
            let (totals, schedule) = work.play_schedule(&tier, mode, &mut || false).unwrap();
            assert_eq!(totals, work.play(&tier, mode, &mut || false).unwrap());
            assert_eq!(schedule.compute_end_s.last(), Some(&totals.total_s));
        }
    }
}
