"""Processes that share the work of one: they end with it, and leave interrupts to it."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import resource
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, Generic, TypeVar

from penstock.errors import PenstockError

_ENDING_S = 5.0
"""The longest time that a worker may take to end after the request."""
Task = TypeVar("Task")

_LOOK_S = 0.5
"""Between two looks for the parent, where the system does not tell of its end."""


@contextmanager
def interrupts_held() -> Iterator[None]:
    """An interrupt waits until the end of the block; processes that are started in it never get one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def python_module(name: str) -> list[str]:
    """The command that runs a module in a separate process, whatever modules lie in the current folder."""
    # As `python -m`, which would look for modules in the current folder first (and `-P` is new in Python 3.11).
    return [
        sys.executable,
        "-c",
        "import runpy, sys; del sys.path[0]; from penstock.base.system.frames import leave_pandas_out; "
        f"leave_pandas_out(); runpy.run_module({name!r}, run_name='__main__')",
    ]


_PR_SET_DUMPABLE = 4


def no_core_files() -> None:
    """A fault of this process leaves no file of its memory, where a secret key may be, and no other process reads it.

    The limit alone does not hold where the system hands core files to a program (a `core_pattern` with a pipe).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class Lost:
    """In place of a result: the worker was killed, or it ended by itself."""


class Workers(Generic[Task]):
    """Processes that do one task at a time, each over a separate pipe. The end of the block ends them.

    They share no queue, no thread and no semaphore: a killed worker holds nobody up, and leaves nothing in /dev/shm.

    Args:   most: processes; they are started as tasks come. begin: called in each one first, with `arguments`.
    """

    def __init__(self, most: int, begin: Callable[..., object] | None = None, *arguments: object) -> None:
        self._most, self._begin = most, [] if begin is None else [(begin, arguments)]
        self._idle: list[_Worker] = []
        self._at_work: dict[_Worker, Task] = {}

    @property
    def has_room(self) -> bool:
        """Whether another task would begin at once."""
        return len(self._at_work) < self._most

    @property
    def is_busy(self) -> bool:
        """Whether a task is under way."""
        return bool(self._at_work)

    def give(self, task: Task, function: Callable[..., object], *arguments: object) -> None:
        """Let a worker call `function`, which a module holds; `task` names the result. There must be room.

        Raises: OSError: the system starts no further process.
        """
        calls = [(function, arguments)]
        if not self._idle:
            self._idle.append(_Worker.started())
            calls = [*self._begin, *calls]
        worker = self._idle.pop()
        self._at_work[worker] = task
        # To one that has died nothing can be sent: `finished` finds that out.
        with suppress(ConnectionError):
            worker.connection.send(calls)

    def finished(self) -> Iterator[tuple[Task, Any]]:
        """Wait for tasks, and return the results of the finished ones; `Lost` for a dead worker.

        Raises: the exceptions of a task.
        """
        ready = wait([worker.connection for worker in self._at_work])
        for worker in [busy for busy in self._at_work if busy.connection in ready]:
            task = self._at_work.pop(worker)
            try:
                result, error, trace = pickle.loads(worker.connection.recv_bytes())
            except (EOFError, ConnectionError):
                worker.end()
                yield task, Lost()
                continue
            self._idle.append(worker)
            if error is not None:
                raise error from _InWorker(trace)
            yield task, result

    def __enter__(self) -> Workers[Task]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        workers = [*self._idle, *self._at_work]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.end()


class _InWorker(Exception):
    """The traceback of an error in a worker, shown as its cause."""


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection

    @classmethod
    def started(cls) -> _Worker:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        try:
            process = context.Process(target=_work, args=(there,))
            with interrupts_held():
                process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        return cls(process, here)

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(_ENDING_S)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()


def _work(connection: Connection) -> None:
    """Answer until the other side closes the pipe. A worker that has no memory to say so is lost."""
    # If no thread can be started, a worker whose parent is killed ends after its task.
    with suppress(RuntimeError):
        end_with_parent()
    with suppress(EOFError, ConnectionError, MemoryError):
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))


def _answer(content: bytes) -> bytes:
    result: object = None
    try:
        for function, arguments in pickle.loads(content):
            result = function(*arguments)
        return bytes(ForkingPickler.dumps((result, None, "")))
    except BaseException as error:  # a panic of the engine is not an `Exception`
        return pickle.dumps((None, _sendable(error), traceback.format_exc()))


def _sendable(error: BaseException) -> BaseException:
    """The error, or one that says the same where it cannot be made again from its arguments."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        ours = isinstance(error, PenstockError)
        alike = PenstockError(str(error) if ours else f"{type(error).__name__}: {error}")
        alike.exit_code = getattr(error, "exit_code", alike.exit_code)
        return alike
    return error


def end_with_parent() -> None:
    """A worker whose parent is killed ends too. Interrupts are the parent's to handle: see `interrupts_held`."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def after_parent(parent: int, act: Callable[[], object]) -> threading.Thread:
    """Call `act` in a separate thread once the process `parent`, which started this one, has ended."""
    thread = threading.Thread(target=_after_parent, args=(parent, act), daemon=True)
    thread.start()
    return thread


def _after_parent(parent: int, act: Callable[[], object]) -> None:
    try:
        descriptor = os.pidfd_open(parent)
    except (AttributeError, OSError):
        descriptor = None
    # Without a parent of that number, the descriptor is of another process that has it now.
    if descriptor is not None and os.getppid() == parent:
        ending = select.poll()
        ending.register(descriptor, select.POLLIN)
        ending.poll()
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    act()
