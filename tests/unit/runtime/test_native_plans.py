"""The plan of a program's refreshes: by cost, within the budget, and never first for values that are not real."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.running.trace import trace_workload
from penstock.runtime.native.plans import BABY_STEPS, ORDERS, choose_plan, nominal_s, refreshes_real_values
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.kernels import kernel_work

PARAMS = catalogue.get("insecure-resnet20")


def refresh(params: CkksParameters) -> Trace:
    return trace_workload("bootstrapping", params, "ci-all-slots")


def test_the_cheapest_plan_is_taken_and_all_others_are_named() -> None:
    found = choose_plan(PARAMS, refresh, is_real=lambda: True)
    plans = [found.plan, *found.others]
    assert len({each.name for each in plans}) == len(BABY_STEPS) * len(ORDERS)
    assert found.plan.predicted_s <= 1.03 * min(each.predicted_s for each in plans)
    assert all(each.name in found.why for each in plans)
    assert "of computing and reading in all" in found.why
    assert found.plan.params.bootstrap is not None
    assert found.plan.params.bootstrap.order == "stc-first"


def test_slots_come_first_only_where_the_refreshed_values_are_real() -> None:
    found = choose_plan(PARAMS, refresh, is_real=lambda: False)
    assert found.plan.params.bootstrap is not None
    assert found.plan.params.bootstrap.order == "stc-last"
    assert "stc-first" not in found.why


def test_values_with_an_imaginary_part_are_seen() -> None:
    def program(ev: Any, factor: complex) -> None:
        a = ev.encrypt(np.ones(PARAMS.slots))
        ev.bootstrap(ev.mult_by_i(a) if factor.imag else a)

    assert refreshes_real_values(lambda ev: program(ev, 1), PARAMS)
    assert not refreshes_real_values(lambda ev: program(ev, 1j), PARAMS)


def test_a_small_budget_takes_the_plan_that_reads_less() -> None:
    wide = choose_plan(PARAMS, refresh)
    budget = wide.plan.key_bytes // 8
    small = choose_plan(PARAMS, refresh, budget_bytes=budget)
    plans = [small.plan, *small.others]
    assert small.plan.read_bytes > small.plan.key_bytes
    assert small.plan.predicted_s <= 1.03 * min(each.predicted_s for each in plans)
    assert small.plan.read_bytes <= 1.1 * min(each.read_bytes for each in plans)


def test_whole_keys_that_do_not_fit_in_memory_are_left_to_a_plan_of_fewer() -> None:
    fewest = min(
        (each for found in [choose_plan(PARAMS, refresh)] for each in (found.plan, *found.others)),
        key=lambda each: each.whole_bytes,
    )
    assert choose_plan(PARAMS, refresh, memory_bytes=fewest.whole_bytes).plan.whole_bytes == fewest.whole_bytes
    assert choose_plan(PARAMS, refresh, memory_bytes=1).plan.whole_bytes == fewest.whole_bytes


def test_a_budget_below_one_key_is_refused_with_the_one_that_holds() -> None:
    least = PARAMS.key_bytes()
    with pytest.raises(UsageError, match=f"raise --key-budget to {least} bytes"):
        choose_plan(PARAMS, refresh, budget_bytes=least - 1)
    assert choose_plan(PARAMS, refresh, budget_bytes=least).plan.read_bytes > 0


def test_a_set_that_names_its_plan_and_a_program_that_does_not_refresh_have_no_choice() -> None:
    named = with_few_keys(PARAMS)
    assert named.bootstrap is not None
    named = replace(named, bootstrap=replace(named.bootstrap, baby_steps=8))
    found = choose_plan(named, refresh)
    assert (found.plan.params, found.others, found.why) == (named, (), "")
    plain = choose_plan(PARAMS, lambda params: trace_workload("inner-product", params, "ci"))
    assert (plain.others, plain.why) == ((), "")


def test_nominal_seconds_add_up() -> None:
    rotate, rescale = (kernel_work(kind, PARAMS, 9) for kind in (OpKind.ROTATE, OpKind.RESCALE))
    assert nominal_s(rotate + rescale) == pytest.approx(nominal_s(rotate) + nominal_s(rescale))
    assert nominal_s(rotate) > nominal_s(rescale) > 0
