//! What is read ahead next: the nearest coming use whose rows are not all there.

use std::collections::{HashMap, HashSet};

use super::future::{Future, Use};
use super::pace;
use super::state::{Distance, State};
use crate::KeyName;

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
        let shape = state.shapes.get(&each.name.shape_name()).filter(|shape| shape.check_limbs(each.limbs).is_ok())?;
        let there = || state.residents.get(&each.name).map_or(0, |resident| resident.limbs);
        let limbs = promised.entry(&each.name).or_insert_with(there);
        let have = std::mem::replace(limbs, each.limbs.max(*limbs));
        let bytes = shape.bytes_needed(*limbs) - shape.bytes_needed(have);
        Some((distance, bytes * plans as u64))
    });
    pace::is_urgent(reads, use_s, byte_s)
}
