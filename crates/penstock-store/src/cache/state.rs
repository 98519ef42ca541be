//! The resident rows, and the rows that leave when room is needed. Everything here runs under the cache's lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::future::Future;
use super::options::Policy;
use super::pace::Moving;
use super::stats::{MOST_READS, Read, Stats};
use crate::buffer::Row;
use crate::index::Identity;
use crate::{Digest, KeyName, Shape, Tenant};

/// A key with some rows in memory: the rows of its first `limbs` limbs; or with rows being read.
pub(super) struct Resident {
    /// Another import of the same key has another number.
    pub(super) id: u64,
    pub(super) shape: Arc<Shape>,
    pub(super) header_checksum: u64,
    pub(super) limbs: usize,
    /// By row number.
    pub(super) rows: Vec<Option<Arc<Row>>>,
    /// Somebody reads more rows of it.
    pub(super) loading: bool,
    pub(super) last_use: u64,
    /// Pins by limbs: rows that are in use stay.
    pub(super) pins: BTreeMap<usize, usize>,
}

impl Resident {
    /// Whether its rows are of this import. A key without rows has no owner yet.
    pub(super) fn is_of(&self, import: &Identity) -> bool {
        self.limbs == 0 || self.header_checksum == import.header_checksum
    }

    /// Limbs that are in use or being read.
    fn floor(&self) -> usize {
        if self.loading { self.limbs } else { self.pins.last_key_value().map_or(0, |(&limbs, _)| limbs) }
    }
}

pub(super) struct State {
    budget_bytes: u64,
    policy: Policy,
    floor_bytes: u64,
    /// In the order of names, so that ties are decided the same way every time.
    pub(super) residents: BTreeMap<KeyName, Resident>,
    /// Keys that were imported again while they were in use: `id -> (pins, bytes)`.
    detached: HashMap<u64, (usize, u64)>,
    pub(super) futures: BTreeMap<u64, Future>,
    /// The shapes of the keys met so far, by [`KeyName::shape_name`].
    pub(super) shapes: HashMap<(Digest, bool), Arc<Shape>>,
    /// Seconds of reading and checking a byte; `None`: nothing was read yet.
    pub(super) byte_s: Option<Moving>,
    /// Gets that have begun, and are over in their plans: `(key, limbs)`, as often as there are gets.
    wanted: Vec<(KeyName, usize)>,
    /// Resident bytes, and bytes reserved for reads.
    pub(super) used_bytes: u64,
    pub(super) stats: Stats,
    /// The latest ones that nobody has taken.
    pub(super) reads: VecDeque<Read>,
    clock: u64,
    pub(super) stopping: bool,
}

/// The rank of a use in the order of all.
pub(super) type Distance = usize;
const NEVER: Distance = usize::MAX;

/// For whom room is made, and so what may leave. Pinned rows and rows being read never leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A get.
    Now,
    /// A read ahead of the use at this distance that can wait no longer: rows with a later use may leave.
    Soon(Distance),
    /// A read ahead that can wait: what its get would make leave, and that only if it is used after it.
    Later(Distance),
}

impl Need {
    /// Whether rows whose next use is at `next` stay for that.
    fn spares(self, next: Distance) -> bool {
        matches!(self, Need::Soon(distance) | Need::Later(distance) if next <= distance)
    }
}

impl State {
    pub(super) fn new(budget_bytes: u64, policy: Policy, floor_bytes: u64) -> Self {
        Self {
            budget_bytes,
            policy,
            floor_bytes,
            residents: BTreeMap::new(),
            detached: HashMap::new(),
            futures: BTreeMap::new(),
            shapes: HashMap::new(),
            byte_s: None,
            wanted: vec![],
            used_bytes: 0,
            stats: Stats::default(),
            reads: VecDeque::new(),
            clock: 0,
            stopping: false,
        }
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Keeps a read for [`super::Cache::take_reads`].
    pub(super) fn remember(&mut self, read: Read) {
        if self.reads.len() == MOST_READS {
            self.reads.pop_front();
        }
        self.reads.push_back(read);
    }

    /// Notes that a get of the key has begun: once its rows are there they stay, until [`State::unwant`].
    pub(super) fn want(&mut self, name: &KeyName, limbs: usize) {
        self.wanted.push((name.clone(), limbs));
    }

    /// Ends what [`State::want`] began.
    pub(super) fn unwant(&mut self, name: &KeyName, limbs: usize) {
        if let Some(at) = self.wanted.iter().position(|(other, l)| other == name && *l == limbs) {
            self.wanted.swap_remove(at);
        }
    }

    /// Whether a get that has begun has neither its rows nor somebody who reads them: nothing is read ahead of it.
    pub(super) fn is_starving(&self) -> bool {
        self.wanted.iter().any(|(name, limbs)| {
            self.residents.get(name).is_none_or(|resident| resident.limbs < *limbs && !resident.loading)
        })
    }

    /// Limbs of a resident key that may not be given up now. A get that still waits for some of its rows holds none of
    /// them: two gets can never wait for each other.
    fn floor(&self, name: &KeyName, resident: &Resident) -> usize {
        let begun = self.wanted.iter().filter(|(other, limbs)| other == name && *limbs <= resident.limbs);
        begun.map(|(_, limbs)| *limbs).max().unwrap_or(0).max(resident.floor())
    }

    /// The number of uses, in any future, until the key is used with at least `limbs` limbs, after the first `after`
    /// uses.
    fn next_use(&self, name: &KeyName, limbs: usize, after: Distance) -> Distance {
        self.futures.values().filter_map(|future| future.next_use(name, limbs, after)).min().unwrap_or(NEVER)
    }

    /// Makes room for `needed` bytes of the key `name`, or changes nothing and returns false. The present rows of
    /// `name` stay.
    ///
    /// The limbs of a key are nested: more limbs are needed no sooner than fewer. So the top limb of some key leaves.
    /// With a known future it is the key whose top limb is used last (Belady's rule on parts of keys); under LRU all of
    /// the least recently used key leaves.
    ///
    /// Early room for a read ahead leaves less choice: rows used until then cannot leave, though they would be the best
    /// to give up after their use. The row that leaves instead is read once more. So a read that can wait takes only
    /// what Belady's rule gives up at its use.
    ///
    /// A tenant's rows up to the floor of bytes leave for its own keys only, unless a get finds no other room.
    pub(super) fn make_room(&mut self, name: &KeyName, needed: u64, need: Need) -> bool {
        self.make_room_above(name, needed, need, self.floor_bytes)
            || (self.floor_bytes > 0 && need == Need::Now && self.make_room_above(name, needed, need, 0))
    }

    /// Resident bytes by tenant.
    fn tenant_bytes(&self) -> HashMap<Tenant, u64> {
        let mut found = HashMap::new();
        for (name, each) in &self.residents {
            *found.entry(name.tenant.clone()).or_default() += each.shape.bytes_needed(each.limbs);
        }
        found
    }

    fn make_room_above(&mut self, name: &KeyName, needed: u64, need: Need, floor_bytes: u64) -> bool {
        let Some(room) = self.budget_bytes.checked_sub(needed) else { return false };
        let waits = match need {
            Need::Later(distance) if self.policy == Policy::Future => Some(distance),
            _ => None,
        };
        let mut kept: BTreeMap<KeyName, usize> = BTreeMap::new(); // limbs left of those that lose some
        let mut used = self.used_bytes;
        let mut of_tenants = if floor_bytes > 0 && used > room { self.tenant_bytes() } else { HashMap::new() };
        while used > room {
            let mut victim: Option<((Distance, bool, u64), &KeyName, usize)> = None;
            for (other, resident) in &self.residents {
                let limbs = kept.get(other).copied().unwrap_or(resident.limbs);
                if other == name || limbs == 0 {
                    continue;
                }
                let held = of_tenants.get(&other.tenant).copied().unwrap_or(0);
                if floor_bytes > 0 && other.tenant != name.tenant && held <= floor_bytes {
                    continue;
                }
                let next = self.next_use(other, limbs, 0);
                let stays = limbs <= self.floor(other, resident) || need.spares(next);
                if stays && waits.is_none() {
                    continue;
                }
                let age = u64::MAX - resident.last_use;
                let last = waits.map_or(next, |distance| self.next_use(other, limbs, distance));
                let rank = (if self.policy == Policy::Lru { NEVER } else { last }, !stays, age);
                if victim.is_none_or(|(best, ..)| rank > best) {
                    victim = Some((rank, other, limbs));
                }
            }
            let Some(((_, leaves, _), victim, limbs)) = victim else { return false };
            if !leaves {
                return false;
            }
            let resident = &self.residents[victim];
            let left = if self.policy == Policy::Lru { self.floor(victim, resident) } else { limbs - 1 };
            let freed = resident.shape.bytes_needed(limbs) - resident.shape.bytes_needed(left);
            used -= freed;
            if let Some(held) = of_tenants.get_mut(&victim.tenant) {
                *held -= freed;
            }
            kept.insert(victim.clone(), left);
        }
        for (name, limbs) in kept {
            self.stats.evictions += 1;
            self.stats.evicted_bytes += self.shrink(&name, limbs);
        }
        true
    }

    /// Gives up the rows of a key that `limbs` limbs do not need; returns their bytes.
    fn shrink(&mut self, name: &KeyName, limbs: usize) -> u64 {
        let Some(resident) = self.residents.get_mut(name) else { return 0 };
        let shape = resident.shape.clone();
        for row in shape.rows_between(limbs, resident.limbs).into_iter().flatten() {
            resident.rows[row] = None;
        }
        let freed = shape.bytes_needed(resident.limbs) - shape.bytes_needed(limbs);
        resident.limbs = limbs;
        if limbs == 0 && !resident.loading {
            self.residents.remove(name);
        }
        self.used_bytes -= freed;
        freed
    }

    /// Forgets a key: its segment has been replaced. Whoever uses it keeps the rows until they are done.
    pub(super) fn forget(&mut self, name: &KeyName) {
        let Some(resident) = self.residents.remove(name) else { return };
        let bytes = resident.shape.bytes_needed(resident.limbs);
        let pins: usize = resident.pins.values().sum();
        if pins > 0 {
            self.detached.insert(resident.id, (pins, bytes));
        } else {
            self.used_bytes -= bytes;
            self.stats.dropped_bytes += bytes;
        }
    }

    /// Ends one use of a key at `limbs` limbs.
    pub(super) fn unpin(&mut self, name: &KeyName, id: u64, limbs: usize) {
        if let Some(resident) = self.residents.get_mut(name).filter(|resident| resident.id == id) {
            if let Some(count) = resident.pins.get_mut(&limbs) {
                *count -= 1;
                if *count == 0 {
                    resident.pins.remove(&limbs);
                }
            }
        } else if let Some((pins, bytes)) = self.detached.get_mut(&id) {
            *pins -= 1;
            if *pins == 0 {
                self.used_bytes -= *bytes;
                self.stats.dropped_bytes += *bytes;
                self.detached.remove(&id);
            }
        }
    }

    /// Sets `bytes` aside for the next read.
    pub(super) fn reserve(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.stats.peak_resident_bytes = self.stats.peak_resident_bytes.max(self.used_bytes);
    }
}
