"""How far a prediction may be off, from the uncertainty that a machine's fit states.

The error of one kind of operation is the same wherever it occurs in a program, so it weighs by the kind's share of the
time; errors of different kinds are independent, and all share the machine's common error of the configuration. Errors
are of logarithms: a time is never negative, and an interval is wider above than below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from penstock.scheme.machines.calibration import operation_class
from penstock.scheme.machines.schema import FitReport

CONFIDENCE = 0.9
"""Share of outcomes that an interval is meant to hold."""
MOST_DEGREES = 1e6
"""Degrees of freedom above which Student's distribution is the normal one."""


def log_sd(
    fit: FitReport, seconds: Mapping[str, float], parts: Sequence[tuple[float, float]] = (), scale: float = 1.0
) -> float | None:
    """Standard deviation of the logarithm of a sum of times; `None` where the fit states no uncertainty.

    Args:   seconds: kind -> predicted seconds. A kind that was not timed has the deviation of such kinds of its class,
                or the largest stated one. parts: (seconds, standard deviation of their logarithm) of the other terms of
                the sum. scale: the factor that `interval` will apply. It was found with timed kinds, so it does not
                count for the others.
    """
    if fit.common_sd is None:
        return None
    total = math.fsum(seconds.values()) + math.fsum(part_s for part_s, _ in parts)
    if not total:
        return fit.common_sd
    worst = max(fit.kinds.values(), default=0.0)
    stated = {name: sd / scale for name, sd in fit.unknown_kinds.items()}
    unknown = {kind: stated.get(operation_class(kind), worst) for kind in seconds}
    kinds = math.fsum((kind_s / total * fit.kinds.get(kind, unknown[kind])) ** 2 for kind, kind_s in seconds.items())
    rest = math.fsum((part_s / total * sd) ** 2 for part_s, sd in parts)
    return math.sqrt(fit.common_sd**2 + kinds + rest)


def interval(fit: FitReport, value: float, sd: float, scale: float | None = None) -> tuple[float, float]:
    """The interval of a value whose logarithm has this standard deviation: Student's, times a scale of the fit.

    Args:   scale: the scale of all held-out measurements by default.

    >>> from penstock.scheme.machines.report import FitReport
    >>> fit = FitReport(fitted_to="", shapes=1, total_error=0.0, errors=[], common_sd=0.05)
    >>> [round(end, 4) for end in interval(fit, 1.0, 0.05)]
    [0.921, 1.0857]
    """
    from scipy.special import stdtrit  # slow to import, and accelerators need none

    quantile = float(stdtrit(min(fit.degrees_of_freedom, MOST_DEGREES), 0.5 + CONFIDENCE / 2))
    factor = math.exp(quantile * sd * (fit.interval_scale if scale is None else scale))
    return value / factor, value * factor
