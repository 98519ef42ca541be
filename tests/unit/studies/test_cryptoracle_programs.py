"""CryptOracle's three microbenchmarks: what they compute, Table 3's counts, and the limbs at which they run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ParamsError
from penstock.lab.prediction.composites import series_of_1_2_4
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.unfolded import SCOPE, UnfoldedEvaluator
from penstock.program.workloads.logistic_function import BOUND, logistic
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.spec import CkksSpec
from penstock.scheme.traces.schema import Trace, TraceMeta
from penstock.scheme.work.shapes import Shape
from penstock_studies.cryptoracle.counts import count
from penstock_studies.cryptoracle.programs import PROGRAMS
from penstock_studies.cryptoracle.work import KNOWN, published_counts, spread, work_of
from penstock_studies.workloads.algorithms import ORDER, logistic_series, matrix_multiplication

NAMES = list(PROGRAMS)


def params(depth: int = 10, log_n: int = 13) -> CkksParameters:
    return CkksSpec(
        name=f"toy-insecure-d{depth}",
        ring_dim=1 << log_n,
        slots=1 << 12,
        depth=depth,
        first_mod_bits=52,
        scale_bits=48,
        dnum=2,
        scaling=Scaling.FLEXIBLE_AUTO,
        security="none",
    ).build()


def traced(name: str, ev: SymbolicEvaluator) -> Trace:
    program = PROGRAMS[name]
    program.run(ev, *(ev.encrypt(np.zeros(4)) for _ in range(program.num_inputs)))
    return ev.builder.finish(TraceMeta(workload=name, params=ev.params.to_dict(), reading="trace"))


def product(a: Any, b: Any) -> Any:
    return (a.reshape(ORDER, ORDER) @ b.reshape(ORDER, ORDER)).reshape(-1)


@pytest.mark.parametrize(
    ("name", "low", "high", "values", "expected", "tolerance"),
    [
        ("matrix-multiplication", -1.0, 1.0, ORDER * ORDER, product, 1e-9),
        ("logistic-function", -BOUND, BOUND, 1 << 12, logistic, 1e-4),
        ("sign-evaluation", 0.01, 1.0, 1 << 11, np.sign, 0.1),
        ("sign-evaluation", -1.0, -0.01, 1 << 11, np.sign, 0.1),
    ],
)
def test_a_program_computes_what_it_is_named_for(
    name: str, low: float, high: float, values: int, expected: Any, tolerance: float
) -> None:
    program, ev, generator = PROGRAMS[name], ClearEvaluator(params()), np.random.default_rng(7)
    inputs = [generator.uniform(low, high, values) for _ in range(program.num_inputs)]
    got: Any = program.run(ev, *(ev.encrypt(each) for each in inputs))
    assert np.max(np.abs(got[:values] - expected(*inputs))) <= tolerance


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", [10, 20])
def test_counts_are_those_of_table_3_but_for_the_explained_ones(name: str, depth: int) -> None:
    from penstock_studies.cryptoracle.counts import OPERATIONS, TABLE3

    calls = count(traced(name, SymbolicEvaluator(params(depth)))).calls
    ours = {operation: sum(calls.get(kind, 0) for kind in kinds) for operation, kinds in OPERATIONS.items()}
    published = published_counts(name)
    different = {operation for operation, n in ours.items() if n != published.get(operation, 0)}
    column = next(column for column in TABLE3 if column.workload == name)
    assert different == column.differences.keys()
    assert sum(ours.values()) == sum(calls.values())


def test_the_three_differences_are_of_one_and_two_calls() -> None:
    logistic = count(traced("logistic-function", SymbolicEvaluator(params()))).calls
    assert (logistic["add"], published_counts("logistic-function")["EvalAdd"]) == (71, 70)
    sign, table = (
        count(traced("sign-evaluation", SymbolicEvaluator(params()))).calls,
        published_counts("sign-evaluation"),
    )
    assert (sign["mult"], sign["mult_scalar"]) == (566, 63)
    assert (table["EvalMult"], table["EvalMultScalar"]) == (568, 61)


def test_rotations_of_the_matrix_product_are_to_align_to_spread_and_to_fold() -> None:
    trace = traced("matrix-multiplication", SymbolicEvaluator(params()))
    where: Counter[str] = Counter()
    for kind, scope in zip(trace.operations["kind"].to_pylist(), trace.operations["scope"].to_pylist(), strict=True):
        if kind == "rotate":
            where[scope.partition("[")[0]] += 1
    # 2 copies, and 2 x 15 moves and 16 x 2 x log2 32 in the steps.
    assert where == {"align": 2, "step": 30 + 160, "fold": 1}


def test_most_products_of_the_sign_run_at_three_limbs_at_depth_10() -> None:
    counted = count(traced("sign-evaluation", SymbolicEvaluator(params(10))))
    by_limbs = Counter({limbs: n for (kind, limbs), n in counted.by_limbs.items() if kind == "mult"})
    assert by_limbs.most_common(1)[0][0] == 3
    assert by_limbs[3] > 256
    assert min(by_limbs) == 2
    deeper = count(traced("sign-evaluation", SymbolicEvaluator(params(20)))).by_limbs
    assert {limbs - 10 for kind, limbs in deeper if kind == "mult"} == set(by_limbs)


@pytest.mark.parametrize("order", [2, 12, 64])
def test_an_order_that_does_not_fit_is_refused_with_the_remedy(order: int) -> None:
    ev = ClearEvaluator(params())
    with pytest.raises(ParamsError, match="slots"):
        matrix_multiplication(ev, np.zeros(4096), np.zeros(4096), order)


def test_a_program_deeper_than_the_parameters_is_refused() -> None:
    with pytest.raises(ParamsError):
        traced("sign-evaluation", SymbolicEvaluator(params(8)))


# Scaling, written out.


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_the_same_with_scaling_written_out_and_each_implied_operation_is_a_row(name: str) -> None:
    folded = traced(name, SymbolicEvaluator(params())).operations.to_pylist()
    unfolded = traced(name, UnfoldedEvaluator(params())).operations.to_pylist()
    called = [row for row in folded if "chebyshev" not in row["scope"]]
    rows = [row for row in unfolded if "chebyshev" not in row["scope"]]
    own = [row for row in rows if SCOPE not in row["scope"]]
    assert [(r["kind"], r["limbs_in"]) for r in own] == [(r["kind"], r["limbs_in"]) for r in called]
    besides = Counter(row["kind"] for row in rows if SCOPE in row["scope"])
    assert besides["rescale"] == sum(row["implied_rescales"] for row in called)
    assert besides["mult_scalar"] == sum(row["implied_scalar_mults"] for row in called)
    assert all(row["implied_rescales"] == 0 for row in own)


def steps(ev: UnfoldedEvaluator) -> list[tuple[str, int, int]]:
    made = ev.builder.finish(TraceMeta(workload="x", params=ev.params.to_dict(), reading="trace")).operations
    return [(r["kind"], r["limbs_in"], r["limbs_out"]) for r in made.to_pylist()]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((5, 1), (5, 1), [("mult", 5, 5)]),
        ((5, 2), (5, 2), [("rescale", 5, 4), ("rescale", 5, 4), ("mult", 4, 4)]),
        ((5, 1), (5, 2), [("mult_scalar", 5, 5), ("rescale", 5, 4), ("rescale", 5, 4), ("mult", 4, 4)]),
        ((9, 1), (4, 1), [("mult_scalar", 9, 9), ("mod_drop", 9, 5), ("rescale", 5, 4), ("mult", 4, 4)]),
        ((5, 2), (4, 1), [("rescale", 5, 4), ("mult", 4, 4)]),
        ((4, 1), (9, 2), [("mult_scalar", 9, 9), ("rescale", 9, 8), ("mod_drop", 8, 5), ("rescale", 5, 4),
                          ("mult", 4, 4)]),
        ((9, 2), (4, 2), [("mult_scalar", 9, 9), ("rescale", 9, 8), ("mod_drop", 8, 4), ("rescale", 4, 3),
                          ("rescale", 4, 3), ("mult", 3, 3)]),
    ],
)  # fmt: skip
def test_operands_are_brought_together_where_they_are(
    a: tuple[int, int], b: tuple[int, int], expected: list[tuple[str, int, int]]
) -> None:
    ev = UnfoldedEvaluator(params())
    ev.mult(ev.fresh(*a), ev.fresh(*b))
    assert steps(ev) == expected


def test_the_older_series_has_the_same_products_and_fewer_rescales() -> None:
    ev = SymbolicEvaluator(params())
    ev.chebyshev_series(ev.fresh(11), logistic_series(), -25.0, 25.0)
    trace = ev.builder.finish(TraceMeta(workload="x", params=ev.params.to_dict(), reading="trace")).view(
        composites=False
    )
    newer = Counter(trace.operations["kind"].to_pylist())
    implied = sum(trace.operations["implied_rescales"].to_pylist())
    older: Counter[str] = Counter()
    for shape, n in series_of_1_2_4(params()).items():
        older[shape.kind] += n
    assert (older["mult"], older["square"]) == (newer["mult"], newer["square"])
    # In place: each of the powers is rescaled by the first sum that has it, not by every one.
    assert older["rescale"] < implied


# Table 3's counts at those limbs.


@pytest.mark.parametrize("name", KNOWN)
def test_a_workload_has_its_own_counts_at_its_own_limbs(name: str) -> None:
    from penstock_studies.cryptoracle.counts import rows

    own = {r["id"].rpartition(".")[2]: r["first_principles"] for r in rows([name]) if r["group"] == "table3-programs"}
    work = work_of(name, catalogue.get(KNOWN[name]))
    products = sum(w.count for w in work if w.operation == "EvalMultPlaintext" and w.shape.kind == "mult_plain")
    assert products == own["EvalMultPlaintext"]
    assert len({w.shape.limbs_in for w in work}) > 2
    notes = [r["note"] for r in rows([name]) if r["group"] == "table3-programs"]
    assert all(len(note) > 4 for note in notes)


@pytest.mark.parametrize("name", NAMES)
def test_the_work_of_a_program_has_table_3s_counts(name: str) -> None:
    kinds: dict[str, Any] = {"EvalChebyshevSeries": None}
    from penstock_studies.cryptoracle.counts import OPERATIONS

    counts: Counter[str] = Counter()
    for work in work_of(name, params()):
        if work.operation in kinds:
            continue
        # The call itself, not what scaling does for it.
        if OpKind(work.shape.kind) in OPERATIONS[work.operation]:
            counts[work.operation] += work.count
        assert not TRAITS[OpKind(work.shape.kind)].composite
        assert work.shape.implied_rescales == 0
    assert counts == {op: n for op, n in published_counts(name).items() if op not in kinds}


@given(
    st.integers(0, 2000),
    st.dictionaries(st.integers(1, 40), st.integers(1, 500), min_size=1, max_size=12),
)
def test_dealing_out_keeps_the_total_and_the_proportions(total: int, weights: dict[int, int]) -> None:
    like = {Shape("mult", limbs, limbs, 0, 0, 2): n for limbs, n in weights.items()}
    dealt = spread(total, like)
    assert sum(dealt.values()) == total
    assert all(dealt.values())
    known = sum(like.values())
    assert all(abs(dealt.get(shape, 0) - total * n / known) < 1 for shape, n in like.items())
