"""Inner products of encrypted vectors: one query image against many stored images, both encrypted.

A row of 64 slots holds one 8 x 8 image; the query is repeated in every row; one multiplication and a rotate-and-add
over each row give every score at once. The simplest program that needs more than one rotation key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.program.workloads.parts.images import SIDE, digits_odd_even

NAME = "inner-product"
DESCRIPTION = "scores of an encrypted query against encrypted feature vectors"
SOURCE = "rotate-and-add, Halevi & Shoup, CRYPTO 2014 (ePrint 2014/106)"
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many vectors of which length."""

    params: str
    length: int
    """Features of one vector, padded to this power of two."""
    vectors: int


SIZES = {
    "demo": Size(params="openfhe-demo", length=256, vectors=512),
    "ci": Size(params="insecure-ci", length=256, vectors=16),
    "full": Size(params="openfhe-bench", length=256, vectors=1024),
}
DEFAULT_SIZE = "demo"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """Stored vectors packed in rows, and the query repeated."""

    stored: Sequence[Values]
    query: Values
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Handwritten digits as unit vectors; the query is one of them."""
    refuse_path(path, NAME, "it uses the bundled digits")
    rows = _rows(size, slots)
    source = digits_odd_even()
    flat = source.images.reshape(len(source.images), SIDE * SIDE)
    flat = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    chosen = np.random.default_rng(seed).permutation(len(flat))[: size.vectors]
    padded = np.zeros((size.vectors, size.length))
    padded[:, : flat.shape[1]] = flat[chosen]
    query = np.tile(padded[0], rows)
    stored = [padded[i : i + rows].reshape(-1) for i in range(0, size.vectors, rows)]
    return Data(stored, query, source.description)


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    rows = _rows(size, slots)
    return Data([np.zeros(rows * size.length)] * -(-size.vectors // rows), np.zeros(rows * size.length))


def _rows(size: Size, slots: int) -> int:
    if slots < size.length:
        raise ParamsError(f"{NAME}: a vector takes {size.length} slots and the set has {slots}")
    return min(size.vectors, slots // size.length)


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The scores, (vectors,)."""
    with ev.scope("input"):
        stored = [ev.encrypt(c, name=f"stored[{i}]") for i, c in enumerate(data.stored)]
        query = ev.encrypt(data.query, name="query")
    scores = []
    for block in stored:
        with ev.scope("score"):
            product = ev.rescale(ev.mult(block, query))
            scores.append(fold(ev, product, size.length))
    rows = _rows(size, ev.params.slots)
    with ev.scope("output"):
        shown = [np.real(ev.decrypt(s))[: rows * size.length : size.length] for s in scores]
    return np.concatenate(shown)[: size.vectors]


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Scores within 1e-4, and the same best match."""
    others = {"the best match is the same": int(np.argmax(clear)) == int(np.argmax(got))}
    numbers = {"best_match": float(np.argmax(got)), "best_score": float(np.max(got))}
    return Check.near("scores", clear, got, TOLERANCE, others, numbers)
