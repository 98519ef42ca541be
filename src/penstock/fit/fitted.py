"""A fitted machine as its file has it: rates, threads, cache and residuals from costs in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import MachineError
from penstock.fit.cpu import MEASURES, NOMINAL_COST, UNITS, CpuCosts, Rows
from penstock.fit.regression import Floats
from penstock.machines.figure import Evidence
from penstock.machines.records import CacheSpec, FigureSpec, MachineSpec, ThreadsSpec, UnitsSpec
from penstock.machines.report import FitError, FitReport
from penstock.machines.schema import ALL_KINDS, Machine, Overlap
from penstock.machines.spec import machine_from_spec
from penstock.operations import OpKind

NOTHING = 1e-3
"""Share of its nominal cost that a unit is written with whose cost came out as nothing."""


def need_transforms(name: str, rows: Rows) -> None:
    """Raises: MachineError: no row has a transform, whose rate is the one that matters."""
    if not rows.whole[:, UNITS.index("transforms")].any():
        raise MachineError(
            f"{name}: the rate of transforms cannot be identified: the timed operations have no rotation, no "
            "product of two ciphertexts and no rescale; time at least one of them"
        )


def rounded(value: Any) -> float:
    """What a reader of the file can use: four digits."""
    return float(f"{value:.4g}")


def errors_of(of_row: Sequence[str], error: Floats, repeats: npt.NDArray[np.int64]) -> list[FitError]:
    """Residuals of all rows and of each kind. error: (n,) predicted / measured - 1; repeats: (n,) timings of a row."""
    kinds = np.asarray(of_row, dtype=object)
    named = [(ALL_KINDS, np.ones(len(kinds), dtype=bool))]
    named += [(kind.value, kinds == kind.value) for kind in OpKind if (kinds == kind.value).any()]
    found = []
    for kind, rows in named:
        size = np.abs(error[rows])
        found.append(
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
    return found


def machine_of(
    name: str,
    found: CpuCosts,
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
    for unit, fitted in zip(UNITS, found.cost.tolist(), strict=True):
        # A unit without a rate would have its multiplications priced with the others.
        cost = fitted or NOTHING * NOMINAL_COST[unit] * found.structure.unit_scale
        kind = Evidence.ASSUMED if unit in nominal or not fitted else Evidence.CALIBRATED
        note = f"; {nominal[unit]}" if unit in nominal else "" if fitted else "; its cost came out as nothing"
        units[unit] = figure(1e-9 / cost, f"G{MEASURES[unit]}/s", kind, note)
    shared = zip(UNITS, found.shared.tolist(), strict=True)
    spec = MachineSpec(
        name=name,
        title="this CPU, fitted to measured primitives",
        description=f"Rates are effective ones of the {report.reading} reading, "
        + ("of one thread." if threads is not None else "at its number of threads."),
        overlap=Overlap.IN_TURN.value,
        overlap_source="one kernel after another; parallelism inside a kernel is "
        + ("under threads" if threads is not None else "in the rates"),
        units=UnitsSpec(**units),
        overhead=figure(found.overhead * 1e6, "us"),
        threads=None
        if threads is None
        else ThreadsSpec(
            count=threads,
            shared={unit: figure(1e9 * cost, f"ns/{MEASURES[unit]}") for unit, cost in shared if cost > 0},
            loop=figure(found.loop * 1e6, "us") if found.loop > 0 else None,
        ),
        cache=None
        if not found.beyond or found.structure.cache_bytes is None
        else CacheSpec(
            size=figure(found.structure.cache_bytes / 2**20, "MiB"), beyond=figure(1e-9 / found.beyond, "GB/s")
        ),
        fit=report,
    )
    return machine_from_spec(spec, f"machine '{name}'")
