"""Hyperdimensional classification: cosine scores of encrypted hypervectors against encrypted class prototypes.

An image becomes a hypervector of signs: the signs of a random projection of its pixels. A class is the sum of the
hypervectors of its training images, as a unit vector; so is the query. The cosine of query and class is their inner
product, one for each class; the client takes the largest. The classes are a small database of vectors, and their scores
are similarity scores (`penstock.program.database.ssc`).
Source: after Khaleghi et al., Private and Efficient Learning with Hyperdimensional Computing, 2024, as FHEIns cites it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.program.database.ssc import Floats, SscPlan
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.program.workloads.parts.networks import digits_in_colour
from penstock.program.workloads.parts.tables import scored
from penstock.scheme.params.ckks import CkksParameters

NAME = "hdc-classify"
DESCRIPTION = "hyperdimensional classification of handwritten digits by cosine scores"
SOURCE = "after Khaleghi et al., 2024; FHEIns, section III-A"
TOLERANCE = 1e-6
CLASSES = 10
SIDE = 8
PROJECTION_SEED = 7
"""The projection is public and the same for every query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Length of a hypervector, and how many images are classified."""

    params: str
    dimensions: int
    images: int
    summation: str = "fold"

    def plan(self, params: CkksParameters) -> SscPlan:
        """Raises: ParamsError: the parameters do not carry the query."""
        return SscPlan(params=params, vectors=CLASSES, features=self.dimensions, summation=self.summation)


SIZES = {
    "ci": Size(params="insecure-database", dimensions=2**10, images=4),
    "full": Size(params="openfhe-ssc", dimensions=2**12, images=64),
    "published": Size(params="fheins-ssc", dimensions=2**12, images=64, summation="bsgs"),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


@dataclass(frozen=True, slots=True)
class Data:
    """Class prototypes (classes, dimensions) and queries (images, dimensions), unit vectors; labels (images,)."""

    prototypes: Floats
    queries: Floats
    labels: npt.NDArray[np.int64]
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Hypervectors of the bundled digits: prototypes of the training images, queries drawn from the test images.

    Raises: CapabilityMissing: scikit-learn is not installed.
    """
    refuse_path(path, NAME, "it uses the bundled digits")
    training, test = digits_in_colour(SIDE)
    projection = np.random.default_rng(PROJECTION_SEED).standard_normal((SIDE * SIDE, size.dimensions))

    def hypervectors(images: Floats) -> Floats:
        grey = images[:, 0].reshape(len(images), -1)
        return np.where((grey - grey.mean(axis=1, keepdims=True)) @ projection >= 0, 1.0, -1.0)

    encoded = hypervectors(training.images)
    prototypes = np.stack([encoded[training.labels == c].sum(axis=0) for c in range(CLASSES)])
    prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
    chosen = np.random.default_rng(seed).permutation(len(test.labels))[: size.images]
    queries = hypervectors(test.images[chosen]) / np.sqrt(size.dimensions)
    return Data(prototypes, queries, test.labels[chosen], test.description)


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    return Data(
        np.zeros((CLASSES, size.dimensions)),
        np.zeros((size.images, size.dimensions)),
        np.zeros(size.images, dtype=np.int64),
    )


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """Cosine of each image with each class, (images, classes)."""
    plan = size.plan(ev.params)
    with ev.scope("load"):
        stored = [ev.encrypt(plan.packed(data.prototypes, n), name=f"database[{n}]") for n in range(plan.num_objects)]
    return np.stack([scored(ev, plan, stored, query) for query in data.queries])


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """Cosines within 1e-6, equal to numpy's in the clear, and the same class for every image."""
    reference = float(np.max(np.abs(data.queries @ data.prototypes.T - clear)))
    classes = np.argmax(got, axis=1)
    others = {
        "the clear reading equals numpy's products to 1e-9": reference <= 1e-9,
        "every image has the same class": bool(np.array_equal(classes, np.argmax(clear, axis=1))),
    }
    numbers = {"accuracy": float(np.mean(classes == data.labels)), "images": float(len(classes))}
    return Check.near("cosines", clear, got, TOLERANCE, others, numbers)
