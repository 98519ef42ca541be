"""The front's side of examinations: whose package is next, and the processes that examine.

A package is examined by a child of a process that waits for it (`penstock.service.http.examine`). No thread of the
front's waits for a turn, and the front holds no bytes of a package.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from penstock.base.system.workers import interrupts_held, python_module
from penstock.base.types import Row
from penstock.service.http.verdict import checked_verdict
from penstock.service.state.problems import Problem
from penstock.service.work.messages import Channel
from penstock.service.work.process import clean_environment

ABREAST = 2
"""Examinations at the same time, each of another tenant."""
MOST_OF_TENANT = 3
"""Of one tenant, at work and waiting."""
_GRACE_S = 10.0
"""Beyond the time of an examination, before its process is taken for dead."""


class Examiner:
    """Examines packages in turns that go round the tenants. Thread safe.

    Args:   most_bytes, seconds: of one examination. key_bytes, machine: as of `penstock.service.http.examine.describe`.
            user: that a process of root becomes to examine.
    """

    def __init__(self, *, most_bytes: int, seconds: float, key_bytes: int, machine: str, user: str) -> None:
        self._words = [str(most_bytes), str(key_bytes), str(seconds), user, machine]
        self._seconds = seconds
        self._lock = threading.Condition()
        self._turns: OrderedDict[str, deque[tuple[Path, Future[Row]]]] = OrderedDict()
        """Tenant -> its packages that wait. The first tenant is next."""
        self._busy: set[str] = set()
        self._processes: list[ExaminerProcess | None] = [None] * ABREAST
        self._threads: list[threading.Thread] = []
        self._closed = False

    def start(self) -> None:
        """Start what examines, before the first package comes."""
        with self._lock:
            if not self._threads and not self._closed:
                self._processes[0] = ExaminerProcess(self._words)
                for place in range(ABREAST):
                    thread = threading.Thread(target=self._serve, args=(place,), name=f"examine-{place}", daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def examine(self, tenant: str, path: Path) -> Future[Row]:
        """What `penstock.service.http.examine` says of a package: `found` or `refused`, or `is_late`, or nothing.

        Raises: Problem: too many packages of this tenant wait; here or in the future: the server is about to stop.
        """
        self.start()
        with self._lock:
            if self._closed:
                raise _stopping()
            there = len(self._turns.get(tenant, ())) + (tenant in self._busy)
            if there >= MOST_OF_TENANT:
                raise Problem(
                    429, f"{there} packages of this tenant are examined or wait for it", remedy="deploy it later",
                    kind="examining", retry_after_s=5,
                )  # fmt: skip
            future: Future[Row] = Future()
            self._turns.setdefault(tenant, deque()).append((path, future))
            self._lock.notify_all()
        return future

    def close(self) -> None:
        """End all examinations at once."""
        with self._lock:
            self._closed = True
            waiting = [future for turns in self._turns.values() for _, future in turns]
            self._turns.clear()
            for process in self._processes:
                if process is not None:
                    process.hang_up()
            self._lock.notify_all()
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(_stopping())
        for thread in self._threads:
            thread.join()

    def _next(self) -> str | None:
        return next((tenant for tenant in self._turns if tenant not in self._busy), None)

    def _serve(self, place: int) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closed or self._next() is not None)
                tenant = self._next()
                if self._closed or tenant is None:
                    break
                path, future = self._turns[tenant].popleft()
                self._turns.move_to_end(tenant)
                if not self._turns[tenant]:
                    del self._turns[tenant]
                self._busy.add(tenant)
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(self._answer(place, path))
            except Exception as error:
                future.set_exception(error)
            with self._lock:
                self._busy.discard(tenant)
                self._lock.notify_all()
        process = self._processes[place]
        if process is not None:
            process.end()

    def _answer(self, place: int, path: Path) -> Row:
        """By the process of a place; where it died, by a new one."""
        for _ in range(2):
            with self._lock:
                if self._closed:
                    raise _stopping()
                process = self._processes[place] = self._processes[place] or ExaminerProcess(self._words)
            said = process.ask(path, self._seconds + _GRACE_S)
            if said is not None:
                return said
            process.end()
            with self._lock:
                self._processes[place] = None
        raise Problem(
            503, "the process that examines packages has died", remedy="deploy it later", kind="examiner",
            retry_after_s=5,
        )  # fmt: skip


class ExaminerProcess:
    """A process that examines one package at a time. Started at once; questions wait until it can hear."""

    def __init__(self, words: list[str]) -> None:
        self._socket, there = socket.socketpair()
        self._key_bytes = int(words[1])
        with there, interrupts_held():
            self._process = subprocess.Popen(
                [*python_module("penstock.service.http.examine"), *words],
                stdin=there.fileno(),
                stdout=subprocess.DEVNULL,
                env={**clean_environment(), "OMP_NUM_THREADS": "1"},
            )
        self._channel = Channel(os.dup(self._socket.fileno()))

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, path: Path, patience_s: float) -> Row | None:
        """Its verdict; `None`: it has died, or says nothing."""
        self._channel.tell("examine", package=path)
        try:
            if not self._channel.poll(patience_s):
                return None
            said = json.loads(self._channel.recv_bytes())
        except (EOFError, OSError):
            return None
        return {**checked_verdict(said["verdict"], self._key_bytes), "is_late": said["is_late"]}

    def hang_up(self) -> None:
        """It ends, and gives up its package."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self.hang_up()
        self._channel.close()
        self._socket.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _stopping() -> Problem:
    return Problem(503, "the server is about to stop", remedy="come again later", kind="draining", retry_after_s=10)
