"""What a worker keeps for its next jobs: compiled programs and evaluators, up to so many bytes; and its bound.

Those that were used last stay. What a running job uses is the job's own memory, and never leaves under it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from penstock import _engine
from penstock.base.types import Row
from penstock.runtime.native.engine import make_context
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.work.messages import WorkerSettings
from penstock.service.work.programs import GoOn, WorkerProgram, evaluator_bytes, parameter_name

_KEPT_CIPHERTEXTS = 16
"""Memory of dropped results that one job leaves to the next, in fresh ciphertexts at most."""
_MOST_EVALUATORS = 32
"""That wait for a job: each has its own threads."""
_LOOK_S = 0.05
_STACK_BYTES = 8 << 20
"""Of address space that each thread takes."""
_SPARE_BYTES = 512 << 20
"""Of address space without memory behind it: heaps of the C library."""


def bound_memory(settings: WorkerSettings) -> str:
    """Bound the data of this process: allocations fail above it. In words, or why there is none.

    Address space is counted, so the bound is wider than the memory that the front watches.
    """
    if not settings.memory_bytes or not sys.platform.startswith("linux"):
        return "no bound is stated" if sys.platform.startswith("linux") else "not on this system"
    threads = (_MOST_EVALUATORS + settings.abreast) * settings.threads + 4 * settings.abreast
    most = settings.memory_bytes + _SPARE_BYTES + threads * _STACK_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    return f"in force: {most} bytes of data"


@dataclass(slots=True)
class Evaluator:
    """The engine of one parameter set, for one job at a time."""

    name: Hashable
    params: CkksParameters
    threads: int
    level: int
    """More niceness of its threads than the process has."""
    context: _engine.CkksContext
    keys: set[str] = field(default_factory=set)
    """Of its jobs: each rotation has a permutation."""

    @property
    def bytes(self) -> int:
        """In memory now."""
        return evaluator_bytes(self.params, self.threads, len(self.keys)) + self.context.kept_bytes


class KeptWork:
    """Thread safe."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings, self._lock = settings, threading.Lock()
        self._things: OrderedDict[Hashable, tuple[WorkerProgram | Evaluator, int]] = OrderedDict()
        """Name -> thing and its bytes, the longest unused first. An evaluator's name ends with a number."""
        self._owners: dict[Hashable, set[str]] = {}
        """Program -> tenants that have run it. Those of no tenant that is left are dropped."""
        self._bytes = self._count = 0
        self._making: dict[Hashable, threading.Event] = {}
        # Compiling makes millions of objects and no cycles: each look at all of them would hold up every thread.
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)

    def figures(self) -> Row:
        """For the front."""
        with self._lock:
            programs = [size for thing, size in self._things.values() if isinstance(thing, WorkerProgram)]
            return {
                "programs": len(programs),
                "program_bytes": sum(programs),
                "evaluators": len(self._things) - len(programs),
                "evaluator_bytes": self._bytes - sum(programs),
            }

    # Programs.
    def known(self, name: Hashable) -> WorkerProgram | None:
        """A program, where it is there."""
        with self._lock:
            thing, _ = self._things.get(name, (None, 0))
            if thing is not None:
                self._things.move_to_end(name)
            return thing if isinstance(thing, WorkerProgram) else None

    def program(self, name: Hashable, tenant: str, make: Callable[[], WorkerProgram], go_on: GoOn) -> WorkerProgram:
        """A program of a tenant, made where it is not there. Jobs that want the same one wait; no other one does.

        Raises: as `make`, and as `go_on`, which is asked while it waits.
        """
        while (known := self.known(name)) is None:
            with self._lock:
                ended = self._making.get(name)
                if ended is None:
                    made = self._making[name] = threading.Event()
            if ended is not None:
                while not ended.wait(_LOOK_S):
                    go_on()
                continue
            try:
                known = make()
                self._put(name, known, known.bytes)
                break
            finally:
                with self._lock:
                    del self._making[name]
                made.set()
                self.trim()
        with self._lock:
            if name in self._things:
                self._owners.setdefault(name, set()).add(tenant)
        return known

    def forget(self, tenant: str) -> None:
        """Drop the programs that only this tenant has run; their packages are closed with them."""
        with self._lock:
            for name, owners in list(self._owners.items()):
                owners.discard(tenant)
                if not owners:
                    self._drop(name)
        self.trim()

    # Evaluators.
    def take(self, params: CkksParameters, level: int) -> Evaluator:
        """An evaluator that nobody else uses until it is given back. `level`: more niceness of its threads."""
        name, settings = (parameter_name(params), level), self._settings
        with self._lock:
            for key in reversed(self._things):
                thing = self._things[key][0]
                if isinstance(thing, Evaluator) and thing.name == name:
                    self._bytes -= self._things.pop(key)[1]
                    return thing
        one = params.ciphertext_bytes(params.num_q + params.num_p)
        most = settings.kept_bytes / (2 * settings.abreast * one)

        def made() -> _engine.CkksContext:
            with suppress(OSError):
                os.nice(level)
            return make_context(params, settings.threads, kept_ciphertexts=min(_KEPT_CIPHERTEXTS, most))

        # Its threads have the niceness of the one that makes it.
        with ThreadPoolExecutor(1) as maker:
            return Evaluator(name, params, settings.threads, level, maker.submit(made).result())

    def give(self, evaluator: Evaluator) -> None:
        """It waits for its next job."""
        self._count += 1
        self._put((evaluator.name, self._count), evaluator, evaluator.bytes)

    def _put(self, name: Hashable, thing: WorkerProgram | Evaluator, size: int) -> None:
        gone: list[WorkerProgram | Evaluator] = []
        with self._lock:
            self._things[name] = thing, size
            self._bytes += size
            evaluators = [key for key, (each, _) in self._things.items() if isinstance(each, Evaluator)]
            for key in evaluators[:-_MOST_EVALUATORS]:
                gone.append(self._drop(key))
            while self._bytes > self._settings.kept_bytes:
                gone.append(self._drop(next(iter(self._things))))
        if gone:
            del gone, thing
            self.trim()

    def _drop(self, name: Hashable) -> WorkerProgram | Evaluator:
        thing, size = self._things.pop(name)
        self._owners.pop(name, None)
        self._bytes -= size
        return thing

    @staticmethod
    def trim() -> None:
        """Give free memory back to the system, where the C library can."""
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
