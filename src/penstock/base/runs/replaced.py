"""The files that runs write in a folder, and the waiting place of a finished run's files until a new run replaces it.

`--force` puts them in `.replaced/`, `run.json` last, and they go when the new run is complete. So no kill loses a
finished run: without a `run.json` in `.replaced/` the move was cut off, and the next start takes it back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.base.runs.lock import RunInUse, take_lock
from penstock.base.system.files import TEMPORARY_PREFIX, FileError, os_errors, remove_leftovers, sync_folder

REPLACED = ".replaced"
_RECORD, _COMPLETE = "run.json", ".complete"
_FILES = (
    _COMPLETE, "results.parquet", "results.csv", "trace.parquet", "timeline.json.gz", "this-cpu.toml", "report.html",
    "report/overview.svg", "bench.parquet", "profile.json", "perf-stat.txt", "flamegraph.svg", "stacks.folded",
    "speedscope.json", _RECORD,
)  # fmt: skip
"""Files that runs of any verb write; the record comes last."""
_PART_FOLDERS = ("stages", "bench", "traces", "chunks")
"""Where they keep parts, as Parquet files."""


def put_aside(path: Path) -> None:
    """Move the files of a finished run in `path` to `.replaced/`; delete the files of an unfinished one. Others stay.

    Raises: FileError.
    """
    old = path / REPLACED
    if not ((path / _COMPLETE).is_file() and (path / _RECORD).is_file()):
        clear(path)
        return
    remove_replaced(path)
    with os_errors(old, "create"):
        old.mkdir(exist_ok=True)
    _move(path, old)


def take_back(path: Path) -> None:
    """Undo a move to `.replaced/` that was cut off.

    Raises: FileError.
    """
    old = path / REPLACED
    if old.is_dir() and not (old / _RECORD).exists() and (path / _RECORD).exists():
        _move(old, path)
        _remove_if_empty(old)


def contents(path: Path) -> list[str]:
    """Names of what lies in a folder; the lock, a replaced run, and leftovers of a killed process do not count."""
    with os_errors(path, "read"):
        names = sorted(entry.name for entry in path.iterdir())
    return [name for name in names if name not in (".lock", REPLACED) and not name.startswith(TEMPORARY_PREFIX)]


def repair(path: Path) -> None:
    """Give a finished run its files back, where a replacing was killed before the new run began."""
    if not (path / REPLACED).is_dir() or (path / REPLACED / "run.json").exists():
        return
    try:
        lock = take_lock(path)
    except (RunInUse, FileError):
        return  # it is being replaced now, or may only be read
    try:
        take_back(path)
    finally:
        os.close(lock)


def remove_replaced(path: Path) -> None:
    """Delete the run that waits in `.replaced/`.

    Raises: FileError.
    """
    old = path / REPLACED
    if old.is_dir():
        _clear(old, _PART_FOLDERS)
        _remove_if_empty(old)


def clear(path: Path) -> None:
    """Delete the files of a run, of whatever verb, and nothing else.

    Raises: FileError.
    """
    # Other programs have folders of these names too.
    _clear(path, _PART_FOLDERS if (path / _RECORD).is_file() else _PART_FOLDERS[:1])


def _clear(path: Path, folders: tuple[str, ...]) -> None:
    """`.complete` goes first, and the record last: the record tells a kill's leftovers from a move that was cut off."""
    with os_errors(path, "clear"):
        (path / _COMPLETE).unlink(missing_ok=True)
    for folder in folders:
        clear_parts(path / folder)
    with os_errors(path, "clear"):
        for name in _FILES:
            if not (path / name).is_dir():
                (path / name).unlink(missing_ok=True)
    _remove_if_empty(path / "report")


def clear_parts(folder: Path) -> None:
    """Delete the parts in a folder of a run, and the folder where it holds nothing else."""
    with os_errors(folder, "clear"):
        for part in sorted(folder.glob("*.parquet")):
            part.unlink(missing_ok=True)
    _remove_if_empty(folder)


def _move(source: Path, target: Path) -> None:
    with os_errors(source, "move"):
        for name in _names(source):
            (target / name).parent.mkdir(exist_ok=True)
            (source / name).rename(target / name)
        sync_folder(target)
        sync_folder(source)
    for folder in (*_PART_FOLDERS, "report"):
        _remove_if_empty(source / folder)


def _names(path: Path) -> Iterator[str]:
    for folder in _PART_FOLDERS:
        for part in sorted((path / folder).glob("*.parquet")):
            yield f"{folder}/{part.name}"
    yield from (name for name in _FILES if (path / name).is_file())


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir():
        remove_leftovers(folder)
        with suppress(OSError):  # holds something that is not ours
            folder.rmdir()
