//! Bindings of the native evaluator. The interpreter's lock is released in every call that computes; the documentation
//! for Python is in `src/penstock/_engine.pyi`.

use std::collections::HashMap;

use numpy::{Complex64, IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray1};
use penstock_ckks as ckks;
use penstock_ckks::kernels::CpuPath;
use penstock_ckks::openfhe_bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Arg, Raised, free, not_contiguous};
use crate::keys::CkksKey;

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksContext(pub(crate) ckks::Context);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksCiphertext(pub(crate) ckks::Ciphertext);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksPlaintext(ckks::Plaintext);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksDigits(ckks::Digits);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksExtended(ckks::ExtendedCiphertext);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksCoefficients(ckks::Coefficients);

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

#[pymethods]
impl CkksPlaintext {
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
        free(py, || self.0.encode(&values, limbs, degree, slots)).map(CkksPlaintext)
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
        Ok(made.into_iter().map(CkksPlaintext).collect())
    }

    fn add(&self, py: Python<'_>, a: &CkksCiphertext, b: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.add(&a.0, &b.0))
    }

    fn sub(&self, py: Python<'_>, a: &CkksCiphertext, b: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.sub(&a.0, &b.0))
    }

    fn negate(&self, py: Python<'_>, a: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.negate(&a.0))
    }

    fn add_plain(&self, py: Python<'_>, a: &CkksCiphertext, plain: &CkksPlaintext) -> Cipher {
        cipher(py, || self.0.add_plain(&a.0, &plain.0))
    }

    fn sub_plain(&self, py: Python<'_>, a: &CkksCiphertext, plain: &CkksPlaintext) -> Cipher {
        cipher(py, || self.0.sub_plain(&a.0, &plain.0))
    }

    fn mult_plain(&self, py: Python<'_>, a: &CkksCiphertext, plain: &CkksPlaintext) -> Cipher {
        cipher(py, || self.0.mult_plain(&a.0, &plain.0))
    }

    fn weighted_sum_plain(
        &self,
        py: Python<'_>,
        terms: Vec<Py<CkksCiphertext>>,
        plains: Vec<Py<CkksPlaintext>>,
    ) -> Cipher {
        let terms: Vec<_> = terms.iter().map(|term| &term.get().0).collect();
        let plains: Vec<_> = plains.iter().map(|plain| &plain.get().0).collect();
        cipher(py, || self.0.weighted_sum_plain(&terms, &plains))
    }

    fn add_scalar(&self, py: Python<'_>, a: &CkksCiphertext, value: f64) -> Cipher {
        cipher(py, || self.0.add_scalar(&a.0, value))
    }

    fn sub_scalar(&self, py: Python<'_>, a: &CkksCiphertext, value: f64) -> Cipher {
        cipher(py, || self.0.sub_scalar(&a.0, value))
    }

    fn mult_scalar(&self, py: Python<'_>, a: &CkksCiphertext, value: f64) -> Cipher {
        cipher(py, || self.0.mult_scalar(&a.0, value))
    }

    fn mult(&self, py: Python<'_>, a: &CkksCiphertext, b: &CkksCiphertext, key: &CkksKey) -> Cipher {
        let key = key.rows()?;
        cipher(py, || self.0.mult(&a.0, &b.0, &*key))
    }

    fn mult_no_relin(&self, py: Python<'_>, a: &CkksCiphertext, b: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.mult_no_relin(&a.0, &b.0))
    }

    fn square(&self, py: Python<'_>, a: &CkksCiphertext, key: &CkksKey) -> Cipher {
        let key = key.rows()?;
        cipher(py, || self.0.square(&a.0, &*key))
    }

    fn relinearize(&self, py: Python<'_>, a: &CkksCiphertext, key: &CkksKey) -> Cipher {
        let key = key.rows()?;
        cipher(py, || self.0.relinearize(&a.0, &*key))
    }

    fn rescale(&self, py: Python<'_>, a: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.rescale(&a.0))
    }

    fn rescale_now(&self, py: Python<'_>, a: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.rescale_now(&a.0))
    }

    fn rescale_for_product(&self, py: Python<'_>, a: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.rescale_for_product(&a.0))
    }

    fn weighted_sum_scalar(&self, py: Python<'_>, terms: Vec<Py<CkksCiphertext>>, values: Vec<f64>) -> Cipher {
        let terms: Vec<_> = terms.iter().map(|term| &term.get().0).collect();
        cipher(py, || self.0.weighted_sum_scalar(&terms, &values))
    }

    fn scale_at(&self, limbs: usize) -> PyResult<f64> {
        self.0.scale_at(limbs).map_err(Raised::raised)
    }

    fn rescale_and_drop(&self, py: Python<'_>, a: &CkksCiphertext, limbs: Arg<usize>) -> Cipher {
        let limbs = limbs.of::<ckks::Error>("limbs")?;
        cipher(py, || self.0.rescale_and_drop(&a.0, limbs))
    }

    fn mod_drop(&self, py: Python<'_>, a: &CkksCiphertext, limbs: Arg<usize>) -> Cipher {
        let limbs = limbs.of::<ckks::Error>("limbs")?;
        cipher(py, || self.0.mod_drop(&a.0, limbs))
    }

    fn align(&self, py: Python<'_>, a: &CkksCiphertext, to: &CkksCiphertext) -> Cipher {
        cipher(py, || self.0.align(&a.0, &to.0))
    }

    fn to_sparse(&self, py: Python<'_>, a: &CkksCiphertext, key: &CkksKey) -> Cipher {
        let key = key.rows()?;
        cipher(py, || self.0.to_sparse(&a.0, &*key))
    }

    fn to_dense(&self, py: Python<'_>, a: &CkksCiphertext, key: &CkksKey) -> Cipher {
        let key = key.rows()?;
        cipher(py, || self.0.to_dense(&a.0, &*key))
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

    fn rotate(&self, py: Python<'_>, a: &CkksCiphertext, galois_element: u64, key: &CkksKey) -> Cipher {
        let key = key.rows()?;
        cipher(py, || self.0.rotate(&a.0, &*self.0.automorphism(galois_element)?, &*key))
    }

    fn decompose(&self, py: Python<'_>, a: &CkksCiphertext) -> PyResult<CkksDigits> {
        free(py, || self.0.decompose(&a.0)).map(CkksDigits)
    }

    fn rotate_hoisted(
        &self,
        py: Python<'_>,
        a: &CkksCiphertext,
        digits: &CkksDigits,
        galois_element: u64,
        key: &CkksKey,
    ) -> Cipher {
        let key = key.rows()?;
        cipher(py, || self.0.rotate_hoisted(&a.0, &digits.0, &*self.0.automorphism(galois_element)?, &*key))
    }

    fn rotate_hoisted_extended(
        &self,
        py: Python<'_>,
        a: &CkksCiphertext,
        digits: &CkksDigits,
        galois_element: u64,
        key: &CkksKey,
    ) -> PyResult<CkksExtended> {
        let key = key.rows()?;
        free(py, || self.0.rotate_hoisted_extended(&a.0, &digits.0, &*self.0.automorphism(galois_element)?, &*key))
            .map(CkksExtended)
    }

    fn extend(&self, py: Python<'_>, a: &CkksCiphertext) -> PyResult<CkksExtended> {
        free(py, || self.0.extend(&a.0)).map(CkksExtended)
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
        free(py, || self.0.encode_coefficients(&values, limbs, degree, slots)).map(CkksCoefficients)
    }

    /// A sum for each item of `terms`, with the same plaintexts; its item of `plus`, if there are any, is added.
    fn weighted_sums_extended(
        &self,
        py: Python<'_>,
        terms: Vec<Vec<Py<CkksExtended>>>,
        plains: Vec<Py<CkksCoefficients>>,
        plus: Vec<Py<CkksExtended>>,
    ) -> PyResult<Vec<CkksExtended>> {
        let terms: Vec<Vec<_>> = terms.iter().map(|sum| sum.iter().map(|term| &term.get().0).collect()).collect();
        let plains: Vec<_> = plains.iter().map(|plain| &plain.get().0).collect();
        let plus: Vec<_> = plus.iter().map(|plus| &plus.get().0).collect();
        let sum = |(at, terms)| ckks::WeightedTerms { terms, plus: plus.get(at).copied() };
        let sums: Vec<_> = terms.iter().map(Vec::as_slice).enumerate().map(sum).collect();
        free(py, || self.0.weighted_sums_extended(&sums, &plains))
            .map(|made| made.into_iter().map(CkksExtended).collect())
    }

    fn mod_raise(&self, py: Python<'_>, a: &CkksCiphertext, limbs: Arg<usize>) -> Cipher {
        let limbs = limbs.of::<ckks::Error>("limbs")?;
        cipher(py, || self.0.mod_raise(&a.0, limbs))
    }

    fn mult_monomial(&self, py: Python<'_>, a: &CkksCiphertext, power: Arg<usize>) -> Cipher {
        let power = power.of::<ckks::Error>("power")?;
        cipher(py, || self.0.mult_monomial(&a.0, power))
    }

    fn mult_integer(&self, py: Python<'_>, a: &CkksCiphertext, factor: Arg<u64>) -> Cipher {
        let factor = factor.of::<ckks::Error>("factor")?;
        cipher(py, || self.0.mult_integer(&a.0, factor))
    }

    fn decompose_extended(&self, py: Python<'_>, a: &CkksExtended) -> PyResult<CkksDigits> {
        free(py, || self.0.decompose_extended(&a.0)).map(CkksDigits)
    }

    fn rotate_extended(
        &self,
        py: Python<'_>,
        a: &CkksExtended,
        digits: &CkksDigits,
        galois_element: u64,
        key: &CkksKey,
    ) -> PyResult<CkksExtended> {
        let key = key.rows()?;
        free(py, || self.0.rotate_extended(&a.0, &digits.0, &*self.0.automorphism(galois_element)?, &*key))
            .map(CkksExtended)
    }

    fn add_extended(&self, py: Python<'_>, a: &CkksExtended, b: &CkksExtended) -> PyResult<CkksExtended> {
        free(py, || self.0.add_extended(&a.0, &b.0)).map(CkksExtended)
    }

    fn mod_down(&self, py: Python<'_>, a: &CkksExtended) -> Cipher {
        cipher(py, || self.0.mod_down(&a.0))
    }
}
