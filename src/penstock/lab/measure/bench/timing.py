"""The clock: repeated calls, our own overhead, cold caches, and how noisy the machine is.

Every call is timed by the monotonic clock of this process; set-up and warm-up are outside. Times are raw: our overhead
is measured and stored with them, not subtracted.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.base.system.collector import collector_paused
from penstock.base.system.host import available_cores
from penstock.base.units import parse_bytes
from penstock.errors import UsageError
from penstock.lab.measure.energy import metered

Clock = Callable[[], int]
"""Nanoseconds from any origin, never going back."""

NOISY_SPREAD = 0.05
"""A calibration loop that spreads more than this says that the machine is too noisy to tell 5 % apart."""
PROBE_POINT_S = 0.02
"""Of the calibration loop around a point or a run."""
_HASHED_BYTES = 1 << 18
_PRODUCTS_BYTES = 1 << 23
_DEFAULT_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """One run: calls until the time is up."""

    calls: int
    total_s: float
    """Sum of the calls' own times (over all threads)."""
    wall_s: float
    """From the start of the first call to the end of the last, without the preparation of calls."""
    cpu_s: float
    """Processor seconds of the process in `wall_s`."""
    samples_s: tuple[float, ...]
    """Times of the first calls."""
    started_s: float | None = None
    """Seconds since 1970."""
    joules: float | None = None
    """Of the processor packages in `wall_s`, whoever used it; `None` where it cannot be measured."""

    @property
    def seconds_per_call(self) -> float:
        return self.total_s / self.calls

    @property
    def median_s(self) -> float:
        """Of the first calls; the mean where no single call was kept."""
        return statistics.median(self.samples_s) if self.samples_s else self.seconds_per_call


def measure(
    call: Callable[[], object],
    *,
    min_time_s: float,
    max_samples: int,
    before: Callable[[], None] | None = None,
    less_s: Callable[[], float] | None = None,
    clock: Clock = time.perf_counter_ns,
    energy: bool = True,
) -> TimedRun:
    """Call until the calls add up to `min_time_s`, at least once. `before` runs ahead of each; it is in no time of the
    run (and since it would count, the energy is then not measured).

    `less_s` gives the untimed seconds of the last call: they are subtracted, and the whole call counts for
    `min_time_s`. The energy is then the timed part's share of the loop's, by its time.
    """
    wanted, total, calls, passed = int(min_time_s * 1e9), 0, 0, 0
    samples: list[float] = []
    started = time.time()
    with collector_paused(), metered(energy and before is None) as joules:
        cpu, wall = time.process_time(), clock()
        while True:
            if before is not None:
                apart_cpu, apart = time.process_time(), clock()
                before()
                wall, cpu = wall + clock() - apart, cpu + time.process_time() - apart_cpu
            start = clock()
            result = call()
            spent = clock() - start
            del result  # freed outside the timed part
            passed += spent
            if less_s is not None:
                spent -= int(less_s() * 1e9)
            total += spent
            calls += 1
            if calls <= max_samples:
                samples.append(spent * 1e-9)
            if passed >= wanted:
                break
        wall, cpu = clock() - wall, time.process_time() - cpu
    return TimedRun(
        calls=calls,
        total_s=total * 1e-9,
        wall_s=wall * 1e-9,
        cpu_s=cpu,
        samples_s=tuple(samples),
        started_s=started,
        joules=_share(joules(), total / wall if less_s is not None and wall else 1.0),
    )


def _share(joules: float | None, share: float) -> float | None:
    return None if joules is None else joules * share


def measure_across(calls: Sequence[Callable[[], object]], *, min_time_s: float, max_samples: int) -> TimedRun:
    """The same with one thread for each of `calls`, all at the same time; they are independent operations.

    `total_s` sums over threads, so that `seconds_per_call` is a call's latency while the others run. `wall_s` is from
    the first thread's start, with all threads there, to the last one's end: the rate of all is `calls / wall_s`.
    """
    from penstock.program.openfhe.evaluator import set_threads

    run_of: list[TimedRun | None] = [None] * len(calls)
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(calls))
    marks: list[tuple[float, float]] = []  # starts and ends of the threads' calls, with the process's processor time

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time()))

    def work(index: int) -> None:
        try:
            set_threads(1)  # OpenMP's number of threads belongs to the calling thread
            barrier.wait()
            mark()
            run_of[index] = measure(calls[index], min_time_s=min_time_s, max_samples=max_samples, energy=False)
            mark()
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(calls))]
    started = time.time()
    with metered() as joules:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    real = [error for error in failures if not isinstance(error, threading.BrokenBarrierError)]
    if real:
        raise real[0]
    runs = [run for run in run_of if run is not None]
    samples = [sample for run in runs for sample in run.samples_s]
    (start, cpu), (end, cpu_at_end) = min(marks), max(marks)
    return TimedRun(
        calls=sum(run.calls for run in runs),
        total_s=sum(run.total_s for run in runs),
        wall_s=end - start,
        cpu_s=cpu_at_end - cpu,
        samples_s=tuple(samples[:max_samples]),
        started_s=started,
        joules=joules(),
    )


def overhead_s() -> float:
    """What our loop adds to a call: the median of calls that do nothing."""
    run = measure(lambda: None, min_time_s=2e-3, max_samples=20_000)
    return statistics.median(run.samples_s)


# Cold caches.


def last_level_cache_bytes() -> int:
    """Size of the largest cache of the first core; 64 MiB where the system does not say."""
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError, UsageError):
            text = file.read_text().strip()
            sizes.append(parse_bytes(f"{text[:-1]} {text[-1]}iB") if text[-1] in "KMG" else int(text))
    return max(sizes, default=_DEFAULT_CACHE_BYTES)


class Flush:
    """Pushes everything out of the processor's caches by walking a buffer of twice the largest."""

    def __init__(self, cache_bytes: int | None = None) -> None:
        self.buffer_bytes = 2 * (cache_bytes or last_level_cache_bytes())
        self._buffer = np.zeros(self.buffer_bytes // 8, dtype=np.int64)

    def __call__(self) -> None:
        self._buffer += 1


def drop_page_cache(path: Path) -> None:
    """Have the next read of `path` come from the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # only clean pages can be dropped
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


# Noise.


@dataclass(frozen=True, slots=True)
class Probe:
    """Times of a fixed piece of work."""

    samples_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.samples_s)

    @property
    def spread(self) -> float:
        """From the 10th to the 90th percentile, relative to the median."""
        low, high = np.percentile(self.samples_s, (10, 90))
        return float((high - low) / self.median_s)


def probe(duration_s: float, *, clock: Clock = time.perf_counter_ns) -> Probe:
    """The calibration loop: a hash of 256 KiB, then products over 8 MiB, again and again.

    The hash sees the clock and other processes on this core; the products see others on the caches and the memory.
    """
    data, factors = bytes(_HASHED_BYTES), np.arange(_PRODUCTS_BYTES // 8, dtype=np.int64)
    products = factors * factors  # its pages are there from now on
    samples: list[float] = []
    wanted, spent = int(duration_s * 1e9), 0
    while spent < wanted or len(samples) < 5:
        start = clock()
        hashlib.sha256(data).digest()
        np.multiply(factors, factors, out=products)
        took = clock() - start
        spent += took
        samples.append(took * 1e-9)
    return Probe(tuple(samples))


def joined(probes: Sequence[Probe]) -> Probe:
    """All their samples."""
    return Probe(tuple(sample for probe in probes for sample in probe.samples_s))


def stolen_share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """The share of processor time that a hypervisor gave to others between two `processor_ticks`."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def processor_ticks() -> tuple[int, int] | None:
    """Ticks stolen and ticks in all since boot, or `None` where the system does not say."""
    try:
        values = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    return (values[7], sum(values)) if len(values) == 8 else None


# The resources of the machine.


def check_affinity(threads: int, cores: int | None = None) -> None:
    """Refuse more threads than this process has cores for.

    Raises: UsageError.
    """
    cores = available_cores() if cores is None else cores
    if threads > cores:
        raise UsageError(
            f"{threads} threads asked for, but this process may use {cores} core{'s' if cores > 1 else ''} (CPU "
            "affinity): they would take turns, and the times would say nothing; widen it (taskset, cpuset, Slurm "
            "--cpus-per-task) or ask for fewer --threads"
        )


def available_bytes() -> int | None:
    """Memory available without swapping: the kernel's estimate, and the rest of the control group."""
    limits = [_stated_bytes("/proc/meminfo", "MemAvailable")]
    with suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text().strip().splitlines()[-1].rpartition(":")[2].lstrip("/")
        folder = Path("/sys/fs/cgroup") / group
        limit = (folder / "memory.max").read_text().strip()
        if limit != "max":
            used = int((folder / "memory.current").read_text())
            cached = 0
            for line in (folder / "memory.stat").read_text().splitlines():
                name, value = line.split()
                cached += int(value) if name == "inactive_file" else 0
            limits.append(int(limit) - used + cached)
    known = [value for value in limits if value is not None]
    return min(known) if known else None


def _stated_bytes(file: str, name: str) -> int | None:
    """A number of bytes in a file of the kernel, `None` where it is not there."""
    with suppress(OSError, ValueError):
        for line in Path(file).read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) * 1024
    return None


def reset_peak_memory() -> None:
    """Begin to look for a new peak of this process's memory, after freed memory has gone back to the system."""
    with suppress(OSError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes() -> int | None:
    """The peak of this process's resident memory since `reset_peak_memory`."""
    return _stated_bytes("/proc/self/status", "VmHWM")
