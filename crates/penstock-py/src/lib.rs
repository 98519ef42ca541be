//! `penstock._engine`: arrays in, arrays out. All rules live in `penstock-sim`; the signatures and
//! their documentation for Python are in `src/penstock/_engine.pyi`.
//!
//! Arrays are read in place and while other Python threads run, so nobody may write to them during
//! a call (`penstock.scheme.play.hierarchy` passes arrays that are marked read-only).

mod ckks;
mod cluster;
mod errors;
mod export;
mod keys;
mod operations;
mod own;
mod package;
mod program;
mod rows;
#[cfg(target_os = "linux")]
mod sandbox;
mod schedule;
mod small;
mod ssd;
mod stages;
mod store;

use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1};
use penstock_sim as sim;
use pyo3::prelude::*;

use errors::{Arg, Raised, not_contiguous};

/// Runs `work` without the interpreter's lock, and stops it where a signal handler raises (Ctrl-C).
fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut sim::Watch<'_>) -> Result<T, sim::Error> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = py.detach(|| {
        work(&mut || match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(error) => {
                raised = Some(error);
                true
            }
        })
    });
    match raised {
        Some(error) => Err(error),
        None => result.map_err(Raised::raised),
    }
}

fn slice<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>, what: &str) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| not_contiguous::<sim::Error>(what))
}

type Array<T> = Py<PyArray1<T>>;

fn array<T: Element>(py: Python<'_>, values: Vec<T>) -> Array<T> {
    values.into_pyarray(py).unbind()
}

#[derive(FromPyObject)]
enum ObjectIds<'py> {
    Narrow(PyReadonlyArray1<'py, i32>),
    Wide(PyReadonlyArray1<'py, i64>),
}

enum ObjectSlice<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

impl ObjectIds<'_> {
    fn slice(&self) -> PyResult<ObjectSlice<'_>> {
        Ok(match self {
            ObjectIds::Narrow(ids) => ObjectSlice::Narrow(slice(ids, "access_object")?),
            ObjectIds::Wide(ids) => ObjectSlice::Wide(slice(ids, "access_object")?),
        })
    }
}

fn check<'a>(start: &'a [i64], objects: &ObjectSlice<'a>, bytes: &'a [i64]) -> Result<sim::Accesses<'a>, sim::Error> {
    match objects {
        ObjectSlice::Narrow(ids) => sim::Accesses::new(start, ids, bytes),
        ObjectSlice::Wide(ids) => sim::Accesses::from_wide_ids(start, ids, bytes),
    }
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
struct Replay {
    miss_bytes: Array<i64>,
    transfers: Array<i64>,
    access_miss_bytes: Option<Array<i64>>,
    hits: i64,
    misses: i64,
    hit_bytes: i64,
    total_miss_bytes: i64,
    evictions: i64,
    streamed: i64,
    peak_resident_bytes: i64,
}

impl Replay {
    fn new(py: Python<'_>, replay: sim::Replay) -> Self {
        let totals = replay.totals;
        Self {
            miss_bytes: array(py, replay.miss_bytes),
            transfers: array(py, replay.transfers),
            access_miss_bytes: replay.access_miss_bytes.map(|each| array(py, each)),
            hits: totals.hits,
            misses: totals.misses,
            hit_bytes: totals.hit_bytes,
            total_miss_bytes: totals.miss_bytes,
            evictions: totals.evictions,
            streamed: totals.streamed,
            peak_resident_bytes: totals.peak_resident_bytes,
        }
    }
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
struct ForcedReplay {
    miss_bytes: Array<f64>,
    transfers: Array<f64>,
    accesses: i64,
    requested_bytes: i64,
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
struct Schedule {
    io_start_s: Array<f64>,
    io_end_s: Array<f64>,
    decode_start_s: Array<f64>,
    decode_end_s: Array<f64>,
    compute_start_s: Array<f64>,
    compute_end_s: Array<f64>,
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
struct Times {
    compute_s: f64,
    io_s: f64,
    decode_s: f64,
    total_s: f64,
    stall_s: f64,
    schedule: Option<Py<Schedule>>,
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
struct ManyTimes {
    compute_s: Array<f64>,
    io_s: Array<f64>,
    decode_s: Array<f64>,
    total_s: Array<f64>,
    stall_s: Array<f64>,
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
struct Policy {
    name: &'static str,
    summary: &'static str,
    optimal: bool,
    knows_future: bool,
}

#[pyfunction]
fn policies() -> Vec<Policy> {
    let policy = |entry: &sim::policy::PolicyEntry| {
        let &sim::policy::PolicyEntry { name, summary, optimal, knows_future, .. } = entry;
        Policy { name, summary, optimal, knows_future }
    };
    sim::policy::POLICIES.iter().map(policy).collect()
}

#[pyfunction]
#[pyo3(signature = (access_start, access_object, access_bytes, policy, capacity_bytes, detail = false))]
fn replay(
    py: Python<'_>,
    access_start: PyReadonlyArray1<'_, i64>,
    access_object: ObjectIds<'_>,
    access_bytes: PyReadonlyArray1<'_, i64>,
    policy: &str,
    capacity_bytes: i64,
    detail: bool,
) -> PyResult<Replay> {
    let (start, bytes) = (slice(&access_start, "access_start")?, slice(&access_bytes, "access_bytes")?);
    let objects = access_object.slice()?;
    let replay =
        detached(py, |watch| sim::replay(&check(start, &objects, bytes)?, policy, capacity_bytes, detail, watch))?;
    Ok(Replay::new(py, replay))
}

#[pyfunction]
#[pyo3(signature = (access_start, access_object, access_bytes, detail = false))]
fn replay_uncached(
    py: Python<'_>,
    access_start: PyReadonlyArray1<'_, i64>,
    access_object: ObjectIds<'_>,
    access_bytes: PyReadonlyArray1<'_, i64>,
    detail: bool,
) -> PyResult<Replay> {
    let (start, bytes) = (slice(&access_start, "access_start")?, slice(&access_bytes, "access_bytes")?);
    let objects = access_object.slice()?;
    let replay = detached(py, |_| Ok(sim::replay_uncached(&check(start, &objects, bytes)?, detail)))?;
    Ok(Replay::new(py, replay))
}

#[pyfunction]
fn replay_forced(
    py: Python<'_>,
    access_start: PyReadonlyArray1<'_, i64>,
    access_bytes: PyReadonlyArray1<'_, i64>,
    hit_ratio: f64,
) -> PyResult<ForcedReplay> {
    let (start, bytes) = (slice(&access_start, "access_start")?, slice(&access_bytes, "access_bytes")?);
    let replay = detached(py, |_| sim::replay_forced(start, bytes, hit_ratio))?;
    Ok(ForcedReplay {
        miss_bytes: array(py, replay.miss_bytes),
        transfers: array(py, replay.transfers),
        accesses: replay.accesses,
        requested_bytes: replay.requested_bytes,
    })
}

#[pyfunction]
#[pyo3(signature = (
    compute_s, io_bytes, transfers, bandwidth_bytes_per_s, latency_s, decode_bytes_per_s, mode, prefetch_depth,
    timeline = false,
))]
#[allow(clippy::too_many_arguments)] // Flat on purpose: this is the border.
fn play_time(
    py: Python<'_>,
    compute_s: PyReadonlyArray1<'_, f64>,
    io_bytes: PyReadonlyArray1<'_, f64>,
    transfers: PyReadonlyArray1<'_, f64>,
    bandwidth_bytes_per_s: Arg<f64>,
    latency_s: Arg<f64>,
    decode_bytes_per_s: Arg<f64>,
    mode: &str,
    prefetch_depth: Arg<i64>,
    timeline: bool,
) -> PyResult<Times> {
    let (compute_s, io_bytes) = (slice(&compute_s, "compute_s")?, slice(&io_bytes, "io_bytes")?);
    let transfers = slice(&transfers, "transfers")?;
    let tier = sim::Tier {
        bandwidth_bytes_per_s: bandwidth_bytes_per_s.of::<sim::Error>("bandwidth_bytes_per_s")?,
        latency_s: latency_s.of::<sim::Error>("latency_s")?,
        decode_bytes_per_s: decode_bytes_per_s.of::<sim::Error>("decode_bytes_per_s")?,
    };
    let prefetch_depth = prefetch_depth.of::<sim::Error>("prefetch_depth")?;
    let (totals, schedule) = detached(py, |watch| {
        let mode = sim::Mode::by_name(mode, prefetch_depth)?;
        let work = sim::Work::new(compute_s, io_bytes, transfers)?;
        if timeline {
            work.play_schedule(&tier, mode, watch).map(|(totals, schedule)| (totals, Some(schedule)))
        } else {
            work.play(&tier, mode, watch).map(|totals| (totals, None))
        }
    })?;
    let schedule = schedule
        .map(|schedule| {
            let schedule = Schedule {
                io_start_s: array(py, schedule.io_start_s),
                io_end_s: array(py, schedule.io_end_s),
                decode_start_s: array(py, schedule.decode_start_s),
                decode_end_s: array(py, schedule.decode_end_s),
                compute_start_s: array(py, schedule.compute_start_s),
                compute_end_s: array(py, schedule.compute_end_s),
            };
            Py::new(py, schedule)
        })
        .transpose()?;
    Ok(Times {
        compute_s: totals.compute_s,
        io_s: totals.io_s,
        decode_s: totals.decode_s,
        total_s: totals.total_s,
        stall_s: totals.stall_s,
        schedule,
    })
}

#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn play_time_many(
    py: Python<'_>,
    compute_s: PyReadonlyArray1<'_, f64>,
    io_bytes: PyReadonlyArray1<'_, f64>,
    transfers: PyReadonlyArray1<'_, f64>,
    bandwidth_bytes_per_s: Arg<Vec<f64>>,
    latency_s: Arg<Vec<f64>>,
    decode_bytes_per_s: Arg<Vec<f64>>,
    mode: Vec<String>,
    prefetch_depth: Arg<Vec<i64>>,
) -> PyResult<ManyTimes> {
    let (compute_s, io_bytes) = (slice(&compute_s, "compute_s")?, slice(&io_bytes, "io_bytes")?);
    let transfers = slice(&transfers, "transfers")?;
    let bandwidth_bytes_per_s = bandwidth_bytes_per_s.of::<sim::Error>("bandwidth_bytes_per_s")?;
    let latency_s = latency_s.of::<sim::Error>("latency_s")?;
    let decode_bytes_per_s = decode_bytes_per_s.of::<sim::Error>("decode_bytes_per_s")?;
    let prefetch_depth = prefetch_depth.of::<sim::Error>("prefetch_depth")?;
    let expected = bandwidth_bytes_per_s.len();
    for (what, got) in [
        ("latency_s", latency_s.len()),
        ("decode_bytes_per_s", decode_bytes_per_s.len()),
        ("mode", mode.len()),
        ("prefetch_depth", prefetch_depth.len()),
    ] {
        if got != expected {
            let rule = "one element for each of bandwidth_bytes_per_s";
            return Err(sim::Error::Length { what, got, expected, rule }.raised());
        }
    }
    let totals = detached(py, |watch| {
        let work = sim::Work::new(compute_s, io_bytes, transfers)?;
        (0..expected)
            .map(|i| {
                let tier = sim::Tier {
                    bandwidth_bytes_per_s: bandwidth_bytes_per_s[i],
                    latency_s: latency_s[i],
                    decode_bytes_per_s: decode_bytes_per_s[i],
                };
                work.play(&tier, sim::Mode::by_name(&mode[i], prefetch_depth[i])?, watch)
            })
            .collect::<Result<Vec<_>, _>>()
    })?;
    let column = |of: fn(&sim::TimeTotals) -> f64| array(py, totals.iter().map(of).collect());
    Ok(ManyTimes {
        compute_s: column(|t| t.compute_s),
        io_s: column(|t| t.io_s),
        decode_s: column(|t| t.decode_s),
        total_s: column(|t| t.total_s),
        stall_s: column(|t| t.stall_s),
    })
}

/// The engine of penstock.
#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::{
        ForcedReplay, ManyTimes, Policy, Replay, Schedule, Times, play_time, play_time_many, policies, replay,
        replay_forced, replay_uncached,
    };

    #[pymodule_export]
    use super::own::{Uses, replay_asked, replay_priorities, uses};

    #[pymodule_export]
    use super::stages::{StageTimes, play_stages};

    #[pymodule_export]
    use super::schedule::{ScheduledKernels, schedule_kernels};

    #[pymodule_export]
    use super::ssd::{DriveLatency, DriveRun, play_drive};

    #[pymodule_export]
    use super::cluster::{Dispatched, dispatch, play_rounds};

    #[pymodule_export]
    use super::ckks::{
        CkksCiphertext, CkksCoefficients, CkksContext, CkksDigits, CkksExtended, CkksPlaintext, CkksWriter,
        ckks_ciphertext_tag, ckks_describe_keys, ckks_paths,
    };

    #[pymodule_export]
    use super::keys::CkksKey;
    #[pymodule_export]
    use super::program::CkksProgram;

    #[pymodule_export]
    use super::rows::{ckks_ciphertext, ckks_key_rows, ckks_key_words};
    #[pymodule_export]
    use super::small::{ckks_inner_products, ckks_pack_small, ckks_row_checksum, ckks_seeded_polynomial};

    #[pymodule_export]
    #[pymodule_export]
    use super::export::export_openfhe_keys;

    #[pymodule_export]
    use super::operations::{key_kinds, operations};
    #[pymodule_export]
    use super::package::{PackageColumns, PackageReader, PackageWriter, package_limits};

    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::sandbox::{
        sandbox_become_user, sandbox_confine_to, sandbox_filter, sandbox_has_landlock, sandbox_no_new_privileges,
    };

    #[pymodule_export]
    use super::store::{KeyCache, KeyPlan, KeySession, KeyStore, check_tenant, key_digest};

    /// The version of the engine, which the package compares with its own.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
