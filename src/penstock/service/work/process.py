"""A worker process as the front holds it: its start, its socket, and its end."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.system.workers import interrupts_held, python_module
from penstock.service.work.isolation import Bounds, user_of
from penstock.service.work.messages import JobSpec, WorkerSettings
from penstock.service.work.said import (
    AnySaid,
    ComputingSaid,
    FiguresSaid,
    ProgramSaid,
    ReadySaid,
    SaidWrong,
    WorkerLine,
    checked,
    unknown,
)

if TYPE_CHECKING:
    from penstock.base.types import Row

_ENDING_S = 5.0
_BACK_OFF_S = (0.0, 0.1, 0.5, 2.0, 5.0)
"""Before a worker is started again that has died that often without a finished job."""
_ARENAS = "MALLOC_ARENA_MAX"
_FOLDER_PREFIX = "worker-"
_PASSED = (
    "PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHASHSEED",
    "PENSTOCK_CPU", _ARENAS,
)  # fmt: skip
"""Variables that a worker gets: no other one, since secrets may be among them."""
_STORE_FILES = "index.sqlite", "lock"
"""Of a key store, that every reader opens."""


def clean_environment() -> dict[str, str]:
    """The environment of a process that meets what tenants send."""
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    # OpenBLAS starts threads that nobody uses here. Freed memory goes back to the system: no heap for each thread, and
    # none of Arrow's own.
    environment.update(OPENBLAS_NUM_THREADS="1", ARROW_DEFAULT_MEMORY_POOL="system")
    return {_ARENAS: "2", **environment}


class Pauses:
    """Before a worker is started again that died, by the name of its tenant."""

    def __init__(self) -> None:
        self._in_row: dict[str, tuple[int, float]] = {}
        """Deaths without a job that ended, and when the pause is over."""

    def died(self, name: str, counts: bool) -> None:
        in_row = self._in_row.get(name, (0, 0.0))[0] + counts
        self._in_row[name] = in_row, time.monotonic() + _BACK_OFF_S[min(max(1, in_row), len(_BACK_OFF_S)) - 1]

    def holds(self, name: str) -> bool:
        return time.monotonic() < self._in_row.get(name, (0, 0.0))[1]

    def end(self, name: str) -> None:
        self._in_row.pop(name, None)


class WorkerProcess:
    """Started at once; messages wait until it can hear.

    Args:   name: of the tenant that it is for; empty: all.
    """

    def __init__(self, settings: WorkerSettings, name: str) -> None:
        self.name = name
        self.jobs: dict[str, JobSpec] = {}
        """That it computes."""
        self._tenants: set[str] = set()
        """That it has heard of."""
        self._compiled: set[str] = set()
        self.coming: list[str] = []
        self.progress: dict[str, tuple[int, int]] = {}
        """Job -> tasks that have ended, and all, as it said last."""
        self.cache: Row = {}
        """Its last word on its keys."""
        self.kept: Row = {}
        """And on its programs and evaluators."""
        self.stated_bytes = settings.memory_bytes
        self.isolation: dict[str, str] = {}
        """Which measures are in force; empty: it is not ready yet."""
        self.idle_since_s = self.began_s = time.monotonic()
        self.ending = ""
        self.is_leaving = False
        """It gets no further job: its files are gone."""
        self._user = user_of(settings.user)
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=settings.writable[0]))
        self._folders: dict[str, Path] = {}
        """Job -> the folder of its outputs."""
        self._next_folder = 0
        self._give(self._folder)
        here, there = socket.socketpair()
        with there, interrupts_held():
            self._process = subprocess.Popen(
                [*python_module("penstock.service.work.worker"), str(there.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env=clean_environment(),
            )
        self.channel = WorkerLine(here)
        self.channel.tell("open", settings=settings, bounds=self._bounds(settings))

    @property
    def label(self) -> str:
        """For people."""
        return f"worker of {self.name}" if self.name else "worker"

    @property
    def pid(self) -> int:
        return self._process.pid

    def figures(self) -> Row:
        """For the snapshot."""
        return {
            "pid": self.pid,
            "tenant": self.name or None,
            "jobs": sorted(self.jobs),
            "isolation": self.isolation,
            "memory_bytes": self.resident_bytes,
            "stated_memory_bytes": self.stated_bytes,
            "kept": self.kept,
        }

    @property
    def resident_bytes(self) -> int:
        """In memory now; 0: this system does not say."""
        with suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        return 0

    def _bounds(self, settings: WorkerSettings) -> Bounds:
        readable, listed = settings.readable, tuple[Path, ...]()
        store: tuple[Path, ...] = (settings.store,)
        if self.name and settings.tenants is not None:
            own = settings.store / self.name
            own.mkdir(mode=0o700, exist_ok=True)  # keys may come later
            readable, listed = (*readable, settings.tenants / self.name), store
            store = (own, *(settings.store / name for name in _STORE_FILES))
        elif settings.tenants is not None:
            readable = (*readable, settings.tenants)
        return Bounds(readable=(*readable, *store), listed=listed, writable=(self._folder,), user=self._user)

    def _give(self, folder: Path) -> None:
        """Let a folder be the worker's. Where the system does not give it away, the worker stays this user."""
        if self._user is not None:
            try:
                os.chown(folder, *self._user)
            except OSError:
                self._user = None

    def run(self, spec: JobSpec) -> None:
        """Give it a job, whose outputs it writes in a new folder."""
        folder = self._folders[spec.job] = self._folder / str(self._next_folder)
        self._next_folder += 1
        with suppress(OSError):  # a full disk: the job says so
            folder.mkdir(mode=0o700)
            self._give(folder)
        self.jobs[spec.job] = spec
        self._tenants.add(spec.tenant)
        outputs = {name: folder / str(at) for at, name in enumerate(spec.outputs)}
        self.channel.tell("run", job=replace(spec, outputs=outputs))

    def plan(self, specs: Sequence[JobSpec]) -> None:
        """Tell it the next jobs, where they have changed."""
        names = [spec.job for spec in specs]
        if names != self.coming:
            self.coming = names
            self._tenants.update(spec.tenant for spec in specs)
            # Their keys are what it plans; a job may have hundreds of files.
            self.channel.tell("coming", jobs=[replace(spec, inputs={}, outputs={}) for spec in specs])

    def hear(self) -> Iterator[AnySaid]:
        """Its messages, about itself and its jobs alone. Raises: EOFError: it is dead. SaidWrong."""
        for content in self.channel.hear():
            said = checked(content)
            if said.job is not None and said.job not in self.jobs:
                raise SaidWrong("it tells of a job that is not its own")
            if unknown(said, self._tenants):
                raise SaidWrong("it tells of keys of a tenant that is not its own")
            if isinstance(said, FiguresSaid | ProgramSaid):
                self.channel.allow(len(content))
            if isinstance(said, ProgramSaid) and all(str(spec.package) != said.package for spec in self.jobs.values()):
                raise SaidWrong("it tells of a package that it does not run")
            if isinstance(said, ReadySaid):
                if self.isolation:
                    raise SaidWrong("it is ready twice")
                self.isolation = said.isolation
            elif isinstance(said, FiguresSaid):
                # Those of a job that just ended come late.
                self.progress = {job: done for job, done in said.progress.items() if job in self.jobs}
                self.kept = dict(said.kept)
            elif isinstance(said, ComputingSaid):
                if said.job in self._compiled:
                    raise SaidWrong("a job begins to compute twice")
                self._compiled.add(said.job)
            self.cache = self.cache if said.cache is None else dict(said.cache)
            yield said

    def ended(self, job: str, done: JobSpec | None) -> str:
        """A job is over. Move the outputs of a job that is `done` to their names; why not, or empty."""
        self.jobs.pop(job, None)
        self._compiled.discard(job)
        self.progress.pop(job, None)
        folder, why = self._folders.pop(job), ""
        outputs, most_bytes = ({}, 0) if done is None else (done.outputs, done.most_output_bytes)
        for at, (name, path) in enumerate(outputs.items()):
            try:
                (folder / str(at)).replace(path)
                why = why or self._taken(name, path, most_bytes)
            except OSError as error:
                why = f"output '{name}' could not be taken from its worker: {error.strerror}"
        shutil.rmtree(folder, ignore_errors=True)
        return why

    def _taken(self, name: str, path: Path, most_bytes: int) -> str:
        """Look at an output where its worker reaches it no more; why it is none, and then it is removed."""
        found = path.lstat()
        is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if is_plain and not (most_bytes and found.st_size > most_bytes):
            if self._user is not None:
                os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
            return ""
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
        if not is_plain:
            return f"output '{name}' of its worker is not an ordinary file"
        return f"output '{name}' has {found.st_size} bytes, and {most_bytes} is the most of a ciphertext"

    def end(self, why: str = "") -> None:
        """Close its socket; a process that does not end by that is killed. `why`: it is killed at once."""
        if why:
            self._process.kill()
        self.channel.close()
        try:
            status = self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self.ending = why or (f"signal {-status}" if status < 0 else f"exit status {status}")
