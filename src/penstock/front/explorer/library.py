"""The files that the explorer may read: the catalogue, the run folders below one folder, and files named at the start.

An address names these things; it never holds a path. Files of others are taken as hostile. A name is looked up in a
listing, a link out of the runs' folder is not followed, and an impossibly large file is refused.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base.runs.folder import TABLES, RunFolder
from penstock.base.system.files import os_errors, readable
from penstock.base.system.outside import TooLarge, content_of, json_of
from penstock.base.types import Rows
from penstock.errors import PenstockError, UnknownName, UsageError
from penstock.front.explorer.state import FILE, own_rate
from penstock.lab.reports.sweep import is_sweep
from penstock.lab.simulation.names import ON_CHIP, one_of
from penstock.program.workloads import ProgramKind, kind_of
from penstock.program.workloads import names as workload_names
from penstock.scheme.machines import (
    Machine,
    Network,
    Tier,
    load_machine,
    load_network,
    load_tier,
    machine_names,
    network_names,
    tier_names,
)
from penstock.scheme.machines.catalogue import FITTED_MACHINE, read_machine
from penstock.scheme.play.caches import POLICIES
from penstock.scheme.play.own import placed
from penstock.scheme.traces.inspect import read_program
from penstock.scheme.traces.schema import Trace

DEFAULT_RUNS = Path("runs")
RUN = "run:"
"""Prefix of the names of runs, as `FILE` of files that were named at the start."""
MAX_RECORD_BYTES = 8 * 2**20
MAX_MACHINE_BYTES = 2**20
MAX_TRACE_BYTES = 512 * 2**20
MAX_RESULTS_BYTES = 256 * 2**20
MAX_REPORT_BYTES = 64 * 2**20
MAX_RUNS = 1000
MOST_LOOKED = 200
"""Runs whose record is read to find sweeps for a menu."""
BENCH_FILE = "bench.parquet"
"""The timings of a run of `penstock bench run`."""
PREDICTIONS_REMEDY = "write it with 'penstock predict validate --format json'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Everything that has a name in the explorer."""

    runs: Path = DEFAULT_RUNS
    machine_files: dict[str, Path] = field(default_factory=dict)
    """Name -> path of the machine files that were named at the start."""
    trace_files: dict[str, Path] = field(default_factory=dict)
    program_files: dict[str, Path] = field(default_factory=dict)
    """Programs of the user's own, and packages."""
    policy_files: dict[str, Path] = field(default_factory=dict)
    """Replacement policies and prefetchers of the user's own."""
    prediction_files: dict[str, Path] = field(default_factory=dict)
    """Rows of `penstock predict validate --format json`."""

    @classmethod
    def of(
        cls,
        runs: Path,
        machines: Iterable[Path] = (),
        traces: Iterable[Path] = (),
        predictions: Iterable[Path] = (),
        policies: Iterable[Path] = (),
    ) -> Library:
        """A library with these files. Traces, packages and programs (Python files) are read when they are asked for.

        Raises: UsageError: two files of one name, a policy that is none; MachineError: of a machine file; FileError;
                TooLarge.
        """
        library = cls(runs=runs)
        for path in machines:
            _add(library.machine_files, _machine(path).name, path)
        for path in traces:
            if kind_of(path.name) in (ProgramKind.PACKAGE, ProgramKind.PROGRAM):
                _check_file(path, sys.maxsize)  # constants, the most of a package, are not read here
                _add(library.program_files, readable(path.name), path)
            else:
                _check_file(path, MAX_TRACE_BYTES)
                _add(library.trace_files, readable(path.stem), path)
        for path in predictions:
            _add(library.prediction_files, readable(path.stem), path)
            library.predictions(readable(path.stem))
        for path in policies:
            _check_file(path, MAX_MACHINE_BYTES)
            if placed([str(path)])["interleave"]:
                raise UsageError(f"{path} is a schedule of programs: the explorer takes replacement and prefetchers")
            _add(library.policy_files, readable(path.name), path)
        return library

    # Names.

    def run_names(self) -> list[str]:
        """Run folders, the one that was written last first. Bytes of a name that are not UTF-8 are escaped."""
        return list(self._run_paths())

    def _run_paths(self) -> dict[str, Path]:
        if not self.runs.is_dir():
            return {}
        with os_errors(self.runs, "read"):
            dated = [(written, path.name) for path in self.runs.iterdir() if (written := _written_ns(path)) is not None]
        return {readable(name): self.runs / name for _, name in sorted(dated, reverse=True)[:MAX_RUNS]}

    def workloads(self) -> list[str]:
        traced = [RUN + name for name, path in self._run_paths().items() if (path / "trace.parquet").is_file()]
        files = [*self.trace_files, *self.program_files]
        return [*workload_names(), *(FILE + name for name in files), *traced]

    def machines(self) -> list[str]:
        file = f"{FITTED_MACHINE}.toml"
        fitted = [RUN + name for name, path in self._run_paths().items() if (path / file).is_file()]
        return [*machine_names(), *(FILE + name for name in self.machine_files), *fitted]

    # The file or record behind a name.

    def run_path(self, name: str) -> Path:
        """The run folder of that name.

        Raises: UnknownName: the listing has no such folder.
        """
        paths = self._run_paths()
        one_of("run", name, paths)
        return paths[name]

    def open_run(self, name: str) -> RunFolder:
        """A run folder, to read.

        Raises: UnknownName; DamagedRun; TooLarge: its files are larger than runs write; UsageError: a link leads out.
        """
        path = self.run_path(name)
        _check_file(self._inside(path / "run.json"), MAX_RECORD_BYTES)
        stages = path / "stages"
        if stages.is_dir():
            inside = [self._inside(file) for file in stages.iterdir() if file.is_file()]
            _check_size(stages, MAX_RESULTS_BYTES, sum(file.stat().st_size for file in inside))
        for name in TABLES:
            if (path / name).exists():
                _check_file(self._inside(path / name), MAX_RESULTS_BYTES)
        run = RunFolder.open(path)
        run.check_tables()
        return run

    def report_path(self, name: str) -> Path:
        """The report of a run.

        Raises: UnknownName: no such run; FileError: it has no report; TooLarge.
        """
        path = self._inside(self.run_path(name) / "report.html")
        _check_file(path, MAX_REPORT_BYTES)
        return path

    def bench_path(self, name: str) -> Path | None:
        """The timings of a run of `penstock bench run`; `None`: that run has none.

        Raises: UnknownName: no such run; UsageError: a link that leads out; TooLarge.
        """
        path = self.run_path(name) / BENCH_FILE
        if not path.exists():
            return None
        _check_file(self._inside(path), MAX_RESULTS_BYTES)
        return path

    def bench_names(self) -> list[str]:
        """Runs of `penstock bench run`, the one that was written last first."""
        return [name for name, path in self._run_paths().items() if (path / BENCH_FILE).is_file()]

    def sweep_names(self) -> list[str]:
        """Sweeps that can be read, the one that was written last first; of the newest runs only."""
        sweeps = list[str]()
        for name in self.run_names()[:MOST_LOOKED]:
            with suppress(PenstockError):
                if self.sweep_path(name) is not None:
                    sweeps.append(name)
        return sweeps

    def sweep_path(self, name: str) -> Path | None:
        """The results of a sweep; `None`: another sort of run, or a sweep without results.

        Raises: UnknownName: no such run; UsageError: a link that leads out; DamagedRun; TooLarge.
        """
        folder = self.run_path(name)
        path = folder / "results.parquet"
        _check_file(self._inside(folder / "run.json"), MAX_RECORD_BYTES)
        if not is_sweep(RunFolder.open(folder)) or not path.exists():
            return None
        _check_file(self._inside(path), MAX_RESULTS_BYTES)
        return path

    def predictions(self, name: str) -> Rows:
        """The rows of a file of predictions.

        Raises: UnknownName: no such file was named; UsageError: it holds something else; FileError; TooLarge.
        """
        one_of("file of predictions", name, self.prediction_files)
        path = self.prediction_files[name]
        _check_file(path, MAX_RECORD_BYTES)
        text = content_of(path)
        try:
            rows = json_of(text)
            whole = isinstance(rows, list) and all({"model", "protocol", "mean_abs_error"} <= set(row) for row in rows)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path} is not JSON ({str(error)[:100]}): {PREDICTIONS_REMEDY}") from error
        if not whole:
            raise UsageError(f"{path} holds no rows of predictions: {PREDICTIONS_REMEDY}")
        return list(rows)

    def trace_path(self, workload: str) -> Path | None:
        """The file of a workload that is a recorded trace; `None`: it is traced here.

        Raises: UnknownName: neither a workload nor a trace.
        """
        if self.program_path(workload) is not None:
            return None
        if workload.startswith(FILE):
            return _known("trace", workload, FILE, self.trace_files)
        if workload.startswith(RUN):
            return self._inside(self.run_path(workload[len(RUN) :]) / "trace.parquet")
        if workload not in workload_names():
            raise UnknownName("workload", workload, self.workloads())
        return None

    def program_path(self, workload: str) -> Path | None:
        """The file of a workload that is a Python file or a package."""
        return self.program_files.get(workload[len(FILE) :]) if workload.startswith(FILE) else None

    def program(self, workload: str) -> str:
        """A workload that is traced here, as verbs name it."""
        path = self.program_path(workload)
        return workload if path is None else str(path)

    def policies(self, word: str = "policy") -> list[str]:
        """Replacement policies, or with `prefetch` the prefetchers that were named at the start."""
        own = [FILE + name for name, path in self.policy_files.items() if placed([str(path)])[word]]
        return [*POLICIES, *own] if word == "policy" else own

    def policy(self, name: str) -> str:
        """A policy or a way of prefetching, as options name it.

        Raises: UnknownName: no such file was named at the start.
        """
        return str(_known("policy", name, FILE, self.policy_files)) if name.startswith(FILE) else name

    def levels(self, text: str) -> str:
        """Levels of memory as `--levels` takes them: of catalogued tiers and rates, never a path.

        Raises: UnknownName: no such tier, or no such policy.
        """
        parts = []
        for part in text.split(","):
            tier, *rest = (piece.strip() for piece in part.split(":", 2))
            if tier != ON_CHIP and not tier.startswith(f"{ON_CHIP}."):
                self.tier(tier)
            if rest[1:]:
                own = rest[1].removeprefix(FILE)
                if own not in self.policy_files and own not in POLICIES:
                    raise UnknownName("replacement policy", rest[1], self.policies())
                rest[1] = str(self.policy_files.get(own, own))
            parts.append(":".join([tier, *rest]))
        return ",".join(parts)

    def read_trace(self, path: Path) -> Trace:
        """Raises: TooLarge; TraceError; FileError."""
        _check_file(path, MAX_TRACE_BYTES)
        return read_program(path)

    def machine_text(self, name: str) -> str:
        """Its value of `--machine`: a name, or a path."""
        if name.startswith(FILE):
            return str(_known("machine", name, FILE, self.machine_files))
        if name.startswith(RUN):
            return str(self._inside(self.run_path(name[len(RUN) :]) / f"{FITTED_MACHINE}.toml"))
        if name not in machine_names():
            raise UnknownName("machine", name, self.machines())
        return name

    def machine(self, name: str) -> Machine:
        """Raises: UnknownName; MachineError: its file breaks a rule; DamagedRun: it was changed; TooLarge."""
        text = self.machine_text(name)
        if name.startswith(RUN):
            self.open_run(name[len(RUN) :]).check_artifact(Path(text).name)
        return load_machine(text) if text == name else _machine(Path(text))

    @staticmethod
    def tier(text: str) -> Tier:
        """A tier by name or bandwidth, never by path.

        Raises: UnknownName; UnitError.
        """
        if not own_rate(text):
            one_of("tier", text, tier_names())
        return load_tier(text)

    @staticmethod
    def network(text: str) -> Network:
        """As `tier`."""
        if not own_rate(text):
            one_of("network", text, network_names())
        return load_network(text)

    def _inside(self, path: Path) -> Path:
        """`path`, if it does not lead out of the folder of the runs."""
        # Unlike `resolve`, this has an answer for links that form a loop; whoever opens the file names them.
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.runs)):
            raise UsageError(f"{path} is a link that leads out of {self.runs}: it is not followed; copy the file there")
        return path


def _written_ns(path: Path) -> int | None:
    """The time of the last write to a run's record; `None`: not a run folder."""
    record = path / "run.json"
    return record.stat().st_mtime_ns if not path.is_symlink() and path.is_dir() and record.is_file() else None


def _machine(path: Path) -> Machine:
    _check_file(path, MAX_MACHINE_BYTES)
    return read_machine(path)


def _known(what: str, name: str, prefix: str, files: dict[str, Path]) -> Path:
    if name[len(prefix) :] not in files:
        raise UnknownName(what, name, (prefix + entry for entry in files))
    return files[name[len(prefix) :]]


def _add(files: dict[str, Path], name: str, path: Path) -> None:
    if name in files:
        raise UsageError(f"{files[name]} and {path} are both named '{name}': rename one of them")
    files[name] = path


def _check_file(path: Path, most: int) -> None:
    """Before `path` is opened: a pipe would keep its reader waiting for good, a device would never end."""
    with os_errors(path, "read"):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is not a regular file: the explorer reads nothing else; copy what it holds to one")
    _check_size(path, most, status.st_size)


def _check_size(path: Path, most: int, size: int) -> None:
    if size > most:
        raise TooLarge(
            f"{path} has {size} bytes and the explorer reads at most {most}: it is not what penstock writes; "
            "look at it with another tool"
        )
