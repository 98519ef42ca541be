"""Similarity scores of an encrypted query against an encrypted database of feature vectors.

Several vectors lie side by side in one ciphertext (FHEIns' batch of this kind of query). A product with the repeated
query and a sum over the features leave the score of each vector in its first slot. A mask clears the other slots. The
scores of as many ciphertexts as a vector has features are rotated into the gaps and added up, so that they leave the
server in one ciphertext. The client decrypts and sorts.

The sum over d features takes baby steps and giant steps, 2 sqrt(d) - 2 rotations that share two digit decompositions,
or log2(d) rotations with a decomposition each.
Source: FHEIns, section III-A and figure 1(b).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Ciphertext, Evaluator
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes

Floats = npt.NDArray[np.float64]

SUMMATIONS = ("bsgs", "fold")
LEVELS = 2
"""The product with the query, and the product with the mask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SscPlan:
    """A database of feature vectors in ciphertexts. Objects are numbered in the order of the disk."""

    params: CkksParameters
    vectors: int
    features: int
    """A power of two; shorter vectors end in zeros."""
    batch: int = 0
    """Vectors in one ciphertext; 0 is as many as fit."""
    summation: str = "bsgs"
    limbs: int = 0
    """Of a stored ciphertext; 0 is the whole chain, and `LEVELS + 1` is the least that the products need."""

    def __post_init__(self) -> None:
        slots = self.params.slots
        if self.vectors < 1:
            raise UsageError("a database of no vectors has no scores: ask for at least 1")
        if self.features < 1 or self.features & (self.features - 1):
            raise UsageError(f"vectors of {self.features} features: the number is a power of two; pad with zeros")
        if self.features > slots:
            raise ParamsError(
                f"a vector of {self.features} features is wider than the {slots} slots of set '{self.params.name}': "
                "take shorter vectors or a larger ring"
            )
        if not 0 <= self.batch * self.features <= slots:
            raise ParamsError(
                f"{self.batch} vectors of {self.features} features do not fit in the {slots} slots of set "
                f"'{self.params.name}': at most {slots // self.features} do"
            )
        if self.summation not in SUMMATIONS:
            raise UsageError(f"summation '{self.summation}': known are {', '.join(SUMMATIONS)}")
        if self.params.depth < LEVELS:
            raise ParamsError(
                f"similarity scores multiply {LEVELS} times in sequence, and set '{self.params.name}' carries "
                f"{self.params.depth}: take a deeper set"
            )
        if self.limbs and not LEVELS < self.limbs <= self.params.num_q:
            raise ParamsError(
                f"{self.limbs} limbs of a stored ciphertext: two products need {LEVELS + 1}, and set "
                f"'{self.params.name}' has {self.params.num_q}"
            )

    @property
    def per_object(self) -> int:
        """Vectors in one ciphertext."""
        return self.batch or self.params.slots // self.features

    @property
    def num_objects(self) -> int:
        """Ciphertexts of the database."""
        return -(-self.vectors // self.per_object)

    @property
    def object_limbs(self) -> int:
        """Limbs of a stored ciphertext."""
        return self.limbs or self.params.num_q

    @property
    def num_answers(self) -> int:
        """Ciphertexts of scores; the scores of `features` objects share one."""
        return -(-self.num_objects // self.features)

    @property
    def baby(self) -> int:
        """Baby steps of the sum, 2^ceil(log2(features) / 2)."""
        return 1 << -(-(self.features.bit_length() - 1) // 2)

    @property
    def score_limit(self) -> float:
        """An answer carries scores below this: half the modulus that is left, over the scale (sets of OpenFHE).

        A coefficient of an answer is at most as large as its largest slot, times the scale.
        >>> from penstock.scheme.params import catalogue
        >>> round(SscPlan(params=catalogue.get("openfhe-ssc"), vectors=1, features=64).score_limit, 6)
        8.0
        """
        left = (self.limbs or self.params.depth + 1) - LEVELS
        bits = sum(map(math.log2, openfhe_primes(self.params)[0][:left])) - 1 - self.params.scale_bits
        return 2.0 ** min(bits, 1000.0)

    def check_length(self, length: float, what: str) -> None:
        """Refuse a vector or a query whose scores could outgrow an answer: no score exceeds the product of two lengths.

        Args:   length: Euclidean norm; what: `vectors.npy: vector 5`, `the query`.
        Raises: ParamsError: it is the square root of `score_limit` or more, or no number.
        """
        limit = self.score_limit
        if not length < math.sqrt(limit):
            raise ParamsError(
                f"{what} has a length (Euclidean norm) of {length:.4g}: set '{self.params.name}' carries scores below "
                f"{limit:.4g}, so vectors and queries must be shorter than {math.sqrt(limit):.4g}: divide all by one "
                "number, which leaves the order of the scores as it is, or take a set with a larger first modulus or "
                "more depth ('penstock params list')"
            )

    def packed(self, vectors: Floats, number: int) -> Floats:
        """The slots of object `number`, (slots,), from vectors of shape (vectors, at most features)."""
        return self._slots(vectors[number * self.per_object : (number + 1) * self.per_object])

    def repeated(self, query: Floats) -> Floats:
        """The slots of the query, (slots,): once for each vector of a ciphertext."""
        return self._slots(np.tile(query, (self.per_object, 1)))

    def mask(self) -> Floats:
        """Ones where scores are, (slots,)."""
        return self._slots(np.ones((self.per_object, 1)))

    def _slots(self, rows: Floats) -> Floats:
        """Rows side by side, each in the place of a vector; zeros behind them."""
        filled, slots = np.zeros((self.per_object, self.features)), np.zeros(self.params.slots)
        filled[: len(rows), : rows.shape[1]] = rows
        slots[: filled.size] = filled.reshape(-1)
        return slots

    def scores(self, answers: Sequence[Floats]) -> Floats:
        """The scores in decrypted answers, (vectors,), in the order of the vectors."""
        ordered = np.empty(self.num_objects * self.per_object)
        for number in range(self.num_objects):
            answer, place = divmod(number, self.features)
            here = min(self.features, self.num_objects - answer * self.features)
            # Each later object of an answer turned the earlier ones one slot further to the right.
            at = np.arange(self.per_object) * self.features + here - 1 - place
            ordered[number * self.per_object : (number + 1) * self.per_object] = np.real(answers[answer])[at]
        return ordered[: self.vectors]


class SscScan:
    """One query over a database that is handed in once, ciphertext by ciphertext."""

    def __init__(self, ev: Evaluator, plan: SscPlan, query: Floats) -> None:
        """Encrypts the query, (at most features,).

        Raises: UsageError: the query has more features than the database.
        """
        if len(query) > plan.features:
            raise UsageError(f"a query of {len(query)} features, and the database's vectors have {plan.features}")
        self.ev, self.plan = ev, plan
        with ev.scope("query"):
            self._query = ev.mod_drop(ev.encrypt(plan.repeated(query), name="query"), plan.object_limbs)
        self._mask = ev.encode(plan.mask, name="mask")
        self._next = 0
        self._packed: Ciphertext | None = None
        self._answers: list[Ciphertext] = []

    def absorb(self, operand: Ciphertext) -> None:
        """The next ciphertext of the database."""
        ev, plan = self.ev, self.plan
        product = ev.rescale(ev.mult(operand, self._query))
        masked = ev.mult(self._summed(product), self._mask)
        self._packed = masked if self._packed is None else ev.add(ev.rotate(self._packed, -1), masked)
        self._next += 1
        if self._next % plan.features == 0 or self._next == plan.num_objects:
            self._answers.append(ev.rescale(self._packed))
            self._packed = None

    def _summed(self, a: Ciphertext) -> Ciphertext:
        """The sum over the `features` slots from each slot on."""
        ev, plan = self.ev, self.plan
        if plan.summation == "fold":
            return fold(ev, a, plan.features)
        for step, count in ((1, plan.baby), (plan.baby, plan.features // plan.baby)):
            turned = ev.rotate_many(a, [k * step for k in range(1, count)])
            for rotated in turned:
                a = ev.add(a, rotated)
        return a

    def finish(self) -> list[Ciphertext]:
        """Ciphertexts of scores, `SscPlan.scores` reads them.

        Raises: UsageError: objects are missing.
        """
        if self._next != self.plan.num_objects:
            raise UsageError(f"the scan saw {self._next} of {self.plan.num_objects} objects: a query reads all of them")
        return self._answers


def top_k(scores: Floats, k: int) -> list[int]:
    """Vectors with the highest scores, the best first; equal scores in the order of the vectors.

    >>> top_k(np.array([0.1, 0.9, 0.4, 0.9]), 3)
    [1, 3, 2]
    """
    return [int(i) for i in np.argsort(-scores, kind="stable")[:k]]
