//! Whole programs for the native evaluator. Documented in `src/penstock/_engine.pyi`.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{Complex64, IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray1};
use penstock_ckks as ckks;
use penstock_run as runs;
use penstock_run::{Form, Task, Vector};
use penstock_store as store;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use crate::ckks::{CkksCiphertext, CkksContext};
use crate::errors::{Raised, not_contiguous};
use crate::keys::CkksKey;
use crate::operations::task;
use crate::store::KeySession;

#[pyclass(module = "penstock._engine")]
#[derive(Default)]
pub struct CkksProgram {
    tasks: Vec<Task>,
    value_bytes: Vec<u64>,
}

/// An error on its way through the run.
struct Failure(PyErr);

impl From<ckks::Error> for Failure {
    fn from(error: ckks::Error) -> Self {
        Self(error.raised())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self(error.raised())
    }
}

impl From<runs::Error> for Failure {
    fn from(error: runs::Error) -> Self {
        Self(ckks::Error::refused(error.to_string()))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

/// Keys by number: by name in a store's session, or in memory.
#[derive(FromPyObject)]
enum KeysIn<'py> {
    Session((PyRef<'py, KeySession>, Vec<String>)),
    Held(Vec<Py<CkksKey>>),
}

enum Keys {
    Session(store::Session, Vec<store::KeyId>),
    Held(Vec<Arc<dyn ckks::KeyView>>),
}

impl Keys {
    fn of(given: KeysIn<'_>) -> PyResult<Self> {
        Ok(match given {
            KeysIn::Session((session, names)) => {
                let ids = names.iter().map(|name| name.parse().map_err(store::SegmentError::raised));
                Self::Session(session.session(), ids.collect::<PyResult<_>>()?)
            }
            KeysIn::Held(keys) => Self::Held(keys.iter().map(|key| key.get().rows()).collect::<PyResult<_>>()?),
        })
    }

    fn get(&self, key: usize, limbs: usize) -> Result<Arc<dyn ckks::KeyView>, Failure> {
        let missing = || Failure(ckks::Error::refused(format!("the program has no key number {key}")));
        match self {
            Self::Session(session, ids) => {
                let id = ids.get(key).copied().ok_or_else(missing)?;
                Ok(Arc::new(session.get(id, limbs)?))
            }
            Self::Held(held) => held.get(key).cloned().ok_or_else(missing),
        }
    }
}

/// Scales of a client and ours differ by rounding at most.
const SAME_SCALE: f64 = 1e-9;

/// A run's functions in Python, and its results.
struct Supply<'a> {
    context: &'a ckks::Context,
    keys: Keys,
    vector: Py<PyAny>,
    input: Py<PyAny>,
    slots: u32,
    outputs: Mutex<Vec<Option<ckks::Ciphertext>>>,
}

impl runs::Supply for Supply<'_> {
    type Error = Failure;

    fn key(&self, key: u32, limbs: usize) -> Result<Arc<dyn ckks::KeyView>, Failure> {
        self.keys.get(key as usize, limbs)
    }

    fn vector(&self, number: u32) -> Result<Vec<ckks::Complex>, Failure> {
        Python::attach(|py| {
            let values = self.vector.bind(py).call1((number,))?;
            let values: PyReadonlyArray1<'_, Complex64> = values.extract()?;
            let values = values.as_slice().map_err(|_| not_contiguous::<ckks::Error>("values"))?;
            Ok(values.iter().map(|value| [value.re, value.im]).collect())
        })
    }

    fn input(&self, number: u32) -> Result<ckks::Ciphertext, Failure> {
        let bytes: PyResult<PyBackedBytes> =
            Python::attach(|py| Ok(self.input.bind(py).call1((number,))?.extract::<PyBackedBytes>()?));
        let bytes = bytes?;
        let made = self.context.import(&bytes)?;
        let (degree, scale) = self.context.fresh_state();
        let fresh = (self.context.parameters().moduli_q.len(), 2, degree, self.slots);
        let found = (made.limbs(), made.polynomials(), made.degree(), made.slots());
        let far = (made.scale() / scale - 1.0).abs();
        if found != fresh || far.is_nan() || far > SAME_SCALE {
            let told = |(limbs, polynomials, degree, slots): (usize, usize, u32, u32), scale: f64| {
                format!(
                    "{limbs} limbs, {polynomials} polynomials, degree {degree}, {slots} slots, a scale of {scale:e}"
                )
            };
            let why = format!(
                "input {number} has {}, and a fresh one has {}: encrypt it again",
                told(found, made.scale()),
                told(fresh, scale)
            );
            return Err(ckks::Error::refused(why).into());
        }
        Ok(made)
    }

    fn output(&self, number: u32, result: ckks::Ciphertext) -> Result<(), Failure> {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let number = number as usize;
        if outputs.len() <= number {
            outputs.resize_with(number + 1, || None);
        }
        outputs[number] = Some(result);
        Ok(())
    }
}

#[pymethods]
impl CkksProgram {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.tasks.len()
    }

    #[pyo3(signature = (
        work, operands, result_bytes, *, argument = 0, numbers = Vec::new(), key = None, vectors = Vec::new(),
    ))]
    #[allow(clippy::too_many_arguments)] // Named on the Python side.
    fn add(
        &mut self,
        work: &str,
        operands: Vec<u32>,
        result_bytes: Vec<u64>,
        argument: u64,
        numbers: Vec<f64>,
        key: Option<(u32, u16)>,
        vectors: Vec<(u32, u16, u8, bool)>,
    ) -> PyResult<u32> {
        let task = task(work, argument, numbers)?;
        let form = |over_p| if over_p { Form::Coefficients } else { Form::Plaintext };
        let vectors = vectors
            .into_iter()
            .map(|(number, limbs, degree, over_p)| Vector { number, limbs, degree, form: form(over_p) })
            .collect();
        let first_result = self.value_bytes.len() as u32;
        let results = result_bytes.len() as u32;
        self.value_bytes.extend(result_bytes);
        self.tasks.push(Task { operands: operands.into(), first_result, results, key, vectors, ..task });
        Ok(first_result)
    }

    fn peak_value_bytes(&self) -> PyResult<u64> {
        Ok(self.checked()?.peak_value_bytes())
    }

    #[pyo3(signature = (
        context, keys, vector, input, progress, *, slots, lanes, keys_in_order, value_bytes, keep_bytes, ahead_bytes, window,
        device = "cpu",
    ))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)] // Named on the Python side; this is the border.
    fn run<'py>(
        &self,
        py: Python<'py>,
        context: &CkksContext,
        keys: KeysIn<'py>,
        vector: Py<PyAny>,
        input: Py<PyAny>,
        progress: Option<Py<PyAny>>,
        slots: u32,
        lanes: usize,
        keys_in_order: bool,
        value_bytes: u64,
        keep_bytes: u64,
        ahead_bytes: u64,
        window: usize,
        device: &str,
    ) -> PyResult<(Vec<Option<CkksCiphertext>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyDict>)> {
        let program = self.checked()?;
        let keys = Keys::of(keys)?;
        let supply = Supply { context: &context.0, keys, vector, input, slots, outputs: Mutex::default() };
        let options = runs::Options { lanes, keys_in_order, value_bytes, keep_bytes, ahead_bytes, window };
        let mut said = usize::MAX;
        let watch = |done: usize| {
            Python::attach(|py| {
                py.check_signals()?;
                if let Some(progress) = progress.as_ref().filter(|_| said != done) {
                    progress.call1(py, (done,))?;
                }
                said = done;
                Ok(())
            })
        };
        let cpu = runs::Cpu(&context.0);
        let outcome = match device {
            "cpu" => py.detach(|| runs::run(&cpu, &program, &supply, options, watch)),
            "recording" => {
                let most = program.peak_value_bytes() + if lanes > 1 { value_bytes } else { 0 };
                let device = runs::Recording::new(&cpu, &program, most);
                let outcome = py.detach(|| runs::run(&device, &program, &supply, options, watch));
                let (faults, _) = device.finish();
                let outcome = outcome.map_err(|each| each.0)?;
                if !faults.is_empty() {
                    return Err(ckks::Error::refused(format!("buffers: {}", faults.join("; "))));
                }
                Ok(outcome)
            }
            _ => return Err(ckks::Error::refused(format!("there is no device '{device}': cpu or recording"))),
        };
        let outcome = outcome.map_err(|each| each.0)?;
        let times: Vec<f64> =
            outcome.times.iter().flat_map(|each| [each.start_s, each.end_s, each.key_s, each.encode_s]).collect();
        let times = times.into_pyarray(py).reshape([outcome.times.len(), 4])?;
        let counts = PyDict::new(py);
        for (name, count) in [
            ("vectors_encoded", outcome.counts.vectors_encoded),
            ("vectors_ahead", outcome.counts.vectors_ahead),
            ("peak_vector_bytes", outcome.counts.peak_vector_bytes),
            ("peak_value_bytes", outcome.counts.peak_value_bytes),
            ("beside", outcome.counts.beside),
        ] {
            counts.set_item(name, count)?;
        }
        let outputs = supply.outputs.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((outputs.into_iter().map(|each| each.map(CkksCiphertext)).collect(), times, counts))
    }
}

impl CkksProgram {
    fn checked(&self) -> PyResult<runs::Program> {
        runs::Program::new(self.tasks.clone(), self.value_bytes.clone())
            .map_err(|error| ckks::Error::refused(error.to_string()))
    }
}
