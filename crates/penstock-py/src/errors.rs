//! The one place where an error of the engine becomes a Python exception.

use penstock_sim::Error;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pub fn to_python(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Value { .. } | Error::Length { .. } | Error::UnknownPolicy { .. } => PyValueError::new_err(message),
        Error::ClockOverflow { .. } => PyOverflowError::new_err(message),
        Error::Conservation { .. } => PyRuntimeError::new_err(message),
        // Only where the watch stopped a run without an exception of its own.
        Error::Interrupted => PyKeyboardInterrupt::new_err(message),
    }
}

/// `error` for an argument that is no whole, contiguous array.
pub fn not_contiguous(what: &str) -> PyErr {
    PyValueError::new_err(format!("{what} is not contiguous: pass numpy.ascontiguousarray(...)"))
}
