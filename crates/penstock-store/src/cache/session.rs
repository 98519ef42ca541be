//! Getting keys: the program's side of the cache.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use penstock_ckks::{KeyView, Part};

use super::load::Claim;
use super::shared::{Plan, Shared};
use super::state::{Need, State};
use crate::buffer::Row;
use crate::index::Identity;
use crate::{Digest, Error, KeyId, KeyName, Result, Shape, Tenant};

/// One tenant's access to its keys under one set of parameters. Cheap to clone; used by several threads.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    tenant: Tenant,
    digest: Digest,
    plan: Option<u64>,
    secret: Option<Arc<str>>,
    /// The pair in use: its keys are not retired meanwhile.
    held: Arc<Mutex<Option<Held>>>,
    counts: Arc<Counts>,
}

/// The gets of one session and its clones.
#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    miss_bytes: AtomicU64,
}

struct Held {
    pair: u32,
    _lock: Option<File>,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, tenant: Tenant, digest: Digest) -> Self {
        Self { shared, tenant, digest, plan: None, secret: None, held: Arc::default(), counts: Arc::default() }
    }

    /// Each get of the returned session moves `plan` on.
    pub fn following(&self, plan: &Plan) -> Self {
        Self { plan: Some(plan.id), ..self.clone() }
    }

    /// The returned session hands out keys of the secret key with this tag, and refuses others.
    pub fn of_secret(&self, tag: &str) -> Self {
        Self { secret: Some(tag.into()), held: Arc::default(), ..self.clone() }
    }

    /// Of this session and its clones: gets that found every row there or on its way, gets that read rows themselves, and
    /// the bytes of those.
    pub fn counts(&self) -> (u64, u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.counts.hits), of(&self.counts.misses), of(&self.counts.miss_bytes))
    }

    /// Uses this session's key pair from now on: it is not retired until the session and its clones are dropped. A get
    /// does the same. Nothing where the tenant has no keys yet.
    ///
    /// # Errors
    /// `Index`, `Io`: the store cannot be read, or be told.
    pub fn hold(&self) -> Result<()> {
        self.shared.check_process()?;
        match self.shared.store.session_pair(&self.tenant, self.digest, self.secret.as_deref())? {
            Some(pair) => self.hold_pair(pair),
            None => Ok(()),
        }
    }

    fn hold_pair(&self, pair: u32) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_none_or(|held| held.pair != pair) {
            *held = Some(Held { pair, _lock: self.shared.store.hold(&self.tenant, self.digest, pair)? });
        }
        Ok(())
    }

    /// The key of this session, and which import of it the index names now.
    fn resolve(&self, key: KeyId) -> Result<(KeyName, Identity)> {
        let asked = KeyName::new(self.tenant.clone(), self.digest, key);
        let (name, identity) = self.shared.store.resolve(&asked, self.secret.as_deref())?;
        self.hold_pair(name.pair)?;
        Ok((name, identity))
    }

    /// The rows of `key` that a key switch at `limbs` limbs reads, of the import that the index names now. They stay in
    /// memory until the result is dropped.
    ///
    /// # Errors
    /// `Missing`: the tenant has no such key. `AboveRows`: a truncated key has no rows for so many limbs. `OtherSecret`: it is of another secret key than this session's.
    /// `Forked`: in a child of the process that made the cache.
    /// `Damaged`, `DamagedRow`, `WrongKey`, `ShortRead`, `Io`: the key differs from the imported one; other gets are
    /// not affected. `Budget`: it does not fit in addition to the rows in use.
    pub fn get(&self, key: KeyId, limbs: usize) -> Result<PinnedKey> {
        self.shared.check_process()?;
        let started = Instant::now();
        let resolved = self.resolve(key);
        let name = match &resolved {
            Ok((name, _)) => name.clone(),
            Err(_) => KeyName::new(self.tenant.clone(), self.digest, key),
        };
        self.begin(&name, limbs);
        let result = resolved.and_then(|(name, identity)| self.pin(&name, identity, limbs, started));
        let mut state = self.shared.state();
        state.unwant(&name, limbs);
        let ended = Instant::now();
        state.stats.wait_s += ended.duration_since(started).as_secs_f64();
        if let Some(future) = self.plan.and_then(|plan| state.futures.get_mut(&plan)) {
            future.pace.ends(ended);
        }
        if result.is_err() {
            state.stats.failures += 1;
            self.shared.changed.notify_all(); // what it held on to may go
        }
        result
    }

    /// Moves the plan on. Between here and the pin the plan no longer speaks for these rows.
    fn begin(&self, name: &KeyName, limbs: usize) {
        let mut state = self.shared.state();
        state.want(name, limbs);
        if let Some(plan) = self.plan {
            let known = state.futures.get_mut(&plan).is_some_and(|future| {
                future.pace.begins(Instant::now());
                future.advance(name, limbs)
            });
            state.stats.unplanned += u64::from(!known);
            self.shared.changed.notify_all();
        }
    }

    fn identity(&self, name: &KeyName) -> Result<Identity> {
        self.shared.store.identity(name, self.secret.as_deref())
    }

    fn pin(&self, name: &KeyName, mut named: Identity, limbs: usize, started: Instant) -> Result<PinnedKey> {
        let shared = &self.shared;
        let deadline = started + shared.options.patience;
        let mut shape: Option<Arc<Shape>> = None;
        let (mut waited, mut miss_bytes) = (false, 0);
        let mut state = shared.state();
        loop {
            if state.residents.get(name).is_some_and(|resident| !resident.is_of(&named)) {
                // Another process, or this one past the cache, has imported the key again: before this get, or since.
                drop(state);
                let now = self.identity(name)?;
                state = shared.state();
                if now == named && state.residents.get(name).is_some_and(|resident| !resident.is_of(&now)) {
                    state.forget(name);
                    shared.changed.notify_all();
                }
                named = now;
                continue;
            }
            let resident = state.residents.get(name);
            let loading = resident.is_some_and(|resident| resident.loading);
            if let Some(resident) = resident.filter(|resident| resident.limbs >= limbs) {
                resident.shape.check_limbs(limbs)?;
                return self.pinned(&mut state, name, limbs, waited, miss_bytes);
            }
            if !loading {
                let Some(known) = resident.map(|resident| resident.shape.clone()).or_else(|| shape.clone()) else {
                    // The index is asked without the lock, and the state looked at again.
                    drop(state);
                    let entry = shared.store.entry(name)?;
                    entry.shape.check_limbs(limbs)?;
                    shape = Some(Arc::new(entry.shape));
                    state = shared.state();
                    continue;
                };
                known.check_limbs(limbs)?;
                if limbs > named.limbs {
                    // Before anything leaves for it.
                    return Err(Error::AboveRows { key: name.to_string(), has: named.limbs, limbs });
                }
                let all = known.bytes_needed(limbs);
                if all > shared.options.budget_bytes {
                    let rule = format!("the budget is {} bytes: raise it", shared.options.budget_bytes);
                    return Err(Error::Budget { key: name.to_string(), limbs, needed: all, rule });
                }
                let have = resident.map_or(0, |resident| resident.limbs);
                if state.make_room(name, all - known.bytes_needed(have), Need::Now) {
                    let claim = Claim::take(&mut state, name, &known, limbs, false);
                    drop(state);
                    shared.changed.notify_all(); // others may read ahead again
                    let (relocked, result) = shared.load(&claim);
                    state = relocked;
                    match result {
                        Ok(()) => miss_bytes += claim.bytes,
                        Err(Error::Replaced { .. }) if Instant::now() < deadline => {} // read the new one
                        Err(error) => return Err(error),
                    }
                    continue;
                }
            }
            let now = Instant::now();
            if now >= deadline {
                let rule = format!(
                    "what others use leaves less than that of the budget of {} bytes for {} s: raise it, or use fewer keys \
                     at once",
                    shared.options.budget_bytes,
                    shared.options.patience.as_secs_f64()
                );
                let needed = state.residents.get(name).map_or(0, |resident| resident.shape.bytes_needed(limbs));
                return Err(Error::Budget { key: name.to_string(), limbs, needed, rule });
            }
            waited |= loading;
            state = shared.changed.wait_timeout(state, deadline - now).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn pinned(
        &self,
        state: &mut State,
        name: &KeyName,
        limbs: usize,
        waited: bool,
        miss_bytes: u64,
    ) -> Result<PinnedKey> {
        let now = state.tick();
        let resident = state.residents.get_mut(name).ok_or_else(|| Error::Replaced { key: name.to_string() })?;
        resident.last_use = now;
        *resident.pins.entry(limbs).or_default() += 1;
        let shape = resident.shape.clone();
        let mut rows = vec![None; shape.num_rows()];
        for row in shape.rows_needed(limbs).into_iter().flatten() {
            rows[row] = resident.rows[row].clone();
        }
        let id = resident.id;
        state.stats.requested_bytes += shape.bytes_needed(limbs);
        state.stats.miss_bytes += miss_bytes;
        if miss_bytes > 0 {
            state.stats.misses += 1;
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            self.counts.miss_bytes.fetch_add(miss_bytes, Ordering::Relaxed);
        } else {
            state.stats.hits += 1;
            self.counts.hits.fetch_add(1, Ordering::Relaxed);
            state.stats.late_hits += u64::from(waited);
        }
        Ok(PinnedKey { shared: self.shared.clone(), name: name.clone(), id, limbs, shape, rows })
    }
}

/// Rows of a key in use: they stay where they are until this is dropped.
pub struct PinnedKey {
    shared: Arc<Shared>,
    name: KeyName,
    id: u64,
    limbs: usize,
    shape: Arc<Shape>,
    rows: Vec<Option<Arc<Row>>>,
}

impl PinnedKey {
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Limbs that the key was asked for at.
    pub fn limbs(&self) -> usize {
        self.limbs
    }
}

impl KeyView for PinnedKey {
    fn row(&self, part: Part, digit: usize, limb: usize) -> Option<&[u64]> {
        if digit >= self.shape.digits() || limb >= self.shape.moduli().len() {
            return None;
        }
        let row = self.rows[self.shape.row(part as usize, digit, limb)].as_ref()?;
        Some(&row.words()[..self.shape.ring_dim()])
    }
}

impl Drop for PinnedKey {
    fn drop(&mut self) {
        // The rows first: bytes that the state counts as free must be free.
        self.rows.clear();
        if !self.shared.process.is_this() {
            return;
        }
        self.shared.state().unpin(&self.name, self.id, self.limbs);
        self.shared.changed.notify_all();
    }
}
