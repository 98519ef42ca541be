"""Call stacks of a profiled run, sampled by perf while the region runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from penstock.base.system.host import available_cores
from penstock.base.types import Rows
from penstock.lab.measure.events import EventRow
from penstock.lab.measure.perf import ControlError, Perf, PerfProcess, explain_failure
from penstock.lab.measure.perf_script import Sample
from penstock.lab.measure.perf_script import parse_script as parse_samples
from penstock.lab.measure.profiled import Child, Overhead, Profile, Request
from penstock.lab.measure.stacks import Span, by_operation, trimmed

MAX_SAMPLES = 20_000
"""A sample carries 16 KiB of stack: the frequency falls where a long region would write more than this many."""
STACK_BYTES = 16_384
ENOUGH_SAMPLED_S = 3.0
"""A short region is sampled again and again until this much of it was seen."""
MAX_SAMPLED_RUNS = 20


def sample(request: Request, folder: Path, perf: Perf, child: Child, result: Profile, *, in_turns: bool) -> None:
    """Sample runs until enough was seen; `in_turns`: each after one that is not sampled, for the overhead."""
    threads = request.threads or available_cores()
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
    binary = perf.binary or "perf"
    try:
        missing = perf.missing()
        if missing is not None:
            raise ControlError(missing)
        process = PerfProcess(_command(data, frequency, request, child), folder, "record", binary)
        answers = _sampled_runs(process, child, result, in_turns=in_turns)
        try:
            samples = list(_read_samples(data, binary, 1.0 / frequency))
        finally:
            data.unlink(missing_ok=True)
    except ControlError as error:
        result.sampling = error.why.row("call-stacks", "s")
        return
    spans = [Span(kind, limbs, start, end) for a in answers for kind, limbs, start, end in a["spans"]]
    result.samples = by_operation(samples if request.full_stacks else trimmed(samples), spans)
    sampled_s, cpu_s = sum(s.weight_s for s in samples), sum(a["cpu_s"] for a in answers)
    repeated = f" in {len(answers)} runs" if len(answers) > 1 else ""
    result.sampling = EventRow(
        event="call-stacks",
        value=sampled_s if samples else None,
        unit="s",
        status="ok" if samples else "unavailable",
        reason="" if samples else "no sample fell into the region",
        source="perf",
        remedy="" if samples else "profile a longer region, or raise --frequency",
        note=f"{len(samples)} samples at {frequency} Hz of {cpu_s:.3g} s of processor time{repeated}",
    )
    if len(samples) > 50 and sampled_s < 0.8 * cpu_s:
        result.warnings.append(
            {
                "what": f"the samples cover {sampled_s / cpu_s:.0%} of the processor time: some were lost",
                "remedy": "lower --frequency, or take a quieter machine",
            }
        )


def _sampled_runs(process: PerfProcess, child: Child, result: Profile, *, in_turns: bool) -> Rows:
    """The child's answers to runs that perf samples, until enough was seen."""
    plain: list[float] = []
    answers: Rows = []
    try:
        while not answers or (sum(a["wall_s"] for a in answers) < ENOUGH_SAMPLED_S and len(answers) < MAX_SAMPLED_RUNS):
            if in_turns:  # perf is attached but takes no samples outside a region that switches it on
                plain.append(child.run()["wall_s"])
            answers.append(child.run([process.control_paths], spans=True))
        process.stop()
    except ControlError:
        raise
    except BaseException:
        process.kill()
        raise
    if plain:
        sampled = tuple(a["wall_s"] for a in answers)
        result.overhead.append(Overhead(mode="sampling", plain_s=tuple(plain), profiled_s=sampled))
    return answers


def _command(data: Path, frequency: int, request: Request, child: Child) -> list[str]:
    graph = f"dwarf,{STACK_BYTES}" if request.call_graph == "dwarf" else request.call_graph
    fixed = ["record", "-q", "-D", "-1", "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock"]
    return [*fixed, "-o", str(data), "-F", str(frequency), "--call-graph", graph, "-p", str(child.pid)]


def _read_samples(data: Path, binary: str, period_s: float) -> Iterator[Sample]:
    """The samples of a perf.data file, with C++ names demangled."""
    command = [binary, "script", "-i", str(data), "--no-inline", "--ns", "-F", "comm,tid,time,period,event,ip,sym,dso"]
    complaints = data.with_suffix(".stderr")
    with complaints.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )
    with process:
        assert process.stdout is not None
        samples = list(parse_samples(process.stdout, period_s))
    code = process.returncode
    if code != 0 and not samples:
        raise ControlError(explain_failure(code, complaints.read_text(errors="replace")))
    yield from _demangled(samples)


def _demangled(samples: list[Sample]) -> list[Sample]:
    """Names that a perf without a demangler left mangled, read by c++filt if it is installed."""
    mangled = sorted({f.name for s in samples for f in s.stack if f.name.startswith("_Z")})
    tool = shutil.which("c++filt")
    if not mangled or tool is None:
        return samples
    done = subprocess.run([tool, "--no-params"], input="\n".join(mangled), capture_output=True, text=True, check=False)
    names = dict(zip(mangled, done.stdout.splitlines(), strict=False))
    return [replace(s, stack=tuple(replace(f, name=names.get(f.name, f.name)) for f in s.stack)) for s in samples]
