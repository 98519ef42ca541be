"""Examines packages: `python -m penstock.service.http.examine BYTES KEY_BYTES SECONDS MACHINE`, for the front.

The process imports all once, and starts a child for each package, so that a package that lies costs nobody else
anything: the child has bounds of memory and time, says one line of JSON, and ends.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import NoReturn

import pyarrow.compute as pc

from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.lab.prediction.prediction import predict
from penstock.program.evaluator.tally import tally_of
from penstock.program.package.file import check_package, complex_outputs
from penstock.runtime.native.engine import make_context
from penstock.scheme.machines import Machine, load_machine
from penstock.scheme.traces.schema import Trace
from penstock.service.work import isolation
from penstock.service.work.messages import HEADER_BYTES, Channel
from penstock.service.work.programs import check_runs, job_bytes, plan_program

MOST_VERDICT_BYTES = 1 << 24
_PIPE, _MOST_FILES = 3, 256
"""The child's only descriptor besides the standard streams, and how many it may have."""
_PR_SET_PDEATHSIG = 1
_NICE = 5
"""Examinations yield the processor to answers and jobs."""


def describe(path: Path, key_bytes: int, machine: Machine | None = None) -> Row:
    """The description of a program: inputs, outputs, parameters, keys and predictions.

    Keys, parameters and seconds come from `plan_program`, with which workers compile the program.

    Args:   key_bytes: a worker's budget of keys. machine: a fitted one; without it, seconds are of
            one nominal core with all keys in memory.
    Raises: PackageError: no package. UsageError: the budget does not hold one key of it.
    """
    check_package(path)
    planned = plan_program(path, key_bytes)
    make_context(planned.params)  # a set that workers or submissions refuse is refused now
    check_runs(planned)
    package, params, tally = planned.package, planned.params, tally_of(planned.trace)
    are_complex = complex_outputs(package)
    keys = [{"key": key, "limbs": limbs, "bytes": planned.needs[key]} for key, limbs in planned.keys.items()]
    return {
        "program": package.name,
        "description": package.description,
        "inputs": [
            {
                "name": vector.name,
                "length": vector.length,
                "limbs": vector.limbs or params.num_q,
                "complex": vector.is_complex,
            }
            for vector in package.inputs
        ],
        "outputs": [
            {"name": vector.name, "length": vector.length, "complex": vector.name in are_complex}
            for vector in package.outputs
        ],
        "output_bytes": _output_bytes(planned.trace),
        "params": params.to_dict(),
        "keys": keys,
        "planned_key_bytes": key_bytes,
        "predicted": {
            "seconds": predict(tally, machine).known_s if machine else planned.compute_s,
            "basis": f"machine {machine.name}" if machine else "one nominal core, keys in memory",
            "memory_bytes": job_bytes(planned, tally.live_bytes),
            "key_bytes": planned.key_bytes,
            "key_bytes_read": tally.key_bytes_touched(),
            "operations": tally.num_operations,
        },
    }


def _output_bytes(trace: Trace) -> int:
    """Of the files of all results."""
    rows, sizes = trace.operations.filter(pc.equal(trace.operations["kind"].cast("string"), "decrypt")), trace.objects
    size_of = dict(zip(sizes["id"].to_pylist(), sizes["bytes"].to_pylist(), strict=True))
    return sum(HEADER_BYTES + sum(size_of[each] for each in operands) for operands in rows["operands"].to_pylist())


def main(most_bytes: int, key_bytes: int, seconds: float, user: str, machine: str = "") -> None:
    """Examine the packages that the front names on the socket at standard input, one at a time, until it is closed."""
    os.nice(_NICE)
    channel = Channel(os.dup(0))
    bounds = ExamineBounds(most_bytes=most_bytes, seconds=seconds, user=isolation.user_of(user))
    priced = load_machine(machine) if machine else None
    gc.freeze()
    with suppress(EOFError, ConnectionError):
        while True:
            path = Path(json.loads(channel.recv_bytes())["package"])
            found = _examined(channel, bounds, path, partial(_verdict, path, key_bytes, priced))
            if found is None:
                return
            channel.tell("verdict", **found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamineBounds:
    """Of the process that examines one package."""

    most_bytes: int
    seconds: float
    """By the clock, and of processors."""
    user: tuple[int, int] | None
    """As of `isolation.Bounds`."""


def _examined(channel: Channel, bounds: ExamineBounds, path: Path, verdict: Callable[[], Row]) -> Row | None:
    """Let a new process say the verdict; `None`: the front is gone. It has ended when this returns."""
    ends_s = time.monotonic() + bounds.seconds
    pipe, there = os.pipe()
    child = os.fork()
    if child == 0:
        _say(there, bounds, path, verdict)
    os.close(there)
    content, is_late = b"", False
    try:
        while len(content) <= MOST_VERDICT_BYTES:
            ready = wait([pipe, channel], max(0.0, ends_s - time.monotonic()))
            is_late = not ready
            if channel in ready:
                return None
            piece = b"" if is_late else os.read(pipe, 1 << 16)
            if not piece:
                break
            content += piece
    finally:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(pipe)
    is_late = is_late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
    return {"is_late": is_late, "verdict": content.decode(errors="replace")}


def _say(there: int, bounds: ExamineBounds, path: Path, verdict: Callable[[], Row]) -> NoReturn:
    """In the child: it has its end of the pipe, and no other descriptor, and ends with its parent."""
    try:
        os.dup2(there, _PIPE)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 2)
        os.closerange(_PIPE + 1, _MOST_FILES)
        confine(bounds, path)
        said = memoryview(json.dumps(verdict()).encode())
        while said:
            said = said[os.write(_PIPE, said) :]
    finally:
        os._exit(0)


def confine(bounds: ExamineBounds, path: Path) -> dict[str, str]:
    """Bound this process, of one thread, before it reads a package; which measures are in force."""
    seconds = math.ceil(bounds.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))
    resource.setrlimit(resource.RLIMIT_AS, (bounds.most_bytes, bounds.most_bytes))
    in_force = isolation.apply(isolation.Bounds(readable=(path,), user=bounds.user, is_examining=True))
    if sys.platform.startswith("linux"):  # a change of the user clears it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return in_force


def _verdict(path: Path, key_bytes: int, machine: Machine | None) -> Row:
    """The description of a package, or why it is refused, or the name of an error that nobody foresaw."""
    try:
        return {"found": describe(path, key_bytes, machine)}
    except PenstockError as error:
        return {"refused": str(error).replace(f"{path}: ", "").replace(str(path), "the package")}
    except MemoryError:
        return {"refused": "it takes more memory than this server gives to examine a package"}
    except Exception as error:
        return {"broke": type(error).__name__}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
