//! Bindings of what plays on several hosts: rounds of messages, and the dispatch of whole operations.

use numpy::PyReadonlyArray1;
use penstock_sim as sim;
use pyo3::prelude::*;

use crate::{Array, array, detached, slice};

#[pyclass(frozen, get_all, module = "penstock._engine")]
pub struct Dispatched {
    total_s: f64,
    host: Array<i64>,
    start_s: Array<f64>,
    receiving_s: Array<f64>,
    sent_bytes: f64,
}

#[pyfunction]
#[pyo3(signature = (
    hosts, link_bytes_per_s, link_latency_s, route_start, route_link, round_start, source, target, bytes,
    sharing = "equal",
))]
#[allow(clippy::too_many_arguments)] // Flat on purpose: this is the border.
pub fn play_rounds(
    py: Python<'_>,
    hosts: usize,
    link_bytes_per_s: PyReadonlyArray1<'_, f64>,
    link_latency_s: PyReadonlyArray1<'_, f64>,
    route_start: PyReadonlyArray1<'_, i64>,
    route_link: PyReadonlyArray1<'_, i64>,
    round_start: PyReadonlyArray1<'_, i64>,
    source: PyReadonlyArray1<'_, i64>,
    target: PyReadonlyArray1<'_, i64>,
    bytes: PyReadonlyArray1<'_, f64>,
    sharing: &str,
) -> PyResult<Array<f64>> {
    let network = sim::Network {
        hosts,
        link_bytes_per_s: slice(&link_bytes_per_s, "link_bytes_per_s")?,
        link_latency_s: slice(&link_latency_s, "link_latency_s")?,
        route_start: slice(&route_start, "route_start")?,
        route_link: slice(&route_link, "route_link")?,
    };
    let rounds = sim::Rounds {
        round_start: slice(&round_start, "round_start")?,
        source: slice(&source, "source")?,
        target: slice(&target, "target")?,
        bytes: slice(&bytes, "bytes")?,
    };
    let seconds = detached(py, |_| sim::play_rounds(&network, &rounds, sim::Sharing::by_name(sharing)?))?;
    Ok(array(py, seconds))
}

#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn dispatch(
    py: Python<'_>,
    duration_s: PyReadonlyArray1<'_, f64>,
    operand_start: PyReadonlyArray1<'_, i64>,
    operand: PyReadonlyArray1<'_, i64>,
    output: PyReadonlyArray1<'_, i64>,
    object_bytes: PyReadonlyArray1<'_, f64>,
    hosts: usize,
    bytes_per_s: f64,
    latency_s: f64,
) -> PyResult<Dispatched> {
    let program = sim::Program {
        duration_s: slice(&duration_s, "duration_s")?,
        operand_start: slice(&operand_start, "operand_start")?,
        operand: slice(&operand, "operand")?,
        output: slice(&output, "output")?,
        object_bytes: slice(&object_bytes, "object_bytes")?,
    };
    let hosts = sim::Hosts { hosts, bytes_per_s, latency_s };
    let got = detached(py, |_| sim::dispatch(&program, &hosts))?;
    Ok(Dispatched {
        total_s: got.total_s,
        host: array(py, got.host),
        start_s: array(py, got.start_s),
        receiving_s: array(py, got.receiving_s),
        sent_bytes: got.sent_bytes,
    })
}
