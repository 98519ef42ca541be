use crate::Accesses;
use crate::cache::{Fate, Policy, PolicyEntry, run};
use crate::rings::Rings;

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "lfu",
    summary: "evicts what was used the fewest times since it came in",
    optimal: false,
    knows_future: false,
    replay: |accesses, capacity, detail, watch| run(accesses, capacity, Lfu::new(accesses), detail, watch),
};

/// Least frequently used: evicts the object with the fewest uses since it came in; among equals, the least recently
/// used one. The count of an object is forgotten when it leaves.
///
/// A ring for each count that some resident has, and these counts in a ring of their own: every
/// step takes constant time.
///
/// Source: Shah, Mitra, Matani, An O(1) algorithm for implementing the LFU cache eviction scheme, 2010.
pub struct Lfu {
    rings: Rings,
    /// Ring `i` holds the objects of `counts[i]`. Number 0 is the head and holds none.
    counts: Vec<Count>,
    /// Rings that nobody is on.
    spare: Vec<u32>,
    ring_of: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Count {
    uses: u64,
    fewer: u32,
    more: u32,
}

const HEAD: u32 = 0;

impl Lfu {
    pub fn new(accesses: &Accesses<'_>) -> Self {
        Self {
            rings: Rings::new(accesses.num_objects(), 1),
            counts: vec![Count { uses: 0, fewer: HEAD, more: HEAD }],
            spare: Vec::new(),
            ring_of: vec![HEAD; accesses.num_objects()],
        }
    }

    /// The ring of `uses`, which is next above `fewer`'s.
    #[inline]
    fn ring_above(&mut self, fewer: u32, uses: u64) -> u32 {
        let more = self.counts[fewer as usize].more;
        if more != HEAD && self.counts[more as usize].uses == uses {
            return more;
        }
        let count = Count { uses, fewer, more };
        let ring = if let Some(ring) = self.spare.pop() {
            self.counts[ring as usize] = count;
            ring
        } else {
            self.counts.push(count);
            self.rings.add_ring()
        };
        self.counts[fewer as usize].more = ring;
        self.counts[more as usize].fewer = ring;
        ring
    }

    #[inline]
    fn drop_if_empty(&mut self, ring: u32) {
        if self.rings.is_empty(ring) {
            let Count { fewer, more, .. } = self.counts[ring as usize];
            self.counts[fewer as usize].more = more;
            self.counts[more as usize].fewer = fewer;
            self.spare.push(ring);
        }
    }
}

impl Policy for Lfu {
    #[inline]
    fn touch(&mut self, object: u32, _at: u32) -> Fate {
        let ring = self.ring_of[object as usize];
        let Count { uses, more, .. } = self.counts[ring as usize];
        let taken = more != HEAD && self.counts[more as usize].uses == uses + 1;
        if !taken && self.rings.holds_only(ring, object) {
            self.counts[ring as usize].uses = uses + 1;
            return Fate::Keep;
        }
        let above = self.ring_above(ring, uses + 1);
        self.rings.unlink(object);
        self.rings.push(above, object);
        self.ring_of[object as usize] = above;
        self.drop_if_empty(ring);
        Fate::Keep
    }

    #[inline]
    fn make_room(&mut self, object: u32, _at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        let (mut freed, mut ring) = (0, self.counts[HEAD as usize].more);
        while freed < needed && ring != HEAD {
            let more = self.counts[ring as usize].more;
            let Some(oldest) = self.rings.oldest_except(ring, object) else {
                ring = more;
                continue;
            };
            self.rings.unlink(oldest);
            freed += resident[oldest as usize];
            victims.push(oldest);
            self.drop_if_empty(ring);
            if self.rings.is_empty(ring) {
                ring = more;
            }
        }
        true
    }

    #[inline]
    fn insert(&mut self, object: u32, _at: u32, _bytes: u64) {
        let ring = self.ring_above(HEAD, 1);
        self.rings.push(ring, object);
        self.ring_of[object as usize] = ring;
    }
}
