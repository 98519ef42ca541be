"""Several ciphertexts through one circuit: as each alone, with every key used for all of them in a row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.program.evaluator.abreast import Abreast, Bundle, levelled
from penstock.program.evaluator.bounding import BoundingEvaluator
from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.traces.expand import expanded
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.toy import toy_bootstrap

PERIOD = 16
SETS = {
    "few-keys": with_few_keys(toy_bootstrap(Scaling.FLEXIBLE_AUTO, 64)),
    "fixed-manual": with_few_keys(toy_bootstrap(Scaling.FIXED_MANUAL, 64)),
    "accelerator": catalogue.get("sharp"),
    "min-ks": catalogue.get("ark"),
}


def refreshed(params: CkksParameters, count: int, *, together: bool, evaluator: Any = SymbolicEvaluator) -> Any:
    """The evaluator after `count` refreshes of fresh ciphertexts at the fewest levels."""
    ev = evaluator(params)
    given = [ev.mod_drop(ev.encrypt(np.zeros(params.slots)), 2) for _ in range(count)]
    results = ev.bootstrap_many(given, PERIOD) if together else [ev.bootstrap(each, PERIOD) for each in given]
    for each in results:
        ev.decrypt(each)
    return ev


def trace_of(ev: Any) -> Trace:
    return ev.builder.finish(TraceMeta(workload="refresh", params=ev.params.to_dict(), reading="trace"))


def operations(trace: Trace) -> list[tuple[Any, ...]]:
    columns = ["kind", "limbs_in", "limbs_out", "key", "step"]
    return [tuple(row[name] for name in columns) for row in expanded(trace)[0].operations.to_pylist()]


@pytest.mark.parametrize("name", SETS)
def test_each_key_switch_of_one_refresh_is_there_for_all_ciphertexts_in_a_row(name: str) -> None:
    alone, three = (trace_of(refreshed(SETS[name], count, together=True)) for count in (1, 3))
    assert list(problems(three)) == []
    once, thrice = ([row for row in operations(trace) if row[3] is not None] for trace in (alone, three))
    runs, found = ([list(run) for _, run in groupby(rows, key=lambda row: row[3])] for rows in (once, thrice))
    assert [Counter(run) for run in found] == [Counter(run * 3) for run in runs]


@pytest.mark.parametrize("name", SETS)
def test_the_operations_are_those_of_as_many_refreshes_one_by_one(name: str) -> None:
    together, apart = (trace_of(refreshed(SETS[name], 3, together=each)) for each in (True, False))
    assert Counter(operations(together)) == Counter(operations(apart))
    assert together.view(composites=True).count_by_kind() == apart.view(composites=True).count_by_kind()


def test_a_composite_that_names_another_result_than_its_expansion_is_refused() -> None:
    trace = trace_of(refreshed(SETS["few-keys"], 2, together=True))
    rows = trace.operations.to_pylist()
    own = [row for row in rows if row["origin"] == "composite"]
    assert len(own) == 2
    own[1]["output"] = rows[own[0]["id"] - 3]["output"]
    broken = replace(trace, operations=type(trace.operations).from_pylist(rows, schema=trace.operations.schema))
    assert any("its expansion ends" in problem for problem in problems(broken))


def test_openfhes_own_refresh_is_called_for_one_ciphertext_after_the_other() -> None:
    params = toy_bootstrap(Scaling.FLEXIBLE_AUTO, 64)
    together, apart = (trace_of(refreshed(params, 2, together=each)) for each in (True, False))
    assert together.operations.equals(apart.operations)


def test_the_tally_counts_them_all() -> None:
    params = SETS["few-keys"]
    together, apart = (
        refreshed(params, 3, together=each, evaluator=CountingEvaluator).tally("refresh", "-") for each in (True, False)
    )
    assert (together.counts, together.calls, together.keys) == (apart.counts, apart.calls, apart.keys)
    assert together.composite_encodings == apart.composite_encodings
    # All ciphertexts of a step are there at the same time.
    assert together.live_bytes > 1.5 * apart.live_bytes


@pytest.mark.parametrize("scaling", [Scaling.FLEXIBLE_AUTO, Scaling.FIXED_MANUAL])
def test_values_and_their_noise_are_those_of_refreshes_one_by_one(scaling: Scaling) -> None:
    params = with_few_keys(toy_bootstrap(scaling, 64))
    x = np.random.default_rng(5).uniform(-1, 1, (3, PERIOD))
    errors = []
    for together in (True, False):
        ev = NoisyEvaluator(params, exact_ratio=True)
        given = [ev.mod_drop(ev.encrypt(np.tile(each, 4)), limbs) for each, limbs in zip(x, (2, 4, 3), strict=True)]
        results = ev.bootstrap_many(given, PERIOD) if together else [ev.bootstrap(each, PERIOD) for each in given]
        found = np.stack([ev.decrypt(each)[:PERIOD].real for each in results])
        errors.append(float(np.sqrt(np.mean((found - x) ** 2))))
    assert max(errors) < 1e-3
    assert 0.3 < errors[0] / errors[1] < 3


def test_the_clear_reading_refreshes_each_and_the_bounding_one_none() -> None:
    params = SETS["few-keys"]
    vectors = [np.arange(64.0), np.ones(64)]
    for found, expected in zip(
        ClearEvaluator(params).bootstrap_many(vectors, PERIOD),
        [ClearEvaluator(params).bootstrap(each, PERIOD) for each in vectors],
        strict=True,
    ):
        assert np.array_equal(found, expected)
    ev = BoundingEvaluator(params)
    with pytest.raises(PenstockError, match="the program bootstraps"):
        ev.bootstrap_many([ev.encrypt(each) for each in vectors])


def test_operands_of_other_levels_are_lowered_to_the_fewest() -> None:
    for name in ("few-keys", "fixed-manual"):
        ev = SymbolicEvaluator(SETS[name])
        a = ev.fresh(5)
        product, low = ev.square(a), ev.fresh(3)
        made = levelled(ev, [a, product, low])
        assert [each.state for each in made] == [low.state] * 3
        assert levelled(ev, [a, a])[0] is a


def test_only_steps_of_circuits_run_abreast() -> None:
    ev = SymbolicEvaluator(SETS["few-keys"])
    abreast = Abreast(ev)
    bundle = Bundle.of([ev.fresh(4), ev.fresh(4)])
    assert len({each.object_id for each in abreast.rotate(bundle, 1).members}) == 2  # type: ignore[attr-defined]
    for refused in (
        lambda: abreast.bootstrap(bundle),
        lambda: abreast.bootstrap_many([bundle]),
        lambda: abreast.chebyshev_series(bundle, [1.0], -1.0, 1.0),
        lambda: abreast.encrypt(np.zeros(4)),
        lambda: abreast.decrypt(bundle),
    ):
        with pytest.raises(PenstockError, match="several ciphertexts at once"):
            refused()
