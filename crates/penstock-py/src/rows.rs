//! Bindings of bare rows: what travels between an evaluator and a node that owns keys. Documented in
//! `src/penstock/_engine.pyi`.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use penstock_ckks::{self as ckks, Error};
use pyo3::prelude::*;

use crate::ckks::{CkksCiphertext, CkksContext};
use crate::errors::{Arg, free, not_contiguous};
use crate::keys::CkksKey;

#[pyfunction]
#[pyo3(signature = (context, words, *, polynomials, limbs, degree, scale, slots))]
#[allow(clippy::too_many_arguments)]
pub fn ckks_ciphertext(
    py: Python<'_>,
    context: &CkksContext,
    words: PyReadonlyArray1<'_, u64>,
    polynomials: Arg<usize>,
    limbs: Arg<usize>,
    degree: Arg<u32>,
    scale: f64,
    slots: Arg<u32>,
) -> PyResult<CkksCiphertext> {
    let words = words.as_slice().map_err(|_| not_contiguous::<Error>("words"))?;
    let header = ckks::CiphertextHeader {
        polynomials: polynomials.of::<Error>("polynomials")?,
        limbs: limbs.of::<Error>("limbs")?,
        degree: degree.of::<Error>("degree")?,
        scale,
        slots: slots.of::<Error>("slots")?,
    };
    free(py, || context.0.ciphertext_from_rows(&header, words)).map(CkksCiphertext)
}

#[pyfunction]
pub fn ckks_key_words(
    py: Python<'_>,
    context: &CkksContext,
    key: &CkksKey,
    limbs: Arg<usize>,
    mut into: PyReadwriteArray1<'_, u64>,
) -> PyResult<usize> {
    let (rows, limbs) = (key.rows()?, limbs.of::<Error>("limbs")?);
    let words = into.as_slice_mut().map_err(|_| not_contiguous::<Error>("into"))?;
    free(py, || context.0.write_key_rows(&*rows, limbs, words))
}

#[pyfunction]
pub fn ckks_key_rows(
    py: Python<'_>,
    context: &CkksContext,
    words: PyReadonlyArray1<'_, u64>,
    limbs: Arg<usize>,
) -> PyResult<CkksKey> {
    let words = words.as_slice().map_err(|_| not_contiguous::<Error>("words"))?;
    let limbs = limbs.of::<Error>("limbs")?;
    free(py, || context.0.key_from_rows(words, limbs)).map(CkksKey::new)
}
