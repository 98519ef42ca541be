"""Errors of a fitted CPU on held-out measurements: whole ring dimensions, depths and thread counts left out.

Errors are logarithms of predicted over measured time. Those of one configuration have a part in common and a part of
each kind of operation; both are estimated by their 68th percentile, so that a few disturbed timings do not widen every
interval. The rest, tails and all, is in factors: what makes 90 % intervals cover 90 % of the held-out timings (Vovk,
Gammerman and Shafer, Algorithmic Learning in a Random World, 2005). Each group of predictions has its own scale, since
errors differ between one thread and two, inside and outside of the measured range, and between an operation and a
program.

Of a program no timing is needed: the operations of a held-out configuration, added up, are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats, Ints
from penstock.lab.fit.calibration import Labels, factors_of, fit_calibration
from penstock.lab.fit.cpu import CpuCosts, TimedRows, solve
from penstock.scheme.machines.calibration import ELEMENT_WISE, KEY_SWITCHING, operation_class
from penstock.scheme.machines.report import KEY_PROGRAM, PROGRAM, scale_names, scale_of
from penstock.scheme.operations import OpKind

LEVEL = 0.9
ONE_SD = 68.27
"""Percentage of a normal distribution within one standard deviation."""
FOLDS = 10
MIN_SD = 0.005
"""Times are not known better than this."""
FEWEST_OF_GROUP = 9
"""Held-out errors needed for a group's own scale: of fewer, the largest may not hold 90 %."""
FEWEST_KINDS = 3
"""Kinds that say something of another one."""
MIXES = ((KEY_SWITCHING,), (ELEMENT_WISE,), (KEY_SWITCHING, ELEMENT_WISE))
"""Classes of the operations that are added up to a program."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The identity of the rows of a fit."""

    labels: Labels
    configurations: Sequence[Hashable]
    """(n,)"""
    axes: Floats
    """(n, k) numbers that a prediction can lie outside of: ring dimension, depth, …"""
    reliability: Floats
    """(n,) from 1 for runs that agree towards 0 for runs that scatter: such a time says little of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """What leaving parts of the measurements out shows."""

    common_sd: float
    kinds: dict[str, float]
    interval_scale: float
    scales: dict[str, float]
    unknown_kinds: dict[str, float]
    degrees_of_freedom: float
    standard_errors: dict[str, float]
    """Column of the structure -> relative standard error of its coefficient (delete-a-group jackknife)."""


def leave_out(groupings: Sequence[Sequence[Hashable]], configurations: Sequence[Hashable]) -> list[Mask]:
    """Masks of the rows to leave out: one value of one grouping each, of the groupings with three values or more.

    Without one, a tenth of the configurations is left out at a time; with fewer than three configurations, a tenth of
    the rows.
    """
    masks = []
    for grouping in groupings:
        values = sorted(set(grouping), key=repr)
        if len(values) >= 3:
            masks += [np.asarray([value == level for level in grouping]) for value in values]
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


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Errors of held-out rows, one row for each time that it was left out."""

    errors: Floats
    """(k,) logarithms of predicted over measured time."""
    at: Ints
    """(k,) rows."""
    fold: Ints
    """(k,) which mask left it out."""
    outside: Mask
    """(k,) whether it lies outside of the range of the rest."""


def held_out_errors(rows: TimedRows, whole: CpuCosts, masks: Sequence[Mask], timed: Timed) -> HeldOut:
    """Errors of the rows that each mask leaves out. `whole` is the fit to all rows: the same effects are fitted to the
    rest."""
    errors: list[Floats] = [np.zeros(0)]
    at: list[Ints] = [np.zeros(0, dtype=np.int64)]
    fold: list[Ints] = [np.zeros(0, dtype=np.int64)]
    outside: list[Mask] = [np.zeros(0, dtype=np.bool_)]
    for index, mask in enumerate(masks):
        if (~mask).sum() <= len(whole.structure.names):
            continue
        kept, rest = rows.take(~mask), rows.take(mask)
        costs = solve(kept, whole.structure, start=whole.coefficients)
        residuals = np.log(kept.seconds / np.maximum(costs.seconds(kept), 1e-12))
        calibration = fit_calibration(residuals, timed.labels.take(~mask), "the rest")
        predicted = np.maximum(costs.seconds(rest), 1e-12)
        if calibration is not None:
            predicted = predicted * factors_of(calibration, timed.labels.take(mask))
        errors.append(np.log(predicted / rest.seconds))
        at.append(np.nonzero(mask)[0])
        fold.append(np.full(int(mask.sum()), index))
        known, new = timed.axes[~mask], timed.axes[mask]
        outside.append(((new < known.min(axis=0)) | (new > known.max(axis=0))).any(axis=1))
    return HeldOut(np.concatenate(errors), np.concatenate(at), np.concatenate(fold), np.concatenate(outside))


def uncertainty(
    rows: TimedRows, costs: CpuCosts, timed: Timed, groupings: Sequence[Sequence[Hashable]]
) -> Uncertainty | None:
    """The uncertainty of a fit; `None` where too few rows are left to leave any out.

    Args:   groupings: ring dimension, depth, threads, … of each row: each value is left out in turn.
    """
    held = held_out_errors(rows, costs, leave_out(groupings, timed.configurations), timed)
    errors = held.errors
    if not len(errors):
        return None
    names = list(dict.fromkeys(timed.configurations))
    place = {name: i for i, name in enumerate(names)}
    configuration = np.asarray([place[name] for name in timed.configurations])[held.at]
    kind = timed.labels.kinds[held.at]
    common = np.zeros(len(names))
    for i in np.unique(configuration):
        common[i] = np.median(errors[configuration == i])
    own = errors - common[configuration]
    common_sd = max(float(np.percentile(np.abs(common[np.unique(configuration)]), ONE_SD)), MIN_SD)
    by_kind = {
        str(name): max(float(np.percentile(np.abs(own[kind == name]), ONE_SD)), MIN_SD) for name in sorted(set(kind))
    }
    freedom = float(max(len(np.unique(configuration)) - 1, 1))
    from scipy.special import stdtrit  # slow to import, and only a fit needs it

    quantile = float(stdtrit(freedom, 0.5 + LEVEL / 2))
    widths = quantile * np.hypot(common_sd, np.asarray([by_kind[str(name)] for name in kind]))
    misses = np.abs(errors) / widths
    single = kind != OpKind.COMPOSITE.value
    groups = [
        scale_names(operation_class(str(k)), int(t), bool(o)) if one else ()
        for k, t, o, one in zip(kind, timed.labels.threads[held.at], held.outside, single, strict=True)
    ]
    programs = list(_programs(held, configuration, timed))
    misses_of = _misses(zip(groups, misses.tolist(), [1.0] * len(misses), strict=True))
    misses_of |= _misses(
        (names_, abs(error) / (quantile * float(np.hypot(common_sd, _share_sd(shares, by_kind)))), weight)
        for names_, error, shares, weight in programs
    )
    scale = conformal(misses)
    scales = {
        name: conformal(*np.asarray(scored).T) for name, scored in misses_of.items() if len(scored) >= FEWEST_OF_GROUP
    }
    return Uncertainty(
        common_sd=common_sd,
        kinds=by_kind,
        interval_scale=scale,
        scales=scales,
        unknown_kinds=_unknown_kinds(rows, costs, timed, common_sd, quantile, scales, scale),
        degrees_of_freedom=freedom,
        standard_errors=jackknife(rows, costs, timed.configurations),
    )


def conformal(misses: Floats, weights: Floats | None = None) -> float:
    """The bound of 90 % of new errors, if they are like these: the quantile with its correction for few.

    Args:   weights: (n,) of each error; alike by default.

    >>> conformal(np.arange(1.0, 100.0)), conformal(np.array([1.0, 2.0, 9.0] * 20), np.array([1.0, 1.0, 0.1] * 20))
    (90.0, 2.0)
    """
    order = np.argsort(misses)
    known = np.ones(len(misses)) if weights is None else weights
    reached = np.cumsum(known[order])
    wanted = LEVEL * (reached[-1] + known.max())
    return float(misses[order[min(int(np.searchsorted(reached, wanted - 1e-9)), len(misses) - 1)]])


def _misses(rows: Iterable[tuple[Sequence[str], float, float]]) -> dict[str, list[tuple[float, float]]]:
    """Name of a group -> (miss, weight) of each."""
    scored: dict[str, list[tuple[float, float]]] = {}
    for names, miss, weight in rows:
        for name in names:
            scored.setdefault(name, []).append((miss, weight))
    return scored


def _programs(
    held: HeldOut, configuration: Ints, timed: Timed
) -> Iterator[tuple[Sequence[str], float, Mapping[str, float], float]]:
    """Operations of each held-out configuration added up: (names of groups, error, kind -> share of the time, weight).

    Every kind of a mix takes the same share of the measured time. The weight is the mean reliability of the timings:
    the error of a program is the model's, and a single time that was disturbed shows more than that.
    """
    kinds, threads = timed.labels.kinds[held.at], timed.labels.threads[held.at]
    reliability = timed.reliability[held.at]
    single = kinds != OpKind.COMPOSITE.value
    for fold in np.unique(held.fold):
        of_fold = held.fold == fold
        for place in np.unique(configuration[of_fold]):
            here = np.nonzero(of_fold & (configuration == place) & single)[0]
            if not len(here):
                continue
            of_row, errors, reliable = kinds[here], np.exp(held.errors[here]), reliability[here]
            rows = {str(k): of_row == k for k in sorted(set(of_row))}
            ratio = {kind: float(errors[of_kind].mean()) for kind, of_kind in rows.items()}
            weight = {kind: float(reliable[of_kind].mean()) for kind, of_kind in rows.items()}
            where = int(threads[here[0]]), bool(held.outside[here].any())
            for mix in MIXES:
                chosen = {kind: value for kind, value in ratio.items() if operation_class(kind) in mix}
                if len(chosen) < 2 or len({operation_class(kind) for kind in chosen}) < len(mix):
                    continue
                total = sum(chosen.values())
                shares = {kind: value / total for kind, value in chosen.items()}
                groups = (PROGRAM, KEY_PROGRAM) if mix == (KEY_SWITCHING,) else (PROGRAM,)
                names = [name for group in groups for name in scale_names(group, *where)]
                mean = sum(weight[kind] for kind in chosen) / len(chosen)
                yield names, float(np.log(total / len(chosen))), shares, mean


def _share_sd(shares: Mapping[str, float], kinds: Mapping[str, float]) -> float:
    return float(np.sqrt(sum((share * kinds[kind]) ** 2 for kind, share in shares.items())))


def _unknown_kinds(
    rows: TimedRows,
    costs: CpuCosts,
    timed: Timed,
    common_sd: float,
    quantile: float,
    scales: Mapping[str, float],
    scale: float,
) -> dict[str, float]:
    """Class -> deviation of a kind that was not timed, on top of what all operations are off by together: each kind in
    turn is left out of the fit altogether."""
    kinds = timed.labels.kinds
    names = sorted({str(kind) for kind in kinds if kind != OpKind.COMPOSITE.value})
    held = held_out_errors(rows, costs, [kinds == name for name in names], timed)
    if not len(held.errors):
        return {}
    of_row = kinds[held.at]
    own = np.asarray(
        [
            scale_of(scales, scale, operation_class(str(k)), int(t), bool(o))
            for k, t, o in zip(of_row, timed.labels.threads[held.at], held.outside, strict=True)
        ]
    )
    beyond = np.square(held.errors) - np.square(quantile * own * common_sd)
    return unknown_deviations(np.sqrt(np.maximum(beyond, 0.0)), of_row, MIN_SD, quantile)


def jackknife(rows: TimedRows, costs: CpuCosts, configurations: Sequence[Hashable]) -> dict[str, float]:
    """Relative standard error of each coefficient; infinite for one that came out as nothing."""
    solved = [
        solve(rows.take(~mask), costs.structure, start=costs.coefficients).coefficients
        for mask in dealt(configurations)
        if (~mask).sum() > len(costs.structure.names)
    ]
    if len(solved) < 2:
        return {}
    values = np.stack(solved)
    error = np.sqrt((len(solved) - 1) / len(solved) * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
    whole = costs.coefficients
    relative = np.divide(error, whole, out=np.full(len(whole), np.inf), where=whole > 0)
    return dict(zip(costs.structure.names, relative.tolist(), strict=True))


def unknown_deviations(
    scores: Floats, kinds: npt.NDArray[np.object_], least: float, quantile: float
) -> dict[str, float]:
    """Class of operations -> the deviation of a kind of it that was not timed; nothing where too few kinds were.

    Each kind in turn is left out of a fit altogether; its error is then one observation, however often it was timed,
    since timings of one kind are off by much the same. Of K kinds whose errors are normal around nothing, the next one
    lies within Student's quantile with K degrees of freedom * root mean square of the sizes. Without an assumed
    distribution, a quantile over K kinds gives weight 1 / (K + 1) to an unbounded error: with six kinds more than the
    tenth that a 90 % interval may miss (Lee, Barber and Willett, "Distribution-free inference with hierarchical data",
    2023).

    Args:   scores: (n,) absolute errors of timings whose kind was left out, in logarithms; kinds: (n,) of each; least:
            the smallest deviation; quantile: the factor of an interval on deviations.

    >>> kinds = np.asarray(["add", "sub", "mult_plain"], dtype=object)
    >>> {name: round(sd, 3) for name, sd in unknown_deviations(np.full(3, 0.1), kinds, 0.005, 1.645).items()}
    {'element-wise': 0.143}
    """
    squares: dict[str, list[float]] = {}
    for kind in sorted(set(kinds)):
        squares.setdefault(operation_class(str(kind)), []).append(float(np.mean(np.square(scores[kinds == kind]))))
    if sum(len(sizes) for sizes in squares.values()) < FEWEST_KINDS:
        return {}
    return {name: max(_next(sizes) / quantile, least) for name, sizes in squares.items()}


def _next(squares: list[float]) -> float:
    """The bound of the error of one more kind, at `LEVEL`."""
    from scipy.special import stdtrit  # slow to import, and only a fit needs it

    return float(stdtrit(len(squares), 0.5 + LEVEL / 2) * np.sqrt(np.mean(squares)))
