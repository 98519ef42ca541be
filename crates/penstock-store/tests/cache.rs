//! The cache against a store in which nothing is kept, and against a slow twin of its rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{Folder, import, key, name, open, small, tenant, words};
use penstock_ckks::{KeyView, Part};
use penstock_store::synthetic::{Random, SyntheticKey};
use penstock_store::{Cache, Error, KeyId, Options, PinnedKey, Policy, Session, Stats, Store, Use};

const ROW: u64 = 4096;

fn rot(number: u64) -> KeyId {
    KeyId::Rot(2 * number + 3)
}

fn store(owners: &[&str], keys: u64) -> (Folder, Arc<Store>) {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for owner in owners {
        (0..keys).for_each(|number| import(&store, owner, rot(number)));
    }
    (folder, Arc::new(store))
}

fn session(cache: &Cache, owner: &str) -> Session {
    cache.session(tenant(owner), small().digest())
}

fn options(budget_bytes: u64, policy: Policy, prefetch_uses: usize) -> Options {
    Options { policy, prefetch_uses, ..Options::new(budget_bytes) }
}

/// Every row that a key switch at these limbs reads, against the key that was imported; no other row is there.
fn check(got: &PinnedKey, owner: &str, id: KeyId) {
    let (expected, shape) = (words(owner, id), small());
    for row in 0..shape.num_rows() {
        let (part, digit, limb) = shape.place(row);
        let wanted = shape.rows_needed(got.limbs()).into_iter().any(|run| run.contains(&row));
        let words = got.row(Part::BOTH[part], digit, limb);
        assert_eq!(words.is_some(), wanted, "row {row} at {} limbs", got.limbs());
        assert!(words.is_none_or(|words| words == expected[row]), "{owner} {id} row {row}");
    }
}

fn trace(length: usize, keys: u64, seed: u64) -> Vec<(KeyId, usize)> {
    let mut random = Random::new(seed);
    (0..length).map(|_| (rot(random.below(keys)), 1 + random.below(6) as usize)).collect()
}

fn uses(owner: &str, trace: &[(KeyId, usize)]) -> Vec<Use> {
    trace.iter().map(|&(id, limbs)| Use { name: name(owner, id), limbs }).collect()
}

/// Plays a trace with nothing read ahead, and returns the counters.
fn play(store: &Arc<Store>, trace: &[(KeyId, usize)], budget: u64, policy: Policy) -> Stats {
    let cache = Cache::new(store.clone(), options(budget, policy, 0)).unwrap();
    let plan = cache.plan(uses("alice", trace), 0);
    let session = session(&cache, "alice").following(&plan);
    for &(id, limbs) in trace {
        check(&session.get(id, limbs).unwrap(), "alice", id);
        assert!(cache.stats().resident_bytes <= budget);
    }
    assert_eq!(plan.remaining(), 0);
    let stats = cache.stats();
    assert_eq!(stats.hits + stats.misses, trace.len() as u64);
    assert_eq!(stats.read_bytes, stats.resident_bytes + stats.evicted_bytes);
    assert_eq!(stats.read_bytes, stats.miss_bytes);
    stats
}

/// The same rules, written once more over plain numbers: bytes read.
fn twin(trace: &[(KeyId, usize)], budget: u64, policy: Policy) -> u64 {
    let bytes = |limbs: usize| if limbs == 0 { 0 } else { (limbs.div_ceil(2) * 2 * (limbs + 2)) as u64 * ROW };
    let mut resident: BTreeMap<KeyId, usize> = BTreeMap::new();
    let mut last: BTreeMap<KeyId, usize> = BTreeMap::new();
    let mut read = 0;
    for (now, &(id, limbs)) in trace.iter().enumerate() {
        let have = resident.get(&id).copied().unwrap_or(0);
        if limbs > have {
            let needed = bytes(limbs) - bytes(have);
            while resident.values().map(|&limbs| bytes(limbs)).sum::<u64>() + needed > budget {
                let next = |key: KeyId, limbs: usize| {
                    let later = trace[now + 1..].iter().position(|&(other, l)| other == key && l >= limbs);
                    later.unwrap_or(usize::MAX)
                };
                let others = resident.iter().filter(|(key, limbs)| **key != id && **limbs > 0);
                let (&victim, &top) = match policy {
                    Policy::Lru => others.min_by_key(|(key, _)| last[*key]).unwrap(),
                    Policy::Future => {
                        others.max_by_key(|(key, limbs)| (next(**key, **limbs), usize::MAX - last[*key])).unwrap()
                    }
                };
                resident.insert(victim, if policy == Policy::Lru { 0 } else { top - 1 });
            }
            resident.insert(id, limbs);
            read += needed;
        }
        last.insert(id, now);
    }
    read
}

#[test]
fn what_is_read_is_what_the_twin_reads() {
    let (_folder, store) = store(&["alice"], 8);
    for (seed, budget_rows) in [(1, 48), (2, 60), (3, 100), (4, 200), (5, 1000)] {
        let trace = trace(150, 8, seed);
        let budget = budget_rows * ROW;
        let mut read = vec![];
        for policy in [Policy::Lru, Policy::Future] {
            let stats = play(&store, &trace, budget, policy);
            assert_eq!(stats.read_bytes, twin(&trace, budget, policy), "{policy:?} {budget_rows}");
            read.push(stats.read_bytes);
        }
        assert!(read[1] <= read[0], "the known future reads no more than LRU: {read:?}");
    }
}

#[test]
fn reading_ahead_along_the_future_leaves_nothing_to_wait_for() {
    let (_folder, store) = store(&["alice"], 8);
    let trace = trace(200, 8, 9);
    for policy in [Policy::Future, Policy::Lru] {
        let cache = Cache::new(store.clone(), options(3 * 48 * ROW, policy, 8)).unwrap();
        let plan = cache.plan(uses("alice", &trace), 0);
        let session = session(&cache, "alice").following(&plan);
        for &(id, limbs) in &trace {
            let got = session.get(id, limbs).unwrap();
            check(&got, "alice", id);
            thread::sleep(Duration::from_micros(500)); // the program computes
            assert!(cache.stats().peak_resident_bytes <= 3 * 48 * ROW);
        }
        let stats = cache.stats();
        assert!(stats.prefetched_bytes > 0 && stats.unplanned == 0 && stats.prefetch_failures == 0);
        assert!(stats.misses < stats.hits / 4, "{stats:?}");
        assert_eq!(stats.read_bytes, stats.prefetched_bytes + stats.miss_bytes);
    }
}

/// Bytes that a trace reads through a cache that reads ahead; the program computes for a moment at each use.
fn played_ahead(store: &Arc<Store>, trace: &[(KeyId, usize)], budget: u64, policy: Policy, ahead: usize) -> Stats {
    let cache = Cache::new(store.clone(), options(budget, policy, ahead)).unwrap();
    let plan = cache.plan(uses("alice", trace), 0);
    let session = session(&cache, "alice").following(&plan);
    for &(id, limbs) in trace {
        let got = session.get(id, limbs).unwrap();
        check(&got, "alice", id);
        thread::yield_now();
    }
    let stats = cache.stats();
    assert!(stats.peak_resident_bytes <= budget, "{stats:?}");
    assert_eq!(stats.read_bytes, stats.prefetched_bytes + stats.miss_bytes);
    stats
}

#[test]
fn a_key_that_is_used_once_is_read_once_whatever_is_read_ahead() {
    let (_folder, store) = store(&["alice"], 8);
    let whole = small().bytes_needed(6);
    let trace: Vec<_> = (0..8).map(|number| (rot(number), 6)).collect();
    for _ in 0..20 {
        for policy in [Policy::Future, Policy::Lru] {
            for (budget, ahead) in [(2, 1), (2, 2), (2, 8), (3, 1), (3, 2), (3, 3), (3, 8), (4, 3), (8, 8)] {
                let stats = played_ahead(&store, &trace, budget * whole, policy, ahead);
                assert_eq!(
                    stats.read_bytes,
                    8 * whole,
                    "{policy:?}, budget of {budget} keys, {ahead} ahead: {stats:?}"
                );
            }
        }
    }
}

#[test]
fn a_key_in_use_stays_and_others_wait_for_it() {
    let (_folder, store) = store(&["alice"], 3);
    let all = small().bytes_needed(6);
    let patience = Duration::from_millis(200);
    let cache = Cache::new(store, Options { patience, ..options(all + all / 2, Policy::Future, 0) }).unwrap();
    let session = session(&cache, "alice");
    let held = session.get(rot(0), 6).unwrap();
    // Half a key fits in addition, a whole one does not.
    check(&session.get(rot(1), 2).unwrap(), "alice", rot(1));
    let error = session.get(rot(1), 6).err().unwrap();
    assert!(matches!(&error, Error::Budget { .. }) && error.to_string().contains("raise it"), "{error}");
    check(&held, "alice", rot(0));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| session.get(rot(2), 6).map(|got| check(&got, "alice", rot(2))));
        thread::sleep(Duration::from_millis(50));
        drop(held);
        waiting.join().unwrap().unwrap();
    });
    // A budget below one key can never do.
    let error = session.get(rot(0), 7).err().unwrap();
    assert!(error.to_string().contains("limbs is 7"), "{error}");
    let (_folder, store) = self::store(&["alice"], 1);
    let small_cache = Cache::new(store, options(all - 1, Policy::Lru, 0)).unwrap();
    let error = self::session(&small_cache, "alice").get(rot(0), 6).err().unwrap();
    assert!(error.to_string().contains(&format!("the budget is {} bytes", all - 1)), "{error}");
    check(&self::session(&small_cache, "alice").get(rot(0), 5).unwrap(), "alice", rot(0));
}

#[test]
fn many_tenants_and_threads_share_a_budget_and_get_their_own_keys() {
    let owners = ["alice", "bob", "carol", "dave"];
    let (_folder, store) = store(&owners, 5);
    let budget = 5 * 48 * ROW; // a quarter of all keys, and a key for each thread
    for prefetch in [0, 16] {
        let cache = Cache::new(store.clone(), options(budget, Policy::Future, prefetch)).unwrap();
        thread::scope(|scope| {
            for (seed, owner) in owners.iter().enumerate() {
                let cache = &cache;
                scope.spawn(move || {
                    let trace = trace(60, 5, 20 + seed as u64);
                    let plan = cache.plan(uses(owner, &trace), 0);
                    let session = session(cache, owner).following(&plan);
                    for &(id, limbs) in &trace {
                        check(&session.get(id, limbs).unwrap(), owner, id);
                    }
                });
            }
        });
        let stats = cache.stats();
        assert!(stats.peak_resident_bytes <= budget && stats.failures == 0, "{stats:?}");
        assert_eq!(stats.hits + stats.misses, 240);
        assert_eq!(stats.read_bytes, stats.resident_bytes + stats.evicted_bytes);
    }
}

#[test]
fn a_tenant_without_the_key_gets_none_though_another_has_it_in_memory() {
    let (_folder, store) = store(&["alice"], 1);
    let cache = Cache::new(store, Options::new(1 << 30)).unwrap();
    let _held = session(&cache, "alice").get(rot(0), 6).unwrap();
    let error = session(&cache, "mallory").get(rot(0), 6).err().unwrap();
    assert!(matches!(&error, Error::Missing { tenant, .. } if tenant == "mallory"), "{error}");
    assert_eq!(cache.stats().failures, 1);
}

#[test]
fn a_key_imported_again_is_read_again_and_rows_of_two_imports_never_mix() {
    let (folder, store) = store(&["alice"], 2);
    let cache = Cache::new(store.clone(), Options::new(1 << 30)).unwrap();
    let session = session(&cache, "alice");
    let old = session.get(rot(0), 2).unwrap();
    let mut newer = key("alice", rot(0));
    newer.seed += 1;
    store.import(&tenant("alice"), rot(0), &newer).unwrap();
    check(&old, "alice", rot(0)); // who has it keeps it
    let new = session.get(rot(0), 2).unwrap();
    assert_eq!(new.row(Part::A, 0, 0).unwrap(), newer.words(small().row(0, 0, 0)));
    drop((old, new));
    // By another process: this one has two limbs of the old key and needs more.
    let (other, _) = open(folder.path());
    other.import(&tenant("alice"), rot(0), &key("alice", rot(0))).unwrap();
    check(&session.get(rot(0), 6).unwrap(), "alice", rot(0));
    let stats = cache.stats();
    assert_eq!(stats.read_bytes, stats.resident_bytes + stats.dropped_bytes);
}

#[test]
fn rows_of_a_key_that_another_process_replaced_are_not_handed_out() {
    let (folder, store) = store(&["alice"], 2);
    let cache = Cache::new(store, options(1 << 30, Policy::Lru, 0)).unwrap();
    let of_old = session(&cache, "alice").of_secret("tag-of-alice");
    check(&of_old.get(rot(0), 4).unwrap(), "alice", rot(0));
    let held = of_old.get(rot(0), 2).unwrap();
    // Removed, and a key of another secret key in its place.
    let (other, _) = open(folder.path());
    other.gc(Some(&tenant("alice")), false).unwrap();
    assert!(matches!(of_old.get(rot(0), 2), Err(Error::Missing { .. })));
    let newer = SyntheticKey { seed: 99, tag: "tag-of-another".into(), ..key("alice", rot(0)) };
    other.import(&tenant("alice"), rot(0), &newer).unwrap();
    let error = of_old.get(rot(0), 2).err().unwrap();
    assert!(matches!(&error, Error::OtherSecret { .. }), "{error}");
    for session in [session(&cache, "alice"), session(&cache, "alice").of_secret("tag-of-another")] {
        let new = session.get(rot(0), 2).unwrap();
        assert_eq!(new.row(Part::A, 0, 0).unwrap(), newer.words(small().row(0, 0, 0)));
    }
    check(&held, "alice", rot(0));
    drop(held);
    let stats = cache.stats();
    assert_eq!(stats.resident_bytes, small().bytes_needed(2));
    assert_eq!(stats.read_bytes, stats.resident_bytes + stats.dropped_bytes);
    assert_eq!((stats.hits, stats.misses, stats.failures), (2, 2, 2));
}

#[test]
fn what_is_reserved_counts_as_nothing_and_holds_the_rows_that_come() {
    let (_folder, store) = store(&["alice"], 3);
    let all = small().bytes_needed(6);
    let cache = Cache::new(store, options(2 * all, Policy::Future, 0)).unwrap();
    cache.reserve(small().row_bytes(), 9 * all);
    assert_eq!(cache.stats(), Stats::default());
    for number in [0, 1, 2, 0] {
        let got = session(&cache, "alice").get(rot(number), 6).unwrap();
        check(&got, "alice", rot(number));
    }
    assert_eq!((cache.stats().misses, cache.stats().resident_bytes), (4, 2 * all));
}

fn bytes_of(cache: &Cache, owner: &str) -> u64 {
    cache.residents().iter().filter(|(name, ..)| name.tenant == tenant(owner)).map(|(.., bytes)| bytes).sum()
}

#[test]
fn the_keys_of_others_leave_a_tenant_its_floor() {
    let (_folder, store) = store(&["alice", "mallory"], 8);
    let key = small().bytes_needed(6);
    for policy in [Policy::Lru, Policy::Future] {
        for floor_keys in [0, 2] {
            let given = Options { floor_bytes: floor_keys * key, ..options(4 * key, policy, 0) };
            let cache = Cache::new(store.clone(), given).unwrap();
            let (alice, mallory) = (session(&cache, "alice"), session(&cache, "mallory"));
            for number in 0..3 {
                alice.get(rot(number), 6).unwrap();
            }
            for number in 0..16 {
                check(&mallory.get(rot(number % 8), 6).unwrap(), "mallory", rot(number % 8));
                assert!(cache.stats().resident_bytes <= 4 * key);
            }
            assert_eq!(bytes_of(&cache, "alice"), floor_keys * key, "{policy:?}");
            // Its own keys displace its own, and a floor that leaves no room at all gives way.
            for number in 0..8 {
                check(&alice.get(rot(number), 6).unwrap(), "alice", rot(number));
            }
            let narrow = Options { floor_bytes: 9 * key, ..options(2 * key, policy, 0) };
            let cache = Cache::new(store.clone(), narrow).unwrap();
            for owner in ["alice", "mallory", "alice"] {
                for number in 0..2 {
                    check(&session(&cache, owner).get(rot(number), 6).unwrap(), owner, rot(number));
                }
            }
        }
    }
}

#[test]
fn a_tenant_that_is_forgotten_has_no_rows_and_the_others_theirs() {
    let (_folder, store) = store(&["alice", "bob"], 2);
    let cache = Cache::new(store, options(1 << 30, Policy::Future, 0)).unwrap();
    let (alice, bob) = (session(&cache, "alice"), session(&cache, "bob"));
    let in_use = alice.get(rot(0), 6).unwrap();
    alice.clone().get(rot(1), 6).unwrap();
    bob.get(rot(1), 6).unwrap();
    alice.get(rot(1), 5).unwrap();
    // Each session counts its own gets.
    assert_eq!(alice.counts(), (1, 2, 2 * small().bytes_needed(6)));
    assert_eq!(bob.counts(), (0, 1, small().bytes_needed(6)));
    cache.forget_tenant(&tenant("alice"));
    assert_eq!(bytes_of(&cache, "alice"), 0);
    assert_eq!(bytes_of(&cache, "bob"), small().bytes_needed(6));
    check(&in_use, "alice", rot(0));
    drop(in_use);
    assert_eq!(cache.stats().resident_bytes, small().bytes_needed(6));
    check(&session(&cache, "alice").get(rot(0), 6).unwrap(), "alice", rot(0));
}

#[test]
fn reads_are_remembered_until_they_are_taken() {
    let (_folder, store) = store(&["alice", "bob"], 2);
    let cache = Cache::new(store, options(1 << 20, Policy::Future, 0)).unwrap();
    for owner in ["alice", "bob", "alice"] {
        check(&session(&cache, owner).get(rot(0), 2).unwrap(), owner, rot(0));
    }
    let reads = cache.take_reads();
    let owners: Vec<String> = reads.iter().map(|each| each.name.tenant.to_string()).collect();
    assert_eq!(owners, ["alice", "bob"], "the third get finds its rows");
    let stats = cache.stats();
    assert_eq!(reads.iter().map(|each| each.read_bytes).sum::<u64>(), stats.read_bytes);
    assert_eq!(reads.iter().map(|each| each.expanded_bytes).sum::<u64>(), stats.expanded_bytes);
    assert!(reads.iter().all(|each| !each.ahead && each.began <= each.ended));
    let seconds: f64 = reads.iter().map(|each| each.ended.duration_since(each.began).as_secs_f64()).sum();
    assert!((seconds - stats.read_s).abs() < 1e-9);
    assert!(cache.take_reads().is_empty());
}
