use crate::policy::{Fate, Policy, by_name};
use crate::{Accesses, Error, WATCH_MASK, Watch, error::conserve};

/// What a cache leaves to load.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// `(n,)` bytes that each operation loads from the tier.
    pub miss_bytes: Vec<i64>,
    /// `(n,)` transfers of each operation: one a miss.
    pub transfers: Vec<i64>,
    pub totals: CacheTotals,
    /// `(m,)` whether each access was a hit, if asked for.
    pub hit_mask: Option<Vec<bool>>,
}

/// The accounts of a replay. `hits + misses` = accesses and `hit_bytes + miss_bytes` = requested
/// bytes, which the replay has checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheTotals {
    /// Accesses served whole from the cache.
    pub hits: i64,
    pub misses: i64,
    /// Bytes served from the cache; a miss on an object that is resident in part has some as well.
    pub hit_bytes: i64,
    pub miss_bytes: i64,
    /// Objects pushed out by another one.
    pub evictions: i64,
    /// Misses that asked for more than the whole cache holds.
    pub streamed: i64,
    pub peak_resident_bytes: i64,
}

/// Plays `accesses` through an empty cache of `capacity_bytes` under the policy called `policy`.
///
/// # Errors
/// [`Error::UnknownPolicy`]; a negative capacity; [`Error::Interrupted`]; [`Error::Conservation`].
pub fn replay(
    accesses: &Accesses<'_>,
    policy: &str,
    capacity_bytes: i64,
    hit_mask: bool,
    watch: &mut Watch<'_>,
) -> Result<Replay, Error> {
    let entry = by_name(policy)?;
    let capacity = u64::try_from(capacity_bytes)
        .map_err(|_| Error::value("capacity_bytes", capacity_bytes, "a capacity is not negative"))?;
    entry.replay(accesses, capacity, hit_mask, watch)
}

/// Loads every access whole: no cache at all. Nothing counts as streamed.
pub fn replay_uncached(accesses: &Accesses<'_>, hit_mask: bool) -> Replay {
    let rows = || (0..accesses.num_operations()).map(|i| accesses.range(i));
    Replay {
        miss_bytes: rows().map(|row| accesses.bytes()[row].iter().sum::<u64>() as i64).collect(),
        transfers: rows().map(|row| row.len() as i64).collect(),
        totals: CacheTotals {
            misses: accesses.len() as i64,
            miss_bytes: accesses.requested_bytes(),
            ..CacheTotals::default()
        },
        hit_mask: hit_mask.then(|| vec![false; accesses.len()]),
    }
}

/// The cache: sizes, partial loads and accounts, under any policy.
struct Cache<P> {
    policy: P,
    capacity: u64,
    /// Bytes of each object in the cache.
    resident: Vec<u64>,
    used: u64,
    peak: u64,
    evictions: i64,
    streamed: i64,
    victims: Vec<u32>,
}

impl<P: Policy> Cache<P> {
    /// One access of `bytes`; gives the bytes to load, 0 for a hit.
    #[inline]
    fn access(&mut self, object: u32, bytes: u64, at: u32) -> u64 {
        let present = self.resident[object as usize];
        if present >= bytes {
            self.touch(object, at);
            return 0;
        }
        let missing = bytes - present;
        let wanted = if present > 0 { self.touch(object, at) == Fate::Keep } else { self.policy.admits(object, at) };
        if bytes > self.capacity {
            self.streamed += 1;
        } else if wanted && self.make_room(object, missing, at) {
            if present == 0 {
                self.policy.insert(object, at);
            }
            self.resident[object as usize] = bytes;
            self.used += missing;
            self.peak = self.peak.max(self.used);
        }
        missing
    }

    #[inline]
    fn touch(&mut self, object: u32, at: u32) -> Fate {
        let fate = self.policy.touch(object, at);
        if fate == Fate::Release {
            self.used -= std::mem::take(&mut self.resident[object as usize]);
        }
        fate
    }

    #[inline]
    fn make_room(&mut self, object: u32, missing: u64, at: u32) -> bool {
        let free = self.capacity.saturating_sub(self.used);
        if missing <= free {
            return true;
        }
        if !self.policy.make_room(object, at, missing - free, &self.resident, &mut self.victims) {
            return false;
        }
        for victim in self.victims.drain(..) {
            self.used -= std::mem::take(&mut self.resident[victim as usize]);
            self.evictions += 1;
        }
        true
    }
}

pub(crate) fn run<P: Policy>(
    accesses: &Accesses<'_>,
    capacity: u64,
    policy: P,
    hit_mask: bool,
    watch: &mut Watch<'_>,
) -> Result<Replay, Error> {
    let mut cache = Cache {
        policy,
        capacity,
        resident: vec![0; accesses.num_objects()],
        used: 0,
        peak: 0,
        evictions: 0,
        streamed: 0,
        victims: Vec::new(),
    };
    let n = accesses.num_operations();
    let (mut miss_bytes, mut transfers) = (Vec::with_capacity(n), Vec::with_capacity(n));
    let mut mask = hit_mask.then(|| Vec::with_capacity(accesses.len()));
    let (mut hits, mut hit_bytes) = (0_i64, 0_u64);

    for operation in 0..n {
        let row = accesses.range(operation);
        let (mut row_missing, mut row_transfers) = (0_u64, 0_i64);
        let first = row.start;
        for (i, (&object, &bytes)) in accesses.objects()[row.clone()].iter().zip(&accesses.bytes()[row]).enumerate() {
            let at = first + i;
            if at & WATCH_MASK == WATCH_MASK && watch() {
                return Err(Error::Interrupted);
            }
            let missing = cache.access(object, bytes, at as u32);
            let hit = missing == 0;
            hits += i64::from(hit);
            hit_bytes += bytes - missing;
            row_missing += missing;
            row_transfers += i64::from(!hit);
            if let Some(mask) = &mut mask {
                mask.push(hit);
            }
        }
        miss_bytes.push(row_missing as i64);
        transfers.push(row_transfers);
    }

    let totals = CacheTotals {
        hits,
        misses: transfers.iter().sum(),
        hit_bytes: hit_bytes as i64,
        miss_bytes: miss_bytes.iter().sum(),
        evictions: cache.evictions,
        streamed: cache.streamed,
        peak_resident_bytes: cache.peak as i64,
    };
    let wide = i128::from;
    conserve("hits + misses = accesses", wide(totals.hits) + wide(totals.misses), accesses.len() as i128)?;
    conserve(
        "hit bytes + miss bytes = requested bytes",
        wide(totals.hit_bytes) + wide(totals.miss_bytes),
        wide(accesses.requested_bytes()),
    )?;
    let resident: i128 = cache.resident.iter().map(|&r| i128::from(r)).sum();
    conserve("bytes in use = resident bytes", i128::from(cache.used), resident)?;
    conserve("bytes over the capacity = 0", i128::from(cache.peak.saturating_sub(capacity)), 0)?;
    Ok(Replay { miss_bytes, transfers, totals, hit_mask: mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations of one access each: `(object, bytes)`.
    fn play(policy: &str, capacity: i64, accesses: &[(i32, i64)]) -> Replay {
        let start: Vec<i64> = (0..=accesses.len() as i64).collect();
        let (objects, bytes): (Vec<i32>, Vec<i64>) = accesses.iter().copied().unzip();
        let accesses = Accesses::new(&start, &objects, &bytes).unwrap();
        replay(&accesses, policy, capacity, true, &mut || false).unwrap()
    }

    fn unit(objects: &[i32]) -> Vec<(i32, i64)> {
        objects.iter().map(|&o| (o, 1)).collect()
    }

    #[test]
    fn lru_evicts_what_was_used_longest_ago() {
        let got = play("lru", 3, &unit(&[1, 2, 3, 1, 4, 2, 1]));
        // 4 pushes out 2, then 2 pushes out 3.
        assert_eq!(got.hit_mask.unwrap(), [false, false, false, true, false, false, true]);
        assert_eq!((got.totals.hits, got.totals.misses, got.totals.evictions), (2, 5, 2));
        assert_eq!(got.totals.peak_resident_bytes, 3);
    }

    #[test]
    fn belady_keeps_what_comes_next() {
        // Textbook string, 3 frames. The textbook counts 9 faults; bypassing saves one of them here.
        let pages = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
        let got = play("belady", 3, &unit(&pages));
        assert_eq!(got.totals.misses, 8);
        assert_eq!(play("lru", 3, &unit(&pages)).totals.misses, 12);
    }

    #[test]
    fn belady_does_not_keep_what_is_never_used_again() {
        let got = play("belady", 10, &unit(&[1, 2, 1, 3]));
        assert_eq!((got.totals.hits, got.totals.peak_resident_bytes, got.totals.evictions), (1, 1, 0));
    }

    #[test]
    fn belady_evicts_nothing_if_that_would_not_be_enough() {
        // Object 9 (4 bytes) comes back before 2 but after 1: evicting 2 alone frees 3, so nothing moves.
        let trace = [(1, 3), (2, 3), (9, 4), (1, 3), (9, 4), (2, 3)];
        let got = play("belady", 6, &trace);
        assert_eq!(got.hit_mask.unwrap(), [false, false, false, true, false, true]);
        assert_eq!(got.totals.evictions, 0);
    }

    #[test]
    fn a_part_that_is_missing_is_loaded_alone() {
        for policy in ["lru", "belady"] {
            let got = play(policy, 100, &[(1, 40), (1, 25), (1, 70), (1, 70)]);
            assert_eq!(got.miss_bytes, [40, 0, 30, 0], "{policy}");
            assert_eq!(got.transfers, [1, 0, 1, 0]);
            assert_eq!(got.hit_mask.unwrap(), [false, true, false, true]);
            assert_eq!((got.totals.hit_bytes, got.totals.miss_bytes), (135, 70));
        }
    }

    #[test]
    fn an_object_that_grows_pushes_out_others_but_not_itself() {
        let got = play("lru", 10, &[(1, 4), (2, 6), (1, 5), (2, 6), (1, 10), (1, 10)]);
        // 1 grows to 5: 2 leaves. 2 comes back: 1 leaves. 1 is loaded whole: 2 leaves.
        assert_eq!(got.miss_bytes, [4, 6, 1, 6, 10, 0]);
        assert_eq!((got.totals.evictions, got.totals.peak_resident_bytes), (3, 10));
    }

    #[test]
    fn one_byte_decides_whether_an_object_fits() {
        for policy in ["lru", "belady"] {
            let trace = [(1, 10), (1, 10)];
            let fits = play(policy, 10, &trace).totals;
            assert_eq!((fits.hits, fits.streamed), (1, 0), "{policy}");
            let too_small = play(policy, 9, &trace).totals;
            assert_eq!((too_small.hits, too_small.streamed, too_small.peak_resident_bytes), (0, 2, 0), "{policy}");
        }
    }

    #[test]
    fn a_streamed_access_leaves_the_resident_part_where_it_is() {
        let got = play("lru", 10, &[(1, 8), (1, 11), (1, 8)]);
        assert_eq!(got.miss_bytes, [8, 3, 0]);
        assert_eq!(got.totals.streamed, 1);
    }

    #[test]
    fn a_cache_of_no_bytes_streams_everything_and_no_cache_streams_nothing() {
        assert_eq!(play("lru", 0, &unit(&[1, 1])).totals.streamed, 2);
        let accesses = Accesses::new(&[0, 2, 2], &[1, 1], &[5, 6]).unwrap();
        let got = replay_uncached(&accesses, true);
        assert_eq!((got.miss_bytes, got.transfers), (vec![11, 0], vec![2, 0]));
        assert_eq!((got.totals.misses, got.totals.miss_bytes, got.totals.streamed), (2, 11, 0));
    }

    #[test]
    fn operations_without_accesses_load_nothing() {
        let accesses = Accesses::new(&[0, 0, 2, 2], &[4, 5], &[1, 2]).unwrap();
        let got = replay(&accesses, "lru", 9, false, &mut || false).unwrap();
        assert_eq!((got.miss_bytes, got.transfers, got.hit_mask), (vec![0, 3, 0], vec![0, 2, 0], None));
    }

    #[test]
    fn a_negative_capacity_is_refused() {
        let none = Accesses::new(&[0], &[], &[]).unwrap();
        let message = replay(&none, "lru", -1, false, &mut || false).unwrap_err().to_string();
        assert!(message.starts_with("capacity_bytes is -1"), "{message}");
    }

    #[test]
    fn a_watch_stops_a_long_replay() {
        let n = WATCH_MASK + 1;
        let (start, objects, bytes) = ([0, n as i64], vec![0; n], vec![1; n]);
        let accesses = Accesses::new(&start, &objects, &bytes).unwrap();
        assert_eq!(replay(&accesses, "lru", 1, false, &mut || true), Err(Error::Interrupted));
        assert!(replay(&accesses, "lru", 1, false, &mut || false).is_ok());
    }

    /// Frees less than it is asked to, so the accounts cannot add up.
    struct Liar;

    impl Policy for Liar {
        fn touch(&mut self, _: u32, _: u32) -> Fate {
            Fate::Keep
        }
        fn make_room(&mut self, _: u32, _: u32, _: u64, _: &[u64], _: &mut Vec<u32>) -> bool {
            true
        }
        fn insert(&mut self, _: u32, _: u32) {}
    }

    #[test]
    fn a_policy_that_frees_too_little_is_an_error_and_no_panic() {
        let (start, objects, bytes) = ([0, 2], [0, 1], [6, 6]);
        let accesses = Accesses::new(&start, &objects, &bytes).unwrap();
        let error = run(&accesses, 10, Liar, false, &mut || false).unwrap_err();
        assert_eq!(error, Error::Conservation { what: "bytes over the capacity = 0", left: 2, right: 0 });
    }

    /// First in, first out: a policy of a few lines, to hold the seam to its promise.
    struct Fifo {
        queue: std::collections::VecDeque<u32>,
    }

    impl Policy for Fifo {
        fn touch(&mut self, _: u32, _: u32) -> Fate {
            Fate::Keep
        }
        fn make_room(&mut self, object: u32, _: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
            let mut freed = 0;
            while freed < needed {
                let Some(i) = self.queue.iter().position(|&o| o != object) else { return false };
                let victim = self.queue.remove(i).unwrap();
                freed += resident[victim as usize];
                victims.push(victim);
            }
            true
        }
        fn insert(&mut self, object: u32, _: u32) {
            self.queue.push_back(object);
        }
    }

    #[test]
    fn another_policy_needs_only_the_seam() {
        let objects = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
        let start = [0, 12];
        let accesses = Accesses::new(&start, &objects, &[1; 12]).unwrap();
        let faults = |frames| {
            run(&accesses, frames, Fifo { queue: Default::default() }, false, &mut || false).unwrap().totals.misses
        };
        // Belady's anomaly: more frames, more faults.
        assert_eq!((faults(3), faults(4)), (9, 10));
    }
}
