"""CryptOracle's network for CIFAR-10 images: Chebyshev polynomials of the input, masks, and sums.

The trained weights are its authors'; ours are drawn from the seed, so that the scores mean nothing and the calls are
the same. They agree with Table 3, but for its 3 EvalSub and 4 EvalSubScalar: its code has 4 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads.own import OneSize as Size
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock_studies.workloads import algorithms

NAME = "cryptoracle-cifar10"
DESCRIPTION = "CryptOracle's network for CIFAR-10 images, with drawn weights"
SOURCE = "CryptOracle (Brynds et al., ISPASS 2026), Tables 2, 3 and 5; Polycircuit CIFAR10ImageClassification (FHERMA)"
CLASSES, PIXELS, SLOTS = 10, 3072, 4096
MASKS = 35
TOLERANCE = 0.02
"""Encrypted against clear: its scale has 25 bits."""


SIZES = {"ci": Size(params="insecure-cryptoracle-cifar10"), "full": Size(params="cryptoracle-cifar10")}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """The image, (3072,) in [0, 1], and the masks, (35, 4096)."""

    image: Values
    masks: Values


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """A drawn image and drawn masks. Raises: ParamsError: fewer than 4096 slots."""
    refuse_path(path, NAME, "its image and weights are drawn from --seed")
    _fits(slots)
    generator = np.random.default_rng(seed)
    masks = generator.uniform(-1, 1, (MASKS, SLOTS)) / 64
    masks[0], masks[1] = -0.5, 1.5  # pixels to [-0.75, 0.75]
    return Data(generator.uniform(0, 1, PIXELS), masks)


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    _fits(slots)
    return Data(np.zeros(PIXELS), np.zeros((MASKS, SLOTS)))


def _fits(slots: int) -> None:
    if slots < SLOTS:
        raise ParamsError(f"{NAME} needs {SLOTS} slots, and the set has {slots}; take one with more")


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The scores, (10,)."""
    with ev.scope("input"):
        x = ev.encrypt(data.image, name="image")
    scores = algorithms.cifar10(ev, x, list(data.masks))
    with ev.scope("output"):
        return np.real(ev.decrypt(scores))[:CLASSES]


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Scores near those of the clear reading."""
    return Check.near("scores", clear, got, TOLERANCE)
