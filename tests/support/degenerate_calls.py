"""Calls of the protocol with degenerate arguments: empty, constant, of no width, of another kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.program.evaluator.circuits.linear import bsgs_diagonals, diagonals_of, linear_transform
from penstock.program.evaluator.circuits.sums import fold

VALUES = np.linspace(-1, 1, 64)
NAN, INF = float("nan"), float("inf")
Call = Callable[[Any, Any], Any]

SERIES: dict[str, Any] = {
    "constant": [0.7],
    "zero": [0.0],
    "zeros": [0.0] * 7,
    "constant, then zeros": [0.7, 0, 0, 0, 0, 0, 0, 0],
    "two, the highest zero": [0.7, 0.0],
    "short, the highest zeros": [0.7, 0.3, 0, 0],
    "long, the highest zeros": [0.1, 0, 0, 0.2, 0, 0.3, 0, 0, 0],
    "only the highest": [0, 0, 0, 0, 0, 0.5],
    "degree 1": [0.2, -0.3],
    "no constant": [0, 1],
    "degree 2": [1, 2, 3],
    "booleans": [True, False, True],
    "an array": np.array([0.5, 0.25, 0.125], dtype=np.float32),
    "a tuple": (1, 2),
    "a generator": lambda: (each for each in (0.5, 0.5)),
    "tiny highest": [1.0, 0.5, 1e-15],
    "tiny highest of a long one": [1.0, 0, 0, 0, 0, 0, 1e-15],
    "tiny constant": [1e-300],
    "empty": [],
    "two dimensions": [[1.0, 2.0], [3.0, 4.0]],
    "ragged": [[1.0], [2.0, 3.0]],
    "no dimension": np.array(1.0),
    "a number": 0.5,
    "nothing": None,
    "text": "12",
    "a list of text": ["1", "2"],
    "complex": [1.0, 2.0j],
    "not a number": [1.0, NAN],
    "infinite": [INF, 1.0],
    "too deep": [0.001] * 3000,
    "too long": np.zeros(2**16 + 1),
}
INTERVALS: dict[str, Any] = {
    "reversed": (1, -1), "wide": (-100, 100), "of integers": (-2, 3), "of booleans": (False, True),
    "nearly -1 to 1": (-1.00000000000001, 1), "empty": (0.5, 0.5), "too narrow": (0.0, 5e-324),
    "not a number": (NAN, 1), "infinite": (-INF, INF), "text": ("0", "1"), "nothing": (None, 1), "complex": (1j, 2),
}  # fmt: skip
STEPS: dict[str, Any] = {
    "0": 0, "the slots": 64, "less the slots": -64, "nearly the slots": 63, "nearly less the slots": -63,
    "more than the slots": 1000003, "of numpy": np.int64(-5), "true": True, "half": 32, "less half": -32,
    "a float": 1.0, "text": "1", "nothing": None, "an array": np.array([1, 2]),
}  # fmt: skip
MANY_STEPS: dict[str, Any] = {
    "none": [], "only 0": [0, 64], "one": [3], "twice the same": [5, 5], "a range": range(-2, 3),
    "an array": np.array([1, 2]), "a number": 3, "floats": [1.0, 2.0], "nothing": None, "two dimensions": [[1, 2]],
}  # fmt: skip
OPERANDS: dict[str, Any] = {
    "0": 0, "1": 1, "true": True, "a float of numpy": np.float32(0.5), "an integer of numpy": np.int8(-3),
    "an array of no dimension": np.array(0.25), "a complex number without imaginary part": 2 + 0j, "text": "0.5",
    "nothing": None, "a list": [1.0, 2.0], "an empty list": [], "a short array": np.ones(3), "a function": abs,
    "an integer beyond doubles": 10**400,
}  # fmt: skip
VECTORS: dict[str, Any] = {
    "empty": [], "one value": [0.5], "integers": range(64), "booleans": [True, False], "too long": np.zeros(65),
    "two dimensions": np.zeros((2, 2)), "no dimension": 0.5, "text": ["a"], "nothing": None, "ragged": [[1], [1, 2]],
    "objects": [None, 1.0],
}  # fmt: skip


FUNCTIONS: dict[str, Any] = {
    "nothing": None, "text": "cos", "ragged": lambda x: [[1.0], [1.0, 2.0]], "for one number": math.cos,
    "wrong": lambda x: {}["x"], "of no argument": lambda: 1.0, "nothing at all": lambda x: None,
}  # fmt: skip
MATRICES: dict[str, Any] = {
    "wide": np.ones((2, 64)), "wider": np.ones((64, 128)), "high": np.ones((128, 64)), "a column": np.ones((64, 1)),
    "a row": np.ones((1, 64)), "one dimension": np.ones(64), "three dimensions": np.ones((4, 4, 4)), "a list": [1.0],
    "ragged": [[1.0], [1.0, 2.0]], "empty": np.zeros((0, 0)), "text": [["a"]], "nothing": None, "a number": 1.0,
    "of order 2": np.eye(2), "of order 128": np.eye(128), "square, as a list": np.eye(64).tolist(),
}  # fmt: skip
NAMES = (3, 1.5, b"x", ["x"], "a name")


def _made(given: Any) -> Any:
    """An argument; one that can be used once is made for each use."""
    return given() if callable(given) and given is not abs else given


CALLS: dict[str, Call] = {
    **{f"polynomial: {n}": lambda ev, a, s=s: ev.polynomial(a, _made(s)) for n, s in SERIES.items()},
    **{f"series: {n}": lambda ev, a, s=s: ev.chebyshev_series(a, _made(s), -1, 1) for n, s in SERIES.items()},
    **{f"series, mapped: {n}": lambda ev, a, s=s: ev.chebyshev_series(a, _made(s), -2, 1.5)
       for n, s in SERIES.items()},
    **{f"interval: {n}": lambda ev, a, i=i: ev.chebyshev_series(a, [0.5, 0.25, 0.1], *i) for n, i in INTERVALS.items()},
    **{f"function over {n}": lambda ev, a, i=i: ev.chebyshev_function(a, np.cos, *i, 3) for n, i in INTERVALS.items()},
    **{f"function of degree {d!r}": lambda ev, a, d=d: ev.chebyshev_function(a, np.sin, -1, 1, d)
       for d in (0, 1, True, np.int32(2), -1, 2.0, "3", None, 2**16, 10**12)},
    "function that is a number": lambda ev, a: ev.chebyshev_function(a, lambda x: 0.5, -1, 1, 3),
    "function that is undefined": lambda ev, a: ev.chebyshev_function(a, np.log, -1, 1, 3),
    "function of two dimensions": lambda ev, a: ev.chebyshev_function(a, lambda x: np.ones((2, len(x))), -1, 1, 3),
    "function that is complex": lambda ev, a: ev.chebyshev_function(a, lambda x: 1j * x, -1, 1, 3),
    **{f"function that is {n}": lambda ev, a, f=f: ev.chebyshev_function(a, f, -1, 1, 3)
       for n, f in FUNCTIONS.items()},
    **{f"rotate: {n}": lambda ev, a, s=s: ev.rotate(a, s) for n, s in STEPS.items()},
    **{f"rotate_many: {n}": lambda ev, a, s=s: ev.rotate_many(a, s) for n, s in MANY_STEPS.items()},
    **{f"{call}: {n}": lambda ev, a, o=o, call=call: getattr(ev, call)(a, o)
       for call in ("add", "sub", "mult") for n, o in OPERANDS.items()},
    **{f"{call} after {n}": lambda ev, a, o=o, call=call: getattr(ev, call)(o, a)
       for call in ("add", "sub", "mult") for n, o in OPERANDS.items()},
    **{f"{call} of two numbers": lambda ev, a, call=call: getattr(ev, call)(1.0, 2) for call in ("add", "sub", "mult")},
    **{f"{call} after a plaintext": lambda ev, a, call=call: getattr(ev, call)(ev.encode(VALUES), a)
       for call in ("add", "sub", "mult")},
    **{f"{call} of two plaintexts": lambda ev, a, call=call: getattr(ev, call)(ev.encode(VALUES), ev.encode(VALUES))
       for call in ("add", "sub", "mult")},
    **{f"encrypt: {n}": lambda ev, a, v=v: ev.encrypt(v) for n, v in VECTORS.items()},
    **{f"encode: {n}": lambda ev, a, v=v: ev.add(a, ev.encode(v)) for n, v in VECTORS.items()},
    **{f"{call} of a number": lambda ev, a, call=call: getattr(ev, call)(0.5)
       for call in ("negate", "square", "relinearize", "conjugate", "rescale", "decompose", "decrypt", "bootstrap")},
    "rotate of a number": lambda ev, a: ev.rotate(0.5, 0),
    "rotate_many of a number": lambda ev, a: ev.rotate_many(0.5, []),
    "mod_drop of a number": lambda ev, a: ev.mod_drop(0.5, 1),
    "polynomial of a plaintext": lambda ev, a: ev.polynomial(ev.encode(VALUES), [1.0]),
    "series of nothing": lambda ev, a: ev.chebyshev_series(None, [1.0, 2.0], -1, 1),
    "mult_no_relin with a number": lambda ev, a: ev.mult_no_relin(a, 2.0),
    **{f"mod_drop to {n!r}": lambda ev, a, n=n: ev.mod_drop(a, n)
       for n in (1, np.int64(2), True, 0, -1, 1.0, "2", None)},
    "weighted_sum of none": lambda ev, a: ev.weighted_sum([], []),
    "weighted_sum of one": lambda ev, a: ev.weighted_sum([a], [ev.encode(VALUES)]),
    "weighted_sum of zeros": lambda ev, a: ev.weighted_sum([a, a], [lambda: np.zeros(64), ev.encode([])]),
    "weighted_sum of generators": lambda ev, a: ev.weighted_sum((a for _ in "ab"), (ev.encode(VALUES) for _ in "ab")),
    "weighted_sum of many": lambda ev, a: ev.weighted_sum([a] * 40, [ev.encode(VALUES)] * 40),
    "weighted_sum of too few weights": lambda ev, a: ev.weighted_sum([a, a], [ev.encode(VALUES)]),
    "weighted_sum of too few terms": lambda ev, a: ev.weighted_sum([a], [ev.encode(VALUES)] * 17),
    "weighted_sum with a number": lambda ev, a: ev.weighted_sum([a], [0.5]),
    "weighted_sum of a number": lambda ev, a: ev.weighted_sum([0.5, a], [ev.encode(VALUES)] * 2),
    "fold of one": lambda ev, a: fold(ev, a, 1),
    "fold of all": lambda ev, a: fold(ev, a, 64),
    "fold of more than all": lambda ev, a: fold(ev, a, 128),
    "fold of none": lambda ev, a: fold(ev, a, 0),
    "fold of a float": lambda ev, a: fold(ev, a, 2.0),
    "a matrix of zeros": lambda ev, a: _transformed(ev, a, np.zeros((64, 64))),
    "a matrix of one diagonal": lambda ev, a: _transformed(ev, a, np.eye(64)),
    "a matrix of its last diagonal": lambda ev, a: _transformed(ev, a, np.roll(np.eye(64), -1, axis=1)),
    "a full matrix": lambda ev, a: _transformed(ev, a, np.outer(VALUES, VALUES[::-1]) / 64),
    **{f"a matrix, {n}": lambda ev, a, m=m: _transformed(ev, a, m) for n, m in MATRICES.items()},
    **{f"fold by {n!r}": lambda ev, a, n=n: fold(ev, a, 4, n) for n in (None, 1.0, "1", 0, -1, np.int8(3))},
    "weighted_sum of nothing": lambda ev, a: ev.weighted_sum(None, None),
    "weighted_sum with nothing": lambda ev, a: ev.weighted_sum([a], None),
    **{f"scaled by {n}": lambda ev, a, f=f: ev.scaled(a, f)
       for n, f in (("nothing", None), ("text", "2"), ("not a number", NAN), ("infinite", INF), ("complex", 1j))},
    "scaled of a number": lambda ev, a: ev.scaled(0.5, 2.0),
    "mult_by_i of a number": lambda ev, a: ev.mult_by_i(0.5),
    **{f"encrypt by the name {n!r}": lambda ev, a, n=n: ev.encrypt(VALUES, name=n) for n in NAMES},
    **{f"encode by the name {n!r}": lambda ev, a, n=n: ev.add(a, ev.encode(VALUES, name=n)) for n in NAMES},
    **{f"encode a function by the name {n!r}": lambda ev, a, n=n: ev.encode(lambda: VALUES, name=n)
       for n in (3, b"x")},
    "bootstrap_many with a number": lambda ev, a: ev.bootstrap_many([a, 0.5]),
    "bootstrap_many with a number first": lambda ev, a: ev.bootstrap_many([0.5, a]),
    "bootstrap_many of none": lambda ev, a: ev.bootstrap_many([]),
    "bootstrap_many of a number": lambda ev, a: ev.bootstrap_many(3),
}  # fmt: skip


def _transformed(ev: Any, a: Any, matrix: np.ndarray) -> Any:
    return linear_transform(ev, a, bsgs_diagonals(ev, diagonals_of(matrix), name="matrix"))
