use crate::Accesses;
use crate::cache::{Accounts, PolicyEntry, Store, run_store};
use crate::position_set::PositionSet;

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "optimal",
    summary: "knows the future and keeps parts of objects: no policy loads fewer bytes",
    optimal: true,
    knows_future: true,
    replay: |accesses, capacity, detail, watch| {
        run_store(accesses, capacity, Optimal::new(accesses, capacity), detail, watch)
    },
};

const NEVER: u32 = u32::MAX;

/// Belady's policy on parts of objects: of all bytes in the cache or just passing, it keeps the ones with the soonest
/// next use. No policy loads fewer bytes.
///
/// An access of `b` bytes reads the first `b` bytes of an object, so deeper bytes are never used
/// again before the ones above them: what is kept of an object is always its first bytes, and
/// objects shrink from their end. That holds a part of every object that fits, where
/// [`super::belady::Belady`] keeps and drops objects whole, and loses where sizes differ.
///
/// Optimal because each byte between two of its uses is an interval of time, at most `capacity` of
/// them can be kept at any moment, and dropping the one that ends last maximises how many survive.
/// What passes by needs no room.
///
/// - All bytes of one object with the same next use are one number, under the position of that use.
///   After an access the first `b` bytes are split among the next accesses that ask for more and
///   more of the object.
/// - An eviction is an access that pushes out bytes of another object, counted once an object.
///
/// Source: Belady, IBM Systems Journal 5(2), 1966; Faigle and Nawijn, Note on scheduling intervals
/// on-line, Discrete Applied Mathematics 58, 1995, for the exchange argument on intervals.
pub struct Optimal<'a> {
    objects: &'a [u32],
    bytes: &'a [u64],
    capacity: u64,
    /// Position of the next access to the same object; `NEVER` at the last one.
    next: Vec<u32>,
    /// Position of the next access to the same object that asks for more.
    next_larger: Vec<u32>,
    /// Bytes in the cache whose next use is at each position, and the positions where there are any.
    kept: Vec<u64>,
    ahead: PositionSet,
    /// Bytes of each object in the cache.
    resident: Vec<u64>,
    /// Where each object was last pushed out of, so that an access counts it once.
    evicted_at: Vec<u32>,
    used: u64,
    accounts: Accounts,
}

impl<'a> Optimal<'a> {
    pub fn new(accesses: &'a Accesses<'_>, capacity: u64) -> Self {
        let (objects, bytes) = (accesses.objects(), accesses.bytes());
        let (mut next, mut next_larger) = (vec![NEVER; objects.len()], vec![NEVER; objects.len()]);
        let mut seen = vec![NEVER; accesses.num_objects()];
        for at in (0..objects.len()).rev() {
            next[at] = std::mem::replace(&mut seen[objects[at] as usize], at as u32);
            let mut later = next[at];
            while later != NEVER && bytes[later as usize] <= bytes[at] {
                later = next_larger[later as usize];
            }
            next_larger[at] = later;
        }
        Self {
            objects,
            bytes,
            capacity,
            next,
            next_larger,
            kept: vec![0; objects.len()],
            ahead: PositionSet::new(objects.len()),
            resident: vec![0; accesses.num_objects()],
            evicted_at: vec![NEVER; accesses.num_objects()],
            used: 0,
            accounts: Accounts::default(),
        }
    }

    /// Makes up to `wanted` bytes of room by dropping bytes with uses after `position`, last first.
    #[inline]
    fn make_room(&mut self, wanted: u64, position: u32, object: u32, at: u32) -> u64 {
        let mut room = self.capacity - self.used;
        while room < wanted {
            let Some(last) = self.ahead.last_before(self.objects.len()).filter(|&last| last > position as usize) else {
                break;
            };
            let victim = self.objects[last] as usize;
            let dropped = self.kept[last].min(wanted - room);
            self.kept[last] -= dropped;
            if self.kept[last] == 0 {
                self.ahead.remove(last);
            }
            self.resident[victim] -= dropped;
            self.used -= dropped;
            room += dropped;
            if victim != object as usize && self.evicted_at[victim] != at {
                self.evicted_at[victim] = at;
                self.accounts.evictions += 1;
            }
        }
        room.min(wanted)
    }
}

impl Store for Optimal<'_> {
    #[inline]
    fn access(&mut self, object: u32, bytes: u64, at: u32) -> u64 {
        // All that is there of these bytes has its next use now.
        let present = std::mem::take(&mut self.kept[at as usize]);
        if present > 0 {
            self.ahead.remove(at as usize);
            self.resident[object as usize] -= present;
            self.used -= present;
        }
        let (mut position, mut depth) = (self.next[at as usize], 0);
        while depth < bytes && position != NEVER {
            let end = self.bytes[position as usize].min(bytes);
            let room = self.make_room(end - depth, position, object, at);
            if room > 0 {
                if self.kept[position as usize] == 0 {
                    self.ahead.insert(position as usize);
                }
                self.kept[position as usize] += room;
                self.resident[object as usize] += room;
                self.used += room;
            }
            if room < end - depth {
                break;
            }
            depth = end;
            position = self.next_larger[position as usize];
        }
        self.accounts.peak_resident_bytes = self.accounts.peak_resident_bytes.max(self.used);
        let missing = bytes - present;
        self.accounts.streamed += i64::from(missing > 0 && bytes > self.capacity);
        missing
    }

    fn accounts(&self) -> Accounts {
        self.accounts
    }

    fn used_and_resident(&self) -> (u64, &[u64]) {
        (self.used, &self.resident)
    }
}
