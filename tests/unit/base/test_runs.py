"""Run folders: what is written is whole, what is killed resumes, what is not ours is left alone."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.base.runs import folder as folders
from penstock.base.runs import record
from penstock.base.runs.folder import DifferentRun, NotARun, RunFolder
from penstock.base.runs.lock import RunInUse
from penstock.base.runs.record import DamagedRun
from penstock.base.runs.tables import COLUMNS
from penstock.base.system import files
from penstock.base.system.files import TEMPORARY_PREFIX, FileError
from penstock.errors import PenstockError
from support.small_disk import needs_mounts, on_a_small_disk

CONFIG = {"workload": "inner-product", "params": "toy-insecure", "seed": 3, "threads": 1, "tiers": ("hbm", "rdma")}


def row(quantity: str = "wall_s", value: float | None = 1.5, **more: object) -> dict[str, object]:
    return {"quantity": quantity, "value": value, "unit": "s", "provenance": "measured", **more}


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def python(code: str, *arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **more,  # type: ignore[call-overload]
    )


@needs_mounts
def test_a_really_full_disk_keeps_the_finished_stages(tmp_path):
    done = on_a_small_disk(
        tmp_path,
        """
        import random, sys
        from pathlib import Path
        from penstock.base.system.files import FileError
        from penstock.base.runs.folder import RunFolder
        run = RunFolder.create(Path(sys.argv[1]) / "run", {"workload": "w"})
        row = lambda n: {"quantity": "q", "value": random.random(), "unit": "s", "provenance": "measured", "note": n}
        run.append_rows("small", [row("a")])
        try:
            run.append_rows("large", [row(str(random.random())) for _ in range(20000)])
        except FileError as error:
            print(error)
        run.close()
        run = RunFolder.open_or_resume(Path(sys.argv[1]) / "run", {"workload": "w"})
        print(run.stages(), sorted(p.name for p in (run.path / "stages").iterdir()))
    """,
    )
    assert done.returncode == 0, done.stderr
    assert "the disk is full" in done.stdout
    assert done.stdout.splitlines()[-1] == "['small'] ['small.parquet']"


@needs_mounts
def test_a_read_only_file_system_is_named_with_the_remedy(tmp_path):
    done = on_a_small_disk(
        tmp_path,
        """
        import subprocess, sys
        from pathlib import Path
        from penstock.errors import PenstockError
        from penstock.base.runs.folder import RunFolder
        subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
        try:
            RunFolder.create(Path(sys.argv[1]) / "run", {})
        except PenstockError as error:
            print(error.exit_code, error)
    """,
    )
    assert done.stdout.startswith("1 "), done.stderr
    assert "read-only; write to a folder on a writable file system" in done.stdout


# Creating and resuming.


def test_a_new_run_records_configuration_host_and_versions(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        record = json.loads((run.path / "run.json").read_text())
    assert record["config"] == {**CONFIG, "tiers": ["hbm", "rdma"]}
    assert record["seed"] == 3
    assert record["threads"] == 1
    assert record["penstock_version"]
    assert record["host"]["cores"] >= 1
    assert record["host"]["memory_bytes"] > 2**20
    assert set(record["host"]) >= {"cpu_model", "kernel", "governor"}
    assert record["started"].endswith("+00:00")


def test_default_paths_stay_below_the_runs_folder_whatever_the_name():
    assert RunFolder.default_path("../../etc/x y").parent == Path("runs")
    assert RunFolder.default_path("../../etc/x y").name.endswith("-etc-x-y")


@pytest.mark.parametrize("force", [False, True])
def test_a_path_that_is_a_file_is_refused(tmp_path, force):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(DifferentRun, match="is a file; name a folder"):
        RunFolder.open_or_resume(tmp_path / "run", CONFIG, force=force)
    assert (tmp_path / "run").read_text() == "mine"


def test_a_folder_of_somebody_else_is_refused_and_force_leaves_their_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "notes.txt").write_text("mine too")
    for make in (RunFolder.create, RunFolder.open_or_resume):
        with pytest.raises(DifferentRun, match="--force") as caught:
            make(tmp_path, CONFIG)
        assert caught.value.exit_code == 2
    RunFolder.open_or_resume(tmp_path, CONFIG, force=True).close()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "stages" / "notes.txt").read_text() == "mine too"


def test_another_configuration_is_refused_and_says_what_differs(tmp_path):
    RunFolder.create(tmp_path / "run", CONFIG).close()
    with pytest.raises(DifferentRun, match="seed: 3 there, 4 now") as caught:
        RunFolder.open_or_resume(tmp_path / "run", {**CONFIG, "seed": 4})
    assert "workload" not in str(caught.value)


def test_how_the_command_was_typed_does_not_make_another_run(tmp_path):
    RunFolder.create(tmp_path / "run", {**CONFIG, "command": "penstock analyze x"}).close()
    RunFolder.open_or_resume(tmp_path / "run", {**CONFIG, "command": "penstock analyze x --quiet"}).close()


def test_force_replaces_a_finished_run_with_an_empty_one(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("measured", [row()])
        run.finish()
    with RunFolder.open_or_resume(tmp_path / "run", {**CONFIG, "seed": 4}, force=True) as run:
        assert not run.complete
        assert run.stages() == []
        assert run.config["seed"] == 4
    assert [name for name in names(tmp_path / "run") if not name.startswith(".replaced")] == [".lock", "run.json"]


def test_force_replaces_a_run_of_another_verb(tmp_path):
    """What it measured must not be read as the new run's."""
    path = tmp_path / "run"
    RunFolder.create(path, {**CONFIG, "verb": "bench"}).close()
    for folder in ("bench", "traces", "chunks"):
        (path / folder).mkdir()
        (path / folder / "a.parquet").touch()
        (path / folder / f"{TEMPORARY_PREFIX}0").touch()
    (path / "traces" / "mine.txt").touch()
    for name in ("bench.parquet", "profile.json", "stacks.folded", "report.html"):
        (path / name).touch()
    RunFolder.open_or_resume(path, {**CONFIG, "verb": "analyze"}, force=True).close()
    assert names(path) == [".lock", "run.json", "traces/mine.txt"]
    assert not (path / "chunks").exists()


def test_force_leaves_parts_in_a_folder_that_is_no_run(tmp_path):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "mine.parquet").touch()
    RunFolder.create(tmp_path, CONFIG, force=True).close()
    assert names(tmp_path) == [".lock", "run.json", "traces/mine.parquet"]


def test_a_complete_run_is_returned_complete_and_a_second_time_too(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("measured", [row()])
        run.finish()
    for _ in range(2):
        run = RunFolder.open_or_resume(tmp_path / "run", CONFIG)
        assert run.complete
        assert run.stage_rows("measured")[0]["value"] == 1.5


def test_a_complete_run_whose_results_are_gone_resumes_with_a_warning(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("measured", [row()])
        run.finish()
    (tmp_path / "run" / "results.csv").unlink()
    with RunFolder.open_or_resume(tmp_path / "run", CONFIG) as run:
        assert not run.complete
        assert "results files were gone" in run.warnings[0]["what"]
        assert run.has_stage("measured")
        run.finish()
    assert (tmp_path / "run" / "results.csv").is_file()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "cannot be read"), (b'{"config": {}', "cannot be read"), (b"[]", "no configuration"),
     (b'{"config": {}}', "schema version"), (b'{"config": {}, "schema_version": 99}', "update penstock")],
)  # fmt: skip
def test_a_damaged_or_newer_run_json_is_an_error_with_a_remedy(tmp_path, content, message):
    (tmp_path / "run.json").write_bytes(content)
    for open_it in (RunFolder.open, lambda path: RunFolder.open_or_resume(path, CONFIG)):
        with pytest.raises(DamagedRun, match=message):
            open_it(tmp_path)


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"warnings": 3}, "'warnings'"), ({"warnings": [{"what": "x"}]}, "'warnings\\[0\\].remedy'"),
     ({"warnings": ["x"]}, "'warnings\\[0\\]'"), ({"host": "x"}, "'host'"), ({"skipped": {}}, "'skipped'"),
     ({"host": {"memory_bytes": "x"}}, "'host.memory_bytes'"), ({"host": {"cpu_model": []}}, "'host.cpu_model'"),
     ({"config": {"machines": 3}}, "'config.machines'"), ({"config": {"num_points": "x"}}, "'config.num_points'"),
     ({"config": {"kind": "sweep"}, "skipped": ["x"]}, "'skipped\\[0\\]'"), ({"assumptions": 3}, "'assumptions'"),
     ({"started": 3}, "'started'"), ({"schema_version": True}, "names no schema version")],
)  # fmt: skip
def test_a_value_of_another_type_in_run_json_is_named(tmp_path, changed, named):
    RunFolder.create(tmp_path / "run", CONFIG).close()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(record | changed))
    with pytest.raises(DamagedRun, match=rf"cannot be read \(.*{named}.*--force"):
        RunFolder.open(tmp_path / "run")


def test_a_path_that_is_no_run_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in (
        (tmp_path / "missing", "does not exist"),
        (tmp_path / "file", "is a file"),
        (tmp_path, "no run.json"),
    ):
        with pytest.raises(NotARun, match=message):
            RunFolder.open(path)


def test_the_newest_unfinished_run_of_the_same_configuration_is_found(tmp_path):
    for time_stamp, seed in (("20260101T000000", 3), ("20260102T000000", 3), ("20260103T000000", 4)):
        RunFolder.create(tmp_path / f"{time_stamp}-w", {**CONFIG, "seed": seed}).close()
    newest = tmp_path / "20260102T000000-w"
    assert RunFolder.find_unfinished("w", CONFIG, root=tmp_path) == newest
    with RunFolder.open_or_resume(newest, CONFIG) as run:
        assert RunFolder.find_unfinished("w", CONFIG, root=tmp_path) == tmp_path / "20260101T000000-w"
        run.finish()
    assert RunFolder.find_unfinished("w", CONFIG, root=tmp_path) == tmp_path / "20260101T000000-w"
    assert RunFolder.find_unfinished("other", CONFIG, root=tmp_path) is None


def test_a_resume_by_another_version_or_machine_is_a_warning(tmp_path, monkeypatch):
    RunFolder.create(tmp_path / "run", CONFIG).close()
    monkeypatch.setattr(record, "__version__", "9.9.9")
    here = record.host_description()
    monkeypatch.setattr(record, "host_description", lambda: {**here, "cpu_model": "another"})
    with RunFolder.open_or_resume(tmp_path / "run", CONFIG) as run:
        text = " ".join(w["what"] for w in run.warnings)
        assert "9.9.9 when it was resumed" in text
        assert "on one machine and resumed on another" in text
        assert len(run.record["resumed"]) == 1


# Rows.


def test_rows_come_back_complete_typed_and_with_defaults_from_the_configuration(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("simulate", [row("io_s", float("nan"), cache_bytes=2**40, hit_ratio=0.5, limbs=7)])
    got = RunFolder.open(tmp_path / "run").stage_rows("simulate")
    assert list(got[0]) == list(COLUMNS)
    assert got[0]["value"] is None
    assert got[0]["cache_bytes"] == 2**40
    assert got[0]["workload"] == "inner-product"
    assert got[0]["params"] == "toy-insecure"
    assert got[0]["machine"] is None
    assert got[0]["stage"] == "simulate"


@pytest.mark.parametrize(
    ("bad", "message"),
    [({"speed": 1}, "unknown columns"), ({"unit": ""}, "lacks"), ({"provenance": "guessed"}, "guessed"),
     ({"provenance": None}, "lacks"), ({"kind": {"a": 1}}, "one value")],
)  # fmt: skip
def test_a_row_that_breaks_the_contract_is_refused_and_nothing_is_stored(tmp_path, bad, message):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        with pytest.raises(ValueError, match=message):
            run.append_rows("measured", [row(), row(**bad)])
        assert not run.has_stage("measured")


def test_a_stage_is_stored_once_and_names_are_checked(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("measured", [row()])
        with pytest.raises(ValueError, match="stored already"):
            run.append_rows("measured", [row()])
        with pytest.raises(ValueError, match="lower-case"):
            run.append_rows("../x", [row()])


def test_results_hold_all_stages_in_order_as_parquet_and_csv(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("zeta", [row(value=1 / 3, note='a "quoted", note\nof two lines')])
        run.append_rows("alpha", [row(value=None), row(value=2.0, tier="hbm")])
        run.append_rows("empty", [])
        assert run.stages() == ["zeta", "alpha", "empty"]
        assert not (run.path / ".complete").exists()
        run.finish()
        table = pq.read_table(run.path / "results.parquet")
        read = list(csv.DictReader(io.StringIO((run.path / "results.csv").read_text())))
    assert table.column_names == list(COLUMNS)
    assert table["value"].to_pylist() == [1 / 3, None, 2.0]
    assert [r["value"] for r in read] == [repr(1 / 3), "", "2.0"]
    assert read[0]["note"] == 'a "quoted", note\nof two lines'
    assert json.loads((tmp_path / "run" / ".complete").read_text())["num_rows"] == 3


def test_a_run_opened_to_read_refuses_to_write(tmp_path):
    RunFolder.create(tmp_path / "run", CONFIG).close()
    run = RunFolder.open(tmp_path / "run")
    for write in (lambda: run.append_rows("a", []), run.finish, lambda: run.update(check={})):
        with pytest.raises(ValueError, match="opened to read"):
            write()


def test_sections_of_run_json_are_kept_and_the_folders_own_are_protected(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.update(check={"max_abs_error": float("inf"), "passed": True}, path=Path("x"))
        run.warn("a", "b")
        run.warn("a", "b")
        with pytest.raises(ValueError, match="config"):
            run.update(config={})
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["check"] == {"max_abs_error": None, "passed": True}
    assert record["warnings"] == [{"what": "a", "remedy": "b"}]
    assert record["path"] == "x"


def test_the_same_timeline_gives_the_same_bytes(tmp_path, monkeypatch):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.write_timeline({"events": [1, 2]})
        first = run.timeline_path.read_bytes()
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 100)  # gzip would store the second
        run.write_timeline({"events": [1, 2]})
        assert run.timeline_path.read_bytes() == first
    assert json.loads(gzip.decompress(first)) == {"events": [1, 2]}


# Killed, damaged, shared.

KILLED = """
    import os, signal, sys
    from pathlib import Path
    from penstock.base.system import files
    from penstock.base.runs.folder import RunFolder

    def row(v):
        return {"quantity": "q", "value": v, "unit": "s", "provenance": "measured"}

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    run = RunFolder.open_or_resume(Path(sys.argv[1]), {"workload": "w"})
    for stage in ("one", "two", "three"):
        if run.has_stage(stage):
            print("kept", stage)
            continue
        print("did", stage, flush=True)
        if (sys.argv[2], stage) == ("rename", "two"):
            files._publish = die
        run.append_rows(stage, [row(len(stage))])
        if (sys.argv[2], stage) == ("between", "two"):
            die()
    if sys.argv[2] == "complete":
        real, run._unused = files._publish, None
        files._publish = lambda t, target, force: die() if target.name == ".complete" else real(t, target, force)
    run.finish()
    print("finished")
"""


@pytest.mark.parametrize(
    ("when", "kept"), [("rename", ["one"]), ("between", ["one", "two"]), ("complete", ["one", "two", "three"])]
)
def test_a_killed_run_resumes_without_repeating_finished_stages(tmp_path, when, kept):
    folder = tmp_path / "run"
    killed = python(KILLED, folder, when)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "finished" not in killed.stdout
    assert not (folder / ".complete").exists()
    leftovers = [name for name in names(folder) if files.TEMPORARY_PREFIX in name]
    assert bool(leftovers) == (when != "between")

    resumed = python(KILLED, folder, "no")
    assert resumed.returncode == 0, resumed.stderr
    every = ["one", "two", "three"]
    assert resumed.stdout.split("\n")[:3] == [f"{'kept' if s in kept else 'did'} {s}" for s in every]
    run = RunFolder.open(folder)
    assert run.complete
    assert run.stages() == every
    assert not [name for name in names(folder) if files.TEMPORARY_PREFIX in name]


def test_a_resumed_run_ends_with_the_same_results_as_one_that_was_not_killed(tmp_path):
    for folder, when in (("whole", "no"), ("killed", "between"), ("killed", "no")):
        python(KILLED, tmp_path / folder, when)
    for name in ("results.parquet", "results.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def damaged(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "empty":
        content = bytearray()
    else:
        content[content.index(b"measured", 8)] ^= 0x20
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "empty", "changed"])
def test_a_damaged_stage_is_repeated_with_a_warning(tmp_path, how):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        for stage in ("one", "two", "three"):
            run.append_rows(stage, [row(note=stage)])
    damaged(tmp_path / "run" / "stages" / "two.parquet", how)

    reader = RunFolder.open(tmp_path / "run")
    assert reader.stages() == ["one", "three"]
    assert "stages/two.parquet is damaged" in reader.warnings[0]["what"]

    with RunFolder.open_or_resume(tmp_path / "run", CONFIG) as run:
        assert run.has_stage("one")
        assert not run.has_stage("two")
        run.append_rows("two", [row(note="again")])
        assert run.stages() == ["one", "two", "three"]
        run.finish()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert ["stage 'two'" in w["what"] for w in record["warnings"]] == [True]
    assert pq.read_table(tmp_path / "run" / "results.parquet")["note"].to_pylist() == ["one", "again", "three"]


def test_a_stage_that_the_system_does_not_let_be_read_is_no_damaged_one(tmp_path, monkeypatch):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("one", [row()])

    def refused(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr("penstock.base.system.tables.parquet.check_seal", refused)
    with (
        RunFolder.open_or_resume(tmp_path / "run", CONFIG) as run,
        pytest.raises(FileError, match=r"one\.parquet: the disk reported an error"),
    ):
        run.has_stage("one")
    assert (tmp_path / "run" / "stages" / "one.parquet").is_file()


def test_rows_that_somebody_changed_are_noticed(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("one", [row(value=1.0)])
    path = tmp_path / "run" / "stages" / "one.parquet"
    table = pq.read_table(path)
    changed = table.set_column(2, table.schema.field(2), [[2.0]]).replace_schema_metadata(table.schema.metadata)
    pq.write_table(changed, path)
    run = RunFolder.open(tmp_path / "run")
    assert not run.has_stage("one")
    assert "checksum" in run.warnings[0]["what"]


def test_every_flipped_byte_of_a_stage_is_noticed_or_harmless(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.append_rows("one", [row(note="abc")])
    path = tmp_path / "run" / "stages" / "one.parquet"
    whole, expected = path.read_bytes(), RunFolder.open(tmp_path / "run").stage_rows("one")
    for position in range(0, len(whole), 37):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        got = RunFolder.open(tmp_path / "run").stage_rows("one")
        assert got in ([], expected)


def test_two_processes_cannot_write_one_folder(tmp_path):
    code = """
        import sys
        from pathlib import Path
        from penstock.base.runs.folder import RunFolder
        from penstock.errors import PenstockError
        try:
            RunFolder.open_or_resume(Path(sys.argv[1]), {"workload": "w"})
            print("got it")
        except PenstockError as error:
            print(error.exit_code, error)
    """
    with RunFolder.create(tmp_path / "run", {"workload": "w"}) as run:
        assert (
            f"1 {run.path} is being written by another penstock (process {os.getpid()})"
            in python(code, run.path).stdout
        )
        with pytest.raises(RunInUse):
            RunFolder.open_or_resume(run.path, {"workload": "w"})
        with pytest.raises(RunInUse):
            RunFolder.open_or_resume(run.path, {"workload": "w"}, force=True)
        assert RunFolder.open(run.path).config == {"workload": "w"}
    assert python(code, run.path).stdout == "got it\n"


def test_a_failed_start_gives_the_lock_back(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise FileError(tmp_path, "write", OSError(errno.ENOSPC, "full"))

    with monkeypatch.context() as broken:
        broken.setattr(folders, "write_atomic", refuse)
        with pytest.raises(PenstockError):
            RunFolder.create(tmp_path / "run", CONFIG)
    RunFolder.open_or_resume(tmp_path / "run", CONFIG).close()


# Progress.
