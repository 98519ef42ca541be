"""How far a fitted CPU is off what it was not fitted to: whole ring dimensions, depths and thread counts left out.

Errors are logarithms of predicted over measured time. Those of one configuration have a part in common and a part of
each kind of operation; both are estimated by their 68th percentile, so that a few disturbed timings do not widen every
interval. The rest, tails and all, is in one factor: what makes 90 % intervals cover 90 % of the held-out timings
(Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from penstock.machines.cpu import CpuCosts, Rows, solve
from penstock.machines.regression import Floats

LEVEL = 0.9
ONE_SD = 68.27
"""Percentage of a normal distribution within one standard deviation."""
FOLDS = 10
MIN_SD = 0.005
"""Times are not known better than this."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """What leaving parts of the measurements out shows."""

    common_sd: float
    kinds: dict[str, float]
    interval_scale: float
    degrees_of_freedom: float
    standard_errors: dict[str, float]
    """Column of the structure -> relative standard error of its coefficient (delete-a-group jackknife)."""


def leave_out(groupings: Sequence[Sequence[Hashable]], configurations: Sequence[Hashable]) -> list[Mask]:
    """Masks of the rows to leave out: one value of one grouping each, of the groupings with three values or more.

    Where there is none, a tenth of the configurations at a time; with fewer than three of those, a tenth of the rows.
    """
    masks = []
    for grouping in groupings:
        values = sorted(set(grouping), key=repr)
        if len(values) >= 3:
            masks += [np.asarray([value == each for each in grouping]) for value in values]
    return masks or dealt(configurations)


def dealt(configurations: Sequence[Hashable]) -> list[Mask]:
    """Masks of a tenth of the configurations each (of the rows, with fewer than three configurations), dealt round."""
    names = list(dict.fromkeys(configurations))
    if len(names) >= 3:
        place = {name: i % FOLDS for i, name in enumerate(names)}
        fold = np.asarray([place[name] for name in configurations])
    else:
        fold = np.arange(len(configurations)) % FOLDS
    return [fold == i for i in range(int(fold.max()) + 1)] if fold.max() > 0 else []


def held_out_errors(rows: Rows, whole: CpuCosts, masks: Sequence[Mask]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """(k,) logarithms of predicted over measured of what each mask leaves out, and (k,) their rows.

    `whole` is the fit to all rows: the same effects are fitted to the rest.
    """
    errors: list[Floats] = [np.zeros(0)]
    found: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for mask in masks:
        if (~mask).sum() <= len(whole.structure.names):
            continue
        costs = solve(rows.take(~mask), whole.structure, start=whole.coefficients)
        rest = rows.take(mask)
        errors.append(np.log(np.maximum(costs.seconds(rest), 1e-12) / rest.seconds))
        found.append(np.nonzero(mask)[0])
    return np.concatenate(errors), np.concatenate(found)


def uncertainty(
    rows: Rows, found: CpuCosts, kinds: Sequence[str], groupings: Sequence[Sequence[Hashable]],
    configurations: Sequence[Hashable],
) -> Uncertainty | None:  # fmt: skip
    """The uncertainty of a fit; `None` where too few rows are left to leave any out.

    Args:   kinds, configurations: of each row; groupings: ring dimension, depth, threads, … of each row.
    """
    errors, at = held_out_errors(rows, found, leave_out(groupings, configurations))
    if not len(errors):
        return None
    names = list(dict.fromkeys(configurations))
    place = {name: i for i, name in enumerate(names)}
    configuration = np.asarray([place[name] for name in configurations])[at]
    kind = np.asarray(kinds, dtype=object)[at]
    common = np.zeros(len(names))
    for i in np.unique(configuration):
        common[i] = np.median(errors[configuration == i])
    own = errors - common[configuration]
    common_sd = max(float(np.percentile(np.abs(common[np.unique(configuration)]), ONE_SD)), MIN_SD)
    by_kind = {
        str(each): max(float(np.percentile(np.abs(own[kind == each]), ONE_SD)), MIN_SD) for each in sorted(set(kind))
    }
    freedom = float(max(len(np.unique(configuration)) - 1, 1))
    sd = np.sqrt(common_sd**2 + np.asarray([by_kind[str(each)] for each in kind]) ** 2)
    width = stdtrit(freedom, 0.5 + LEVEL / 2) * sd
    scale = float(np.percentile(np.abs(errors) / width, 100 * LEVEL))
    return Uncertainty(
        common_sd=common_sd,
        kinds=by_kind,
        interval_scale=scale,
        degrees_of_freedom=freedom,
        standard_errors=jackknife(rows, found, configurations),
    )


def jackknife(rows: Rows, found: CpuCosts, configurations: Sequence[Hashable]) -> dict[str, float]:
    """Relative standard error of each coefficient; infinite for one that came out as nothing."""
    solved = [
        solve(rows.take(~mask), found.structure, start=found.coefficients).coefficients
        for mask in dealt(configurations)
        if (~mask).sum() > len(found.structure.names)
    ]
    if len(solved) < 2:
        return {}
    values = np.stack(solved)
    error = np.sqrt((len(solved) - 1) / len(solved) * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
    whole = found.coefficients
    relative = np.divide(error, whole, out=np.full(len(whole), np.inf), where=whole > 0)
    return dict(zip(found.structure.names, relative.tolist(), strict=True))
