//! The one place where errors become Python exceptions: each kind raises its class of `penstock.errors`.

use std::convert::Infallible;

use penstock_ckks as ckks;
use penstock_package as package;
use penstock_sim as sim;
use penstock_store as store;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(penstock.errors, BudgetTooSmall);
import_exception!(penstock.errors, ClockOverflow);
import_exception!(penstock.errors, ConservationError);
import_exception!(penstock.errors, EvaluationRefused);
import_exception!(penstock.errors, KeyDamaged);
import_exception!(penstock.errors, KeyMissing);
import_exception!(penstock.errors, KeyRefused);
import_exception!(penstock.errors, ParamsError);
import_exception!(penstock.errors, SimulationInputError);
import_exception!(penstock.errors, StoreUnusable);
import_exception!(penstock.errors, UsageError);
import_exception!(penstock.program.package.content, PackageError);

/// Characters of a refused argument that a message repeats.
const SHOWN: usize = 60;

/// An error of a crate, as users see it.
pub trait Raised: Sized {
    /// The exception of this kind of error.
    fn raised(self) -> PyErr;

    /// The exception of an argument that breaks a rule before the crate sees it.
    fn refused(message: String) -> PyErr;
}

impl Raised for sim::Error {
    fn raised(self) -> PyErr {
        use sim::Error as E;
        let message = self.to_string();
        match self {
            E::Value { .. } | E::Length { .. } | E::UnknownPolicy { .. } => Self::refused(message),
            E::ClockOverflow { .. } => ClockOverflow::new_err(message),
            E::Conservation { .. } => ConservationError::new_err(message),
            // Only if the watch stopped a run that raised no exception itself.
            E::Interrupted => PyKeyboardInterrupt::new_err(message),
        }
    }

    fn refused(message: String) -> PyErr {
        SimulationInputError::new_err(message)
    }
}

impl Raised for store::Error {
    fn raised(self) -> PyErr {
        use store::Error as E;
        let message = self.to_string();
        match self {
            E::Missing { .. } => KeyMissing::new_err(message),
            E::Budget { .. } => BudgetTooSmall::new_err(message),
            E::Segment(store::SegmentError::Io { .. }) | E::Index { .. } | E::ReadOnly { .. } | E::Forked { .. } => {
                StoreUnusable::new_err(message)
            }
            error if error.is_damage() => KeyDamaged::new_err(message),
            _ => Self::refused(message),
        }
    }

    fn refused(message: String) -> PyErr {
        KeyRefused::new_err(message)
    }
}

impl Raised for store::SegmentError {
    fn raised(self) -> PyErr {
        store::Error::from(self).raised()
    }

    fn refused(message: String) -> PyErr {
        store::Error::refused(message)
    }
}

impl Raised for ckks::Error {
    fn raised(self) -> PyErr {
        use ckks::Error as E;
        let message = self.to_string();
        match self {
            E::Parameters { .. } => ParamsError::new_err(message),
            E::Cpu { .. } => UsageError::new_err(message),
            E::System { .. } => {
                let remedy = "free some, raise the limit ('ulimit -v'), or take a smaller program";
                EvaluationRefused::new_err(format!(
                    "the system has no memory for the native evaluator: {message}; {remedy}"
                ))
            }
            _ => Self::refused(message),
        }
    }

    fn refused(message: String) -> PyErr {
        EvaluationRefused::new_err(format!("the native evaluator refuses: {message}"))
    }
}

impl Raised for package::Error {
    fn raised(self) -> PyErr {
        match self {
            // `penstock.base.system.files.os_errors` says its remedy.
            package::Error::Io { path, source, .. } if source.raw_os_error().is_some() => {
                PyOSError::new_err((source.raw_os_error(), source.to_string(), path))
            }
            error => Self::refused(error.to_string()),
        }
    }

    fn refused(message: String) -> PyErr {
        PackageError::new_err(message)
    }
}

/// Works without the interpreter's lock.
pub fn free<T: Send, E: Raised + Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, E> + Send) -> PyResult<T> {
    py.detach(work).map_err(E::raised)
}

/// The exception for an argument that is not a whole, contiguous array.
pub fn not_contiguous<E: Raised>(what: &str) -> PyErr {
    E::refused(format!("{what} is not contiguous: pass numpy.ascontiguousarray(...)"))
}

/// An argument of a wrong type: a negative count, a number with a fraction, a text that is not Unicode. [`Arg::of`]
/// says its name.
pub struct Arg<T>(Result<T, String>);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Arg<T> {
    type Error = Infallible;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Self(given.extract::<T>().map_err(|error| {
            let error: PyErr = error.into();
            let shown: String = given.repr().map(|text| text.to_string()).unwrap_or_default();
            format!("{:.SHOWN$}: {}", shown, error.value(given.py()))
        })))
    }
}

impl<T> Arg<T> {
    /// The value, or the exception of the crate that it is for.
    pub fn of<E: Raised>(self, name: &str) -> PyResult<T> {
        self.0.map_err(|why| E::refused(format!("{name} is {why}")))
    }

    /// The value of an argument that may be left out.
    pub fn optional<E: Raised>(given: Option<Self>, name: &str) -> PyResult<Option<T>> {
        given.map(|given| given.of::<E>(name)).transpose()
    }
}
