"""The similarity search of HomomorphicEncryption.org's benchmark suite: the payloads of all records near a query.

Records, query and payloads are encrypted. Inner products are taken in a small ring, where a ciphertext holds one
coordinate of many records; the similarities are packed into the large ring, compared with the threshold there, and the
payloads of matches are gathered in few ciphertexts (`penstock.program.database.similarity`; docs/guides/similarity.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.errors import ParamsError, PenstockError, UsageError
from penstock.program.database.similarity.comparison import Selection
from penstock.program.database.similarity.result import counted, encoded_payloads, found_in, tables_of
from penstock.program.database.similarity.scheme import (
    PARAMS,
    PAYLOAD,
    PAYLOAD_LIMBS,
    PERIODS,
    RECORD_BITS,
    THRESHOLD,
    Layout,
    SmallRing,
)
from penstock.program.database.similarity.scheme import (
    SIZES as TASKS,
)
from penstock.program.database.similarity.search import WORKLOAD, search
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Values
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.scheme.params.ckks import CkksParameters

NAME = WORKLOAD
DESCRIPTION = "payloads of the encrypted records within a cosine similarity of 0.8 of an encrypted query"
SOURCE = "HomomorphicEncryption.org, FHE benchmark suite: fetch-by-similarity"
MOST_RUN = 10**6
"""Records of a run with values: one more size is for sizes and times only."""
NEAR = 8
"""Records that are made as matches of the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A database of records, and whether matches are fetched or only counted."""

    params: str = PARAMS
    records: int
    dim: int
    count_only: bool = False

    def layout(self, params: CkksParameters) -> Layout:
        """Raises: ParamsError: a set without a small ring."""
        if not params.small_ring_dim:
            raise ParamsError(
                f"parameter set '{params.name}' has no small ring, in which the records lie: take '{PARAMS}', or state "
                "small_ring_dim in a set of your own"
            )
        return Layout(self.records, self.dim, params.ring_dim, params.small_ring_dim)


SIZES = (
    {"ci": Size(params="insecure-similarity", records=600, dim=16)}
    | {name: Size(records=task.records, dim=task.dim) for name, task in TASKS.items()}
    | {f"{name}-count": Size(records=task.records, dim=task.dim, count_only=True) for name, task in TASKS.items()}
)
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "medium"


@dataclass(frozen=True, slots=True)
class Data:
    """Unit vectors (records, dim), payloads (records, PAYLOAD) of whole numbers, a query (dim,)."""

    records: npt.NDArray[np.float64]
    payloads: npt.NDArray[np.int16]
    query: npt.NDArray[np.float64]
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random unit vectors, of which some are near the query; none is within 0.02 of the threshold."""
    refuse_path(path, NAME, "its records are drawn from --seed")
    if size.records > MOST_RUN:
        raise UsageError(
            f"{size.records} records of {size.dim} coordinates have {8e-9 * size.records * size.dim:.0f} GB in the "
            "clear: this size is simulated and predicted only"
        )
    rng = np.random.default_rng(seed)
    query = _unit(rng.standard_normal(size.dim))
    records = _unit(rng.standard_normal((size.records, size.dim)))
    near = rng.choice(size.records, min(NEAR, size.records), replace=False)
    records[near] = _unit(query + 0.4 * _unit(rng.standard_normal((len(near), size.dim))))
    payloads = rng.integers(0, 4095, (size.records, PAYLOAD)).astype(np.int16)
    return Data(records, payloads, query, f"{size.records} generated unit vectors of {size.dim} coordinates")


def _unit(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    zeros = np.zeros(())
    return Data(
        np.broadcast_to(zeros, (size.records, size.dim)),
        np.broadcast_to(np.zeros((), dtype=np.int16), (size.records, PAYLOAD)),
        np.broadcast_to(zeros, (size.dim,)),
    )


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The tables of the result, (tables, buckets, `PAYLOAD` + 1), or the matches in each slot, (slots,)."""
    if not getattr(ev, "has_small_ring", False):
        raise PenstockError(
            f"{NAME} begins in a smaller ring, which this reading does not compute in: `penstock simulate`, `predict "
            "run` and `predict precision --reading native` take it; docs/guides/similarity.md says how to search for "
            "real"
        )
    return _program(ev, data, size)


def _program(ev: Ciphertext, data: Data, size: Size) -> Values:
    layout = size.layout(ev.params)
    selection = Selection(ev.params.ring_dim // 2, layout.scores)
    packed = _packed(ev, data, layout, _modulus(ev))

    def payload(variant: int, score: int, column: int) -> Ciphertext:
        def values() -> Values:
            return _payload_slots(data, layout, selection, variant, score, column)

        return ev.stored_ciphertext(values, PAYLOAD_LIMBS, name=f"payload[{variant}, {score}, {column}]")

    results = search(ev, layout, lambda number: next(packed), payload, count_only=size.count_only)
    with ev.scope("output"):
        values = [ev.decrypt_complex(ciphertext) for ciphertext in results]
    if size.count_only:
        return np.asarray(values[0].real[: layout.period])
    tables = tables_of(selection, values)
    # Few records have a bucket each in the first table.
    return np.stack(tables[:1] if layout.scores == 1 and layout.period <= selection.buckets else tables)


def _modulus(ev: Ciphertext) -> float:
    """q_0; 1 in the clear reading, whose similarities are in its units."""
    clear = not hasattr(ev, "builder")
    return 1.0 if clear else float(SmallRing.under(ev.params, ev.params.small_ring_dim).modulus)


def _packed(ev: Ciphertext, data: Data, layout: Layout, modulus: float) -> Iterator[Ciphertext]:
    """The similarities as coefficients of large ciphertexts, over q_0 times `PERIODS`."""
    exact = modulus == 1.0
    factor = modulus / PERIODS / 2.0**RECORD_BITS / layout.dim

    def query() -> Values:
        return data.query * factor if exact else np.rint(data.query * factor)

    def block(number: int) -> Values:
        n = layout.small_dim
        values = data.records[number * n : (number + 1) * n].T * 2.0**RECORD_BITS
        return values if exact else np.rint(values)

    with ev.scope("expand"):
        vector = ev.expand_small(ev.small_ciphertext(query, name="query"), layout.dim)
    for group in range(layout.packed):
        numbers = range(group * layout.ratio, min((group + 1) * layout.ratio, layout.blocks))
        with ev.scope("inner_products"):
            parts = [
                ev.inner_products(vector, layout.dim, lambda n=number: block(n), name=f"records[{number}]")
                for number in numbers
            ]
        with ev.scope("pack"):
            packed = ev.switch_small(ev.pack_small(parts))
        yield packed


def _payload_slots(data: Data, layout: Layout, selection: Selection, variant: int, score: int, column: int) -> Values:
    of_score, slot = layout.places
    own = np.flatnonzero(of_score[: layout.records] == score)
    values = np.zeros(selection.slots, dtype=np.complex128)
    values[slot[own]] = encoded_payloads(data.payloads[own])[column]
    return np.roll(values, -selection.distance(score, baby=True)) if variant else values


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """The payloads of the matches, or their number, against a search in the clear."""
    matches = data.payloads[data.records @ data.query > THRESHOLD]
    wanted = matches[np.lexsort(matches.T[::-1])]
    error = float(np.max(np.abs(clear - got)))
    if size.count_only:
        count = counted(got)
        outcome = {"the number of matches is that of the clear search": count == len(wanted)}
        return Check.of(outcome, error, 0.5, {"matches": float(count)})
    matched = found_in(list(got))
    outcome = {
        "the payloads of all matches, and no others": np.array_equal(matched.payloads, wanted),
        "their number": matched.count == len(wanted),
    }
    return Check.of(outcome, error, 0.5, {"matches": float(matched.count)})
