//! Bindings of the list scheduling of kernels on units.

use numpy::PyReadonlyArray1;
use penstock_sim as sim;
use pyo3::prelude::*;

use crate::{Array, array, detached, slice};

#[pyclass(frozen, get_all, module = "penstock._engine")]
pub struct ScheduledKernels {
    total_s: f64,
    start_s: Array<f64>,
    end_s: Array<f64>,
    busy_s: Array<f64>,
    memory_s: f64,
    registers_s: f64,
    critical_s: f64,
    placed_operation: Array<i64>,
    placed_kernel: Array<i64>,
    placed_limb: Array<i64>,
    placed_start_s: Array<f64>,
    placed_end_s: Array<f64>,
}

#[pyfunction]
#[pyo3(signature = (
    kernel_start, unit, limb_s, memory_s, registers_s, flags, limb_start, limb, each_start, each, whole_start, whole,
    held_bytes, shape, source_start, source, ports, latency_s, chaining, capacity_bytes, window, listed = 0,
))]
#[allow(clippy::too_many_arguments)] // Flat on purpose: this is the border.
pub fn schedule_kernels(
    py: Python<'_>,
    kernel_start: PyReadonlyArray1<'_, i64>,
    unit: PyReadonlyArray1<'_, i64>,
    limb_s: PyReadonlyArray1<'_, f64>,
    memory_s: PyReadonlyArray1<'_, f64>,
    registers_s: PyReadonlyArray1<'_, f64>,
    flags: PyReadonlyArray1<'_, i64>,
    limb_start: PyReadonlyArray1<'_, i64>,
    limb: PyReadonlyArray1<'_, i64>,
    each_start: PyReadonlyArray1<'_, i64>,
    each: PyReadonlyArray1<'_, i64>,
    whole_start: PyReadonlyArray1<'_, i64>,
    whole: PyReadonlyArray1<'_, i64>,
    held_bytes: PyReadonlyArray1<'_, f64>,
    shape: PyReadonlyArray1<'_, i64>,
    source_start: PyReadonlyArray1<'_, i64>,
    source: PyReadonlyArray1<'_, i64>,
    ports: PyReadonlyArray1<'_, i64>,
    latency_s: PyReadonlyArray1<'_, f64>,
    chaining: f64,
    capacity_bytes: f64,
    window: i64,
    listed: usize,
) -> PyResult<ScheduledKernels> {
    let kernels = sim::Kernels {
        kernel_start: slice(&kernel_start, "kernel_start")?,
        unit: slice(&unit, "unit")?,
        limb_s: slice(&limb_s, "limb_s")?,
        memory_s: slice(&memory_s, "memory_s")?,
        registers_s: slice(&registers_s, "registers_s")?,
        flags: slice(&flags, "flags")?,
        limb_start: slice(&limb_start, "limb_start")?,
        limb: slice(&limb, "limb")?,
        each_start: slice(&each_start, "each_start")?,
        each: slice(&each, "each")?,
        whole_start: slice(&whole_start, "whole_start")?,
        whole: slice(&whole, "whole")?,
        held_bytes: slice(&held_bytes, "held_bytes")?,
    };
    let operations = sim::Operations {
        shape: slice(&shape, "shape")?,
        source_start: slice(&source_start, "source_start")?,
        source: slice(&source, "source")?,
    };
    let units = sim::Units {
        ports: slice(&ports, "ports")?,
        latency_s: slice(&latency_s, "latency_s")?,
        chaining,
        capacity_bytes,
        window,
    };
    let got = detached(py, |watch| sim::schedule_kernels(&kernels, &operations, &units, listed, watch))?;
    let placed = &got.placed;
    Ok(ScheduledKernels {
        total_s: got.total_s,
        memory_s: got.memory_s,
        registers_s: got.registers_s,
        critical_s: got.critical_s,
        placed_operation: array(py, placed.iter().map(|each| each.operation).collect()),
        placed_kernel: array(py, placed.iter().map(|each| each.kernel).collect()),
        placed_limb: array(py, placed.iter().map(|each| each.limb).collect()),
        placed_start_s: array(py, placed.iter().map(|each| each.start_s).collect()),
        placed_end_s: array(py, placed.iter().map(|each| each.end_s).collect()),
        start_s: array(py, got.start_s),
        end_s: array(py, got.end_s),
        busy_s: array(py, got.busy_s),
    })
}
