use crate::Accesses;
use crate::cache::{Fate, Policy, PolicyEntry, run};
use crate::rings::Rings;

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "fifo",
    summary: "evicts what came in longest ago",
    optimal: false,
    knows_future: false,
    replay: |accesses, capacity, detail, watch| run(accesses, capacity, Fifo::new(accesses), detail, watch),
};

/// First in, first out: evicts what came in longest ago, however often it was used since. An object
/// that grows keeps its place.
pub struct Fifo {
    queue: Rings,
}

const QUEUE: u32 = 0;

impl Fifo {
    pub fn new(accesses: &Accesses<'_>) -> Self {
        Self { queue: Rings::new(accesses.num_objects(), 1) }
    }
}

impl Policy for Fifo {
    #[inline]
    fn touch(&mut self, _object: u32, _at: u32) -> Fate {
        Fate::Keep
    }

    #[inline]
    fn make_room(&mut self, object: u32, _at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        let mut freed = 0;
        while freed < needed {
            let Some(oldest) = self.queue.oldest_except(QUEUE, object) else { break };
            self.queue.unlink(oldest);
            freed += resident[oldest as usize];
            victims.push(oldest);
        }
        true
    }

    #[inline]
    fn insert(&mut self, object: u32, _at: u32, _bytes: u64) {
        self.queue.push(QUEUE, object);
    }
}
