"""The calibrated factors of a machine as its file has them."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.errors import MachineError, UnknownName
from penstock.scheme.machines.calibration import Calibration, Factor
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.files import figure
from penstock.scheme.machines.records import CalibratedFactorSpec, CalibratedSpec, FigureSpec
from penstock.scheme.operations import OpKind

UNIT = {"x": 1.0}
"""Of a factor, as a person writes it: `1.05 x`."""


def calibration_from_spec(spec: CalibratedSpec, where: str) -> Calibration:
    """The checked factors.

    Raises: MachineError: an unknown kind, a number of threads below one, a factor that is there twice, two middles of
            one kind, or a range or slope that is none.
    """
    factors: dict[str, dict[int, Factor]] = {}
    middles: dict[str, tuple[float, float]] = {}
    for row in spec.factors:
        path = f"calibrated.{row.kind}.{row.threads}"
        if row.kind not in {kind.value for kind in OpKind}:
            raise MachineError(f"{where}: {path}: {UnknownName('operation', row.kind, [k.value for k in OpKind])}")
        if row.threads < 1:
            raise MachineError(f"{where}: {path}: at least one thread works")
        slopes = (row.ring_slope, row.limbs_slope, row.limbs_curve)
        if not all(map(math.isfinite, slopes)):
            raise MachineError(f"{where}: {path}: slopes are finite numbers: {', '.join(map(str, slopes))}")
        middle = (row.ring_dim, row.limbs)
        if min(middle) <= 0 or middles.setdefault(row.kind, middle) != middle:
            raise MachineError(f"{where}: {path}: a kind has one middle, above zero, on all numbers of threads")
        by_threads = factors.setdefault(row.kind, {})
        if row.threads in by_threads:
            raise MachineError(f"{where}: {path} is there twice; leave one of them out")
        by_threads[row.threads] = Factor(
            figure=figure(row.factor, where, path, UNIT, positive=True),
            ring_slope=row.ring_slope,
            limbs_slope=row.limbs_slope,
            limbs_curve=row.limbs_curve,
            timings=row.timings,
        )
    ranges = []
    for name, bounds in (("ring_dim", spec.ring_dim), ("limbs", spec.limbs)):
        if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1] < math.inf:
            raise MachineError(f"{where}: calibrated.{name} is {bounds}; write the smallest and the largest number")
        ranges.append((bounds[0], bounds[1]))
    return Calibration(factors=factors, middles=middles, ring_dim=ranges[0], limbs=ranges[1])


def calibration_spec(calibration: Calibration, written: Callable[[Figure], FigureSpec]) -> CalibratedSpec:
    """What a person would write; `calibration_from_spec` makes it again."""
    return CalibratedSpec(
        ring_dim=list(calibration.ring_dim),
        limbs=list(calibration.limbs),
        factors=[
            CalibratedFactorSpec(
                kind=kind,
                threads=threads,
                factor=written(factor.figure),
                ring_dim=calibration.middles[kind][0],
                limbs=calibration.middles[kind][1],
                ring_slope=factor.ring_slope,
                limbs_slope=factor.limbs_slope,
                limbs_curve=factor.limbs_curve,
                timings=factor.timings,
            )
            for kind, by_threads in calibration.factors.items()
            for threads, factor in by_threads.items()
        ],
    )
