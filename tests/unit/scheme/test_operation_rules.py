"""Every operation of the table has the rules that it needs, each in its own room."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from penstock.errors import PenstockError, UsageError
from penstock.lab.rewriting.interpret import MEANINGS, differing_results
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.imaginary import ComplexValues
from penstock.program.evaluator.noisy import NOISE
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.operations import TRAITS, OperationRow, OpKind, Rules, Verb, operations, rotation_key
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, Trace, TraceMeta
from penstock.scheme.work.graphs import GRAPHS, kernel_graph
from penstock.scheme.work.kernels import PRICES, Hoisting
from penstock.scheme.work.stages import Operation

SHARP = catalogue.get("sharp")
RULES: tuple[Rules[object], ...] = (PRICES, GRAPHS, NOISE, MEANINGS)  # type: ignore[assignment]
MONOMIAL = replace(
    operations()["negate"], name="mult_monomial", argument="power", description="product with a power of X", code=255
)


def lacking(table: dict[str, OperationRow]) -> list[str]:
    """The rules that operations lack."""
    found = [said for row in table.values() for rules in RULES if (said := rules.lacking(row)) is not None]
    for row in table.values():
        if row.is_traced and row.name not in list(OpKind):
            found.append(f"'{row.name}' has no member of OpKind: add one in src/penstock/scheme/operations.py")
        if row.code is not None and row.name not in list(Verb):
            found.append(f"'{row.name}' has no member of Verb: add one in src/penstock/scheme/operations.py")
        if is_plain(row) and row.argument != "series":
            for cls, has, where in (
                (Evaluator, dir(Evaluator), "protocol"),
                (ClearEvaluator, vars(ClearEvaluator), "clear"),
            ):
                if row.name not in has:
                    file = f"src/penstock/program/evaluator/{where}.py"
                    found.append(f"'{row.name}' has no method of {cls.__name__}: add one in {file}")
    return found


def is_plain(row: OperationRow) -> bool:
    """Whether it is a call of ciphertexts and at most a whole number, with a method of its own name."""
    return row.code is not None and row.actor == "server" and row.results == 1 and not row.constants + row.numbers


def toy_of(name: str) -> CkksParameters:
    """A set of its own, since graphs are kept by set."""
    return replace(SHARP, name=name)


def test_every_operation_has_the_rules_that_it_needs() -> None:
    assert lacking(operations()) == []


def test_each_rule_that_a_new_operation_lacks_is_named_with_its_room() -> None:
    assert lacking(operations() | {"mult_monomial": MONOMIAL}) == [
        "'mult_monomial' has no rule of price: add one in src/penstock/scheme/work/kernels.py",
        "'mult_monomial' has no rule of noise: add one in src/penstock/program/evaluator/noisy.py",
        "'mult_monomial' has no member of OpKind: add one in src/penstock/scheme/operations.py",
        "'mult_monomial' has no member of Verb: add one in src/penstock/scheme/operations.py",
        "'mult_monomial' has no method of Evaluator: add one in src/penstock/program/evaluator/protocol.py",
        "'mult_monomial' has no method of ClearEvaluator: add one in src/penstock/program/evaluator/clear.py",
    ]


def test_an_operation_on_digits_needs_a_graph() -> None:
    hoisted = replace(MONOMIAL, name="rotate_twice", key="rot", takes=("ciphertext", "digits"), operands=2)
    assert (
        GRAPHS.lacking(hoisted) == "'rotate_twice' has no rule of graph: add one in src/penstock/scheme/work/graphs.py"
    )


@pytest.mark.parametrize("kind", [OpKind.MULT, OpKind.SQUARE, OpKind.ROTATE, OpKind.RELINEARIZE, OpKind.TO_DENSE])
@pytest.mark.parametrize("limbs", [1, 7, 20])
def test_a_graph_of_passes_and_a_key_switch_follows_from_the_price(
    monkeypatch: pytest.MonkeyPatch, kind: OpKind, limbs: int
) -> None:
    params, polynomials = toy_of(f"derived {kind} {limbs}"), 3 if kind is OpKind.RELINEARIZE else 2
    written = kernel_graph(kind, SHARP, limbs, polynomials=polynomials)
    monkeypatch.delitem(GRAPHS, kind)
    derived = kernel_graph(kind, params, limbs, polynomials=polynomials)
    assert derived.work == written.work
    assert {each.name for each in derived.kernels} == {each.name for each in written.kernels}
    assert sum(each.result for each in derived.kernels) == 2


def test_no_rule_is_of_an_operation_that_is_not_in_the_table() -> None:
    for rules in RULES:
        assert set(rules) <= set(TRAITS)


def test_a_graph_follows_from_a_price_of_passes_and_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRICES, OpKind.ADD, partial(PRICES[OpKind.ADD], sums=2))
    params = toy_of("three summands")
    work = PRICES[OpKind.ADD](
        Operation(params=params, limbs=3, limbs_out=3, key_form=None, polynomials=2, hoisting=Hoisting.RESULTS)
    )
    graph = kernel_graph(OpKind.ADD, params, 3)
    assert graph.work == work
    assert [(each.each, each.result) for each in graph.kernels] == [((), False)] * 2 + [((0,), True), ((1,), True)]
    two_widths = replace(work, element_loops=((3, 2), (4, 2)))
    monkeypatch.setitem(PRICES, OpKind.ADD, lambda _: two_widths)
    with pytest.raises(PenstockError, match="'add' has no rule of graph"):
        kernel_graph(OpKind.ADD, toy_of("two widths"), 3)
    monkeypatch.delitem(GRAPHS, OpKind.DECOMPOSE)
    with pytest.raises(PenstockError, match=r"'decompose' has no rule of graph: add one in .*graphs\.py"):
        kernel_graph(OpKind.DECOMPOSE, params, 3)


def test_a_rule_that_nobody_wrote_is_an_error_that_names_its_room() -> None:
    with pytest.raises(PenstockError, match=r"'negate' has no rule of taste: add one in src/penstock/kitchen\.py"):
        Rules("taste", "kitchen.py")[OpKind.NEGATE]


def test_a_plain_call_takes_its_key_and_its_argument_from_the_table() -> None:
    ev = SymbolicEvaluator(SHARP)
    a = ev.fresh(3)
    ev.rotate(a, 5)
    ev.plain_call("rotate", a, argument=5 + SHARP.slots)
    trace = ev.builder.finish(TraceMeta(workload="two", params=SHARP.to_dict(), reading="trace"))
    assert [(row["kind"], row["key"], row["step"]) for row in trace.operations.to_pylist()] == [
        ("rotate", rotation_key(5, SHARP.ring_dim), 5)
    ] * 2
    with pytest.raises(UsageError, match="rotate: the step is 'x', a str: give a whole number"):
        ev.plain_call("rotate", a, argument="x")
    with pytest.raises(UsageError, match="rotate: a step of 0 turns nothing, and no key does it"):
        ev.plain_call("rotate", a, argument=SHARP.slots)
    with pytest.raises(UsageError, match="square"):
        ev.plain_call("square", 1.0)


def test_the_table_says_which_operations_make_complex_values_of_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    ev = ClearEvaluator(SHARP)
    given = {"step": 1, "limbs": 2}
    for row in filter(is_plain, operations().values()):
        if row.argument != "series":
            a = ev.encrypt([0.5, 0.25])
            operands = [a] + [ev.decompose(a) if cls == "digits" else a for cls in row.takes[1:]]
            made = getattr(ev, row.name)(*operands, *([given[row.argument]] if row.argument != "none" else []))
            assert np.iscomplexobj(made) == row.is_complex, row.name
    row_writer = SymbolicEvaluator(SHARP)
    monkeypatch.setitem(TRAITS, OpKind.NEGATE, replace(TRAITS[OpKind.NEGATE], is_complex=True))
    real, turned = row_writer.square(row_writer.fresh(3)), row_writer.negate(row_writer.fresh(3))
    marked = ComplexValues.of(row_writer.builder)
    assert [marked.has(each.object_id, row_writer.builder) for each in (real, turned)] == [False, True]


def test_an_operation_without_a_meaning_depends_on_all_its_operands() -> None:
    def traced(first: int, second: int) -> Trace:
        builder = TraceBuilder(SHARP)
        inputs = [builder.ciphertext(3) for _ in range(3)]
        for each in inputs:
            builder.add(OpKind.ENCRYPT, limbs_in=3, limbs_out=3, output=each)
        builder.add(
            OpKind.COMPOSITE,
            limbs_in=3,
            limbs_out=3,
            operands=[inputs[first], inputs[second]],
            output=builder.ciphertext(3),
            origin=ORIGIN_COMPOSITE,
        )
        return builder.finish(TraceMeta(workload="whole", params=SHARP.to_dict(), reading="trace"))

    assert differing_results(traced(0, 1), traced(0, 1)) == []
    assert differing_results(traced(0, 1), traced(0, 2)) != []
