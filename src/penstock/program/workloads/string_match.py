"""Exact string matching by additions alone (`penstock.program.database.matching`): records that hold a pattern, and
where.

Database and pattern are encrypted under the client's key; the server adds, and needs no evaluation key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.program.database.matching import MatchPlan, MatchScan, matches_in
from penstock.program.database.packing import Bytes, Floats, RecordPacking
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.program.workloads.parts.tables import stored_objects
from penstock.scheme.params.ckks import CkksParameters

NAME = "string-match"
DESCRIPTION = "exact string matching on encrypted text, by additions only"
SOURCE = "after CIPHERMATCH (Kabra et al., ASPLOS 2025)"
MARGIN = 0.25
"""How far a word may come back from a whole number; half a word's step would be a match."""
LETTERS = b"ACGT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Records of text, and the length of the pattern."""

    params: str
    records: int
    record_bytes: int
    pattern_bytes: int
    bits_per_slot: int = 16
    planted: int = 3
    """Records that hold the pattern for certain."""

    def plan(self, params: CkksParameters) -> MatchPlan:
        """Raises: ParamsError: the parameters do not carry the query."""
        packing = RecordPacking(record_bytes=self.record_bytes, bits_per_slot=self.bits_per_slot)
        return MatchPlan(params=params, records=self.records, packing=packing, pattern_bytes=self.pattern_bytes)


SIZES = {
    "ci": Size(params="insecure-database", records=2**11, record_bytes=32, pattern_bytes=16),
    "full": Size(params="openfhe-pir", records=2**14, record_bytes=32, pattern_bytes=16),
    "published": Size(params="fheins-pir", records=2**14, record_bytes=32, pattern_bytes=16),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


@dataclass(frozen=True, slots=True)
class Data:
    """Records of text (records, record_bytes) and the pattern."""

    records: Bytes
    pattern: bytes
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random letters of DNA; a few records contain the pattern, at words."""
    refuse_path(path, NAME, "its records are drawn from --seed")
    generator = np.random.default_rng(seed)
    letters = np.frombuffer(LETTERS, dtype=np.uint8)
    records = letters[generator.integers(0, 4, (size.records, size.record_bytes))]
    pattern = letters[generator.integers(0, 4, size.pattern_bytes)]
    word = size.bits_per_slot // 8
    for record in generator.choice(size.records, size.planted, replace=False):
        start = word * int(generator.integers(0, (size.record_bytes - size.pattern_bytes) // word + 1))
        records[record, start : start + size.pattern_bytes] = pattern
    return Data(records, pattern.tobytes(), f"{size.records} records of {size.record_bytes} letters A, C, G, T")


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    records = np.broadcast_to(np.zeros((), np.uint8), (size.records, size.record_bytes))
    return Data(records, bytes(size.pattern_bytes))


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The distance of each record from the pattern at each start, (records, starts), in steps of a word; zero is a
    match."""
    plan = size.plan(ev.params)
    stored = stored_objects(ev, plan, data.records)
    scan = MatchScan(ev, plan, data.pattern)
    with ev.scope("scan"):
        sums = [scan.absorb(ciphertext) for ciphertext in stored]
    with ev.scope("output"):
        shown = [
            np.stack([plan.distances(ev.decrypt(ciphertext), start) for start, ciphertext in enumerate(of)], axis=1)
            for of in sums
        ]
    return np.concatenate(shown)[: size.records]


def matches(records: Bytes, pattern: bytes, word: int) -> set[tuple[int, int]]:
    """(record, start in words) of every occurrence of `pattern` at a word, by search in the clear."""
    places = range(0, records.shape[1] - len(pattern) + 1, word)
    return {
        (i, at // word)
        for i, row in enumerate(records)
        for text in [row.tobytes()]
        for at in places
        if text.startswith(pattern, at)
    }


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The same matches as a search in the clear finds, with words within a quarter of whole numbers."""
    error = float(np.max(np.abs(clear - got)))
    wanted = matches(data.records, data.pattern, size.bits_per_slot // 8)
    seen = {(int(record), int(start)) for record, start in matches_in(got)}
    outcome = {
        "the matches are those of a search in the clear": seen == wanted,
        f"words are within {MARGIN:g} of whole numbers": error <= MARGIN,
    }
    numbers = {"matches": float(len(seen)), "expected": float(len(wanted)), "bits_per_slot": float(size.bits_per_slot)}
    return Check.of(outcome, error, MARGIN, numbers)
