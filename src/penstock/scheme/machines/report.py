"""What a fitted machine says about its fit: residuals, uncertainty, and where its measurements end."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import Field

from penstock.base.system.toml import Strict

ALL_KINDS = "all"
PROGRAM = "program"
"""The group of a prediction that is not of a single operation."""
KEY_PROGRAM = "key-switching program"
"""The group of one whose time is mostly in key switches; fits of older files do not know it."""
DISTURBED = 0.2
"""Spread of repeated timings, and error of their sum, from which a fit carries a warning."""


def scale_names(group: str, threads: int, outside: bool) -> tuple[str, ...]:
    """Names of the groups of predictions that a prediction is in, the narrowest first.

    Args:   group: a class of operations, or `PROGRAM`; outside: whether it lies outside of the measured range.
    >>> scale_names("program", 2, False)
    ('program/2/inside', 'program/inside')
    """
    where = "outside" if outside else "inside"
    return f"{group}/{threads}/{where}", f"{group}/{where}"


def scale_of(scales: Mapping[str, float], of_all: float, group: str, threads: int, outside: bool) -> float:
    """The scale of an interval: the group's own if enough was held out.

    Else the widest of all numbers of threads together and of each smaller one, since more threads are met no better.
    Outside of the measured range it is at least as wide as inside.

    Args:   scales: scales of groups, by name; of_all: the scale of all held-out measurements.
    >>> scale_of({"program/2/inside": 1.4, "program/inside": 1.1}, 1.0, "program", 4, False)
    1.4
    """
    own, pooled = scale_names(group, threads, outside)
    if own in scales:
        scale = scales[own]
    else:
        numbers = {int(part) for name in scales for part in name.split("/") if part.isdecimal()}
        fewer = (scale_names(group, fewer_threads, outside)[0] for fewer_threads in numbers if fewer_threads < threads)
        scale = max([scales.get(pooled, of_all), *(scales[name] for name in fewer if name in scales)])
    return max(scale, scale_of(scales, of_all, group, threads, False)) if outside else scale


class FitError(Strict):
    """Relative errors (predicted / measured - 1) of one kind of operation, or of all (`kind` is `all`)."""

    kind: str
    samples: int
    mean_abs: float
    median_abs: float
    p90_abs: float
    worst_abs: float
    bias: float
    """Signed mean."""


class Coefficient(Strict):
    """One fitted number: `value` seconds a unit of what `name` counts."""

    name: str
    value: float
    standard_error: float
    """Of the value, by leaving out groups of configurations in turn (jackknife); relative."""


class FitReport(Strict):
    """The errors of a fitted machine on its own timings, and its reliability beyond them."""

    fitted_to: str
    reading: str = "openfhe"
    """The name of the timed reading."""
    shapes: int
    """Distinct (kind, limbs, …) among the samples."""
    total_error: float
    """Relative error of the summed time of all samples."""
    spread: float | None = None
    """Of the repeated timings of one shape, relative to their median; median over the shapes that were repeated."""
    merged: list[str] = Field(default_factory=list)
    """Kernels and effects that the timings could not tell apart, the assumption in use, and the measurements that would
    help."""
    errors: list[FitError]
    """Of all samples first, then of each kind."""
    common_sd: float | None = None
    """Standard deviation of the logarithm of what all operations of one held-out configuration are off by together;
    `None`: not known, so that predictions have no interval."""
    kinds: dict[str, float] = Field(default_factory=dict)
    """Kind -> standard deviation of the logarithm of its remaining error."""
    interval_scale: float = 1.0
    """The factor on the width of a normal 90 % interval that makes it cover 90 % of the held-out measurements."""
    scales: dict[str, float] = Field(default_factory=dict)
    """The same for groups of predictions (`penstock.lab.fit.heldout.scale_names`), where enough was held out."""
    unknown_kinds: dict[str, float] = Field(default_factory=dict)
    """Class of operations -> standard deviation of the logarithm of the error of a kind that was never timed."""
    degrees_of_freedom: float = math.inf
    """Of the standard deviations: configurations beyond the one that any scale needs."""
    ranges: dict[str, list[int]] = Field(default_factory=dict)
    """What the measurements cover, from and to: `ring_dim`, `depth`, `limbs`, `dnum`, `threads`."""
    coefficients: list[Coefficient] = Field(default_factory=list)

    @property
    def overall(self) -> FitError:
        """Of all samples."""
        return next(error for error in self.errors if error.kind == ALL_KINDS)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the fit less than it seems, with the remedy."""
        remarks = []
        if self.spread is not None and self.spread > DISTURBED:
            remarks.append(
                f"the times of one and the same operation spread by {self.spread:.0%}: other processes disturbed them; "
                "repeat the run on a quiet machine"
            )
        if abs(self.total_error) > DISTURBED:
            remarks.append(
                f"the fitted machine is {self.total_error:+.0%} off the time of the operations that it was fitted to; "
                "do not trust its predictions to less than that"
            )
        return tuple(remarks)

    def scale(self, group: str, threads: int | None, outside: bool) -> float:
        """The scale of an interval of a prediction of a group (see `scale_of`)."""
        if group == KEY_PROGRAM and not any(name.startswith(KEY_PROGRAM) for name in self.scales):
            group = PROGRAM
        return scale_of(self.scales, self.interval_scale, group, threads or 1, outside)

    def beyond(self, name: str, low: int, high: int) -> str | None:
        """Why numbers from `low` to `high` of `name` (a key of `ranges`) are not backed by measurements, or `None`."""
        if name not in self.ranges:
            return None
        start, end = self.ranges[name]
        if start <= low and high <= end:
            return None
        asked = f"{low}" if low == high else f"{low} to {high}"
        measured = f"{start}" if start == end else f"{start} to {end}"
        return (
            f"{name} {asked} is outside {measured}, which the machine was fitted to: the prediction is extrapolated; "
            f"measure there too ('penstock bench run') and fit again"
        )
