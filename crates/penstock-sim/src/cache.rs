//! The cache that all replacement policies share: sizes, partial loads, accounts. A policy says who leaves.

use crate::{Accesses, Error, WATCH_MASK, Watch, error::conserve};

/// What happens to an object after a touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Keep,
    /// Its room is given up at once; not counted as an eviction. The policy has forgotten it.
    Release,
}

/// The order in which residents leave. The cache itself (sizes, accounts, partial loads) is shared
/// by all policies and calls this.
///
/// Duties: be deterministic; break ties by object number; never choose the incoming object; keep
/// the state small (`O(objects)`, or `O(accesses)` where the future must be known).
pub trait Policy {
    /// Resident `object` is accessed at position `at`, hit or miss.
    fn touch(&mut self, object: u32, at: u32) -> Fate;

    /// Whether `object`, not resident, is worth loading into the cache at all.
    fn admits(&mut self, _object: u32, _at: u32) -> bool {
        true
    }

    /// Chooses residents other than `object` that hold at least `needed` bytes together, forgets
    /// them and appends them to `victims`; or returns `false`, having changed nothing: the access
    /// is then bypassed. `resident[o]` is the bytes of `o` in the cache.
    fn make_room(&mut self, object: u32, at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool;

    /// `object` has become resident, with `bytes`, by the access at position `at`.
    fn insert(&mut self, object: u32, at: u32, bytes: u64);

    /// Resident `object`, just touched, has `more` bytes in the cache than before.
    fn grow(&mut self, _object: u32, _more: u64) {}
}

/// What the registry knows of a policy.
pub struct PolicyEntry {
    pub name: &'static str,
    /// One sentence for listings.
    pub summary: &'static str,
    /// Whether no other policy can have more hits where all objects are of one size.
    pub optimal: bool,
    /// Whether it must know the accesses to come.
    pub knows_future: bool,
    /// [`run`] with the policy, or [`run_store`] with a separate cache.
    pub(crate) replay: ReplayFn,
}

impl PolicyEntry {
    /// Plays `accesses` through an empty cache of `capacity` bytes; `detail` requests the loads of each access.
    ///
    /// # Errors
    /// [`Error::Interrupted`] by the watch; [`Error::Conservation`] for a defect.
    pub fn replay(
        &self,
        accesses: &Accesses<'_>,
        capacity: u64,
        detail: bool,
        watch: &mut Watch<'_>,
    ) -> Result<Replay, Error> {
        (self.replay)(accesses, capacity, detail, watch)
    }
}

type ReplayFn = fn(&Accesses<'_>, u64, bool, &mut Watch<'_>) -> Result<Replay, Error>;

/// The loads that remain behind a cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// `(n,)` bytes that each operation loads from the tier.
    pub miss_bytes: Vec<i64>,
    /// `(n,)` transfers of each operation: one a miss.
    pub transfers: Vec<i64>,
    pub totals: CacheTotals,
    /// `(m,)` bytes that each access loads, 0 for a hit, if asked for.
    pub access_miss_bytes: Option<Vec<i64>>,
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

/// What a cache counts while it plays.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accounts {
    pub evictions: i64,
    pub streamed: i64,
    pub peak_resident_bytes: u64,
}

/// What holds objects, or parts of them.
pub(crate) trait Store {
    /// One access of `bytes`; gives the bytes to load, 0 for a hit.
    fn access(&mut self, object: u32, bytes: u64, at: u32) -> u64;

    fn accounts(&self) -> Accounts;

    /// Bytes in use, and the bytes of each object.
    fn used_and_resident(&self) -> (u64, &[u64]);
}

/// The cache of whole objects: sizes, partial loads and accounts, under any policy.
struct Cache<P> {
    policy: P,
    capacity: u64,
    /// Bytes of each object in the cache.
    resident: Vec<u64>,
    used: u64,
    accounts: Accounts,
    victims: Vec<u32>,
}

impl<P: Policy> Store for Cache<P> {
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
            self.accounts.streamed += 1;
        } else if wanted && self.make_room(object, missing, at) {
            if present == 0 {
                self.policy.insert(object, at, bytes);
            } else {
                self.policy.grow(object, missing);
            }
            self.resident[object as usize] = bytes;
            self.used += missing;
            self.accounts.peak_resident_bytes = self.accounts.peak_resident_bytes.max(self.used);
        }
        missing
    }

    fn accounts(&self) -> Accounts {
        self.accounts
    }

    fn used_and_resident(&self) -> (u64, &[u64]) {
        (self.used, &self.resident)
    }
}

impl<P: Policy> Cache<P> {
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
            self.accounts.evictions += 1;
        }
        true
    }
}

pub(crate) fn run<P: Policy>(
    accesses: &Accesses<'_>,
    capacity: u64,
    policy: P,
    detail: bool,
    watch: &mut Watch<'_>,
) -> Result<Replay, Error> {
    let cache = Cache {
        policy,
        capacity,
        resident: vec![0; accesses.num_objects()],
        used: 0,
        accounts: Accounts::default(),
        victims: Vec::new(),
    };
    run_store(accesses, capacity, cache, detail, watch)
}

pub(crate) fn run_store<S: Store>(
    accesses: &Accesses<'_>,
    capacity: u64,
    mut cache: S,
    detail: bool,
    watch: &mut Watch<'_>,
) -> Result<Replay, Error> {
    let n = accesses.num_operations();
    let (mut miss_bytes, mut transfers) = (Vec::with_capacity(n), Vec::with_capacity(n));
    let mut each = detail.then(|| Vec::with_capacity(accesses.len()));
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
            if let Some(each) = &mut each {
                each.push(missing as i64);
            }
        }
        miss_bytes.push(row_missing as i64);
        transfers.push(row_transfers);
    }

    let accounts = cache.accounts();
    let totals = CacheTotals {
        hits,
        misses: transfers.iter().sum(),
        hit_bytes: hit_bytes as i64,
        miss_bytes: miss_bytes.iter().sum(),
        evictions: accounts.evictions,
        streamed: accounts.streamed,
        peak_resident_bytes: accounts.peak_resident_bytes as i64,
    };
    let wide = i128::from;
    conserve("hits + misses = accesses", wide(totals.hits) + wide(totals.misses), accesses.len() as i128)?;
    conserve(
        "hit bytes + miss bytes = requested bytes",
        wide(totals.hit_bytes) + wide(totals.miss_bytes),
        wide(accesses.requested_bytes()),
    )?;
    let (used, resident) = cache.used_and_resident();
    let resident: i128 = resident.iter().map(|&r| i128::from(r)).sum();
    conserve("bytes in use = resident bytes", i128::from(used), resident)?;
    conserve("bytes over the capacity = 0", i128::from(accounts.peak_resident_bytes.saturating_sub(capacity)), 0)?;
    Ok(Replay { miss_bytes, transfers, totals, access_miss_bytes: each })
}
