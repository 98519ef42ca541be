use crate::Accesses;
use crate::cache::{Fate, Policy, PolicyEntry, run};
use crate::rings::Rings;

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "lru",
    summary: "evicts what was used longest ago",
    optimal: false,
    knows_future: false,
    replay: |accesses, capacity, detail, watch| run(accesses, capacity, Lru::new(accesses), detail, watch),
};

/// Least recently used: a ring of links through the residents, most recent first.
///
/// Measured against a cursor that walks the trace instead of links, the ring is faster at low hit
/// ratios (72 against 51 million accesses a CPU-second at 44 % hits) and never slower.
pub struct Lru {
    by_age: Rings,
}

const AGE: u32 = 0;

impl Lru {
    pub fn new(accesses: &Accesses<'_>) -> Self {
        Self { by_age: Rings::new(accesses.num_objects(), 1) }
    }
}

impl Policy for Lru {
    #[inline]
    fn touch(&mut self, object: u32, _at: u32) -> Fate {
        if self.by_age.newest(AGE) != Some(object) {
            self.by_age.unlink(object);
            self.by_age.push(AGE, object);
        }
        Fate::Keep
    }

    #[inline]
    fn make_room(&mut self, object: u32, _at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        // The incoming object, where a part of it is resident, has just been touched: it comes last,
        // and the others together are enough.
        let mut freed = 0;
        while freed < needed {
            let Some(oldest) = self.by_age.oldest(AGE).filter(|&oldest| oldest != object) else { break };
            self.by_age.unlink(oldest);
            freed += resident[oldest as usize];
            victims.push(oldest);
        }
        true
    }

    #[inline]
    fn insert(&mut self, object: u32, _at: u32, _bytes: u64) {
        self.by_age.push(AGE, object);
    }
}
