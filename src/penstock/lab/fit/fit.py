"""Fits a CPU to timed primitives: of one run's trace, or at many ring dimensions, depths, limbs and thread counts.

A CPU is priced like an accelerator: kernel work times a rate, one kernel after another. The rates are the non-negative
least-squares solution on relative errors, with Huber weights (`penstock.lab.fit.regression`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import SupportsFloat

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.base.types import Row
from penstock.errors import MachineError
from penstock.lab.fit.calibration import Labels, factors_of, fit_calibration
from penstock.lab.fit.cpu import (
    MEASURES,
    NOMINAL_COST,
    UNITS,
    Composition,
    CpuCosts,
    Structure,
    TimedRows,
    exclusive_amounts,
    fit_costs,
    not_told_apart,
    rows_of,
    with_cache,
)
from penstock.lab.fit.heldout import Timed, Uncertainty, uncertainty
from penstock.lab.fit.measurements import Measurement, of_reading
from penstock.lab.fit.program_costs import PREFIX, fit_client, fit_cold, fit_recording
from penstock.scheme.machines.catalogue import FITTED_MACHINE
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.power import PowerModel
from penstock.scheme.machines.records import CacheSpec, FigureSpec, MachineSpec, ThreadsSpec, UnitsSpec
from penstock.scheme.machines.report import Coefficient, FitError, FitReport
from penstock.scheme.machines.schema import ALL_KINDS, Machine, Overlap
from penstock.scheme.machines.spec import machine_from_spec
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.traces.schema import ORIGIN_CALLED, Trace
from penstock.scheme.work.shapes import Objects, Shape, server_rows, shape_work, shapes_of

NOTHING = 1e-3
"""Share of its nominal cost that a unit is written with whose cost came out as nothing."""
FEWEST = 8
"""Distinct operations and configurations that the machine of a benchmark is fitted to."""
EQUAL_SHARE = 0.1
"""Of the weight that every timing has alike; the rest goes by its share of its configuration's time."""
TYPICAL_ERROR = 0.1
"""The error of the model for exact timings; timings with more scatter count less."""

NORMAL_QUARTILES = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""

Expand = Callable[[Measurement], Mapping[Shape, int]]


def trace_measurements(trace: Trace, threads: int = 1) -> list[Measurement]:
    """The timed primitives of the server in a measured trace: one measurement a shape, the median of its calls.

    Composites, and rows without times, are left out. A spread is the interquartile range of four calls or more, since
    the slowest of a program's calls says nothing of the others.

    Args:   threads: inside one operation of the run, which a trace does not state.
    """
    table, params = server_rows(trace.operations), trace.parameters()
    shapes = shapes_of(table, Objects(trace, params))
    columns = (table[name].to_pylist() for name in ("origin", "start_s", "end_s"))
    calls: dict[Shape, list[float]] = {}
    for index, origin, start, end in zip(shapes.of_row.tolist(), *columns, strict=True):
        shape = shapes.distinct[index]
        if origin != ORIGIN_CALLED or TRAITS[OpKind(shape.kind)].composite or start is None or end is None:
            continue
        if end > start:
            calls.setdefault(shape, []).append(end - start)
    primitives = []
    for shape, seconds in calls.items():
        low, middle, high = np.percentile(seconds, (25, 50, 75)).tolist()
        primitives.append(
            Measurement(
                item=shape.kind,
                group="primitives",
                params=params,
                shape=shape,
                limbs=shape.limbs_in,
                threads=threads,
                reading=trace.meta.reading,
                seconds=middle,
                spread=(high - low) / middle if len(seconds) >= 4 else None,
                runs=len(seconds),
                source=f"trace of '{trace.meta.workload}'",
            )
        )
    return primitives


def fit_machine(
    measurements: Iterable[Measurement],
    *,
    name: str = FITTED_MACHINE,
    fitted_to: str | None = None,
    expand: Expand | None = None,
    fewest: int = FEWEST,
) -> Machine:
    """The CPU that meets the measured primitives best, with its threads, its cache and its uncertainty.

    Its rates are fitted to warm calls of the server's operations. Cold calls give the extra cost of operations in a
    program (`cold`), `encode`, `encrypt` and `decrypt` the client's cost (`client`), recorded calls the cost of the
    record (`recording`). A machine without such measurements has none of these. Programs are left out. With one number
    of threads the machine is one for that number. `machine.fit.merged` names the effects that the measurements cannot
    tell apart, and the measurements that would.

    Args:   expand: the operations that a composite (a measurement of a primitive without a shape) is made of, so that
            it counts too; an empty mapping leaves it out; fewest: distinct timed primitives without which the fit is
            refused; one of them fixes one scale, with all units at nominal ratios.
    Raises: MachineError: too few timed primitives, none with a transform, or measurements of several readings.
    """
    measurements = of_reading(list(measurements), None, f"{name}: the measurements")
    timed, compositions = _usable(measurements, expand)
    different = len({(m.configuration, m.params.digit_limbs, m.item, m.shape) for m in timed})
    _need(name, different, fewest)
    counts = sorted({m.threads for m in timed})
    several = len(counts) > 1
    seconds = np.asarray([m.seconds for m in timed])
    rows = rows_of(compositions, [m.threads if several else 1 for m in timed], seconds, _weights(timed))
    need_transforms(name, rows)
    costs = with_cache(rows, fit_costs(rows, Structure(groups=(), threads=several, overhead=different > 2)))
    nominal = not_told_apart(rows, costs)
    description = fitted_to or _described(timed)
    labels = Labels.of(timed)
    residuals = np.log(seconds / np.maximum(costs.seconds(rows), 1e-12))
    calibrated = fit_calibration(residuals, labels, f"what the kernel work leaves of {description}")
    known = _uncertainty(timed, labels, rows, costs)
    calls = np.asarray([m.runs for m in timed])
    predicted = costs.seconds(rows) * (1.0 if calibrated is None else factors_of(calibrated, labels))
    spreads = [m.spread for m in timed if m.spread is not None]
    report = FitReport(
        fitted_to=description,
        reading=timed[0].reading,
        shapes=different,
        total_error=rounded(predicted @ calls / (seconds @ calls) - 1),
        spread=rounded(np.median(spreads)) if spreads else None,
        merged=[*nominal.values(), *_unidentified(timed, costs)],
        errors=errors_of(labels.kinds.tolist(), predicted / seconds - 1, calls),
        ranges=_ranges(timed),
        **_stated(known, costs),
    )
    machine = machine_of(name, costs, nominal, description, report, threads=counts[0] if several else None)
    return replace(
        machine,
        thread_power=fit_power(timed, description),
        cold=fit_cold(measurements),
        client=fit_client(measurements, machine),
        recording=fit_recording(measurements, _expanded_rows(expand)),
        calibrated=calibrated,
    )


def _need(name: str, different: int, fewest: int) -> None:
    """Raises: MachineError: too few different primitives were timed."""
    if different < fewest:
        raise MachineError(
            f"{name}: {different} timed primitives cannot tell the rates of {', '.join(UNITS)} apart; at least "
            f"{fewest} are needed: measure add, mult_plain, rescale, decompose, rotate and mult at several limbs "
            "and ring dimensions ('penstock bench run --only primitives')"
        )


def _uncertainty(timed: Sequence[Measurement], labels: Labels, rows: TimedRows, costs: CpuCosts) -> Uncertainty | None:
    groupings = [[m.params.ring_dim for m in timed], [m.params.num_q for m in timed], [m.threads for m in timed]]
    axes = [[m.params.ring_dim, m.params.depth, m.params.dnum, m.threads] for m in timed]
    about = Timed(
        labels=labels,
        configurations=[m.configuration for m in timed],
        axes=np.column_stack([np.asarray(axes, dtype=np.float64), labels.limbs]),
        reliability=_reliability(timed),
    )
    return uncertainty(rows, costs, about, groupings)


def _expanded_rows(expand: Expand | None) -> Callable[[Measurement], float]:
    """Rows that the expansion of a recorded composite has."""

    def rows(recorded: Measurement) -> float:
        called = replace(recorded, item=recorded.item.removeprefix(PREFIX))
        return float(sum(expand(called).values())) if expand is not None else 0.0

    return rows


def _usable(measurements: Iterable[Measurement], expand: Expand | None) -> tuple[list[Measurement], list[Composition]]:
    """The rows that a machine is fitted to, and the work of each."""
    timed: list[Measurement] = []
    compositions: list[Composition] = []
    for m in measurements:
        if m.group != "primitives" or m.condition != "warm":
            continue
        if m.shape is not None:
            counts: Mapping[Shape, int] = {} if TRAITS[OpKind(m.shape.kind)].client else {m.shape: 1}
        else:
            counts = expand(m) if expand is not None else {}
        composition = [(shape_work(shape, m.params), float(count)) for shape, count in counts.items()]
        if any(any(exclusive_amounts(work)) for work, _ in composition):
            timed.append(m)
            compositions.append(composition)
    return timed, compositions


def _weights(timed: Sequence[Measurement]) -> Floats:
    """(n,) a part the same for all, the rest by the share of the configuration's time; less where the runs scatter.

    A composite counts as much as the heaviest operation of its configuration, not as all that are in it.
    """
    heaviest: dict[Hashable, float] = {}
    for m in timed:
        if m.shape is not None:
            heaviest[m.configuration] = max(heaviest.get(m.configuration, 0.0), m.seconds)
    counted = [min(m.seconds, heaviest.get(m.configuration, m.seconds)) for m in timed]
    total: dict[Hashable, float] = {}
    for m, seconds in zip(timed, counted, strict=True):
        total[m.configuration] = total.get(m.configuration, 0.0) + seconds
    share = np.asarray([own_s / total[m.configuration] / len(total) for m, own_s in zip(timed, counted, strict=True)])
    return (EQUAL_SHARE / len(timed) + (1 - EQUAL_SHARE) * share) * _reliability(timed)


def _reliability(timed: Sequence[Measurement]) -> Floats:
    """(n,) 1 where the runs agree, less where they scatter."""
    # The median of n runs is off by about 1.2/n of their range (n = 3 to 10).
    scatter = np.asarray([1.2 / m.runs * m.spread if m.spread is not None and m.runs > 1 else 0.0 for m in timed])
    return np.asarray(1 / (1 + (scatter / TYPICAL_ERROR) ** 2))


def _described(timed: Sequence[Measurement]) -> str:
    rings = ", ".join(f"2^{n.bit_length() - 1}" for n in sorted({m.params.ring_dim for m in timed}))
    counts = ", ".join(str(n) for n in sorted({m.threads for m in timed}))
    return f"{len(timed)} timed primitives at N = {rings} and {counts} thread{'' if counts == '1' else 's'}"


def _ranges(timed: Sequence[Measurement]) -> dict[str, list[int]]:
    columns = {
        "ring_dim": [m.params.ring_dim for m in timed],
        "depth": [m.params.depth for m in timed],
        "limbs": [m.shape.limbs_in for m in timed if m.shape is not None],
        "dnum": [m.params.dnum for m in timed],
        "threads": [m.threads for m in timed],
    }
    return {name: [min(values), max(values)] for name, values in columns.items() if values}


def _unidentified(timed: Sequence[Measurement], costs: CpuCosts) -> list[str]:
    """The questions that the chosen configurations leave open, with the runs that would settle them."""
    texts = []
    dims = sorted({m.params.ring_dim for m in timed})
    if len(dims) == 1:
        texts.append(
            f"transforms: all timings are at ring dimension {dims[0]}, so that what grows faster than it (butterflies, "
            "data beyond the cache) is not told from what grows with it; measure at two ring dimensions more"
        )
    counts = sorted({m.threads for m in timed})
    if len(counts) == 1:
        texts.append(
            f"threads: all timings are at {counts[0]} thread{'s' if counts[0] > 1 else ''}; measure at another number "
            "of threads too ('penstock bench run --threads 1,2')"
        )
    limbs = {m.shape.limbs_in for m in timed if m.shape is not None}
    if len(limbs) == 1:
        texts.append(
            f"base_conversion: all timings are at {limbs.pop()} limbs, so that what grows with their square is not "
            "told from what grows with them; measure at fewer limbs, or at another depth"
        )
    texts += [
        f"{unit}: its cost came out as nothing: it is in the cost of kernels that go with it"
        for unit, cost in zip(UNITS, costs.cost.tolist(), strict=True)
        if cost == 0
    ]
    if costs.overhead == 0:
        texts.append("overhead: it came out as nothing; measure at a smaller ring dimension to find it")
    return texts


def _stated(known: Uncertainty | None, costs: CpuCosts) -> Row:
    """The report's uncertainty: nothing where it is not known."""
    if known is None:
        return {"coefficients": []}
    stated: Row = {
        name: {of: rounded(sd) for of, sd in sorted(value.items())} if isinstance(value, dict) else rounded(value)
        for name, value in asdict(known).items()
    }
    errors = stated.pop("standard_errors")
    coefficients = [
        Coefficient(name=name, value=rounded(value), standard_error=errors[name])
        for name, value in zip(costs.structure.names, costs.coefficients.tolist(), strict=True)
        if name in errors and value > 0
    ]
    return stated | {"degrees_of_freedom": known.degrees_of_freedom, "coefficients": coefficients}


# The machine file: rates, threads, cache and residuals from costs in seconds.


def need_transforms(name: str, rows: TimedRows) -> None:
    """Raises: MachineError: no row has a transform, whose rate is the one that matters."""
    if not rows.whole[:, UNITS.index("transforms")].any():
        raise MachineError(
            f"{name}: the rate of transforms cannot be identified: the timed operations have no rotation, no "
            "product of two ciphertexts and no rescale; time at least one of them"
        )


def rounded(value: SupportsFloat) -> float:
    """What a reader of the file can use: four digits."""
    return float(f"{float(value):.4g}")


def errors_of(of_row: Sequence[str], error: Floats, repeats: Ints) -> list[FitError]:
    """Residuals of all rows and of each kind. error: (n,) predicted / measured - 1; repeats: (n,) timings of a row."""
    kinds = np.asarray(of_row, dtype=object)
    named = [(ALL_KINDS, np.ones(len(kinds), dtype=bool))]
    named += [(kind.value, kinds == kind.value) for kind in OpKind if (kinds == kind.value).any()]
    errors = []
    for kind, rows in named:
        size = np.abs(error[rows])
        errors.append(
            FitError(
                kind=kind,
                samples=int(repeats[rows].sum()),
                mean_abs=rounded(size.mean()),
                median_abs=rounded(np.median(size)),
                p90_abs=rounded(np.percentile(size, 90)),
                worst_abs=rounded(size.max()),
                bias=rounded(error[rows].mean()),
            )
        )
    return errors


def machine_of(
    name: str,
    costs: CpuCosts,
    nominal: Mapping[str, str],
    description: str,
    report: FitReport,
    threads: int | None = None,
) -> Machine:
    """The machine file of fitted costs, checked.

    Args:   nominal: unit -> why its cost is assumed; threads: how many it is priced at, with a thread model.
    """

    def figure(value: float, unit: str, kind: Evidence = Evidence.CALIBRATED, note: str = "") -> FigureSpec:
        return FigureSpec(value=f"{value:.6g} {unit}", source=f"fitted to {description}{note}", kind=kind.value)

    units = {}
    for unit, fitted in zip(UNITS, costs.cost.tolist(), strict=True):
        # A unit without a rate would have its multiplications priced with the others.
        cost = fitted or NOTHING * NOMINAL_COST[unit] * costs.structure.unit_scale
        kind = Evidence.ASSUMED if unit in nominal or not fitted else Evidence.CALIBRATED
        note = f"; {nominal[unit]}" if unit in nominal else "" if fitted else "; its cost came out as nothing"
        units[unit] = figure(1e-9 / cost, f"G{MEASURES[unit]}/s", kind, note)
    shared = zip(UNITS, costs.shared.tolist(), strict=True)
    spec = MachineSpec(
        name=name,
        title="this CPU, fitted to measured primitives",
        description=f"Rates are effective ones of the {report.reading} reading, "
        + ("of one thread." if threads is not None else "at its number of threads."),
        overlap=Overlap.IN_TURN.value,
        overlap_source="one kernel after another; parallelism inside a kernel is "
        + ("under threads" if threads is not None else "in the rates"),
        units=UnitsSpec(**units),
        overhead=figure(costs.overhead * 1e6, "us"),
        threads=None
        if threads is None
        else ThreadsSpec(
            count=threads,
            shared={unit: figure(1e9 * cost, f"ns/{MEASURES[unit]}") for unit, cost in shared if cost > 0},
            loop=figure(costs.loop * 1e6, "us") if costs.loop > 0 else None,
        ),
        cache=None
        if not costs.beyond or costs.structure.cache_bytes is None
        else CacheSpec(
            size=figure(costs.structure.cache_bytes / 2**20, "MiB"), beyond=figure(1e-9 / costs.beyond, "GB/s")
        ),
        fit=report,
    )
    return machine_from_spec(spec, f"machine '{name}'")


def fit_power(measurements: Iterable[Measurement], fitted_to: str) -> PowerModel | None:
    """The median power at each number of threads; `None` where no energy was measured.

    Energy counters are coarse, and a few short operations give absurd powers: medians and quartiles do not see them.
    """
    powers: dict[int, list[float]] = defaultdict(list)
    for m in measurements:
        if m.joules:
            powers[m.threads].append(m.joules / m.seconds)
    if not powers:
        return None
    watts = {}
    deviations: list[float] = []
    for threads, watts_of in sorted(powers.items()):
        median = float(np.median(watts_of))
        watts[threads] = Figure(
            value=median,
            text=f"{median:.4g} W",
            kind=Evidence.MEASURED,
            source=f"median of {len(watts_of)} energies over times, {threads} threads, package counters; {fitted_to}",
        )
        deviations += [math.log(power / median) for power in watts_of]
    low, high = np.quantile(deviations, [0.25, 0.75])
    return PowerModel(watts=watts, log_sd=float(high - low) / NORMAL_QUARTILES)
