//! Bindings of bare rows: what travels between an evaluator and a node that owns keys. Documented in
//! `src/penstock/_engine.pyi`.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use penstock_ckks as ckks;
use pyo3::prelude::*;

use crate::ckks::{CkksCiphertext, CkksContext, free};
use crate::keys::{CkksKeyRows, KeyIn};
use crate::slice;

#[pyfunction]
#[pyo3(signature = (context, words, *, polynomials, limbs, degree, scale, slots))]
#[allow(clippy::too_many_arguments)]
pub fn ckks_ciphertext(
    py: Python<'_>,
    context: &CkksContext,
    words: PyReadonlyArray1<'_, u64>,
    polynomials: usize,
    limbs: usize,
    degree: u32,
    scale: f64,
    slots: u32,
) -> PyResult<CkksCiphertext> {
    let words = slice(&words, "words")?;
    let header = ckks::CiphertextHeader { polynomials, limbs, degree, scale, slots };
    free(py, || context.0.ciphertext_from_rows(&header, words)).map(CkksCiphertext)
}

#[pyfunction]
pub fn ckks_key_words(
    py: Python<'_>,
    context: &CkksContext,
    key: KeyIn<'_>,
    limbs: usize,
    mut into: PyReadwriteArray1<'_, u64>,
) -> PyResult<usize> {
    let rows = key.rows()?;
    let words = into.as_slice_mut()?;
    free(py, || context.0.write_key_rows(rows.view(), limbs, words))
}

#[pyfunction]
pub fn ckks_key_rows(
    py: Python<'_>,
    context: &CkksContext,
    words: PyReadonlyArray1<'_, u64>,
    limbs: usize,
) -> PyResult<CkksKeyRows> {
    let words = slice(&words, "words")?;
    free(py, || context.0.key_from_rows(words, limbs)).map(CkksKeyRows)
}
