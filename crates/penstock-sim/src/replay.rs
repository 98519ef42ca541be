use crate::cache::{CacheTotals, Replay};
use crate::policy::by_name;
use crate::{Accesses, Error, Watch};

/// Plays `accesses` through an empty cache of `capacity_bytes` under the policy called `policy`;
/// `detail` asks for what each access loads.
///
/// # Errors
/// [`Error::UnknownPolicy`]; a negative capacity; [`Error::Interrupted`]; [`Error::Conservation`].
pub fn replay(
    accesses: &Accesses<'_>,
    policy: &str,
    capacity_bytes: i64,
    detail: bool,
    watch: &mut Watch<'_>,
) -> Result<Replay, Error> {
    let entry = by_name(policy)?;
    let capacity = u64::try_from(capacity_bytes)
        .map_err(|_| Error::value("capacity_bytes", capacity_bytes, "a capacity is not negative"))?;
    entry.replay(accesses, capacity, detail, watch)
}

/// Loads every access whole: no cache at all. Nothing counts as streamed.
pub fn replay_uncached(accesses: &Accesses<'_>, detail: bool) -> Replay {
    let rows = || (0..accesses.num_operations()).map(|i| accesses.range(i));
    Replay {
        miss_bytes: rows().map(|row| accesses.bytes()[row].iter().sum::<u64>() as i64).collect(),
        transfers: rows().map(|row| row.len() as i64).collect(),
        totals: CacheTotals {
            misses: accesses.len() as i64,
            miss_bytes: accesses.requested_bytes(),
            ..CacheTotals::default()
        },
        access_miss_bytes: detail.then(|| accesses.bytes().iter().map(|&b| b as i64).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WATCH_MASK;
    use crate::cache::{Fate, Policy, run};

    /// Operations of one access each: `(object, bytes)`.
    fn play(policy: &str, capacity: i64, accesses: &[(i32, i64)]) -> Replay {
        let start: Vec<i64> = (0..=accesses.len() as i64).collect();
        let (objects, bytes): (Vec<i32>, Vec<i64>) = accesses.iter().copied().unzip();
        let accesses = Accesses::new(&start, &objects, &bytes).unwrap();
        replay(&accesses, policy, capacity, true, &mut || false).unwrap()
    }

    fn hits(replay: Replay) -> Vec<bool> {
        replay.access_miss_bytes.unwrap().into_iter().map(|missing| missing == 0).collect()
    }

    fn unit(objects: &[i32]) -> Vec<(i32, i64)> {
        objects.iter().map(|&o| (o, 1)).collect()
    }

    #[test]
    fn lru_evicts_what_was_used_longest_ago() {
        let got = play("lru", 3, &unit(&[1, 2, 3, 1, 4, 2, 1]));
        // 4 pushes out 2, then 2 pushes out 3.
        assert_eq!(hits(got.clone()), [false, false, false, true, false, false, true]);
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
        assert_eq!(hits(got.clone()), [false, false, false, true, false, true]);
        assert_eq!(got.totals.evictions, 0);
    }

    #[test]
    fn a_part_that_is_missing_is_loaded_alone() {
        for policy in ["lru", "belady"] {
            let got = play(policy, 100, &[(1, 40), (1, 25), (1, 70), (1, 70)]);
            assert_eq!(got.miss_bytes, [40, 0, 30, 0], "{policy}");
            assert_eq!(got.transfers, [1, 0, 1, 0]);
            assert_eq!(hits(got.clone()), [false, true, false, true]);
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
        assert_eq!((got.miss_bytes, got.transfers, got.access_miss_bytes), (vec![0, 3, 0], vec![0, 2, 0], None));
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
        fn insert(&mut self, _: u32, _: u32, _: u64) {}
    }

    #[test]
    fn a_policy_that_frees_too_little_is_an_error_and_no_panic() {
        let (start, objects, bytes) = ([0, 2], [0, 1], [6, 6]);
        let accesses = Accesses::new(&start, &objects, &bytes).unwrap();
        let error = run(&accesses, 10, Liar, false, &mut || false).unwrap_err();
        assert_eq!(error, Error::Conservation { what: "bytes over the capacity = 0", left: 2, right: 0 });
    }

    #[test]
    fn the_optimum_keeps_parts_of_objects() {
        // Room for one and a half: half of 2 stays while 1 is there whole.
        let got = play("optimal", 15, &[(1, 10), (2, 10), (1, 10), (2, 10)]);
        assert_eq!(got.miss_bytes, [10, 10, 0, 5]);
        assert_eq!((got.totals.peak_resident_bytes, got.totals.streamed), (15, 0));
        // Larger than the cache: its first bytes stay.
        let got = play("optimal", 4, &[(1, 10), (1, 10)]);
        assert_eq!((got.miss_bytes, got.totals.streamed), (vec![10, 6], 2));
        // Whole objects lose here: 9 does not fit beside 1.
        let trace = [(9, 8), (1, 3), (9, 8), (1, 3), (9, 8), (1, 3)];
        assert_eq!(play("belady", 10, &trace).totals.miss_bytes, 17);
        assert_eq!(play("optimal", 10, &trace).totals.miss_bytes, 13);
    }

    #[test]
    fn the_optimum_drops_the_end_of_an_object_that_is_used_less_of_next() {
        // After the first access 4 bytes of 1 come next and all 10 after that; 2 takes the room of the end.
        let got = play("optimal", 10, &[(1, 10), (2, 6), (1, 4), (2, 6), (1, 10)]);
        assert_eq!(got.miss_bytes, [10, 6, 0, 0, 6]);
        assert_eq!(got.totals.evictions, 1);
    }

    #[test]
    fn another_policy_needs_only_the_seam() {
        let (start, objects) = ([0, 9], [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let accesses = Accesses::new(&start, &objects, &[1; 9]).unwrap();
        // On a cycle that is one object too long it keeps one of two, where LRU keeps none.
        let got = crate::most_recent::ENTRY.replay(&accesses, 2, false, &mut || false).unwrap();
        assert_eq!((got.totals.hits, play("lru", 2, &unit(&objects)).totals.hits), (3, 0));
    }

    #[test]
    fn more_room_can_cost_hits_under_fifo() {
        let objects = unit(&[1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5]);
        let faults = |frames| play("fifo", frames, &objects).totals.misses;
        // Belady's anomaly: more frames, more faults.
        assert_eq!((faults(3), faults(4)), (9, 10));
    }

    #[test]
    fn fifo_forgets_uses_and_lfu_counts_them() {
        // 1 is used most and came first.
        let objects = unit(&[1, 1, 1, 2, 3, 1, 2]);
        assert_eq!(hits(play("fifo", 2, &objects)), [false, true, true, false, false, false, false]);
        // 3 pushes out 2, which was used once.
        assert_eq!(hits(play("lfu", 2, &objects)), [false, true, true, false, false, true, false]);
        // Equal counts: 2 was used longest ago.
        assert_eq!(hits(play("lfu", 2, &unit(&[2, 1, 3, 1]))), [false, false, false, true]);
    }

    #[test]
    fn an_object_that_grows_is_never_its_own_victim() {
        for policy in ["lru", "fifo", "lfu", "s3-fifo", "arc"] {
            let got = play(policy, 10, &[(1, 4), (2, 6), (1, 10), (1, 10)]);
            assert_eq!(got.miss_bytes, [4, 6, 6, 0], "{policy}");
            assert_eq!((got.totals.evictions, got.totals.peak_resident_bytes), (1, 10), "{policy}");
        }
    }

    #[test]
    fn s3_fifo_and_arc_keep_what_is_used_again_through_a_scan() {
        // 1 and 2 are used three times, then six others once each.
        let mut objects = vec![1, 2, 1, 2, 1, 2];
        objects.extend([10, 11, 12, 13, 14, 15, 1, 2]);
        let last_two = |policy| hits(play(policy, 4, &unit(&objects)))[12..].to_vec();
        assert_eq!(last_two("lru"), [false, false]);
        assert_eq!(last_two("fifo"), [false, false]);
        for policy in ["lfu", "s3-fifo", "arc", "belady"] {
            assert_eq!(last_two(policy), [true, true], "{policy}");
        }
    }

    #[test]
    fn s3_fifo_takes_what_it_remembers_into_the_main_queue() {
        // Room for 10: 1 is used once and leaves for 11; when it comes back it is main, and a scan cannot push it out.
        let mut objects: Vec<i32> = (1..=11).collect();
        objects.push(1);
        objects.extend(20..40);
        objects.push(1);
        let got = hits(play("s3-fifo", 10, &unit(&objects)));
        assert_eq!((got[11], got[objects.len() - 1]), (false, true));
    }
}
