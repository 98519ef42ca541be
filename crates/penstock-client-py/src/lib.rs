//! Bindings of the client. The documentation for Python is in `python/penstock_client/_client.pyi`.
//!
//! A secret key is an object without content for Python: it is made, read and written here.

use std::path::PathBuf;

use numpy::{Complex64, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray1};
use penstock_ckks::kernels::CpuPath;
use penstock_ckks::{Complex, Machine, Parameters, Scaling};
use penstock_client as client;
use penstock_client::random::Stream;
use penstock_client::sample;
use penstock_segment::{KeyId, Tenant};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

create_exception!(penstock_client, ClientError, PyException);
create_exception!(penstock_client, Damaged, ClientError);
create_exception!(penstock_client, Other, ClientError);
create_exception!(penstock_client, Passphrase, ClientError);

fn raised(error: client::Error) -> PyErr {
    use client::Error as E;
    let message = error.to_string();
    match error {
        E::Damaged { .. } | E::Version { .. } => Damaged::new_err(message),
        E::Other { .. } | E::Exposed { .. } => Other::new_err(message),
        E::Sealed(_) | E::Passphrase(_) => Passphrase::new_err(message),
        E::File { why, .. } => match why.raw_os_error() {
            // An OSError with its number, which `penstock` explains.
            Some(number) => pyo3::exceptions::PyOSError::new_err((number, message)),
            None => ClientError::new_err(message),
        },
        _ => ClientError::new_err(message),
    }
}

fn refused(message: impl Into<String>) -> PyErr {
    ClientError::new_err(message.into())
}

fn free<T: Send>(py: Python<'_>, work: impl FnOnce() -> client::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(raised)
}

#[pyclass(frozen, module = "penstock_client")]
struct SecretKey(client::SecretKey);

#[pymethods]
impl SecretKey {
    #[getter]
    fn tag(&self) -> &str {
        self.0.tag()
    }

    #[getter]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

#[pyclass(frozen, module = "penstock_client")]
struct PublicKey(client::PublicKey);

#[pymethods]
impl PublicKey {
    #[getter]
    fn tag(&self) -> &str {
        self.0.tag()
    }
}

#[pyclass(frozen, module = "penstock_client")]
struct Ring(client::Ring);

fn values(given: &PyReadonlyArray1<'_, Complex64>) -> PyResult<Vec<Complex>> {
    let given =
        given.as_slice().map_err(|_| refused("values are not contiguous: pass numpy.ascontiguousarray(...)"))?;
    Ok(given.iter().map(|value| [value.re, value.im]).collect())
}

/// Rows of part B of a whole key.
fn evaluator_rows(parameters: &client::RingParameters) -> usize {
    let evaluator = &parameters.evaluator;
    evaluator.dnum.saturating_mul(evaluator.moduli_q.len() + evaluator.moduli_p.len())
}

fn key_id(text: &str) -> PyResult<KeyId> {
    text.parse().map_err(|error: penstock_segment::Error| refused(error.to_string()))
}

#[pymethods]
impl Ring {
    #[new]
    #[pyo3(signature = (
        *, ring_dim, moduli_q, moduli_p, dnum, scaling, scale_bits, slots, depth, secret, security, threads = 1,
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
        slots: u32,
        depth: u32,
        secret: &str,
        security: Option<u32>,
        threads: usize,
    ) -> PyResult<Self> {
        let scaling = match scaling {
            "fixed-manual" => Scaling::FixedManual,
            "fixed-auto" => Scaling::FixedAuto,
            "flexible-auto" => Scaling::FlexibleAuto,
            "flexible-auto-ext" => Scaling::FlexibleAutoExt,
            _ => {
                let rule = "the client has fixed-manual, fixed-auto, flexible-auto and flexible-auto-ext";
                return Err(refused(format!("scaling '{scaling}': {rule}")));
            }
        };
        let secret = client::SecretKind::by_name(secret).ok_or_else(|| {
            let rule = "the client has uniform-ternary, sparse-ternary, sparse-encapsulated and uniform-encapsulated";
            refused(format!("secret '{secret}': {rule}"))
        })?;
        let evaluator = Parameters { ring_dim, moduli_q, moduli_p, dnum, scaling, scale_bits };
        let parameters = client::RingParameters { evaluator, slots, depth, secret, security };
        free(py, || {
            // Part B of a key is kept for the next one; other memory of a client goes back to the system.
            let rows = evaluator_rows(&parameters);
            let machine =
                Machine { path: CpuPath::choose()?, threads, keep_bytes: rows * 8 * parameters.evaluator.ring_dim };
            client::Ring::new(parameters, machine)
        })
        .map(Self)
    }

    fn generate_secret(&self, py: Python<'_>) -> PyResult<SecretKey> {
        free(py, || client::SecretKey::generate(&self.0)).map(SecretKey)
    }

    fn generate_public(&self, py: Python<'_>, secret: &SecretKey) -> PyResult<PublicKey> {
        free(py, || client::PublicKey::generate(&self.0, &secret.0)).map(PublicKey)
    }

    #[pyo3(signature = (secret, path, passphrase = None))]
    fn write_secret(
        &self,
        py: Python<'_>,
        secret: &SecretKey,
        path: PathBuf,
        passphrase: Option<&[u8]>,
    ) -> PyResult<()> {
        free(py, || secret.0.write(&self.0, &path, passphrase))
    }

    #[pyo3(signature = (path, passphrase = None))]
    fn read_secret(&self, py: Python<'_>, path: PathBuf, passphrase: Option<&[u8]>) -> PyResult<SecretKey> {
        free(py, || client::SecretKey::read(&self.0, &path, passphrase)).map(SecretKey)
    }

    fn write_public(&self, py: Python<'_>, public: &PublicKey, path: PathBuf) -> PyResult<()> {
        free(py, || public.0.write(&self.0, &path))
    }

    fn read_public(&self, py: Python<'_>, path: PathBuf) -> PyResult<PublicKey> {
        free(py, || client::PublicKey::read(&self.0, &path)).map(PublicKey)
    }

    fn secret_from_openfhe(&self, py: Python<'_>, path: PathBuf) -> PyResult<SecretKey> {
        free(py, || client::SecretKey::read_openfhe(&self.0, &path)).map(SecretKey)
    }

    fn public_from_openfhe(&self, py: Python<'_>, content: &[u8]) -> PyResult<PublicKey> {
        free(py, || client::PublicKey::from_openfhe(&self.0, content)).map(PublicKey)
    }

    fn secret_to_openfhe(&self, py: Python<'_>, secret: &SecretKey, path: PathBuf) -> PyResult<()> {
        free(py, || secret.0.write_openfhe(&self.0, &path))
    }

    fn public_to_openfhe(&self, py: Python<'_>, public: &PublicKey, path: PathBuf) -> PyResult<()> {
        free(py, || public.0.write_openfhe(&self.0, &path))
    }

    fn is_pair(&self, py: Python<'_>, public: &PublicKey, secret: &SecretKey) -> PyResult<bool> {
        free(py, || public.0.belongs_to(&self.0, &secret.0))
    }

    #[pyo3(signature = (public, values, limbs, degree = 1))]
    fn encrypt<'py>(
        &self,
        py: Python<'py>,
        public: &PublicKey,
        values: PyReadonlyArray1<'_, Complex64>,
        limbs: usize,
        degree: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let given = self::values(&values)?;
        free(py, || self.0.encrypt(&public.0, &given, limbs, degree)).map(|bytes| PyBytes::new(py, &bytes))
    }

    #[pyo3(signature = (secret, values, limbs, degree = 1))]
    fn encrypt_seeded<'py>(
        &self,
        py: Python<'py>,
        secret: &SecretKey,
        values: PyReadonlyArray1<'_, Complex64>,
        limbs: usize,
        degree: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let given = self::values(&values)?;
        free(py, || self.0.encrypt_seeded(&secret.0, &given, limbs, degree)).map(|bytes| PyBytes::new(py, &bytes))
    }

    fn check_result(
        &self,
        py: Python<'_>,
        secret: &SecretKey,
        ciphertext: &[u8],
        stated: (usize, u32, f64, u32),
    ) -> PyResult<()> {
        let (limbs, degree, scale, slots) = stated;
        free(py, || self.0.check_result(&secret.0, ciphertext, &client::Stated { limbs, degree, scale, slots }))
    }

    #[pyo3(signature = (secret, ciphertext, *, stated = None, flooding = None, keep_imaginary = false))]
    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        secret: &SecretKey,
        ciphertext: &[u8],
        stated: Option<(usize, u32, f64, u32)>,
        flooding: Option<f64>,
        keep_imaginary: bool,
    ) -> PyResult<Bound<'py, PyArray1<Complex64>>> {
        let plan = flooding.map(sample::FloodingPlan::new).transpose().map_err(raised)?;
        let stated = stated.map(|(limbs, degree, scale, slots)| client::Stated { limbs, degree, scale, slots });
        let work = || self.0.decrypt(&secret.0, ciphertext, stated.as_ref(), plan.as_ref(), keep_imaginary);
        let found: Vec<Complex64> = free(py, work)?.into_iter().map(|[re, im]| Complex64::new(re, im)).collect();
        Ok(found.into_pyarray(py))
    }

    fn phase<'py>(
        &self,
        py: Python<'py>,
        secret: &SecretKey,
        ciphertext: &[u8],
    ) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let phase = free(py, || self.0.phase(&secret.0, ciphertext))?;
        phase.words.to_vec().into_pyarray(py).reshape([phase.limbs, self.0.ring_dim()])
    }

    fn generate_key(
        &self,
        py: Python<'_>,
        secret: &SecretKey,
        key: &str,
        limbs: usize,
        seeded: bool,
    ) -> PyResult<EvaluationKey> {
        let id = key_id(key)?;
        free(py, || client::EvaluationKey::generate(&self.0, &secret.0, id, limbs, seeded)).map(EvaluationKey)
    }

    #[pyo3(signature = (secret, small, squared, seeded = true))]
    fn generate_key_from_small(
        &self,
        py: Python<'_>,
        secret: &SecretKey,
        small: &SecretKey,
        squared: bool,
        seeded: bool,
    ) -> PyResult<EvaluationKey> {
        free(py, || client::EvaluationKey::from_small(&self.0, &secret.0, &small.0, squared, seeded)).map(EvaluationKey)
    }

    fn encrypt_polynomials<'py>(
        &self,
        py: Python<'py>,
        secret: &SecretKey,
        coefficients: PyReadonlyArray1<'_, i64>,
        mut out: PyReadwriteArray1<'_, u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let given = coefficients.as_slice().map_err(|_| refused("coefficients are not contiguous"))?;
        let words = out.as_slice_mut().map_err(|_| refused("words are not contiguous"))?;
        free(py, || self.0.encrypt_polynomials(&secret.0, given, words)).map(|seed| PyBytes::new(py, &seed.0))
    }

    fn key_to_openfhe(&self, py: Python<'_>, key: &EvaluationKey, path: PathBuf) -> PyResult<()> {
        free(py, || key.0.write_openfhe(&self.0, &path))
    }
}

#[pyclass(frozen, module = "penstock_client")]
struct EvaluationKey(client::EvaluationKey);

#[pymethods]
impl EvaluationKey {
    fn write(&self, py: Python<'_>, tenant: &str, path: PathBuf) -> PyResult<u64> {
        let tenant = Tenant::new(tenant).map_err(|error| refused(error.to_string()))?;
        free(py, || self.0.write(&path, &tenant))
    }
}

/// Fills a row with the residues of a seed.
#[pyfunction]
fn expand(
    py: Python<'_>,
    seed: [u8; 32],
    digit: u32,
    limb: u32,
    modulus: u64,
    mut words: PyReadwriteArray1<'_, u64>,
) -> PyResult<()> {
    if modulus == 0 {
        return Err(refused("modulus 0: residues are below a modulus"));
    }
    let words = words.as_slice_mut().map_err(|_| refused("words are not contiguous"))?;
    py.detach(|| penstock_seed::expand(&penstock_seed::Seed(seed), digit, limb, modulus, words));
    Ok(())
}

/// New draws of a distribution.
#[pyfunction]
fn samples<'py>(py: Python<'py>, kind: &str, count: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let mut stream = Stream::new().map_err(raised)?;
    let drawn: Vec<i64> = match kind {
        "error" => {
            let mut words = vec![0; count];
            sample::errors(&mut stream, &mut words);
            words.into_iter().map(|word| word as i64).collect()
        }
        "ternary" | "sparse" | "ephemeral" => {
            let mut small = vec![0; count];
            let weight = if kind == "sparse" { sample::SPARSE_WEIGHT } else { sample::EPHEMERAL_WEIGHT };
            if kind == "ternary" {
                sample::ternary(&mut stream, &mut small);
            } else {
                sample::sparse_ternary(&mut stream, weight, &mut small).map_err(raised)?;
            }
            small.into_iter().map(i64::from).collect()
        }
        _ => return Err(refused(format!("distribution '{kind}': ternary, sparse, ephemeral or error"))),
    };
    Ok(drawn.into_pyarray(py))
}

/// The client of penstock.
#[pymodule]
mod _client {
    #[pymodule_export]
    use super::{ClientError, Damaged, EvaluationKey, Other, Passphrase, PublicKey, Ring, SecretKey, expand, samples};

    /// The version of the client, which `penstock.runtime.client` compares with its own.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
