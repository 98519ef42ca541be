"""One measured time, whatever file it came from: what machines are fitted to and predictions are checked against."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.errors import MachineError, check_known
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.shapes import Shape

GROUPS = ("primitives", "micro", "workloads")
"""What a measurement can be of: one operation, a small program, an application."""
NATIVE, OPENFHE = "native", "openfhe"
READINGS = (NATIVE, OPENFHE)
"""The readings that are timed. Results and machine files that do not say are of OpenFHE."""
WARM, COLD = "warm", "cold"
CONDITIONS = (WARM, COLD)
"""The state of the caches before a call: the data of a loop's last call, or nothing."""
MEDIAN, QUIET = "median", "quiet"
QUIET_SHARE = 0.05
"""Share of a primitive's calls that are faster than its quiet time."""
ENOUGH_CALLS = 20
"""Calls from which one is faster than the quiet time."""


class Configuration(NamedTuple):
    """What CryptOracle's sweeps vary: one cost of each primitive belongs to each."""

    ring_dim: int
    num_q: int
    """Limbs of the chain."""
    dnum: int
    threads: int

    def distance(self, other: Configuration) -> float:
        """Doublings between the two, summed over the four numbers."""
        return sum(abs(math.log2(a / b)) for a, b in zip(self, other, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How long one operation or program took at one configuration.

    Raises: MachineError: a time, energy or number that no measurement can have; `source` names the row.
    """

    item: str
    """Name in `measure.bench.catalogue.PRIMITIVES`, or of a workload."""
    group: str
    """One of `GROUPS`."""
    params: CkksParameters
    shape: Shape | None = None
    """Of a primitive that has kernel work; `None` for programs, composites and what traces have no kind for."""
    size: str | None = None
    """Of a program."""
    degree: int | None = None
    """Of a Chebyshev series."""
    limbs: int | None = None
    """Of the operand or result of a primitive; `None` where it is not stated, and for programs."""
    condition: str = WARM
    """One of `CONDITIONS`. Only `penstock.lab.fit.program_costs` looks at cold ones."""
    threads: int = 1
    """Inside one operation."""
    reading: str = OPENFHE
    """One of `READINGS`."""
    release: str | None = None
    """Of the timed OpenFHE, where its composites and its scaling take other steps than ours; `None`: the same."""
    seconds: float
    """Of one call: median of the runs. Of a program: of the server's operations, unless `whole`."""
    quiet_s: float | None = None
    """Of one call that nothing disturbed (`quiet_seconds`); `None` where no calls were kept, and for programs."""
    calls: int = 0
    """Single calls that were kept."""
    statistic: str = MEDIAN
    """The kind of `seconds`: `MEDIAN` or `QUIET`."""
    wall_s: float | None = None
    """Of a program: from its start to its end, client and encoding included, without loading keys."""
    whole: bool = False
    """Whether `seconds` are `wall_s`."""
    spread: float | None = None
    """From the fastest to the slowest run, relative to the median."""
    quiet_spread: float | None = None
    """The same of the runs' quiet times."""
    joules: float | None = None
    """Of one call, the whole package."""
    runs: int = 1
    source: str
    """File and row, for messages."""

    def __post_init__(self) -> None:
        def refuse(what: str, value: object, rule: str) -> None:
            raise MachineError(f"{self.source}: {what} of '{self.item}' is {value}; {rule}")

        check_known("reading", self.reading, READINGS)
        if self.group not in GROUPS:
            refuse("the group", repr(self.group), f"it is one of {', '.join(GROUPS)}")
        for seconds in (self.seconds, self.wall_s, self.quiet_s):
            if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
                refuse("the time", f"{seconds} s", "a time is positive: measure again or leave the row out")
        if self.condition not in CONDITIONS:
            refuse("the condition", repr(self.condition), f"it is one of {', '.join(CONDITIONS)}")
        if self.statistic not in (MEDIAN, QUIET):
            refuse("the statistic", repr(self.statistic), f"it is {MEDIAN} or {QUIET}")
        if self.whole and self.wall_s is None:
            refuse("the wall time", "not known", "measure the program again")
        if self.threads < 1:
            refuse("the number of threads", self.threads, "at least one thread works")
        if self.runs < 1:
            refuse("the number of runs", self.runs, "a measurement has at least one run")
        if self.spread is not None and not (math.isfinite(self.spread) and self.spread >= 0):
            refuse("the spread of the runs", self.spread, "it is not negative")
        if self.joules is not None and not (math.isfinite(self.joules) and self.joules >= 0):
            refuse("the energy", f"{self.joules} J", "it is not negative: leave it empty where it was not measured")

    @property
    def configuration(self) -> Configuration:
        """The common key of the measurements of one set-up."""
        return Configuration(self.params.ring_dim, self.params.num_q, self.params.dnum, self.threads)

    def as_whole(self) -> Measurement:
        """The same program with the time of its whole run.

        Raises: MachineError: it is not known.
        """
        return replace(self, seconds=self.seconds if self.wall_s is None else self.wall_s, whole=True)

    def as_quiet(self) -> Measurement:
        """The same primitive with its quiet time; itself where that is not known."""
        if self.quiet_s is None:
            return self
        return replace(self, seconds=self.quiet_s, spread=self.quiet_spread, statistic=QUIET)


def quiet_seconds(calls: npt.ArrayLike) -> float:
    """The call that 5 % of these (n,) calls are faster than: what neighbours of the machine disturbed least.

    Of fewer than 20 calls it is the fastest. Among n calls that one lies at the quantile 1 / (n + 1) on average, so
    that few calls give a time that is rather too long than too short.

    >>> quiet_seconds([3.0, 1.0, 2.0])
    1.0
    >>> quiet_seconds(range(100))
    5.0
    """
    ordered = np.sort(np.asarray(calls, dtype=np.float64))
    return float(ordered[int(QUIET_SHARE * len(ordered))])


def of_reading(
    measurements: Sequence[Measurement], reading: str | None, where: str, word: str = "--reading"
) -> list[Measurement]:
    """Those of one reading; `None`: the only one there is. `word`: how the front end writes it.

    Raises: UnknownName: no measurement is of it. MachineError: they are of several, and none is asked for; `where`
            names them.
    """
    readings = sorted({m.reading for m in measurements})
    if reading is not None and readings:
        check_known("measured reading", reading, readings)
    elif len(readings) > 1:
        raise MachineError(
            f"{where} are of the readings {' and '.join(readings)}, and a machine computes by one of them: name it "
            f"with {word} {readings[0]}"
        )
    return [m for m in measurements if reading in (None, m.reading)]


def statistic_of(measurements: Iterable[Measurement]) -> str:
    """The kind of times of these; both names for a mixture."""
    return " and ".join(sorted({m.statistic for m in measurements}))


def few_calls(measurements: Sequence[Measurement]) -> str | None:
    """A warning about quiet times from few calls; `None` if all have enough."""
    quiet = [m for m in measurements if m.statistic == QUIET]
    few = [m.calls for m in quiet if m.calls < ENOUGH_CALLS]
    if not few:
        return None
    return (
        f"{len(few)} of {len(quiet)} quiet times are of fewer than {ENOUGH_CALLS} calls (the fewest: {min(few)}): the "
        "fastest call stands for the 5th percentile, which it is slower than on average"
    )


def primitive_shape(kind: OpKind, params: CkksParameters, limbs: int) -> Shape:
    """The shape of a primitive that runs by itself on operands of `limbs` limbs, with nothing pending.

    A rescale's result has one limb fewer, a mod-raise's the full chain. All others keep their number. The
    operand of a relinearization has three polynomials, any other two.
    """
    limbs_out = {OpKind.RESCALE: limbs - 1, OpKind.MOD_RAISE: params.num_q}.get(kind, limbs)
    polynomials = 3 if kind is OpKind.RELINEARIZE else 2
    return Shape(kind.value, limbs, limbs_out, 0, 0, polynomials)
