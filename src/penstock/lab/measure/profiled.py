"""A profiled program, the process that runs it, and the findings."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base.system.workers import python_module
from penstock.base.types import Row
from penstock.errors import CapabilityMissing, PenstockError, UsageError
from penstock.lab.measure import callgrind
from penstock.lab.measure.events import EventRow
from penstock.lab.measure.perf_script import Frame, Sample
from penstock.lab.measure.stacks import Hotspot, first_frames, folded, hotspots

_ERRORS: dict[int, type[PenstockError]] = {1: PenstockError, 2: UsageError, 3: CapabilityMissing}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to profile, and how. `params` is a name or a file, as on the command line."""

    workload: str
    size: str | None = None
    params: str | None = None
    seed: int = 0
    data: str | None = None
    threads: int | None = None
    events: tuple[str, ...]
    exact: bool = False
    """One run for each group of events, so that none shares its counter."""
    sample: bool = False
    frequency_hz: int = 199
    call_graph: str = "dwarf"
    full_stacks: bool = False
    callgrind: bool = False
    overhead: bool | None = None
    """Measure the overhead: `None` where the region is short."""
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """The region's time without and with one kind of profiling. Medians of runs that took turns."""

    mode: str
    plain_s: tuple[float, ...]
    profiled_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(self.profiled_s) / statistics.median(self.plain_s)

    @property
    def within_noise(self) -> bool | None:
        """Whether the two differ by less than the plain runs do among each other; `None` with one plain run."""
        if len(self.plain_s) < 2:
            return None
        spread = max(self.plain_s) - min(self.plain_s)
        return abs(statistics.median(self.profiled_s) - statistics.median(self.plain_s)) <= spread

    def to_row(self) -> Row:
        return {
            "mode": self.mode, "plain_s": statistics.median(self.plain_s),
            "profiled_s": statistics.median(self.profiled_s), "ratio": self.ratio, "within_noise": self.within_noise,
            "plain_samples_s": list(self.plain_s), "profiled_samples_s": list(self.profiled_s),
            "provenance": "measured",
        }  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Profile:
    """Everything that one profile found. A missing quantity has a row with the reason."""

    rows: list[EventRow]
    wall_s: float
    setup_s: float
    num_operations: int
    overhead: list[Overhead] = field(default_factory=list)
    samples: list[Sample] | None = None
    sampling: EventRow | None = None
    callgrind: callgrind.CallgrindCounts | None = None
    check: Row = field(default_factory=dict)
    warnings: list[dict[str, str]] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    """What perf stat printed, run by run."""

    @property
    def stacks(self) -> dict[tuple[Frame, ...], float]:
        return folded(self.samples or [])

    @property
    def hotspots(self) -> list[Hotspot]:
        return hotspots(self.samples or [])

    @property
    def seconds_by_operation(self) -> dict[str, float]:
        return first_frames(self.samples or [])


class Child:
    """The workload's process. It waits between runs, and ends with this object."""

    def __init__(self, job: Row, folder: Path, wrapper: Sequence[str] = ()) -> None:
        reading, writing = os.pipe()
        self._stderr = folder / ("child-callgrind.stderr" if wrapper else "child.stderr")
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        if job["threads"]:
            environment["OMP_NUM_THREADS"] = str(job["threads"])
        try:
            with self._stderr.open("wb") as log:
                self._process = subprocess.Popen(
                    [*wrapper, *python_module("penstock.lab.measure.child"), str(writing)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=[writing],
                    env=environment,
                )
        finally:
            os.close(writing)
        self._answers = os.fdopen(reading, encoding="utf-8")
        self.pid = self._process.pid
        self.on_switch: Callable[[str], None] = lambda state: None
        self._tell(job)

    def ready(self) -> None:
        """Wait until the keys are made.

        Raises: PenstockError: the workload cannot run, in the child's own words.
        """
        self._hear()

    def run(self, controls: Sequence[tuple[Path, Path]] = (), **options: bool) -> Row:
        """Run the program once."""
        self._tell(
            {
                "do": "run",
                "controls": [[str(p) for p in pair] for pair in controls],
                **{name: options.get(name, False) for name in ("energy", "spans", "parent_switch")},
            }
        )
        return self._hear()

    def end(self, timeout_s: float = 60.0) -> int:
        """Let it end, and return its exit status."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._answers.close()
        return code

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
        self.end()

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def log(self) -> str:
        """What it wrote to stderr."""
        try:
            return self._stderr.read_text(errors="replace")
        except OSError:
            return ""

    def _tell(self, message: Row) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then the answer's end says why
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _hear(self) -> Row:
        while True:
            line = self._answers.readline()
            if not line:
                raise self._died()
            answer: Row = json.loads(line)
            if "switch" in answer:
                self.on_switch(answer["switch"])
                self._tell({"done": True})
                continue
            if "error" in answer:
                raise _ERRORS.get(answer["exit_code"], PenstockError)(answer["error"])
            return answer

    def _died(self) -> PenstockError:
        code = self._process.wait()
        if code < 0:
            name = signal.Signals(-code).name
            hint = "out of memory? take a smaller --size" if code == -signal.SIGKILL else "report it with this command"
            return PenstockError(f"the workload's process was ended by {name}; {hint}")
        lines = [line for line in self.log.splitlines() if line.strip()]
        return PenstockError(f"the workload's process ended with status {code}: {lines[-1] if lines else 'no message'}")
