use crate::Accesses;
use crate::cache::{Fate, Policy, PolicyEntry, run};
use crate::rings::Rings;

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "arc",
    summary: "adapts between what was used lately and what is used often",
    optimal: false,
    knows_future: false,
    replay: |accesses, capacity, detail, watch| run(accesses, capacity, Arc::new(accesses, capacity), detail, watch),
};

const RECENT: usize = 0;
const FREQUENT: usize = 1;
const GHOST_RECENT: usize = 2;
const GHOST_FREQUENT: usize = 3;
const NOWHERE: u8 = 4;

/// Adaptive replacement: one list of objects used once lately and one of objects used again. The share between them
/// follows the misses on objects that each has just lost.
///
/// - A newcomer enters the recent list; a use of a resident moves it to the frequent list.
/// - `share` is the room that the recent list should have. A miss on an object that the recent list lost raises
///   `share`; a miss on one that the frequent list lost lowers it. The step is the object's bytes times the ratio of
///   the other ghost list's bytes to its own, if that is more than one. Such an object enters the frequent list.
/// - Room is made in the recent list while it holds more than `share` (or just `share`, where the
///   incoming object was lost by the frequent list), else in the frequent one: oldest first.
/// - The recent list and its ghosts together have at most the capacity; all four lists twice that.
///
/// Sizes are in bytes, where the paper counts pages; divisions round down. The incoming object,
/// where a part of it is resident, is passed over.
///
/// Source: Megiddo, Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003, figure 4.
pub struct Arc {
    lists: Rings,
    place: Vec<u8>,
    /// Bytes of residents and of ghosts.
    size: Vec<u64>,
    bytes: [u64; 4],
    share: u64,
    capacity: u64,
}

impl Arc {
    pub fn new(accesses: &Accesses<'_>, capacity: u64) -> Self {
        let num_objects = accesses.num_objects();
        Self {
            lists: Rings::new(num_objects, 4),
            place: vec![NOWHERE; num_objects],
            size: vec![0; num_objects],
            bytes: [0; 4],
            share: 0,
            capacity,
        }
    }

    #[inline]
    fn take(&mut self, object: u32) {
        self.lists.unlink(object);
        self.bytes[usize::from(self.place[object as usize])] -= self.size[object as usize];
    }

    #[inline]
    fn put(&mut self, list: usize, object: u32) {
        self.lists.push(list as u32, object);
        self.place[object as usize] = list as u8;
        self.bytes[list] += self.size[object as usize];
    }

    #[inline]
    fn trim(&mut self) {
        self.trim_ghosts(GHOST_RECENT, |bytes| u128::from(bytes[RECENT]) + u128::from(bytes[GHOST_RECENT]), 1);
        self.trim_ghosts(GHOST_FREQUENT, |bytes| bytes.iter().map(|&b| u128::from(b)).sum(), 2);
    }

    #[inline]
    fn trim_ghosts(&mut self, ghosts: usize, held: impl Fn(&[u64; 4]) -> u128, capacities: u128) {
        while held(&self.bytes) > capacities * u128::from(self.capacity) {
            let Some(oldest) = self.lists.oldest(ghosts as u32) else { break };
            self.take(oldest);
            self.place[oldest as usize] = NOWHERE;
        }
    }

    /// `size`, or more where the `other` ghosts outweigh their `own`.
    fn step(size: u64, own: u64, other: u64) -> u64 {
        let scaled = u128::from(size) * u128::from(other) / u128::from(own.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX).max(size)
    }
}

impl Policy for Arc {
    #[inline]
    fn touch(&mut self, object: u32, _at: u32) -> Fate {
        self.take(object);
        self.put(FREQUENT, object);
        Fate::Keep
    }

    #[inline]
    fn admits(&mut self, object: u32, _at: u32) -> bool {
        let size = self.size[object as usize];
        let (recent, frequent) = (self.bytes[GHOST_RECENT], self.bytes[GHOST_FREQUENT]);
        match usize::from(self.place[object as usize]) {
            GHOST_RECENT => {
                self.share = self.share.saturating_add(Self::step(size, recent, frequent)).min(self.capacity);
            }
            GHOST_FREQUENT => self.share = self.share.saturating_sub(Self::step(size, frequent, recent)),
            _ => {}
        }
        true
    }

    #[inline]
    fn make_room(&mut self, object: u32, _at: u32, needed: u64, _resident: &[u64], victims: &mut Vec<u32>) -> bool {
        let was_frequent = usize::from(self.place[object as usize]) == GHOST_FREQUENT;
        let mut freed = 0;
        while freed < needed {
            let recent = self.lists.oldest_except(RECENT as u32, object);
            let frequent = self.lists.oldest_except(FREQUENT as u32, object);
            let held = self.bytes[RECENT];
            let (victim, ghosts) = match (recent, frequent) {
                (Some(victim), other)
                    if other.is_none() || held > self.share || (was_frequent && held == self.share) =>
                {
                    (victim, GHOST_RECENT)
                }
                (_, Some(victim)) => (victim, GHOST_FREQUENT),
                _ => break,
            };
            freed += self.size[victim as usize];
            self.take(victim);
            self.put(ghosts, victim);
            victims.push(victim);
        }
        true
    }

    #[inline]
    fn insert(&mut self, object: u32, _at: u32, bytes: u64) {
        let remembered = self.place[object as usize] != NOWHERE;
        if remembered {
            self.take(object);
        }
        self.size[object as usize] = bytes;
        self.put(if remembered { FREQUENT } else { RECENT }, object);
        self.trim();
    }

    #[inline]
    fn grow(&mut self, object: u32, more: u64) {
        self.size[object as usize] += more;
        self.bytes[usize::from(self.place[object as usize])] += more;
        self.trim();
    }
}
