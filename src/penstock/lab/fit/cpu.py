"""The parts of a CPU's time as columns of a regression: the fitted effects, and the tied ones.

The time of an operation is the sum of each unit's work (the busiest thread's part and the shared part), the starts of
threads' loops, bytes beyond the cache, and a fixed overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats
from penstock.errors import MachineError
from penstock.lab.fit.regression import Expectation, robust_nnls
from penstock.scheme.machines.parallel import beyond_cache, loop_starts, unit_shares
from penstock.scheme.machines.schema import TRANSFORM_MEASURES
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.units import APART, MULTIPLICATIONS, UNIT_MEASURES, unit_amounts

NOMINAL_COST: dict[str, float] = {
    "transforms": 1.16, "base_conversion": 0.52, "conversions": 1.8, "multiplications": 1.0, "key_products": 1.3,
    "constant_products": 0.78, "additions": 0.3, "automorphisms": 0.3, "index_maps": 10.0, "results": 0.015,
}  # fmt: skip
"""Cost of one element of each unit relative to a multiplication: OpenFHE 1.6.1, one x86-64 core, N = 2^13 to 2^16.

Used only between units that the timings cannot tell apart, and for estimates of how long a benchmark takes."""

UNITS = tuple(NOMINAL_COST)
MEASURES: dict[str, str] = {unit: "butterflies" if unit == "transforms" else UNIT_MEASURES[unit][0] for unit in UNITS}
"""The units that are fitted, and what their rates count."""
UNDIVIDED = ("index_maps", "results")
"""Units whose work one thread does."""

CACHE_SIZES = tuple(2**20 * size for size in (1, 2, 4, 8, 16, 32, 64))
"""Bytes that are tried: from a share of one core's own cache to the shared cache of a server part."""
CACHE_GAIN = 0.98
"""A cache is fitted where it brings the loss below this share of the loss without one."""
CACHE_ROWS = 1 / 8
"""Share of the timings that must be of more data than the cache holds."""
PULL = 3e-5
"""Penalty of a unit's cost that is off its nominal ratio by 100 %, next to the mean squared relative error: as much as
1 % in the times of a third of the operations. It decides only between costs that the timings hardly tell apart."""
PULLED_SCATTER = 0.02
"""Relative errors below which the pull is less, by their square: exact timings need none."""
_ROUNDS = 6
NOMINAL_BEYOND = 0.5
"""A cost is not the rows' own where its nominal ratio has more than this share in deciding it."""

_NOMINAL = np.asarray([NOMINAL_COST[unit] for unit in UNITS])


Composition = Sequence[tuple[KernelWork, float]]
"""Works and how often each runs, one after another: one of them for a primitive, many for a composite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRows:
    """Timed work as arrays, one measurement a row."""

    seconds: Floats
    """(n,)"""
    weights: Floats
    """(n,)"""
    whole: Floats
    """(n, units) work of each unit, in the order of `UNITS`."""
    divided: Floats
    """(n, units) the same for work that the row's threads divide: the busiest thread's part."""
    loops: Floats
    """(n,) loops that start threads; none on one thread."""
    beyond: Floats
    """(n, sizes) bytes that a cache of each of `CACHE_SIZES` does not hold."""
    calls: Floats
    """(n,) operations."""

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, chosen: npt.NDArray[np.bool_]) -> TimedRows:
        """Some of the rows."""
        return TimedRows(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


def rows_of(compositions: Sequence[Composition], threads: Sequence[int], seconds: Floats, weights: Floats) -> TimedRows:
    """Timed works as arrays."""

    def summed(value: Callable[[KernelWork, int], Sequence[float]]) -> Floats:
        @cache
        def amounts(work: KernelWork, count: int) -> Floats:
            return np.asarray(value(work, count), dtype=np.float64)

        timed = zip(compositions, threads, strict=True)
        return np.asarray([sum(times * amounts(work, count) for work, times in works) for works, count in timed])

    return TimedRows(
        seconds=seconds,
        weights=weights,
        whole=summed(lambda work, _: exclusive_amounts(work)),
        divided=summed(_divided),
        loops=summed(lambda work, count: [loop_starts(work, count)])[:, 0],
        beyond=summed(lambda work, _: [beyond_cache(work, size) for size in CACHE_SIZES]),
        calls=np.asarray([sum(times for _, times in composition) for composition in compositions]),
    )


def exclusive_amounts(work: KernelWork) -> list[float]:
    """Work of each unit, in the order of `UNITS`; each multiplication counts for one unit."""
    amounts = unit_amounts(work)
    for unit in APART:
        amounts[MULTIPLICATIONS] -= amounts[unit]
    points = TRANSFORM_MEASURES[MEASURES["transforms"]](work.ring_dim) if work.limb_transforms else 0.0
    amounts["transforms"] = work.limb_transforms * points
    return [amounts[unit] for unit in UNITS]


def _divided(work: KernelWork, threads: int) -> list[float]:
    shares = unit_shares(work, threads)
    return [amount * shares.get(unit, 1.0) for unit, amount in zip(UNITS, exclusive_amounts(work), strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The fitted effects. Units of one group share one scale at nominal ratios, a column each."""

    groups: tuple[tuple[int, ...], ...]
    overhead: bool = True
    threads: bool = False
    """What shared elements cost, and the loops that start threads."""
    cache_bytes: int | None = None
    pull: float = 0.0
    """Penalty of a cost of zero, or of twice its nominal value, next to the mean squared relative error."""
    unit_scale: float = 1.0
    """Seconds of a nominal multiplication, for `pull`."""

    def group_names(self) -> list[str]:
        """Of the groups."""
        return ["+".join(UNITS[i] for i in group) for group in self.groups]

    def divided_groups(self) -> list[int]:
        """Groups that threads divide, where threads are fitted."""
        undivided = {UNITS.index(unit) for unit in UNDIVIDED}
        return [g for g, group in enumerate(self.groups) if self.threads and not undivided.issuperset(group)]

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        groups = self.group_names()
        return [
            *groups,
            *(f"shared {groups[g]}" for g in self.divided_groups()),
            *(["loops"] if self.threads else []),
            *(["beyond cache"] if self.cache_bytes is not None else []),
            *(["overhead"] if self.overhead else []),
        ]

    def expected(self) -> Expectation | None:
        """Penalty rows that pull each group to its nominal cost."""
        if not self.pull:
            return None
        strength = np.sqrt(self.pull)
        rows = np.zeros((len(self.groups), len(self.names)))
        for g in range(len(self.groups)):
            rows[g, g] = strength / self.unit_scale
        return Expectation(rows, np.full(len(self.groups), strength))

    def columns(self, rows: TimedRows) -> Floats:
        """(n, m) seconds of each row for a coefficient of one."""
        nominal = [(list(group), _NOMINAL[list(group)]) for group in self.groups]
        columns = [rows.divided[:, group] @ cost for group, cost in nominal]
        for g in self.divided_groups():
            group, cost = nominal[g]
            columns.append((rows.whole - rows.divided)[:, group] @ cost)
        if self.threads:
            columns.append(rows.loops)
        if self.cache_bytes is not None:
            columns.append(rows.beyond[:, CACHE_SIZES.index(self.cache_bytes)])
        if self.overhead:
            columns.append(rows.calls)
        return np.stack(columns, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCosts:
    """Fitted seconds of one of each."""

    structure: Structure
    coefficients: Floats
    """(m,) of the structure's columns."""
    cost: Floats
    """(units,) seconds of one element of each unit on one thread."""
    shared: Floats
    """(units,) seconds of one that threads share."""
    loop: float = 0.0
    beyond: float = 0.0
    """Seconds of a byte beyond the cache."""
    overhead: float = 0.0
    loss: float = 0.0
    scale: float = 0.0
    """Relative error beyond which a row counted less."""

    def seconds(self, rows: TimedRows) -> Floats:
        """(n,) predicted."""
        return np.asarray(self.structure.columns(rows) @ self.coefficients)


def solve(
    rows: TimedRows, structure: Structure, *, scale: float | None = None, start: Floats | None = None
) -> CpuCosts:
    """The costs for a structure that is given.

    Args:   scale: that of another fit whose loss is to be compared; start: coefficients of a fit to nearly these rows.
    """
    fitted = robust_nnls(
        structure.columns(rows), rows.seconds, rows.weights, expected=structure.expected(), scale=scale, start=start
    )
    seconds_of = dict(zip(structure.names, fitted.coefficients.tolist(), strict=True))
    cost, shared = np.zeros(len(UNITS)), np.zeros(len(UNITS))
    for name, group in zip(structure.group_names(), structure.groups, strict=True):
        cost[list(group)] = seconds_of[name] * _NOMINAL[list(group)]
        shared[list(group)] = seconds_of.get(f"shared {name}", 0.0) * _NOMINAL[list(group)]
    return CpuCosts(
        structure=structure,
        coefficients=fitted.coefficients,
        cost=cost,
        shared=shared,
        loop=seconds_of.get("loops", 0.0),
        beyond=seconds_of.get("beyond cache", 0.0),
        overhead=seconds_of.get("overhead", 0.0),
        loss=fitted.loss,
        scale=fitted.scale,
    )


def fit_costs(rows: TimedRows, wanted: Structure) -> CpuCosts:
    """The costs of all units, each drawn a little to its nominal ratio to the others.

    Costs that the rows tell apart are the rows' own; of costs that they do not, the sum is the rows' and the ratio the
    nominal one: the ridge of Bayesian regression.
    Raises: MachineError: no cost above zero meets the rows.
    """
    everything = tuple(range(len(UNITS)))
    # Timings that are fewer than the units may be met by an overhead alone: then there is none.
    for overhead in (wanted.overhead, False)[: 1 + (len(rows) < len(UNITS))]:
        wanted = replace(wanted, overhead=overhead)
        alike = solve(rows, Structure(groups=(everything,), overhead=overhead))
        scale = float(alike.cost[UNITS.index(MULTIPLICATIONS)])
        if scale > 0:
            break
    else:
        raise MachineError(
            "no cost above zero meets these timings: some are far shorter than their work can be; look for one in "
            "another unit"
        )
    structure = replace(wanted, groups=tuple((i,) for i in everything), pull=PULL, unit_scale=scale)
    return _pulled(rows, structure)


def _pulled(rows: TimedRows, structure: Structure) -> CpuCosts:
    """The costs, with the pull that fits how exact the rows are."""
    structure = replace(structure, pull=PULL)
    costs = solve(rows, structure)
    for _ in range(_ROUNDS):
        pull = PULL * min(1.0, (costs.scale / PULLED_SCATTER) ** 2)
        if pull > structure.pull / 2:
            break
        structure = replace(structure, pull=pull)
        costs = solve(rows, structure, start=costs.coefficients)
    return costs


def not_told_apart(rows: TimedRows, costs: CpuCosts) -> dict[str, str]:
    """Unit -> why its cost is not the rows' own, of those whose nominal ratio weighs more than the rows do."""
    structure = costs.structure
    expected = structure.expected()
    if expected is None:
        return {}
    relative = structure.columns(rows) / rows.seconds[:, None]
    size = np.where(relative.max(axis=0) > 0, relative.max(axis=0), 1.0)
    relative, drawn = relative / size, expected.rows / size
    information = (relative * (rows.weights / rows.weights.sum())[:, None]).T @ relative
    spread = np.linalg.pinv(information + drawn.T @ drawn, hermitian=True)
    share = np.einsum("gi,ij,gj->g", drawn, spread, drawn)
    present = np.any(rows.whole != 0, axis=0)
    texts = {}
    for i, unit in enumerate(UNITS):
        if not present[i]:
            texts[unit] = f"{unit}: no timed operation has any; its rate follows the others at nominal ratios"
        elif share[i] > NOMINAL_BEYOND:
            texts[unit] = f"{unit}: too few shapes tell its cost apart; it is drawn to the others at nominal ratios"
    return texts


def with_cache(rows: TimedRows, costs: CpuCosts) -> CpuCosts:
    """The same structure with the cache size that meets the rows best, if one helps."""
    best = costs
    for size in CACHE_SIZES:
        if np.mean(rows.beyond[:, CACHE_SIZES.index(size)] > 0) < CACHE_ROWS:
            continue
        tried = solve(rows, replace(costs.structure, cache_bytes=size), scale=costs.scale)
        if tried.beyond > 0 and tried.loss < best.loss * (CACHE_GAIN if best is costs else 1.0):
            best = tried
    return best if best is costs else _pulled(rows, best.structure)
