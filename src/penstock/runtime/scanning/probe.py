"""Measures a disk and the stages that bring its bytes to the computation: what `penstock database probe` writes."""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from penstock.base.system.files import TEMPORARY_PREFIX, os_errors, remove_dead_files
from penstock.base.units import format_bytes
from penstock.errors import PenstockError, UsageError
from penstock.program.running.readings import DEFAULT_READING
from penstock.runtime.scanning.disk import Disk
from penstock.runtime.scanning.scanners import SCANNERS
from penstock.runtime.scanning.stream import READ_BYTES, SequentialFile, StreamTimes
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import TraceMeta

PASSES = 3
"""Reads of the whole file; the median counts."""
CALLS = 15
"""Of each short measurement; the median counts."""
HASHED_BYTES = 1 << 20


def probe(folder: Path, params: CkksParameters, *, size: int, name: str, reading: str = DEFAULT_READING) -> Disk:
    """Measure the disk of a folder with a temporary file of `size` bytes, and decoding at a parameter set.

    Args:   reading: whose decoding: a name of `SCANNERS`.
    Raises: UsageError: a file of less than one read. PenstockError: too little room. FileError: the file system
            refused. CapabilityMissing: the library of the reading.
    """
    if size < READ_BYTES:
        raise UsageError(
            f"a file of {format_bytes(size)}: the disk is measured by reads of {format_bytes(READ_BYTES)}; give it one "
            "at least"
        )
    read = _read_rate(folder, size)
    block = os.urandom(HASHED_BYTES)
    hashed = HASHED_BYTES / _median(lambda: hashlib.sha256(block).digest())
    per_byte, call = _decoding(params, reading)
    return Disk(
        name=name,
        read_bytes_per_s=read,
        checksum_bytes_per_s=hashed,
        decode_bytes_per_s=1 / per_byte,
        decode_call_s=call,
        source=f"median of {PASSES} sequential reads of {format_bytes(size)} past the page cache, in reads of "
        f"{format_bytes(READ_BYTES)}; medians of {CALLS} calls at '{params.name}' "
        f"({reading})",
    )


def _read_rate(folder: Path, size: int) -> float:
    """Bytes a second of sequential reads; the content is random, so that nothing on the way can compress it."""
    with os_errors(folder):
        free = shutil.disk_usage(folder).free
    if size > free:
        raise PenstockError(f"{folder}: the probe takes {format_bytes(size)} and {format_bytes(free)} are free")
    remove_dead_files(folder.absolute())
    path = folder / f"{TEMPORARY_PREFIX}probe-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with os_errors(path), path.open("wb") as file:
            for _ in range(0, size, READ_BYTES):
                file.write(os.urandom(READ_BYTES))
            file.flush()
            os.fsync(file.fileno())
        times = []
        for _ in range(PASSES):
            stages = StreamTimes()
            began = time.perf_counter()
            with os_errors(path, "read"), closing(SequentialFile(path, READ_BYTES, stages)) as opened:
                for offset in range(0, opened.size, READ_BYTES):
                    opened.read(offset, READ_BYTES)
            times.append(stages.read_bytes / (time.perf_counter() - began))
            if not stages.direct:
                raise PenstockError(
                    f"{folder}: its file system has no O_DIRECT, so that reads would measure the page cache: name a "
                    "folder on a disk"
                )
        return statistics.median(times)
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _decoding(params: CkksParameters, reading: str) -> tuple[float, float]:
    """Seconds a byte and a call of decoding a ciphertext: a line through the whole chain and a single limb."""
    keyless = TraceBuilder(params).finish(TraceMeta(workload="probe", params=params.to_dict(), reading="trace"))
    points, values = [], np.linspace(-1, 1, params.slots)
    with SCANNERS[reading](params, keyless, None, 1, None) as scanner:
        fresh = scanner.ev.encrypt(values)
        for limbs in (params.num_q, 1):
            content = scanner.write(scanner.ev.mod_drop(fresh, limbs))
            points.append((len(content), _median(lambda content=content: scanner.read(content))))  # type: ignore[misc]
        entry = scanner.fresh(values)
        entry_s = _median(lambda: scanner.read(entry))
    (large, large_s), (small, small_s) = points
    per_byte = max(large_s - small_s, 0.0) / (large - small) or large_s / large
    call_s = max(0.0, large_s - per_byte * large)
    if len(entry) < large // 2 + small:
        # A seed stands for half of the words: its expansion is a part of the time of a byte.
        per_byte = max(entry_s - call_s, 0.0) / len(entry) or entry_s / len(entry)
    return per_byte, call_s


def _median(call: Callable[[], object]) -> float:
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
