"""Fits a CPU to timings of primitives, and finds the utilisation that meets a published time.

A CPU is priced like an accelerator: kernel work times a rate, one kernel after another. `fit_cpu` fits the rates to
the timings of one run, at its parameters and threads; `fit_machine` fits rates, threads and cache to measurements at
many configurations, and says how far off it is on configurations that it does not know. Both are the non-negative
least-squares solution on relative errors, with Huber weights (`penstock.fit.regression`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import MachineError, UsageError
from penstock.fit.configurations import fit_machine
from penstock.fit.cpu import MEASURES, NOMINAL_COST, Structure, exclusive_amounts, fit_costs, not_told_apart, rows_of
from penstock.fit.fitted import errors_of, machine_of, need_transforms, rounded
from penstock.machines.catalogue import FITTED_MACHINE
from penstock.machines.report import FitReport
from penstock.machines.schema import Machine
from penstock.machines.transferred import donor_utilisation
from penstock.operations import TRAITS, OpKind
from penstock.params.ckks import CkksParameters
from penstock.traces.schema import ORIGIN_CALLED, Trace
from penstock.work.kernels import KernelWork
from penstock.work.shapes import Objects, Shape, server_rows, shape_work, shapes_of

__all__ = [
    "MEASURES",
    "NOMINAL_COST",
    "Sample",
    "fit_cpu",
    "fit_machine",
    "samples_from_trace",
    "utilisation_for",
    "utilisation_meeting",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed primitive."""

    params: str
    """Name of the parameter set that it ran at."""
    shape: Shape
    seconds: float


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
    that short operations are met and the sum is too. Units that the samples cannot tell apart are priced at nominal
    ratios to the others; `machine.fit.merged` says which.

    Args:   params: the set, or the sets by name, of the samples; fitted_to: the name of the timings, for the machine
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
    keys = [key for key in times if any(exclusive_amounts(works[key]))]
    if not keys:
        raise MachineError(f"{name}: there are no timed primitives to fit to; run a workload encrypted first")
    seconds = np.asarray([float(np.median(times[key])) for key in keys])
    repeats = np.asarray([len(times[key]) for key in keys])
    share = seconds * repeats / (seconds @ repeats)
    rows = rows_of([((works[key], 1.0),) for key in keys], [1] * len(keys), seconds, (1 / len(keys) + share) / 2)
    need_transforms(name, rows)
    found = fit_costs(rows, Structure(groups=(), overhead=len(keys) > 2))
    nominal = not_told_apart(rows, found)
    predicted = found.seconds(rows)
    measured_total = sum(sum(times[key]) for key in keys)
    description = fitted_to or (
        f"{int(repeats.sum())} timed operations of {len(keys)} shapes at {', '.join(sorted({key[0] for key in keys}))}"
    )
    report = FitReport(
        fitted_to=description,
        shapes=len(keys),
        total_error=rounded(float(predicted @ repeats) / measured_total - 1),
        spread=_spread([times[key] for key in keys]),
        merged=list(nominal.values()),
        errors=errors_of([key[1].kind for key in keys], predicted / seconds - 1, repeats),
    )
    return machine_of(name, found, nominal, description, report)


def utilisation_for(machine: Machine, works: Iterable[KernelWork], seconds: float) -> float:
    """The utilisation at which `works`, one after another, take `seconds` on `machine`.

    Every kernel's time is inversely proportional to the utilisation, so this is exact. Launches of a GPU and latencies
    are not: there it is searched for.

    Raises: UsageError: the overheads alone take longer.
    """
    if machine.gpu is not None:
        every, stated = list(works), machine.utilisation or donor_utilisation()

        def seconds_at(share: float) -> float:
            at = replace(machine, utilisation=replace(stated, value=share))
            return sum(at.price(work).seconds for work in every)

        return utilisation_meeting(seconds_at, seconds)
    overhead = machine.overhead.value if machine.overhead else 0.0
    kernels = total = 0.0
    for work in works:
        cost = machine.price(work).seconds
        kernels += cost - overhead
        total += overhead
    if seconds <= total:
        raise UsageError(f"{machine.name}: overheads alone take {total} s, more than the {seconds} s to be met")
    return (machine.utilisation.value if machine.utilisation else 1.0) * kernels / (seconds - total)


def utilisation_meeting(seconds_at: Callable[[float], float], seconds: float) -> float:
    """The utilisation at which a program takes so long, by bisection; above 1 where peak rates are too slow.

    Args:   seconds_at: seconds of the program at a utilisation; more of it never takes longer.
    Raises: UsageError: it takes longer at any utilisation.
    """
    low, high = 1e-6, 1e6
    if seconds_at(high) > seconds:
        raise UsageError(f"launches and latencies alone take {seconds_at(high)} s, more than the {seconds} s to be met")
    while high / low > 1 + 1e-9:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if seconds_at(middle) > seconds else (low, middle)
    return high


def _spread(times: Sequence[Sequence[float]]) -> float | None:
    quartiles = [np.percentile(each, (25, 50, 75)) for each in times if len(each) >= 4]
    return rounded(np.median([(high - low) / middle for low, middle, high in quartiles])) if quartiles else None
