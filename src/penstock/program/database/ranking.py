"""The largest of encrypted scores: argmax and top-k of every record of an encrypted table, with values and places.

A record has n scores. Its block of 2 n^2 slots has them in the first n slots, and zeros behind. Row d of a block begins
at slot d (n + 1). Repeating the scores every n + 1 slots puts score i into slot i of every row; repeating them every n
slots puts score i + d (cyclically) there. The sign of the difference compares all pairs at once, without a mask. The
sum over the rows is 2 g - (n - 1), where g counts the larger scores.

A second sign compares g with 1/2, 3/2, … in the first k rows; from row to row it changes where g is the row's number.
This selects the score of each place, and its index. Both signs are compositions of minimax polynomials
(`penstock.program.evaluator.circuits.minimax`): scores that differ by less than the first one's lower bound may change
places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.minimax import CompositeSign, composite_sign, parse_degrees
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Ciphertext, Evaluator
from penstock.scheme.params.ckks import CkksParameters

Floats = npt.NDArray[np.float64]

FEWEST = 4
"""Scores of a record: with fewer, a block has no room before its first row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """A table of records of scores in ciphertexts, several records in each."""

    params: CkksParameters
    records: int
    scores: int
    """Of a record: a power of two; shorter records end in zeros."""
    top: int = 1
    """k: the number of largest scores that are returned."""
    lower_bits: int
    """Scores that differ by 2^-lower_bits at least are told apart."""
    degrees: str
    """Of the polynomials that compare two scores."""
    rank_degrees: str
    """Of those that compare a rank with a place."""
    limbs: int = 0
    """Of a stored ciphertext; 0 is as many as the products take."""

    def __post_init__(self) -> None:
        n = self.scores
        if self.records < 1:
            raise UsageError(f"{self.what}: a table of {self.records} records has no largest score: ask for at least 1")
        if n < FEWEST or n & (n - 1):
            raise UsageError(
                f"{self.what}: records of {n} scores: the number is a power of two from {FEWEST} on; pad with zeros"
            )
        if not 1 <= self.top <= n:
            raise UsageError(f"{self.what}: the {self.top} largest of {n} scores: ask for 1 to {n}")
        if self.block > self.params.slots:
            raise ParamsError(
                f"{self.what}: {n} scores are compared in {self.block} slots and set '{self.params.name}' has "
                f"{self.params.slots}: take fewer scores or more slots"
            )
        if self.rank_gap <= 0:
            raise UsageError(
                f"{self.what}: comparisons of degrees {self.degrees} from 2^-{self.lower_bits} on are off by "
                f"{self.comparison.error:.3g} each, which may move a rank of {n} by half a place: take higher degrees, "
                "or scores further apart"
            )
        if self.levels > self.params.depth:
            raise ParamsError(
                f"{self.what}: {self.levels} multiplications in sequence, and set '{self.params.name}' carries "
                f"{self.params.depth}: take polynomials of lower degrees, or a deeper set"
            )
        if self.limbs and not self.levels < self.limbs <= self.params.num_q:
            raise ParamsError(
                f"{self.what}: {self.limbs} limbs of a stored ciphertext: the products need {self.levels + 1}, and set "
                f"'{self.params.name}' has {self.params.num_q}"
            )

    @property
    def what(self) -> str:
        """Name of the query, in messages."""
        return "argmax" if self.top == 1 else "top-k"

    @property
    def block(self) -> int:
        """Slots in which the scores of a record are compared."""
        return 2 * self.scores**2

    @property
    def pitch(self) -> int:
        """Slots from row to row of a block."""
        return self.scores + 1

    @property
    def rows(self) -> int:
        """Rows that a rank is compared in: k, or the next power of two."""
        return 1 << (self.top - 1).bit_length()

    @property
    def comparison(self) -> CompositeSign:
        """The sign of the difference of two scores."""
        return composite_sign(2.0**-self.lower_bits, parse_degrees(self.degrees))

    @property
    def rank_gap(self) -> float:
        """The least distance of a rank from a half, over the largest: 1/2, less what all comparisons are off."""
        return (0.5 - (self.scores - 1) * self.comparison.error / 2) / (self.scores - 0.5)

    @property
    def placing(self) -> CompositeSign:
        """The sign of the difference of a rank and a place."""
        return composite_sign(self.rank_gap, parse_degrees(self.rank_degrees))

    @property
    def levels(self) -> int:
        """Multiplications in sequence: both signs, the mask between them, the selection."""
        return sum(self.comparison.levels) + 1 + sum(self.placing.levels) + 1

    @property
    def per_object(self) -> int:
        """Records in one ciphertext."""
        return self.params.slots // self.block

    @property
    def num_objects(self) -> int:
        """Ciphertexts of the table."""
        return -(-self.records // self.per_object)

    @property
    def object_limbs(self) -> int:
        """Limbs of a stored ciphertext."""
        return self.limbs or self.levels + 1

    def packed(self, scores: Floats, number: int) -> Floats:
        """The slots of object `number`, (slots,), from scores of shape (records, scores) in [0, 1]."""
        here = scores[number * self.per_object : (number + 1) * self.per_object]
        filled = np.zeros((self.per_object, self.block))
        filled[: len(here), : here.shape[1]] = here
        return filled.reshape(-1)

    def lead(self) -> Floats:
        """The factor of the sums over the rows, (slots,): zero outside of the first row, where the sums are whole."""
        return self._in_blocks({0: np.full(self.scores, -0.5 / (self.scores - 0.5))})

    def places(self) -> Floats:
        """The places that ranks are compared with, a row each, (slots,); a rank before the first row is never less."""
        middle = (self.scores - 1) / 2
        rows = {
            place * self.pitch: np.full(self.scores, (place + 0.5 - middle) / (self.scores - 0.5))
            for place in range(self.top)
        }
        return self._in_blocks({**rows, self.block - self.pitch: np.full(self.pitch, -1.0)})

    def numbers(self) -> Floats:
        """The index of each score over n, in the rows of the places, (slots,)."""
        index = np.arange(self.scores) / self.scores
        return self._in_blocks({place * self.pitch: index for place in range(self.top)})

    def _in_blocks(self, parts: dict[int, Floats]) -> Floats:
        block = np.zeros(self.block)
        for at, values in parts.items():
            block[at : at + len(values)] = values
        return np.tile(block, self.per_object)

    def decoded(self, answers: Sequence[Sequence[Floats]]) -> Floats:
        """The largest scores and their indices, (records, top, 2), from decrypted answers of every object."""
        at = (np.arange(self.per_object) * self.block)[:, None] + np.arange(self.top) * self.pitch
        ranked = [
            np.stack([np.real(values)[at] / 2, np.real(indices)[at] * (self.scores / 2)], axis=-1)
            for values, indices in answers
        ]
        return np.concatenate(ranked)[: self.records]


class RankScan:
    """One query over a table that is handed in once, ciphertext by ciphertext."""

    def __init__(self, ev: Evaluator, plan: RankPlan) -> None:
        self.ev, self.plan = ev, plan
        self._lead = ev.encode(plan.lead, name="lead")
        self._places = ev.encode(plan.places, name="places")
        self._numbers = ev.encode(plan.numbers, name="numbers")

    def absorb(self, operand: Ciphertext) -> tuple[Ciphertext, Ciphertext]:
        """Twice the largest scores of the records of the next ciphertext, and twice their indices over n.

        `RankPlan.decoded` reads them.
        """
        ev, plan = self.ev, self.plan
        n, pitch = plan.scores, plan.pitch
        with ev.scope("compare"):
            own = fold(ev, operand, n, -pitch)
            value = ev.sub(fold(ev, operand, 2 * n, -n), own)
            value = self._sign(plan.comparison, value)
        with ev.scope("place"):
            rank = ev.rescale(ev.mult(fold(ev, value, n, pitch), self._lead))
            value = self._sign(plan.placing, ev.add(fold(ev, rank, plan.rows, -pitch), self._places))
            chosen = ev.sub(value, ev.rotate(value, -pitch))
        with ev.scope("select"):
            values, indices = (ev.rescale(ev.mult(chosen, factor)) for factor in (own, self._numbers))
            return fold(ev, values, n), fold(ev, indices, n)

    def _sign(self, sign: CompositeSign, value: Ciphertext) -> Ciphertext:
        for index in range(len(sign.series)):
            value = sign.step(self.ev, value, index)
        return value
