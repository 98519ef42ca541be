//! Evaluation keys as operations take them. Documented in `src/penstock/_engine.pyi`.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{IntoPyArray, PyArray1};
use penstock_ckks::{KeyView, Part};
use penstock_store::Error;
use pyo3::prelude::*;

use crate::errors::{Arg, Raised};

/// A key whose rows kernels read in place: in memory, or a store's, which stay pinned until the release.
#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksKey(Mutex<Option<Arc<dyn KeyView>>>);

impl CkksKey {
    pub fn new(key: impl KeyView + 'static) -> Self {
        Self(Mutex::new(Some(Arc::new(key))))
    }

    /// The rows, for kernels that run without the interpreter's lock. A release meanwhile does not take them away.
    ///
    /// # Errors
    /// `KeyRefused`: it was released.
    pub fn rows(&self) -> PyResult<Arc<dyn KeyView>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or_else(|| Error::refused("the key was released; get it again".into()))
    }
}

#[pymethods]
impl CkksKey {
    /// A copy of the N words of a row; `None`: a row that was not asked for.
    fn row<'py>(
        &self,
        py: Python<'py>,
        part: Arg<usize>,
        digit: Arg<usize>,
        limb: Arg<usize>,
    ) -> PyResult<Option<Bound<'py, PyArray1<u64>>>> {
        let (part, digit) = (part.of::<Error>("part")?, digit.of::<Error>("digit")?);
        let (key, limb) = (self.rows()?, limb.of::<Error>("limb")?);
        let row = Part::BOTH.get(part).and_then(|part| key.row(*part, digit, limb));
        Ok(row.map(|words| words.to_vec().into_pyarray(py)))
    }

    fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyAny>) {
        self.release();
    }
}
