"""A trace whose composites are repeated has the rows of one in which each of them runs."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.program.evaluator.symbolic import MOST_KEPT, SymbolicEvaluator
from penstock.program.running.reading import resolve
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.traces.blocks import Place, cut, paste
from penstock.scheme.traces.schema import Trace, TraceMeta


def traced(name: str, params_name: str, size_name: str, *, repeats: bool) -> Trace:
    workload, size_name, params = resolve(name, params_name, size_name)
    size = workload.SIZES[size_name]
    ev = SymbolicEvaluator(params, repeats=repeats)
    workload.program(ev, workload.blank(size, params.slots), size)
    return ev.builder.finish(TraceMeta(workload=name, params=params.to_dict(), reading="trace"))


@pytest.mark.parametrize(
    ("name", "params", "size"),
    [
        ("logistic-regression", "sharp", "helr"),  # 31 refreshes in two scopes, one kind
        ("resnet20-multiplexed", "insecure-resnet20-multiplexed", "ci"),  # series and refreshes of three periods
        ("sorting", "insecure-resnet20", "ci"),
        ("logistic-regression", "tensorfhe-helr", "helr-merged"),
    ],
)
def test_repeated_rows_are_the_rows_of_running(name: str, params: str, size: str) -> None:
    one, two = (traced(name, params, size, repeats=repeats) for repeats in (True, False))
    assert one.operations.equals(two.operations)
    assert one.objects.equals(two.objects)


def test_a_composite_runs_three_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first makes keys and plaintexts, the second is as the third, and from then on rows are repeated."""
    from penstock.program.evaluator import composites

    runs = 0
    circuit = composites.bootstrap_circuit

    def counted(*words: object) -> object:
        nonlocal runs
        runs += 1
        return circuit(*words)

    monkeypatch.setattr(composites, "bootstrap_circuit", counted)
    params = catalogue.get("sharp")
    ev = SymbolicEvaluator(params, repeats=True)
    a = ev.fresh(1)
    for _ in range(10):
        b = ev.bootstrap(a)
        ev.add(b, b)
    assert runs == 3
    kinds = ev.builder.kinds()
    assert kinds.count(OpKind.BOOTSTRAP.value) == 10
    ev.bootstrap(ev.fresh(2))
    assert runs == 4, "an operand of other limbs is another composite"
    ev.bootstrap(a, slots=64)
    assert runs == 5, "so are other slots"


def test_programs_of_many_different_series_keep_few_of_them() -> None:
    params = catalogue.get("insecure-small")
    one, two = (SymbolicEvaluator(params, repeats=repeats) for repeats in (True, False))
    for ev in (one, two):
        a = ev.encrypt(np.zeros(1))
        for i in range(MOST_KEPT + 5):
            for _ in range(4 if i in (0, MOST_KEPT + 4) else 1):
                ev.chebyshev_series(a, [0.0, float(i), 1.0], -1.0, 1.0)
    meta = TraceMeta(workload="test", params=params.to_dict(), reading="trace")
    traces = [ev.builder.finish(meta) for ev in (one, two)]
    assert traces[0].operations.equals(traces[1].operations)
    assert traces[0].objects.equals(traces[1].objects)


def test_a_hook_on_each_operation_sees_every_one() -> None:
    ev = SymbolicEvaluator(catalogue.get("sharp"), repeats=True)
    seen: list[int] = []
    ev.builder.on_add = seen.append
    for _ in range(5):
        ev.bootstrap(ev.fresh(1))
    assert seen == list(range(ev.builder.num_operations))


def test_a_block_fits_wherever_it_is_pasted() -> None:
    """Operands, objects before it, its own objects and the scope each move in their own way."""
    tail = (None, 0, 0)
    rows = [
        (0, "add", "modelled", 3, 3, (0, 1), 2, None, None, *tail, "x[0]", None, None),
        (1, "mult_plain", "modelled", 3, 3, (2,), 4, "k", 3, *tail, "x[0]/y[1]", None, None),
    ]
    objects = [(i, "ciphertext", None, 3, 8) for i in range(5)]
    block = cut(rows, objects, Place(0, 2, "x[0]"), [0])
    grown, more = list(rows), list(objects)
    paste(grown, more, block, Place(2, 5, "z[7]"), [4])
    assert grown[2:] == [
        (2, "add", "modelled", 3, 3, (4, 1), 5, None, None, *tail, "z[7]", None, None),
        (3, "mult_plain", "modelled", 3, 3, (5,), 7, "k", 6, *tail, "z[7]/y[1]", None, None),
    ]
    assert [each[0] for each in more] == list(range(8))
    assert cut(grown, more, Place(2, 5, "z[7]"), [4]) == block
