"""Measurements from our own results and from Google Benchmark's JSON; what is wrong is named by file and row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import CapabilityMissing, MachineError, ParamsError, PenstockError, UsageError
from penstock.lab.fit.measurements import Measurement
from penstock.lab.measure import energy
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.results import BENCH_SCHEMA, SCHEMA_VERSION, load_results, table_of, to_google_benchmark
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.prediction.importers import BadTiming, ImportLog, Origin, load, load_all, newest_results
from penstock.lab.prediction.importers.bench import parameters_of
from penstock.scheme.params import catalogue
from penstock.scheme.work.shapes import Shape
from support.bench_rows import folder_of, points_of, rows_of

POINTS = points_of()


def by_item(found: list[Measurement], item: str, threads: int = 1) -> list[Measurement]:
    return [each for each in found if each.item == item and each.threads == threads]


# Our own results.


def test_the_parameter_sets_of_a_results_file_are_those_that_were_measured(tmp_path: Path) -> None:
    programs = points_of('[[workloads]]\nworkload = "resnet20"\nthreads = 1')  # with a bootstrap plan
    rows = rows_of(POINTS + programs)
    pq.write_table(table_of(rows), tmp_path / "a.parquet")
    stored = load_results(tmp_path / "a.parquet").to_pylist()
    assert [parameters_of(row) for row in stored] == [p.params for p in POINTS + programs for _ in range(p.runs)]
    for row, point in zip(stored[::3], POINTS, strict=False):
        params = point.params
        assert (tuple(row["q_bits"]), tuple(row["p_bits"])) == (params.q_bits, params.p_bits)
        assert (row["first_mod_bits"], row["digit_limbs"]) == (params.first_mod_bits, params.digit_limbs)


def test_a_point_is_one_measurement_with_the_median_and_spread_of_its_runs(tmp_path: Path) -> None:
    found = load(folder_of(tmp_path / "run", rows_of(POINTS, joules_per_call=0.5)))
    assert len(found) == len(POINTS)
    assert {(each.seconds, each.spread, each.joules, each.runs) for each in found} == {(2e-3, 1.0, 0.5, 3)}
    assert found[1].source == f"{tmp_path / 'run'}: row 4"


def test_a_disturbed_call_moves_the_mean_of_a_run_and_not_its_median(tmp_path: Path) -> None:
    rows = rows_of(POINTS[:1])
    for row in rows:
        row["samples_s"] = [1e-3, 1e-3, 50e-3]
    assert load(folder_of(tmp_path / "run", rows))[0].seconds == 1e-3
    for row in rows:
        row["samples_s"] = []
    assert load(folder_of(tmp_path / "mean", rows))[0].seconds == 2e-3


def test_shapes_are_those_of_operations_by_themselves_and_composites_have_none(tmp_path: Path) -> None:
    found = load(folder_of(tmp_path / "run", rows_of(POINTS)))
    assert {each.shape for each in by_item(found, "rescale")} == {
        Shape("rescale", limbs, limbs - 1, 0, 0, 2) for limbs in (7, 2)
    }
    assert {each.shape.polynomials for each in by_item(found, "relinearize", 2) if each.shape} == {3}
    assert {each.shape for each in by_item(found, "encode")} == {None}
    assert {(each.shape, each.degree) for each in by_item(found, "chebyshev_series")} == {(None, 13)}


def test_cold_calls_are_measurements_of_their_own(tmp_path: Path) -> None:
    point = next(point for point in POINTS if point.item == "rescale")
    warm, cold = load(folder_of(tmp_path / "run", rows_of([point, replace(point, condition="cold")])))
    assert (warm.condition, cold.condition) == ("warm", "cold")
    assert (warm.shape, warm.params, warm.limbs) == (cold.shape, cold.params, warm.shape.limbs_in if warm.shape else 0)


def test_the_wall_time_of_a_program_leaves_out_what_it_waits_for_keys(tmp_path: Path) -> None:
    points = points_of('[[workloads]]\nworkload = "inner-product"\nthreads = 1\nruns = 1')
    note = json.dumps({"server_s": 1e-3, "key_load_s": 0.5e-3})
    (found,) = load(folder_of(tmp_path / "run", rows_of(points, note=note, seconds_per_call=2e-3)))
    assert (found.seconds, found.wall_s, found.whole) == (1e-3, pytest.approx(1.5e-3), False)
    assert found.as_whole().seconds == pytest.approx(1.5e-3)
    with pytest.raises(MachineError, match="measure the program again"):
        replace(found, wall_s=None).as_whole()


def test_parts_of_an_unfinished_run_are_read(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    for point in POINTS[:2]:
        pq.write_table(table_of(rows_of([point])), tmp_path / "bench" / f"{point.key}.parquet")
    assert len(load(tmp_path)) == 2


def test_what_no_machine_is_fitted_to_is_left_out_with_its_reason(tmp_path: Path) -> None:
    log = ImportLog()
    rows = (
        rows_of(POINTS[:1]) + rows_of([replace(POINTS[1], condition="cold-keys")]) + rows_of(POINTS[2:3], passed=False)
    )
    rows += rows_of([replace(POINTS[3], across=2)])
    rows += rows_of(points_of('[[workloads]]\nworkload = "inner-product"\nthreads = 1\nruns = 3'), note="{}")
    assert len(load(folder_of(tmp_path / "run", rows), log=log)) == 1
    assert sorted(log.left_out.values()) == [3, 3, 3, 3]
    assert not log.bad


OLD = ("first_mod_bits", "q_bits", "p_bits", "digit_limbs", "parameters", "joules_per_call", "started_s")


def old_file(path: Path, points: list[BenchPoint], **more: Any) -> Path:
    """As the first format had it."""
    table = table_of(rows_of(points, **more)).drop_columns(list(OLD)).replace_schema_metadata({})
    pq.write_table(table, path)
    return path


def test_results_of_the_first_format_are_read_where_the_set_can_be_made_again(tmp_path: Path) -> None:
    named = points_of('[[primitives]]\nitems = "rotate"\nparams = "insecure-ci"')
    found = load(old_file(tmp_path / "old.parquet", POINTS + named))
    assert [each.params for each in found] == [point.params for point in POINTS + named]
    assert found[-1].params == catalogue.get("insecure-ci")


@pytest.mark.parametrize("changed", [{"params": "mine"}, {"scale_bits": 45}])
def test_results_of_the_first_format_whose_set_is_lost_say_measure_again(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    with pytest.raises(BadTiming, match=r"old\.parquet: row 1: .*measure again"):
        load(old_file(tmp_path / "old.parquet", POINTS[:1], **changed))


def test_a_set_that_contradicts_its_columns_is_refused() -> None:
    row = {**rows_of(POINTS[:1])[0], "ring_dim": 8192}
    with pytest.raises(ParamsError, match="the row says 8192"):
        parameters_of(row)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    table = table_of(rows_of(POINTS[:1]))
    newer = table.replace_schema_metadata({b"penstock_bench_schema": str(SCHEMA_VERSION + 1)})
    pq.write_table(newer, tmp_path / "new.parquet")
    with pytest.raises(PenstockError, match="newer penstock"):
        load(tmp_path / "new.parquet")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seconds_per_call": -1e-3, "samples_s": [-1e-3]}, "more than zero"),
        ({"seconds_per_call": 0.0, "samples_s": []}, "more than zero"),
        ({"seconds_per_call": float("nan"), "samples_s": []}, "finite"),
        ({"samples_s": [float("inf")]}, "finite"),
        ({"samples_s": [1e-3, -1e-3, 1e-3]}, "holds a call that is 0, negative or no number"),
        ({"depth": 9}, "has depth .*, and the row says 9"),
        ({"joules_per_call": -1.0}, "not negative"),
        ({"run": 0}, "duplicated row"),
        ({"item": "rotat"}, "did you mean 'rotate'"),
        ({"group": "primitive"}, "unknown group"),
        ({"limbs": 99}, "from 1 to 7"),
        ({"limbs": 0}, "from 1 to 7"),
        ({"limbs": None}, "limbs of '.*' is missing"),
        ({"condition": "hot"}, "unknown condition 'hot'"),
        ({"samples_s": [2.0, 2.0]}, "in another unit"),
        ({"samples_s": [2e-6, 2e-6]}, "in another unit"),
        ({"total_s": 4e3}, "in another unit"),
        ({"calls": 0}, "calls is 0"),
        ({"parameters": "{}"}, "malformed"),
        ({"parameters": "[1"}, "no parameter set"),
    ],
)
def test_a_bad_row_is_named_and_can_be_skipped(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    rows = rows_of(POINTS[:2])
    rows[4] |= changed
    path = folder_of(tmp_path / "run", rows)
    with pytest.raises(BadTiming, match=rf"run: row [45]: .*{said}"):
        load(path)
    log = ImportLog(skip_bad=True)
    assert load(path, log=log)
    assert len(log.bad) == 1


def test_a_column_that_every_row_needs_is_not_empty(tmp_path: Path) -> None:
    table = table_of(rows_of(POINTS[:2]))
    threads = [None if row == 4 else 1 for row in range(table.num_rows)]
    table = table.set_column(table.column_names.index("threads"), "threads", pa.array(threads, pa.int32()))
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(BadTiming, match=r"a\.parquet: row 5: column 'threads' is empty"):
        load(tmp_path / "a.parquet")


def test_columns_that_are_not_known_are_named_and_means_are_said_to_be_used(tmp_path: Path) -> None:
    table = table_of(rows_of(POINTS[:2]))
    renamed = [{"samples_s": "sample_s"}.get(name, name) for name in table.column_names]
    pq.write_table(table.rename_columns(renamed), tmp_path / "a.parquet")
    with pytest.raises(PenstockError, match=r"a\.parquet: unknown column 'sample_s': did you mean 'samples_s'"):
        load(tmp_path / "a.parquet")
    pq.write_table(table.drop_columns(["samples_s"]), tmp_path / "b.parquet")
    log = ImportLog()
    assert {m.quiet_s for m in load(tmp_path / "b.parquet", log=log)} == {None}
    assert ["6 runs of primitives keep no single calls" in text for text in log.warnings] == [True]


def test_results_of_two_cpus_are_no_machine_and_what_a_run_says_of_itself_is_kept(tmp_path: Path) -> None:
    def run(name: str, **stated: Any) -> Path:
        folder = folder_of(tmp_path / name, rows_of(POINTS, lambda point, number: len(name) * 1e-3))
        record = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(record | stated))
        return folder

    a = run("a", host={"cpu_model": "EPYC"}, openfhe_version="1.6.1", noise={"during_spread": 0.25}, started="today")
    bb, ccc = run("bb", host={"cpu_model": "Xeon"}), run("ccc", host={})
    log = ImportLog()
    load_all([a, ccc], log=log)
    assert log.origins[str(a)] == Origin(cpu="EPYC", library="OpenFHE 1.6.1", date="today", noise=0.25)
    load_all([bb], log=log)  # another machine's, by itself
    with pytest.raises(UsageError, match=rf"2 CPUs \({a}: EPYC; {bb}: Xeon\)"):
        load_all([a, bb])
    load_all([a, ccc], cpu="epyc")
    with pytest.raises(UsageError, match=rf"--cpu 'epyc': {bb} is of Xeon"):
        load_all([bb], cpu="epyc")


def test_damaged_empty_and_unknown_files_are_each_named(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    pq.write_table(table_of(rows_of(POINTS[:1])), whole)
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:500])
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "latin.csv").write_bytes(b"n,depth\n1,\xe9\n")
    (tmp_path / "notes.txt").write_text("hello")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    pq.write_table(BENCH_SCHEMA.empty_table(), tmp_path / "none.parquet")
    for name, said in (
        ("cut.parquet", "damaged"),
        ("empty.json", "is empty"),
        ("latin.csv", r"latin\.csv: byte .*row 2.*UTF-8"),
        ("notes.txt", "not known"),
        ("other.parquet", "no column"),
        ("none.parquet", "holds no timing"),
        ("missing", "does not exist"),
    ):
        with pytest.raises(PenstockError, match=said):
            load(tmp_path / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="holds no timings"):
        load(tmp_path / "folder")


def test_the_same_timings_twice_are_refused(tmp_path: Path) -> None:
    def seconds(point: BenchPoint, run: int) -> float:
        return 1e-3 * (1 + POINTS.index(point)) + 1e-6 * run

    a, b = folder_of(tmp_path / "a", rows_of(POINTS, seconds)), folder_of(tmp_path / "b", rows_of(POINTS, seconds))
    other = folder_of(tmp_path / "c", rows_of(POINTS, lambda point, run: 1.5 * seconds(point, run)))
    with pytest.raises(BadTiming, match=r"b: row (\d+): .*in .*a: row \1 already"):
        load_all([a, b])
    assert len(load_all([a, other])) == 2 * len(POINTS)


# The newest results.


def test_the_newest_finished_run_with_the_groups_is_found(tmp_path: Path) -> None:
    with pytest.raises(CapabilityMissing, match="penstock bench run --suite fit"):
        newest_results(tmp_path / "runs")
    program = points_of('[[workloads]]\nworkload = "inner-product"\nthreads = 1')
    for name, when, points, finished in (
        ("old", "2026-11-01", POINTS, True),
        ("new", "2026-11-02", POINTS, True),
        ("unfinished", "2026-11-03", POINTS, False),
        ("programs", "2026-11-04", program, True),
    ):
        folder = folder_of(tmp_path / name, rows_of(points), finished=finished)
        record = json.loads((folder / "run.json").read_text()) | {"started": when}
        (folder / "run.json").write_text(json.dumps(record))
    assert newest_results(tmp_path).name == "new"
    assert newest_results(tmp_path, groups=("workloads",)).name == "programs"
    with pytest.raises(CapabilityMissing, match="primitives and workloads"):
        newest_results(tmp_path, groups=("primitives", "workloads"))


# Google Benchmark.


def google(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "run_type": "iteration", "iterations": 7, "real_time": 2.0, "time_unit": "ms", **more}


def test_google_benchmark_json_of_our_own_gives_the_same_measurements(tmp_path: Path) -> None:
    table = table_of(rows_of(POINTS))
    path = google(tmp_path / "a.json", to_google_benchmark(table, {}))
    ours = load(folder_of(tmp_path / "run", rows_of(POINTS)))
    assert [replace(each, source="") for each in load(path)] == [replace(each, source="") for each in ours]
    exported = google(tmp_path / "b.json", table.to_pylist())  # 'bench export --to json'
    assert [replace(each, source="") for each in load(exported)] == [replace(each, source="") for each in ours]


def test_foreign_names_and_counters_are_understood(tmp_path: Path) -> None:
    entries = [
        entry("EvalMult/ring_dim:8192/depth:10/limbs:8/dnum:3/iterations:10/real_time", repetition_index=0),
        entry("EvalMult/ring_dim:8192/depth:10/limbs:8/dnum:3/iterations:10/real_time", repetition_index=1,
              real_time=4.0),
        entry("CKKSrns_EvalRotate/logN:14/depth:5/omp_threads:2"),
        entry("BM_add", ring_dim=4096.0, depth=4, time_unit="us"),
        entry("decompose/params:insecure-ci/limbs:3"),
        entry("EvalChebyshevSeries/N:8192/depth:10/degree:27"),
        entry("EvalMult_mean", run_type="aggregate"),
    ]  # fmt: skip
    found = load(google(tmp_path / "a.json", {"benchmarks": entries}))
    assert [(each.item, each.seconds, each.threads, each.runs) for each in found] == [
        ("mult", 3e-3, 1, 2),
        ("rotate", 2e-3, 2, 1),
        ("add", 2e-6, 1, 1),
        ("decompose", 2e-3, 1, 1),
        ("chebyshev_series", 2e-3, 1, 1),
    ]
    assert found[0].shape == Shape("mult", 8, 8, 0, 0, 2)
    assert (found[0].params.ring_dim, found[0].params.depth, found[0].params.dnum) == (8192, 10, 3)
    assert "scale_bits" in found[0].params.assumed
    assert found[1].params.ring_dim == 2**14
    assert found[3].params == catalogue.get("insecure-ci")
    assert (found[4].shape, found[4].degree) == (None, 27)


def test_entries_of_several_benchmark_threads_are_left_out(tmp_path: Path) -> None:
    entries = [entry("EvalAdd/N:4096/depth:4"), entry("EvalAdd/N:4096/depth:4/threads:2", threads=2)]
    log = ImportLog()
    assert len(load(google(tmp_path / "a.json", {"benchmarks": entries}), log=log)) == 1
    assert list(log.left_out.values()) == [1]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (entry("BM_memcpy/N:4096/depth:4"), "not a call that is known"),
        (entry("EvalMult/8192/10"), "argument '8192' has no name"),
        (entry("EvalMult/ring_dm:8192/depth:10"), "did you mean 'ring_dim'"),
        (entry("EvalMult/depth:10"), "says ring_dim"),
        (entry("EvalMult/ring_dim:8192"), "says depth"),
        (entry("EvalMult/N:8000/depth:4"), "power of two"),
        (entry("EvalMult/N:8192/depth:-4"), "depth is -4"),
        (entry("EvalMult/N:8192/depth:4/limbs:9"), "limbs is 9"),
        (entry("EvalMult/N:eight/depth:4"), "not a number"),
        (entry("EvalMult/params:mine/limbs:9"), "unknown parameter set"),
        (entry("EvalMult/N:8192/depth:4", time_unit="fortnights"), "time_unit 'fortnights' is unknown"),
        (entry("EvalMult/N:8192/depth:4", real_time=0), "more than zero"),
        (entry("EvalMult/N:8192/depth:4", real_time=-2), "more than zero"),
        (entry("EvalMult/N:8192/depth:4", real_time="fast"), "not a number"),
        (entry("EvalMult/N:8192/depth:4", real_time=None), "missing"),
        (entry("EvalMult/N:8192/depth:4", error_occurred=True, error_message="no key"), "no key"),
        (entry("EvalAdd/N:4096/depth:4", repetition_index=0), "in entry 1 already"),
        (entry("EvalAdd/N:4096/depth:4", repetition_index=[1]), "repetition_index is"),
        (entry("EvalMult/N:8192/depth:4", time_unit=["ms"]), "is unknown"),
        (entry("EvalMult", params=3), "says ring_dim"),
        (entry("EvalMult/N:8192/depth:4/ring_dim:16384"), "'ring_dim' is 8192 and 16384 in one name"),
        (entry("EvalMult/N:8192/depth:4/log_n:15"), "ring_dim is 8192 and log_n 15"),
        (entry("EvalMult/N:8192/depth:4", depth=5), "'depth' is 4 in the name and 5 in a counter"),
    ],
)
def test_a_bad_entry_is_named_and_can_be_skipped(tmp_path: Path, bad: dict[str, Any], said: str) -> None:
    good = entry("EvalAdd/N:4096/depth:4", repetition_index=0)
    path = google(tmp_path / "a.json", {"benchmarks": [good, bad]})
    with pytest.raises(BadTiming, match=rf"a\.json: entry 2, '.*': .*{said}"):
        load(path)
    log = ImportLog(skip_bad=True)
    assert len(load(path, log=log)) == 1
    assert len(log.bad) == 1


def test_a_time_in_another_unit_is_named_before_anything_is_fitted(tmp_path: Path) -> None:
    def timed(call: str, ring: int, limbs: int, milliseconds: float) -> dict[str, Any]:
        return entry(f"{call}/N:{ring}/depth:10/limbs:{limbs}", real_time=milliseconds)

    good = [
        timed(call, ring, limbs, cost * 1e-3 * ring / 4096 * limbs**1.3)
        for call, cost in (("EvalMult", 30), ("EvalRotate", 28), ("EvalAdd", 1), ("EvalMultPlain", 2), ("Rescale", 5))
        for ring in (4096, 8192, 16384)
        for limbs in (4, 8, 11)
    ]
    for milliseconds, said in ((1e-3, "times less than others of its kind"), (500.0, "times more than others")):
        path = google(tmp_path / "a.json", {"benchmarks": [*good, timed("EvalMult", 8192, 5, milliseconds)]})
        with pytest.raises(BadTiming, match=rf"a\.json: entry 46: 'mult' takes .*{said}.*another unit"):
            load_all([path])
        log = ImportLog(skip_bad=True)
        assert len(load_all([path], log=log)) == len(good)
        assert len(log.bad) == 1
    for milliseconds, written, kept in ((15.0, "15 ms", 1), (0.02, "20 µs", 0)):  # half a millisecond is expected
        path = google(tmp_path / "b.json", {"benchmarks": [*good, timed("EvalMult", 8192, 5, milliseconds)]})
        log = ImportLog()
        assert len(load_all([path], log=log)) == len(good) + kept
        assert [f"entry 46, 'mult', {written}" in text for text in log.warnings] == [True]
        assert ["left out" in text for text in log.warnings] == [not kept]


def test_an_entry_whose_own_columns_are_null_is_like_any_others(tmp_path: Path) -> None:
    entries = [entry("EvalAdd/N:4096/depth:4", penstock=None), entry("EvalMult/N:4096/depth:4", penstock=3)]
    with pytest.raises(BadTiming, match=r"entry 2, 'EvalMult.*': 'penstock' is 3; it is an object"):
        load(google(tmp_path / "a.json", {"benchmarks": entries}))
    found = load(google(tmp_path / "b.json", {"benchmarks": entries[:1]}))
    assert [(each.item, each.seconds) for each in found] == [("add", 2e-3)]


@pytest.mark.parametrize("changed", [{"real_time": 1.0}, {"time_unit": "ms"}, {"time_unit": "h"}, {"real_time": -1.0}])
def test_a_time_of_ours_that_was_changed_is_noticed(tmp_path: Path, changed: dict[str, Any]) -> None:
    data = to_google_benchmark(table_of(rows_of(POINTS[:1])), {})
    data["benchmarks"][1] |= changed
    with pytest.raises(BadTiming, match=r"a\.json: entry 2"):
        load(google(tmp_path / "a.json", data))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"benchmarks": [{"name": ', r"a\.json:1: not valid JSON"),
        ("{}", "without a list 'benchmarks'"),
        ('{"benchmarks": [1]}', "without a list 'benchmarks'"),
        ('{"benchmarks": []}', "is empty"),
        ('[{"x": 1}]', "row 1 is not a row"),
        ('[{"group": "primitives", "item": "add", "seconds_per_call": 1, "speed": 2}]', "unknown column 'speed'"),
        ('[{"group": "primitives", "item": "add", "seconds_per_call": "fast"}]', "another type"),
    ],
)
def test_what_is_no_such_json_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadTiming, match=said):
        load(google(tmp_path / "a.json", text))


# Energy.


def test_a_run_has_its_energy_where_the_machine_counts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timing.measure(lambda: None, min_time_s=0, max_samples=1).started_s is not None
    counter = tmp_path / "energy_uj"
    counter.write_text("1000000")
    package = energy.CpuPackage("package-0", counter, 10**12)
    monkeypatch.setattr(energy, "_packages_here", lambda: (package,))
    used = timing.measure(lambda: counter.write_text("3500000"), min_time_s=0, max_samples=1)
    assert used.joules == pytest.approx(2.5)
    assert timing.measure(lambda: None, min_time_s=0, max_samples=1, before=lambda: None).joules is None
    monkeypatch.setattr(energy, "_packages_here", lambda: ())
    assert timing.measure(lambda: None, min_time_s=0, max_samples=1).joules is None
