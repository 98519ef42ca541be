"""The frame of the fault bench: cases from seeds, each in a process of its own under bounds, and a tally."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

MOST_SECONDS = 20.0
"""An answer takes no longer."""
MOST_BYTES = 1 << 30
"""Peak resident memory of a process that answers, penstock and its libraries included (about 0.2 GB of it)."""
GRACE = 1.5
"""A process is killed after this many times `MOST_SECONDS`."""
AT_MOST = {"seconds": float("inf")}
"""How long the benches of the service go on; they report what they did until then."""
ASKED: dict[str, list[str]] = {"only": []}
"""Parts of a bench that were named; none: all."""
TEXT_BYTES = 1 << 20
"""Of what a process printed, as much is read."""


def most_bytes() -> int:
    """`MOST_BYTES`, and more in a large process: the peak of a child that it forks begins with its own pages."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return max(MOST_BYTES, pages * resource.getpagesize() + MOST_BYTES // 2)


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative: the signal), seconds, peak resident bytes, and what it printed."""

    code: int
    seconds: float
    peak_bytes: int
    output: str
    errors: str
    most_bytes: int = MOST_BYTES
    """That it may have had at most."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What no input may bring about."""
        printed = self.output + self.errors
        last = [line for line in printed.splitlines() if line.strip()][-1:] or [""]
        found = []
        if self.code < 0:
            found.append(f"ended by {signal.Signals(-self.code).name}")
        if "Traceback (most recent call last)" in printed or "panicked at" in printed:
            found.append(f"traceback: {last[0][:200]}")
        if "internal error" in printed:
            found.append(next(line for line in printed.splitlines() if "internal error" in line)[:300])
        if self.code > 0 and not self.errors.strip():
            found.append(f"exit code {self.code} without a word")
        if self.seconds > MOST_SECONDS:
            found.append(f"took {self.seconds:.1f} s, over {MOST_SECONDS:g} s")
        if self.peak_bytes > self.most_bytes:
            found.append(f"held {self.peak_bytes / 2**20:.0f} MiB, over {self.most_bytes / 2**20:.0f} MiB")
        return tuple(found)


@dataclass(frozen=True)
class Result:
    """A case of a bench: its kind, its seed, how it ended in a word or two, and its faults."""

    bench: str
    kind: str
    seed: int
    ended: str
    faults: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_bytes: int = 0
    cases: int = 1
    notes: str = field(default="", compare=False)
    detail: Any = field(default=None, compare=False)

    def __str__(self) -> str:
        again = f"python tests/faults {self.bench} --count 1 --seed {self.seed}"
        said = f"\n    {self.notes}" if self.notes else ""
        return f"{self.bench}, seed {self.seed}, {self.kind}: {'; '.join(self.faults) or self.ended}\n    {again}{said}"


def command(argv: Sequence[str], folder: Path, *, seconds: float = MOST_SECONDS) -> Ended:
    """`penstock argv…` in a fork of this process, its printed text in `folder`. Faster than a new interpreter."""
    return forked(lambda: _main(argv), folder, seconds=seconds)


def _main(argv: Sequence[str]) -> int:
    from penstock.base.system.frames import pandas_left_out
    from penstock.front.cli.main import main

    with pandas_left_out():
        return main(list(argv))


def forked(function: Callable[[], int], folder: Path, *, seconds: float = MOST_SECONDS) -> Ended:
    """`function` in a fork of this process; its result is the exit code. It is killed long after `seconds`."""
    out, err = folder / "stdout", folder / "stderr"
    sys.stdout.flush()
    sys.stderr.flush()
    began, most = time.monotonic(), most_bytes()
    child = os.fork()
    if child == 0:
        _become(function, out, err)
    watch = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([watch], [], [], seconds * GRACE)
        if not ready:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
    finally:
        os.close(watch)
    took = time.monotonic() - began
    with suppress(ProcessLookupError):  # what the process left behind
        os.killpg(child, signal.SIGKILL)
    return Ended(
        os.waitstatus_to_exitcode(status) if ready else 124, took, used.ru_maxrss * 1024, _text(out), _text(err), most
    )


def _become(function: Callable[[], int], out: Path, err: Path) -> None:
    """In the child: its own process group, its own standard streams, then the function. Does not return."""
    code = 70
    try:
        os.setsid()
        for number, path in ((1, out), (2, err)):
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        # Those of a test runner are elsewhere.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = function()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(TEXT_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def over(check: Callable[[int], Result], seeds: Iterable[int], jobs: int) -> Iterator[Result]:
    """`check` of each seed, `jobs` at a time, each in a worker that was forked from this process, in no order."""
    if jobs <= 1:
        yield from map(check, seeds)
        return
    _check.append(check)
    try:
        with get_context("fork").Pool(jobs) as pool:
            yield from pool.imap_unordered(_checked, seeds)
    finally:
        _check.pop()


_check: list[Callable[[int], Result]] = []


def _checked(seed: int) -> Result:
    return _check[-1](seed)


def reported(results: Iterable[Result], count: int) -> list[Result]:
    """The results. Faults are printed when they are met, and a line of progress now and then."""
    found, said = [], time.monotonic()
    for result in results:
        found.append(result)
        if result.faults:
            print(result, flush=True)
        if time.monotonic() - said > 15:
            said = time.monotonic()
            print(f"  {sum(each.cases for each in found)} of {count}", flush=True)
    return found


def tally(results: Sequence[Result]) -> str:
    """A table: for each kind the cases, how they ended, the faults, the longest and the largest."""
    lines = [f"{'kind':32} {'cases':>7} {'faults':>7} {'together':>9} {'slowest':>9} {'largest':>9}  ended"]
    for kind in sorted({each.kind for each in results}):
        of_kind = [each for each in results if each.kind == kind]
        ended: Counter[str] = Counter()
        for each in of_kind:
            ended[each.ended] += each.cases
        cases, faults = sum(each.cases for each in of_kind), sum(bool(each.faults) for each in of_kind)
        slowest, largest = max(each.seconds for each in of_kind), max(each.peak_bytes for each in of_kind) / 2**20
        together = sum(each.seconds for each in of_kind)
        said = ", ".join(f"{name} {count}" for name, count in ended.most_common())
        lines.append(
            f"{kind[:32]:32} {cases:7} {faults:7} {together:7.0f} s {slowest:7.1f} s {largest:5.0f} MiB  {said}"
        )
    return "\n".join(lines)


def mutated(data: bytes, rng: Any) -> tuple[bytes, str]:
    """`data` with a fault that a disk, a network or an attacker makes, and what it is. `rng`: of `numpy.random`."""
    kind = _MUTATIONS[int(rng.integers(len(_MUTATIONS)))]
    changed = kind(data, rng)
    return changed, kind.__name__.strip("_")


def _place(data: bytes, rng: Any) -> int:
    """A position, as often near an end, where headers and footers are, as anywhere."""
    where, size = rng.random(), max(len(data), 1)
    near = min(size, 256)
    if where < 0.25:
        return int(rng.integers(near))
    return size - 1 - int(rng.integers(near)) if where < 0.5 else int(rng.integers(size))


def _one_bit(data: bytes, rng: Any) -> bytes:
    changed, at = bytearray(data or b"\0"), _place(data, rng)
    changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _some_bytes(data: bytes, rng: Any) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(int(rng.integers(1, 17))):
        changed[_place(data, rng)] = int(rng.integers(256))
    return bytes(changed)


def _cut(data: bytes, rng: Any) -> bytes:
    return data[: _place(data, rng)]


def _emptied(data: bytes, rng: Any) -> bytes:
    return b""


def _hole(data: bytes, rng: Any) -> bytes:
    """A part is gone."""
    at = _place(data, rng)
    return data[:at] + data[at + int(rng.integers(1, 4097)) :]


def _zeros(data: bytes, rng: Any) -> bytes:
    """A block was never written."""
    at, size = _place(data, rng), int(rng.integers(1, 4097))
    return (data[:at] + bytes(size) + data[at + size :])[: len(data)]


def _twice(data: bytes, rng: Any) -> bytes:
    at = _place(data, rng)
    part = data[at : at + int(rng.integers(1, 4097))]
    return data[:at] + part + data[at:]


def _longer(data: bytes, rng: Any) -> bytes:
    return data + bytes(rng.integers(0, 256, int(rng.integers(1, 4097)), dtype="uint8"))


_NUMBERS = [
    b"0",
    b"-1",
    b"1e308",
    b"inf",
    b"nan",
    b"-0.0",
    b"18446744073709551616",
    b"9" * 400,
    b"1e-320",
    b"true",
    b'""',
]


def _number(data: bytes, rng: Any) -> bytes:
    """A number of a text is another."""
    import re

    numbers = list(re.finditer(rb"(?<![\w.])-?\d+(\.\d+)?([eE][-+]?\d+)?(?![\w.])", data[: 1 << 16]))
    if not numbers:
        return _some_bytes(data, rng)
    spot = numbers[int(rng.integers(len(numbers)))]
    return data[: spot.start()] + _NUMBERS[int(rng.integers(len(_NUMBERS)))] + data[spot.end() :]


def _line(data: bytes, rng: Any) -> bytes:
    """A line of a text is gone, twice there, or elsewhere."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return _twice(data, rng)
    taken = lines[int(rng.integers(len(lines)))]
    if rng.random() < 0.5:
        lines.remove(taken)
    if rng.random() < 0.6:
        lines.insert(int(rng.integers(len(lines) + 1)), taken)
    return b"".join(lines)


def _nested(data: bytes, rng: Any) -> bytes:
    """Brackets without an end where a value may stand."""
    at = data.find(b"=") + 1 or data.find(b":") + 1 or _place(data, rng)
    return data[:at] + b"[" * int(rng.choice([50, 2_000, 100_000])) + data[at:]


_MUTATIONS = (_one_bit, _one_bit, _some_bytes, _cut, _emptied, _hole, _zeros, _twice, _longer, _number, _line, _nested)
