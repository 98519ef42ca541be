"""The main job: run a workload encrypted, check and record it, fit this CPU, simulate machines and tiers.

Each stage is stored when it is done; an interrupted analysis resumes at the first stage that is missing.
"""

from __future__ import annotations

import hashlib
import re
import resource
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.base.runs.record import DamagedRun
from penstock.base.system.host import available_cores
from penstock.base.system.progress import Progress
from penstock.base.types import Row, Rows
from penstock.errors import ParamsError, PenstockError, UsageError
from penstock.lab.fit.fit import fit_machine, trace_measurements
from penstock.lab.simulation.memory.serial_law import IDEAL_SHARE, required_hit_ratio
from penstock.lab.simulation.play import simulate
from penstock.program import workloads
from penstock.program.running.clear import run_clear
from penstock.program.running.measured import byte_rows, measured_rows, row_of
from penstock.program.running.reading import Run, resolve
from penstock.program.running.readings import DEFAULT_READING, READINGS
from penstock.program.running.trace import trace_workload
from penstock.scheme.machines.catalogue import load_machine, load_machines, load_tiers
from penstock.scheme.machines.missing import assumptions
from penstock.scheme.machines.schema import Machine, Tier
from penstock.scheme.machines.written import machine_toml, write_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.play.caches import Belady, ForcedHitRatio, Lru, Optimal
from penstock.scheme.play.price import PricedTrace, price_trace
from penstock.scheme.traces.export import timeline
from penstock.scheme.traces.inspect import summary
from penstock.scheme.traces.io import read_trace, write_trace
from penstock.scheme.traces.schema import Trace

READINGS_OFFERED = tuple(name for name, reading in READINGS.items() if reading.keys)
"""Readings that encrypt."""
THIS_CPU = "this-cpu"
ACCELERATORS = ("sharp", "a100-tensorfhe")
TIERS = ("hbm", "ddr5", "pcie5", "rdma")
HIT_RATIOS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
CACHE_SHARES = (0.125, 0.25, 0.5, 0.75, 1.0)
"""Cache sizes, as shares of the bytes of all keys of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRequest:
    """What to analyze. Two requests that are equal are the same run, so that the second resumes the first."""

    workload: str
    size: str
    params: CkksParameters
    seed: int
    threads: int | None
    data: Path | None
    machines: tuple[Machine | None, ...]
    """`None` stands for this CPU, which the run itself fits."""
    tiers: tuple[Tier, ...]
    reading: str = DEFAULT_READING
    """Who computes on the ciphertexts: a name of `READINGS_OFFERED`."""
    client_library: str | None = None
    """As the native reading takes it."""

    @property
    def name(self) -> str:
        """Of the workload, as results state it."""
        return str(workloads.get(self.workload).NAME)

    def config(self, command: str) -> Row:
        """The resolved configuration that the run folder stores."""
        own = workloads.identity(self.workload)
        return {
            **({} if own is None else {"program": own}),
            "workload": self.name,
            "size": self.size,
            "params": self.params.name,
            "reading": self.reading,
            **({} if self.client_library is None else {"client_library": self.client_library}),
            "seed": self.seed,
            "threads": self.threads,
            "data": str(self.data.resolve()) if self.data else None,
            "machines": [_identity(machine) for machine in self.machines],
            "tiers": [_identity(tier) for tier in self.tiers],
            "parameters": self.params.to_dict(),
            "command": command,
        }


def _identity(entry: Machine | Tier | None) -> str:
    """A machine or tier in the configuration: its name, and a digest of its content."""
    if entry is None:
        return THIS_CPU
    content = machine_toml(entry) if isinstance(entry, Machine) else repr(entry)
    return f"{entry.name} {_digest(content)[:16]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def analyze(run: RunFolder, request: AnalysisRequest, progress: Progress) -> Row:
    """Do every stage that `run` lacks and return the headline numbers, as `penstock analyze --format json` prints them.

    A failed check appears in the numbers (`passed`) and in the report; the caller decides on the consequence.
    """
    trace = _encrypted(run, request, progress)
    with progress.stage("fit this CPU"):
        cpu = _fit(run, trace, request.threads or available_cores())
    with progress.stage("simulate", total=len(request.machines)) as stage:
        _simulate(run, request, trace, cpu, stage.advance)
    return headline(run, trace)


# Encrypted, checked, recorded.


def _encrypted(run: RunFolder, request: AnalysisRequest, progress: Progress) -> Trace:
    if run.has_stage("measured"):
        try:
            run.check_artifact(run.trace_path.name)
            return read_trace(run.trace_path)
        except DamagedRun:
            raise
        except PenstockError as error:
            raise PenstockError(f"{error}; or start the run again with --force") from error
    workload = workloads.get(request.workload)
    size = workload.SIZES[request.size]
    data = workload.data(size, request.params.slots, request.seed, request.data)
    clear = run_clear(request.workload, request.params, request.size, request.seed, data)
    with progress.stage(f"{request.name} encrypted, N=2^{request.params.ring_dim.bit_length() - 1}") as stage:
        done: Run = READINGS[request.reading].read(
            request.workload,
            request.params,
            request.size,
            request.seed,
            data,
            threads=request.threads,
            on_operation=lambda n, total: stage.update(n, total=total),
            **({} if request.client_library is None else {"client_library": request.client_library}),
        )
    check = workload.check(clear, done.result, data, size)
    write_trace(done.trace, run.trace_path, force=True)
    run.note_artifact(run.trace_path.name)
    run.update(
        params=request.params.to_dict(),
        check={
            "passed": check.passed,
            "max_abs_error": check.max_abs_error,
            "tolerance": check.tolerance,
            "rules": list(check.rules),
            **check.numbers,
        },
        data=getattr(data, "description", ""),
    )
    rows = list(measured_rows(done.trace))
    rows += [
        row_of("wall_s", done.wall_s, "s", "measured"),
        row_of("setup_s", sum(done.setup_s.values()), "s", "measured"),
        row_of("encode_s", done.encode_s, "s", "measured"),
        # ru_maxrss counts KiB on Linux.
        row_of("peak_rss_bytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "B", "measured"),
    ]
    run.write_timeline(timeline(done.trace))
    if not run.has_stage("bytes"):
        run.append_rows("bytes", byte_rows(done.trace))
    run.append_rows("measured", rows)
    return done.trace


# This CPU.


def _fit(run: RunFolder, trace: Trace, threads: int) -> Machine:
    """`this-cpu`, fitted to the primitives that the run timed; stored in the run folder as a machine file."""
    path = run.path / "this-cpu.toml"
    if run.has_stage("fit") and path.is_file():
        run.check_artifact(path.name)
        return load_machine(str(path))
    cpu = fit_machine(trace_measurements(trace, threads), name=THIS_CPU, fewest=1)
    write_machine(cpu, path, force=True)
    run.note_artifact(path.name)
    if run.has_stage("fit"):  # only the file was gone; it is the same again
        return cpu
    errors = cpu.fit.errors if cpu.fit else ()
    rows = [
        row_of("fit_error", getattr(error, of), "1", "predicted", machine=THIS_CPU, kind=error.kind, note=of)
        for error in errors
        for of in ("mean_abs", "median_abs", "p90_abs", "worst_abs", "bias")
    ]
    rows += _predicted_rows(trace, cpu)
    run.append_rows("fit", rows)
    for warning in cpu.fit.warnings if cpu.fit else ():
        what, _, remedy = warning.partition("; ")
        run.warn(f"this-cpu: {what}", remedy)
    return cpu


def _predicted_rows(trace: Trace, cpu: Machine) -> Iterator[Row]:
    priced = price_trace(trace, cpu)
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    operations = trace.view().server_operations()
    for kind, limbs, took in zip(
        operations["kind"].to_pylist(), operations["limbs_in"].to_pylist(), priced.compute_s.tolist(), strict=True
    ):
        seconds[kind, limbs] += took
    for (kind, limbs), total in seconds.items():
        if kind in priced.unpriced:
            continue
        yield row_of("predicted_op_seconds", total, "s", "predicted", machine=THIS_CPU, kind=kind, limbs=limbs)


# Simulated.


def accelerator_trace(request: AnalysisRequest, machine: Machine) -> Trace:
    """The same program, size and data, traced at the parameters that the machine's word size was built for."""
    if machine.native_params is None:
        raise PenstockError(f"machine '{machine.name}' names no parameter set: set native_params in its file")
    return _traced(request, catalogue.get(machine.native_params))


def _traced(request: AnalysisRequest, params: CkksParameters) -> Trace:
    """The program by the `trace` reading; the user's own data say how large it is."""
    data = None
    if request.data is not None:
        workload = workloads.get(request.workload)
        data = workload.data(workload.SIZES[request.size], params.slots, request.seed, request.data)
    return trace_workload(request.workload, params, request.size, request.seed, data)


def _simulate(
    run: RunFolder, request: AnalysisRequest, trace: Trace, cpu: Machine, advance: Callable[[], None]
) -> None:
    tiers = request.tiers
    stated: Rows = []
    for chosen in request.machines:
        machine = cpu if chosen is None else chosen
        stated += [{"machine": machine.name, **a} for a in assumptions(machine)]
        stage = f"simulate-{_stage_name(machine.name)}"
        if not run.has_stage(stage):
            try:
                used = trace if chosen is None else accelerator_trace(request, machine)
            except ParamsError as error:
                run.warn(f"{machine.name} is not simulated: {error}", "take a size that its parameters carry")
                advance()
                continue
            priced = price_trace(used, machine)
            for warning in priced.warnings:
                run.warn(f"{machine.name}: {warning}", "take its simulated times as a lower bound")
            run.append_rows(stage, tidy_rows(simulated_rows(used, tiers, priced), used, tiers, priced))
        advance()
    stated += [
        {
            "machine": tier.name,
            "field": "bandwidth",
            "value": f"{tier.bandwidth_bytes_per_s:g} B/s",
            "kind": tier.kind,
            "source": tier.source,
        }
        for tier in tiers
    ]
    run.update(assumptions=stated)


def _stage_name(machine: str) -> str:
    """A name as stages have them; a machine whose own is changed by that keeps apart by a digest.

    >>> _stage_name("sharp"), _stage_name("My sharp")
    ('sharp', 'my-sharp-0d373621')
    """
    plain = _NOT_IN_STAGES.sub("-", machine.lower()).strip("-")[:40]
    return plain if plain == machine else f"{plain or 'machine'}-{_digest(machine)[:8]}"


_NOT_IN_STAGES = re.compile(r"[^a-z0-9]+")


def simulated_rows(trace: Trace, tiers: Sequence[Tier], priced: PricedTrace) -> Rows:
    """Every tier with forced hit ratios and with caches of several sizes (serial), and the other time modes."""
    keys = summary(trace)["key_bytes_unique"] or 0
    sizes = sorted({max(1, round(share * keys)) for share in CACHE_SHARES})
    caches = [ForcedHitRatio(h) for h in HIT_RATIOS]
    replaced = [policy(capacity_bytes=size) for policy in (Lru, Belady, Optimal) for size in sizes] if keys else []
    rows = simulate(priced, tiers, caches=[*caches, *replaced], modes=("serial",))
    rows += simulate(priced, tiers, caches=[ForcedHitRatio(0.0)], modes=("overlap", "bound"))
    return rows


_QUANTITIES = {
    "compute_s": "s", "io_s": "s", "total_s": "s", "slowdown": "1", "io_bytes": "B", "key_bytes": "B", "energy_j": "J",
}  # fmt: skip
_DIMENSIONS = ("machine", "tier", "mode", "cache_bytes", "policy", "hit_ratio")


def tidy_rows(results: Sequence[Row], trace: Trace, tiers: Sequence[Tier], priced: PricedTrace) -> Iterator[Row]:
    """Tidy rows: one quantity each, and the hit ratio that 80 % of the ideal needs on each tier."""
    params = trace.parameters().name
    by_name = {tier.name: tier for tier in tiers}
    asked: set[tuple[str, str]] = set()
    for result in results:
        dimensions = {name: result[name] for name in _DIMENSIONS} | {"params": params}
        for quantity, unit in _QUANTITIES.items():
            if result[quantity] is not None:
                yield row_of(quantity, result[quantity], unit, "simulated", **dimensions)
        place = (result["machine"], result["tier"])
        if place not in asked and result["mode"] == "serial" and result["compute_s"]:
            asked.add(place)
            ratio = result["key_bytes"] / result["compute_s"]
            tier = by_name[result["tier"]]
            needed = required_hit_ratio(
                ratio,
                tier.bandwidth_bytes_per_s,
                target=IDEAL_SHARE,
                reads_per_ideal_s=priced.demand_reads_per_s,
                latency_s=tier.latency_s,
            )
            where = {"machine": result["machine"], "tier": result["tier"], "mode": "serial", "params": params}
            yield row_of("hit_ratio_for_80_percent", needed, "1", "predicted", note="closed form", **where)
            yield row_of("key_bytes_per_ideal_s", ratio, "B/s", "predicted", note="closed form", **where)


# The headline.


_CHECKED = ("max_abs_error", "tolerance", "accuracy_clear", "accuracy_encrypted", "chance_accuracy")
"""Numbers of a run's check that the headline repeats, where it has them."""


def headline(run: RunFolder, trace: Trace) -> Row:
    """The numbers that answer the question, from a run's stored rows."""
    totals = summary(trace)
    measured = {row["quantity"]: row["value"] for row in run.stage_rows("measured") if row["kind"] is None}
    errors = {
        row["note"]: row["value"]
        for row in run.stage_rows("fit")
        if row["quantity"] == "fit_error" and row["kind"] == "all"
    }
    check = run.record.get("check", {})
    simulated = []
    for stage in run.stages():
        if not stage.startswith("simulate-"):
            continue
        rows = run.stage_rows(stage)
        needed = {(r["machine"], r["tier"]): r["value"] for r in rows if r["quantity"] == "hit_ratio_for_80_percent"}
        first = defaultdict(dict)  # type: dict[tuple[str, str], Row]
        for r in rows:
            if r["mode"] == "serial" and r["policy"] == "forced" and r["hit_ratio"] == 0.0:
                first[r["machine"], r["tier"]][r["quantity"]] = r["value"]
                first[r["machine"], r["tier"]]["params"] = r["params"]
        for (machine, tier), values in first.items():
            simulated.append(
                {
                    "machine": machine, "tier": tier, "params": values["params"], "compute_s": values.get("compute_s"),
                    "total_s": values.get("total_s"), "slowdown": values.get("slowdown"),
                    "hit_ratio_for_80_percent": needed.get((machine, tier)), "provenance": "simulated",
                }
            )  # fmt: skip
    return {
        "run_folder": str(run.path),
        "report": str(run.report_path),
        **{name: totals[name] for name in ("workload", "size", "params")},
        "reading": trace.meta.reading,
        "security_bits": totals["security_bits"],
        **{name: totals[name] for name in ("num_operations", "num_keys", "key_bytes_unique", "key_bytes_touched")},
        "measured_s": measured.get("wall_s"),
        "setup_s": measured.get("setup_s"),
        "peak_rss_bytes": int(measured["peak_rss_bytes"]) if measured.get("peak_rss_bytes") else None,
        "passed": check.get("passed"),
        "rules": check.get("rules", []),
        **{name: check.get(name) for name in _CHECKED},
        "fit_mean_abs_error": errors.get("mean_abs"),
        "fit_bias": errors.get("bias"),
        "simulated": simulated,
        "warnings": run.warnings,
    }


def request_of(
    workload: str,
    *,
    params: str | None,
    size: str | None,
    seed: int,
    threads: int | None,
    data: Path | None,
    machines: Sequence[str],
    tiers: Sequence[str],
    reading: str = DEFAULT_READING,
    client_library: str | None = None,
) -> AnalysisRequest:
    """A checked request from a user's words; every name is looked up before anything is run.

    Raises: UsageError: a name that is not there, or a client library for a reading that takes none.
    """
    if client_library is not None and "client_library" not in READINGS[reading].options:
        raise UsageError(f"the {reading} reading has its own client: leave the client library out")
    _, size_name, checked = resolve(workload, params, size)
    wanted = list(dict.fromkeys(machines))
    loaded = load_machines([name for name in wanted if name != THIS_CPU])
    if THIS_CPU in wanted and THIS_CPU in [machine.name for machine in loaded]:
        raise UsageError(
            f"two machines are named '{THIS_CPU}', a file and the one that this run fits: results could not be told "
            "apart; change 'name' in the file"
        )
    in_order = iter(loaded)
    return AnalysisRequest(
        workload=workload,
        size=size_name,
        params=checked,
        seed=seed,
        threads=threads,
        data=data,
        machines=tuple(None if name == THIS_CPU else next(in_order) for name in wanted),
        tiers=tuple(load_tiers(tiers)),
        reading=reading,
        client_library=client_library,
    )


def describe(request: AnalysisRequest) -> Row:
    """What an analysis would do, for `--dry-run`."""
    totals = summary(_traced(request, request.params))
    keys = totals["key_bytes_unique"]
    fresh = request.params.ciphertext_bytes(request.params.num_q)
    return {
        "workload": request.name, "size": request.size, "params": request.params.name, "reading": request.reading,
        "security_bits": request.params.security_bits, "num_operations": totals["num_operations"],
        "num_keys": totals["num_keys"], "key_bytes_unique": keys, "fresh_ciphertext_bytes": fresh,
        "machines": [THIS_CPU if m is None else m.name for m in request.machines],
        "tiers": [tier.name for tier in request.tiers], "provenance": "predicted",
    }  # fmt: skip
