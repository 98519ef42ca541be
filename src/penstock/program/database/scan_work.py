"""The cost of a query for each object of the database that it reads: operations by shape, and bytes.

A scan does the same to every object, so that its work is known from traces of databases of one and two objects.
Simulators of drives and accelerators price `per_object` operations for each object from the drive, and `per_query` at
the end. For any database the sum equals the tally of the whole program's trace (a test holds it against traces of
several sizes).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NoReturn

import numpy as np

from penstock.base.types import Row
from penstock.base.units import BITS_PER_BYTE
from penstock.program.database.filtering import FilterPlan, FilterScan, JoinPlan, JoinScan, mask_levels
from penstock.program.database.matching import MatchPlan, MatchScan
from penstock.program.database.pir import PirPlan, PirScan
from penstock.program.database.ranking import RankPlan, RankScan
from penstock.program.database.ssc import SscPlan, SscScan
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Operand
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.shapes import Shape

Shapes = Mapping[Shape, int]
FEW_COLUMNS = 3
"""Of a record, that are traced; two of them already have every operation and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanWork:
    """One query over a database of `num_objects` objects, each read once, in the order of the disk."""

    workload: str
    params: CkksParameters
    num_objects: int
    object_limbs: int
    object_bytes: int
    """Coefficients of one object: the amount that an accelerator reads of an encoded or encrypted database."""
    raw_bytes: float
    """Bytes of the records in one object before encoding: the amount read of a database that is encoded on the way."""
    per_object: Shapes
    """Operations of the server for each object, a query."""
    per_query: Shapes
    """The other operations of a query over this database: folding, packing. Counts of additions may be negative: the
    first term of a sum needs none."""
    keys: Mapping[str, int] = field(default_factory=dict)
    """Evaluation keys -> most limbs at which they are used."""
    query_ciphertexts: Mapping[int, int] = field(default_factory=dict)
    """Limbs -> ciphertexts of one query, which stay while the database passes."""
    answer_ciphertexts: Mapping[int, int] = field(default_factory=dict)
    """Limbs -> ciphertexts of one query's answer."""

    @property
    def database_bytes(self) -> int:
        """The encoded or encrypted database, without headers."""
        return self.num_objects * self.object_bytes

    @property
    def query_bytes(self) -> int:
        """What the client sends for one query."""
        return sum(n * self.params.ciphertext_bytes(limbs) for limbs, n in self.query_ciphertexts.items())

    @property
    def answer_bytes(self) -> int:
        """What the server returns for one query."""
        return sum(n * self.params.ciphertext_bytes(limbs) for limbs, n in self.answer_ciphertexts.items())

    def operations(self, queries: int = 1) -> dict[Shape, int]:
        """Every operation of the server for so many queries."""
        return _sum((self.per_object, self.num_objects * queries), (self.per_query, queries))


Plan = PirPlan | SscPlan | MatchPlan | FilterPlan | RankPlan


def _objects(plan: Plan, size: int) -> Row:
    """What a plan says of the objects of its database, of so many bytes each."""
    objects = {"num_objects": plan.num_objects, "object_limbs": plan.object_limbs, "object_bytes": size}
    return {"params": plan.params, **objects}


@lru_cache(maxsize=256)
def scan_work(plan: Plan) -> ScanWork:
    """The work of one query: private retrieval from plaintexts; scores, matching, a filter, a join or a ranking over
    ciphertexts."""
    if isinstance(plan, PirPlan):
        return _pir_work(plan)
    if isinstance(plan, RankPlan):
        return _rank_work(plan)
    if isinstance(plan, FilterPlan):
        return _filter_work(plan)
    return _ssc_work(plan) if isinstance(plan, SscPlan) else _match_work(plan)


def _pir_work(plan: PirPlan) -> ScanWork:
    """Stage k multiplies m_k times a column, m_0 the blocks, m_{k+1} the sums that stage k closes, and at the end one.

    The work is sum_k m_k c_k. One block has all m_k = 1; two places in dimension k alone have m_0 … m_k = 2. From two
    columns on, each further column is the same work.
    """
    slots, stages = plan.params.slots, plan.levels

    def traced(dimensions: tuple[int, ...], columns: int) -> _Counted:
        blocks = math.prod(dimensions)
        packing = replace(plan.packing, record_bytes=columns * plan.packing.chunk_bytes)
        small = replace(plan, records=blocks * slots, folds=dimensions[1:], packing=packing)
        return _counted(plan.params, lambda ev: PirScan(ev, small, [0]), lambda ev: ev.encode(_none), small.num_objects)

    def work(dimensions: tuple[int, ...]) -> _Counted:
        columns = plan.packing.columns
        if columns <= FEW_COLUMNS:
            return traced(dimensions, columns)
        few, more = (traced(dimensions, FEW_COLUMNS - 1 + i) for i in range(2))
        further = columns - FEW_COLUMNS
        return _Counted(_sum((more.shapes, 1 + further), (few.shapes, -further)), more.keys)

    ones = (1,) * stages
    one = work(ones)
    upto = [_minus(work((*ones[:k], 2, *ones[k + 1 :])).shapes, one.shapes) for k in range(stages)]
    stage = [upto[0], *(_minus(upto[k], upto[k - 1]) for k in range(1, stages))]
    columns = plan.packing.columns
    per_object = {shape: n // columns for shape, n in stage[0].items()}
    counts = [plan.blocks]
    for length in plan.dimensions:
        counts.append(-(-counts[-1] // length))
    rest = _sum((one.shapes, 1), *((stage[k], (counts[k] if k else 0) - 1) for k in range(stages)))
    queries = Counter({plan.object_limbs - k: length for k, length in enumerate(plan.dimensions)})
    return ScanWork(
        **_objects(plan, plan.params.plaintext_bytes(plan.object_limbs)),
        workload="pir",
        raw_bytes=slots * plan.packing.record_bytes / columns,
        per_object=per_object,
        per_query=rest,
        keys=one.keys,
        query_ciphertexts=dict(queries),
        answer_ciphertexts={1: 1},
    )


def _ssc_work(plan: SscPlan) -> ScanWork:
    params = plan.params

    def work(objects: int) -> _Counted:
        small = replace(plan, vectors=objects * plan.per_object)
        query = np.zeros(plan.features)
        stored: Callable[[Evaluator], Ciphertext] = lambda ev: ev.mod_drop(ev.encrypt(np.zeros(1)), plan.object_limbs)  # noqa: E731
        return _counted(params, lambda ev: SscScan(ev, small, query), stored, objects)

    one, two = work(1), work(2)
    per_object = _minus(two.shapes, one.shapes)
    return ScanWork(
        **_objects(plan, params.ciphertext_bytes(plan.object_limbs)),
        workload="ssc",
        raw_bytes=plan.per_object * plan.features * _FEATURE_BITS / BITS_PER_BYTE,
        per_object=per_object,
        per_query=_sum((one.shapes, plan.num_answers), (per_object, -plan.num_answers)),
        keys=two.keys,
        query_ciphertexts={plan.object_limbs: 1},
        answer_ciphertexts={plan.object_limbs - 2: plan.num_answers},
    )


def _match_work(plan: MatchPlan) -> ScanWork:
    """Each start of the pattern is one addition an object, and one ciphertext that goes back to the client."""
    params, limbs = plan.params, plan.object_limbs
    ev = CountingEvaluator(params)
    scan = MatchScan(ev, plan, bytes(plan.pattern_bytes))
    scan.absorb(ev.mod_drop(ev.encrypt(np.zeros(1)), limbs))
    return ScanWork(
        **_objects(plan, params.ciphertext_bytes(limbs)),
        workload="string-match",
        raw_bytes=plan.per_object * plan.packing.record_bytes,
        per_object=_tallied(ev).shapes,
        per_query={},
        query_ciphertexts={limbs: plan.starts},
        answer_ciphertexts={limbs: plan.starts * plan.num_objects},
    )


def _filter_work(plan: FilterPlan) -> ScanWork:
    """A filter, or a join: every pair of ciphertexts is the same work, and the sums are folded at the end."""
    params = plan.params

    def scan(ev: Evaluator) -> FilterScan | JoinScan:
        if isinstance(plan, JoinPlan):
            return JoinScan(ev, plan, list(range(plan.small_rows)), [0.0] * plan.small_rows)
        return FilterScan(ev, plan, 0)

    def pair(ev: Evaluator) -> tuple[Ciphertext, Ciphertext]:
        code, value = (ev.mod_drop(ev.encrypt(np.zeros(1)), plan.object_limbs) for _ in range(2))
        return code, value

    one, two = (_counted(params, scan, pair, objects) for objects in (1, 2))
    per_object = _minus(two.shapes, one.shapes)
    sums = {plan.object_limbs - plan.levels: 1}
    counts = plan.object_limbs - mask_levels(plan.categories)
    return ScanWork(
        **_objects(plan, 2 * params.ciphertext_bytes(plan.object_limbs)),
        workload=plan.what,
        raw_bytes=params.slots * 2 * _FEATURE_BITS / BITS_PER_BYTE,
        per_object=per_object,
        per_query=_minus(one.shapes, per_object),
        keys=two.keys,
        query_ciphertexts={plan.object_limbs: plan.query_ciphertexts},
        answer_ciphertexts={**sums, counts: sums.get(counts, 0) + 1},
    )


def _rank_work(plan: RankPlan) -> ScanWork:
    """Each ciphertext is ranked by itself, and two go back to the client: the scores and their indices."""
    params, limbs = plan.params, plan.object_limbs
    ev = CountingEvaluator(params)
    RankScan(ev, plan).absorb(ev.mod_drop(ev.encrypt(np.zeros(1)), limbs))
    counted = _tallied(ev)
    return ScanWork(
        **_objects(plan, params.ciphertext_bytes(limbs)),
        workload=plan.what,
        raw_bytes=plan.per_object * plan.scores * _FEATURE_BITS / BITS_PER_BYTE,
        per_object=counted.shapes,
        per_query={},
        keys=counted.keys,
        answer_ciphertexts={limbs - plan.levels: 2 * plan.num_objects},
    )


_FEATURE_BITS = 32
"""A feature, a score, a code or a value as the client holds it: a single-precision number."""


Scan = PirScan | SscScan | FilterScan | JoinScan


@dataclass(frozen=True, slots=True)
class _Counted:
    shapes: Shapes
    keys: Mapping[str, int]


def _counted(
    params: CkksParameters, start: Callable[[Evaluator], Scan], operand: Callable[[Evaluator], Operand], objects: int
) -> _Counted:
    """The server's operations of a scan over so many objects, by counting them."""
    ev = CountingEvaluator(params)
    scan = start(ev)
    for _ in range(objects):
        scan.absorb(operand(ev))
    scan.finish()
    return _tallied(ev)


def _tallied(ev: CountingEvaluator) -> _Counted:
    tally = ev.tally("scan", "")
    # Whoever sends a ciphertext brings it to its limbs.
    clients = {kind.value for kind, traits in TRAITS.items() if traits.client} | {OpKind.MOD_DROP.value}
    return _Counted({shape: n for shape, n in tally.counts.items() if shape.kind not in clients}, tally.keys)


def _none() -> NoReturn:
    raise AssertionError("the trace reading asks for no values")


def _minus(left: Shapes, right: Shapes) -> dict[Shape, int]:
    """The difference, which may be negative."""
    return _sum((left, 1), (right, -1))


def _sum(*parts: tuple[Shapes, int]) -> dict[Shape, int]:
    """Each part so many times."""
    total: Counter[Shape] = Counter()
    for shapes, times in parts:
        for shape, n in shapes.items():
            total[shape] += n * times
    return {shape: n for shape, n in total.items() if n}
