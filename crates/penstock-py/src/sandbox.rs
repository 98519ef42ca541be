//! Bindings of the measures that bound a process. Documented in `src/penstock/_engine.pyi`.

use std::path::PathBuf;

use penstock_sandbox::{self as sandbox, Folders, Kind};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

fn raised(error: sandbox::Error) -> PyErr {
    PyOSError::new_err(error.to_string())
}

#[pyfunction]
pub fn sandbox_has_landlock() -> bool {
    sandbox::has_landlock()
}

#[pyfunction]
pub fn sandbox_no_new_privileges() -> PyResult<()> {
    sandbox::no_new_privileges().map_err(raised)
}

#[pyfunction]
#[pyo3(signature = (*, readable, listed, writable))]
pub fn sandbox_confine_to(readable: Vec<PathBuf>, listed: Vec<PathBuf>, writable: Vec<PathBuf>) -> PyResult<u32> {
    sandbox::confine_to(&Folders { readable, listed, writable }).map_err(raised)
}

#[pyfunction]
pub fn sandbox_become_user(user: u32, group: u32) -> PyResult<()> {
    sandbox::become_user(user, group).map_err(raised)
}

#[pyfunction]
#[pyo3(signature = (*, is_examining))]
pub fn sandbox_filter(is_examining: bool) -> PyResult<usize> {
    sandbox::filter(if is_examining { Kind::Examining } else { Kind::Computing }).map_err(raised)
}
