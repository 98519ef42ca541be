"""Marks of decrypted numbers: what keeps them, which looks are noted, and the other inputs of a second run."""

from __future__ import annotations

import builtins
import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from penstock.program.openfhe.recorder.decrypted import is_decrypted, marked, replace_functions
from penstock.program.openfhe.recorder.observed import OBSERVED
from penstock.program.openfhe.recorder.others import other_values

VALUES = [0.31, 0.72, 0.13, 0.94]
Computed = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def replaced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        replace_functions(lambda owner, name, function: patch.setattr(owner, name, function))
        OBSERVED.clear()
        yield
    OBSERVED.clear()


KEPT: list[Computed] = [
    lambda v, a: np.round(np.array(v), 2).tolist(),
    lambda v, a: np.array([2 * each for each in v]),
    lambda v, a: np.ones(4) @ a,
    lambda v, a: a.mean().round(3) + 1,
    lambda v, a: a.astype(np.float32)[2] * 2,
    lambda v, a: np.float64(2) * v[0],
    lambda v, a: [0.0, *v[1:3]],
    lambda v, a: np.where(np.ones(4) > 0, a, 0.0),
    lambda v, a: np.concatenate([a, np.zeros(4)]).reshape(2, 4)[0],
    lambda v, a: np.linalg.norm(v),
    lambda v, a: np.fft.fft(a).real,
    lambda v, a: math.sqrt(v[0]),
    lambda v, a: round(sum(v) / len(v), 3),
    lambda v, a: max(abs(each - 0.5) for each in v),
    lambda v, a: sorted(v)[0],
    lambda v, a: np.median(a),
    lambda v, a: np.full(3, a[0]),
    lambda v, a: np.array(a.astype(np.float32)),
    lambda v, a: copy.deepcopy(v)[0],
    lambda v, a: (v[0] + 1j).imag,
    lambda v, a: np.sum(a, axis=0, out=a[:1].reshape(())),
]

LOOKS: list[Computed] = [
    lambda v, a: v[0] > 0.5,
    lambda v, a: [each for each in v if each],
    lambda v, a: int(v[0] * 10),
    lambda v, a: round(v[0]),
    lambda v, a: float(v[0]),
    lambda v, a: math.floor(v[0]),
    lambda v, a: np.argsort(v),
    lambda v, a: np.argmax(a),
    lambda v, a: (a > 0.5).nonzero(),
    lambda v, a: np.rint(a).astype(int),
    lambda v, a: sorted(range(4), key=lambda i: v[i]),
    lambda v, a: sorted(zip(v, range(4), strict=True)),
    lambda v, a: min(range(4), key=v.__getitem__),
    lambda v, a: v.index(v[1]),
    lambda v, a: np.sum([v[0], v[1]]),
    lambda v, a: np.lexsort([a]),
    lambda v, a: np.zeros(4).__setitem__(0, v[0]),
    lambda v, a: np.zeros(4).__setitem__(slice(0, 2), v[:2]),
    lambda v, a: np.add(np.ones(4), a, out=np.zeros(4)),
    lambda v, a: np.copyto(np.zeros(4), a),
    lambda v, a: a.tobytes(),
    lambda v, a: a.view(np.ndarray),
    lambda v, a: np.allclose(a, 0),
    lambda v, a: v[0].as_integer_ratio(),
]

NEITHER: list[Computed] = [
    lambda v, a: f"{v} {v[0]:.2f} {a} {a[0]:.2f} {a!r}",
    lambda v, a: np.array2string(a, precision=2),
    lambda v, a: (len(v), len(a), a.shape, a.dtype, np.shape(v), np.size(a)),
    lambda v, a: np.zeros_like(a),
    lambda v, a: isinstance(v[0], float) and isinstance(v, list) and isinstance(a, np.ndarray),
]


def decrypted() -> tuple[Any, Any]:
    return marked(list(VALUES)), marked(np.array(VALUES))


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_a_mark_is_kept(number: int) -> None:
    plain: Any = list(VALUES), np.array(VALUES)
    found, expected = KEPT[number](*decrypted()), KEPT[number](*plain)
    assert is_decrypted(found)
    assert not is_decrypted(expected)
    assert np.array_equal(found, expected)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("number", range(len(LOOKS)))
def test_a_look_is_noted_with_its_line(number: int) -> None:
    plain: Any = list(VALUES), np.array(VALUES)
    found, expected = LOOKS[number](*decrypted()), LOOKS[number](*plain)
    line = LOOKS[number].__code__.co_firstlineno
    assert str(OBSERVED.first).startswith(f"line {line} of test_decrypted_marks.py ")
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("number", range(len(NEITHER)))
def test_a_text_or_a_shape_is_neither(number: int) -> None:
    found = NEITHER[number](*decrypted())
    assert (is_decrypted(found), OBSERVED.first) == (False, None)
    assert repr(found) == repr(NEITHER[number](list(VALUES), np.array(VALUES)))


def test_marked_scalars_of_numpy_fill_arrays() -> None:
    """numpy takes the first base of a scalar's class for its type, and crashes where that is none of its own."""
    _, a = decrypted()
    assert np.fromiter((each for each in a), float).tolist() == VALUES
    assert np.fromiter(list(a.astype(np.float32)), np.float32).tolist() == np.float32(VALUES).tolist()  # type: ignore[attr-defined]


def test_functions_are_the_same_for_other_numbers() -> None:
    assert (builtins.max(1, 2), max([1, 3], key=lambda x: -x), min(iter([2, 1])), sorted("ba")) == (2, 1, 1, ["a", "b"])
    assert max([], default=7) == 7
    assert type(np.array([1.0])) is np.ndarray
    assert math.gcd(4, 6) == 2


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.1, 0.2, 0.3, 0.4]),
        np.array([-3.0, 5.0, 2.0, 9.0]),
        np.array([0.0, 1.0, 0.0, 1.0, 1.0]),
        np.array([1.0, 1.0]),
        np.array([0.25]),
        np.repeat([2.5, 7.5], 20),
        np.array([0.5 + 1j, 2j, 0.1]),
    ],
)
def test_other_values_are_of_the_same_kind(values: Any) -> None:
    for seed in range(20):
        other = other_values(values, seed)
        assert (other.shape, other.dtype) == (values.shape, values.dtype)
        assert not np.array_equal(other, values)
        low = np.minimum(values.real.min(), 0 if len(set(values)) == 1 else np.inf)
        assert low <= other.real.min() <= other.real.max() <= values.real.max()
        if np.array_equal(values, np.round(values)):
            assert np.array_equal(other, np.round(other))
    assert np.array_equal(other_values(values, 3), other_values(values, 3))


@pytest.mark.parametrize("few", [[0.0, 1.0], [-1.0, 1.0], [-1.0, 0.0, 1.0], [2.5, 7.5]])
def test_a_vector_of_a_few_values_keeps_to_them_and_has_each(few: list[float]) -> None:
    for seed in range(10):
        assert np.unique(other_values(np.repeat(few, 20), seed)).tolist() == few


def test_zeros_stay_zeros() -> None:
    assert not other_values(np.zeros(5), 0).any()
    assert len(other_values(np.zeros(0), 0)) == 0
