"""The interface of a prediction model: fitted to measurements, it gives the time of any other, and an interval if it
has one.

Three are compared in every table: `penstock` (here), `additive` and `log-quadratic`
(`penstock.lab.prediction.validation.baselines`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol, TypeVar

from penstock.errors import PenstockError, check_known
from penstock.lab.fit.fit import fit_machine
from penstock.lab.fit.measurements import WARM, Measurement
from penstock.lab.prediction.composites import BOOTSTRAP, expanded
from penstock.lab.prediction.counted import Counted
from penstock.lab.prediction.prediction import priced
from penstock.program.evaluator.unfolded import RELEASE
from penstock.program.running.counting import count_unfolded, count_workload
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.unpriced import refuse
from penstock.scheme.work.shapes import Shape

LEVEL = 0.9
"""Share of held-out measurements that an interval is meant to hold."""
NORMAL_90 = 1.6448536269514722
"""Half width of the interval that holds 90 % of a normal distribution, in standard deviations."""


UNKNOWN_CLIENT = "the time of whole runs is not predicted by a model that does not know the client"


T = TypeVar("T")


class CannotPredict(PenstockError):
    """A model that was fitted to too little says nothing about this measurement."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted time in seconds; `low` and `high` bound the middle 90 %, `None` where a model has no interval."""

    seconds: float
    low: float | None = None
    high: float | None = None

    def holds(self, measured_s: float) -> bool | None:
        """Whether the interval holds the measurement; `None` without an interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= measured_s <= self.high

    def times(self, factor: float) -> Estimate:
        """All three, `factor` times as long."""
        scaled = [None if value is None else value * factor for value in (self.low, self.high)]
        return Estimate(self.seconds * factor, *scaled)


class Model(Protocol):
    """A fitted model."""

    def predict(self, measurement: Measurement) -> Estimate:
        """Predict the time of a measurement; its `seconds` are not read.

        Raises: CannotPredict: nothing that it was fitted to says anything about it.
        """


Fit = Callable[[Sequence[Measurement]], Model]
"""Fits a model. Raises: PenstockError: the measurements do not identify it."""


def named(what: str, names: Collection[str], known: Mapping[str, T]) -> dict[str, T]:
    """Some entries of a registry, in its order; none named: all.

    Raises: UnknownName.
    """
    for name in names:
        check_known(what, name, known)
    return {name: entry for name, entry in known.items() if not names or name in names}


def log_interval(seconds: float, sd: float | None) -> Estimate:
    """An estimate whose logarithm has the standard deviation `sd`; `None`: no interval."""
    if sd is None:
        return Estimate(seconds)
    width = math.exp(NORMAL_90 * sd)
    return Estimate(seconds, seconds / width, seconds * width)


def is_served(kind: str) -> bool:
    """Whether the server runs it: machines are not fitted to the client's tasks, and these are not validated."""
    return not TRAITS[OpKind(kind)].client


def predictable(measurement: Measurement) -> bool:
    """Whether it is a warm primitive of the server with kernel work, a composite whose operations are known, or a
    program of ours at a named size."""
    if measurement.condition != WARM:
        return False
    if measurement.group == "primitives":
        if measurement.shape is None:
            return bool(_parts(measurement))
        return is_served(measurement.shape.kind)
    return measurement.size is not None


def _parts(composite: Measurement) -> Mapping[Shape, int]:
    """The server's operations of a composite; nothing where they are not known."""
    try:
        return {shape: n for shape, n in expanded(composite).items() if is_served(shape.kind)}
    except PenstockError:
        return {}


def primitives(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Those of one operation each that the server runs and that has kernel work."""
    return [m for m in measurements if m.group == "primitives" and m.shape is not None and predictable(m)]


def composites(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Single calls of the library that are made of known operations: series, and bootstrapping."""
    return [m for m in measurements if m.group == "primitives" and m.shape is None and predictable(m)]


def calibration(measurements: Iterable[Measurement]) -> list[Measurement]:
    """All that a machine may be fitted to: primitives, warm and cold, the client's and composites too; no program."""
    return [m for m in measurements if m.group == "primitives"]


def programs(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Microbenchmarks and workloads of ours, at a named size: only their operations can be counted."""
    return [m for m in measurements if m.group != "primitives" and predictable(m)]


@dataclass(frozen=True, slots=True)
class Served:
    """What the server runs of a program."""

    counts: Mapping[Shape, int]
    """Composites expanded."""
    calls: Mapping[str, int]
    """Kind -> calls of the library; a composite is one."""
    client: Mapping[Shape, int] = field(default_factory=dict)
    """What the client runs."""
    encodings: Mapping[int, int] = field(default_factory=dict)
    """Limbs -> plaintexts that the program encodes."""


@lru_cache(maxsize=512)
def _counted(item: str, params: CkksParameters, size: str | None, release: str | None) -> Served:
    counted = (count_unfolded if release == RELEASE else count_workload)(item, params, size)
    return Served(
        counts={shape: count for shape, count in counted.counts.items() if is_served(shape.kind)},
        calls={kind: count for kind, count in counted.calls.items() if is_served(kind)},
        client={shape: count for shape, count in counted.counts.items() if not is_served(shape.kind)},
        encodings=counted.encodings,
    )


def served(measurement: Measurement) -> Served:
    """The server's operations of a program or composite that was measured, counted once for each configuration.

    Raises: CannotPredict: it is one operation, or no program of ours; UnknownName: no such workload or size.
    """
    if measurement.shape is not None or not predictable(measurement):
        raise CannotPredict(f"{measurement.source}: the operations of '{measurement.item}' are not known")
    if measurement.group == "primitives":
        kind = OpKind.BOOTSTRAP if measurement.item == BOOTSTRAP else OpKind.CHEBYSHEV
        return Served(counts=_parts(measurement), calls={kind.value: 1})
    return _counted(measurement.item, measurement.params, measurement.size, measurement.release)


class PenstockModel:
    """A machine, fitted to primitives, that prices operations and programs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def predict(self, measurement: Measurement) -> Estimate:
        machine, params = self.machine.at(measurement.threads), measurement.params
        if measurement.shape is not None:
            counted = Counted.of({measurement.shape: 1}, params)
        elif measurement.group == "primitives":  # called in a loop, as primitives are
            counted = Counted.of(served(measurement).counts, params)
        else:
            known = served(measurement)
            if not measurement.whole:  # the calls' own times, without the client and without the record
                machine = replace(machine, recording=None)
                counted = Counted.of(known.counts, params, calls=known.calls)
            elif machine.client is None:
                raise CannotPredict(f"{UNKNOWN_CLIENT}: encode, encrypt and decrypt at several limbs were not timed")
            else:
                counts = {**known.counts, **known.client}
                counted = Counted.of(counts, params, calls=known.calls, encodings=known.encodings)
        total = priced(counted, machine)
        refuse(total.unpriced, f"{measurement.item} on '{machine.name}'")
        return Estimate(total.seconds, total.totals["low_s"], total.totals["high_s"])


def fit_penstock(measurements: Sequence[Measurement]) -> Model:
    """The model `penstock`: the kernel algebra with fitted rates. Timings of programs are not used."""
    return PenstockModel(fit_machine(calibration(measurements), name="validated", expand=expanded))
