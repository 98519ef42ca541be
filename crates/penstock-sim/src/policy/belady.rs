use crate::Accesses;
use crate::cache::{Fate, Policy, PolicyEntry, run};
use crate::position_set::PositionSet;

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "belady",
    summary: "knows the future: evicts the object that is used again last",
    optimal: true,
    knows_future: true,
    replay: |accesses, capacity, detail, watch| run(accesses, capacity, Belady::new(accesses), detail, watch),
};

const NEVER: u32 = u32::MAX;

/// Belady's policy, from the known future: whatever is used again last leaves first.
///
/// - Next uses are positions in the trace, so no two residents share one, and there are no ties. An
///   object that is never used again is not kept, even where there is room.
/// - Victims are residents whose next use comes later than that of the incoming object, farthest
///   first, until it fits. If they do not free enough, none of them leaves and the incoming object
///   is bypassed.
/// - For objects of one size, each access whole, no policy has more hits. For different sizes this
///   is the usual heuristic (the optimum is NP-hard).
///
/// Source: Belady, IBM Systems Journal 5(2), 1966, with bypassing.
pub struct Belady<'a> {
    objects: &'a [u32],
    /// Position of the next access to the same object; `NEVER` at the last one.
    next: Vec<u32>,
    /// Next uses of the residents, and of no others among the positions still ahead. Those behind
    /// may stay: a search never goes below the incoming object's next use.
    ahead: PositionSet,
}

impl<'a> Belady<'a> {
    pub fn new(accesses: &'a Accesses<'_>) -> Self {
        let objects = accesses.objects();
        let mut next = vec![NEVER; objects.len()];
        let mut seen = vec![NEVER; accesses.num_objects()];
        for (at, (&object, next)) in objects.iter().zip(&mut next).enumerate().rev() {
            *next = std::mem::replace(&mut seen[object as usize], at as u32);
        }
        Self { objects, next, ahead: PositionSet::new(objects.len()) }
    }
}

impl Policy for Belady<'_> {
    #[inline]
    fn touch(&mut self, _object: u32, at: u32) -> Fate {
        let next = self.next[at as usize];
        if next == NEVER {
            return Fate::Release;
        }
        self.ahead.insert(next as usize);
        Fate::Keep
    }

    #[inline]
    fn admits(&mut self, _object: u32, at: u32) -> bool {
        self.next[at as usize] != NEVER
    }

    #[inline]
    fn make_room(&mut self, _object: u32, at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        // The incoming object's own next use, if a part of it is resident, is not later than itself.
        let own = self.next[at as usize] as usize;
        let (mut freed, mut limit) = (0, self.objects.len());
        while freed < needed {
            match self.ahead.last_before(limit) {
                Some(position) if position > own => {
                    let object = self.objects[position];
                    freed += resident[object as usize];
                    victims.push(object);
                    limit = position;
                }
                _ => {
                    victims.clear();
                    return false;
                }
            }
        }
        // Farthest first, so the victims are exactly the members from `limit` on.
        while let Some(position) = self.ahead.last_before(self.objects.len()).filter(|&p| p >= limit) {
            self.ahead.remove(position);
        }
        true
    }

    #[inline]
    fn insert(&mut self, _object: u32, at: u32, _bytes: u64) {
        self.ahead.insert(self.next[at as usize] as usize);
    }
}
