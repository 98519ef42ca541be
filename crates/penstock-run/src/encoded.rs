//! Encoded vectors: made ahead of their use, kept for their next one where the budget allows.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use penstock_ckks as ckks;

use crate::program::{Form, Program, Vector};
use crate::{Device, Supply};

/// The place of a vector.
enum Place<V> {
    /// Coefficients that were made ahead of the use.
    Ahead(ckks::Coefficients),
    /// Somebody makes them.
    Making,
    /// For the next use.
    Kept(Arc<V>),
}

struct State<V> {
    places: HashMap<Vector, Place<V>>,
    kept_bytes: u64,
    ahead_bytes: u64,
    /// The first task whose vectors are not taken yet, at least.
    cursor: usize,
    closed: bool,
    made: u64,
    made_ahead: u64,
    peak_bytes: u64,
}

/// The vectors of one run.
pub struct Vectors<'a, D: Device> {
    device: &'a D,
    program: &'a Program,
    /// Tasks that use each vector, rising.
    uses: HashMap<Vector, Vec<u32>>,
    keep_bytes: u64,
    ahead_bytes: u64,
    state: Mutex<State<D::Vector>>,
    changed: Condvar,
}

/// What was encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    pub encoded: u64,
    pub ahead: u64,
    pub peak_bytes: u64,
}

impl<V> Default for State<V> {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            kept_bytes: 0,
            ahead_bytes: 0,
            cursor: 0,
            closed: false,
            made: 0,
            made_ahead: 0,
            peak_bytes: 0,
        }
    }
}

impl<'a, D: Device> Vectors<'a, D> {
    pub fn new(device: &'a D, program: &'a Program, keep_bytes: u64, ahead_bytes: u64) -> Self {
        let mut uses: HashMap<Vector, Vec<u32>> = HashMap::new();
        for (at, task) in program.tasks().iter().enumerate() {
            for vector in &task.vectors {
                uses.entry(*vector).or_default().push(at as u32);
            }
        }
        Self { device, program, uses, keep_bytes, ahead_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<D::Vector>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn made(&self) -> Made {
        let state = self.state();
        Made { encoded: state.made, ahead: state.made_ahead, peak_bytes: state.peak_bytes }
    }

    /// The vectors of a task.
    pub fn take<S: Supply>(&self, at: usize, supply: &S) -> Result<Vec<Arc<D::Vector>>, S::Error> {
        let wanted = &self.program.tasks()[at].vectors;
        let mut found: Vec<Option<Arc<D::Vector>>> = vec![None; wanted.len()];
        let mut halves: Vec<(usize, Option<ckks::Coefficients>)> = Vec::new();
        {
            let mut state = self.state();
            state.cursor = state.cursor.max(at + 1);
            for (place, vector) in wanted.iter().enumerate() {
                while matches!(state.places.get(vector), Some(Place::Making)) {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                match state.places.get(vector) {
                    Some(Place::Kept(known)) => found[place] = Some(Arc::clone(known)),
                    Some(Place::Ahead(_)) => {
                        if let Some(Place::Ahead(coefficients)) = state.places.remove(vector) {
                            state.ahead_bytes -= coefficients.bytes() as u64;
                            halves.push((place, Some(coefficients)));
                        }
                    }
                    _ => halves.push((place, None)),
                }
            }
            self.changed.notify_all();
        }
        let encoded = self.encode(wanted, halves, supply)?;
        for (place, made) in encoded {
            found[place] = Some(Arc::new(made));
        }
        let found: Vec<Arc<D::Vector>> = found.into_iter().flatten().collect();
        self.keep(at, wanted, &found);
        Ok(found)
    }

    /// Encodes vectors, from their coefficients where they are known.
    fn encode<S: Supply>(
        &self,
        wanted: &[Vector],
        halves: Vec<(usize, Option<ckks::Coefficients>)>,
        supply: &S,
    ) -> Result<Vec<(usize, D::Vector)>, S::Error> {
        let mut full = Vec::with_capacity(halves.len());
        self.state().made += halves.len() as u64;
        for (place, coefficients) in halves {
            let coefficients = match coefficients {
                Some(known) => known,
                None => self.coefficients(wanted[place], supply)?,
            };
            full.push((place, coefficients));
        }
        let (plain, bare): (Vec<_>, Vec<_>) =
            full.into_iter().partition(|(place, _)| wanted[*place].form == Form::Plaintext);
        let mut encoded = Vec::with_capacity(plain.len() + bare.len());
        for (form, group) in [(Form::Plaintext, plain), (Form::Coefficients, bare)] {
            if group.is_empty() {
                continue;
            }
            let (places, coefficients): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            encoded.extend(places.into_iter().zip(self.device.encode(form, coefficients)?));
        }
        Ok(encoded)
    }

    fn coefficients<S: Supply>(&self, vector: Vector, supply: &S) -> Result<ckks::Coefficients, S::Error> {
        let values = supply.vector(vector.number)?;
        let (limbs, degree) = (usize::from(vector.limbs), u32::from(vector.degree));
        Ok(self.device.host().encode_coefficients(&values, limbs, degree, values.len())?)
    }

    /// Task `at` has taken its vectors: those with a later use stay, the ones that are used soonest first.
    fn keep(&self, at: usize, wanted: &[Vector], found: &[Arc<D::Vector>]) {
        let mut state = self.state();
        for (vector, encoded) in wanted.iter().zip(found) {
            let is_kept = matches!(state.places.get(vector), Some(Place::Kept(_)));
            if self.next_use(vector, at + 1).is_none() {
                if is_kept {
                    state.places.remove(vector);
                    state.kept_bytes -= self.device.vector_bytes(encoded);
                }
                continue;
            }
            if is_kept || matches!(state.places.get(vector), Some(Place::Making)) {
                continue;
            }
            if let Some(Place::Ahead(coefficients)) = state.places.get(vector) {
                let bytes = coefficients.bytes() as u64;
                state.ahead_bytes -= bytes;
            }
            state.places.insert(*vector, Place::Kept(Arc::clone(encoded)));
            state.kept_bytes += self.device.vector_bytes(encoded);
        }
        while state.kept_bytes > self.keep_bytes {
            let kept = state.places.iter().filter_map(|(vector, place)| match place {
                Place::Kept(encoded) => {
                    Some((self.next_use(vector, at + 1), *vector, self.device.vector_bytes(encoded)))
                }
                _ => None,
            });
            let Some((_, vector, bytes)) =
                kept.max_by_key(|(next, vector, _)| (next.unwrap_or(u32::MAX), vector.number))
            else {
                break;
            };
            state.places.remove(&vector);
            state.kept_bytes -= bytes;
        }
        state.peak_bytes = state.peak_bytes.max(state.kept_bytes + state.ahead_bytes);
    }

    fn next_use(&self, vector: &Vector, from: usize) -> Option<u32> {
        let uses = self.uses.get(vector)?;
        uses.get(uses.partition_point(|at| (*at as usize) < from)).copied()
    }

    /// Makes coefficients for the tasks to come, until the run is over. It has its own thread.
    pub fn read_ahead<S: Supply>(&self, supply: &S) {
        for (at, task) in self.program.tasks().iter().enumerate() {
            for vector in &task.vectors {
                let mut state = self.state();
                while !state.closed && state.cursor <= at && state.ahead_bytes >= self.ahead_bytes {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.closed {
                    return;
                }
                if state.cursor > at || state.places.contains_key(vector) {
                    continue; // too late, or there
                }
                state.places.insert(*vector, Place::Making);
                drop(state);
                let _made_or_not = Making(self, *vector);
                // A failure, and a panic too, is found again by the task that needs the vector.
                if let Ok(made) = ckks::on_this_thread(|| self.coefficients(*vector, supply)) {
                    let mut state = self.state();
                    state.ahead_bytes += made.bytes() as u64;
                    state.made_ahead += 1;
                    state.peak_bytes = state.peak_bytes.max(state.kept_bytes + state.ahead_bytes);
                    state.places.insert(*vector, Place::Ahead(made));
                }
            }
        }
    }

    /// The run is over.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

/// Lets those who wait for a vector look again, whether it was made or not.
struct Making<'a, 'd, D: Device>(&'a Vectors<'d, D>, Vector);

impl<D: Device> Drop for Making<'_, '_, D> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if matches!(state.places.get(&self.1), Some(Place::Making)) {
            state.places.remove(&self.1);
        }
        drop(state);
        self.0.changed.notify_all();
    }
}
