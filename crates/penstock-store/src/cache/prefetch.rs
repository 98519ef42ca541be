//! Reading ahead: one thread goes along the known futures, nearest use first, as far as the budget allows.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use super::Shared;
use super::load::Claim;
use super::state::State;
use crate::{Digest, Error, KeyName, Result, Shape};

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
    // The digest of a key's parameters says its shape.
    let mut shapes: HashMap<Digest, Arc<Shape>> = HashMap::new();
    let mut state = shared.state();
    while !state.stopping {
        let Some((name, limbs, distance)) = next_job(&state, shared.options.prefetch_uses, &failed) else {
            if state.futures.is_empty() {
                failed.clear();
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let Some(shape) = shapes.get(&name.digest) else {
            // The index is asked without the lock, and what is to be read is looked for again: it may be over.
            drop(state);
            let entry = shared.store.entry(&name);
            state = shared.state();
            match entry {
                Ok(entry) => drop(shapes.insert(name.digest, Arc::new(entry.shape))),
                Err(_) => fail(&mut state, &mut failed, name),
            }
            continue;
        };
        match claim(&mut state, &name, shape, limbs, distance) {
            Some(claim) => {
                drop(state);
                let (relocked, result) = shared.load(&claim);
                state = relocked;
                if result.is_err_and(|error| !matches!(error, Error::Replaced { .. })) {
                    fail(&mut state, &mut failed, name);
                }
            }
            None if shape.check_limbs(limbs).is_err() => fail(&mut state, &mut failed, name),
            // No room that is not needed sooner: until something is used, or let go of.
            None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn fail(state: &mut State, failed: &mut HashSet<KeyName>, name: KeyName) {
    state.stats.prefetch_failures += 1;
    failed.insert(name);
}

/// The nearest coming use whose rows are not all there: the key, its limbs and how many uses ahead it is.
fn next_job(state: &State, most: usize, failed: &HashSet<KeyName>) -> Option<(KeyName, usize, usize)> {
    let wanting = |name: &KeyName, limbs: usize| match state.residents.get(name) {
        Some(resident) => !resident.loading && resident.limbs < limbs,
        None => true,
    };
    let nearest = state.futures.values().filter_map(|future| {
        let coming = future.coming().take_while(|(distance, _)| *distance < most);
        coming.filter(|(_, each)| !failed.contains(&each.name)).find(|(_, each)| wanting(&each.name, each.limbs))
    });
    nearest.min_by_key(|(distance, _)| *distance).map(|(distance, each)| (each.name.clone(), each.limbs, distance))
}

/// The right to read the rows, where there is room for them that nothing sooner needs.
fn claim(state: &mut State, name: &KeyName, shape: &Arc<Shape>, limbs: usize, distance: usize) -> Option<Claim> {
    let resident = state.residents.get(name);
    let is_there = resident.is_some_and(|resident| resident.loading || resident.limbs >= limbs);
    if is_there || state.is_starving() || shape.check_limbs(limbs).is_err() {
        return None;
    }
    let have = resident.map_or(0, |resident| resident.limbs);
    let needed = shape.bytes_needed(limbs) - shape.bytes_needed(have);
    state.make_room(name, needed, Some(distance)).then(|| Claim::take(state, name, shape, limbs, true))
}
