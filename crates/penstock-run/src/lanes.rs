//! The run: lanes take ready tasks in the order of the program, and drop values after their last use.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use penstock_ckks as ckks;
use penstock_operations::Operation;

use crate::encoded::{Made, Vectors};
use crate::program::{Program, Task};
use crate::{Device, Supply};

/// How long an idle lane looks for work before it sleeps: about the time of a short task.
const SPIN: Duration = Duration::from_micros(100);
const NAP: Duration = Duration::from_micros(20);

/// How a run uses the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Tasks that run side by side at most. Beside others, a task computes on one thread.
    pub lanes: usize,
    /// Whether keys are asked for in the order of the tasks, and one at a time.
    pub keys_in_order: bool,
    /// Bytes of values at which no task is begun out of order.
    pub value_bytes: u64,
    /// Bytes of encoded vectors that are kept for their next use.
    pub keep_bytes: u64,
    /// Bytes of vectors that are encoded ahead of their use; 0: none.
    pub ahead_bytes: u64,
    /// How many tasks a lane may be ahead of the first unfinished one.
    pub window: usize,
}

/// When a task ran, from the start of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TaskTime {
    pub start_s: f64,
    pub end_s: f64,
    /// Before it began: for its key, and for encoding its vectors.
    pub key_s: f64,
    pub encode_s: f64,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub vectors_encoded: u64,
    pub vectors_ahead: u64,
    pub peak_vector_bytes: u64,
    pub peak_value_bytes: u64,
    /// Tasks that were begun while another one ran.
    pub beside: u64,
}

/// Times of all tasks, and counts.
#[derive(Debug)]
pub struct Outcome {
    pub times: Vec<TaskTime>,
    pub counts: Counts,
}

struct State<V> {
    ready: BinaryHeap<Reverse<u32>>,
    /// Operands that are not made yet, of each task.
    missing: Vec<u32>,
    uses_left: Vec<u32>,
    values: Vec<Option<Arc<V>>>,
    finished: Vec<bool>,
    /// The first task that is not finished.
    oldest: usize,
    done: usize,
    running: usize,
    keyed_running: usize,
    /// Tasks with keys that were begun.
    keyed: usize,
    /// Of values that are there, and of those that running tasks make.
    live_bytes: u64,
    peak_bytes: u64,
    beside: u64,
    times: Vec<TaskTime>,
    stopped: bool,
}

struct Lanes<'a, D: Device, S: Supply> {
    device: &'a D,
    program: &'a Program,
    supply: &'a S,
    options: Options,
    vectors: Vectors<'a, D>,
    /// Tasks that wait for each value.
    consumers: Vec<Vec<u32>>,
    /// Place of each task among those with keys.
    key_order: Vec<u32>,
    state: Mutex<State<D::Value>>,
    changed: Condvar,
    failure: Mutex<Option<S::Error>>,
    origin: Instant,
}

/// Runs a program. `watch` is called with the number of tasks that are done, about every 50 ms and at the end.
///
/// # Errors
/// That of the first task that failed; that of `watch`. Tasks under way are finished first.
pub fn run<D: Device, S: Supply>(
    device: &D,
    program: &Program,
    supply: &S,
    options: Options,
    mut watch: impl FnMut(usize) -> Result<(), S::Error>,
) -> Result<Outcome, S::Error> {
    let lanes = Lanes::new(device, program, supply, options);
    let threads = || {
        thread::scope(|scope| {
            scope.spawn(|| {
                if let Err(error) = device.host().abreast(options.lanes, || !lanes.state().stopped, || lanes.work()) {
                    lanes.fail(error.into());
                }
            });
            if options.ahead_bytes > 0 {
                scope.spawn(|| lanes.vectors.read_ahead(supply));
            }
            let watched = lanes.watch(&mut watch);
            lanes.vectors.close();
            watched
        })
    };
    let ended = panic::catch_unwind(AssertUnwindSafe(threads));
    let state = lanes.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.values.into_iter().flatten().filter_map(Arc::into_inner).for_each(|value| device.free(value));
    let watched = ended.unwrap_or_else(|panic| panic::resume_unwind(panic));
    let failed = lanes.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failed {
        return Err(error);
    }
    watched?;
    let Made { encoded, ahead, peak_bytes } = lanes.vectors.made();
    let counts = Counts {
        vectors_encoded: encoded,
        vectors_ahead: ahead,
        peak_vector_bytes: peak_bytes,
        peak_value_bytes: state.peak_bytes,
        beside: state.beside,
    };
    Ok(Outcome { times: state.times, counts })
}

impl<'a, D: Device, S: Supply> Lanes<'a, D, S> {
    fn new(device: &'a D, program: &'a Program, supply: &'a S, options: Options) -> Self {
        let tasks = program.tasks();
        let mut consumers = vec![Vec::new(); program.value_bytes().len()];
        let mut key_order = Vec::with_capacity(tasks.len());
        let mut missing = Vec::with_capacity(tasks.len());
        let mut keyed = 0;
        for (at, task) in tasks.iter().enumerate() {
            for value in &task.operands {
                consumers[*value as usize].push(at as u32);
            }
            missing.push(task.operands.len() as u32);
            key_order.push(keyed);
            keyed += u32::from(task.key.is_some());
        }
        let ready = missing.iter().enumerate().filter(|(_, n)| **n == 0).map(|(at, _)| Reverse(at as u32)).collect();
        let state = State {
            ready,
            missing,
            uses_left: program.uses(),
            values: program.value_bytes().iter().map(|_| None).collect(),
            finished: vec![false; tasks.len()],
            oldest: 0,
            done: 0,
            running: 0,
            keyed_running: 0,
            keyed: 0,
            live_bytes: 0,
            peak_bytes: 0,
            beside: 0,
            times: vec![TaskTime::default(); tasks.len()],
            stopped: false,
        };
        Self {
            device,
            program,
            supply,
            options,
            vectors: Vectors::new(device, program, options.keep_bytes, options.ahead_bytes),
            consumers,
            key_order,
            state: Mutex::new(state),
            changed: Condvar::new(),
            failure: Mutex::new(None),
            origin: Instant::now(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<D::Value>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, watch: &mut impl FnMut(usize) -> Result<(), S::Error>) -> Result<(), S::Error> {
        let all = self.program.tasks().len();
        loop {
            let mut state = self.state();
            if !state.stopped && state.done < all {
                let waited = self.changed.wait_timeout(state, Duration::from_millis(50));
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let (done, over) = (state.done, state.stopped || state.done == all);
            drop(state);
            if let Err(error) = watch(done) {
                self.state().stopped = true;
                self.changed.notify_all();
                return Err(error);
            }
            if over {
                return Ok(());
            }
            // Tasks end far more often than the caller wants to hear of it.
            thread::sleep(Duration::from_millis(if all - done < 64 { 1 } else { 20 }));
        }
    }

    /// One lane, until nothing is left.
    fn work(&self) {
        let _ends = EndsIfPanicking(self);
        while let Some((at, beside)) = self.begin() {
            let result = if beside { ckks::on_this_thread(|| self.perform(at)) } else { self.perform(at) };
            match result {
                Ok((values, time)) => self.finish(at, values, time),
                Err(error) => return self.fail(error),
            }
        }
    }

    fn fail(&self, error: S::Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// The next task that may run, and whether others run at the same time.
    fn begin(&self) -> Option<(usize, bool)> {
        let all = self.program.tasks().len();
        let mut state = self.state();
        loop {
            if state.stopped || state.done + state.running >= all {
                return None;
            }
            if let Some(at) = self.pick(&mut state) {
                let others = state.running;
                state.running += 1;
                state.live_bytes += self.made_bytes(&self.program.tasks()[at]);
                state.peak_bytes = state.peak_bytes.max(state.live_bytes);
                state.beside += u64::from(others > 0);
                if self.program.tasks()[at].key.is_some() {
                    state.keyed += 1;
                    state.keyed_running += 1;
                }
                // A free lane will take another one, if one may run now.
                let another = if others + 1 < self.options.lanes { self.pick(&mut state) } else { None };
                state.ready.extend(another.map(|other| Reverse(other as u32)));
                return Some((at, others > 0 || another.is_some()));
            }
            drop(state);
            self.idle();
            state = self.state();
        }
    }

    /// Nothing may run now: help with what others do, then look again.
    fn idle(&self) {
        let begun = Instant::now();
        while begun.elapsed() < SPIN {
            if ckks::help() {
                return;
            }
            std::hint::spin_loop();
        }
        thread::sleep(NAP);
    }

    /// The first ready task that keeps to the options.
    fn pick(&self, state: &mut State<D::Value>) -> Option<usize> {
        let mut passed = Vec::new();
        let mut found = None;
        while let Some(Reverse(at)) = state.ready.pop() {
            let index = at as usize;
            if index >= state.oldest + self.options.window.max(1) && index != state.oldest {
                passed.push(Reverse(at));
                break; // later ones are further ahead
            }
            if self.may_run(state, index) {
                found = Some(index);
                break;
            }
            passed.push(Reverse(at));
        }
        state.ready.extend(passed);
        found
    }

    fn may_run(&self, state: &State<D::Value>, at: usize) -> bool {
        let task = &self.program.tasks()[at];
        if task.key.is_some() && self.options.keys_in_order {
            let is_next = self.key_order[at] as usize == state.keyed;
            if !is_next || state.keyed_running > 0 {
                return false;
            }
        }
        at == state.oldest || state.live_bytes + self.made_bytes(task) <= self.options.value_bytes
    }

    fn made_bytes(&self, task: &Task) -> u64 {
        let made = task.first_result as usize..(task.first_result + task.results) as usize;
        self.program.value_bytes()[made].iter().sum()
    }

    fn perform(&self, at: usize) -> Result<(Vec<D::Value>, TaskTime), S::Error> {
        let task = &self.program.tasks()[at];
        let mut operands: Vec<Arc<D::Value>> = Vec::with_capacity(task.operands.len());
        {
            let state = self.state();
            for value in &task.operands {
                operands.extend(state.values[*value as usize].clone());
            }
        }
        let begun = Instant::now();
        let vectors = if task.vectors.is_empty() { Vec::new() } else { self.vectors.take(at, self.supply)? };
        let encoded = Instant::now();
        let key = match task.key {
            Some((key, limbs)) => Some(self.supply.key(key, usize::from(limbs))?),
            None => None,
        };
        let started = Instant::now();
        let given: Vec<&D::Value> = operands.iter().map(AsRef::as_ref).collect();
        let values = match (task.operation, given.as_slice()) {
            (Operation::Input, _) => {
                vec![self.device.import(task, self.supply.input(task.argument as u32)?)?]
            }
            (Operation::Output, [result]) => {
                self.supply.output(task.argument as u32, self.device.export(task, result)?)?;
                Vec::new()
            }
            (Operation::MultOverScale, [operand]) => {
                let task = task.at_scale(self.device.scale(operand)?);
                self.device.perform(&task, &given, None, &[])?
            }
            _ => {
                let vectors: Vec<_> = vectors.iter().map(AsRef::as_ref).collect();
                self.device.perform(task, &given, key.as_deref(), &vectors)?
            }
        };
        let time = TaskTime {
            start_s: (started - self.origin).as_secs_f64(),
            end_s: self.origin.elapsed().as_secs_f64(),
            key_s: (started - encoded).as_secs_f64(),
            encode_s: (encoded - begun).as_secs_f64(),
        };
        Ok((values, time))
    }

    /// Stores the results, gives back what has no further use, and says which tasks are ready now.
    fn finish(&self, at: usize, values: Vec<D::Value>, time: TaskTime) {
        let task = &self.program.tasks()[at];
        let (mut dropped, mut dropped_bytes) = (Vec::new(), 0);
        let mut state = self.state();
        state.times[at] = time;
        for (value, number) in values.into_iter().zip(task.first_result as usize..) {
            if state.uses_left[number] == 0 {
                dropped.push(value);
                dropped_bytes += self.program.value_bytes()[number];
                continue;
            }
            state.values[number] = Some(Arc::new(value));
            for consumer in &self.consumers[number] {
                state.missing[*consumer as usize] -= 1;
                if state.missing[*consumer as usize] == 0 {
                    state.ready.push(Reverse(*consumer));
                }
            }
        }
        for value in &task.operands {
            let number = *value as usize;
            state.uses_left[number] -= 1;
            if state.uses_left[number] == 0 {
                // All other users have let go of it.
                dropped.extend(state.values[number].take().and_then(Arc::into_inner));
                dropped_bytes += self.program.value_bytes()[number];
            }
        }
        drop(state);
        // Until their memory is back no later task begins in its place.
        dropped.into_iter().for_each(|value| self.device.free(value));
        let mut state = self.state();
        state.live_bytes -= dropped_bytes;
        state.finished[at] = true;
        while state.finished.get(state.oldest).copied().unwrap_or(false) {
            state.oldest += 1;
        }
        state.done += 1;
        state.running -= 1;
        state.keyed_running -= usize::from(task.key.is_some());
        drop(state);
        self.changed.notify_all();
    }
}

/// Ends the run of a lane that panics: nobody else would.
struct EndsIfPanicking<'a, D: Device, S: Supply>(&'a Lanes<'a, D, S>);

impl<D: Device, S: Supply> Drop for EndsIfPanicking<'_, D, S> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state().stopped = true;
            self.0.changed.notify_all();
        }
    }
}

impl<D: Device, S: Supply> std::fmt::Debug for Lanes<'_, D, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Options {
    /// One task at a time, in order, without encoding ahead.
    pub fn in_order() -> Self {
        Self { lanes: 1, keys_in_order: true, value_bytes: 0, keep_bytes: 0, ahead_bytes: 0, window: 1 }
    }
}
