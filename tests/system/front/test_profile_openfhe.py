"""`penstock profile` on real encrypted runs: what is counted, what is named, and what is missing with its reason."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from penstock.base.runs.folder import RunFolder
from penstock.front.cli.main import main
from penstock.lab.measure import callgrind
from penstock.lab.measure.events import TABLE_4
from penstock.lab.measure.perf import Perf
from penstock.lab.measure.profiled import Child, Request
from penstock.lab.measure.profiler import profile
from penstock.lab.measure.region import Region, RegionEvaluator
from penstock.program.running.openfhe import prepared_openfhe

pytestmark = pytest.mark.usefixtures("openfhe")

COMMAND = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())"]
SMALL = "insecure-small"
"""The set of the smallest ring: what is asserted holds at any."""
PROFILE = ["profile", "inner-product", "--size", "ci", "--params", SMALL, "--threads", "1"]
HARDWARE = {name for category in ("core", "cache", "tlb") for name in TABLE_4[category]}
DATA = Path(__file__).parents[2] / "data" / "perf"


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In this process: the workload has one of its own."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def by_event(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["event"]: row for row in result["rows"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile") / "run"


@pytest.fixture(scope="module")
def result(openfhe: Any, folder: Path) -> dict[str, Any]:
    missing = Perf().missing()
    if missing is not None:
        pytest.skip(f"perf does not work here: {missing.reason}; {missing.remedy}")
    options = ["--events", "instrucions", "--frequency", "997", "-o", str(folder), "--format", "json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.lab.measure.sampling.MAX_SAMPLED_RUNS", 6)
        return result_of(penstock(*PROFILE, *options))


def test_every_event_is_counted_or_unavailable_with_reason_and_remedy_and_never_an_invented_zero(
    result: dict[str, Any],
) -> None:
    rows = by_event(result)
    assert set(rows) >= HARDWARE | {"page-faults", "minor-faults", "task-clock", "wall-time", "energy-pkg"}
    for row in result["rows"]:
        assert row["status"] in ("ok", "scaled", "unavailable")
        assert row["provenance"] == "measured"
        if row["status"] == "unavailable":
            assert row["value"] is None
            assert row["reason"]
            assert row["remedy"]
        else:
            assert row["value"] is not None
    assert rows["task-clock"]["value"] > 0
    assert "did you mean 'instructions'" in rows["instrucions"]["remedy"]
    assert result["passed"]


def test_the_counters_see_the_region_and_not_the_set_up(result: dict[str, Any]) -> None:
    rows = by_event(result)
    # One thread cannot use more processor time than the region is long; with set-up inside it would be twice as much.
    assert 0 < rows["task-clock"]["value"] <= 1.1 * rows["wall-time"]["value"]


def test_the_region_is_on_in_the_server_s_operations_and_off_in_the_client_s() -> None:
    class Log:
        state = False

        def __call__(self, on: bool) -> None:
            self.state = on

    log = Log()
    region = Region([log])
    seen: list[tuple[str, bool]] = []

    class Watched(RegionEvaluator):
        def _timed(self, call: Any, *arguments: Any) -> Any:
            seen.append(("server", log.state))
            return super()._timed(call, *arguments)

        def _done(self, native: Any, start: float, end: float) -> Any:
            seen.append(("any", log.state))
            return super()._done(native, start, end)

    with prepared_openfhe("inner-product", SMALL, size="ci", threads=1) as run:
        done = run(lambda context: Watched(context, region))
    region.off()
    server = [state for who, state in seen if who == "server"]
    assert server
    assert all(server)
    encryptions = done.trace.view(composites=True).count_by_kind()["encrypt"]
    assert [state for _, state in seen].count(False) == encryptions
    assert region.intervals == 1
    assert 0 < region.wall_s < done.wall_s


def test_the_flame_graph_of_an_encrypted_run_names_openfhe_s_functions(result: dict[str, Any], folder: Path) -> None:
    titles = [t.text or "" for t in ET.parse(folder / "flamegraph.svg").iter("{http://www.w3.org/2000/svg}title")]
    everything = "\n".join(titles)
    for name in ("KeySwitchHYBRID::", "DCRTPoly::", "NumberTheoreticTransform::", "EvalAtIndex"):
        assert name in everything, name
    assert any(title.startswith("rotate\n") for title in titles), "operations of the program are the first row"
    assert not any("GenCryptoContext" in t or "KeyGen" in t or "Encrypt" in t for t in titles), "outside the region"
    assert {o["operation"] for o in result["operations"]} >= {"rotate", "mult"}
    assert sum(o["share"] for o in result["operations"]) == pytest.approx(1)
    assert result["hotspots"][0]["self_share"] > 0.05


def test_the_samples_cover_the_region_s_processor_time(result: dict[str, Any], folder: Path) -> None:
    weights = [int(line.rpartition(" ")[2]) for line in (folder / "stacks.folded").read_text().splitlines()]
    sampled_s = result["sampling"]["value"]
    assert sum(weights) / 1e6 == pytest.approx(sampled_s, rel=0.01)
    assert len(weights) > 10
    profiles = json.loads((folder / "speedscope.json").read_text())["profiles"]
    assert sum(p["endValue"] for p in profiles) == pytest.approx(sampled_s)


def test_the_overhead_is_measured_with_both_its_terms(result: dict[str, Any]) -> None:
    modes = {o["mode"]: o for o in result["overhead"]}
    assert set(modes) == {"events", "sampling"}
    for overhead in modes.values():
        assert overhead["ratio"] == pytest.approx(overhead["profiled_s"] / overhead["plain_s"])
        assert len(overhead["plain_samples_s"]) == len(overhead["profiled_samples_s"])
        assert 0.2 < overhead["ratio"] < 10
    assert len(modes["events"]["plain_samples_s"]) == 3
    assert not set(modes["events"]["plain_samples_s"]) & set(modes["sampling"]["plain_samples_s"])


def test_runs_with_and_without_profiling_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if Perf().missing() is not None:
        pytest.skip("needs a working perf")
    runs: list[str] = []
    run = Child.run

    def noted(self: Child, controls: Any = (), **options: bool) -> dict[str, Any]:
        runs.append("sampled" if options.get("spans") else "counted" if options.get("energy") else "plain")
        return run(self, controls, **options)

    monkeypatch.setattr(Child, "run", noted)
    monkeypatch.setattr("penstock.lab.measure.sampling.MAX_SAMPLED_RUNS", 2)
    found = profile(
        Request(workload="inner-product", size="ci", params=SMALL, threads=1, events=("task-clock",), sample=True),
        tmp_path,
    )
    assert runs == ["counted", *["plain", "counted"] * 3, *["plain", "sampled"] * 2]
    assert [(o.mode, len(o.plain_s), len(o.profiled_s)) for o in found.overhead] == [
        ("events", 3, 3),
        ("sampling", 2, 2),
    ]


def test_the_run_folder_is_complete_and_is_not_overwritten(result: dict[str, Any], folder: Path) -> None:
    run = RunFolder.open(folder)
    assert run.complete
    stored = {row["quantity"]: row for row in run.stage_rows("events")}
    assert stored["task-clock"]["value"] == by_event(result)["task-clock"]["value"]
    missing = [row for row in result["rows"] if row["value"] is None]
    assert all(stored[row["event"]]["value"] is None for row in missing)
    assert all("unavailable" in stored[row["event"]]["note"] for row in missing)
    for arguments, reason in (
        (["--events", "instrucions", "--frequency", "997"], "it holds a finished profile"),
        (["--exact"], "another configuration"),
    ):
        again = penstock(*PROFILE, *arguments, "-o", str(folder))
        assert again.returncode == 2
        assert reason in again.stderr


def test_without_perf_software_events_come_from_the_kernel_and_the_rest_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = penstock(*PROFILE, "--no-overhead", "--flamegraph", str(tmp_path / "f.svg"), "--format", "json")
    result = result_of(done)
    rows = by_event(result)
    assert all(rows[event]["value"] is None for event in HARDWARE)
    assert "apt install linux-perf" in rows["instructions"]["remedy"]
    assert rows["page-faults"]["source"] == "getrusage"
    assert rows["page-faults"]["value"] > 0, "the first run of a process faults its memory in"
    assert 0 < rows["task-clock"]["value"] <= 1.1 * rows["wall-time"]["value"]
    assert result["sampling"]["status"] == "unavailable"
    assert not (tmp_path / "f.svg").exists()


def test_a_forbidden_perf_ends_nothing_and_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perf = tmp_path / "perf"
    perf.write_text(f"#!/bin/sh\ncat {DATA / 'stderr-forbidden.txt'} >&2\nexit 255\n")
    perf.chmod(perf.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = penstock(*PROFILE, "--no-overhead")
    assert done.returncode == 0, done.stderr
    assert "perf_event_paranoid" in done.stdout
    assert "unavailable: instructions" in done.stdout


def test_perf_that_dies_in_the_region_costs_its_events_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It says that it is attached, and ends.
    perf = tmp_path / "perf"
    perf.write_text(
        """#!/bin/sh
        for word in "$@"; do case "$word" in fifo:*) pipes=${word#fifo:};; esac; done
        if [ -z "$pipes" ]; then echo "0;;page-faults;9;100.00;;" >&2; exit 0; fi
        read command < "${pipes%,*}"; echo ack > "${pipes#*,}"
        """
    )
    perf.chmod(perf.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    options = ["--no-overhead", "--only-events", "--events", "alignment-faults,page-faults", "--format", "json"]
    began = time.monotonic()
    rows = by_event(result_of(penstock(*PROFILE, *options)))
    assert time.monotonic() - began < 10, "its answer is not waited for"
    assert rows["alignment-faults"]["status"] == "unavailable"
    assert rows["page-faults"]["source"] == "getrusage", "the kernel's own count stands in"
    assert "stopped answering" in rows["page-faults"]["note"]


def test_threads_of_the_workload_are_counted_and_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if len(os.sched_getaffinity(0)) < 2 or Perf().missing() is not None:
        pytest.skip("needs two cores and a working perf")
    monkeypatch.setattr("penstock.lab.measure.sampling.MAX_SAMPLED_RUNS", 6)
    request = Request(
        workload="inner-product", size="ci", params=SMALL, threads=2, events=("task-clock",), sample=True,
        frequency_hz=997, overhead=False,
    )  # fmt: skip
    found = profile(request, tmp_path)
    assert found.samples
    assert len({s.thread for s in found.samples}) == 2
    (clock,) = [row for row in found.rows if row.event == "task-clock"]
    assert clock.source == "perf"
    assert clock.value is not None
    assert clock.value > 0


def test_a_workload_that_is_killed_is_an_error_that_says_so(tmp_path: Path) -> None:
    job = {
        "workload": "inner-product", "params": SMALL, "size": "ci", "seed": 0, "data": None, "threads": 1,
        "check": False,
    }  # fmt: skip
    child = Child(job, tmp_path)
    try:
        child.ready()
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(Exception, match="ended by SIGKILL; out of memory"):
            child.run()
    finally:
        child.kill()


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["profile", "inner-produkt"], 2, "did you mean 'inner-product'"),
        (["profile", "inner-product", "--only-events"], 2, "--events instructions,cache-misses"),
        (["profile", "inner-product", "--params", "sharp"], 2, "accelerators"),
    ],
)
def test_a_wrong_request_is_refused_with_a_remedy(arguments: list[str], code: int, reason: str) -> None:
    done = penstock(*arguments)
    assert done.returncode == code
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_callgrind_counts_the_instructions_of_each_function(tmp_path: Path) -> None:
    missing = callgrind.missing()
    if missing is not None:
        pytest.skip(f"{missing.reason}: {missing.remedy}")
    request = Request(
        workload="inner-product",
        size="ci",
        params=SMALL,
        threads=1,
        events=("task-clock",),
        callgrind=True,
        overhead=False,
    )
    found = profile(request, tmp_path)
    (row,) = [row for row in found.rows if row.source == "callgrind"]
    if row.value is None:
        assert "AVX-512" in row.reason, row
        pytest.skip(row.reason)
    assert found.callgrind is not None
    assert row.value == found.callgrind.instructions > 10_000_000
    counted = {f.function: f.instructions for f in found.callgrind.functions}
    transforms = sum(n for name, n in counted.items() if name.startswith("NumberTheoreticTransform::"))
    assert transforms > 0.2 * found.callgrind.instructions
    assert not any("KeyGen" in name for name in counted), "set-up is not counted"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_from_outside_leaves_no_working_folder(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, *PROFILE, "-q"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            while process.poll() is None and not list(tmp_path.glob("penstock-profile-*/child.stderr")):
                time.sleep(0.005)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert list(tmp_path.rglob("*")) == []
    assert (process.returncode, said.splitlines()[-1]) == (130, "penstock: interrupted")
