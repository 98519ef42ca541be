"""Time and memory of a point before it runs: predicted, from the kernel algebra and the sizes of keys and data.

Times use the nominal costs of `penstock.lab.fit.fit`, scaled so that a rotation at N = 2^16 and 11 limbs takes 200 ms,
as OpenFHE 1.6.1 does on one x86-64 core. They are good to about a factor of two: to order points and to plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.base.types import Row, Rows
from penstock.lab.fit.cpu import NOMINAL_COST, UNITS, exclusive_amounts
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.spec import GROUPS, IN_TURNS, BenchPoint, SuitePlan
from penstock.lab.measure.bench.timing import last_level_cache_bytes
from penstock.lab.measure.memory import ALLOCATION, PROCESS_BYTES
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.tally import Tally, peak, tally_of
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.kernels import KernelWork, kernel_work, key_switch
from penstock.scheme.work.shapes import shape_work

SECONDS_PER_MULTIPLICATION = 1.7e-9
PARALLEL_GAIN = 0.6
"""How much of a further thread's time OpenFHE makes use of."""
KEY_LOAD_BYTES_PER_S = 0.27e9
"""OpenFHE parses serialized keys at this rate, whatever the drive gives."""
CALL_S = 5e-6
"""Seconds of a call beyond its work."""
PROBES_S = 0.04
"""Around each run the fixed piece of work is timed twice, that says how noisy the machine is."""
FLUSH_BYTES_PER_S = 5e9
"""A core reads and writes what no cache holds at about this rate."""
KEY_GENERATION_KEY_SWITCHES = 4
"""To make a key takes about as long as so many key switches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointEstimate:
    """Predicted, not measured."""

    call_s: float
    """One call, or one run of a program."""
    setup_s: float
    """Context, keys and inputs where nothing is stored yet."""
    total_s: float
    """All runs, without set-up."""
    memory_bytes: int
    """Peak of the process."""


_KEYS_OF_A_SET = 2
"""For relinearization and for rotation."""


@lru_cache(maxsize=4096)
def estimate(point: BenchPoint) -> PointEstimate:
    """What a point will take."""
    if point.group == "primitives":
        call, memory, keys = _primitive(point)
    else:
        from penstock.program.running.trace import trace_workload

        trace = trace_workload(point.item, point.params, point.size)
        call, memory, keys = (
            _seconds_of(tally_of(trace), client=True),
            _memory_of(trace, point),
            len(trace.key_ids()),
        )
    memory = PROCESS_BYTES + int(ALLOCATION * memory)
    call /= 1 + PARALLEL_GAIN * (point.threads - 1)
    setup = keys * KEY_GENERATION_KEY_SWITCHES * nominal_seconds(key_switch(point.params, point.params.num_q))
    run = max(point.min_time_s, call) + PROBES_S
    if point.group == "primitives":
        run += call  # one that does not count
    if point.condition != "warm":  # before each call the caches are flushed, and another one runs
        calls = 1 + max(1.0, point.min_time_s / max(call, CALL_S))
        run += calls * (2 * last_level_cache_bytes() / FLUSH_BYTES_PER_S + call)
    return PointEstimate(call_s=call, setup_s=setup, total_s=run * point.runs, memory_bytes=memory)


def plan_rows(plan: SuitePlan, available: int | None) -> Rows:
    """One row a point for `--dry-run`. Set-up is counted with the first point of a parameter set.

    In turns a set's keys are loaded in each, and a program's context and keys are made anew for each of its runs, which
    one follows that does not count.
    """
    rows, seen = [], set()
    for point in plan.points:
        cost = estimate(point)
        single = point.group == "primitives"
        group = (point.group, point.params) if single else point.key
        setup = 0.0 if group in seen else cost.setup_s
        if plan.order == IN_TURNS and not single:
            setup = point.runs * (cost.setup_s + cost.call_s)
        elif plan.order == IN_TURNS and group not in seen:
            setup += point.runs * _KEYS_OF_A_SET * point.params.key_bytes() / KEY_LOAD_BYTES_PER_S
        rows.append(
            {
                "point": point.key, "group": point.group, "item": point.item, "size": point.size,
                "params": point.params.name, "ring_dim": point.params.ring_dim, "limbs": point.limbs,
                "threads": point.threads, "across": point.across, "condition": point.condition,
                "reading": point.reading, "runs": point.runs,
                "predicted_s": cost.total_s + setup,
                "predicted_call_s": cost.call_s, "predicted_peak_bytes": cost.memory_bytes,
                "fits": None if available is None else cost.memory_bytes <= available, "provenance": "predicted",
            }
        )  # fmt: skip
        seen.add(group)
    return rows


def bootstrap_key_count(params: CkksParameters) -> int:
    """Rotation keys that bootstrapping uses, as our circuit has it."""
    return len(bootstrap_trace(params).key_ids())


def _primitive(point: BenchPoint) -> tuple[float, int, int]:
    """Seconds of a call, bytes of keys and data, keys to be made."""
    params, primitive = point.params, PRIMITIVES[point.item]
    primitive = PRIMITIVES[primitive.records] if primitive.records else primitive
    limbs = point.limbs or params.num_q
    fresh = params.ciphertext_bytes(params.num_q)
    keys = int(primitive.relinearizes) + int(primitive.rotates)
    memory = 2 * fresh + keys * params.key_bytes()
    side_by_side = point.across + int(point.condition == "cold")  # which another call precedes
    memory += (4 + 3 * side_by_side) * params.ciphertext_bytes(limbs)
    kind = primitive.kind
    if primitive.name == "bootstrap":
        trace = bootstrap_trace(params)
        count = len(trace.key_ids())
        memory += count * params.key_bytes() + _plaintext_bytes(trace)
        return _seconds_of(tally_of(trace)), memory, count
    if primitive.name == "key_load":
        return params.key_bytes() / KEY_LOAD_BYTES_PER_S, memory + 2 * params.key_bytes(), 1
    if primitive.uses_degree:
        trace = _chebyshev_trace(params, point.degree or 1)
        return _seconds_of(tally_of(trace)), memory + 12 * fresh, keys
    if kind is None:  # encode: a transform over each limb and one of the slots
        return 2 * nominal_seconds(KernelWork(ring_dim=params.ring_dim, limb_transforms=limbs)), memory, keys
    if kind in (OpKind.DECOMPOSE, OpKind.ROTATE_HOISTED):
        memory += params.active_digits(limbs) * params.polynomial_bytes(limbs + params.num_p)
    work = kernel_work(kind, params, limbs, polynomials=3 if kind is OpKind.RELINEARIZE else 2)
    call = nominal_seconds(work)
    if point.condition == "cold-keys":
        call += params.key_bytes() / KEY_LOAD_BYTES_PER_S
    return call, memory, keys


def nominal_seconds(work: KernelWork) -> float:
    """On one thread, good to a factor of two."""
    amounts = exclusive_amounts(work)
    nominal = sum(NOMINAL_COST[unit] * amount for unit, amount in zip(UNITS, amounts, strict=True))
    return SECONDS_PER_MULTIPLICATION * nominal


def _seconds_of(tally: Tally, *, client: bool = False) -> float:
    """All operations of a program, composites expanded; with the client's tasks if they are timed too."""
    total = 0.0
    for shape, count in tally.counts.items():
        traits = TRAITS[OpKind(shape.kind)]
        if not traits.composite and (client or not traits.client):
            work = shape_work(shape, tally.params)
            total += count * nominal_seconds(work)
            if client:  # plaintexts are encoded as the program runs: a transform of the slots, one a limb
                encoding = KernelWork(ring_dim=tally.params.ring_dim, limb_transforms=2 * work.plaintext_limbs)
                total += count * nominal_seconds(encoding)
    return total


def _plaintext_bytes(trace: Trace) -> int:
    table = trace.objects
    pairs = zip(table["class"].to_pylist(), table["bytes"].to_pylist(), strict=True)
    return sum(size or 0 for kind, size in pairs if kind == "plaintext")


def _memory_of(trace: Trace, point: BenchPoint) -> int:
    """Keys, what bootstrapping keeps encoded, and the data that is alive at the same time."""
    from penstock.program import workloads

    params = point.params
    keys = len(trace.key_ids()) * params.key_bytes()
    bootstraps = OpKind.BOOTSTRAP.value in set(trace.operations["kind"].to_pylist())
    fixed = _plaintext_bytes(bootstrap_trace(params)) if bootstraps else 0
    budget = getattr(workloads.get(point.item).SIZES[point.size], "key_budget_bytes", None)
    if budget is not None:
        # Paged: the keys of bootstrapping stay, if there are any.
        keys = min(keys, int(budget) + (bootstrap_key_count(params) * params.key_bytes() if bootstraps else 0))
    return keys + fixed + _live_bytes(trace)


def _live_bytes(trace: Trace) -> int:
    """The most bytes of ciphertexts and encoded plaintexts between their first and last appearance.

    Data that a program holds longer than it needs is not seen.
    """
    table = trace.view(composites=True).operations
    sizes = dict(zip(trace.objects["id"].to_pylist(), trace.objects["bytes"].to_pylist(), strict=True))
    columns = (table[name].to_pylist() for name in ("operands", "output", "plaintext"))
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for row, (operands, output, plaintext) in enumerate(zip(*columns, strict=True)):
        for name in (*operands, output, plaintext):
            if name is not None:
                first.setdefault(name, row)
                last[name] = row
    return peak(list(first.values()), list(last.values()), [sizes[name] for name in first])


@lru_cache(maxsize=64)
def bootstrap_trace(params: CkksParameters) -> Trace:
    """One bootstrapping at a set that has a plan of it."""
    return _traced(params, lambda ev, a: ev.bootstrap(a))


@lru_cache(maxsize=64)
def _chebyshev_trace(params: CkksParameters, degree: int) -> Trace:
    return _traced(params, lambda ev, a: ev.chebyshev_series(a, [1.0] * (degree + 1), -1.0, 1.0))


def _traced(params: CkksParameters, program: Callable[[SymbolicEvaluator, Cipher], Cipher]) -> Trace:
    from penstock.scheme.traces.schema import TraceMeta

    evaluator = SymbolicEvaluator(params)
    program(evaluator, evaluator.encrypt(np.zeros(params.slots)))
    return evaluator.builder.finish(TraceMeta(workload="bench", params=params.to_dict(), reading="trace"))


def total_seconds(rows: Sequence[Row]) -> dict[str, float]:
    """Predicted seconds of each group and of all."""
    seconds = {group: sum(r["predicted_s"] for r in rows if r["group"] == group) for group in GROUPS}
    return {**seconds, "total": sum(seconds.values())}
