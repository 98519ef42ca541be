"""Profiles a workload in a separate process: events, energy, call stacks, instruction counts, and their overhead.

One process makes the keys once and runs the program several times on them: plain, counted, sampled. Counting and
sampling see the region only (`measure.region`), never the set-up: nothing is subtracted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from penstock.base.types import Row, Rows
from penstock.base.units import format_seconds
from penstock.errors import PenstockError
from penstock.lab.measure import callgrind
from penstock.lab.measure.energy import energy_rows, idle_power_w, packages
from penstock.lab.measure.events import EventRow, Unavailable, canonical, derived_rows, group, is_software
from penstock.lab.measure.perf import ChosenEvents, Counters, Perf
from penstock.lab.measure.profiled import Child, Overhead, Profile, Request
from penstock.lab.measure.sampling import sample

SHORT_S = 20.0
"""A region shorter than this is repeated without and with profiling, so that the overhead is known."""
ROUNDS = 3
CALLGRIND_LIMIT_S = 1800.0

FAULTS = frozenset({"page-faults", "minor-faults", "major-faults"})
"""A process faults its memory in once: repeated runs count next to none."""


def profile(request: Request, folder: Path, stage: Callable[[str], None] = lambda name: None) -> Profile:
    """Profile a workload. `folder` takes the working files; `stage(name)` is told what goes on.

    Raises: PenstockError: the workload itself cannot run. A quantity that cannot be measured is a row with its reason
    instead.
    """
    perf = Perf()
    chosen = perf.choose(request.events)
    given = ("workload", "params", "size", "seed", "data", "threads")
    job = {name: getattr(request, name) for name in given} | {"check": True}
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
    counters = packages()
    if request.idle_s <= 0 or isinstance(counters, Unavailable):
        return None
    stage("idle power")
    return idle_power_w(counters, request.idle_s)


def _profile(
    request: Request,
    folder: Path,
    stage: Callable[[str], None],
    perf: Perf,
    chosen: ChosenEvents,
    child: Child,
    job: Row,
    idle_w: float | None,
) -> Profile:
    raw: list[str] = []
    counted = partial(_counted, request, folder, perf, chosen, child, raw)
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
        rows = [_with_cold(row, cold[row.event]) for row in rows]
    rows.insert(0, _wall_row([a["wall_s"] for _, a in runs]))
    rows += derived_rows(rows, wall_s)
    rows += energy_rows(_energy([a for _, a in runs]), wall_s, idle_w, request.idle_s > 0)
    result = Profile(
        rows=rows,
        wall_s=wall_s,
        setup_s=answer["setup_s"],
        num_operations=answer["num_operations"],
        overhead=overhead,
        raw=raw,
        check={key: answer[key] for key in ("passed", "max_abs_error", "tolerance", "rules")},
    )
    if request.sample:
        stage("sampling call stacks")
        sample(request, folder, perf, child, result, in_turns=rounds > 0)
    child.end()
    if request.callgrind:
        stage("counting instructions under valgrind")
        _callgrind(folder, job, result)
    return result


def _counted(
    request: Request, folder: Path, perf: Perf, chosen: ChosenEvents, child: Child, raw: list[str]
) -> tuple[list[EventRow], Row]:
    """The events of the program run once, or once for each group of events; the child's answer to the first run."""
    passes: list[list[str] | None] = [None]
    if request.exact:
        hardware = [g for g in group(chosen.names) if not is_software(g[0])]
        software = [name for name in chosen.names if is_software(name)]
        passes = [*hardware[:-1], [*(hardware[-1] if hardware else []), *software]]
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


def _with_cold(row: EventRow, cold: float | None) -> EventRow:
    """A row of faults with a note of those of the process's first run."""
    if canonical(row.event) not in FAULTS or row.value is None:
        return row
    return replace(row, note="; ".join(t for t in (row.note, f"{cold} in the process's first run") if t))


def _wall_row(samples: list[float]) -> EventRow:
    row = _whole("wall-time", statistics.median(samples), "s", "clock", "the region: server-side operations")
    return replace(row, samples=tuple(samples))


def _whole(event: str, value: float, unit: str, source: str, note: str) -> EventRow:
    """A row that was counted all of the time."""
    return EventRow(event=event, value=value, unit=unit, status="ok", running_share=1.0, source=source, note=note)


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


def _with_usage(rows: list[EventRow], answer: Row) -> list[EventRow]:
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
            row = _whole(row.event, *known, "getrusage", f"perf could not: {row.reason}")
        made.append(row)
    return made


def _energy(answers: Rows) -> float | Unavailable:
    measured: list[float] = [a["energy_j"] for a in answers if a["energy_j"] is not None]
    if measured:
        return statistics.median(measured)
    counters = packages()
    if isinstance(counters, Unavailable):
        return counters
    return Unavailable("the counters could not be read in the workload's process", "see dmesg")


# Callgrind.


def _callgrind(folder: Path, job: Row, result: Profile) -> None:
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
        "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        f"--callgrind-out-file={output}",
        f"--log-file={log}",
        "--error-limit=no",
    ]
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
        words = log.read_text(errors="replace") if log.exists() else ""
        ended = (
            callgrind.explain_end(status, f"{words}\n{child.log}")
            if status
            else Unavailable(str(error), "take a smaller --size")
        )
        result.rows.append(ended.row(event, source="callgrind"))
        return
    except BaseException:
        child.kill()
        raise
    exact = "exact, of the code that runs without AVX-512; one thread"
    result.rows.append(_whole(event, result.callgrind.instructions, "1", "callgrind", exact))
