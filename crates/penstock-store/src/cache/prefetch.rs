//! Reading ahead: one thread goes along the known futures, nearest use first, as far as the budget allows.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use super::future::{Future, Use};
use super::load::Claim;
use super::pace;
use super::shared::Shared;
use super::state::{Distance, Need, State};
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
        let Some(shape) = state.shapes.get(&job.name.digest).cloned() else {
            // The index is read without the lock, and the work is looked for again: it may be done.
            drop(state);
            let entry = shared.store.entry(&job.name);
            state = shared.state();
            match entry {
                Ok(entry) => drop(state.shapes.insert(job.name.digest, Arc::new(entry.shape))),
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

/// What to read next.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: KeyName,
    pub(super) limbs: usize,
    /// The number of uses ahead.
    pub(super) distance: Distance,
    /// It, or a read after it, comes too late unless it begins now.
    pub(super) is_urgent: bool,
}

/// The nearest coming use whose rows are not all there, of a plan that cannot wait before one that can.
pub(super) fn next_job(state: &State, most: usize, failed: &HashSet<KeyName>) -> Option<Job> {
    let missing = |future| missing(state, future, most).filter(|(_, each)| !failed.contains(&each.name));
    let plans: Vec<_> = state.futures.values().filter_map(|plan| Some((plan, missing(plan).next()?))).collect();
    let jobs = plans.iter().map(|(future, (distance, each))| Job {
        name: each.name.clone(),
        limbs: each.limbs,
        distance: *distance,
        is_urgent: is_urgent(state, future, missing(future), plans.len()),
    });
    jobs.min_by_key(|job| (!job.is_urgent, job.distance))
}

/// The coming uses whose rows are neither there nor being read: `(how many uses from now, use)`, nearest first.
fn missing<'a>(state: &'a State, future: &'a Future, most: usize) -> impl Iterator<Item = (Distance, &'a Use)> {
    let is_missing = |each: &Use| match state.residents.get(&each.name) {
        Some(resident) => !resident.loading && resident.limbs < each.limbs,
        None => true,
    };
    future.coming().take_while(move |(distance, _)| *distance < most).filter(move |(_, each)| is_missing(each))
}

/// Whether the read of a plan's missing rows has to begin now. So it has before anything is known of program and disk.
/// `plans` of them share the disk.
fn is_urgent<'a>(
    state: &State,
    future: &Future,
    missing: impl Iterator<Item = (Distance, &'a Use)>,
    plans: usize,
) -> bool {
    let (Some(use_s), Some(byte_s)) = (future.pace.use_s, state.byte_s) else { return true };
    let mut promised: HashMap<&KeyName, usize> = HashMap::new(); // limbs there, or read by then
    let reads = missing.filter_map(|(distance, each)| {
        let shape = state.shapes.get(&each.name.digest).filter(|shape| shape.check_limbs(each.limbs).is_ok())?;
        let there = || state.residents.get(&each.name).map_or(0, |resident| resident.limbs);
        let limbs = promised.entry(&each.name).or_insert_with(there);
        let have = std::mem::replace(limbs, each.limbs.max(*limbs));
        let bytes = shape.bytes_needed(*limbs) - shape.bytes_needed(have);
        Some((distance, bytes * plans as u64))
    });
    pace::is_urgent(reads, use_s, byte_s)
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
