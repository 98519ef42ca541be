//! The table of operations, for Python. Documented in `src/penstock/_engine.pyi`.

use penstock_ckks::Error;
use penstock_operations::{Actor, Argument, KeyKind, MANY, Operation};
use penstock_run::Task;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Raised;

/// A row for each operation.
#[pyfunction]
pub fn operations(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let count = |count: u32| if count == MANY { -1 } else { i64::from(count) };
    let described = |operation: &Operation| {
        let (row, found) = (operation.row(), PyDict::new(py));
        let actor = match row.actor {
            Actor::Client => "client",
            Actor::Server => "server",
            Actor::Library => "library",
        };
        found.set_item("name", operation.name())?;
        found.set_item("code", row.code)?;
        found.set_item("is_traced", row.is_traced)?;
        found.set_item("is_work", row.is_work)?;
        found.set_item("actor", actor)?;
        found.set_item("key", row.key.map(KeyKind::name))?;
        found.set_item("takes", row.takes.iter().map(|class| class.name()).collect::<Vec<_>>())?;
        found.set_item("operands", count(row.operands()))?;
        found.set_item("makes", row.makes.map(|class| class.name()))?;
        found.set_item("results", count(row.results))?;
        found.set_item("constants", count(row.constants))?;
        found.set_item("numbers", count(row.numbers))?;
        found.set_item("argument", Argument::name(row.argument))?;
        found.set_item("is_product", row.is_product)?;
        found.set_item("is_complex", row.is_complex)?;
        found.set_item("description", row.doc)?;
        Ok(found)
    };
    Operation::ALL.iter().map(described).collect()
}

/// `(name, one for each Galois element, to the ephemeral secret)` of each kind of evaluation key.
#[pyfunction]
pub fn key_kinds() -> Vec<(&'static str, bool, bool)> {
    KeyKind::ALL.iter().map(|kind| (kind.name(), kind.is_of_element(), kind.is_ephemeral())).collect()
}

/// A task of no program: its operands are at hand.
pub(crate) fn task(work: &str, argument: u64, numbers: Vec<f64>) -> PyResult<Task> {
    let operation = Operation::named(work).filter(|operation| operation.row().is_work);
    let operation = operation.ok_or_else(|| Error::refused(format!("there is no work '{work}'")))?;
    Ok(Task {
        operation,
        argument,
        numbers: numbers.into(),
        operands: Box::default(),
        first_result: 0,
        results: 0,
        key: None,
        vectors: Box::default(),
    })
}
