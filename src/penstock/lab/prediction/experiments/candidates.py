"""The primitives that may be timed, by parameter set, and the cost of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.base.system import toml
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.estimate import FLUSH_BYTES_PER_S, KEY_GENERATION_KEY_SWITCHES, KEY_LOAD_BYTES_PER_S
from penstock.lab.measure.bench.spec import BenchPoint, SuiteSpec, plan
from penstock.lab.measure.bench.timing import last_level_cache_bytes
from penstock.lab.prediction.experiments.items import CLIENT_TASKS
from penstock.lab.prediction.experiments.prior import COLD_SD, POINT_SD, RECORDED_SD, of_threads
from penstock.scheme.params.ckks import CkksParameters

SUITE = "fit-measure"
"""Name in the rows and folders of such measurements."""
SWITCHING = ("decompose", "rotate_hoisted", "rotate", "mult")
ELEMENTS = ("add", "mult_plain", "mult_no_relin", "rescale")
LONG_RING = 2**15
"""From this ring dimension on, two runs: a call is long."""
_FIRST_RING, _FIRST_DEPTH, _FIRST_DNUM = 2**12, 10, 3

RUN_S = 0.004
"""A run beyond its calls."""
VISIT_S = 1.5
"""A visit beyond its points: files, probes of the noise, and the choice of the next."""
CONTEXT_S_PER_POINT = 1.2e-6
"""To make or read a context, a coefficient of all limbs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """All points, in the order of their sets."""

    points: tuple[BenchPoint, ...]
    twins: tuple[int | None, ...]
    """The number of the warm call that a cold one is compared with."""
    sets: tuple[tuple[int, ...], ...]
    """Numbers of the points of each parameter set."""
    start: tuple[int, ...]
    """The first visit: every part of a machine once, on the smallest ring."""

    def by_key(self) -> dict[str, int]:
        """Key of a point -> its number."""
        return {point.key: i for i, point in enumerate(self.points)}


def candidates(
    threads: Sequence[int], fits: Callable[[BenchPoint], bool] = lambda point: True, reading: str = OPENFHE
) -> Candidates:
    """Every point that may be timed, and that fits into memory.

    Args:   threads: inside an operation; fits: whether there is memory for a point; reading: who computes.
    """
    suite = SuiteSpec.model_validate(toml.packaged("penstock.lab.prediction.experiments", f"{SUITE}.toml"))
    points = [_repeated(point) for point in plan(suite, threads=threads, reading=reading).points if fits(point)]
    place = {_identity(point): i for i, point in enumerate(points)}
    twins = tuple(
        place.get(_identity(replace(point, condition="warm"))) if point.condition == "cold" else None
        for point in points
    )
    sets: dict[CkksParameters, list[int]] = {}
    for i, point in enumerate(points):
        if point.condition == "warm" or twins[i] is not None:
            sets.setdefault(point.params, []).append(i)
    return Candidates(
        points=tuple(points),
        twins=twins,
        sets=tuple(tuple(of_set) for of_set in sets.values()),
        start=tuple(i for i, point in enumerate(points) if _is_first(point)),
    )


def noise_sd(point: BenchPoint) -> float:
    """Standard deviation of the logarithm of a point's time in one visit."""
    if PRIMITIVES[point.item].records is not None:
        return RECORDED_SD
    return of_threads(COLD_SD if point.condition == "cold" else POINT_SD, point.threads)


def point_seconds(point: BenchPoint, call_s: float) -> float:
    """Time of all runs of a point in a visit, its check included."""
    if point.condition == "warm":
        run = call_s + max(point.min_time_s, call_s)
    else:
        calls = max(1.0, point.min_time_s / call_s)
        run = call_s + calls * (_flush_s() + 2 * call_s)
    return point.runs * (run + RUN_S) + 2 * call_s


@lru_cache(maxsize=1)
def _flush_s() -> float:
    return 2 * last_level_cache_bytes() / FLUSH_BYTES_PER_S


def set_seconds(params: CkksParameters, stored: bool, key_switch_s: float) -> float:
    """Time to open a parameter set: its context and two keys, made or read.

    Args:   stored: whether they are there already; key_switch_s: of one key switch on all limbs.
    """
    keys = 2 * params.key_bytes() / KEY_LOAD_BYTES_PER_S
    if not stored:
        keys += 2 * KEY_GENERATION_KEY_SWITCHES * key_switch_s
    return VISIT_S + keys + CONTEXT_S_PER_POINT * params.ring_dim * (params.num_q + params.num_p)


def _repeated(point: BenchPoint) -> BenchPoint:
    return replace(point, runs=2) if point.params.ring_dim >= LONG_RING else point


@lru_cache(maxsize=8192)
def _identity(point: BenchPoint) -> tuple[Hashable, ...]:
    return point.item, point.params, point.limbs, point.threads, point.condition


def _is_first(point: BenchPoint) -> bool:
    """Whether the first visit has the point: what every part of a machine needs to be fitted at all."""
    params = point.params
    first = (_FIRST_RING, _FIRST_DEPTH, _FIRST_DNUM, params.ring_dim // 2)
    if (params.ring_dim, params.depth, params.dnum, params.slots) != first:
        return False
    if PRIMITIVES[point.item].records is not None or point.item in CLIENT_TASKS:
        return True
    limbs = (params.num_q,) if point.condition == "cold" else (params.num_q, 5)
    return point.item in (*SWITCHING, *ELEMENTS) and point.limbs in limbs
