"""Bootstrapping by itself: one ciphertext at its last level, or several together, refreshed.

Accelerators publish its time, and calibrate by it; it is the largest part of every deep program. Values may repeat with
a period of fewer slots, which makes the refresh cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.base.arrays import Floats
from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.bootstrap import input_levels
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads import Check

NAME = "bootstrapping"
DESCRIPTION = "one ciphertext at its last level, or several, bootstrapped"
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
    ciphertexts: int = 1
    """Refreshed together."""


SIZES = {
    "ci": Size(params="insecure-resnet20", period=32),
    "ci-all-slots": Size(params="insecure-resnet20"),
    "ci-4": Size(params="insecure-resnet20", period=32, ciphertexts=4),
    "full": Size(params="openfhe-bootstrap"),
    "full-2^14": Size(params="openfhe-bootstrap-50"),
    "full-8": Size(params="openfhe-bootstrap-50", ciphertexts=8),
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
    """(ciphertexts, period)"""
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random values of [-1/4, 1/4].

    Raises: UsageError: a path; a user's values would prove nothing more.
    """
    if path is not None:
        raise UsageError(f"{NAME} takes no data: it refreshes random values (--seed chooses them)")
    generator = np.random.default_rng(seed)
    shape = size.ciphertexts, size.period or slots
    return Data(generator.uniform(-LARGEST, LARGEST, shape), "random values")


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return Data(np.zeros((size.ciphertexts, size.period or slots)))


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The values after the refresh, (ciphertexts, period). Raises: ParamsError: the period has more than the slots."""
    slots = ev.params.slots
    period = size.period or slots
    if period > slots:
        raise ParamsError(
            f"{NAME}: values repeat every {period} slots, and set '{ev.params.name}' has {slots}; take a set with more "
            "slots, or a size that refreshes all of them"
        )
    names = ["values"] if size.ciphertexts == 1 else [f"values[{i}]" for i in range(size.ciphertexts)]
    with ev.scope("input"):
        given = [
            ev.encrypt(np.tile(period_values, slots // period), name=name)
            for period_values, name in zip(data.values, names, strict=True)
        ]
        given = [ev.mod_drop(a, input_levels(ev.params) + 1) for a in given]
    refreshed = ev.bootstrap_many(given, size.period)
    with ev.scope("output"):
        return np.stack([np.real(ev.decrypt(a))[:period] for a in refreshed])


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The values that went in, within 1e-3."""
    error = float(np.max(np.abs(got - data.values)))
    outcome = {f"differs from what went in by at most {TOLERANCE:g}": error <= TOLERANCE}
    return Check.of(outcome, error, TOLERANCE)
