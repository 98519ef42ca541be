"""Exact string matching by additions only: no multiplication, no rotation, no key.

Records of text are cut into words, a word a slot. The query is the negated pattern, repeated for each record of a
ciphertext, once for each word at which the pattern may start in a record. The server adds it to every ciphertext of
the database. A record holds the pattern where a run of as many words as the pattern has becomes zero; the client, who
has the key, looks for such runs. Words of several bytes pack more text into a ciphertext, and find a pattern only
where it starts at a word.
Source: after Kabra et al., CIPHERMATCH, ASPLOS 2025, which packs words into BFV coefficients and adds likewise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ParamsError, UsageError
from penstock.program.database.packing import Bytes, Floats, RecordPacking, check_precision
from penstock.program.evaluator.protocol import Ciphertext, Evaluator
from penstock.scheme.params.ckks import CkksParameters

LIMBS = 2
"""Of the database: additions need no levels, and OpenFHE's least depth is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPlan:
    """A database of records of text in ciphertexts. Objects are numbered in the order of the disk."""

    params: CkksParameters
    records: int
    packing: RecordPacking
    pattern_bytes: int

    def __post_init__(self) -> None:
        slots = self.params.slots
        if self.records < 1:
            raise UsageError("a database of no records matches nothing: ask for at least 1")
        if self.packing.columns > slots:
            raise ParamsError(
                f"a record of {self.packing.record_bytes} bytes takes {self.packing.columns} slots, and set "
                f"'{self.params.name}' has {slots}: take narrower records, more bits a slot, or a larger ring"
            )
        if self.pattern_bytes < 1 or self.pattern_bytes % self.packing.chunk_bytes:
            raise UsageError(
                f"a pattern of {self.pattern_bytes} bytes: words of {self.packing.chunk_bytes} bytes are compared "
                "whole; take a multiple of that"
            )
        if self.pattern_bytes > self.packing.record_bytes:
            raise UsageError(
                f"a pattern of {self.pattern_bytes} bytes is longer than a record of {self.packing.record_bytes}"
            )
        check_precision(self.params, self.packing.bits_per_slot, 2, "string matching")

    @property
    def words(self) -> int:
        """Words of the pattern."""
        return self.pattern_bytes // self.packing.chunk_bytes

    @property
    def starts(self) -> int:
        """Words of a record at which the pattern may start: so many additions a ciphertext."""
        return self.packing.record_bytes // self.packing.chunk_bytes - self.words + 1

    @property
    def per_object(self) -> int:
        """Records in one ciphertext."""
        return self.params.slots // self.packing.columns

    @property
    def num_objects(self) -> int:
        """Ciphertexts of the database."""
        return -(-self.records // self.per_object)

    @property
    def object_limbs(self) -> int:
        """Limbs of a stored ciphertext."""
        return min(LIMBS, self.params.num_q)

    def packed(self, records: Bytes, number: int) -> Floats:
        """The slots of object `number`, (slots,), in [0, 1)."""
        rows = records[number * self.per_object : (number + 1) * self.per_object]
        slots = np.zeros(self.params.slots)
        filled = self.packing.chunks(rows).T.reshape(-1)
        slots[: len(filled)] = filled
        return slots

    def pattern_words(self, pattern: bytes) -> Floats:
        """The pattern's words, (words,).

        Raises: UsageError: its length is not the plan's.
        """
        if len(pattern) != self.pattern_bytes:
            raise UsageError(f"a pattern of {len(pattern)} bytes, and the plan is for {self.pattern_bytes}")
        whole = RecordPacking(record_bytes=self.pattern_bytes, bits_per_slot=self.packing.bits_per_slot)
        return whole.chunks(np.frombuffer(pattern, dtype=np.uint8)[None, :])[:, 0]

    def query(self, pattern: bytes, start: int) -> Floats:
        """The negated pattern at word `start` of every record of a ciphertext, (slots,)."""
        rows = np.zeros((self.per_object, self.packing.columns))
        rows[:, start : start + self.words] = -self.pattern_words(pattern)
        slots = np.zeros(self.params.slots)
        slots[: rows.size] = rows.reshape(-1)
        return slots

    def distances(self, sums: Floats, start: int) -> Floats:
        """The distance of each record of a decrypted sum (slots,) from the pattern, (per_object,), in steps of a
        word."""
        rows = np.real(sums)[: self.per_object * self.packing.columns].reshape(self.per_object, -1)
        steps: Floats = np.max(np.abs(rows[:, start : start + self.words]), axis=1) * 2.0**self.packing.bits_per_slot
        return steps


class MatchScan:
    """One pattern over a database that is handed in once, ciphertext by ciphertext."""

    def __init__(self, ev: Evaluator, plan: MatchPlan, pattern: bytes) -> None:
        """Encrypts the pattern once for each word at which it may start."""
        self.ev, self.plan = ev, plan
        with ev.scope("query"):
            self._queries = [
                ev.mod_drop(ev.encrypt(plan.query(pattern, start), name=f"query[{start}]"), plan.object_limbs)
                for start in range(plan.starts)
            ]

    def absorb(self, operand: Ciphertext) -> list[Ciphertext]:
        """The next ciphertext of the database; its sums with the pattern at each start."""
        return [self.ev.add(operand, query) for query in self._queries]


def matches_in(distances: Floats) -> npt.NDArray[np.int64]:
    """(record, start) of every match in distances of shape (records, starts), in order."""
    return np.argwhere(distances < 0.5)
