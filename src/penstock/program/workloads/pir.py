"""Private information retrieval from a packed database by encrypted selection vectors
(`penstock.program.database.pir`).

The server holds the records in the clear and learns nothing of the indices; the client gets one ciphertext a query and
reads its record from it, byte for byte. `folded` filters in two stages, as INSPIRE does; `batch` answers several
queries with one read of the database, as FHEIns batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.program.database.packing import Bytes, Floats, RecordPacking
from penstock.program.database.pir import PirPlan, PirScan
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.scheme.params.ckks import CkksParameters

NAME = "pir"
DESCRIPTION = "private retrieval of records by encrypted selection vectors"
SOURCE = "FastPIR (Ahmad et al., OSDI 2021); INSPIRE (Lin et al., ISCA 2022); FHEIns, section III-A"
MARGIN = 0.25
"""How far from a whole number a chunk may come back: half of what would round to its neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A database, and the queries that one read of it answers."""

    params: str
    records: int
    record_bytes: int
    bits_per_slot: int
    folds: tuple[int, ...] = ()
    """Places in the dimensions after the first."""
    queries: int = 1

    def plan(self, params: CkksParameters) -> PirPlan:
        """Raises: ParamsError: the parameters do not carry the query."""
        packing = RecordPacking(record_bytes=self.record_bytes, bits_per_slot=self.bits_per_slot)
        return PirPlan(params=params, records=self.records, packing=packing, folds=self.folds)


SIZES = {
    "ci": Size(params="insecure-database", records=2**16, record_bytes=96, bits_per_slot=24),
    "folded": Size(params="insecure-database", records=2**16, record_bytes=96, bits_per_slot=24, folds=(4,)),
    "batch": Size(params="insecure-database", records=2**14, record_bytes=96, bits_per_slot=24, folds=(2,), queries=4),
    "wide": Size(params="insecure-database", records=2**14, record_bytes=288, bits_per_slot=24, folds=(2,)),
    "full": Size(params="openfhe-pir", records=2**16, record_bytes=96, bits_per_slot=16, folds=(4,)),
    # The parameters of the paper: 36-bit words return no more than a byte a slot exactly.
    "vcall": Size(params="fheins-pir", records=2**16, record_bytes=96, bits_per_slot=8, folds=(4,)),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "vcall"


@dataclass(frozen=True, slots=True)
class Data:
    """Records (records, record_bytes) and the indices that are asked for."""

    records: Bytes
    indices: tuple[int, ...]
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random records, and distinct random indices."""
    refuse_path(path, NAME, "its records are drawn from --seed")
    generator = np.random.default_rng(seed)
    records = generator.integers(0, 256, (size.records, size.record_bytes), dtype=np.uint8)
    indices = generator.choice(size.records, size.queries, replace=False)
    return Data(records, tuple(indices.tolist()), f"{size.records} random records of {size.record_bytes} bytes")


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    records = np.broadcast_to(np.zeros((), np.uint8), (size.records, size.record_bytes))
    return Data(records, tuple(range(size.queries)))


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The chunks of the records that were asked for, in units of a chunk, (queries, columns)."""
    plan = size.plan(ev.params)
    scan = PirScan(ev, plan, data.indices)
    with ev.scope("scan"):
        for block in range(plan.blocks):
            for c, column in enumerate(plan.columns_of(data.records, block)):
                scan.absorb(ev.encode(column, name=f"database[{block},{c}]"))
    answers = scan.finish()
    with ev.scope("output"):
        shown = [plan.decoded(ev.decrypt(a), i) for a, i in zip(answers, data.indices, strict=True)]
    return np.stack(shown) * 2.0**size.bits_per_slot


def records_of(chunks: Floats, size: Size) -> Bytes:
    """The records (queries, record_bytes) in the result of `program`."""
    packing = RecordPacking(record_bytes=size.record_bytes, bits_per_slot=size.bits_per_slot)
    return packing.rounded(chunks.T / 2.0**size.bits_per_slot)[0]


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The records themselves, byte for byte, with every chunk within a quarter of a step of a whole number."""
    records: npt.NDArray[np.uint8] = records_of(got, size)
    right = int(np.sum(np.all(records == data.records[list(data.indices)], axis=1)))
    error = float(np.max(np.abs(got - clear)))
    outcome = {
        "every record comes back byte for byte": right == len(data.indices),
        f"chunks are within {MARGIN:g} of whole numbers": error <= MARGIN,
    }
    numbers = {
        "records_right": float(right),
        "queries": float(len(data.indices)),
        "bits_per_slot": float(size.bits_per_slot),
    }
    return Check.of(outcome, error, MARGIN, numbers)
