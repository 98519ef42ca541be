//! Bindings of the native evaluator. The interpreter's lock is released in every call that computes; the documentation
//! for Python is in `src/penstock/_engine.pyi`.

use std::collections::HashMap;

use numpy::{Complex64, IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray1};
use penstock_ckks as ckks;
use penstock_ckks::kernels::CpuPath;
use penstock_ckks::openfhe_bytes;
use penstock_operations::Operation;
use penstock_run::{Cpu, Encoded, Operand, Value};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Arg, Raised, free, not_contiguous};
use crate::keys::CkksKey;
use crate::operations::task;

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksContext(pub(crate) ckks::Context);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksCiphertext(pub(crate) ckks::Ciphertext);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksPlaintext(Encoded);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksDigits(ckks::Digits);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksExtended(ckks::ExtendedCiphertext);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksCoefficients(Encoded);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksWriter(openfhe_bytes::CiphertextWriter);

/// Kernel paths that this machine has, the fastest first.
#[pyfunction]
pub fn ckks_paths() -> Vec<&'static str> {
    CpuPath::ALL.into_iter().filter(|path| path.is_available()).map(CpuPath::name).collect()
}

/// `(ring_dim, moduli, digits, [(galois_element, key_tag), …])` of serialized evaluation keys.
#[pyfunction]
#[allow(clippy::type_complexity)] // Flat on purpose: this is the border.
pub fn ckks_describe_keys(bytes: &[u8]) -> PyResult<(usize, Vec<u64>, usize, Vec<(Option<u32>, Option<String>)>)> {
    let keys = openfhe_bytes::parse_evaluation_keys(bytes).map_err(Raised::raised)?;
    let named = keys.iter().map(|key| (key.galois_element, key.key_tag.clone())).collect();
    let first = keys.into_iter().next().ok_or_else(|| ckks::Error::refused("no key".into()))?;
    Ok((first.ring_dim, first.moduli, first.dnum, named))
}

/// The key pair that a serialized ciphertext states, if any.
#[pyfunction]
pub fn ckks_ciphertext_tag(bytes: &[u8]) -> PyResult<Option<String>> {
    ckks::ciphertext_tag(bytes).map_err(Raised::raised)
}

#[pymethods]
impl CkksCiphertext {
    #[getter]
    fn limbs(&self) -> usize {
        self.0.limbs()
    }

    #[getter]
    fn degree(&self) -> u32 {
        self.0.degree()
    }

    #[getter]
    fn scale(&self) -> f64 {
        self.0.scale()
    }

    #[getter]
    fn slots(&self) -> u32 {
        self.0.slots()
    }

    #[getter]
    fn polynomials(&self) -> usize {
        self.0.polynomials()
    }

    fn words<'py>(&self, py: Python<'py>, polynomial: usize) -> PyResult<Bound<'py, PyArray2<u64>>> {
        if polynomial >= self.0.polynomials() {
            return Err(ckks::Error::refused(format!("there is no polynomial {polynomial}")));
        }
        let words = self.0.words(polynomial).to_vec();
        let shape = [self.0.limbs(), words.len() / self.0.limbs()];
        words.into_pyarray(py).reshape(shape)
    }

    fn with_scale(&self, scale: f64) -> PyResult<Self> {
        let mut copy = self.0.duplicate().map_err(Raised::raised)?;
        copy.set_scale(scale);
        Ok(Self(copy))
    }
}

/// An operand.
#[derive(FromPyObject)]
enum ValueIn {
    Cipher(Py<CkksCiphertext>),
    Digits(Py<CkksDigits>),
    Extended(Py<CkksExtended>),
}

impl ValueIn {
    fn operand(&self) -> Operand<'_> {
        match self {
            Self::Cipher(value) => Operand::Cipher(&value.get().0),
            Self::Digits(value) => Operand::Digits(&value.get().0),
            Self::Extended(value) => Operand::Extended(&value.get().0),
        }
    }
}

/// An encoded vector.
#[derive(FromPyObject)]
enum VectorIn {
    Plaintext(Py<CkksPlaintext>),
    Coefficients(Py<CkksCoefficients>),
}

impl VectorIn {
    fn encoded(&self) -> &Encoded {
        match self {
            Self::Plaintext(vector) => &vector.get().0,
            Self::Coefficients(vector) => &vector.get().0,
        }
    }
}

fn value_out(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::Cipher(value) => Py::new(py, CkksCiphertext(value))?.into_any(),
        Value::Digits(value) => Py::new(py, CkksDigits(value))?.into_any(),
        Value::Extended(value) => Py::new(py, CkksExtended(value))?.into_any(),
    })
}

#[pymethods]
impl CkksWriter {
    #[new]
    fn new(ciphertext: &[u8]) -> PyResult<Self> {
        openfhe_bytes::CiphertextWriter::like(ciphertext).map(Self).map_err(Raised::raised)
    }
}

#[pymethods]
impl CkksExtended {
    fn words<'py>(&self, py: Python<'py>, polynomial: usize, ring_dim: usize) -> PyResult<Bound<'py, PyArray2<u64>>> {
        if polynomial > 1 || ring_dim == 0 {
            return Err(ckks::Error::refused(format!("there is no polynomial {polynomial} of N = {ring_dim}")));
        }
        let words = self.0.words(polynomial).to_vec();
        let shape = [words.len() / ring_dim, ring_dim];
        words.into_pyarray(py).reshape(shape)
    }
}

/// A scaling technique by the name that parameter sets use.
pub(crate) fn scaling_in(name: &str) -> PyResult<ckks::Scaling> {
    Ok(match name {
        "fixed-manual" => ckks::Scaling::FixedManual,
        "fixed-auto" => ckks::Scaling::FixedAuto,
        "flexible-auto" => ckks::Scaling::FlexibleAuto,
        "flexible-auto-ext" => ckks::Scaling::FlexibleAutoExt,
        _ => {
            let rule = "the native evaluator has fixed-manual, fixed-auto, flexible-auto and flexible-auto-ext";
            return Err(ckks::Error::refused(format!("scaling '{name}': {rule}")));
        }
    })
}

type Cipher = PyResult<CkksCiphertext>;

fn complex(values: &PyReadonlyArray1<'_, Complex64>) -> PyResult<Vec<ckks::Complex>> {
    let values = values.as_slice().map_err(|_| not_contiguous::<ckks::Error>("values"))?;
    Ok(values.iter().map(|value| [value.re, value.im]).collect())
}

fn cipher(py: Python<'_>, work: impl FnOnce() -> Result<ckks::Ciphertext, ckks::Error> + Send) -> Cipher {
    free(py, work).map(CkksCiphertext)
}

#[pymethods]
impl CkksContext {
    #[new]
    #[pyo3(signature = (
        *, ring_dim, moduli_q, moduli_p, dnum, scaling, scale_bits, threads = 1, path = None, keep_bytes = 512 << 20,
    ))]
    #[allow(clippy::too_many_arguments)] // Named on the Python side.
    fn new(
        py: Python<'_>,
        ring_dim: usize,
        moduli_q: Vec<u64>,
        moduli_p: Vec<u64>,
        dnum: usize,
        scaling: &str,
        scale_bits: u32,
        threads: usize,
        path: Option<&str>,
        keep_bytes: usize,
    ) -> PyResult<Self> {
        let scaling = scaling_in(scaling)?;
        let path = path.map_or_else(CpuPath::choose, CpuPath::by_name).map_err(Raised::raised)?;
        let parameters = ckks::Parameters { ring_dim, moduli_q, moduli_p, dnum, scaling, scale_bits };
        free(py, || ckks::Context::new(parameters, ckks::Machine { path, threads, keep_bytes })).map(Self)
    }

    #[getter]
    fn path(&self) -> &'static str {
        self.0.path().name()
    }

    #[getter]
    fn keep_bytes(&self) -> usize {
        self.0.arena().keep_bytes()
    }

    #[getter]
    fn kept_bytes(&self) -> usize {
        self.0.arena().kept_bytes()
    }

    fn set_keep_bytes(&self, bytes: Arg<usize>) -> PyResult<()> {
        self.0.arena().set_keep_bytes(bytes.of::<ckks::Error>("bytes")?);
        Ok(())
    }

    fn release_memory(&self) {
        self.0.arena().release();
    }

    fn import_ciphertext(&self, py: Python<'_>, bytes: &[u8]) -> Cipher {
        cipher(py, || self.0.import(bytes))
    }

    fn export_ciphertext<'py>(
        &self,
        py: Python<'py>,
        a: &CkksCiphertext,
        writer: &CkksWriter,
    ) -> PyResult<Bound<'py, PyBytes>> {
        free(py, || self.0.export(&a.0, &writer.0)).map(|bytes| PyBytes::new(py, &bytes))
    }

    fn import_key(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<CkksKey> {
        free(py, || self.0.import_key(bytes, &openfhe_bytes::parse_evaluation_key(bytes)?)).map(CkksKey::new)
    }

    fn import_automorphism_keys(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<HashMap<u32, CkksKey>> {
        free(py, || {
            let keys = openfhe_bytes::parse_evaluation_keys(bytes)?;
            let named = keys.iter().filter_map(|key| key.galois_element.map(|element| (element, key)));
            let imported = named.map(|(element, key)| Ok((element, CkksKey::new(self.0.import_key(bytes, key)?))));
            imported.collect::<Result<_, ckks::Error>>()
        })
    }

    fn encode(
        &self,
        py: Python<'_>,
        values: PyReadonlyArray1<'_, Complex64>,
        limbs: usize,
        degree: u32,
        slots: usize,
    ) -> PyResult<CkksPlaintext> {
        let values = complex(&values)?;
        free(py, || self.0.encode(&values, limbs, degree, slots)).map(|made| CkksPlaintext(Encoded::Plaintext(made)))
    }

    fn encode_many(
        &self,
        py: Python<'_>,
        vectors: Vec<PyReadonlyArray1<'_, Complex64>>,
        limbs: usize,
        degree: u32,
        slots: usize,
    ) -> PyResult<Vec<CkksPlaintext>> {
        let vectors = vectors.iter().map(complex).collect::<PyResult<Vec<_>>>()?;
        let vectors: Vec<&[ckks::Complex]> = vectors.iter().map(Vec::as_slice).collect();
        let made = free(py, || self.0.encode_many(&vectors, limbs, degree, slots))?;
        Ok(made.into_iter().map(|made| CkksPlaintext(Encoded::Plaintext(made))).collect())
    }

    fn encode_coefficients(
        &self,
        py: Python<'_>,
        values: PyReadonlyArray1<'_, Complex64>,
        limbs: usize,
        degree: u32,
        slots: usize,
    ) -> PyResult<CkksCoefficients> {
        let values = complex(&values)?;
        free(py, || self.0.encode_coefficients(&values, limbs, degree, slots))
            .map(|made| CkksCoefficients(Encoded::Coefficients(made)))
    }

    fn scale_at(&self, limbs: usize) -> PyResult<f64> {
        self.0.scale_at(limbs).map_err(Raised::raised)
    }

    #[pyo3(signature = (a, key, squared = None))]
    fn switch_small(&self, py: Python<'_>, a: &CkksCiphertext, key: &CkksKey, squared: Option<&CkksKey>) -> Cipher {
        let key = key.rows()?;
        let squared = squared.map(CkksKey::rows).transpose()?;
        cipher(py, || self.0.switch_small(&a.0, &*key, squared.as_deref()))
    }

    /// The moduli of a key to the sparse secret.
    fn to_sparse_moduli(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        free(py, || self.0.to_sparse_moduli())
    }

    fn rotation_galois_element(&self, step: i64) -> u64 {
        ckks::rotation_galois_element(step, self.0.parameters().ring_dim)
    }

    /// One piece of work on operands that are at hand; its results.
    #[pyo3(signature = (work, operands, *, argument = None, numbers = Vec::new(), key = None, vectors = Vec::new()))]
    #[allow(clippy::too_many_arguments)] // Named on the Python side.
    fn perform(
        &self,
        py: Python<'_>,
        work: &str,
        operands: Vec<ValueIn>,
        argument: Option<Arg<u64>>,
        numbers: Vec<f64>,
        key: Option<&CkksKey>,
        vectors: Vec<VectorIn>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let mut task = task(work, Arg::optional::<ckks::Error>(argument, "argument")?.unwrap_or(0), numbers)?;
        let key = key.map(CkksKey::rows).transpose()?;
        let operands: Vec<_> = operands.iter().map(ValueIn::operand).collect();
        let vectors: Vec<_> = vectors.iter().map(VectorIn::encoded).collect();
        if let (Operation::MultOverScale, [Operand::Cipher(a)]) = (task.operation, operands.as_slice()) {
            task = task.at_scale(a.scale());
        }
        let made = free(py, || Cpu(&self.0).perform_on(&task, &operands, key.as_deref(), &vectors))?;
        made.into_iter().map(|value| value_out(py, value)).collect()
    }
}
