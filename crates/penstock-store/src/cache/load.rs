//! Reading rows into the cache: reserved under the lock, read without it, put in place under it again.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use super::job::next_job;
use super::pace::Moving;
use super::shared::Shared;
use super::state::{Resident, State};
use super::stats::Read;
use crate::buffer::Row;
use crate::{Entry, Error, KeyName, Result, Segment, Shape};

/// A key that this thread alone reads rows of, from `have` limbs to `limbs`, with the bytes set aside.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) name: KeyName,
    pub(super) id: u64,
    pub(super) have: usize,
    pub(super) limbs: usize,
    pub(super) bytes: u64,
    pub(super) ahead: bool,
}

/// What a segment gave.
struct Loaded {
    header_checksum: u64,
    rows: Vec<(usize, Row)>,
    read_bytes: u64,
    expanded_bytes: u64,
    began: Instant,
    ended: Instant,
}

impl Claim {
    /// Marks the key as being read. The caller has made room for `bytes`, and nobody else reads it.
    pub(super) fn take(state: &mut State, name: &KeyName, shape: &Arc<Shape>, limbs: usize, ahead: bool) -> Self {
        let now = state.tick();
        state.shapes.entry(name.shape_name()).or_insert_with(|| shape.clone());
        let resident = state.residents.entry(name.clone()).or_insert_with(|| Resident {
            id: now,
            rows: vec![None; shape.num_rows()],
            shape: shape.clone(),
            header_checksum: 0,
            limbs: 0,
            loading: false,
            last_use: now,
            pins: BTreeMap::new(),
        });
        resident.loading = true;
        let (id, have) = (resident.id, resident.limbs);
        let bytes = shape.bytes_needed(limbs) - shape.bytes_needed(have);
        state.reserve(bytes);
        Self { name: name.clone(), id, have, limbs, bytes, ahead }
    }
}

impl Shared {
    /// Reads what `claim` says and puts it in place. After a failure everybody else still has the old content.
    pub(super) fn load(&self, claim: &Claim) -> (MutexGuard<'_, State>, Result<()>) {
        let loaded = self.read(claim);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = loaded.and_then(|loaded| Self::install(&mut state, claim, loaded));
        if result.is_err() {
            state.used_bytes -= claim.bytes;
        }
        if let Some(resident) = state.residents.get_mut(&claim.name).filter(|resident| resident.id == claim.id) {
            resident.loading = false;
            if resident.limbs == 0 && resident.pins.is_empty() {
                state.residents.remove(&claim.name);
            }
        }
        self.changed.notify_all();
        (state, result)
    }

    fn read(&self, claim: &Claim) -> Result<Loaded> {
        let started = Instant::now();
        let segment = self.segment(&claim.name)?;
        let mut rows = vec![];
        let keep = |row, buffer| {
            rows.push((row, buffer));
            if claim.ahead && rows.len() == 1 {
                self.open_next();
            }
        };
        let (read_bytes, expanded_bytes) = segment.read(claim.have, claim.limbs, &self.pool, keep)?;
        let header_checksum = segment.header.checksum();
        Ok(Loaded { header_checksum, rows, read_bytes, expanded_bytes, began: started, ended: Instant::now() })
    }

    /// The open segment of a key: the one that was opened ahead, if the index still names it.
    fn segment(&self, name: &KeyName) -> Result<Segment> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take_if(|opened| opened.0 == *name);
        match opened {
            Some((_, segment)) if self.store.entry(name)? == Entry::from(&segment.header) => Ok(segment),
            _ => self.store.segment(name),
        }
    }

    /// Opens the segment that is read next, while the disk is busy with the rows of another: looking into the index and
    /// reading a header would leave it idle between two keys.
    fn open_next(&self) {
        let next = next_job(&self.state(), self.options.prefetch_uses, &HashSet::new());
        // An error belongs to the read of that key.
        let opened = next.and_then(|job| Some((job.name.clone(), self.store.segment(&job.name).ok()?)));
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = opened;
    }

    fn install(state: &mut State, claim: &Claim, loaded: Loaded) -> Result<()> {
        let seconds = loaded.ended.duration_since(loaded.began).as_secs_f64();
        state.stats.read_s += seconds;
        state.byte_s = Some(Moving::and(state.byte_s, seconds / claim.bytes.max(1) as f64));
        let changed = || Error::Replaced { key: claim.name.to_string() };
        let resident = state.residents.get_mut(&claim.name).filter(|resident| resident.id == claim.id);
        let resident = resident.ok_or_else(changed)?;
        if claim.have > 0 && resident.header_checksum != loaded.header_checksum {
            // By another process: rows of two imports are never mixed.
            state.forget(&claim.name);
            return Err(changed());
        }
        resident.header_checksum = loaded.header_checksum;
        for (row, buffer) in loaded.rows {
            resident.rows[row] = Some(Arc::new(buffer));
        }
        resident.limbs = claim.limbs;
        state.stats.read_bytes += loaded.read_bytes;
        state.stats.expanded_bytes += loaded.expanded_bytes;
        if claim.ahead {
            state.stats.prefetched_bytes += claim.bytes;
        }
        state.remember(Read {
            name: claim.name.clone(),
            read_bytes: loaded.read_bytes,
            expanded_bytes: loaded.expanded_bytes,
            ahead: claim.ahead,
            began: loaded.began,
            ended: loaded.ended,
        });
        Ok(())
    }
}
