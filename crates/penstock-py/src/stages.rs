//! Bindings of what plays time through any number of stages.

use numpy::PyReadonlyArray1;
use penstock_sim as sim;
use pyo3::prelude::*;

use crate::errors::Arg;
use crate::{Array, array, detached, slice};

#[pyclass(frozen, get_all, module = "penstock._engine")]
pub struct StageTimes {
    busy_s: Vec<f64>,
    idle_s: Vec<f64>,
    total_s: f64,
    oversized: i64,
    start_s: Option<Vec<Array<f64>>>,
    end_s: Option<Vec<Array<f64>>>,
}

#[pyfunction]
#[pyo3(signature = (
    stages_s, held_bytes, mode, prefetch_depth = None, prefetch_buffer_bytes = None, timeline = false,
    prefetch_depths = None,
))]
#[allow(clippy::too_many_arguments)]
pub fn play_stages(
    py: Python<'_>,
    stages_s: Vec<PyReadonlyArray1<'_, f64>>,
    held_bytes: PyReadonlyArray1<'_, f64>,
    mode: &str,
    prefetch_depth: Option<Arg<i64>>,
    prefetch_buffer_bytes: Option<Arg<f64>>,
    timeline: bool,
    prefetch_depths: Option<PyReadonlyArray1<'_, i64>>,
) -> PyResult<StageTimes> {
    let stages = stages_s.iter().map(|stage| slice(stage, "stages_s")).collect::<PyResult<Vec<_>>>()?;
    let held_bytes = slice(&held_bytes, "held_bytes")?;
    let prefetch_depth = Arg::optional::<sim::Error>(prefetch_depth, "prefetch_depth")?;
    let prefetch_buffer_bytes = Arg::optional::<sim::Error>(prefetch_buffer_bytes, "prefetch_buffer_bytes")?;
    let depths = prefetch_depths.as_ref().map(|each| slice(each, "prefetch_depths")).transpose()?;
    let totals = detached(py, |watch| {
        let mode = sim::StageMode::by_name(mode, prefetch_depth, prefetch_buffer_bytes, depths)?;
        sim::play_stages(&stages, held_bytes, mode, timeline, watch)
    })?;
    let (start_s, end_s) = match totals.schedule {
        None => (None, None),
        Some(schedule) => {
            let (starts, ends): (Vec<_>, Vec<_>) =
                schedule.into_iter().map(|stage| (array(py, stage.start_s), array(py, stage.end_s))).unzip();
            (Some(starts), Some(ends))
        }
    };
    Ok(StageTimes {
        busy_s: totals.busy_s,
        idle_s: totals.idle_s,
        total_s: totals.total_s,
        oversized: totals.oversized,
        start_s,
        end_s,
    })
}
