"""Computes a compiled program: ciphertexts in bytes in, ciphertexts out, and no client anywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock import _engine
from penstock.base.system.files import os_errors
from penstock.errors import PenstockError
from penstock.runtime.native.compiled import Compiled
from penstock.runtime.native.inputs import InputTraffic
from penstock.runtime.native.keys import KeysInMemory, WholeKeys
from penstock.runtime.native.lanes import WINDOW


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeOptions:
    """How a program uses the machine."""

    lanes: int = 1
    """Tasks side by side. Beside others, a task computes on one thread."""
    value_bytes: int = 0
    """Bytes of ciphertexts at which no task is begun out of order; 0: the program's own peak and an eighth."""
    keep_bytes: int = 0
    """Bytes of encoded vectors that are kept for their next use."""
    ahead_bytes: int = 0
    """Bytes of vectors that are encoded ahead of their use."""
    inputs: Path | None = None
    """An empty folder for encrypted inputs that wait for their use; `None`: they wait in memory."""
    input_bytes: int = 0
    """Of those, in memory besides."""
    device: str = "cpu"
    """What performs the tasks: `cpu`, or `recording`, which checks the life of every buffer."""


class WaitingInputs:
    """Encrypted inputs until their use, each once: in memory up to a limit, the others in files."""

    def __init__(self, folder: Path | None, memory_bytes: int) -> None:
        self._folder, self._memory_bytes = folder, memory_bytes
        self._contents: list[bytes | Path | None] = []
        self._resident_bytes = 0
        self.traffic = InputTraffic()

    def put(self, content: bytes) -> None:
        """Take the next input. Raises: FileError: the disk is full."""
        self.traffic.input_bytes += len(content)
        if self._folder is None or self._resident_bytes + len(content) <= self._memory_bytes:
            self._contents.append(content)
            self._resident_bytes += len(content)
            self.traffic.peak_resident_bytes = self._resident_bytes
            return
        path = self._folder / f"input-{len(self._contents)}"
        with os_errors(path):
            path.write_bytes(content)
        self._contents.append(path)

    def take(self, number: int) -> bytes:
        """The input of a number, which is given up here. Raises: FileError."""
        content, self._contents[number] = self._contents[number], None
        if isinstance(content, Path):
            started = time.perf_counter()
            path = content
            with os_errors(path, "read"):
                content = path.read_bytes()
                path.unlink()
            self.traffic.read_bytes += len(content)
            self.traffic.read_s += time.perf_counter() - started
        if content is None:
            raise PenstockError(f"input {number} is used twice: it was given up at its first use")
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The results of a program, in the order of its outputs, and the times of its tasks."""

    outputs: list[_engine.CkksCiphertext]
    times: npt.NDArray[np.float64]
    """(tasks, 4) seconds: start, end, waiting for the key, encoding."""
    counts: dict[str, int]


def compute_compiled(
    compiled: Compiled,
    context: _engine.CkksContext,
    keys: WholeKeys,
    take: Callable[[int], bytes],
    options: WholeOptions,
    progress: Callable[[int], object] | None = None,
) -> Computed:
    """Run the tasks.

    Args:   take: the bytes of an input by its number, asked for once each, from several threads. progress: as of
            `CkksProgram.run`; its exceptions end the run.
    Raises: PenstockError: the engine refuses a task, or an input; as the keys and the two functions.
    """
    outputs, times, counts = compiled.tasks.run(
        context,
        keys.of_program(compiled.keys),
        lambda number: np.ascontiguousarray(compiled.vectors[number].fleeting(), dtype=np.complex128),
        take,
        progress,
        slots=compiled.params.slots,
        lanes=options.lanes,
        keys_in_order=not isinstance(keys, KeysInMemory),
        value_bytes=options.value_bytes or compiled.tasks.peak_value_bytes() * 9 // 8,
        keep_bytes=options.keep_bytes,
        ahead_bytes=options.ahead_bytes,
        window=WINDOW,
        device=options.device,
    )
    keys.ran(compiled.key_uses, times[compiled.key_tasks, 2].tolist())
    made = [output for output in outputs if output is not None]
    if len(made) != len(compiled.outputs):
        raise PenstockError(f"the program made {len(made)} of its {len(compiled.outputs)} outputs")
    return Computed(outputs=made, times=times, counts=counts)
