//! Reading ahead: one thread goes along the known futures, nearest use first, as far as the budget allows.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use super::job::{Job, next_job};
use super::load::Claim;
use super::shared::Shared;
use super::state::{Need, State};
use crate::{Error, KeyName, Result, Shape};

/// Starts the thread; it ends when the state says so.
pub(super) fn start(shared: Arc<Shared>) -> Result<JoinHandle<()>> {
    thread::Builder::new()
        .name("penstock-keys".into())
        .spawn(move || run(&shared))
        .map_err(|error| Error::io("the reading thread", "start", error))
}

fn run(shared: &Shared) {
    // Keys that could not be read: left to the gets that need them, which try again and say why.
    let mut failed: HashSet<KeyName> = HashSet::new();
    let mut state = shared.state();
    while !state.stopping {
        let Some(job) = next_job(&state, shared.options.prefetch_uses, &failed) else {
            if state.futures.is_empty() {
                failed.clear();
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let Some(shape) = state.shapes.get(&job.name.shape_name()).cloned() else {
            // The index is read without the lock, and the work is looked for again: it may be done.
            drop(state);
            let entry = shared.store.entry(&job.name);
            state = shared.state();
            match entry {
                Ok(entry) => drop(state.shapes.insert(job.name.shape_name(), Arc::new(entry.shape))),
                Err(_) => fail(&mut state, &mut failed, job.name),
            }
            continue;
        };
        match claim(&mut state, &job, &shape) {
            Some(claim) => {
                drop(state);
                let (relocked, result) = shared.load(&claim);
                state = relocked;
                if result.is_err_and(|error| !matches!(error, Error::Replaced { .. })) {
                    fail(&mut state, &mut failed, job.name);
                }
            }
            None if shape.check_limbs(job.limbs).is_err() => fail(&mut state, &mut failed, job.name),
            // No room that is not needed sooner, or none yet: until something is used, or let go of.
            None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn fail(state: &mut State, failed: &mut HashSet<KeyName>, name: KeyName) {
    state.stats.prefetch_failures += 1;
    failed.insert(name);
}

/// The right to read the rows, where there is room for them.
pub(super) fn claim(state: &mut State, job: &Job, shape: &Arc<Shape>) -> Option<Claim> {
    let resident = state.residents.get(&job.name);
    let is_there = resident.is_some_and(|resident| resident.loading || resident.limbs >= job.limbs);
    if is_there || state.is_starving() || shape.check_limbs(job.limbs).is_err() {
        return None;
    }
    let have = resident.map_or(0, |resident| resident.limbs);
    let needed = shape.bytes_needed(job.limbs) - shape.bytes_needed(have);
    let need = if job.is_urgent { Need::Soon(job.distance) } else { Need::Later(job.distance) };
    state.make_room(&job.name, needed, need).then(|| Claim::take(state, &job.name, shape, job.limbs, true))
}
