"""The counting reading against the trace: shapes, keys, encodings and what is alive, equal number by number."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.program import workloads
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.counting import CountingEvaluator, structure
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.tally import Tally, tally_of
from penstock.program.running import trace_workload
from penstock.program.running.counting import count_variants, count_workload
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.variation import varied
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.toy import toy, toy_bootstrap

AT_SHARP = ("logistic-regression", "resnet20", "resnet20-multiplexed")


def assert_equal(counted: Tally, trace: Trace) -> None:
    expected = tally_of(trace)
    for field in fields(Tally):
        assert getattr(counted, field.name) == getattr(expected, field.name), field.name
    assert list(counted.keys) == list(expected.keys) == trace.view().key_ids()


@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_is_counted_as_its_trace_is(name: str) -> None:
    assert_equal(count_workload(name, size="ci"), trace_workload(name, size="ci"))


@pytest.mark.parametrize("name", AT_SHARP)
def test_programs_of_accelerators_are_counted_as_their_traces_are(name: str) -> None:
    assert_equal(count_workload(name, "sharp"), trace_workload(name, "sharp"))


def everything(ev, bootstraps: bool):
    """Each operation of the protocol, several times and in states that differ."""
    a, b = ev.encrypt(np.ones(ev.params.slots), name="a"), ev.encrypt(np.ones(4))
    plain, made = ev.encode(np.ones(4), name="mask"), []
    for again in range(3):
        c = ev.rescale(ev.mult(a, b))
        d = ev.relinearize(ev.add(ev.mult_no_relin(a, b), ev.mult_no_relin(b, b)))
        e = ev.add(ev.rescale(d), ev.negate(c))
        e = ev.rescale(ev.mult(ev.sub(ev.sub(2.0, e), 1.0), plain))
        e = ev.add(e, ev.encode(lambda: np.ones(8)))
        e = ev.rescale(ev.mult(ev.sub(e, plain), 0.5))
        turned = ev.rotate_many(ev.square(c) if again else c, [1, 0, -3, 5, again])
        weights = [np.arange(4.0), lambda: np.ones(8), np.ones(2)]
        made_here = [partial(np.full, 8, float(each)) for each in range(3)]
        sums = [
            ev.weighted_sum(terms, made_here)
            for terms in ([c, c, c], [c, b, c], [b, b, b], ev.rotate_many(c, [1, 0, 2]))
        ]
        sums.append(ev.weighted_sum([c, c, c], [ev.encode(weights[0]), plain, *weights[1:2]]))
        sums.append(ev.weighted_sum([b], made_here[:1]))
        sums.append(ev.weighted_sum([b, b], [plain, plain]))
        e = ev.add(e, ev.rescale(ev.add(sums[0], sums[-3])))
        made += [ev.rescale(each) for each in sums]
        made += [ev.conjugate(ev.rotate(e, again - 1)), *turned]
        if not again:
            a = ev.mod_drop(a, a.state.limbs - 1)
    if ev.params.scaling is Scaling.FIXED_AUTO:  # a series has no expansion there
        return ev.decrypt(made[0])
    f = ev.chebyshev_series(made[0], [1.0, 0.5, 0.25, 0.125, 0.1, 0.05, 0.01], -2.0, 2.0)
    f = ev.chebyshev_series(made[0], [1.0, 0.5, 0.0], -1.0, 1.0) if ev.levels(f) < 3 else f
    if bootstraps:
        f = ev.bootstrap(ev.bootstrap(f))
    return ev.decrypt(f)


def read(params, program, *arguments) -> tuple[Tally, Trace]:
    counting, tracing = CountingEvaluator(params), SymbolicEvaluator(params)
    for ev in (counting, tracing):
        program(ev, *arguments)
    meta = TraceMeta(workload="w", params=params.to_dict(), reading="trace", size="s")
    return counting.tally("w", "s"), tracing.builder.finish(meta)


@pytest.mark.parametrize(
    ("scaling", "bootstraps"),
    [
        (Scaling.FIXED_MANUAL, False),
        (Scaling.FIXED_MANUAL, True),
        (Scaling.FLEXIBLE_AUTO, False),
        (Scaling.FLEXIBLE_AUTO, True),
        (Scaling.FIXED_AUTO, False),
        (Scaling.FLEXIBLE_AUTO_EXT, False),
        (Scaling.FLEXIBLE_AUTO_EXT, True),
    ],
)
def test_every_operation_is_counted_under_every_scaling_rule(scaling: Scaling, bootstraps: bool) -> None:
    params = toy_bootstrap(scaling) if bootstraps else toy(scaling=scaling, q_bits=(60,) + (50,) * 14)
    counted, trace = read(params, everything, bootstraps)
    assert_equal(counted, trace)
    assert any(shape.polynomials == 3 for shape in counted.counts)


@pytest.mark.parametrize("scaling", [Scaling.FIXED_MANUAL, Scaling.FLEXIBLE_AUTO])
def test_weights_and_terms_of_a_weighted_sum_are_as_many(scaling: Scaling) -> None:
    params = toy(scaling=scaling)
    for ev in (CountingEvaluator(params), SymbolicEvaluator(params), ClearEvaluator(params)):
        a, weight = ev.encrypt(np.ones(4)), partial(np.ones, 4)
        ev.weighted_sum([a, a], [weight, weight])
        for terms, weights in (([a, a], [weight]), ([a], [weight, weight])):
            with pytest.raises(UsageError, match="one weight for each term"):
                ev.weighted_sum(terms, weights)


def test_what_a_chain_has_learned_is_right_for_others() -> None:
    """Rules and series are kept from chain to chain; bootstrapping is not."""
    base = catalogue.get("insecure-resnet20")
    for depth in (24, 31, 36, 25, 24):
        params = varied(base, depth=depth)
        assert_equal(count_workload("resnet20", params, "ci"), trace_workload("resnet20", params, "ci"))


def naive_live_bytes(trace: Trace) -> int:
    """Step by step: what is alive at each row that the program called, and inside its composite if it is one."""
    rows = trace.operations.to_pylist()
    size = {row["id"]: row["bytes"] for row in trace.objects.to_pylist()}
    inside = {
        i: [r for r in rows if r["origin"] == "modelled" and (r["scope"] + "/").startswith(row["scope"] + "/")]
        for i, row in enumerate(rows)
        if row["origin"] == "composite"
    }
    called = [(i, row) for i, row in enumerate(rows) if row["origin"] != "modelled"]

    def held(row) -> set[int]:
        return {each for each in (*row["operands"], row["output"], row["plaintext"]) if each is not None}

    def most(steps: list[set[int]], extra: list[int]) -> int:
        worst = 0
        for t in range(len(steps)):
            before, after = set().union(*steps[: t + 1]), set().union(*steps[t:])
            worst = max(worst, sum(size[each] for each in before & after) + extra[t])
        return worst

    extra = []
    for i, row in called:
        own = [held(r) - held(row) - {r["plaintext"]} for r in inside.get(i, [])]
        extra.append(most(own, [0] * len(own)) if own else 0)
    return most([held(row) for _, row in called], extra)


def test_live_bytes_equal_a_count_step_by_step() -> None:
    for bootstraps in (False, True):
        params = toy_bootstrap(Scaling.FIXED_MANUAL) if bootstraps else toy(q_bits=(60,) + (50,) * 14)
        counted, trace = read(params, everything, bootstraps)
        assert counted.live_bytes == naive_live_bytes(trace)
    assert count_workload("cnn", size="ci").live_bytes == naive_live_bytes(trace_workload("cnn", size="ci"))


def test_bytes_of_keys_equal_those_of_the_rows() -> None:
    trace = trace_workload("logistic-regression", size="ci")
    counted, params = count_workload("logistic-regression", size="ci"), trace.parameters()
    uses = [(r["key"], r["limbs_in"]) for r in trace.view().operations.to_pylist() if r["key"] is not None]
    for form in KeyForm:
        assert counted.key_bytes_touched(form) == sum(params.key_bytes(limbs, form) for _, limbs in uses)
        most = {key: max(limbs for used, limbs in uses if used == key) for key, _ in uses}
        ends = most.values() if form.is_truncated else [params.num_q] * len(most)
        assert counted.key_bytes(form) == sum(params.key_bytes(limbs, form) for limbs in ends)


@pytest.mark.parametrize("name", ["matrix-multiplication", "resnet20"])
def test_one_reading_counts_for_sets_with_other_digits(name: str) -> None:
    base = catalogue.get(workloads.get(name).SIZES["ci"].params)
    variants = [varied(base, dnum=dnum) for dnum in (base.dnum, 1, 2, 5)]
    assert len({structure(params) for params in variants}) == 1
    tallies = count_variants(name, variants, "ci")
    assert len({tally.live_bytes for tally in tallies}) > 1
    for params, tally in zip(variants, tallies, strict=True):
        assert tally == count_workload(name, params, "ci")
    assert_equal(tallies[-1], trace_workload(name, variants[-1], "ci"))


def test_reading_the_same_composites_at_other_parameters_does_not_change_a_tally() -> None:
    before = count_workload("logistic-regression", "sharp")
    count_workload("resnet20-multiplexed", "sharp")
    assert count_workload("logistic-regression", "sharp") == before
    assert before.calls["bootstrap"] > 0
