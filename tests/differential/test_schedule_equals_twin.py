"""List scheduling by the engine = the twin, on random graphs and on every kind of operation; bounds hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _engine
from penstock.scheme.machines import load_machine
from penstock.scheme.operations import SMALL_KINDS, TRAITS, OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.play.kernels import LimbKernel, ShapeKernels, kernels_of, resources_of
from penstock.scheme.play.schedule import engine_kernels, engine_units, shape_graph
from penstock.scheme.work.shapes import Shape
from support.toy import toy
from twins import schedule as oracle

UNITS = 3


@st.composite
def shapes(draw: st.DrawFn) -> ShapeKernels:
    """A graph of some kernels over limbs 0 to 4."""
    found = ShapeKernels(held_bytes=float(draw(st.integers(0, 20))))
    for k in range(draw(st.integers(0, 6))):
        before = st.lists(st.integers(0, k - 1), max_size=2, unique=True) if k else st.just([])
        kernel = LimbKernel(
            "kernel",
            draw(st.integers(-1, UNITS - 1)),
            tuple(draw(st.lists(st.integers(0, 4), max_size=4, unique=True))),
            draw(st.integers(0, 9)) / 4,
            draw(st.sampled_from([0.0, 0.0, 0.25, 1.0])),
            draw(st.sampled_from([0.0, 0.0, 0.5, 1.5])),
            limbwise=draw(before),
            whole=draw(before),
            flags=draw(st.integers(0, 3)),
        )
        found.add(kernel)
    return found


@st.composite
def programs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    made = draw(st.lists(shapes(), min_size=1, max_size=3))
    of_row, starts, sources = [], [0], list[int]()
    for i in range(draw(st.integers(0, 7))):
        of_row.append(draw(st.integers(-1, len(made) - 1)))
        sources += draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i else []
        starts.append(len(sources))
    program = {"shape": _ints(of_row), "source_start": _ints(starts), "source": _ints(sources)}
    units = {
        "ports": _ints(draw(st.lists(st.integers(1, 3), min_size=UNITS, max_size=UNITS))),
        "latency_s": np.asarray(draw(st.lists(st.integers(0, 3), min_size=UNITS, max_size=UNITS)), dtype=np.float64),
        "chaining": draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        "capacity_bytes": draw(st.sampled_from([0.0, 15.0, 40.0, float("inf")])),
        "window": draw(st.integers(1, 5)),
    }
    return engine_kernels(made), program, units


def _ints(values: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(values, dtype=np.int64)


def compared(kernels: dict[str, Any], program: dict[str, Any], units: dict[str, Any]) -> _engine.ScheduledKernels:
    """The engine's schedule, which is the twin's and keeps the bounds."""
    n = len(program["shape"])
    got = _engine.schedule_kernels(**kernels, **program, **units, listed=n)
    expected = oracle.schedule(kernels, program, units)
    assert got.total_s == expected.total / 1e18
    assert got.start_s.tolist() == [each / 1e18 for each in expected.start]
    assert got.end_s.tolist() == [each / 1e18 for each in expected.end]
    assert got.busy_s.tolist() == [each / 1e18 for each in expected.busy]
    assert [got.memory_s, got.registers_s] == [each / 1e18 for each in expected.memories]
    assert got.critical_s == expected.critical / 1e18
    placed = zip(
        got.placed_operation.tolist(),
        got.placed_kernel.tolist(),
        got.placed_limb.tolist(),
        got.placed_start_s.tolist(),
        got.placed_end_s.tolist(),
        strict=True,
    )
    assert list(placed) == [(*each[:3], each[3] / 1e18, each[4] / 1e18) for each in expected.placed]
    slack = 1 + 1e-12
    assert max([got.critical_s, got.memory_s, got.registers_s, *(got.busy_s / units["ports"])]) <= got.total_s * slack
    return got


@given(made=programs())
def test_random_programs_are_scheduled_as_by_the_twin(made: tuple[dict[str, Any], ...]) -> None:
    compared(*made)


@given(made=programs())
def test_nothing_gained_is_lost_by_more_room(made: tuple[dict[str, Any], ...]) -> None:
    """One operation at a time takes the sum of what each takes alone."""
    kernels, program, units = made
    alone = _engine.schedule_kernels(**kernels, **program, **(units | {"window": 1}))
    total = 0.0
    for shape in program["shape"]:
        one = {"shape": _ints([int(shape)]), "source_start": _ints([0, 0]), "source": _ints([])}
        total += _engine.schedule_kernels(**kernels, **one, **(units | {"window": 1})).total_s
    assert alone.total_s == pytest.approx(total, abs=1e-12)


SMALL = toy(ring_dim=1024, q_bits=(36,) * 2, p_bits=(36,), dnum=2, word_bits=36)  # two digits of one limb


@pytest.mark.parametrize(
    "kind", [kind for kind in OpKind if not (TRAITS[kind].composite or TRAITS[kind].client or kind in SMALL_KINDS)]
)
def test_every_kind_of_operation_is_scheduled_as_by_the_twin(kind: OpKind) -> None:
    sharp = load_machine("sharp")
    out = {OpKind.RESCALE: 1}.get(kind, 2)
    limbs = 1 if kind is OpKind.MOD_RAISE else 2
    implied = int(kind in (OpKind.MULT, OpKind.ADD))
    shape = Shape(kind.value, limbs, out, implied, implied, 2)
    bare = replace(sharp, plaintext_transforms=None, datapath=load_machine("trinity").datapath)
    for machine, loads in ((sharp, False), (bare, True), (load_machine("ark"), False)):
        resources = resources_of(machine, SMALL, loads=loads)
        made = kernels_of(shape, shape_graph(shape, SMALL), SMALL, machine, resources)
        # Twice: the second reads the result of the first.
        program = {"shape": _ints([0, 0]), "source_start": _ints([0, 0, 1]), "source": _ints([0])}
        got = compared(engine_kernels([made]), program, engine_units(resources))
        assert got.total_s > 0 or kind is OpKind.MOD_DROP


def test_a_rotation_of_a_set_of_full_size_is_scheduled_as_by_the_twin() -> None:
    machine, params = load_machine("sharp"), catalogue.get("sharp")
    shape = Shape("rotate", 2, 2, 0, 0, 2)
    resources = resources_of(machine, params)
    made = kernels_of(shape, shape_graph(shape, params), params, machine, resources)
    program = {"shape": _ints([0]), "source_start": _ints([0, 0]), "source": _ints([])}
    compared(engine_kernels([made]), program, engine_units(resources))
