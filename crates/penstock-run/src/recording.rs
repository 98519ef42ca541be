//! A device around another one that checks the life of every buffer against the program.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use penstock_ckks as ckks;

use crate::device::Device;
use crate::program::{Form, Program, Task};

/// The name of a value, as a device with its own memory hands it out: the value's number in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buffer(pub u32);

struct Life<V> {
    /// `None`: it was freed.
    value: Option<Arc<V>>,
    uses_left: u32,
    /// Threads that made or used it, and have begun no task since: whichever is over last frees it, if it had no use left.
    holders: Vec<ThreadId>,
}

struct Ledger<V> {
    lives: HashMap<Buffer, Life<V>>,
    live_bytes: u64,
    peak_bytes: u64,
    faults: Vec<String>,
}

/// Performs on another device. It notes each use before a value is written or after it was freed, values that are freed
/// twice or kept too long, and bytes above the plan.
pub struct Recording<'a, D: Device> {
    inner: &'a D,
    program: &'a Program,
    uses: Vec<u32>,
    most_bytes: u64,
    ledger: Mutex<Ledger<D::Value>>,
}

impl<'a, D: Device> Recording<'a, D> {
    /// A run of `program`, whose values take `most_bytes` at one time.
    pub fn new(inner: &'a D, program: &'a Program, most_bytes: u64) -> Self {
        let ledger = Ledger { lives: HashMap::new(), live_bytes: 0, peak_bytes: 0, faults: Vec::new() };
        Self { inner, program, uses: program.uses(), most_bytes, ledger: Mutex::new(ledger) }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger<D::Value>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults, and the most bytes at one time. The run is over: whatever is left was kept too long.
    pub fn finish(self) -> (Vec<String>, u64) {
        let mut ledger = self.ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut left: Vec<u32> =
            ledger.lives.iter().filter(|(_, life)| life.value.is_some()).map(|(buffer, _)| buffer.0).collect();
        left.sort_unstable();
        ledger.faults.extend(left.iter().map(|number| format!("value {number}: kept after the run")));
        (ledger.faults, ledger.peak_bytes)
    }

    /// A task begins: values without a use are gone by now.
    fn begin(&self, task: &Task, operands: &[&Buffer]) -> Result<Vec<Arc<D::Value>>, ckks::Error> {
        let mut ledger = self.ledger();
        let (here, mut late) = (thread::current().id(), Vec::new());
        for (buffer, life) in &mut ledger.lives {
            let held = life.holders.len();
            life.holders.retain(|holder| *holder != here);
            if held > 0 && life.holders.is_empty() && life.uses_left == 0 && life.value.is_some() {
                late.push(format!("value {}: kept too long, at task {}", buffer.0, task.operation.name()));
            }
        }
        ledger.faults.extend(late);
        let mut found = Vec::with_capacity(operands.len());
        for buffer in operands {
            match ledger.lives.get(buffer) {
                Some(Life { value: Some(value), .. }) => found.push(Arc::clone(value)),
                known => {
                    let when = if known.is_some() { "after it was freed" } else { "before it is written" };
                    let what = format!("value {}: used {when}", buffer.0);
                    ledger.faults.push(what.clone());
                    let rule = "a device performs on values that it holds";
                    return Err(ckks::Error::Operand { operation: task.operation.name(), what, rule });
                }
            }
        }
        Ok(found)
    }

    /// A task is over: its operands were used, and its results are there.
    fn end(&self, task: &Task, operands: &[&Buffer], made: Vec<D::Value>) -> Vec<Buffer> {
        let mut ledger = self.ledger();
        let mut buffers = Vec::with_capacity(made.len());
        for (value, number) in made.into_iter().zip(task.first_result..) {
            let (bytes, planned) = (self.inner.bytes(&value), self.program.value_bytes()[number as usize]);
            if bytes > planned {
                ledger.faults.push(format!("value {number}: {bytes} bytes, and the program says {planned}"));
            }
            let uses_left = self.uses[number as usize];
            let life = Life { value: Some(Arc::new(value)), uses_left, holders: vec![thread::current().id()] };
            if ledger.lives.insert(Buffer(number), life).is_some() {
                ledger.faults.push(format!("value {number}: written twice"));
            }
            ledger.live_bytes += bytes;
            buffers.push(Buffer(number));
        }
        ledger.peak_bytes = ledger.peak_bytes.max(ledger.live_bytes);
        if ledger.live_bytes > self.most_bytes {
            let fault =
                format!("{} bytes at task {}, above {}", ledger.live_bytes, task.operation.name(), self.most_bytes);
            ledger.faults.push(fault);
        }
        self.used(&mut ledger, operands);
        buffers
    }

    fn used(&self, ledger: &mut Ledger<D::Value>, operands: &[&Buffer]) {
        for buffer in operands {
            if let Some(life) = ledger.lives.get_mut(buffer) {
                life.uses_left = life.uses_left.saturating_sub(1);
                life.holders.push(thread::current().id());
            }
        }
    }
}

impl<D: Device> Device for Recording<'_, D> {
    type Value = Buffer;
    type Vector = D::Vector;

    fn host(&self) -> &ckks::Context {
        self.inner.host()
    }

    fn import(&self, task: &Task, ciphertext: ckks::Ciphertext) -> Result<Buffer, ckks::Error> {
        self.begin(task, &[])?;
        let made = self.inner.import(task, ciphertext)?;
        self.end(task, &[], vec![made]);
        Ok(Buffer(task.first_result))
    }

    fn export(&self, task: &Task, value: &Buffer) -> Result<ckks::Ciphertext, ckks::Error> {
        let found = self.begin(task, &[value])?;
        let made = self.inner.export(task, &found[0]);
        self.used(&mut self.ledger(), &[value]);
        made
    }

    fn encode(&self, form: Form, coefficients: Vec<ckks::Coefficients>) -> Result<Vec<D::Vector>, ckks::Error> {
        self.inner.encode(form, coefficients)
    }

    fn vector_bytes(&self, vector: &D::Vector) -> u64 {
        self.inner.vector_bytes(vector)
    }

    fn perform(
        &self,
        task: &Task,
        operands: &[&Buffer],
        key: Option<&dyn ckks::KeyView>,
        vectors: &[&D::Vector],
    ) -> Result<Vec<Buffer>, ckks::Error> {
        let found = self.begin(task, operands)?;
        let made = self.inner.perform(task, &found.iter().map(AsRef::as_ref).collect::<Vec<_>>(), key, vectors)?;
        drop(found);
        Ok(self.end(task, operands, made))
    }

    fn scale(&self, value: &Buffer) -> Result<f64, ckks::Error> {
        let found = self.ledger().lives.get(value).and_then(|life| life.value.clone());
        let rule = "a device performs on values that it holds";
        let what = format!("value {}", value.0);
        found.map_or(Err(ckks::Error::Operand { operation: "scale", what, rule }), |held| self.inner.scale(&held))
    }

    fn bytes(&self, value: &Buffer) -> u64 {
        let found = self.ledger().lives.get(value).and_then(|life| life.value.clone());
        found.map_or(0, |held| self.inner.bytes(&held))
    }

    fn free(&self, value: Buffer) {
        let mut ledger = self.ledger();
        let held = ledger.lives.get_mut(&value).and_then(|life| life.value.take());
        match held {
            Some(held) => {
                ledger.live_bytes -= self.inner.bytes(&held);
                if let Some(held) = Arc::into_inner(held) {
                    self.inner.free(held);
                } else {
                    ledger.faults.push(format!("value {}: freed while it is used", value.0));
                }
            }
            None => ledger.faults.push(format!("value {}: freed twice, or never written", value.0)),
        }
    }
}
