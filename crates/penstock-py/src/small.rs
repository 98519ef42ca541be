//! Bindings of ciphertexts of a smaller ring. Documented in `src/penstock/_engine.pyi`.

use numpy::PyReadonlyArray1;
use penstock_ckks::{self as ckks, Error, SeededRows};
use penstock_seed::Seed;
use pyo3::prelude::*;

use crate::ckks::{CkksCiphertext, CkksContext};
use crate::errors::{Arg, free, not_contiguous};

#[pyfunction]
#[pyo3(signature = (context, words, seed, *, scale, slots))]
pub fn ckks_seeded_polynomial(
    py: Python<'_>,
    context: &CkksContext,
    words: PyReadonlyArray1<'_, u64>,
    seed: [u8; 32],
    scale: f64,
    slots: Arg<u32>,
) -> PyResult<CkksCiphertext> {
    let words = words.as_slice().map_err(|_| not_contiguous::<Error>("words"))?;
    let slots = slots.of::<Error>("slots")?;
    free(py, || context.0.seeded_polynomial(SeededRows { words, seed: Seed(seed) }, scale, slots)).map(CkksCiphertext)
}

#[pyfunction]
pub fn ckks_inner_products(
    py: Python<'_>,
    context: &CkksContext,
    blocks: Vec<(PyReadonlyArray1<'_, u64>, [u8; 32])>,
    vector: Vec<PyRef<'_, CkksCiphertext>>,
) -> PyResult<Vec<CkksCiphertext>> {
    let mut rows = Vec::with_capacity(blocks.len());
    for (words, seed) in &blocks {
        let words = words.as_slice().map_err(|_| not_contiguous::<Error>("a block"))?;
        rows.push(SeededRows { words, seed: Seed(*seed) });
    }
    let vector: Vec<&ckks::Ciphertext> = vector.iter().map(|each| &each.0).collect();
    let found = free(py, || context.0.inner_products(&rows, &vector))?;
    Ok(found.into_iter().map(CkksCiphertext).collect())
}

#[pyfunction]
pub fn ckks_row_checksum(py: Python<'_>, words: PyReadonlyArray1<'_, u64>) -> PyResult<u64> {
    let words = words.as_slice().map_err(|_| not_contiguous::<Error>("words"))?;
    Ok(py.detach(|| ckks::row_checksum(words)))
}

#[pyfunction]
pub fn ckks_pack_small(
    py: Python<'_>,
    context: &CkksContext,
    small: &CkksContext,
    parts: Vec<PyRef<'_, CkksCiphertext>>,
) -> PyResult<CkksCiphertext> {
    let parts: Vec<&ckks::Ciphertext> = parts.iter().map(|each| &each.0).collect();
    free(py, || context.0.pack_small(&small.0, &parts)).map(CkksCiphertext)
}
