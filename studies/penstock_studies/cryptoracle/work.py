"""The work of a microbenchmark of CryptOracle's, shape by shape: Table 3's counts at the limbs of the algorithm.

The counts are the published ones. Their spread over limbs, and the library's extra work to align operands, come from
the programs in `penstock_studies.cryptoracle.programs`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.program.evaluator.unfolded import SCOPE, UnfoldedEvaluator
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import TraceMeta
from penstock.scheme.work.shapes import Objects, Shape, shapes_of
from penstock_studies.cryptoracle.counts import BESIDE, OPERATIONS, TABLE3
from penstock_studies.cryptoracle.programs import PROGRAMS
from penstock_studies.workloads import algorithms, chi_square, cifar10, logistic_regression, resnet20
from penstock_studies.workloads.algorithms import ORDER
from penstock_studies.workloads.low_memory_resnet import LowMemoryResnet

SERIES = "EvalChebyshevSeries"
KNOWN: Mapping[str, str] = {column.workload: column.program for column in TABLE3 if column.workload not in PROGRAMS}
"""Workloads of which the very program is known, and its set: its own calls count, where Table 3 contradicts them.
Bootstrapping takes the steps of our release: those of 1.2.4 are not known."""
_NUMBER = re.compile(r"\[\d+\]")
_OPERATION: Mapping[str, str] = {
    kind.value: name for name, kinds in {**OPERATIONS, **BESIDE}.items() if name != SERIES for kind in kinds
}


@dataclass(frozen=True, slots=True)
class OperationWork:
    """Operations of one shape, for the sake of one operation of Table 3."""

    operation: str
    """That operation; what scaling does before a call counts with the call."""
    shape: Shape
    count: int


@lru_cache(maxsize=64)
def published_counts(name: str) -> Mapping[str, int]:
    """Operation -> count, of a column of Table 3; operations that do not occur are left out."""
    column = next(column for column in TABLE3 if column.workload == name)
    return {operation: count for operation, count in zip(column.operations, column.counts, strict=True) if count}


@lru_cache(maxsize=256)
def work_of(name: str, params: CkksParameters, order: int = ORDER) -> tuple[OperationWork, ...]:
    """The server's work of a microbenchmark, or of the network, at a parameter set. Inputs are fresh ciphertexts.

    Raises: ParamsError: the program is deeper than the parameters, or does not fit in the slots.
    """
    ev = UnfoldedEvaluator(params)
    _run(name, ev, order)
    trace = ev.builder.finish(TraceMeta(workload=name, params=params.to_dict(), reading="trace", size="", seed=None))
    operations = trace.view().operations
    shapes = shapes_of(operations, Objects(trace, params))
    counts: Counter[tuple[str, bool, int]] = Counter()
    scopes = operations["scope"].to_pylist()
    for row, (scope, kind) in enumerate(zip(scopes, operations["kind"].to_pylist(), strict=True)):
        if TRAITS[OpKind(kind)].client:  # ResNet-20 encrypts zeros on its way
            continue
        operation, is_call = _caller(scope, kind)
        counts[operation, is_call, int(shapes.of_row[row])] += 1
    published = published_counts(name)
    work = [OperationWork(op, shapes.distinct[i], count) for (op, is_call, i), count in counts.items() if not is_call]
    for operation in {op for op, is_call, _ in counts if is_call}:
        calls = {shapes.distinct[i]: n for (op, is_call, i), n in counts.items() if is_call and op == operation}
        total = published[operation] if name in PROGRAMS and order == ORDER else sum(calls.values())
        work += [OperationWork(operation, shape, n) for shape, n in spread(total, calls).items()]
    return tuple(work)


def _run(name: str, ev: UnfoldedEvaluator, order: int) -> None:
    """The program on fresh ciphertexts."""
    params = ev.params
    if name == "cnn":
        algorithms.cifar10(ev, ev.fresh(params.num_q), [np.zeros(params.slots)] * cifar10.MASKS)
    elif name == "chi-square":
        size = chi_square.SIZES["full"]
        genotypes, phenotypes = ([ev.fresh(params.num_q) for _ in range(size.people)] for _ in range(2))
        algorithms.chi_square(ev, genotypes, phenotypes, size.scaling)
    elif name == "resnet20":
        ev.plaintexts_at_level = resnet20.PLAINTEXTS_AT_LEVEL
        LowMemoryResnet(ev, 32, lambda number, period, bound: np.zeros(period)).run(ev.fresh(params.num_q))
    elif name == "logistic-regression":
        x, negative, labels, weights = (ev.fresh(params.num_q) for _ in range(4))
        iterations = logistic_regression.SIZES["full"].iterations
        algorithms.logistic_regression(ev, x, negative, labels, weights, iterations)
    else:
        program = PROGRAMS[name]
        orders = {"order": order} if program.has_order else {}
        program.run(ev, *(ev.fresh(params.num_q) for _ in range(program.num_inputs)), **orders)


def spread(total: int, like: Mapping[Shape, int]) -> dict[Shape, int]:
    """`total` dealt out in the proportions of `like`, in whole numbers: the largest remainders are rounded up."""
    known = sum(like.values())
    dealt = {shape: total * count // known for shape, count in like.items()}
    rest = sorted(like, key=lambda shape: (-(total * like[shape] % known), shape))
    for shape in rest[: total - sum(dealt.values())]:
        dealt[shape] += 1
    return {shape: count for shape, count in dealt.items() if count}


def _caller(scope: str, kind: str) -> tuple[str, bool]:
    """The operation of Table 3 that a row belongs to, and whether the row is that call itself."""
    path = _NUMBER.sub("", scope).split("/")
    if any(part.startswith(OpKind.BOOTSTRAP.value) for part in path):
        return "EvalBootstrap", False
    if OpKind.CHEBYSHEV.value in path:
        return SERIES, False
    if SCOPE in path:
        return _OPERATION[path[path.index(SCOPE) + 1]], False
    return _OPERATION[kind], True
