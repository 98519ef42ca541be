"""Real sweeps as processes: killed, interrupted, and on a Dask cluster whose worker dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.front.cli.main import main
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.spec import load_sweep
from support.own_process import COMMAND

SWEEP = """
workload = "logistic-regression"
params = "sharp"
machine = "sharp"
tier = ["hbm", "ddr5", "pcie5", "rdma"]
hit_ratio = [0, 0.2, 0.4, 0.6, 0.8]
mode = ["serial", "overlap"]
hosts = [1, 2, 4, 8, 16, 32]
network = ["ethernet-400", "fastfabric-300"]
"""
POINTS = 4 * 5 * 2 * 6 * 2
PRELOAD = """
# Notes every task that a worker starts and ends; the scheduler is not asked, since it forgets.
import os, sys
from distributed.diagnostics.plugin import WorkerPlugin

class Notes(WorkerPlugin):
    def transition(self, key, start, finish, **kwargs):
        if finish in ("executing", "memory") and str(key).startswith("penstock-"):
            with open(os.environ["NOTES"], "a") as file:
                file.write(f"{os.getpid()} {key} {finish}\\n")

async def dask_setup(worker):
    await worker.plugin_add(Notes(), name="notes")
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SWEEP)
    return path


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "sweep", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until(what: str, holds: Callable[[], object], limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, f"{what} did not happen in {limit_s} s"
        time.sleep(0.01)


def chunks(run: Path) -> dict[str, int]:
    """Finished chunks, with when they were written."""
    found: dict[str, int] = {}
    for file in (run / "chunks").glob("[0-9]*.parquet"):
        with suppress(FileNotFoundError):  # a sweep that ends deletes them
            found[file.stem] = file.stat().st_mtime_ns
    return found


def check_whole(sweep: Path, run: Path) -> None:
    """No point is lost and none is there twice."""
    expected = [point.id for chunk in plan(load_sweep(sweep)).chunks for point in chunk.points]
    assert len(expected) == POINTS
    assert pq.read_table(run / "results.parquet")["point_id"].to_pylist() == expected
    assert (run / ".complete").is_file()


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Processes of its session but itself."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == process.pid and int(entry.name) != process.pid:
            found.append(int(entry.name))
    return found


def test_a_sweep_that_is_killed_goes_on_without_its_finished_chunks(sweep: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(sweep, "-o", run, "--workers", "2")
    until("three chunks", lambda: len(chunks(run)) >= 3)
    workers = workers_of(process)
    assert workers
    process.kill()
    process.communicate()
    until("the end of its workers", lambda: not workers_of(process))
    before = chunks(run)
    assert not (run / "results.parquet").exists()

    process = start(sweep, "-o", run, "--workers", "2")
    written: dict[str, int] = {}
    while process.poll() is None:
        written.update(chunks(run))
        time.sleep(0.005)
    assert process.returncode == 0, process.stderr and process.stderr.read()
    _, said = process.communicate()
    assert f"{24 * len(before)} points were stored already and were not repeated" in said
    assert {name: at for name, at in written.items() if name in before} == before
    check_whole(sweep, run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("everybody", [True, False])
def test_an_interrupt_ends_with_130_and_keeps_partial_results(
    sweep: Path, tmp_path: Path, number: int, everybody: bool
) -> None:
    run = tmp_path / "run"
    process = start(sweep, "-o", run, "--workers", "2")
    until("two chunks", lambda: len(chunks(run)) >= 2)
    if everybody:
        os.killpg(process.pid, number)  # as a terminal and Slurm do: to the workers too
    else:
        os.kill(process.pid, number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    kept = pq.read_table(run / "results.parquet").num_rows
    assert f"interrupted: {kept} of {POINTS} points are kept" in said
    assert 0 < kept < POINTS
    assert "Traceback" not in said
    assert "resource_tracker" not in said
    until("the end of its workers", lambda: not workers_of(process))
    assert not (run / ".complete").exists()


class Cluster:
    """A real scheduler and its workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, folder / "notes"
        self.processes: list[subprocess.Popen[bytes]] = []
        (folder / "notes.py").write_text(PRELOAD)
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(folder / "file.json"))
        until("a scheduler", (folder / "file.json").is_file)
        self.address: str = json.loads((folder / "file.json").read_text())["address"]

    def add_worker(self) -> subprocess.Popen[bytes]:
        return self._start(
            "worker",
            self.address,
            "--nthreads",
            "1",
            "--no-nanny",
            "--preload",
            str(self.folder / "notes.py"),
            "--local-directory",
            str(self.folder),
        )

    def noted(self, state: str) -> list[tuple[int, str]]:
        """Process and task of everything that came into a state so far."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        words = [line.split() for line in lines]
        return [(int(pid), key) for pid, key, noted in words if noted == state]

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{what}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "NOTES": str(self.notes)},
            )
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed", reason="sweeps on a Dask cluster: pip install 'penstock[dask]'")
    folder = tmp_path / "cluster"
    folder.mkdir()
    started = Cluster(folder)
    try:
        yield started
    finally:
        started.close()


def chunk_of(key: str) -> str:
    return f"{int(key.rpartition('-')[2]):05d}"


def test_a_dask_worker_that_is_killed_loses_no_point_and_no_finished_one_is_repeated(
    sweep: Path, tmp_path: Path, cluster: Cluster
) -> None:
    run = tmp_path / "run"
    workers = {worker.pid: worker for worker in (cluster.add_worker(), cluster.add_worker())}
    process = start(sweep, "-o", run, "--scheduler", cluster.address)

    def busiest() -> tuple[int, int]:
        """Chunks of the worker that has played most of them, and its process: the loss that hurts most."""
        done = Counter(pid for pid, key in cluster.noted("memory") if "chunk" in key)
        return max(((count, pid) for pid, count in done.items()), default=(0, 0))

    until("some chunks", lambda: len(chunks(run)) >= 4 and busiest()[0] >= 2)
    victim = workers[busiest()[1]]
    victim.kill()
    finished = set(chunks(run))
    assert len(finished) < POINTS // 24, "the worker was killed too late to show anything"
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert f"{POINTS} points, simulated" in out
    check_whole(sweep, run)

    done = [(pid, chunk_of(key)) for pid, key in cluster.noted("memory") if "chunk" in key]
    times = Counter(chunk for _, chunk in done)
    assert set(times) == {f"{i:05d}" for i in range(POINTS // 24)}
    assert [chunk for chunk in finished if times[chunk] != 1] == []
    # What the victim had begun and not ended was played by the other one.
    ended = {chunk for pid, chunk in done if pid == victim.pid}
    begun = {chunk_of(key) for pid, key in cluster.noted("executing") if pid == victim.pid and "chunk" in key}
    others = {chunk for pid, chunk in done if pid != victim.pid}
    assert begun - ended <= others


def test_an_address_where_no_scheduler_answers_is_an_error_with_a_remedy(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed", reason="sweeps on a Dask cluster: pip install 'penstock[dask]'")
    from penstock.lab.sweeps import scheduler

    monkeypatch.setattr(scheduler, "WAIT_S", 1)
    assert main(["sweep", str(sweep), "-o", str(tmp_path / "run"), "--scheduler", "tcp://127.0.0.1:9"]) == 1
    said = capsys.readouterr().err
    assert "no scheduler answers there" in said
    assert "dask scheduler" in said


def test_the_same_file_gives_the_same_table_here_and_on_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    sweep = tmp_path / "small.toml"
    sweep.write_text(SWEEP.replace("[1, 2, 4, 8, 16, 32]", "[1, 2]"))
    cluster.add_worker()
    for name, options in (("here", ["--workers", "1"]), ("there", ["--scheduler", cluster.address])):
        assert main(["sweep", str(sweep), "-o", str(tmp_path / name), *options]) == 0
    assert (tmp_path / "here" / "results.parquet").read_bytes() == (tmp_path / "there" / "results.parquet").read_bytes()
