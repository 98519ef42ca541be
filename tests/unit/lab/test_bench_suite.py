"""The orchestrator with fake primitives: order, resuming, refusing, checking. No OpenFHE."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from penstock.base.runs.folder import DifferentRun, RunFolder
from penstock.errors import CheckFailed
from penstock.front.cli.main import main
from penstock.lab.measure.bench import primitive_runs, timing
from penstock.lab.measure.bench import suite as suite_module
from penstock.lab.measure.bench.estimate import estimate
from penstock.lab.measure.bench.primitives import INPUTS, PreparedPrimitive
from penstock.lab.measure.bench.results import load_results, to_google_benchmark
from penstock.lab.measure.bench.spec import BenchPoint, SuitePlan, parse_suite, plan
from penstock.lab.measure.bench.suite import DoesNotFit, Options, config_of, raise_problems, run_plan
from penstock.lab.measure.events import EventRow
from penstock.program.running import openfhe, run_clear, trace_workload
from support.fake_bench import FakeStore, Killed

TEXT = """
[timing]
min_time = "0.1 ms"
runs = 3
[[primitives]]
items = ["add", "mult", "rotate"]
ring_dim = ["2^11", "2^12"]
depth = 4
"""


class Fakes:
    """Primitives that do nothing; `wrong` ones give a wrong answer, and `kill_at` ends the process at a point."""

    def __init__(self) -> None:
        self.prepared: list[tuple[str, int]] = []
        self.events: list[str] = []
        self.wrong: set[str] = set()
        self.kill_at: int | None = None

    def prepare(self, point: BenchPoint, stored: FakeStore, inputs: tuple[str, str] = INPUTS) -> PreparedPrimitive:
        if self.kill_at == len(self.prepared):
            raise Killed
        if inputs == INPUTS:
            self.prepared.append((point.item, point.params.ring_dim))
        off = 1.0 if point.item in self.wrong else 0.0

        def call() -> None:
            self.events.append(f"{point.item} {' '.join(inputs)}")

        return PreparedPrimitive(call=call, decrypted=lambda result: np.full(4, off), expected=np.zeros(4))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    made = Fakes()
    monkeypatch.setattr(primitive_runs, "prepare", made.prepare)
    monkeypatch.setattr(suite_module, "StoredSet", FakeStore)
    monkeypatch.setattr(primitive_runs, "set_threads", lambda n: None)
    monkeypatch.setattr(suite_module, "PROBE_BEFORE_S", 0.0)
    monkeypatch.setattr(timing, "PROBE_POINT_S", 0.0)
    monkeypatch.setattr(timing, "_HASHED_BYTES", 2**12)
    monkeypatch.setattr(timing, "_PRODUCTS_BYTES", 2**15)
    monkeypatch.setattr(primitive_runs, "uncertainty", lambda runs: 0.0)
    return made


def planned(text: str = TEXT) -> SuitePlan:
    return plan(parse_suite(text, "toy", "toy.toml"))


def options(tmp_path: Path, **more: Any) -> Options:
    return Options(store=tmp_path / "store", available_bytes=lambda: 10**12, **more)


def measured(tmp_path: Path, name: str = "run", **more: Any) -> tuple[RunFolder, Any]:
    wanted, chosen = planned(), options(tmp_path, **more)
    run = RunFolder.open_or_resume(tmp_path / name, config_of(wanted, chosen))
    with run:
        return run, run_plan(wanted, run, chosen)


def test_every_point_is_measured_in_order_and_stored(fakes: Fakes, tmp_path: Path) -> None:
    run, outcome = measured(tmp_path)
    turn = ["add", "rotate", "mult"]
    assert fakes.prepared == [(item, 2**n) for n in (11, 12) for _ in range(3) for item in turn]
    assert (outcome.measured, outcome.resumed, run.complete) == (6, 0, True)
    table = load_results(run.path)
    assert table.num_rows == 6 * 3
    assert set(table["provenance"].to_pylist()) == {"measured"}
    assert set(table["passed"].to_pylist()) == {True}
    assert all(calls > 0 for calls in table["calls"].to_pylist())


def test_points_whose_runs_disagree_are_run_again_up_to_a_bound(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primitive_runs, "uncertainty", lambda runs: 1.0 if len(runs) < 4 else 0.0)
    run, _ = measured(tmp_path)
    assert load_results(run.path).num_rows == 6 * 4
    monkeypatch.setattr(primitive_runs, "uncertainty", lambda runs: 1.0)
    run, _ = measured(tmp_path, "bound")
    assert load_results(run.path).num_rows == 6 * 3 * primitive_runs.REPEATS


def test_two_sets_of_one_name_have_a_context_each(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains: list[int] = []

    class Store(FakeStore):
        def __enter__(self) -> FakeStore:
            chains.append(self.params.num_q)
            return self

    monkeypatch.setattr(suite_module, "StoredSet", Store)
    wanted, chosen = (
        planned(TEXT.replace("depth = 4", "depth = [4, 5]").replace('["2^11", "2^12"]', '"2^11"')),
        options(tmp_path),
    )
    wanted.points = [replace(point, params=replace(point.params, name="mine")) for point in wanted.points]
    with RunFolder.create(tmp_path / "run", config_of(wanted, chosen)) as run:
        run_plan(wanted, run, chosen)
    assert chains == [5, 6]


def runs_of(*seconds: float) -> list[timing.TimedRun]:
    return [timing.TimedRun(calls=1, total_s=s, wall_s=s, cpu_s=s, samples_s=(s,)) for s in seconds]


def test_the_uncertainty_is_the_standard_error_of_the_median() -> None:
    assert primitive_runs.uncertainty(runs_of(1.0, 1.0, 1.0)) == 0.0
    # Quartiles 9 and 11 about 10, five runs.
    assert primitive_runs.uncertainty(runs_of(8, 9, 10, 11, 12)) == pytest.approx(1.25 * 2 / (1.35 * 5**0.5 * 10))


def test_blocks_are_bounded_and_a_bootstrap_is_alone() -> None:
    points = list(planned().points)
    each = replace(estimate(points[0]), total_s=25.0)
    assert [len(block) for block in suite_module.blocks(points, lambda point: each)] == [3, 3]
    alone = [points[0], replace(points[1], item="bootstrap"), points[2]]
    assert [[p.item for p in block] for block in suite_module.blocks(alone, lambda point: each)] == [
        ["add"],
        ["bootstrap"],
        ["mult"],
    ]


def test_a_cold_call_follows_a_flush_and_the_same_operation_on_other_operands(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flush:
        def __call__(self) -> None:
            fakes.events.append("flush")

    monkeypatch.setattr(timing, "Flush", Flush)
    text = (
        TEXT.replace('["add", "mult", "rotate"]', '"add"')
        .replace('["2^11", "2^12"]', '"2^11"')
        .replace("0.1 ms", "0 s")
    )
    wanted, chosen = planned(text + 'conditions = "cold"\n'), options(tmp_path)
    with RunFolder.open_or_resume(tmp_path / "run", config_of(wanted, chosen)) as run:
        run_plan(wanted, run, chosen)
    uncounted, checked = ["add a b"], ["add a b"]  # a call before each run, and one that is held against the clear one
    cold = ["flush", "add c d", "add a b"]
    assert fakes.events == [*uncounted, *cold, *checked, *uncounted, *cold, *uncounted, *cold]


def test_results_are_tidy_rows_of_the_run_folder_too(fakes: Fakes, tmp_path: Path) -> None:
    run, _ = measured(tmp_path)
    rows = [row for row in run.results().to_pylist() if row["quantity"] == "seconds_per_call"]
    assert len(rows) == 6 * 3
    note = json.loads(rows[0]["note"])
    assert (note["item"], note["ring_dim"], note["threads"], note["run"]) == ("add", 2**11, 1, 0)


def test_a_killed_run_resumes_without_repeating_what_is_stored(fakes: Fakes, tmp_path: Path) -> None:
    fakes.kill_at = 3 * 3 + 2 * 3 + 1  # in the last turn of the second set, after its first point
    with pytest.raises(Killed):
        measured(tmp_path)
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "run" / "bench").glob("*.parquet")}
    assert len(before) == 4
    assert not (tmp_path / "run" / ".complete").exists()
    fakes.kill_at = None
    fakes.prepared.clear()
    run, outcome = measured(tmp_path)
    assert (outcome.measured, outcome.resumed, len(fakes.prepared), run.complete) == (2, 4, 2 * 3, True)
    after = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "run" / "bench").glob("*.parquet")}
    assert before.items() <= after.items()
    assert load_results(run.path).num_rows == 18


def in_turns(tmp_path: Path, text: str = TEXT) -> tuple[RunFolder, Any]:
    wanted, chosen = planned('order = "turns"\n' + text), options(tmp_path)
    with RunFolder.open_or_resume(tmp_path / "run", config_of(wanted, chosen)) as run:
        return run, run_plan(wanted, run, chosen)


def test_in_turns_every_point_is_run_once_before_any_is_run_again(fakes: Fakes, tmp_path: Path) -> None:
    run, outcome = in_turns(tmp_path)
    assert fakes.prepared == [(item, 2**n) for n in (11, 12) for item in ("add", "rotate", "mult")] * 3
    assert (outcome.measured, run.complete) == (6, True)
    rows = load_results(run.path).to_pylist()
    assert [row["run"] for row in rows] == [0, 1, 2] * 6
    stored = [row for row in run.results().to_pylist() if row["quantity"] == "seconds_per_call"]
    assert len(stored) == 6 * 3


def test_points_of_fewer_runs_are_spread_over_the_turns(fakes: Fakes, tmp_path: Path) -> None:
    timing_of_one = (
        '[[primitives]]\nitems = "sub"\nring_dim = "2^11"\ndepth = 4\ntiming = { min_time = "0 s", runs = 1 }\n'
    )
    in_turns(tmp_path, TEXT + timing_of_one)
    turns = [fakes.prepared.index(("sub", 2**11)), len(fakes.prepared)]
    assert turns == [6 + 1, 3 * 6 + 1]  # in the second of three turns
    assert suite_module.turns_of(2, 10) == [2, 7]
    assert all(suite_module.turns_of(n, n) == list(range(n)) for n in range(1, 20))


@pytest.mark.parametrize("kill_at", [1, 6, 8, 17])
def test_a_run_in_turns_that_was_killed_goes_on_in_the_middle_of_a_turn(
    fakes: Fakes, tmp_path: Path, kill_at: int
) -> None:
    fakes.kill_at = kill_at
    with pytest.raises(Killed):
        in_turns(tmp_path)
    first = list(fakes.prepared)
    fakes.kill_at = None
    fakes.prepared.clear()
    run, _ = in_turns(tmp_path)
    assert first + fakes.prepared == [(item, 2**n) for n in (11, 12) for item in ("add", "rotate", "mult")] * 3
    assert load_results(run.path).num_rows == 18
    assert run.complete


def test_in_turns_a_program_has_a_context_a_turn_whose_first_run_does_not_count(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[int] = []

    @contextmanager
    def prepared(item: str, params: Any, size: str, seed: int, data: Any, threads: int) -> Any:
        clear, trace = run_clear(item, params, size, seed, data), trace_workload(item, params, size)
        contexts.append(0)

        def run() -> SimpleNamespace:
            contexts[-1] += 1
            return SimpleNamespace(
                wall_s=float(contexts[-1]),
                server_s=0.5,
                encode_s=0.1,
                key_load_s=contexts[-1] * 0.25,
                result=clear,
                trace=trace,
            )

        yield run

    monkeypatch.setattr(openfhe, "READING", replace(openfhe.READING, prepared=prepared))
    run, _ = in_turns(tmp_path, '[[workloads]]\nworkload = "inner-product"\nthreads = 1\nruns = 3\n')
    rows = load_results(run.path).to_pylist()
    assert contexts == [2, 2, 2]
    assert [(row["run"], row["total_s"], json.loads(row["note"])["key_load_s"]) for row in rows] == [
        (0, 2.0, 0.25),
        (1, 2.0, 0.25),
        (2, 2.0, 0.25),
    ]


def test_a_damaged_part_of_a_run_in_turns_is_measured_again(fakes: Fakes, tmp_path: Path) -> None:
    fakes.kill_at = 7
    with pytest.raises(Killed):
        in_turns(tmp_path)
    part = sorted((tmp_path / "run" / "bench").glob("*.parquet"))[0]
    part.write_bytes(part.read_bytes()[:100])
    fakes.kill_at = None
    run, _ = in_turns(tmp_path)
    assert sum("damaged" in warning["what"] for warning in run.warnings) == 1
    assert load_results(run.path).num_rows == 18


def test_a_point_that_does_not_fit_takes_no_turn(fakes: Fakes, tmp_path: Path) -> None:
    wanted, chosen = planned('order = "turns"\n' + TEXT), options(tmp_path)
    chosen.available_bytes = lambda: 1
    with RunFolder.open_or_resume(tmp_path / "run", config_of(wanted, chosen)) as run:
        outcome = run_plan(wanted, run, chosen)
    assert (len(outcome.refused), fakes.prepared) == (6, [])


def test_a_damaged_stored_point_is_measured_again_with_a_warning(fakes: Fakes, tmp_path: Path) -> None:
    fakes.kill_at = 3 * 3
    with pytest.raises(Killed):
        measured(tmp_path)
    part = sorted((tmp_path / "run" / "bench").glob("*.parquet"))[0]
    part.write_bytes(part.read_bytes()[:100])
    fakes.kill_at = None
    run, outcome = measured(tmp_path)
    assert outcome.resumed == 2
    assert any("damaged" in warning["what"] for warning in run.warnings)
    assert load_results(run.path).num_rows == 18


def test_another_suite_does_not_resume_into_the_same_folder(fakes: Fakes, tmp_path: Path) -> None:
    measured(tmp_path)
    other = planned(TEXT.replace("runs = 3", "runs = 2"))
    with pytest.raises(DifferentRun, match="points_sha256"):
        RunFolder.open_or_resume(tmp_path / "run", config_of(other, options(tmp_path)))


def test_a_point_that_does_not_fit_is_refused_before_it_starts_and_the_others_run(fakes: Fakes, tmp_path: Path) -> None:
    def predict(point: BenchPoint) -> Any:
        found = estimate(point)
        return replace(found, memory_bytes=2 * 10**12) if point.params.ring_dim == 2**12 else found

    run, outcome = measured(tmp_path, predict=predict)
    assert {ring for _, ring in fakes.prepared} == {2**11}
    assert len(outcome.refused) == 3
    assert not run.complete
    with pytest.raises(DoesNotFit, match=r"3 points refused .*predicted peak 2 TB .*available 1 TB") as caught:
        raise_problems(outcome)
    assert caught.value.exit_code == 1
    # With more memory the same command measures the rest.
    fakes.prepared.clear()
    run, outcome = measured(tmp_path)
    assert (outcome.resumed, outcome.measured, run.complete) == (3, 3, True)


def test_memory_at_the_bound_fits_and_a_byte_less_does_not(fakes: Fakes, tmp_path: Path) -> None:
    for free, expected in ((1000, 0), (999, 6)):
        wanted = planned()
        chosen = options(tmp_path, predict=lambda point: replace(estimate(point), memory_bytes=1000))
        chosen.available_bytes = lambda free=free: free  # type: ignore[misc]
        with RunFolder.open_or_resume(tmp_path / str(free), config_of(wanted, chosen)) as run:
            assert len(run_plan(wanted, run, chosen).refused) == expected


def test_a_wrong_answer_is_stored_and_then_reported(fakes: Fakes, tmp_path: Path) -> None:
    fakes.wrong = {"mult"}
    run, outcome = measured(tmp_path)
    wrong = [row["item"] for row in load_results(run.path).to_pylist() if not row["passed"]]
    assert set(wrong) == {"mult"}
    with pytest.raises(CheckFailed, match=r"mult, bench-n11.*error 1"):
        raise_problems(outcome)


def test_a_noisy_machine_is_warned_of_and_recorded(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "probe", lambda seconds: timing.Probe((1.0, 1.0, 1.5, 1.5, 1.5)))
    run, _ = measured(tmp_path)
    assert run.record["noise"]["before_spread"] == pytest.approx(1 / 3)
    assert run.record["noise"]["during_spread"] == pytest.approx(1 / 3)
    assert sum("too noisy" in warning["what"] for warning in run.warnings) == 2
    assert load_results(run.path)["noise_spread"].to_pylist() == pytest.approx([1 / 3] * 18)


def test_a_quiet_machine_is_not_warned_of(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "probe", lambda seconds: timing.Probe((1.0, 1.01, 1.0, 1.0, 1.01)))
    run, _ = measured(tmp_path)
    assert not any("too noisy" in warning["what"] for warning in run.warnings)


def test_the_command_runs_resumes_and_replaces_only_with_force(
    fakes: Fakes, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toy.toml").write_text(TEXT)
    words = ["bench", "run", "--suite", "toy.toml", "-o", "out", "--store", "store", "--format", "json"]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["item"] for row in rows] == ["add", "rotate", "mult"] * 2
    assert len(fakes.prepared) == 6 * 3
    assert main(words) == 0  # complete: read only
    assert len(fakes.prepared) == 6 * 3
    assert main([*words, "--only", "add"]) == 2
    assert main([*words, "--only", "add", "--force"]) == 0
    assert {row["item"] for row in pq.read_table("out/bench.parquet").to_pylist()} == {"add"}
    assert len(list(Path("out/bench").glob("*.parquet"))) == 2


def test_a_dry_run_measures_and_writes_nothing(
    fakes: Fakes, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toy.toml").write_text(TEXT)
    assert main(["bench", "run", "--suite", "toy.toml", "--dry-run", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 6
    assert {row["provenance"] for row in rows} == {"predicted"}
    assert all(row["predicted_s"] > 0 and row["predicted_peak_bytes"] > 0 for row in rows)
    assert (fakes.prepared, [p.name for p in tmp_path.iterdir()]) == ([], ["toy.toml"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suite", "quik"], "did you mean 'quick'"),
        (["--suite", "toy.toml", "--only", "ad"], "did you mean 'add'"),
        (["--suite", "toy.toml", "--threads", "4096"], "CPU affinity"),
        (["--suite", "toy.toml", "--threads", "two"], "whole numbers"),
        (["--suite", "toy.toml", "--across-operations", "0"], "at least 1"),
    ],
)
def test_wrong_words_exit_with_two_before_anything_is_measured(
    fakes: Fakes, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toy.toml").write_text(TEXT)
    assert main(["bench", "run", *words]) == 2
    assert message in capsys.readouterr().err
    assert fakes.prepared == []


def test_events_are_counted_apart_and_what_is_missing_says_why(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FakeCounters:
        def __init__(self, events: list[str]) -> None:
            self.events = events

        def __enter__(self) -> FakeCounters:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def on(self) -> None:
            pass

        off = on

        def rows(self) -> list[EventRow]:
            return [
                EventRow(event="instructions", value=10**6, unit="1", status="ok"),
                EventRow(event="LLC-loads", value=None, unit="1", status="unavailable", reason="no counters"),
            ]

    monkeypatch.setattr("penstock.lab.measure.perf.Counters", FakeCounters)
    run, _ = measured(tmp_path, events=("instructions", "LLC-loads"))
    rows = [row for row in run.results().to_pylist() if row["quantity"].endswith("_per_call") and row["unit"] == "1"]
    assert len(rows) == 2 * 6
    counted, missing = (row for row in rows if row["kind"] == "add" and json.loads(row["note"])["ring_dim"] == 2**11)
    assert counted["value"] == 10**6 / json.loads(counted["note"])["calls"]
    assert (counted["kind"], counted["limbs"], json.loads(counted["note"])["ring_dim"]) == ("add", 5, 2**11)
    assert missing["value"] is None
    assert json.loads(missing["note"])["reason"] == "no counters"


def test_events_of_cold_points_are_left_out_and_say_why(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "Flush", lambda: lambda: None)
    text = TEXT.replace('["add", "mult", "rotate"]', '"add"').replace('["2^11", "2^12"]', '"2^11"')
    wanted, chosen = planned(text + 'conditions = "cold"\n'), options(tmp_path, events=("task-clock",))
    with RunFolder.create(tmp_path / "run", config_of(wanted, chosen)) as run:
        run_plan(wanted, run, chosen)
    (row,) = [row for row in run.results().to_pylist() if row["quantity"] == "task-clock_per_call"]
    assert row["value"] is None
    assert "flush" in json.loads(row["note"])["reason"]


def test_the_rate_and_the_processor_time_of_a_cold_point_are_without_the_flush(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flush() -> None:
        until = time.process_time() + 5e-3
        while time.process_time() < until:
            pass

    monkeypatch.setattr(timing, "Flush", lambda: flush)
    text = TEXT.replace('["add", "mult", "rotate"]', '"add"').replace('["2^11", "2^12"]', '"2^11"')
    wanted, chosen = planned(text.replace("0.1 ms", "0 s") + 'conditions = "cold"\n'), options(tmp_path)
    with RunFolder.create(tmp_path / "run", config_of(wanted, chosen)) as run:
        run_plan(wanted, run, chosen)
    table = load_results(run.path)
    assert max(row["wall_s"] for row in table.to_pylist()) < 5e-3
    assert min(row["calls_per_s"] for row in table.to_pylist()) > 200
    assert max(entry["cpu_time"] for entry in to_google_benchmark(table, {})["benchmarks"]) < 5e6
