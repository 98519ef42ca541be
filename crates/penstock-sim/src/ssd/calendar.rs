//! What happens next. Most delays of a drive are constants (a sense, a transfer of one page), and a server that works
//! in order ends in order. So events of one kind come almost sorted: each kind has a ring, an event enters it from the
//! back, and the next of all is the first of some ring.

/// Kinds of events. The order is the priority among events of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// PCIe towards the host has sent: a job, or an output.
    Upload,
    /// PCIe towards the drive has sent: a job.
    Download,
    /// DRAM has moved: a job, or metadata of a consumer.
    Dram,
    /// eDRAM has moved metadata of a consumer.
    Edram,
    /// The aggregator has worked on an output of a consumer.
    Aggregate,
    /// A consumer has served a chunk.
    Serve,
    /// A page has left error correction: a job.
    Corrected,
    /// A page has left its channel: a job.
    Sent,
    /// A bus is free again after a command: a channel.
    Commanded,
    /// A bus is free again after data to program: a channel.
    Filled,
    /// Pages are in the registers: a die.
    Sensed,
    /// Pages are programmed: a die.
    Programmed,
    /// A block is erased: a die.
    Erased,
    /// A read of other traffic comes.
    ReadComes,
    /// A write of other traffic comes.
    WriteComes,
}

const KINDS: usize = 15;
const ALL: [Kind; KINDS] = [
    Kind::Upload,
    Kind::Download,
    Kind::Dram,
    Kind::Edram,
    Kind::Aggregate,
    Kind::Serve,
    Kind::Corrected,
    Kind::Sent,
    Kind::Commanded,
    Kind::Filled,
    Kind::Sensed,
    Kind::Programmed,
    Kind::Erased,
    Kind::ReadComes,
    Kind::WriteComes,
];
const NEVER: i64 = i64::MAX;

#[derive(Debug, Clone, Copy)]
struct Event {
    time: i64,
    about: u32,
}

/// A ring buffer, sorted by (time, order of entry). Its length is a power of two.
#[derive(Debug, Clone)]
struct Ring {
    events: Vec<Event>,
    first: usize,
    count: usize,
}

impl Ring {
    fn new() -> Self {
        Self { events: vec![Event { time: 0, about: 0 }; 64], first: 0, count: 0 }
    }

    fn slot(&self, at: usize) -> usize {
        (self.first + at) & (self.events.len() - 1)
    }

    fn push(&mut self, event: Event) {
        if self.count == self.events.len() {
            self.grow();
        }
        let mut at = self.count;
        while at > 0 {
            let before = self.slot(at - 1);
            if self.events[before].time <= event.time {
                break;
            }
            let here = self.slot(at);
            self.events[here] = self.events[before];
            at -= 1;
        }
        let here = self.slot(at);
        self.events[here] = event;
        self.count += 1;
    }

    fn grow(&mut self) {
        self.events.rotate_left(self.first);
        self.first = 0;
        self.events.resize(2 * self.count, Event { time: 0, about: 0 });
    }

    fn head(&self) -> i64 {
        if self.count == 0 { NEVER } else { self.events[self.first].time }
    }

    fn pop(&mut self) -> Event {
        let event = self.events[self.first];
        self.first = self.slot(1);
        self.count -= 1;
        event
    }
}

/// When the first event of one ring is.
#[derive(Debug, Clone, Copy)]
struct Head {
    time: i64,
    kind: u8,
}

/// Of two rings' first events, that of the ring with the smaller number and of the other: which is next.
/// This is the one place where the order of events is decided: by time, then by kind. Within a ring it
/// is by time, and then by which was pushed first.
#[inline]
fn earlier(a: Head, b: Head) -> Head {
    if b.time < a.time { b } else { a }
}

/// Rings, and one place more to make pairs.
const PLACES: usize = 16;

/// All that is going to happen.
#[derive(Debug, Clone)]
pub(crate) struct Calendar {
    /// Time of the first event of each ring.
    heads: [i64; PLACES],
    rings: [Ring; KINDS],
    next: Head,
}

impl Calendar {
    pub(crate) fn new() -> Self {
        let next = Head { time: NEVER, kind: 0 };
        Self { heads: [NEVER; PLACES], rings: std::array::from_fn(|_| Ring::new()), next }
    }

    #[inline]
    pub(crate) fn push(&mut self, time: i64, kind: Kind, about: u32) {
        let ring = &mut self.rings[kind as usize];
        ring.push(Event { time, about });
        let head = Head { time: ring.head(), kind: kind as u8 };
        self.heads[kind as usize] = head.time;
        self.next = if head.kind < self.next.kind { earlier(head, self.next) } else { earlier(self.next, head) };
    }

    /// The next event's time and kind.
    #[inline]
    pub(crate) fn next(&self) -> Option<(i64, Kind)> {
        let Head { time, kind } = self.next;
        if time == NEVER { None } else { Some((time, ALL[kind as usize])) }
    }

    /// Takes the first event of `kind`, which [`Calendar::next`] has named. Always inlined: outside the loop it costs 3 %.
    #[inline(always)]
    pub(crate) fn take(&mut self, kind: Kind) -> u32 {
        let ring = &mut self.rings[kind as usize];
        let about = ring.pop().about;
        self.heads[kind as usize] = ring.head();
        self.find_next();
        about
    }

    /// Neighbours in pairs, so that of two rings the one with the smaller number is always the first.
    #[inline]
    fn find_next(&mut self) {
        let head = |kind: usize| Head { time: self.heads[kind], kind: kind as u8 };
        let eight: [Head; 8] = std::array::from_fn(|i| earlier(head(2 * i), head(2 * i + 1)));
        let four: [Head; 4] = std::array::from_fn(|i| earlier(eight[2 * i], eight[2 * i + 1]));
        self.next = earlier(earlier(four[0], four[1]), earlier(four[2], four[3]));
    }

    /// Every event with its kind, in order within each kind.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Kind, i64, u32)> + '_ {
        ALL.into_iter().flat_map(|kind| {
            let ring = &self.rings[kind as usize];
            (0..ring.count).map(move |at| {
                let event = ring.events[ring.slot(at)];
                (kind, event.time, event.about)
            })
        })
    }

    /// Everything happens `by` later.
    pub(crate) fn shift(&mut self, by: i64) {
        for (head, ring) in self.heads.iter_mut().zip(&mut self.rings) {
            for at in 0..ring.count {
                let slot = ring.slot(at);
                ring.events[slot].time += by;
            }
            *head = ring.head();
        }
        self.find_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(calendar: &mut Calendar) -> Vec<(i64, Kind, u32)> {
        let mut all = Vec::new();
        while let Some((time, kind)) = calendar.next() {
            all.push((time, kind, calendar.take(kind)));
        }
        all
    }

    #[test]
    fn order_is_time_then_kind_then_entry() {
        let mut calendar = Calendar::new();
        calendar.push(5, Kind::Sent, 1);
        calendar.push(5, Kind::Upload, 2);
        calendar.push(5, Kind::Sent, 3);
        calendar.push(4, Kind::Sent, 4);
        calendar.push(7, Kind::Dram, 5);
        let got = drain(&mut calendar);
        let expected =
            [(4, Kind::Sent, 4), (5, Kind::Upload, 2), (5, Kind::Sent, 1), (5, Kind::Sent, 3), (7, Kind::Dram, 5)];
        assert_eq!(got, expected);
    }

    #[test]
    fn many_events_in_any_order_come_out_sorted() {
        let mut calendar = Calendar::new();
        let mut expected = Vec::new();
        for i in 0..5000u32 {
            let time = i64::from(i.wrapping_mul(2_654_435_761) % 997);
            let kind = ALL[(i % 15) as usize];
            calendar.push(time, kind, i);
            expected.push((time, kind as u8, i));
        }
        expected.sort();
        let got: Vec<_> =
            drain(&mut calendar).into_iter().map(|(time, kind, about)| (time, kind as u8, about)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn shifted_events_keep_their_order() {
        let mut calendar = Calendar::new();
        calendar.push(1, Kind::Dram, 1);
        calendar.push(1, Kind::Edram, 2);
        calendar.shift(10);
        assert_eq!(drain(&mut calendar), [(11, Kind::Dram, 1), (11, Kind::Edram, 2)]);
    }
}
