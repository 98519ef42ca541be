"""Filter and aggregate over encrypted tables, and joins with a small one: masks of equal codes, sums over rows.

A row a slot: a column of codes 0 … c-1 and one of values. With d the difference of a row's code and another one, the
mask is the product over t = 1 … c-1 of (t^2 - d^2) / t^2: one where d is zero, and zero at every other difference of
two codes. Codes are encrypted in units of s = ((c-1)!)^(1 / (c-1)), for which the product of the t^2 / s^2 is one, so
that no factor has to be divided.

A filter sums the values and counts the rows of one code. A join meets every row with all rows of a small table of
codes and attributes, whose codes differ. It sums value times attribute over pairs of equal codes, and counts the pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Ciphertext, Evaluator
from penstock.scheme.params.ckks import CkksParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterPlan:
    """A table in pairs of ciphertexts, codes and values. A pair is one object, in the order of the disk."""

    params: CkksParameters
    rows: int
    categories: int
    limbs: int = 0
    """Of a stored ciphertext; 0 is the whole chain."""

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise UsageError(f"{self.what}: a table of {self.rows} rows has no sum: ask for at least 1")
        if self.categories < 2:
            raise UsageError(f"{self.what}: {self.categories} categories leave nothing to choose: ask for at least 2")
        needed = self.levels + 1
        if needed > self.params.depth:
            raise ParamsError(
                f"{self.what}: {self.categories} categories take {needed - 1} multiplications in sequence and a level "
                f"for sums over all rows, and set '{self.params.name}' carries {self.params.depth}: take fewer "
                "categories, or a deeper set"
            )
        if self.limbs and not needed < self.limbs <= self.params.num_q:
            raise ParamsError(
                f"{self.what}: {self.limbs} limbs of a stored ciphertext: the products need {needed + 1}, and set "
                f"'{self.params.name}' has {self.params.num_q}"
            )

    @property
    def what(self) -> str:
        """Name of the query, in messages."""
        return "filter-aggregate"

    @property
    def levels(self) -> int:
        """Multiplications in sequence."""
        return mask_levels(self.categories) + 1

    @property
    def num_objects(self) -> int:
        """Pairs of ciphertexts."""
        return -(-self.rows // self.params.slots)

    @property
    def object_limbs(self) -> int:
        """Limbs of a stored ciphertext."""
        return self.limbs or self.params.num_q

    @property
    def query_ciphertexts(self) -> int:
        """Ciphertexts of one query."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan(FilterPlan):
    """A large table that is joined with a small one of so many rows, each row a pair of ciphertexts of the query."""

    small_rows: int

    def __post_init__(self) -> None:
        FilterPlan.__post_init__(self)
        if not 1 <= self.small_rows <= self.categories:
            raise UsageError(
                f"{self.what}: a small table of {self.small_rows} rows with codes that differ: from 1 to the "
                f"{self.categories} categories"
            )

    @property
    def what(self) -> str:
        """Name of the query, in messages."""
        return "equi-join"

    @property
    def levels(self) -> int:
        """Multiplications in sequence: the mask, the attribute, the value."""
        return mask_levels(self.categories) + 2

    @property
    def query_ciphertexts(self) -> int:
        """Ciphertexts of one query: a code and an attribute for each row of the small table."""
        return 2 * self.small_rows


def mask_levels(categories: int) -> int:
    """Multiplications in sequence of a mask: the square, and the product of the factors.

    >>> [mask_levels(c) for c in (2, 3, 8)]
    [1, 2, 4]
    """
    return 1 + (categories - 2).bit_length()


def unit_of_codes(categories: int) -> float:
    """s: the geometric mean of 1 … categories - 1."""
    return math.factorial(categories - 1) ** (1.0 / (categories - 1))


def equal_mask(ev: Evaluator, difference: Ciphertext, categories: int) -> Ciphertext:
    """One where the difference of two codes is zero, and zero elsewhere."""
    square = ev.rescale(ev.square(difference))
    factors = [ev.sub((t / unit_of_codes(categories)) ** 2, square) for t in range(1, categories)]
    # Large factors meet small ones, so that no partial product is larger than it must be.
    factors = [f for pair in zip(factors, reversed(factors), strict=True) for f in pair][: len(factors)]
    while len(factors) > 1:
        paired = [ev.rescale(ev.mult(a, b)) for a, b in zip(factors[::2], factors[1::2], strict=False)]
        factors = paired + factors[len(factors) // 2 * 2 :]
    return factors[0]


class _Sums:
    """Sums over a table of pairs, and the number of rows that they are of."""

    def __init__(self, ev: Evaluator, plan: FilterPlan) -> None:
        self.ev, self.plan = ev, plan
        self._total: Ciphertext | None = None
        self._count: Ciphertext | None = None

    def finish(self) -> list[Ciphertext]:
        """Two ciphertexts: the sum (of values, or of value times attribute) and the number of rows or pairs, in every
        slot."""
        ev, slots = self.ev, self.plan.params.slots
        with ev.scope("reduce"):
            return [fold(ev, total, slots) for total in (ev.rescale(ev.relinearize(self._total)), self._count)]


class FilterScan(_Sums):
    """One query over a table that is handed in once, pair by pair."""

    def __init__(self, ev: Evaluator, plan: FilterPlan, code: int) -> None:
        """Encrypts the code that is asked for."""
        super().__init__(ev, plan)
        with ev.scope("query"):
            self._query = _everywhere(ev, plan, code / unit_of_codes(plan.categories), "query")

    def absorb(self, operand: tuple[Ciphertext, Ciphertext]) -> None:
        """The next pair of the table: codes and values."""
        ev, (code, value) = self.ev, operand
        with ev.scope("mask"):
            mask = equal_mask(ev, ev.sub(code, self._query), self.plan.categories)
        with ev.scope("select"):
            selected = ev.mult_no_relin(mask, value)
            self._total = selected if self._total is None else ev.add(self._total, selected)
            self._count = mask if self._count is None else ev.add(self._count, mask)


class JoinScan(_Sums):
    """A join of a small table with a large one that is handed in once, pair by pair."""

    def __init__(self, ev: Evaluator, plan: JoinPlan, codes: list[int], attributes: list[float]) -> None:
        """Encrypts the small table, (small_rows,) each, in rows of the query.

        Raises: UsageError: tables of another length, or a code twice.
        """
        if not len(codes) == len(attributes) == plan.small_rows:
            raise UsageError(
                f"{len(codes)} codes and {len(attributes)} attributes, and the plan is for {plan.small_rows} rows"
            )
        if len(set(codes)) != len(codes):
            raise UsageError("a small table with one code in two rows: a join by these masks needs codes that differ")
        super().__init__(ev, plan)
        unit = unit_of_codes(plan.categories)
        with ev.scope("query"):
            self._small = [
                (_everywhere(ev, plan, code / unit, f"code[{j}]"), _everywhere(ev, plan, value, f"attribute[{j}]"))
                for j, (code, value) in enumerate(zip(codes, attributes, strict=True))
            ]

    def absorb(self, operand: tuple[Ciphertext, Ciphertext]) -> None:
        """The next pair of the large table: codes and values."""
        ev, (code, value) = self.ev, operand
        joined: Ciphertext | None = None
        for key, attribute in self._small:
            with ev.scope("mask"):
                mask = equal_mask(ev, ev.sub(code, key), self.plan.categories)
            with ev.scope("join"):
                met = ev.mult_no_relin(mask, attribute)
                joined = met if joined is None else ev.add(joined, met)
                self._count = mask if self._count is None else ev.add(self._count, mask)
        with ev.scope("select"):
            selected = ev.mult_no_relin(ev.rescale(ev.relinearize(joined)), value)
            self._total = selected if self._total is None else ev.add(self._total, selected)


def _everywhere(ev: Evaluator, plan: FilterPlan, value: float, name: str) -> Ciphertext:
    """An encrypted number in every slot, at the limbs of the table."""
    encrypted = ev.encrypt(np.full(plan.params.slots, value), name=name)
    return ev.mod_drop(encrypted, plan.limbs) if plan.limbs else encrypted
