//! Evaluation keys as operations take them. Documented in `src/penstock/_engine.pyi`.

use std::sync::Arc;

use penstock_ckks as ckks;
use pyo3::prelude::*;

use crate::store::PinnedKey;

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksKey(pub(crate) ckks::KeyRows);

#[pyclass(frozen, module = "penstock._engine")]
pub struct CkksKeyRows(pub(crate) ckks::KeyAtLimbs);

/// A key as an operation takes it: whole in memory, the rows of a store that are in use, or rows from elsewhere.
#[derive(FromPyObject)]
pub enum KeyIn<'py> {
    Whole(PyRef<'py, CkksKey>),
    Pinned(PyRef<'py, PinnedKey>),
    AtLimbs(PyRef<'py, CkksKeyRows>),
}

/// The rows behind a [`KeyIn`], usable without the interpreter's lock.
pub(crate) enum Rows<'a> {
    Whole(&'a ckks::KeyRows),
    Pinned(Arc<penstock_store::PinnedKey>),
    AtLimbs(&'a ckks::KeyAtLimbs),
}

impl KeyIn<'_> {
    pub(crate) fn rows(&self) -> PyResult<Rows<'_>> {
        match self {
            Self::Whole(key) => Ok(Rows::Whole(&key.0)),
            Self::Pinned(key) => key.key().map(Rows::Pinned),
            Self::AtLimbs(key) => Ok(Rows::AtLimbs(&key.0)),
        }
    }
}

impl Rows<'_> {
    pub(crate) fn view(&self) -> &dyn ckks::KeyView {
        match self {
            Self::Whole(key) => *key,
            Self::Pinned(key) => key.as_ref(),
            Self::AtLimbs(key) => *key,
        }
    }
}
