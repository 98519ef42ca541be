"""CryptOracle's low-memory ResNet-20, with drawn masks for its weights: the calls of its code, at any width.

The trained weights are its authors'. With drawn ones the scores mean nothing and the calls are the same. The workload
`resnet20` classifies real images.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock_studies.workloads.low_memory_resnet import CHANNELS, LowMemoryResnet

NAME = "cryptoracle-resnet20"
DESCRIPTION = "CryptOracle's low-memory ResNet-20, with drawn weights"
SOURCE = "CryptOracle (Brynds et al., ISPASS 2026), Tables 2, 3 and 5; LowMemoryFHEResNet20 (Rovida, Leporati)"
CLASSES = 10
PLAINTEXTS_AT_LEVEL = True
"""Its code encodes each mask at the limbs of the ciphertext."""
TOLERANCE = 1e-3
"""Encrypted against clear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The width of the square image, a power of two from 8."""

    params: str
    width: int


SIZES = {
    "ci": Size(params="insecure-cryptoracle-resnet20", width=8),
    "full": Size(params="cryptoracle-resnet20", width=32),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """The image, (3 width^2,) in [0, 1], and the seed of the masks."""

    image: Values
    seed: int


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """A drawn image."""
    refuse_path(path, NAME, "its image and weights are drawn from --seed; 'resnet20' reads images")
    return Data(np.random.default_rng(seed).uniform(0, 1, 3 * size.width**2), seed)


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return Data(np.zeros(3 * size.width**2), 0)


def _mask(seed: int, number: int, period: int, bound: float) -> Values:
    return np.random.default_rng((seed, number)).uniform(-bound, bound, period)


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The scores. Raises: ParamsError: fewer than 32 width^2 slots."""
    whole, slots = CHANNELS * size.width**2, ev.params.slots
    if 2 * whole > slots:
        raise ParamsError(
            f"{NAME}: width {size.width} takes {2 * whole} slots, and the set has {slots}; take more slots"
        )
    image = np.zeros(whole)
    image[: len(data.image)] = data.image
    with ev.scope("input"):
        x = ev.encrypt(np.resize(image, slots), name="image")
    scores = LowMemoryResnet(ev, size.width, partial(_mask, data.seed)).run(x)
    with ev.scope("output"):
        return np.real(ev.decrypt(scores))[: min(CLASSES, (size.width // 4) ** 2)]


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Scores near those of the clear reading."""
    return Check.near("scores", clear, got, TOLERANCE)
