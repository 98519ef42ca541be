"""`--force` of a run folder: a finished run is there, whole, until another one has taken its place."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from penstock.base.runs import replaced
from penstock.base.runs.folder import DifferentRun, RunFolder
from penstock.base.runs.replaced import REPLACED
from penstock.base.system.files import os_errors

OLD, NEW = {"workload": "w", "seed": 1}, {"workload": "w", "seed": 2}


class Killed(BaseException):
    """Nothing that follows is done."""


def fill(run: RunFolder) -> None:
    for stage in ("one", "two"):
        run.append_rows(stage, [{"quantity": "q", "value": 1.5, "unit": "s", "provenance": "measured"}])
    (run.path / "report").mkdir(exist_ok=True)
    for name in ("traces/a.parquet", "report/overview.svg", "profile.json"):
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text(str(run.config["seed"]))


def finished(path: Path, config: dict[str, object], *, force: bool = False) -> None:
    with RunFolder.open_or_resume(path, config, force=force) as run:
        fill(run)
        run.finish()


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != ".lock"}


def test_a_finished_run_waits_aside_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "run"
    finished(path, OLD)
    (path / "traces" / "mine.txt").write_text("mine")
    before = contents(path)
    with RunFolder.open_or_resume(path, NEW, force=True) as run:
        waiting = contents(path / REPLACED)
        assert waiting | {"traces/mine.txt": b"mine"} == before
        assert sorted(contents(path)) == sorted(["run.json", "traces/mine.txt", *(f"{REPLACED}/{n}" for n in waiting)])
        fill(run)
    # The same command goes on, with and without --force, and keeps the finished one.
    RunFolder.open_or_resume(path, NEW).close()
    RunFolder.open_or_resume(path, NEW, force=True).close()
    assert contents(path / REPLACED) == waiting
    assert RunFolder.open(path / REPLACED).complete
    finished(path, NEW)
    assert (RunFolder.open(path).config["seed"], (path / REPLACED).exists()) == (2, False)
    assert (path / "traces" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("next_is", ["read", "the command of the old run", "--force"])
def test_wherever_a_replacing_is_killed_the_finished_run_is_found_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_is: str
) -> None:
    rename, cuts = Path.rename, 0
    finished(tmp_path / "old", OLD)
    before = contents(tmp_path / "old")
    for left in count():
        path, allowed = tmp_path / str(left), [left]
        shutil.copytree(tmp_path / "old", path)

        def counted(self: Path, target: Path, allowed: list[int] = allowed) -> Path:
            if not allowed[0]:
                raise Killed
            allowed[0] -= 1
            return rename(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", counted)
            try:
                RunFolder.create(path, NEW, force=True).close()
                break
            except Killed:
                cuts += 1
        if next_is == "--force":
            RunFolder.create(path, NEW, force=True).close()
            assert contents(path / REPLACED) == before
        else:
            run = RunFolder.open(path) if next_is == "read" else RunFolder.open_or_resume(path, OLD)
            assert run.complete
            assert contents(path) == before
    assert cuts == len(before)


def test_what_is_left_of_a_deleting_that_was_killed_is_never_taken_into_the_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink
    finished(tmp_path / "new", NEW)
    whole = contents(tmp_path / "new")
    finished(tmp_path / "new" / REPLACED, OLD)
    for left in count():
        path, allowed = tmp_path / str(left), [left]
        shutil.copytree(tmp_path / "new", path)

        def counted(self: Path, missing_ok: bool = False, allowed: list[int] = allowed) -> None:
            if self.exists():
                if not allowed[0]:
                    raise Killed
                allowed[0] -= 1
            unlink(self, missing_ok=missing_ok)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", counted)
            try:
                replaced.remove_replaced(path)
                break
            except Killed:
                pass
        assert RunFolder.open_or_resume(path, NEW).complete
        assert {name: each for name, each in contents(path).items() if not name.startswith(REPLACED)} == whole
    assert left == len(whole)


def test_a_folder_with_nothing_but_a_replaced_run_is_free(tmp_path: Path) -> None:
    finished(tmp_path, OLD)
    with os_errors(tmp_path):
        replaced.put_aside(tmp_path)
    RunFolder.create(tmp_path, NEW).close()
    with pytest.raises(DifferentRun, match="--force"):
        RunFolder.create(tmp_path, NEW)
    assert RunFolder.open(tmp_path / REPLACED).complete
