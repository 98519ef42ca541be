"""Similarity scores: an encrypted query against encrypted vectors, top-k at the client
(`penstock.program.database.ssc`).

Both query and database are encrypted under the client's key, as in FHEIns' second workload. Vectors are unit vectors
around a few centres, so that a query has true neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.program.database.ssc import Floats, SscPlan, top_k
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.program.workloads.parts.tables import scored, stored_objects
from penstock.scheme.params.ckks import CkksParameters

NAME = "ssc"
DESCRIPTION = "similarity scores of an encrypted query against an encrypted database, top-k at the client"
SOURCE = "FHEIns, section III-A and figure 1(b)"
TOLERANCE = 1e-6
"""Of a score; scores lie between -1 and 1."""
SPREAD = 0.6
"""Standard deviation of a vector around its centre, times the square root of the number of features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A database of vectors, and how they are packed and summed."""

    params: str
    vectors: int
    features: int
    batch: int = 0
    """Vectors in one ciphertext; 0 is as many as fit."""
    summation: str = "bsgs"
    top: int = 10

    def plan(self, params: CkksParameters) -> SscPlan:
        """Raises: ParamsError: the parameters do not carry the query."""
        return SscPlan(
            params=params, vectors=self.vectors, features=self.features, batch=self.batch, summation=self.summation
        )


SIZES = {
    "ci": Size(params="insecure-database", vectors=2**12, features=64),
    "fold": Size(params="insecure-database", vectors=2**12, features=64, summation="fold"),
    # One vector a ciphertext: the reference for a batch of several.
    "single": Size(params="insecure-database", vectors=2**7, features=64, batch=1),
    "full": Size(params="openfhe-ssc", vectors=2**14, features=128, summation="fold"),
    "published": Size(params="fheins-ssc", vectors=2**14, features=256),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


@dataclass(frozen=True, slots=True)
class Data:
    """Unit vectors (vectors, features) and a query (features,)."""

    vectors: Floats
    query: Floats
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Unit vectors around 16 random centres, and a query near one of them."""
    refuse_path(path, NAME, "its vectors are drawn from --seed")
    vectors, query = clustered(size.vectors, size.features, seed)
    return Data(vectors, query, f"{size.vectors} generated unit vectors of {size.features} features")


def clustered(vectors: int, features: int, seed: int) -> tuple[Floats, Floats]:
    """Unit vectors (vectors, features) around 16 centres, and a query (features,) around the first."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((16, features)) / np.sqrt(features)
    around = generator.standard_normal((vectors + 1, features)) * SPREAD / np.sqrt(features)
    made = around + centres[np.append(generator.integers(0, 16, vectors), 0)]
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made[:-1], made[-1]


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    return Data(np.broadcast_to(np.zeros(()), (size.vectors, size.features)), np.zeros(size.features))


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The scores, (vectors,)."""
    plan = size.plan(ev.params)
    return scored(ev, plan, stored_objects(ev, plan, data.vectors), data.query)


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """Scores within 1e-6 of the clear ones, which equal numpy's, and the same best vectors in the same order.

    Vectors whose clear scores differ by less than two tolerances may change places.
    """
    reference = float(np.max(np.abs(data.vectors @ data.query - clear)))
    wanted, best = top_k(clear, size.top), top_k(got, size.top)
    others = {
        "the clear reading equals numpy's products to 1e-9": reference <= 1e-9,
        f"the best {len(wanted)} vectors are the same": bool(
            np.all(np.abs(clear[wanted] - clear[best]) <= 2 * TOLERANCE)
        ),
    }
    numbers = {
        "best": float(best[0]),
        "best_score": float(got[best[0]]),
        "top_found": float(len(set(wanted) & set(best))),
    }
    return Check.near("scores", clear, got, TOLERANCE, others, numbers)
