"""One byte budget: its shares by class, what is refused, and the memory of a program that runs step by step."""

from __future__ import annotations

import pytest

from penstock.errors import BudgetTooSmall
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.native.engine import make_context
from penstock.runtime.native.metered import MeteredEngine, meter
from penstock.runtime.native.sharing import MemoryPlan, Part, Wanted, plan_memory
from penstock.scheme.params import catalogue

PARTS = [
    Part(name="process", wanted=Wanted.always(100), phases=("scan", "compare")),
    Part(name="keys", wanted=Wanted(all_bytes=90, least_bytes=10, saved_s=8.0), phases=("scan", "compare")),
    Part(name="records", wanted=Wanted(all_bytes=60, least_bytes=20, saved_s=40.0, step_bytes=10), phases=("scan",)),
    Part(name="values", wanted=Wanted.always(50), phases=("compare",)),
    Part(name="constants", wanted=Wanted(all_bytes=30, least_bytes=5, saved_s=1.0), phases=("compare",)),
]


def given(plan: MemoryPlan) -> dict[str, int]:
    return {share.name: share.given_bytes for share in plan.shares}


def test_without_a_budget_each_class_gets_all_and_the_fuller_phase_is_the_peak() -> None:
    plan = plan_memory(PARTS, None, "--memory")
    assert given(plan) == {"process": 100, "keys": 90, "records": 60, "values": 50, "constants": 30}
    assert plan.total_bytes == 100 + 90 + 50 + 30
    assert plan.least_bytes == 100 + 10 + 50 + 5


@pytest.mark.parametrize("memory", [165, 170, 200, 213, 245, 269, 500])
def test_no_phase_takes_more_than_the_budget_and_each_class_has_its_least(memory: int) -> None:
    plan = plan_memory(PARTS, memory, "--memory")
    assert plan.total_bytes <= memory
    for share in plan.shares:
        assert share.wanted.least_bytes <= share.given_bytes <= share.wanted.all_bytes


def test_bytes_go_where_one_saves_most_and_classes_of_other_phases_do_not_compete() -> None:
    # A byte of records saves most. They lie in the phase that values leave free; keys get what both leave.
    assert given(plan_memory(PARTS, 205, "--memory"))["records"] == 60
    assert given(plan_memory(PARTS, 205, "--memory"))["keys"] == 45
    assert given(plan_memory(PARTS, 250, "--memory")) == {
        "process": 100, "keys": 90, "records": 60, "values": 50, "constants": 10
    }  # fmt: skip
    # Whole blocks only.
    assert given(plan_memory(PARTS, 167, "--memory"))["records"] == 50


def test_too_little_is_refused_with_the_class_the_least_and_the_remedy() -> None:
    with pytest.raises(BudgetTooSmall) as refused:
        plan_memory(PARTS, 130, "--memory")
    said = str(refused.value)
    assert "in the phase 'compare' the class 'values' needs 50 B at least, and 20 B are left" in said
    assert "raise --memory to 165 B or more" in said
    assert plan_memory(PARTS, 165, "--memory").total_bytes == 165


def test_a_plan_says_what_each_class_gets_and_its_least() -> None:
    plan = plan_memory(PARTS, 200, "--memory")
    content = plan.to_dict()
    assert content["memory_bytes"] == 200
    assert content["classes"]["records"] == {
        "given_bytes": 60, "least_bytes": 20, "all_bytes": 60, "phases": ["scan"]
    }  # fmt: skip
    assert content["predicted_peak_bytes"] == plan.total_bytes <= 200
    assert "at least 165 B: process 100 B" in plan.words()


def test_values_end_where_python_lets_go_of_them() -> None:
    params = catalogue.get("insecure-ci")
    one = params.polynomial_bytes(params.num_q)

    def program(keeps: bool) -> tuple[int, int]:
        def run(ev: object, engine: MeteredEngine) -> None:
            made = []
            for _ in range(5):
                state = ScaleState(params.num_q, 1)
                a = Cipher(ev.builder.ciphertext(params.num_q), state, 2, engine.given(params.num_q))  # type: ignore[attr-defined]
                doubled = ev.add(a, a)  # type: ignore[attr-defined]
                made.append(doubled if keeps else None)

        return meter(run, params, make_context(params)).held_bytes(0)

    # The operand and its sum; the sums before are alive, or one that the loop's name still holds.
    assert program(keeps=True)[0] == 2 * one * 6
    assert program(keeps=False)[0] == 2 * one * 3
