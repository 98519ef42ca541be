"""Every pass, alone and together, keeps what random programs and real workloads compute, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.rewriting import PASSES, RewriteOptions, rewrite
from penstock.lab.rewriting.interpret import interpret
from penstock.lab.rewriting.program import Program
from penstock.lab.rewriting.reorder import loaded_key_bytes
from penstock.program.evaluator.rows import MULTIPLICATIONS
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import trace_workload
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.examples import at_most
from support.narrow_networks import narrow_network
from support.toy import toy

STEPS = (1, 2, 3, 4, 6, 8, -1, -2, 31, 32)
WORDS = st.tuples(
    st.sampled_from(
        ("add", "sub", "rotate", "many", "turned", "fold", "mult", "dot", "plain", "conjugate", "scalar", "negate")
    ),
    st.integers(0, 7),
    st.integers(0, 7),
    st.integers(0, len(STEPS) - 1),
)
ORDERS = st.lists(st.sampled_from(tuple(PASSES)), min_size=1, max_size=6)
OPTIONS = st.builds(
    RewriteOptions,
    unroll=st.booleans(),
    stretch=st.sampled_from((1.0, 2.0, 8.0)),
    repeats=st.integers(1, 4),
    window=st.sampled_from((1, 5, 64)),
    cache_bytes=st.sampled_from((0, 10_000_000, 40_000_000)),
)


def program(words: Sequence[tuple[str, int, int, int]], scaling: Scaling, *, decrypted: bool = True) -> Trace:
    """A program that does what `words` say to the latest eight ciphertexts; the last three are decrypted, or none."""
    params = toy(scaling=scaling)
    ev = SymbolicEvaluator(params)
    plain = ev.encode(np.ones(4))
    pool: list[Any] = [ev.encrypt(np.zeros(4)) for _ in range(3)]
    for what, i, j, s in words:
        a, b, step = pool[-1 - i % len(pool)], pool[-1 - j % len(pool)], STEPS[s]
        if what in ("mult", "dot", "plain", "scalar") and min(ev.levels(a), ev.levels(b)) < 2:
            continue
        if what == "add":
            pool.append(ev.add(a, b))
        elif what == "sub":
            pool.append(ev.sub(a, b))
        elif what == "rotate":
            pool.append(ev.rotate(a, step))
        elif what == "many":
            pool += ev.rotate_many(a, STEPS[s : s + 3])
        elif what == "turned":
            pool.append(ev.sub(ev.add(ev.rotate(a, step), ev.rotate(b, step)), ev.rotate(a, 2 * step)))
        elif what == "fold":
            pool.append(ev.add(a, ev.rotate(a, step)))
        elif what == "mult":
            pool.append(ev.rescale(ev.mult(a, b)))
        elif what == "dot":
            pool.append(ev.add(ev.rescale(ev.square(a)), ev.rescale(ev.mult(a, b))))
        elif what == "plain":
            pool.append(ev.rescale(ev.mult(a, plain)))
        elif what == "conjugate":
            pool.append(ev.add(ev.conjugate(a), ev.conjugate(b)))
        elif what == "scalar":
            pool.append(ev.add(ev.rescale(ev.mult(a, 0.5)), 1.0))
        else:
            pool.append(ev.negate(a))
    for each in pool[-3:] if decrypted else ():
        ev.decrypt(each)
    return ev.builder.finish(TraceMeta(workload="random", params=params.to_dict(), reading="trace"))


def holds(before: Trace, orders: Sequence[Sequence[str]], options: RewriteOptions) -> None:
    """Passes in each of these orders leave a sound trace with the results of `before`."""
    expected = interpret(before)
    for names in orders:
        after = rewrite(before, names, options)
        assert list(problems(after)) == []
        found = interpret(after, undecrypted=expected.keys())
        assert found.keys() == expected.keys()
        assert [each for each, values in found.items() if not values.equals(expected[each])] == []


def scales_fit(trace: Trace) -> None:
    """Under manual scaling: products have operands of degree 1, sums of one degree, rescales take a product."""
    degree: dict[int, int] = {}
    for op in Program.of(trace).ops:
        found = {degree[each] for each in op.operands}
        if op.kind is OpKind.ENCRYPT:
            found = {1}
        elif op.kind in MULTIPLICATIONS:
            assert found == {1}
            found = {2}
        elif op.kind is OpKind.RESCALE:
            assert found == {2}
            found = {1}
        assert len(found) == 1
        if op.output is not None:
            (degree[op.output],) = found


@given(
    words=st.lists(WORDS, max_size=40),
    names=ORDERS,
    options=OPTIONS,
    scaling=st.sampled_from(Scaling),
    decrypted=st.booleans(),
)
def test_random_programs_keep_their_results(
    words: list[tuple[str, int, int, int]],
    names: list[str],
    options: RewriteOptions,
    scaling: Scaling,
    decrypted: bool,
) -> None:
    before = program(words, scaling, decrypted=decrypted)
    holds(before, [names], options)
    if scaling is Scaling.FIXED_MANUAL:
        scales_fit(rewrite(before, names, options))


@given(words=st.lists(WORDS, max_size=40), room=st.integers(0, 40_000_000))
@at_most(40)
def test_no_order_loads_more_than_the_old_one(words: list[tuple[str, int, int, int]], room: int) -> None:
    before = program(words, Scaling.FIXED_MANUAL)
    after = rewrite(before, ["reorder"], RewriteOptions(cache_bytes=room))
    old, new = Program.of(before), Program.of(after)
    assert loaded_key_bytes(new, new.ops, room) <= loaded_key_bytes(old, old.ops, room)


WORKLOADS = (
    ("logistic-regression", "insecure-ci", "ci"),
    ("sorting", "insecure-resnet20-multiplexed", "ci"),
    ("bootstrapping", "insecure-resnet20", "ci"),
    ("cnn", "insecure-ci", "ci"),
    ("matrix-multiplication", "insecure-ci", "ci"),
    ("bootstrapping", "sharp", None),
)


@pytest.mark.parametrize(("name", "params", "size"), WORKLOADS, ids=lambda value: str(value))
def test_workloads_keep_their_results(name: str, params: str, size: str | None) -> None:
    before = trace_workload(name, params, size)
    holds(before, [[each] for each in PASSES], RewriteOptions())
    holds(before, [["min-ks", "additions", "hoist", "reorder", "seeded"]], RewriteOptions(unroll=True))


def test_a_network_keeps_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    params, data = narrow_network("resnet20-multiplexed", monkeypatch)
    before = trace_workload("resnet20-multiplexed", params, "ci", 1, data)
    holds(before, [["additions", "min-ks", "hoist", "reorder", "seeded"]], RewriteOptions())
