"""One worker process, as its front sees it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from penstock.service.work.messages import WorkerSettings
from penstock.system.workers import interrupts_held, python_module

_ENDING_S = 5.0
_PASSED = (
    "PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHASHSEED",
    "PENSTOCK_CPU", "MALLOC_ARENA_MAX",
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
        self.cache: dict[str, Any] = {}
        """Its last word on its keys."""
        self.isolation: dict[str, str] = {}
        """Which measures are in force; empty: it is not ready yet."""
        self.idle_since_s = time.monotonic()
        self.ending = ""
        here, there = socket.socketpair()
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        # OpenBLAS starts threads that nobody uses here.
        environment["OPENBLAS_NUM_THREADS"] = "1"
        with there, interrupts_held():
            self._process = subprocess.Popen(
                [*python_module("penstock.service.work.worker"), str(there.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env=environment,
            )
        self.connection = Connection(here.detach())
        self.say("open", settings=settings.to_dict())

    @property
    def label(self) -> str:
        """For people."""
        return f"worker of {self.name}" if self.name else "worker"

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, do: str, **rest: Any) -> None:
        """Send a message. A dead worker is found out when it is heard."""
        with suppress(OSError):
            self.connection.send_bytes(json.dumps({"do": do, **rest}).encode())

    def hear(self) -> list[dict[str, Any]]:
        """All messages that have come. Raises: EOFError, OSError: it is dead, and has said nothing more."""
        found = [json.loads(self.connection.recv_bytes())]
        with suppress(EOFError, OSError):
            while self.connection.poll():
                found.append(json.loads(self.connection.recv_bytes()))
        return found

    def figures(self) -> dict[str, Any]:
        """For the snapshot."""
        return {"pid": self.pid, "tenant": self.name or None, "jobs": sorted(self.jobs), "isolation": self.isolation}

    def end(self) -> None:
        """Close its socket; a process that does not end by that is killed."""
        self.connection.close()
        try:
            status = self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self.ending = f"signal {-status}" if status < 0 else f"exit status {status}"
