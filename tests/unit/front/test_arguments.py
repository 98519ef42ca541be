"""A wrong argument of a function is refused with the nearest right one."""

from __future__ import annotations

import inspect

import pytest

import penstock as ps
from penstock.errors import PenstockError, UsageError


@pytest.mark.parametrize(
    ("name", "wrong", "nearest"),
    [
        ("simulate", "policies", "policy"),
        ("predict", "machines", "machine"),
        ("run", "param", "params"),
        ("trace", "sizes", "size"),
        ("suggest", "machine_", "machine"),
    ],
)
def test_an_argument_that_a_function_does_not_take_is_refused(name: str, wrong: str, nearest: str) -> None:
    says = f"unknown argument of penstock.{name} '{wrong}': did you mean '{nearest}'"
    with pytest.raises(UsageError, match=says) as refused:
        getattr(ps, name)("inner-product", **{wrong: 1})
    assert isinstance(refused.value, TypeError)  # as Python's own
    assert isinstance(refused.value, PenstockError)


def test_functions_keep_their_signatures() -> None:
    assert "tiers" in inspect.signature(ps.simulate).parameters
    assert ps.simulate.__doc__ is not None
