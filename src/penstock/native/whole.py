"""Runs a compiled program in the engine: all its tasks in one call, side by side where they can be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock import _engine
from penstock.errors import PenstockError
from penstock.native.compiled import Compiled
from penstock.native.ends import Ends
from penstock.native.keys import KeysInMemory, ProgramKeys
from penstock.program.evaluator import Plain
from penstock.traces.builder import TraceBuilder
from penstock.traces.schema import Trace, TraceMeta

_WINDOW = 256
"""Tasks that a lane may be ahead of the first unfinished one."""


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


@dataclass(slots=True, kw_only=True)
class WholeRun:
    """What the run of a program took."""

    times: npt.NDArray[np.float64]
    """(tasks, 4) seconds: start, end, waiting for the key, encoding."""
    counts: dict[str, int]
    transfer_s: float
    encryptions: list[tuple[float, float]]
    """Start and end of each."""
    decryptions: list[tuple[float, float]]
    client_encode_s: float


def run_compiled(
    compiled: Compiled,
    context: _engine.CkksContext,
    keys: ProgramKeys,
    ends: Ends,
    options: WholeOptions,
    *,
    encrypted: Callable[[], object] = lambda: None,
    computed: Callable[[], object] = lambda: None,
    progress: Callable[[int], object] | None = None,
) -> WholeRun:
    """Encrypt the inputs, run the tasks, decrypt the outputs into their places.

    Args:   encrypted, computed: called when all is encrypted, and before the first decryption.
    Raises: PenstockError: the engine refuses a task; as the keys and the ends.
    """
    origin = time.perf_counter()
    contents: list[bytes | None] = []
    encryptions: list[tuple[float, float]] = []
    decryptions: list[tuple[float, float]] = []
    encode_s = transfer_s = 0.0
    for values in compiled.inputs:
        made = ends.encrypt(values)
        contents.append(made.content)
        encryptions.append((made.encoded_s - origin, made.ended_s - origin))
        encode_s += made.encoded_s - made.begun_s
        transfer_s += time.perf_counter() - made.ended_s
    writer = _engine.CkksWriter(contents[0]) if contents and contents[0] is not None else None
    encrypted()

    def given(number: int) -> bytes:
        content, contents[number] = contents[number], None
        assert content is not None, number
        return content

    started = time.perf_counter() - origin
    outputs, times, counts = compiled.tasks.run(
        context,
        keys.of_program(compiled.keys),
        lambda number: _values(compiled.vectors[number]),
        given,
        progress,
        lanes=options.lanes,
        keys_in_order=not isinstance(keys, KeysInMemory),
        value_bytes=options.value_bytes or compiled.tasks.peak_value_bytes() * 9 // 8,
        keep_bytes=options.keep_bytes,
        ahead_bytes=options.ahead_bytes,
        window=_WINDOW,
    )
    times[:, :2] += started
    keys.ran(compiled.key_uses, times[compiled.key_tasks, 2].tolist())
    computed()
    for place, result in zip(compiled.outputs, outputs, strict=True):
        assert result is not None
        if writer is None:
            raise PenstockError("decrypt: nothing was encrypted in this run")
        start = time.perf_counter()
        found = ends.decrypt(context.export_ciphertext(result, writer))
        transfer_s += found.begun_s - start
        decryptions.append((found.begun_s - origin, found.ended_s - origin))
        place[:] = found.values
    return WholeRun(
        times=times,
        counts=counts,
        transfer_s=transfer_s,
        encryptions=encryptions,
        decryptions=decryptions,
        client_encode_s=encode_s,
    )


def _values(plain: Plain) -> npt.NDArray[np.complex128]:
    """A vector, which is not kept."""
    source = plain.source() if callable(plain.source) else plain.source
    return np.ascontiguousarray(source, dtype=np.complex128)


def timed_trace(builder: TraceBuilder, meta: TraceMeta, compiled: Compiled, run: WholeRun) -> Trace:
    """The trace of a program with the times of its run: rows of one task share its time in equal parts."""
    rows = np.asarray(compiled.row_tasks, dtype=np.int64)
    times = run.times[rows, :2].copy()
    for tasks, own in ((compiled.input_tasks, run.encryptions), (compiled.output_tasks, run.decryptions)):
        if own:
            times[np.searchsorted(rows, tasks)] = own
    _, inverse, counts = np.unique(rows, return_inverse=True, return_counts=True)
    order = np.argsort(rows, kind="stable")
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = (times[:, 1] - times[:, 0]) / counts[inverse]
    start = times[:, 0] + place * share
    return builder.finish(meta, times=(start, start + share))


def chosen_options(compiled: Compiled, threads: int) -> WholeOptions:
    """How a program is best run here."""
    return WholeOptions(lanes=1, keep_bytes=compiled.kept_bytes)
