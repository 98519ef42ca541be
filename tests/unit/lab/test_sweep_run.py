"""Sweeps played: the rows of `simulate`, one table, nothing repeated and nothing lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.base.system.workers import Workers
from penstock.errors import CapabilityMissing, PenstockError
from penstock.front.cli.main import main
from penstock.lab.simulation.cluster.flows import pattern_seconds
from penstock.lab.simulation.cluster.simgrid import SimGrid, SimGridFailed
from penstock.lab.sweeps import local
from penstock.lab.sweeps.local import play_in_processes
from penstock.lab.sweeps.plan import CHUNK_POINTS, plan
from penstock.lab.sweeps.play import SCHEMA, Played
from penstock.lab.sweeps.run import config_of, run_sweep
from penstock.lab.sweeps.scheduler import play_on_cluster
from penstock.lab.sweeps.spec import parse_sweep
from penstock.lab.sweeps.store import ChunkStore, DamagedResults, read_results
from support.sweep_rows import planned, played_here, rows_of, simulated

SWEEP = """
workload = "inner-product"
params = "sharp"
machine = "sharp"
key_form = ["full", "seeded"]
tier = ["hbm", "ddr5", "pcie5", "rdma"]
hit_ratio = [0, 0.5]
cache = ["1 GiB", "4 GiB"]
policy = ["lru", "optimal"]
mode = ["serial", "overlap"]
"""
CLUSTERS = """
workload = "inner-product"
params = "sharp"
machine = "sharp"
tier = ["pcie5", "rdma"]
mode = ["serial", "bound"]
hosts = [1, 2, 4]
network = ["ethernet-400", "fastfabric-300"]
"""


def folder(path: Path, text: str = SWEEP) -> RunFolder:
    sweep = parse_sweep(text, "test")
    return RunFolder.open_or_resume(path, config_of(sweep, plan(sweep)))


def same(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> None:
    """Every value that `simulate` prints; times to rounding, since it adds one host up in another order."""
    assert len(ours) == len(theirs)
    for row, expected in zip(ours, theirs, strict=True):
        for name, value in expected.items():
            want = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
            assert row[name] == want, name


# Rows.
def test_rows_of_one_host_are_those_of_simulate(capsys):
    rows = rows_of(planned(SWEEP))
    for form in ("full", "seeded"):
        common = ["--key-form", form, "--mode", "serial", "--mode", "overlap"]
        stated = simulated(capsys, *common, "--hit-ratio", "0", "--hit-ratio", "0.5")
        sizes = ["--cache", "1 GiB", "--cache", "4 GiB", "--policy", "lru", "--policy", "optimal"]
        cached = simulated(capsys, *common, *sizes)
        same([row for row in rows if row["key_form"] == form], [*stated, *cached])


def test_rows_of_clusters_are_those_of_simulate(capsys):
    options = ["--tier", "pcie5", "--tier", "rdma", "--mode", "serial", "--mode", "bound", "--hosts", "1,2,4"]
    theirs = simulated(capsys, *options, "--network", "ethernet-400", "--network", "fastfabric-300")
    same(rows_of(planned(CLUSTERS)), theirs)


def test_prefetching_and_decoding_are_those_of_simulate(capsys):
    text = SWEEP.partition("key_form")[0] + (
        'tier = "rdma"\nmode = "overlap"\nprefetch = ["none", "perfect"]\nprefetch_buffer = "64 MB"\n'
        'decode = "10 GB/s"\nclasses = ["keys", "ciphertexts"]\n'
    )
    options = ["--tier", "rdma", "--mode", "overlap", "--decode", "10 GB/s", "--classes", "keys,ciphertexts"]
    theirs = simulated(capsys, *options, "--prefetch", "none", "--prefetch", "perfect", "--prefetch-buffer", "64 MB")
    rows = rows_of(planned(text))
    same(rows, theirs)
    assert {(row["decode_bytes_per_s"], row["classes"]) for row in rows} == {(1e10, "key,ciphertext")}


def test_a_trace_file_is_a_workload(capsys, tmp_path):
    from penstock.program.running import trace_workload
    from penstock.scheme.traces.io import write_trace

    write_trace(trace_workload("inner-product", "sharp"), tmp_path / "own.parquet")
    text = f'workload = "{tmp_path}/own.parquet"\nmachine = "sharp"\ntier = "pcie5"'
    same(rows_of(planned(text)), simulated(capsys, "--tier", "pcie5"))


def test_two_traces_of_one_workload_are_told_apart(tmp_path):
    from penstock.program.running import trace_workload
    from penstock.scheme.traces.io import write_trace

    short, long = (f"{tmp_path}/{name}.parquet" for name in ("short", "long"))
    write_trace(trace_workload("inner-product", "sharp", "demo"), Path(short))
    write_trace(trace_workload("inner-product", "sharp", "ci"), Path(long))
    text = f"""
        workload = ["{short}", "{long}"]
        machine = "sharp"
        tier = "pcie5"
        [[sweep]]
        seed = 3
        [[sweep]]
        with = "{long}"
        [[sweep]]
        with = "{long}"
        interleave = "time"
    """
    rows = rows_of(planned(text))
    told = [tuple(row[name] for name in ("trace", "seed", "beside", "interleave")) for row in rows]
    assert told == [
        *((each, None, None, None) for each in (short, long)),
        *((each, None, long, order) for order in ("round-robin", "time") for each in (short, long)),
    ]
    (row,) = rows_of(planned('workload = "inner-product"\nmachine = "sharp"\ntier = "pcie5"\nseed = 5'))
    assert (row["trace"], row["seed"], row["interleave"]) == (None, 5, None)


def test_a_program_that_cannot_be_is_skipped_with_the_reason():
    # The trace finds out: resnet20-multiplexed is deeper than a set without bootstrapping.
    found = planned('workload = "resnet20-multiplexed"\nsize = "ci"\nparams = "openfhe-demo"\nmachine = "sharp"')
    (played,) = played_here(found)
    assert played.table.num_rows == 0
    assert sum(played.skipped.values()) == found.num_points == 4
    assert all("resnet20-multiplexed ci at openfhe-demo on sharp" in what and why for what, why in played.skipped)


def test_a_point_that_fails_leaves_the_others_of_its_group(monkeypatch):
    from penstock.lab.simulation import play

    found, real = planned(CLUSTERS), play.play_clusters

    def refuses_two_hosts(program, clusters, points, **others):
        if any(cluster.hosts == 2 for cluster in clusters):
            raise PenstockError("two hosts do not go")
        return real(program, clusters, points, **others)

    monkeypatch.setattr(play, "play_clusters", refuses_two_hosts)
    done = played_here(found)
    rows = [row for played in done for row in played.table.to_pylist()]
    assert {row["hosts"] for row in rows} == {1, 4}
    assert sum((played.skipped for played in done), Counter()).total() == 8
    assert len(rows) == found.num_points - 8


# SimGrid.
JUDGED = CLUSTERS.replace("[1, 2, 4]", "[2, 4]") + 'engine = ["penstock", "simgrid"]\n'


class Slower(SimGrid):
    """As the engine, with every message taking twice as long; fails so many times first."""

    failures = 0

    def seconds(self, topology, network, patterns):
        if self.failures:
            self.failures -= 1
            raise SimGridFailed("the SimGrid worker was killed by SIGKILL")
        return [2 * pattern_seconds(topology, network, pattern) for pattern in patterns]


def judged(monkeypatch: pytest.MonkeyPatch, failures: int) -> list[Played]:
    from penstock.lab.sweeps import play

    judge = Slower(python="a stand-in")
    judge.failures = failures
    monkeypatch.setattr(play, "_simgrid", lambda: judge)
    return played_here(planned(JUDGED))


def test_rows_of_simgrid_stand_beside_the_engines(monkeypatch):
    rows = [row for played in judged(monkeypatch, 0) for row in played.table.to_pylist()]
    own, theirs = ([row for row in rows if row["engine"] == name] for name in ("penstock", "simgrid"))
    for ours, judge in zip(own, theirs, strict=True):
        assert {name for name in ours if ours[name] != judge[name]} <= {
            "point_id",
            "engine",
            "communication_s",
            "total_s",
            "slowdown",
            "speedup",
            "simgrid_difference",
        }
        assert judge["communication_s"] == pytest.approx(2 * ours["communication_s"], rel=1e-12)
        assert judge["simgrid_difference"] == pytest.approx(1.0)
        assert ours["simgrid_difference"] is None
        if judge["mode"] == "serial":
            assert judge["total_s"] == pytest.approx(ours["total_s"] + ours["communication_s"])


@pytest.mark.parametrize("failures", [1, 2])
def test_a_worker_of_simgrid_that_is_killed_is_replaced(monkeypatch, failures):
    done = judged(monkeypatch, failures)
    assert sum(played.table.num_rows for played in done) == planned(JUDGED).num_points
    assert not any(played.skipped for played in done)


def test_a_point_that_simgrid_cannot_play_is_reported_by_its_name(monkeypatch):
    done = judged(monkeypatch, 1000)
    rows = [row for played in done for row in played.table.to_pylist()]
    assert {row["engine"] for row in rows} == {"penstock"}
    skipped = sum((played.skipped for played in done), Counter())
    assert skipped.total() == planned(JUDGED).num_points - len(rows)
    label = "inner-product at sharp on sharp, 4 hosts, fastfabric-300, star, rplp, bound, simgrid"
    assert skipped[label.replace("product at", "product full at"), "the SimGrid worker was killed by SIGKILL"] == 2


def test_without_simgrid_nothing_is_played_and_the_remedy_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SIMGRID_PYTHON", "/nonexistent/python")
    (tmp_path / "mine.toml").write_text(JUDGED)
    assert main(["sweep", str(tmp_path / "mine.toml"), "-o", str(tmp_path / "run"), "--workers", "1"]) == 3
    assert "make simgrid" in capsys.readouterr().err
    assert not list((tmp_path / "run").glob("chunks/*"))
    assert main(["sweep", str(tmp_path / "mine.toml"), "--dry-run"]) == 0


def test_a_worker_without_simgrid_ends_the_sweep_instead_of_skipping(monkeypatch):
    from penstock.lab.sweeps import play

    monkeypatch.setattr(play, "_simgrid", lambda: SimGrid(python="/nonexistent/python"))
    with pytest.raises(CapabilityMissing, match="make simgrid"):
        played_here(planned(JUDGED))


# Run folders.
@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_one_parquet_in_the_order_of_the_points(tmp_path, workers):
    found = planned(SWEEP)
    with folder(tmp_path / "run") as run:
        outcome = run_sweep(found, run, workers=workers)
    table = pq.read_table(tmp_path / "run" / "results.parquet")
    assert table.schema.equals(SCHEMA)
    assert table["point_id"].to_pylist() == [point.id for chunk in found.chunks for point in chunk.points]
    assert table.to_pylist() == rows_of(found)
    assert (outcome.num_rows, outcome.resumed, outcome.played) == (found.num_points, 0, found.num_points)
    assert pacsv.read_csv(tmp_path / "run" / "results.csv").num_rows == found.num_points
    assert RunFolder.open(tmp_path / "run").complete
    assert not (tmp_path / "run" / "chunks").exists()


def test_results_are_the_same_bytes_again(tmp_path):
    for name, workers in (("one", 1), ("two", 2)):
        with folder(tmp_path / name, CLUSTERS) as run:
            run_sweep(planned(CLUSTERS), run, workers=workers)
    assert (tmp_path / "one" / "results.parquet").read_bytes() == (tmp_path / "two" / "results.parquet").read_bytes()


def interrupted(path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> list[int]:
    """A sweep that is interrupted after so many chunks; the chunks that it played."""
    done: list[int] = []
    real = local.play_chunk

    def counted(program, priced, chunk):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(chunk.index)
        return real(program, priced, chunk)

    with monkeypatch.context() as patched, folder(path) as run:
        patched.setattr(local, "play_chunk", counted)
        with pytest.raises(KeyboardInterrupt):
            run_sweep(planned(SWEEP), run, workers=1)
    return done


def test_an_interrupted_sweep_keeps_its_points_and_goes_on_with_the_others(tmp_path, monkeypatch):
    path, found = tmp_path / "run", planned(SWEEP)
    assert len(found.chunks) > 3
    done = interrupted(path, monkeypatch, after=2)
    assert read_results(path).num_rows == 2 * CHUNK_POINTS[0]
    again = interrupted(path, monkeypatch, after=1)
    assert not set(done) & set(again)
    with folder(path) as run:
        outcome = run_sweep(found, run, workers=1)
    assert outcome.resumed == 3 * CHUNK_POINTS[0]
    assert read_results(path).to_pylist() == rows_of(found)


@pytest.mark.parametrize(
    ("where", "said"), [("update", "8 of 8 points are kept"), ("write_results", "what is finished is kept")]
)
def test_an_interrupt_after_the_last_point_is_one_and_the_same_command_goes_on(
    tmp_path, monkeypatch, capsys, where, said
):
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "clusters.toml").write_text(CLUSTERS.replace('"pcie5", "rdma"', '"rdma"').replace("2, 4", "2"))
    command = ["sweep", str(tmp_path / "clusters.toml"), "-o", str(tmp_path / "run"), "--workers", "1"]
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder if where == "update" else ChunkStore, where, interrupt)
        assert main(command) == 130
    assert said in capsys.readouterr().err
    assert main(command) == 0
    assert read_results(tmp_path / "run").num_rows == 8


def test_a_damaged_chunk_is_repeated(tmp_path, monkeypatch):
    path, found = tmp_path / "run", planned(SWEEP)
    interrupted(path, monkeypatch, after=3)
    first, second = path / "chunks" / "00000.parquet", path / "chunks" / "00001.parquet"
    first.write_bytes(first.read_bytes()[:-40])
    (path / "chunks" / "00002.parquet").write_bytes(second.read_bytes())  # whole, but of other points
    with folder(path) as run:
        outcome = run_sweep(found, run, workers=1)
        assert [warning["what"].split(" (")[0] for warning in run.warnings[:2]] == [
            "chunk 0 was damaged",
            "chunk 2 was damaged",
        ]
    assert outcome.resumed == CHUNK_POINTS[0]
    assert read_results(path).to_pylist() == rows_of(found)


def test_changed_results_are_noticed(tmp_path):
    with folder(tmp_path / "run", CLUSTERS) as run:
        run_sweep(planned(CLUSTERS), run, workers=1)
    file = tmp_path / "run" / "results.parquet"
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(DamagedResults, match="checksum"):
        read_results(tmp_path / "run")


# Processes.
def test_a_killed_worker_loses_no_point(tmp_path):
    found, kept = planned(SWEEP), []

    def keep(played: Played) -> None:
        if not kept:
            (victim, *_) = [p for p in multiprocessing.active_children() if p.pid]
            os.kill(victim.pid, signal.SIGKILL)
        kept.append(played)

    play_in_processes(found, found.chunks, keep, workers=2, scratch=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert sorted(played.index for played in kept) == [chunk.index for chunk in found.chunks]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_is_killed_when_nothing_is_left_to_do_holds_nobody_up(tmp_path, victim):
    found, kept = planned(SWEEP), []

    def keep(played: Played) -> None:
        kept.append(played)
        if len(kept) == len(found.chunks):
            os.kill(sorted(p.pid for p in multiprocessing.active_children() if p.pid)[victim], signal.SIGKILL)

    play_in_processes(found, found.chunks, keep, workers=2, scratch=tmp_path)
    assert sorted(played.index for played in kept) == [chunk.index for chunk in found.chunks]


def test_workers_that_keep_dying_are_an_error_with_a_remedy(tmp_path, monkeypatch):
    give = Workers.give
    monkeypatch.setattr(Workers, "give", lambda self, task, *_: give(self, task, os._exit, 1))
    found = planned(SWEEP)
    with pytest.raises(PenstockError, match=r"killed 4 times .* fewer --workers"):
        play_in_processes(found, found.chunks, lambda played: None, workers=2, scratch=tmp_path)


# The command.
def test_the_command_writes_prints_and_resumes(capsys, tmp_path):
    file, path = tmp_path / "mine.toml", tmp_path / "run"
    file.write_text(CLUSTERS)
    assert main(["sweep", str(file), "-o", str(path), "--workers", "1", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == rows_of(planned(CLUSTERS))
    assert main(["sweep", str(file), "-o", str(path)]) == 0
    said = capsys.readouterr()
    assert "24 points are there already and were not repeated" in said.err
    assert "24 points, simulated" in said.out
    file.write_text(CLUSTERS.replace("[1, 2, 4]", "[1, 2]"))
    assert main(["sweep", str(file), "-o", str(path)]) == 2
    assert "another configuration" in capsys.readouterr().err
    assert main(["sweep", str(file), "-o", str(path), "--force", "--workers", "1", "--quiet"]) == 0
    assert read_results(path).num_rows == 16


def test_a_dry_run_says_what_there_is_and_plays_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(CLUSTERS + 'partition = ["rplp", "by-ciphertext"]')
    assert main(["sweep", "mine.toml", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "36 points of 1 programs" in said
    assert "skipped: partition by-ciphertext (12 points): it has modes serial and overlap, not bound" in said
    assert main(["sweep", "mine.toml", "--dry-run", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "workload,size,params,machine,key_form,points,skipped"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_topology_that_changes_is_played_anew(tmp_path):
    file = tmp_path / "topo.toml"
    cables = '[["a", "s1"], ["b", "s1"], ["c", "s2"], ["d", "s2"], ["s1", "s2", {}]]'
    text = (
        'workload = "inner-product"\nparams = "sharp"\nmachine = "sharp"\ntier = "hbm"\nhosts = 4\n'
        f'network = "ethernet-400"\ntopology = "{file}"\n'
    )
    took = []
    for width in (0.1, 0.5):
        file.write_text(f'hosts = ["a", "b", "c", "d"]\ncables = {cables.format(width)}')
        (row,) = rows_of(planned(text))
        took.append(row["communication_s"])
    assert took[1] < 0.5 * took[0]
    # A worker that has lived through the change plays what is in the file now.
    found = planned(text)
    file.write_text(f'hosts = ["a", "b", "c", "d"]\ncables = {cables.format(0.1)}')
    assert [row["communication_s"] for row in rows_of(found)] == took[:1]


IMPOSSIBLE = 'workload = "logistic-regression"\nparams = "native"\nmachine = {}\ntier = "hbm"\n'
"""At its own parameters 'heap' does not bootstrap: the trace finds out."""


def test_a_dry_run_names_the_programs_that_cannot_be(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(IMPOSSIBLE.format('["sharp", "heap"]'))
    assert main(["sweep", str(file), "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 points of 1 programs, in 1 chunks" in said
    assert "at heap on heap (1 points): " in said
    assert main(["sweep", str(file), "--dry-run", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["machine"], row["points"], bool(row["skipped"])) for row in rows] == [
        ("sharp", 1, False),
        (None, 1, True),
    ]


def test_a_sweep_of_which_no_point_can_be_ends_with_an_error(capsys, tmp_path):
    file, path = tmp_path / "mine.toml", tmp_path / "run"
    file.write_text(IMPOSSIBLE.format('"heap"'))
    for options in (["--dry-run"], ["-o", str(path), "--workers", "1"], ["-o", str(path)]):
        assert main(["sweep", str(file), *options]) == 2
        assert "sweep 'mine' has no point to play: logistic-regression" in capsys.readouterr().err
    assert read_results(path).num_rows == 0


def test_skipped_points_are_reported_and_kept(capsys, tmp_path):
    file, path = tmp_path / "mine.toml", tmp_path / "run"
    file.write_text(CLUSTERS.replace('params = "sharp"', 'params = ["sharp", "openfhe-demo"]').replace("hosts", "#"))
    file.write_text(file.read_text() + 'partition = ["rplp", "by-ciphertext"]')
    assert main(["sweep", str(file), "-o", str(path), "--workers", "1"]) == 0
    assert "skipped: partition by-ciphertext" in capsys.readouterr().err
    record = json.loads((path / "run.json").read_text())
    assert record["num_skipped"] == sum(entry["points"] for entry in record["skipped"]) > 0


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--scheduler", "localhost:8786"], 2, "tcp://host:8786"),
        (["--scheduler", "tcp://localhost:1", "--workers", "2"], 2, "give one"),
        (["--workers", "0"], 2, "workers"),
    ],
)
def test_options_that_do_not_go(capsys, tmp_path, options, code, said):
    (tmp_path / "mine.toml").write_text(CLUSTERS)
    assert main(["sweep", str(tmp_path / "mine.toml"), *options]) == code
    assert said in capsys.readouterr().err


def test_what_dask_logs_of_a_lost_connection_is_not_printed():
    # In a process of its own: loggers belong to the whole process, and Dask sets them up when it is imported.
    script = """
import logging
from penstock.lab.sweeps.scheduler import _own_words

names = ("distributed.core", "tornado.application", "asyncio")
logging.basicConfig(format="%(name)s %(message)s")
logging.getLogger("tornado.application").setLevel(logging.ERROR)  # as Dask does


def say(text):
    for name in names:
        logging.getLogger(name).error(text)


with _own_words():
    say("in-it")
say("after-it")
try:
    with _own_words():
        raise OSError("lost")
except OSError:
    say("after-an-error")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.split() == [
        "distributed.core",
        "after-it",
        "tornado.application",
        "after-it",
        "asyncio",
        "after-it",
    ]


def test_without_dask_the_remedy_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    (tmp_path / "mine.toml").write_text(CLUSTERS)
    assert main(["sweep", str(tmp_path / "mine.toml"), "--scheduler", "tcp://localhost:8786"]) == 3
    assert "pip install 'penstock[dask]'" in capsys.readouterr().err


def test_workers_of_another_version_are_refused(monkeypatch):
    client = SimpleNamespace(
        wait_for_workers=lambda n, timeout: None,
        run=lambda function, on_error: {"tcp://1": "0.0.0"},
        close=lambda timeout: None,
    )
    error = type("Never", (Exception,), {})
    fake = SimpleNamespace(
        Client=lambda *_, **__: client,
        KilledWorker=error,
        CancelledError=error,
        client=SimpleNamespace(FutureCancelledError=error),
        comm=SimpleNamespace(CommClosedError=error),
    )
    monkeypatch.setitem(sys.modules, "distributed", fake)
    with pytest.raises(PenstockError, match=r"worker tcp://1 has penstock 0\.0\.0"):
        play_on_cluster(planned(SWEEP), [], lambda played: None, address="tcp://localhost:8786")
