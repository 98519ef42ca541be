"""Random numbers of every size through every door of the readings: right to the clear result, or refused.

python tests/faults values --count 500        # half a second a case
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import Result, over, reported
from faults.programs import draw_params
from penstock.errors import PenstockError
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.running import READINGS
from support.readings import keys_of

READ = ("native", "openfhe", "noisy")
WITHIN = 2.0**-8
"""Of the largest value or number: an error, by far more than noise, and less than a number that was lost."""
COUNT = 8
_DOORS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "encrypt": lambda ev, a, number, vector: ev.encrypt(vector),
    "sum": lambda ev, a, number, vector: ev.add(a, number),
    "difference": lambda ev, a, number, vector: ev.sub(number, a),
    "product": lambda ev, a, number, vector: ev.rescale(ev.mult(a, number)),
    "lower": lambda ev, a, number, vector: ev.add(ev.mod_drop(a, 1), number),
    "to a product": lambda ev, a, number, vector: ev.add(ev.square(a), number),
    "plain sum": lambda ev, a, number, vector: ev.sub(a, ev.encode(vector)),
    "plain product": lambda ev, a, number, vector: ev.rescale(ev.mult(a, ev.encode(lambda: vector))),
    "plain to a product": lambda ev, a, number, vector: ev.add(ev.square(a), ev.encode(vector)),
    "weighted": lambda ev, a, number, vector: ev.rescale(ev.weighted_sum([a, a], [ev.encode(vector)] * 2)),
    "series": lambda ev, a, number, vector: ev.chebyshev_series(a, [0.5, number, 0.25], -1, 1),
}


def draw_number(rng: np.random.Generator) -> Any:
    """A number of any size, of any type that programs have."""
    sign = float(rng.choice([-1, 1]))
    kind = int(rng.integers(8))
    if kind == 0:
        return float(rng.choice([np.nan, np.inf, -np.inf, np.finfo(float).max, 5e-324, 0.0, -0.0]))
    if kind == 1:
        return int(sign) << int(rng.integers(0, 1020))
    if kind == 2:
        return np.longdouble(sign) * np.longdouble(10.0) ** int(rng.integers(-400, 400))
    if kind == 3:
        return np.float16(sign * 10.0 ** rng.uniform(-8, 4.8))
    return sign * 10.0 ** float(rng.uniform(-330, 308) if kind == 4 else rng.uniform(-20, 120))


def case(seed: int) -> Result:
    """The numbers of a seed through one door."""
    began, rng = time.monotonic(), np.random.default_rng(seed)
    params, door = draw_params(rng), list(_DOORS)[int(rng.integers(len(_DOORS)))]
    number, x = draw_number(rng), rng.uniform(-1, 1, COUNT)
    vector = [*rng.uniform(-1, 1, int(rng.integers(0, COUNT))), *([number] * int(rng.integers(1, 3)))][:COUNT]

    def program(ev: Any) -> Any:
        return _DOORS[door](ev, ev.encrypt(x), number, vector)

    expected = _result(lambda: ClearEvaluator(params), program)
    faults, refused = [], 0
    for reading in READ:
        with READINGS[reading].evaluator(params, keys_of(params, program)) as ev:
            found = _result(lambda ev=ev: ev, program)
        refused += isinstance(found, PenstockError)
        said = _fault(found, expected, number)
        faults += [f"{reading}, {params.name} ({params.scaling.value}), {number!r}: {said}"] if said else []
    ended = f"refused by {refused} of {len(READ)}" if refused else "right"
    return Result("values", door, seed, ended, tuple(faults), time.monotonic() - began)


def _result(evaluator: Callable[[], Any], program: Callable[[Any], Any]) -> Any:
    """What a program decrypts to, or the error that it ends with."""
    ev = evaluator()
    try:
        with np.errstate(all="ignore"):
            return np.asarray(ev.decrypt(program(ev)))[:COUNT]
    except Exception as error:
        return error


def _fault(found: Any, expected: Any, number: Any) -> str:
    if isinstance(found, PenstockError):
        return ""
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found}"
    if isinstance(expected, Exception):
        return f"computed, and the clear reading refuses: {expected}"
    bound = WITHIN * max(1.0, float(np.max(np.abs(expected))), abs(float(number)))
    error = float(np.max(np.abs(found - expected)))
    return "" if error <= bound else f"off by {error:.3g}, more than {bound:.3g}"


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """The numbers of `count` seeds. Nothing is written."""
    return reported(over(case, range(seed, seed + count), jobs), count)
