"""Profiles a workload in a process of its own: events, energy, call stacks, instruction counts, and what that costs.

One process makes the keys once and runs the program several times on them: plain, counted, sampled. Counting and
sampling see the region only (`measure.region`), never the set-up: nothing is subtracted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.errors import CapabilityMissing, PenstockError, UsageError
from penstock.measure import callgrind
from penstock.measure.energy import energy_rows, idle_power_w, packages
from penstock.measure.events import EventRow, Unavailable, canonical, derived_rows, group, is_software
from penstock.measure.perf import ControlError, Counters, Perf, PerfProcess, explain_failure
from penstock.measure.perf_script import Frame, Sample
from penstock.measure.perf_script import parse_script as parse_samples
from penstock.measure.stacks import Hotspot, Span, by_operation, first_frames, folded, hotspots, trimmed
from penstock.system.workers import python_module
from penstock.units import format_seconds

SHORT_S = 20.0
"""A region shorter than this is repeated without and with profiling, so that the overhead is known."""
ROUNDS = 3
MAX_SAMPLES = 20_000
"""A sample carries 16 KiB of stack: the frequency falls where a long region would write more than this many."""
STACK_BYTES = 16_384
ENOUGH_SAMPLED_S = 3.0
"""A short region is sampled again and again until this much of it was seen."""
MAX_SAMPLED_RUNS = 20
CALLGRIND_LIMIT_S = 1800.0

FAULTS = frozenset({"page-faults", "minor-faults", "major-faults"})
"""A process faults its memory in once: repeated runs count next to none."""

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

    def to_row(self) -> dict[str, Any]:
        return {
            "mode": self.mode, "plain_s": statistics.median(self.plain_s),
            "profiled_s": statistics.median(self.profiled_s), "ratio": self.ratio, "within_noise": self.within_noise,
            "plain_samples_s": list(self.plain_s), "profiled_samples_s": list(self.profiled_s),
            "provenance": "measured",
        }  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Profile:
    """Everything that one profile found. What is missing says why in its row."""

    rows: list[EventRow]
    wall_s: float
    setup_s: float
    num_operations: int
    overhead: list[Overhead] = field(default_factory=list)
    samples: list[Sample] | None = None
    sampling: EventRow | None = None
    callgrind: callgrind.CallgrindCounts | None = None
    check: dict[str, Any] = field(default_factory=dict)
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

    def __init__(self, job: dict[str, Any], folder: Path, wrapper: Sequence[str] = ()) -> None:
        reading, writing = os.pipe()
        self._stderr = folder / ("child-callgrind.stderr" if wrapper else "child.stderr")
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        if job["threads"]:
            environment["OMP_NUM_THREADS"] = str(job["threads"])
        try:
            with self._stderr.open("wb") as log:
                self._process = subprocess.Popen(
                    [*wrapper, *python_module("penstock.measure.child"), str(writing)],
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, pass_fds=[writing], env=environment,
                )  # fmt: skip
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

    def run(self, controls: Sequence[tuple[Path, Path]] = (), **options: bool) -> dict[str, Any]:
        """Run the program once."""
        self._tell(
            {
                "do": "run", "controls": [[str(p) for p in pair] for pair in controls],
                "energy": options.get("energy", False), "spans": options.get("spans", False),
                "parent_switch": options.get("parent_switch", False),
            }
        )  # fmt: skip
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

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then the answer's end says why
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        while True:
            line = self._answers.readline()
            if not line:
                raise self._died()
            answer: dict[str, Any] = json.loads(line)
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


def profile(request: Request, folder: Path, stage: Callable[[str], None] = lambda name: None) -> Profile:
    """Profile a workload. `folder` takes the working files; `stage(name)` is told what goes on.

    Raises: PenstockError: the workload itself cannot run. What cannot be measured is a row with its reason instead.
    """
    perf = Perf()
    chosen = perf.choose(request.events)
    job = {
        "workload": request.workload, "params": request.params, "size": request.size, "seed": request.seed,
        "data": request.data, "threads": request.threads, "check": True,
    }  # fmt: skip
    stage("context, keys and data")
    child = Child(job, folder)
    try:
        child.ready()
        idle_w = _idle(request, stage)
        return _profile(request, folder, stage, perf, chosen, child, job, idle_w)
    except BaseException:
        child.kill()
        raise


def _idle(request: Request, stage: Callable[[str], None]) -> float | None:
    found = packages()
    if request.idle_s <= 0 or isinstance(found, Unavailable):
        return None
    stage("idle power")
    return idle_power_w(found, request.idle_s)


def _profile(
    request: Request,
    folder: Path,
    stage: Callable[[str], None],
    perf: Perf,
    chosen: Any,
    child: Child,
    job: dict[str, Any],
    idle_w: float | None,
) -> Profile:
    passes: list[list[str] | None] = [None]
    if request.exact:
        hardware = [g for g in group(chosen.names) if not is_software(g[0])]
        software = [name for name in chosen.names if is_software(name)]
        passes = [*hardware[:-1], [*(hardware[-1] if hardware else []), *software]]
    raw: list[str] = []

    def counted() -> tuple[list[EventRow], dict[str, Any]]:
        rows: dict[str, EventRow] = {}
        answers = []
        for only in passes:
            made = Counters(request.events, pid=child.pid, folder=folder, perf=perf, chosen=chosen, only=only)
            with made as counters:
                paths = counters.control_paths
                answers.append(child.run([paths] if paths else [], energy=True))
                if answers[-1]["failed_controls"]:
                    counters.fail(Unavailable("perf stopped answering during the region", "try again; see dmesg"))
            raw.append(counters.raw)
            for row in counters.rows():
                if row.event not in rows or rows[row.event].value is None:
                    rows[row.event] = row
        ordered = [rows[event] for event in chosen.asked if event in rows]
        return _with_usage(ordered, answers[0]), answers[0]

    stage("counting events")
    runs = [counted()]
    cold = {row.event: row.value for row in runs[0][0]}
    first_s = runs[0][1]["wall_s"]
    measure_overhead = request.overhead if request.overhead is not None else first_s <= SHORT_S
    rounds = (ROUNDS if first_s <= SHORT_S else 1) if measure_overhead else 0
    plain: list[float] = []
    overhead: list[Overhead] = []
    if rounds:
        runs = []  # the first run also warmed the process up: it is not compared
        for number in range(rounds):
            stage(f"without profiling, and counting again ({number + 1} of {rounds})")
            plain.append(child.run()["wall_s"])
            runs.append(counted())
        counted_s = tuple(answer["wall_s"] for _, answer in runs)
        overhead.append(Overhead(mode="events", plain_s=tuple(plain), profiled_s=counted_s))
    answer = runs[-1][1]
    wall_s = statistics.median(a["wall_s"] for _, a in runs)
    rows = _combined([r for r, _ in runs])
    if rounds:
        rows = [
            replace(row, note="; ".join(t for t in (row.note, f"{cold[row.event]} in the process's first run") if t))
            if canonical(row.event) in FAULTS and row.value is not None else row
            for row in rows
        ]  # fmt: skip
    rows.insert(0, _wall_row([a["wall_s"] for _, a in runs]))
    rows += derived_rows(rows, wall_s)
    rows += energy_rows(_energy([a for _, a in runs]), wall_s, idle_w, request.idle_s > 0)
    result = Profile(
        rows=rows, wall_s=wall_s, setup_s=answer["setup_s"], num_operations=answer["num_operations"],
        overhead=overhead, raw=raw,
        check={key: answer[key] for key in ("passed", "max_abs_error", "tolerance", "rules")},
    )  # fmt: skip
    if request.sample:
        stage("sampling call stacks")
        _sample(request, folder, perf, child, result, in_turns=rounds > 0)
    child.end()
    if request.callgrind:
        stage("counting instructions under valgrind")
        _callgrind(folder, job, result)
    return result


def _wall_row(samples: list[float]) -> EventRow:
    return EventRow(
        event="wall-time", value=statistics.median(samples), unit="s", status="ok", running_share=1.0, source="clock",
        note="the region: server-side operations", samples=tuple(samples),
    )  # fmt: skip


def _combined(runs: list[list[EventRow]]) -> list[EventRow]:
    """One row an event from the rows of several runs: the median, all samples kept, the worst status."""
    made = []
    for rows in zip(*runs, strict=True):
        counted = [row for row in rows if row.value is not None]
        if not counted:
            made.append(rows[-1])
            continue
        values = [row.value for row in counted if row.value is not None]
        worst = min(counted, key=lambda row: 1.0 if row.running_share is None else row.running_share)
        median: float | int = statistics.median(values)
        if all(isinstance(v, int) for v in values):
            median = round(median)
        made.append(replace(worst, value=median, samples=tuple(values)))
    return made


def _with_usage(rows: list[EventRow], answer: dict[str, Any]) -> list[EventRow]:
    """Software events that perf could not count, as the kernel itself keeps them for a process."""
    kept: dict[str, tuple[float | int, str]] = {
        "task-clock": (answer["cpu_s"], "s"),
        "page-faults": (answer["minor_faults"] + answer["major_faults"], "1"),
        "minor-faults": (answer["minor_faults"], "1"),
        "major-faults": (answer["major_faults"], "1"),
        "context-switches": (answer["context_switches"], "1"),
    }
    made = []
    for row in rows:
        known = kept.get(canonical(row.event))
        if row.value is None and known is not None:
            row = EventRow(
                event=row.event, value=known[0], unit=known[1], status="ok", running_share=1.0, source="getrusage",
                note=f"perf could not: {row.reason}",
            )  # fmt: skip
        made.append(row)
    return made


def _energy(answers: list[dict[str, Any]]) -> float | Unavailable:
    measured: list[float] = [a["energy_j"] for a in answers if a["energy_j"] is not None]
    if measured:
        return statistics.median(measured)
    found = packages()
    if isinstance(found, Unavailable):
        return found
    return Unavailable("the counters could not be read in the workload's process", "see dmesg")


# Call stacks.


def _sample(request: Request, folder: Path, perf: Perf, child: Child, result: Profile, *, in_turns: bool) -> None:
    """Sample runs until enough was seen; `in_turns`: each after one that is not sampled, for the overhead."""
    threads = request.threads or len(os.sched_getaffinity(0))
    affordable = int(MAX_SAMPLES / max(result.wall_s * threads, 1e-6))
    frequency = max(1, min(request.frequency_hz, affordable))
    if frequency < request.frequency_hz:
        result.warnings.append(
            {
                "what": f"the region is long: stacks are sampled at {frequency} Hz, not {request.frequency_hz} Hz",
                "remedy": "profile a smaller --size to see more detail",
            }
        )
    data = folder / "perf.data"
    missing = perf.missing()
    if missing is not None:
        result.sampling = missing.row("call-stacks", "s")
        return
    graph = f"dwarf,{STACK_BYTES}" if request.call_graph == "dwarf" else request.call_graph
    try:
        process = PerfProcess(
            ["record", "-q", "-o", str(data), "-D", "-1", "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock", "-F",
             str(frequency), "--call-graph", graph, "-p", str(child.pid)],
            folder, "record", perf.binary or "perf",
        )  # fmt: skip
    except ControlError as error:
        result.sampling = error.why.row("call-stacks", "s")
        return
    plain: list[float] = []
    answers: list[dict[str, Any]] = []
    try:
        while not answers or (sum(a["wall_s"] for a in answers) < ENOUGH_SAMPLED_S and len(answers) < MAX_SAMPLED_RUNS):
            if in_turns:  # perf is attached but takes no samples outside a region that switches it on
                plain.append(child.run()["wall_s"])
            answers.append(child.run([process.control_paths], spans=True))
        process.stop()
    except ControlError as error:
        result.sampling = error.why.row("call-stacks", "s")
        return
    except BaseException:
        process.kill()
        raise
    if plain:
        sampled = tuple(a["wall_s"] for a in answers)
        result.overhead.append(Overhead(mode="sampling", plain_s=tuple(plain), profiled_s=sampled))
    try:
        samples = list(_read_samples(data, perf.binary or "perf", 1.0 / frequency))
    except ControlError as error:
        result.sampling = error.why.row("call-stacks", "s")
        return
    finally:
        data.unlink(missing_ok=True)
    spans = [Span(kind, limbs, start, end) for a in answers for kind, limbs, start, end in a["spans"]]
    result.samples = by_operation(samples if request.full_stacks else trimmed(samples), spans)
    sampled_s, cpu_s = sum(s.weight_s for s in samples), sum(a["cpu_s"] for a in answers)
    repeated = f" in {len(answers)} runs" if len(answers) > 1 else ""
    result.sampling = EventRow(
        event="call-stacks", value=sampled_s, unit="s", status="ok" if samples else "unavailable",
        reason="" if samples else "no sample fell into the region", source="perf",
        remedy="" if samples else "profile a longer region, or raise --frequency",
        note=f"{len(samples)} samples at {frequency} Hz of {cpu_s:.3g} s of processor time{repeated}",
    )  # fmt: skip
    if not samples:
        result.sampling = replace(result.sampling, value=None)
    elif len(samples) > 50 and sampled_s < 0.8 * cpu_s:
        result.warnings.append(
            {
                "what": f"the samples cover {sampled_s / cpu_s:.0%} of the processor time: some were lost",
                "remedy": "lower --frequency, or take a quieter machine",
            }
        )


def _read_samples(data: Path, binary: str, period_s: float) -> Iterator[Sample]:
    """The samples of a perf.data file, with C++ names demangled."""
    command = [
        binary, "script", "-i", str(data), "--no-inline", "--ns", "-F", "comm,tid,time,period,event,ip,sym,dso",
    ]  # fmt: skip
    said = data.with_suffix(".stderr")
    with said.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    with process:
        assert process.stdout is not None
        samples = list(parse_samples(process.stdout, period_s))
    code = process.returncode
    if code != 0 and not samples:
        raise ControlError(explain_failure(code, said.read_text(errors="replace")))
    yield from _demangled(samples)


def _demangled(samples: list[Sample]) -> list[Sample]:
    """Names that a perf without a demangler left as they are, read by c++filt where it is installed."""
    mangled = sorted({f.name for s in samples for f in s.stack if f.name.startswith("_Z")})
    tool = shutil.which("c++filt")
    if not mangled or tool is None:
        return samples
    done = subprocess.run([tool, "--no-params"], input="\n".join(mangled), capture_output=True, text=True, check=False)
    names = dict(zip(mangled, done.stdout.splitlines(), strict=False))
    return [replace(s, stack=tuple(replace(f, name=names.get(f.name, f.name)) for f in s.stack)) for s in samples]


# Callgrind.


def _callgrind(folder: Path, job: dict[str, Any], result: Profile) -> None:
    event = "instructions (callgrind)"
    why = callgrind.missing()
    estimate_s = callgrind.SLOWDOWN * (result.wall_s + result.setup_s / 4)
    if why is None and estimate_s > CALLGRIND_LIMIT_S:
        why = Unavailable(
            f"it would take about {format_seconds(estimate_s)} under valgrind, above the limit of "
            f"{format_seconds(CALLGRIND_LIMIT_S)}",
            "take a smaller --size ('ci')",
        )
    if why is not None:
        result.rows.append(why.row(event, source="callgrind"))
        return
    output = folder / "callgrind.out"
    log = folder / "valgrind.log"
    wrapper = [
        "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={output}", f"--log-file={log}",
        "--error-limit=no",
    ]  # fmt: skip
    child = Child({**job, "threads": 1, "check": False}, folder, wrapper)
    switched: list[bool] = []
    child.on_switch = lambda state: switched.append(callgrind.switch(child.pid, state))
    try:
        child.ready()
        child.run(parent_switch=True)
        code = child.end(timeout_s=300)
        if not all(switched):
            raise PenstockError("callgrind_control did not answer")
        with output.open(encoding="utf-8", errors="replace") as lines:
            result.callgrind = callgrind.parse_callgrind(lines)
        if code != 0 or result.callgrind.instructions == 0:
            raise PenstockError(f"it ended with status {code} and {result.callgrind.instructions} instructions")
    except (PenstockError, OSError, ValueError) as error:
        status = child.returncode
        child.kill()
        result.callgrind = None
        said = log.read_text(errors="replace") if log.exists() else ""
        ended = (
            callgrind.explain_end(status, f"{said}\n{child.log}") if status else
            Unavailable(str(error), "take a smaller --size")
        )  # fmt: skip
        result.rows.append(ended.row(event, source="callgrind"))
        return
    except BaseException:
        child.kill()
        raise
    result.rows.append(
        EventRow(
            event=event,
            value=result.callgrind.instructions,
            unit="1",
            status="ok",
            running_share=1.0,
            source="callgrind",
            note="exact, of the code that runs without AVX-512; one thread",
        )
    )
