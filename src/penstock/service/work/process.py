"""A worker process as the front holds it: its start, its socket, and its end."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.system.workers import interrupts_held, python_module
from penstock.service.work.messages import Channel, WorkerSettings

if TYPE_CHECKING:
    from penstock.base.types import Row

_ENDING_S = 5.0
_ARENAS = "MALLOC_ARENA_MAX"
_PASSED = (
    "PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHASHSEED",
    "PENSTOCK_CPU", _ARENAS,
)  # fmt: skip
"""Variables that a worker gets: no other one, since secrets may be among them."""


class WorkerProcess:
    """Started at once; messages wait until it can hear.

    Args:   name: of the tenant that it is for; empty: all.
    """

    def __init__(self, settings: WorkerSettings, name: str) -> None:
        self.name = name
        self.jobs: set[str] = set()
        """That it computes."""
        self.coming: list[str] = []
        self.progress: dict[str, list[int]] = {}
        """Job -> tasks that have ended, and all, as it said last."""
        self.cache: Row = {}
        """Its last word on its keys."""
        self.kept: Row = {}
        """And on its programs and evaluators."""
        self.stated_bytes = settings.memory_bytes
        self.isolation: dict[str, str] = {}
        """Which measures are in force; empty: it is not ready yet."""
        self.idle_since_s = time.monotonic()
        self.ending = ""
        here, there = socket.socketpair()
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        # OpenBLAS starts threads that nobody uses here.
        environment["OPENBLAS_NUM_THREADS"] = "1"
        # Freed memory goes back to the system: no heap for each thread, and none of Arrow's own.
        environment.update(ARROW_DEFAULT_MEMORY_POOL="system", **{_ARENAS: environment.get(_ARENAS, "2")})
        with there, interrupts_held():
            self._process = subprocess.Popen(
                [*python_module("penstock.service.work.worker"), str(there.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env=environment,
            )
        self.channel = Channel(here.detach())
        self.channel.tell("open", settings=settings)

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
        self.ending = why or (f"signal {-status}" if status < 0 else f"exit status {status}")
