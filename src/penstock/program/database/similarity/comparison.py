"""The part of the search in the large ring: which records are near, and their payloads in few ciphertexts.

Similarities come as coefficients; a refresh brings them into slots as sin(2 pi (s - t) / 4), which has the sign of s -
t for every similarity s from -1 to 1. A composition of minimax polynomials then makes a number from 0 to 1 of it: 0
below t - 0.02, 1 above t + 0.02, and 1/2 at t, so that its owner can decide what lies between. It multiplies the
payloads.

The sums over all records go into tables of buckets: each adds 8 slots that lie one stride apart, and strides differ, so
that no two records of one score ciphertext share buckets of two tables. Two records at the same slot of two score
ciphertexts would share all; so the second half of the tables is of score ciphertexts that are rotated, each by its own
distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.program.database.similarity.scheme import COLUMNS, PERIODS, THRESHOLD, Layout
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.minimax import CompositeSign, composite_sign
from penstock.program.evaluator.circuits.openfhe.bootstrapping import BootstrapSetup
from penstock.program.evaluator.circuits.openfhe.coefficients import coefficient_refresh
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.protocol import Ciphertext, Plain

LOWER = 2.0**-5
"""Sines from here on give 0 or 1."""
DEGREES = (7, 7, 15)
"""Of the comparison: 10 levels, within 2^-22 of 0 and 1."""
WIDTH = 8
"""Slots of a bucket."""
STRIDES = ((2**12, 2**0), (2**9, 2**6))
"""Of the two tables of each variant, at 2^15 slots: each has three bits of the slot's number that it adds over."""
BABY = 8
"""Score ciphertexts whose distances have keys of their own; the others' are whole steps of the last one more."""
DISTANCE = 20251
"""Slots between the distances of neighbours, modulo the slots: no two ciphertexts come near one another."""


def comparison() -> CompositeSign:
    """The sign of the sine."""
    return composite_sign(LOWER, DEGREES)


@dataclass(frozen=True, slots=True)
class BucketTable:
    """One table of sums: a bucket lies at each slot whose three bits at the stride are 0, and its columns one stride
    apart."""

    stride: int
    partner: int
    """The stride of the table that fills the other half of the ciphertext."""
    is_second: bool
    """Whether it makes room for its partner: its buckets move to where the partner's fifth column would begin."""

    def summed(self, slots: int) -> npt.NDArray[np.int64]:
        """The slots that have the sums, bucket by bucket."""
        above, below = np.divmod(np.arange(slots // WIDTH), self.stride)
        return above * WIDTH * self.stride + below

    def moves(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """A mask of the slots that belong to the partner."""
        return (slots & (self.partner * COLUMNS) == 0) & self.is_second

    @property
    def step(self) -> int:
        """Slots by which a bucket is moved to the right, off the partner's slots."""
        return COLUMNS * (self.stride + self.partner)

    def places(self, slots: int, column: int) -> npt.NDArray[np.int64]:
        """The slots of the column's buckets in the result."""
        summed = self.summed(slots)
        return np.where(self.moves(summed), summed + self.step, summed) + column * self.stride


@dataclass(frozen=True, slots=True)
class Selection:
    """The tables of a result."""

    slots: int
    """Of a ciphertext: N/2."""
    scores: int

    @property
    def buckets(self) -> int:
        """Of each table."""
        return self.slots // WIDTH

    @property
    def variants(self) -> int:
        """Pairs of tables, each in one ciphertext: a second one where there is more than one score ciphertext."""
        return 1 if self.scores == 1 else 2

    def tables(self, variant: int) -> tuple[BucketTable, BucketTable]:
        """The two tables of a variant."""
        first, second = (max(1, stride * self.slots >> 15) for stride in STRIDES[variant])
        return BucketTable(first, second, is_second=False), BucketTable(second, first, is_second=True)

    def distance(self, score: int, *, baby: bool = False) -> int:
        """Slots by which a score ciphertext is rotated in the second variant; `baby`: by its own key."""
        return DISTANCE * (score % BABY if baby else score) % self.slots


class SearchCircuit:
    """The circuit of one search."""

    def __init__(self, ev: CircuitEvaluator | ClearEvaluator, layout: Layout) -> None:
        self.ev = ev
        self.layout = layout
        self.selection = Selection(ev.params.ring_dim // 2, layout.scores)
        setup = BootstrapSetup(layout.slots, (3, 3), (0, 0), few_keys=True)
        self._refresh = coefficient_refresh(ev, setup)
        self._sign = comparison()

    def near(self, packed: Ciphertext) -> list[Ciphertext]:
        """0 or 1 for each record of one packed ciphertext: of its score ciphertexts one after the other."""
        return [self._step(sine) for sine in self._refresh.sines(packed, THRESHOLD / PERIODS)]

    def _step(self, a: Ciphertext) -> Ciphertext:
        ev, sign = self.ev, self._sign
        with ev.scope("compare"):
            for index in range(len(sign.series)):
                # Half of the sign and 1/2 more: the last polynomial has the factor.
                a = sign.step(ev, a, index, 0.5 if index == len(sign.series) - 1 else 1.0)
            return self._reduced(ev.add(a, 0.5))

    def count(self, masks: Iterable[Ciphertext]) -> list[Ciphertext]:
        """The number of matches in the records of each slot: one ciphertext."""
        total: Ciphertext | None = None
        for mask in masks:
            total = mask if total is None else self.ev.add(total, mask)
        assert total is not None
        return [self.ev.mod_drop(total, 1)]

    def select(self, masks: Iterable[Ciphertext], payloads: Callable[[int, int, int], Ciphertext]) -> list[Ciphertext]:
        """The result ciphertexts, one for each variant.

        Args:   masks: the score ciphertexts in order. payloads: (variant, score ciphertext, column) -> its payloads.
        """
        sums = self._sums(masks, payloads)
        return [
            self._tables(sums[variant * COLUMNS : (variant + 1) * COLUMNS], self.selection.tables(variant))
            for variant in range(self.selection.variants)
        ]

    def _tables(self, sums: list[Ciphertext], tables: tuple[BucketTable, BucketTable]) -> Ciphertext:
        """One result ciphertext, of its columns' sums."""
        ev, slots = self.ev, self.selection.slots
        with ev.scope("tables"):
            totals = [self._reduced(self._two(total)) for total in sums]
            parts: list[Ciphertext] = []
            for table in tables:
                added = [self._refresh.sum_slots(total, WIDTH, table.stride) for total in totals]
                summed = table.summed(slots)
                moves = table.moves(summed)
                parts.append(self._columns(added, table, summed[~moves], "stay"))
                if table.is_second:
                    parts.append(ev.rotate(self._columns(added, table, summed[moves], "move"), -table.step))
            return ev.add(ev.add(parts[0], parts[1]), parts[2])

    def _columns(
        self, added: list[Ciphertext], table: BucketTable, buckets: npt.NDArray[np.int64], name: str
    ) -> Ciphertext:
        """The buckets of all columns, one stride apart."""
        ev, mask = self.ev, _mask(self.selection.slots, buckets, f"{table.stride}/{name}")
        total: Ciphertext | None = None
        for bucket in reversed(added):
            part = self._reduced(ev.mult(bucket, mask))
            total = part if total is None else ev.add(part, ev.rotate(total, -table.stride))
        assert total is not None
        return total

    def _sums(self, masks: Iterable[Ciphertext], payloads: Callable[[int, int, int], Ciphertext]) -> list[Ciphertext]:
        """Sums over all score ciphertexts of the products with the payloads' columns, three polynomials each; of the
        second variant with the rotations of `Selection.distance`."""
        ev, selection = self.ev, self.selection
        plain: list[Ciphertext | None] = [None] * COLUMNS
        turned: list[list[Ciphertext | None]] = []
        for score, mask in enumerate(masks):
            with ev.scope("select"):
                for column in range(COLUMNS):
                    plain[column] = self._plus(plain[column], mask, payloads(0, score, column))
                if selection.variants == 1:
                    continue
                if score % BABY == 0:
                    turned.append([None] * COLUMNS)
                rotated = ev.rotate(mask, selection.distance(score, baby=True))
                for column in range(COLUMNS):
                    turned[-1][column] = self._plus(turned[-1][column], rotated, payloads(1, score, column))
        sums = [column for column in plain if column is not None]
        return sums + list(self._horner(turned))

    def _plus(self, total: Ciphertext | None, a: Ciphertext, payload: Ciphertext) -> Ciphertext:
        product = self.ev.mult_no_relin(a, payload)
        return product if total is None else self.ev.add(total, product)

    def _horner(self, groups: list[list[Ciphertext | None]]) -> Iterator[Ciphertext]:
        """Of each column the sum of all groups, group g rotated by g times `BABY` distances."""
        for column in range(COLUMNS if groups else 0):
            total: Ciphertext | None = None
            for group in reversed(groups):
                part = group[column]
                assert part is not None
                if total is not None:
                    with self.ev.scope("select"):
                        total = self.ev.rotate(self._two(total), DISTANCE * BABY % self.selection.slots)
                        part = self._two(part)
                    part = self.ev.add(total, part)
                total = part
            assert total is not None
            yield total

    def _two(self, a: Ciphertext) -> Ciphertext:
        """Two polynomials, from two or three."""
        three = isinstance(a, Cipher) and a.polynomials == 3
        return self.ev.relinearize(a) if three else a

    def _reduced(self, a: Ciphertext) -> Ciphertext:
        """Rescaled by hand: the next steps are of the circuit, which does not rescale by itself."""
        while _degree(a) > 1:
            a = self._refresh.manual.rescale(a)
        return a


def _degree(a: Ciphertext) -> int:
    return a.state.degree if isinstance(a, Cipher) else 1


def _mask(slots: int, ones: npt.NDArray[np.int64], name: str) -> Plain:
    values = np.zeros(slots)
    values[ones] = 1.0
    return Plain(values, f"mask[{name}]")
