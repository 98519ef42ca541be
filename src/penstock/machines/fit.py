"""Fits `this-cpu` to timings of primitives, and finds the utilisation that meets a published time.

A CPU is priced like an accelerator: kernel work times a rate, one kernel after another. The rates are the non-negative
least-squares solution on relative errors, with Huber weights, so that a few timings that another process disturbed do
not move it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from penstock.errors import MachineError, UsageError
from penstock.kernels import KernelWork
from penstock.machines.catalogue import FITTED_MACHINE
from penstock.machines.schema import ALL_KINDS, TRANSFORM_MEASURES, Evidence, Machine, Overlap
from penstock.machines.shapes import Objects, Shape, server_rows, shape_work, shapes_of
from penstock.machines.spec import FigureSpec, FitErrorSpec, FitSpec, MachineSpec, UnitsSpec, machine_from_spec
from penstock.operations import TRAITS, OpKind
from penstock.params.ckks import CkksParameters
from penstock.trace.schema import ORIGIN_CALLED, Trace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed primitive."""

    params: str
    """Name of the parameter set that it ran at."""
    shape: Shape
    seconds: float


MEASURES: dict[str, str] = {
    "transforms": "butterflies",
    "base_conversion": "MAC",
    "multiplications": "mult",
    "additions": "add",
    "automorphisms": "coeff",
}
"""The units that are fitted, and what their rates count."""

NOMINAL_COST: dict[str, float] = {
    "transforms": 0.8, "base_conversion": 1.3, "multiplications": 1.0, "additions": 0.5, "automorphisms": 0.6,
}  # fmt: skip
"""Cost of one element of each unit relative to a multiplication: OpenFHE 1.6.1, one x86-64 core, N = 2^12 and 2^13.

Used only between units that the timings cannot tell apart."""

PARTNERS: dict[str, str] = {
    "transforms": "base_conversion",
    "base_conversion": "transforms",
    "multiplications": "additions",
    "additions": "multiplications",
    "automorphisms": "additions",
}
"""The unit that each one is tied to where it cannot be told apart."""

IMPLAUSIBLE = 8.0
"""A cost that is this many times off the nominal ratios was not identified by the timings."""

_HUBER = 1.345  # 95 % efficiency where errors are normal (Huber, 1981)
_ROUNDS = 40


def samples_from_trace(trace: Trace) -> list[Sample]:
    """The timed primitives of a measured trace.

    Client operations, composites and rows without times are left out.
    """
    table = server_rows(trace.operations)
    params = trace.parameters()
    shapes = shapes_of(table, Objects(trace, params))
    origins = table["origin"].to_pylist()
    starts, ends = table["start_s"].to_pylist(), table["end_s"].to_pylist()
    samples = []
    for row, index in enumerate(shapes.of_row.tolist()):
        shape = shapes.distinct[index]
        start, end = starts[row], ends[row]
        if origins[row] != ORIGIN_CALLED or TRAITS[OpKind(shape.kind)].composite or start is None or end is None:
            continue
        if end > start:
            samples.append(Sample(params=params.name, shape=shape, seconds=end - start))
    return samples


def fit_cpu(
    samples: Iterable[Sample],
    params: CkksParameters | Mapping[str, CkksParameters],
    *,
    name: str = FITTED_MACHINE,
    fitted_to: str | None = None,
) -> Machine:
    """The CPU whose rates meet the samples best.

    Each distinct shape counts by its median; half of its weight is the same for all, half is its share of the time, so
    that short operations are met and the sum is too. Units that the samples cannot tell apart share one scale at
    nominal ratios; `machine.fit.merged` says which.

    Args:   params: the set, or the sets by name, that the samples ran at; fitted_to: what was timed, for the machine
            file.
    Raises: MachineError: no samples; a time that is not positive; an unknown set; no operation with a transform in it.
    """
    by_name = {params.name: params} if isinstance(params, CkksParameters) else dict(params)
    times: dict[tuple[str, Shape], list[float]] = {}
    for sample in samples:
        if sample.params not in by_name:
            raise MachineError(
                f"{name}: a sample ran at parameter set '{sample.params}', which is not among those given "
                f"({', '.join(sorted(by_name))}); pass that set too"
            )
        if not sample.seconds > 0:
            raise MachineError(
                f"{name}: '{sample.shape.kind}' at {sample.shape.limbs_in} limbs was timed at {sample.seconds} s; "
                "a time is positive"
            )
        times.setdefault((sample.params, sample.shape), []).append(sample.seconds)
    works = {key: shape_work(key[1], by_name[key[0]]) for key in times}
    keys = [key for key in times if _amounts(works[key]).any()]
    if not keys:
        raise MachineError(f"{name}: there are no timed primitives to fit to; run a workload encrypted first")
    amounts = np.stack([_amounts(works[key]) for key in keys])
    seconds = np.asarray([float(np.median(times[key])) for key in keys])
    repeats = np.asarray([len(times[key]) for key in keys])
    if not amounts[:, 0].any():
        raise MachineError(
            f"{name}: the rate of transforms cannot be identified: among the timed operations is no rotation, no "
            "product of two ciphertexts and no rescale; time at least one of them"
        )
    share = seconds * repeats / (seconds @ repeats)
    cost, overhead, merged = _solve(amounts, seconds, (1 / len(keys) + share) / 2)
    predicted = amounts @ cost + overhead
    measured_total = sum(sum(times[key]) for key in keys)
    description = fitted_to or (
        f"{int(repeats.sum())} timed operations of {len(keys)} shapes at {', '.join(sorted({key[0] for key in keys}))}"
    )
    report = FitSpec(
        fitted_to=description,
        shapes=len(keys),
        total_error=_rounded(float(predicted @ repeats) / measured_total - 1),
        spread=_spread([times[key] for key in keys]),
        merged=[text for _, text in merged],
        errors=_errors(keys, predicted / seconds - 1, repeats),
    )
    return _machine(name, cost, overhead, dict(merged), description, report)


def utilisation_for(machine: Machine, works: Iterable[KernelWork], seconds: float) -> float:
    """The utilisation at which `works`, one after another, take `seconds` on `machine`.

    Every kernel's time is inversely proportional to the utilisation, so this is exact.
    Raises: UsageError: the overheads alone take longer.
    """
    overhead = machine.overhead.value if machine.overhead else 0.0
    kernels = total = 0.0
    for work in works:
        cost = machine.price(work).seconds
        kernels += cost - overhead
        total += overhead
    if seconds <= total:
        raise UsageError(f"{machine.name}: overheads alone take {total} s, more than the {seconds} s to be met")
    return (machine.utilisation.value if machine.utilisation else 1.0) * kernels / (seconds - total)


def _amounts(work: KernelWork) -> Floats:
    """(5,) work of each unit, in the order of `MEASURES`."""
    butterflies = TRANSFORM_MEASURES["butterflies"]
    return np.asarray(
        [
            work.limb_transforms * butterflies(work.ring_dim) if work.limb_transforms else 0.0,
            work.bconv_macs,
            work.elementwise_mults,
            work.elementwise_adds,
            work.automorphism_coefficients,
        ],
        dtype=np.float64,
    )


def _solve(amounts: Floats, seconds: Floats, weights: Floats) -> tuple[Floats, float, list[tuple[str, str]]]:
    """Seconds of one element of each unit, seconds of overhead, and what was tied together and why."""
    units = list(MEASURES)
    nominal = np.asarray([NOMINAL_COST[unit] for unit in units])
    present: npt.NDArray[np.bool_] = np.any(amounts != 0, axis=0)
    groups = [[i] for i in range(len(units)) if present[i]]
    merged: list[tuple[str, str]] = []

    # At least one shape more than unknowns, the overhead included; what is tied first matters least.
    for unit in ("automorphisms", "additions", "base_conversion", "multiplications"):
        if len(groups) + 2 > len(amounts) and len(groups) > 1:
            _tie(groups, units, unit, merged, f"there are {len(amounts)} shapes only")
    while True:
        columns = np.stack([amounts[:, group] @ nominal[group] for group in groups], axis=1)
        scales, overhead = _robust_nnls(columns, seconds, weights, with_overhead=len(amounts) > len(groups))
        # Scales are relative to the nominal costs: those of one CPU are about equal.
        typical = _typical(columns, scales)
        ratio = scales / typical
        odd = [(max(r, 1 / r) if r > 0 else np.inf, g) for g, r in enumerate(ratio)]
        worst, group = max(odd)
        if worst <= IMPLAUSIBLE or len(groups) == 1:
            break
        reason = "its cost came out as nothing" if ratio[group] == 0 else f"its cost came out {worst:.0f} times off"
        _tie(groups, units, units[groups[group][0]], merged, f"{reason}: too few shapes tell it apart")
    cost = np.zeros(len(units))
    for scale, group_members in zip(scales, groups, strict=True):
        cost[group_members] = scale * nominal[group_members]
    for i in np.nonzero(~present)[0]:
        cost[i] = typical * nominal[i]
        merged.append(
            (units[i], f"{units[i]}: no timed operation has any; its rate follows the others at nominal ratios")
        )
    return cost, overhead, merged


def _tie(groups: list[list[int]], units: Sequence[str], unit: str, merged: list[tuple[str, str]], why: str) -> None:
    """Join the group of `unit` with its partner's, or with any other where they are together already."""
    index = units.index(unit)
    own = next((group for group in groups if index in group), None)
    if own is None:
        return
    partner = units.index(PARTNERS[unit])
    other = next((g for g in groups if partner in g and g is not own), None) or next(g for g in groups if g is not own)
    merged.append((unit, f"{unit}: tied to {units[other[0]]} at nominal ratios, since {why}"))
    other.extend(own)
    groups.remove(own)


def _typical(columns: Floats, scales: Floats) -> float:
    """The scale that most of the predicted time has."""
    return _weighted_median(scales, (columns * scales).sum(axis=0))


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    middle = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    return float(values[order[min(middle, len(order) - 1)]])


def _robust_nnls(columns: Floats, seconds: Floats, weights: Floats, *, with_overhead: bool) -> tuple[Floats, float]:
    """Non-negative scales and overhead that minimise Huber's loss of the weighted relative errors."""
    features = np.column_stack([columns, np.ones(len(seconds))]) if with_overhead else columns
    relative = features / seconds[:, None]
    size = relative.max(axis=0)
    relative = relative / size
    robust = np.ones(len(seconds))
    solution = np.zeros(relative.shape[1])
    for _ in range(_ROUNDS):
        row = np.sqrt(weights * robust)
        found, _ = nnls(relative * row[:, None], row)
        error = relative @ found - 1
        spread = max(_weighted_median(np.abs(error), weights) / 0.6745, 1e-6)
        robust = np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(error), 1e-12))
        if np.allclose(found, solution, rtol=1e-9, atol=0):
            break
        solution = found
    scales = found / size
    return scales[: columns.shape[1]], float(scales[-1]) if with_overhead else 0.0


def _spread(times: Sequence[Sequence[float]]) -> float | None:
    quartiles = [np.percentile(each, (25, 50, 75)) for each in times if len(each) >= 4]
    return _rounded(np.median([(high - low) / middle for low, middle, high in quartiles])) if quartiles else None


def _rounded(value: Any) -> float:
    """What a reader of the file can use: an error to four digits."""
    return float(f"{value:.4g}")


def _errors(keys: Sequence[tuple[str, Shape]], error: Floats, repeats: npt.NDArray[np.int64]) -> list[FitErrorSpec]:
    kinds = np.asarray([key[1].kind for key in keys], dtype=object)
    named = [(ALL_KINDS, np.ones(len(keys), dtype=bool))]
    named += [(kind.value, kinds == kind.value) for kind in OpKind if (kinds == kind.value).any()]
    found = []
    for kind, rows in named:
        size = np.abs(error[rows])
        found.append(
            FitErrorSpec(
                kind=kind,
                samples=int(repeats[rows].sum()),
                mean_abs=_rounded(size.mean()),
                median_abs=_rounded(np.median(size)),
                p90_abs=_rounded(np.percentile(size, 90)),
                worst_abs=_rounded(size.max()),
                bias=_rounded(error[rows].mean()),
            )
        )
    return found


def _machine(
    name: str, cost: Floats, overhead: float, merged: Mapping[str, str], description: str, report: FitSpec
) -> Machine:
    figures = {}
    for (unit, measure), each in zip(MEASURES.items(), cost, strict=True):
        figures[unit] = FigureSpec(
            value=f"{1e-9 / each:.6g} G{measure}/s",
            source=f"fitted to {description}; {merged[unit]}" if unit in merged else f"fitted to {description}",
            kind=(Evidence.ASSUMED if unit in merged else Evidence.CALIBRATED).value,
        )
    spec = MachineSpec(
        name=name,
        title="this CPU, fitted to measured primitives",
        description="Rates are effective ones of the library that was timed, at its number of threads.",
        overlap=Overlap.IN_TURN.value,
        overlap_source="one kernel after another; parallelism inside a kernel is in the rates",
        units=UnitsSpec(**figures),
        overhead=FigureSpec(
            value=f"{overhead * 1e6:.6g} us", source=f"fitted to {description}", kind=Evidence.CALIBRATED.value
        ),
        fit=report,
    )
    return machine_from_spec(spec, f"machine '{name}'")
