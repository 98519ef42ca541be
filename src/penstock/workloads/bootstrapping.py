"""Bootstrapping by itself: one ciphertext at its last level, refreshed.

Accelerators publish its time, and calibrate by it; it is the largest part of every deep program. Values may repeat with
a period of fewer slots, which makes the refresh cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.errors import UsageError
from penstock.program.circuits.bootstrap import input_levels
from penstock.program.evaluator import Evaluator
from penstock.workloads import Check

Floats = npt.NDArray[np.float64]

NAME = "bootstrapping"
DESCRIPTION = "one ciphertext at its last level, bootstrapped"
SOURCE = "Cheon et al., EUROCRYPT 2018 (ePrint 2018/153)"

TOLERANCE = 1e-3
"""Of values up to 1/4: the sine bends away from the line by more the larger they are."""
LARGEST = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """On which parameters, and with which period the values repeat."""

    params: str
    period: int | None = None
    """Slots; all of them if omitted."""


SIZES = {
    "ci": Size(params="insecure-resnet20", period=32),
    "ci-all-slots": Size(params="insecure-resnet20"),
    "full": Size(params="openfhe-bootstrap"),
    "accelerator": Size(params="sharp"),
    # The period of a logistic regression's model, and the periods of ResNet-20's stages.
    "accelerator-2^9": Size(params="sharp", period=2**9),
    "accelerator-2^12": Size(params="sharp", period=2**12),
    "accelerator-2^14": Size(params="sharp", period=2**14),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "accelerator"


@dataclass(frozen=True, slots=True)
class Data:
    """What is refreshed."""

    values: Floats
    """(period,)"""
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random values of [-1/4, 1/4].

    Raises: UsageError: a path; a user's values would prove nothing more.
    """
    if path is not None:
        raise UsageError(f"{NAME} takes no data: it refreshes random values (--seed chooses them)")
    generator = np.random.default_rng(seed)
    return Data(generator.uniform(-LARGEST, LARGEST, size.period or slots), "random values")


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return Data(np.zeros(size.period or slots))


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The expected values after the refresh, (period,)."""
    slots = ev.params.slots
    period = size.period or slots
    with ev.scope("input"):
        a = ev.encrypt(np.tile(data.values, slots // period), name="values")
        a = ev.mod_drop(a, input_levels(ev.params) + 1)
    a = ev.bootstrap(a, size.period)
    with ev.scope("output"):
        result: Floats = np.real(ev.decrypt(a))[:period]
        return result


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The values that went in, within 1e-3."""
    error = float(np.max(np.abs(got - data.values)))
    outcome = {f"differs from what went in by at most {TOLERANCE:g}": error <= TOLERANCE}
    return Check.of(outcome, error, TOLERANCE)
