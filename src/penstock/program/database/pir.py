"""Private information retrieval by selection vectors: one read of the database returns a record, nobody learns which.

The database is an array of blocks in one or several dimensions. The client sends one ciphertext for each place of the
first dimension: all zeros, with a 1 in the slot and the place of its record. For each place of every further dimension
it sends one ciphertext: all ones at the record's place, all zeros elsewhere. The server multiplies columns by the first
selection and sums along the first dimension (products with plaintexts). Each further stage multiplies the sums by its
selection and sums again (products of ciphertexts, relinearized once a sum). At the end the columns of the record are
turned next to each other, so that the answer to a query is one ciphertext.

One dimension is FastPIR's protocol; more dimensions are the multi-stage filtering of INSPIRE: B blocks take about
n B^(1/n) selection ciphertexts in n dimensions, and n multiplications in sequence.
Sources: Ahmad et al., Addra, OSDI 2021 (FastPIR); Lin et al., INSPIRE, ISCA 2022; FHEIns, section III-A (a batch is
several queries answered by one read of the database).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.errors import ParamsError, UsageError
from penstock.program.database.packing import Bytes, Floats, RecordPacking, check_precision
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Operand, Plain
from penstock.scheme.params.ckks import CkksParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class PirPlan:
    """A database of `records` records and how a query folds it. Objects are numbered in the order of the disk."""

    params: CkksParameters
    records: int
    packing: RecordPacking
    folds: tuple[int, ...] = ()
    """Places in each dimension after the first; () is one dimension."""

    def __post_init__(self) -> None:
        if self.records < 1:
            raise UsageError("a database of no records answers no query: ask for at least 1")
        if any(fold < 1 for fold in self.folds):
            raise UsageError(f"folds {self.folds}: a dimension has at least 1 place")
        columns, slots = self.packing.columns, self.params.slots
        if columns > slots:
            raise ParamsError(
                f"a record of {self.packing.record_bytes} bytes takes {columns} slots of {self.packing.bits_per_slot} "
                f"bits, and an answer of set '{self.params.name}' has {slots}: take narrower records, more bits a "
                "slot, or a larger ring"
            )
        if self.levels > self.params.depth:
            raise ParamsError(
                f"a query over {self.levels} dimensions multiplies {self.levels} times in sequence, and set "
                f"'{self.params.name}' carries {self.params.depth}: take fewer folds, or a deeper set"
            )
        check_precision(self.params, self.packing.bits_per_slot, self.additions, "private retrieval")

    @property
    def levels(self) -> int:
        """Multiplications in sequence: one a dimension."""
        return 1 + len(self.folds)

    @property
    def blocks(self) -> int:
        """Vectors of records, as many records each as there are slots."""
        return -(-self.records // self.params.slots)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Places in each dimension; the first is as long as the blocks make it."""
        return (-(-self.blocks // math.prod(self.folds)), *self.folds)

    @property
    def additions(self) -> int:
        """Fresh errors that meet in one slot of the answer: of each place and of each column."""
        return sum(self.dimensions) * self.packing.columns

    @property
    def num_objects(self) -> int:
        """Plaintexts of the database: one for each column of each block."""
        return self.blocks * self.packing.columns

    @property
    def object_limbs(self) -> int:
        """Limbs at which the database is encoded: as many as the query's products need."""
        return self.levels + 1

    def check_index(self, index: int) -> None:
        """Raises: UsageError: the database has no such record."""
        if not 0 <= index < self.records:
            raise UsageError(f"no record {index}: the database holds records 0 to {self.records - 1}")

    def places(self, block: int) -> tuple[int, ...]:
        """The place of a block in each dimension.

        The first dimension runs fastest, so that a sum along it is read in one go.
        """
        coordinates = []
        for length in self.dimensions:
            block, place = divmod(block, length)
            coordinates.append(place)
        return tuple(coordinates)

    def columns_of(self, records: Bytes, block: int) -> Iterator[Callable[[], Floats]]:
        """Return a maker of the column vectors of a block, (slots,) each; the block is cut into chunks once, at first
        use."""
        slots = self.params.slots
        made: list[Floats] = []

        def column(c: int) -> Floats:
            if not made:
                made.append(self.packing.chunks(records[block * slots : (block + 1) * slots]))
            return made[0][c]

        for c in range(self.packing.columns):
            yield partial(column, c)

    def decoded(self, answer: Floats, index: int) -> Floats:
        """The chunks of record `index`, (columns,), from the decrypted answer of shape (slots,)."""
        at = (index % self.params.slots + np.arange(self.packing.columns)) % self.params.slots
        return np.real(answer)[at]


class PirScan:
    """Some queries over a database that is handed in once, object by object in the order of the disk."""

    def __init__(self, ev: Evaluator, plan: PirPlan, indices: Sequence[int]) -> None:
        """Encrypts the queries.

        Raises: UsageError: no query, or an index that the database does not hold.
        """
        if not indices:
            raise UsageError("a scan answers at least one query: name an index")
        for index in indices:
            plan.check_index(index)
        self.ev, self.plan = ev, plan
        self._next = 0
        with ev.scope("query"):
            self._selections = [self._encrypted(b, index) for b, index in enumerate(indices)]
        # sums[query][stage][column]: the partial sum of each stage.
        self._sums: list[list[list[Ciphertext | None]]] = [
            [[None] * plan.packing.columns for _ in range(plan.levels)] for _ in indices
        ]

    def _encrypted(self, query: int, index: int) -> list[list[Ciphertext]]:
        ev, plan = self.ev, self.plan
        block, slot = divmod(index, plan.params.slots)
        at = plan.places(block)
        encrypted: list[list[Ciphertext]] = []
        for dimension, length in enumerate(plan.dimensions):
            one_hot = np.zeros(plan.params.slots)
            one_hot[slot] = 1.0
            chosen = one_hot if dimension == 0 else np.ones(plan.params.slots)
            limbs = plan.object_limbs - dimension
            # Zeros are encrypted like ones: nobody tells them apart.
            vectors = [chosen if place == at[dimension] else 0.0 * chosen for place in range(length)]
            encrypted.append(
                [
                    ev.mod_drop(ev.encrypt(vector, name=f"query[{query},{dimension},{place}]"), limbs)
                    for place, vector in enumerate(vectors)
                ]
            )
        return encrypted

    def absorb(self, operand: Operand) -> None:
        """The next object: the plaintext (or ciphertext) of the next column."""
        plan, ev = self.plan, self.ev
        block, column = divmod(self._next, plan.packing.columns)
        places = plan.places(block)
        for selections, sums in zip(self._selections, self._sums, strict=True):
            encrypted = not isinstance(operand, Plain)
            term = (ev.mult_no_relin if encrypted else ev.mult)(selections[0][places[0]], operand)
            sums[0][column] = _plus(ev, sums[0][column], term)
            self._fold(selections, sums, block, column, encrypted)
        self._next += 1

    def _fold(
        self,
        selections: list[list[Ciphertext]],
        sums: list[list[Ciphertext | None]],
        block: int,
        column: int,
        encrypted: bool,
    ) -> None:
        """Close every sum that this block is the last of, and hand it on to the next dimension."""
        plan, ev = self.plan, self.ev
        last = block + 1 == plan.blocks
        places = plan.places(block)
        for stage, length in enumerate(plan.dimensions):
            if not (last or places[stage] + 1 == length):
                return
            total = sums[stage][column]
            if stage > 0 or encrypted:
                total = ev.relinearize(total)
            total = ev.rescale(total)
            if stage + 1 == plan.levels:
                sums[stage][column] = total
                return
            sums[stage][column] = None
            term = ev.mult_no_relin(selections[stage + 1][places[stage + 1]], total)
            sums[stage + 1][column] = _plus(ev, sums[stage + 1][column], term)

    def finish(self) -> list[Ciphertext]:
        """The answers, one ciphertext a query: chunk c of the record c slots behind the record's own slot.

        Raises: UsageError: objects are missing.
        """
        ev, plan = self.ev, self.plan
        if self._next != plan.num_objects:
            raise UsageError(f"the scan saw {self._next} of {plan.num_objects} objects: a query reads all of them")
        answers = []
        for sums in self._sums:
            with ev.scope("pack"):
                # Turned step by step, last column first: one rotation key for any number of columns.
                columns = [ev.mod_drop(column, 1) for column in sums[-1]]
                packed = columns[-1]
                for column in reversed(columns[:-1]):
                    packed = ev.add(ev.rotate(packed, -1), column)
                answers.append(packed)
        return answers


def _plus(ev: Evaluator, total: Ciphertext | None, term: Ciphertext) -> Ciphertext:
    return term if total is None else ev.add(total, term)
