"""Key-switching operations of CryptOracle's public data at ring dimensions that the machine was not fitted to.

Reached: 6.5 % at a held-out interior ring dimension, over all depths and 1 to 32 threads, and 8.2 % at the edges (5.0 %
and 4.8 % on one thread). The repeats of one configuration differ by 6 % (2^14) to 30 % (2^17), so that their median is
itself off by 2 to 12 %; a regression with free parameters for each operation, depth and number of threads reaches 6.1 %
and 8.5 %.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from penstock.lab.fit.fit import fit_machine
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.importers import load
from penstock.lab.prediction.models import PenstockModel
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import OpKind

FOLDER = Path(os.environ.get("PENSTOCK_CRYPTORACLE_DATA", Path(__file__).parents[2] / ".." / "shared/data/cryptoracle"))
FILE = FOLDER / "all-primitives-timing-results.csv"
pytestmark = pytest.mark.skipif(
    not FILE.is_file(),
    reason=f"CryptOracle's data is not in {FOLDER} (PENSTOCK_CRYPTORACLE_DATA names another folder)",
)
KEY_SWITCHING = {OpKind.MULT, OpKind.SQUARE, OpKind.ROTATE, OpKind.DECOMPOSE, OpKind.ROTATE_HOISTED}


@pytest.fixture(scope="module")
def primitives() -> list[Measurement]:
    return [m for m in load(FILE) if m.shape is not None]


def errors(machine: Machine, held_out: list[Measurement]) -> tuple[np.ndarray, list[bool]]:
    """Relative errors of the key-switching operations, and whether their 90 % intervals hold them."""
    model = PenstockModel(machine)
    estimates = [(m.seconds, model.predict(m)) for m in held_out if m.shape.kind in KEY_SWITCHING]
    found = [estimate.seconds / seconds - 1 for seconds, estimate in estimates]
    inside = [bool(estimate.holds(seconds)) for seconds, estimate in estimates]
    return np.asarray(found), inside


def held_out(primitives: list[Measurement], of) -> dict[int, tuple[np.ndarray, list[bool]]]:
    """Value that was left out -> errors there of the machine that was fitted to the rest."""
    found = {}
    for value in sorted({of(m) for m in primitives}):
        machine = fit_machine(m for m in primitives if of(m) != value)
        found[value] = errors(machine, [m for m in primitives if of(m) == value])
    return found


def mean(parts) -> float:
    return float(np.abs(np.concatenate([error for error, _ in parts])).mean())


def covered(parts) -> float:
    return float(np.mean([each for _, inside in parts for each in inside]))


def test_an_unseen_ring_dimension_is_met(primitives):
    found = held_out(primitives, lambda m: m.params.ring_dim)
    parts = list(found.values())
    assert mean(parts[1:-1]) <= 0.07
    assert mean([parts[0], parts[-1]]) <= 0.09
    assert 0.85 <= covered(parts) <= 0.95
    assert abs(np.concatenate([error for error, _ in parts]).mean()) <= 0.03


def test_on_one_thread_an_unseen_ring_dimension_is_met_closely(primitives):
    found = held_out([m for m in primitives if m.threads == 1], lambda m: m.params.ring_dim)
    parts = list(found.values())
    assert mean(parts[1:-1]) <= 0.055
    assert mean([parts[0], parts[-1]]) <= 0.055


def test_unseen_depths_and_numbers_of_threads_are_met(primitives):
    depths = held_out(primitives, lambda m: m.params.depth)
    threads = held_out(primitives, lambda m: m.threads)
    assert mean(depths.values()) <= 0.08
    assert mean(threads.values()) <= 0.085
    assert 0.85 <= covered([*depths.values(), *threads.values()]) <= 0.95


def test_fitted_costs_are_those_of_a_cpu(primitives):
    machine = fit_machine([m for m in primitives if m.threads == 1])
    rates = {unit: rate.figure.value * 1e-9 for unit, rate in machine.units.items()}
    # A butterfly is a modular multiplication and two additions, 5 to 20 cycles at 5.5 GHz.
    assert 0.25 <= rates["transforms"] <= 1.1
    assert 0.25 <= rates["multiplications"] <= 1.1
    assert rates["additions"] > rates["multiplications"]
    assert machine.cache is None or 8 * 2**20 <= machine.cache.size.value <= 64 * 2**20
