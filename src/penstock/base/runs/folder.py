"""Run folders: all decisions, measurements, predictions and simulations of a run, written during the run.

A finished stage becomes a file of rows, so that a killed run resumes at the first missing stage. `.complete` is written
last. docs/reference/run-folder.md documents every file and column.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from penstock.base.runs.lock import is_locked, take_lock
from penstock.base.runs.record import (
    DamagedRun,
    differences,
    identity,
    json_bytes,
    new_record,
    read_ended,
    read_record,
    timestamp,
)
from penstock.base.runs.replaced import contents, put_aside, remove_replaced, repair, take_back
from penstock.base.runs.tables import RESULTS_SCHEMA, as_csv, read_stage, results_table, sequence_of, signed
from penstock.base.system.files import file_sha256, os_errors, remove_leftovers, write_atomic
from penstock.base.system.outside import reason
from penstock.base.system.plain import plain
from penstock.base.system.tables import parquet
from penstock.base.types import Row, Rows, RowView
from penstock.errors import PenstockError, UsageError

_OWN_SECTIONS = frozenset(
    {"schema_version", "id", "config", "penstock_version", "commit", "host", "openfhe_version", "python_version",
     "threads", "seed", "started", "resumed", "artifacts"}
)  # fmt: skip
_STAGE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
TABLES = ("results.parquet", "bench.parquet")
"""Tables that a run makes from its parts; their digests are in `run.json`."""
_AGAIN = "run the same command again with --force"


class NotARun(UsageError):
    """The path leads to no run folder."""


class DifferentRun(UsageError):
    """The folder holds another run, or files that no run wrote."""


class RunFolder:
    """One run's folder. Build it with `create` or `open_or_resume` to write, with `open` to read.

    A writer holds the folder's lock until `close` (or the end of its `with` block). Not thread safe.
    """

    def __init__(self, path: Path, record: Row, lock: int | None) -> None:
        self.path = path
        self.record = record
        """The content of `run.json`."""
        self._lock = lock
        self._verified: dict[str, tuple[int, pa.Table]] = {}
        self._damaged: dict[str, str] = {}
        """Stage -> why its rows cannot be read."""

    # Opening.

    @staticmethod
    def default_path(name: str, *, root: Path = Path("runs"), now: datetime | None = None) -> Path:
        """`runs/<YYYYmmddTHHMMSS>-<name>`, in local time.

        >>> RunFolder.default_path("helr", now=datetime(2026, 11, 21, 9, 5, 0))
        PosixPath('runs/20261121T090500-helr')
        """
        now = now or datetime.now()
        return root / f"{now:%Y%m%dT%H%M%S}-{_file_name(name)}"

    @classmethod
    def find_unfinished(cls, name: str, config: RowView, *, root: Path = Path("runs")) -> Path | None:
        """The newest unfinished folder below `root` of this name and configuration that nobody writes now."""
        wanted = identity(config)
        for path in sorted(root.glob(f"*-{_file_name(name)}"), reverse=True):
            try:
                run = cls.open(path)
            except PenstockError:
                continue
            if not run.complete and identity(run.config) == wanted and not is_locked(path):
                return path
        return None

    @classmethod
    def create(cls, path: Path, config: RowView, *, force: bool = False) -> RunFolder:
        """A new run in a folder that is missing or empty; `force` replaces a run that is there.

        `force` takes only the files that runs write; whatever else lies in the folder stays. Those of a finished run
        wait in `.replaced/` until the new one is complete.

        Raises: DifferentRun: the folder is not empty. RunInUse: another process writes it. FileError: the disk.
        """
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise DifferentRun(f"{path} is a file; name a folder for the run")
        with os_errors(path, "create"):
            path.mkdir(parents=True, exist_ok=True)
        lock = take_lock(path)
        try:
            take_back(path)
            if contents(path):
                if not force:
                    raise DifferentRun(
                        f"{path} is not empty: it is not overwritten; name another folder, or use --force to "
                        "replace the run in it"
                    )
                put_aside(path)
            remove_leftovers(path)
            run = cls(path, new_record(config), lock)
            run._save()
        except BaseException:
            os.close(lock)
            raise
        return run

    @classmethod
    def open_or_resume(cls, path: Path, config: RowView, *, force: bool = False) -> RunFolder:
        """The run of `config` in `path`: new, resumed, or already complete (`run.complete`; then open to read).

        Raises: DifferentRun: the folder holds another configuration or foreign files, and `force` is false.
                DamagedRun: a table of a complete run is not the one that it wrote.
        """
        path = Path(path)
        repair(path)
        if force or not path.is_dir() or not contents(path):
            return cls.create(path, config, force=force)
        if not (path / "run.json").is_file():
            raise DifferentRun(
                f"{path} holds files but no run.json: it is not a run folder and is not overwritten; name another "
                "folder, or use --force to write into it"
            )
        run = cls._same_run(path, config)
        if run.complete and run.has_results:
            run.check_tables()
            return run
        lock = take_lock(path)
        try:
            run = cls._same_run(path, config)  # again: whoever held the lock may have changed the folder
            run._lock = lock
            if run.complete and run.has_results:
                run.close()
                return run
            for folder in (path, path / "stages", path / "report"):
                remove_leftovers(folder)
            if run.complete:
                with os_errors(path / ".complete", "delete"):
                    (path / ".complete").unlink()
                run.warn(
                    f"{path.name} was marked complete, but its results files were gone",
                    "they are written again from the stages; keep a copy of results.parquet outside the folder",
                )
            run._note_resume()
        except BaseException:
            os.close(lock)
            raise
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run in `path`, to read. Takes no lock.

        Raises: NotARun: `path` is missing, a file, or a folder without `run.json`. DamagedRun: it cannot be read.
        """
        path = Path(path)
        if not path.is_dir():
            state = "is a file" if path.exists() else "does not exist"
            raise NotARun(f"{path} {state}; name a run folder, such as runs/<time>-<name>")
        repair(path)
        if not (path / "run.json").is_file():
            raise NotARun(f"{path} is not a run folder: it holds no run.json; name one that 'penstock analyze' wrote")
        return cls(path, read_record(path), None)

    @classmethod
    def _same_run(cls, path: Path, config: RowView) -> RunFolder:
        run = cls(path, read_record(path), None)
        differing = differences(run.config, config)
        if differing:
            raise DifferentRun(
                f"{path} holds a run with another configuration ({'; '.join(differing)}); name another folder, "
                "repeat the command with the old values to resume it, or use --force to replace it"
            )
        return run

    @property
    def has_results(self) -> bool:
        """Whether the merged results files are there."""
        return all((self.path / name).is_file() for name in ("results.parquet", "results.csv"))

    def close(self) -> None:
        """Let other processes write the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Properties of a run.

    @property
    def config(self) -> Row:
        """The resolved configuration that the run was started with."""
        config: Row = self.record["config"]
        return config

    @property
    def id(self) -> str | None:
        """What tells this run's tables from another's; `None`: an older version made it."""
        identifier = self.record.get("id")
        return identifier if isinstance(identifier, str) else None

    @property
    def complete(self) -> bool:
        """Whether the run was finished."""
        return (self.path / ".complete").is_file()

    @property
    def warnings(self) -> list[dict[str, str]]:
        """`{"what", "remedy"}` of everything that a reader of the results should know."""
        warnings: list[dict[str, str]] = self.record.setdefault("warnings", [])
        return warnings

    @property
    def trace_path(self) -> Path:
        return self.path / "trace.parquet"

    @property
    def timeline_path(self) -> Path:
        return self.path / "timeline.json.gz"

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    @property
    def overview_path(self) -> Path:
        return self.path / "report" / "overview.svg"

    def update(self, **sections: object) -> None:
        """Write sections of `run.json` (`params`, `check`, `assumptions`, …); a section is replaced whole."""
        taken = sorted(_OWN_SECTIONS & set(sections))
        if taken:
            raise ValueError(f"run.json sections {taken} belong to the run folder; choose other names")
        self.record.update({name: plain(value) for name, value in sections.items()})
        self._save()

    def warn(self, what: str, remedy: str) -> None:
        """Keep a warning with its remedy; the same one twice is kept once. Saved where the run is being written."""
        warning = {"what": what, "remedy": remedy}
        if warning not in self.warnings:
            self.warnings.append(warning)
            if self._lock is not None:
                self._save()

    # Stages.

    def append_rows(self, stage: str, rows: Iterable[RowView]) -> None:
        """Store the rows of a stage and mark it done, in one step.

        A row needs `quantity`, `value`, `unit` and `provenance`; `workload` and `params` come from the configuration
        where a row leaves them out; every other column is null then. Not a number becomes null.

        Raises: ValueError: the stage is stored already, a column is unknown or required and missing.
        """
        self._writable()
        if not _STAGE_NAME.fullmatch(stage):
            raise ValueError(f"stage name '{stage}': lower-case letters, digits, '-' and '_' only")
        if self.has_stage(stage):
            raise ValueError(f"stage '{stage}' of {self.path} is stored already; ask has_stage() first")
        defaults = {"workload": self.config.get("workload"), "params": self.config.get("params")}
        table = results_table(stage, rows, defaults)
        taken = {sequence_of(path) for path in self._stage_files()}
        sequence = next(number for number in itertools.count() if number not in taken)
        described = signed(table, self.id, **{"penstock.sequence": str(sequence)})
        folder = self.path / "stages"
        with os_errors(folder, "create"):
            folder.mkdir(exist_ok=True)
        parquet.store_table(described, self._stage_path(stage), compression="zstd", write_page_checksum=True)
        self._verified[stage] = (sequence, table)

    def has_stage(self, stage: str) -> bool:
        """Whether the stage is done. A damaged file is put away with a warning, so that the stage is repeated.

        Raises: FileError: the system does not let it be read.
        """
        if stage in self._verified:
            return True
        path = self._stage_path(stage)
        if not path.is_file():
            return False
        try:
            self._verified[stage] = read_stage(path, self.id)
        except (DamagedRun, KeyError, ValueError) as error:
            self._damaged[stage] = reason(error)
            if self._lock is not None:
                with os_errors(path, "delete"):
                    path.unlink(missing_ok=True)
                self.warn(
                    f"the stored rows of stage '{stage}' were damaged ({reason(error)}); the stage was repeated",
                    "check the disk if this comes back",
                )
            else:
                self.warn(self._left_out(stage), _AGAIN)
            return False
        return True

    def damage(self, *stages: str) -> list[str]:
        """Files of stages whose rows a reader misses, each with the reason and the remedy; of all stages by default.

        Raises: DamagedRun: `.complete` cannot be read.
        """
        ended = read_ended(self.path).get("stages") if self.complete else None
        noted = [name for name in ended if isinstance(name, str)] if isinstance(ended, list) else []
        wanted = [*stages] or list(dict.fromkeys([*noted, *(path.stem for path in self._stage_files())]))
        lost = []
        for name in wanted:
            if not self.has_stage(name) and (name in noted or name in self._damaged):
                lost.append(f"{self._left_out(name)}; {_AGAIN}")
        return lost

    def _left_out(self, stage: str) -> str:
        why = f"damaged ({self._damaged[stage]})" if stage in self._damaged else "gone"
        return f"{self._stage_path(stage)} is {why}: its rows are left out"

    def stages(self) -> list[str]:
        """Names of the stages that are done, in the order in which they were."""
        names = [path.stem for path in self._stage_files() if self.has_stage(path.stem)]
        return sorted(names, key=lambda name: (self._verified[name][0], name))

    def stage_table(self, stage: str) -> pa.Table:
        """The rows of a stage as a table of `RESULTS_SCHEMA`; empty where the stage is not done."""
        return self._verified[stage][1] if self.has_stage(stage) else RESULTS_SCHEMA.empty_table()

    def stage_rows(self, stage: str) -> Rows:
        """The rows of a stage, every column present, null as `None`; empty where the stage is not done."""
        rows: Rows = self.stage_table(stage).to_pylist()
        return rows

    def results(self) -> pa.Table:
        """The rows of all stages that are done."""
        return pa.concat_tables([RESULTS_SCHEMA.empty_table(), *(self.stage_table(stage) for stage in self.stages())])

    # Other files.

    def note_artifact(self, name: str) -> None:
        """Record the digest of a file of the run, so that a later stage notices where it has changed."""
        self.record["artifacts"] = {**self._artifacts(), name: file_sha256(self.path / name)}
        self._save()

    def check_artifact(self, name: str) -> None:
        """Check a file that an earlier stage wrote. A file without a recorded digest is accepted.

        Raises: DamagedRun: it is gone, or not the file that the run wrote. FileError: it cannot be read.
        """
        wanted, path = self._artifacts().get(name), self.path / name
        if wanted is None:
            return
        again = "delete it and run the same command again" if name in TABLES else "run it again with --force"
        with os_errors(path, "read"):
            there = path.exists()
        if not there:
            raise DamagedRun(f"{path} is gone, which the run wrote; put the old file back, or {again}")
        if file_sha256(path) != wanted:
            raise DamagedRun(
                f"{path} is not the file that the run wrote: it does not match its checksum in run.json; "
                f"put the old file back, or {again}"
            )

    def check_tables(self) -> None:
        """Check the tables that the run made of its parts, where they are there.

        Raises: as `check_artifact`.
        """
        for name in TABLES:
            if (self.path / name).is_file():
                self.check_artifact(name)

    def _artifacts(self) -> dict[str, str]:
        artifacts = self.record.get("artifacts")
        return artifacts if isinstance(artifacts, dict) else {}

    def write_results(self) -> None:
        """Write `results.parquet` and `results.csv` from the stages that are done so far."""
        self._writable()
        table = self.results()
        parquet.store_table(table, self.path / "results.parquet", compression="zstd")
        write_atomic(self.path / "results.csv", as_csv(table), force=True)
        self.note_artifact("results.parquet")

    def write_timeline(self, timeline: object) -> None:
        """Write `timeline.json.gz`; the same content gives the same bytes."""
        self._writable()
        text = json.dumps(plain(timeline), separators=(",", ":"), allow_nan=False)
        write_atomic(self.timeline_path, gzip.compress(text.encode(), mtime=0), force=True)

    def finish(self) -> None:
        """Merge the stages into the results files and write `.complete`, which ends the run."""
        self.write_results()
        self.mark_complete(stages=self.stages(), num_rows=self.results().num_rows)

    def mark_complete(self, **facts: object) -> None:
        """Write `.complete` with these facts, for a run that has written its results files itself."""
        self._writable()
        self._save()
        ended = {"finished": timestamp(), **facts}
        write_atomic(self.path / ".complete", json_bytes(ended), force=True)
        remove_replaced(self.path)

    # Inside.

    def _writable(self) -> None:
        if self._lock is None:
            raise ValueError(f"{self.path} was opened to read; use open_or_resume() to write")

    def _save(self) -> None:
        self._writable()
        write_atomic(self.path / "run.json", json_bytes(self.record), force=True)

    def _note_resume(self) -> None:
        now = new_record(self.config)
        for name, what in (
            ("penstock_version", "penstock"),
            ("commit", "penstock's commit"),
            ("openfhe_version", "OpenFHE"),
        ):
            if self.record.get(name) != now[name]:
                self.warn(
                    f"{what} was {self.record.get(name)} when the run started and {now[name]} when it was resumed",
                    "start the run again in a new folder for results of one version",
                )
        before = {k: v for k, v in self.record.get("host", {}).items() if k in ("cpu_model", "cores", "memory_bytes")}
        if before != {k: now["host"][k] for k in before}:
            self.warn(
                "the run was started on one machine and resumed on another",
                "start the run again in a new folder for measurements of one machine",
            )
        self.record.setdefault("resumed", []).append(now["started"])
        self._save()

    def _stage_path(self, stage: str) -> Path:
        return self.path / "stages" / f"{stage}.parquet"

    def _stage_files(self) -> list[Path]:
        return [p for p in sorted((self.path / "stages").glob("*.parquet")) if _STAGE_NAME.fullmatch(p.stem)]


# Rows and files.


def check_written(path: Path) -> None:
    """Check a file against the `run.json` in its folder; a file outside of a run folder is accepted.

    Raises: as `RunFolder.open` and `RunFolder.check_artifact`.
    """
    if (path.parent / "run.json").is_file():
        RunFolder.open(path.parent).check_artifact(path.name)


def folder_around(path: Path) -> Path | None:
    """The run folder in which a file lies, or would lie, wherever links lead; `None`: in none."""
    for folder in Path(os.path.realpath(path)).parents:
        with suppress(PenstockError):
            read_record(folder)
            return folder
    return None


def _file_name(name: str) -> str:
    """`name` with everything but letters, digits, dots and dashes replaced, so that it stays one path component."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "run"
