//! Bindings of policies that are a user's own: priorities as an array, or an object of Python that answers each call.

use numpy::PyReadonlyArray1;
use penstock_sim as sim;
use penstock_sim::policy::{Fate, Policy};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::Raised;
use crate::{Array, ObjectIds, Replay, array, check, detached, slice};

#[pyclass(frozen, get_all, module = "penstock._engine")]
pub(crate) struct Uses {
    next: Array<i64>,
    last: Array<i64>,
    count: Array<i64>,
}

#[pyfunction]
pub(crate) fn uses(
    py: Python<'_>,
    access_start: PyReadonlyArray1<'_, i64>,
    access_object: ObjectIds<'_>,
    access_bytes: PyReadonlyArray1<'_, i64>,
) -> PyResult<Uses> {
    let (start, bytes) = (slice(&access_start, "access_start")?, slice(&access_bytes, "access_bytes")?);
    let objects = access_object.slice()?;
    let found = detached(py, |_| Ok(sim::uses(&check(start, &objects, bytes)?)))?;
    Ok(Uses { next: array(py, found.next), last: array(py, found.last), count: array(py, found.count) })
}

#[pyfunction]
#[pyo3(signature = (
    access_start, access_object, access_bytes, priorities, capacity_bytes, on_hit = true, bypass = false, aging = false,
    detail = false,
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn replay_priorities(
    py: Python<'_>,
    access_start: PyReadonlyArray1<'_, i64>,
    access_object: ObjectIds<'_>,
    access_bytes: PyReadonlyArray1<'_, i64>,
    priorities: PyReadonlyArray1<'_, f64>,
    capacity_bytes: i64,
    on_hit: bool,
    bypass: bool,
    aging: bool,
    detail: bool,
) -> PyResult<Replay> {
    let (start, bytes) = (slice(&access_start, "access_start")?, slice(&access_bytes, "access_bytes")?);
    let objects = access_object.slice()?;
    let own = sim::Priorities { values: slice(&priorities, "priorities")?, on_hit, bypass, aging };
    let replay = detached(py, |watch| {
        sim::replay_priorities(&check(start, &objects, bytes)?, own, capacity_bytes, detail, watch)
    })?;
    Ok(Replay::new(py, replay))
}

/// A policy whose answers an object of Python gives. After its first exception it is not asked again.
struct Asked<'a, 'py> {
    policy: &'a Bound<'py, PyAny>,
    raised: &'a mut Option<PyErr>,
}

impl Asked<'_, '_> {
    fn answer<T>(&mut self, asked: PyResult<T>) -> Option<T> {
        match asked {
            Ok(answer) => Some(answer),
            Err(error) => {
                *self.raised = Some(error);
                None
            }
        }
    }
}

impl Policy for Asked<'_, '_> {
    fn touch(&mut self, object: u32, at: u32) -> Fate {
        if self.raised.is_some() {
            return Fate::Keep;
        }
        let name = intern!(self.policy.py(), "touch");
        let kept = self.policy.call_method1(name, (object, at)).and_then(|kept| kept.extract::<bool>());
        if self.answer(kept) == Some(false) { Fate::Release } else { Fate::Keep }
    }

    fn admits(&mut self, object: u32, at: u32) -> bool {
        if self.raised.is_some() {
            return false;
        }
        let name = intern!(self.policy.py(), "admits");
        let admitted = self.policy.call_method1(name, (object, at)).and_then(|admitted| admitted.extract::<bool>());
        self.answer(admitted).unwrap_or(false)
    }

    fn make_room(&mut self, object: u32, at: u32, needed: u64, _resident: &[u64], victims: &mut Vec<u32>) -> bool {
        if self.raised.is_some() {
            return false;
        }
        let name = intern!(self.policy.py(), "make_room");
        let chosen = self.policy.call_method1(name, (object, at, needed));
        match self.answer(chosen.and_then(|chosen| chosen.extract::<Option<Vec<u32>>>())).flatten() {
            Some(chosen) => {
                victims.extend(chosen);
                true
            }
            None => false,
        }
    }

    fn insert(&mut self, object: u32, at: u32, bytes: u64) {
        if self.raised.is_none() {
            let name = intern!(self.policy.py(), "insert");
            let told = self.policy.call_method1(name, (object, at, bytes));
            self.answer(told);
        }
    }

    fn grow(&mut self, object: u32, more: u64) {
        if self.raised.is_none() {
            let name = intern!(self.policy.py(), "grow");
            let told = self.policy.call_method1(name, (object, more));
            self.answer(told);
        }
    }
}

#[pyfunction]
#[pyo3(signature = (access_start, access_object, access_bytes, policy, capacity_bytes, detail = false))]
pub(crate) fn replay_asked(
    py: Python<'_>,
    access_start: PyReadonlyArray1<'_, i64>,
    access_object: ObjectIds<'_>,
    access_bytes: PyReadonlyArray1<'_, i64>,
    policy: &Bound<'_, PyAny>,
    capacity_bytes: i64,
    detail: bool,
) -> PyResult<Replay> {
    let (start, bytes) = (slice(&access_start, "access_start")?, slice(&access_bytes, "access_bytes")?);
    let objects = access_object.slice()?;
    let mut raised = None;
    // Its answers need the interpreter's lock, and see signals.
    let accesses = check(start, &objects, bytes).map_err(Raised::raised)?;
    let asked = Asked { policy, raised: &mut raised };
    let replay = sim::replay_under(&accesses, asked, capacity_bytes, detail, &mut || false);
    match raised {
        Some(error) => Err(error),
        None => Ok(Replay::new(py, replay.map_err(Raised::raised)?)),
    }
}
