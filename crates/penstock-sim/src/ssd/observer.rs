//! The observer of the busy times of a drive's units. A run that nobody observes has `()`, of which no code is left.

/// The place of an action; channels and dies are counted over the whole drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Channel(u32),
    Die(u32),
    /// DRAM, eDRAM, PCIe or the aggregator: `work` names it.
    Drive,
}

/// From when to when something was done, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub lane: Lane,
    pub work: &'static str,
    pub start: i64,
    pub end: i64,
    /// The page on the bus: the logical one, or the table's.
    pub page: Option<u64>,
}

pub(crate) trait Observer {
    /// Something is planned; what begins later may be told earlier.
    fn busy(&mut self, interval: Interval);
}

impl Observer for () {
    #[inline(always)]
    fn busy(&mut self, _: Interval) {}
}

/// The first intervals of a run until its reported end, and how many more there were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    pub intervals: Vec<Interval>,
    pub left_out: u64,
    most: usize,
    /// When those beyond `most` begin.
    beyond: Vec<i64>,
}

impl Recording {
    pub(crate) fn new(most: usize) -> Self {
        Self { intervals: Vec::new(), left_out: 0, most, beyond: Vec::new() }
    }

    /// Without what begins at `end` or later; what goes on then is cut there.
    pub(crate) fn until(mut self, end: i64) -> Self {
        self.intervals.retain(|each| each.start < end);
        for each in &mut self.intervals {
            each.end = each.end.min(end);
        }
        self.left_out = self.beyond.drain(..).filter(|&start| start < end).count() as u64;
        self
    }
}

impl Observer for Recording {
    fn busy(&mut self, interval: Interval) {
        if self.intervals.len() < self.most {
            self.intervals.push(interval);
        } else {
            self.beyond.push(interval.start);
        }
    }
}
