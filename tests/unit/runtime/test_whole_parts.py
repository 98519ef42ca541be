"""Parts of whole programs: the model of the engine's memory, lanes by cost, the sharing of a budget."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import BudgetTooSmall
from penstock.runtime.native.compiled import ArenaModel, Compiled, CompilingEngine, CompilingEvaluator
from penstock.runtime.native.lanes import choose_lanes, play
from penstock.runtime.native.room import shared_room, why
from penstock.runtime.native.sharing import Wanted
from penstock.scheme.params import catalogue
from penstock.scheme.traces.schema import TraceMeta

PARAMS = catalogue.get("insecure-ci")


def test_a_row_goes_into_the_smallest_kept_one_that_holds_it() -> None:
    arena = ArenaModel(100)
    arena.give(arena.take([40, 20, 30]))
    assert arena.held_bytes == 90
    assert arena.take([25]) == [30]
    assert arena.take([10]) == [20]
    assert arena.take([9]) == [9]  # 40 is more than four times as large
    assert arena.most_bytes == 99


def test_of_too_many_kept_rows_the_oldest_leaves() -> None:
    arena = ArenaModel(50)
    arena.give(arena.take([30, 15]))
    arena.give(arena.take([60]))  # never kept
    arena.give(arena.take([12]))  # into the 15
    assert arena.held_bytes == 45
    arena.give(arena.take([31]))
    assert arena.held_bytes == 46  # the 30 left
    assert arena.most_bytes == 105


def branches(count: int, length: int) -> tuple[Compiled, CompilingEvaluator]:
    """Independent chains of squares, added up."""
    ev = CompilingEvaluator(CompilingEngine(PARAMS, lambda limbs: 2.0**40))
    ends = []
    for _ in range(count):
        a = ev.encrypt(np.ones(4))
        for _ in range(length):
            a = ev.add(a, a)
        ends.append(a)
    total = ends[0]
    for each in ends[1:]:
        total = ev.add(total, each)
    ev.decrypt(total)
    return ev.engine.compiled, ev


def test_independent_chains_run_side_by_side_and_one_chain_does_not() -> None:
    meta = TraceMeta(workload="x", params=PARAMS.to_dict(), reading="trace")
    for count, lanes in ((4, 2), (1, 1)):
        compiled, ev = branches(count, 30)
        found = choose_lanes(compiled, ev.builder.finish(meta), 2, keys_in_order=False)
        assert found.count == lanes
        assert "side by side: predicted" in found.why if lanes > 1 else "on 2 threads: predicted" in found.why


def test_a_list_schedule_is_that_of_a_hand_made_one() -> None:
    compiled, _ = branches(2, 2)
    # Inputs come at their first use: input, add, add for each chain, then add and output.
    alone = np.array([0.0, 2.0, 2.0, 0.0, 3.0, 3.0, 1.0, 0.0])
    assert len(compiled.tasks) == len(alone)
    assert play(compiled, alone, alone / 2, 2, keys_in_order=False) == pytest.approx(6.0 + 0.5)
    assert play(compiled, alone, alone / 2, 1, keys_in_order=False) == pytest.approx(5.5)


def test_an_input_comes_into_memory_at_its_first_use() -> None:
    compiled, _ = branches(3, 1)
    one = PARAMS.ciphertext_bytes(PARAMS.num_q)
    live, held, with_inputs = compiled.held_bytes(0)
    assert live == 4 * one  # two ends, the third chain's input and its sum
    assert live <= held <= with_inputs < held + 3 * one


def test_blocks_are_noted_in_the_order_in_which_an_operation_takes_them() -> None:
    params = catalogue.get("openfhe-bench")
    ev = CompilingEvaluator(CompilingEngine(params, lambda limbs: 2.0**40))
    product = ev.mult(ev.encrypt(np.ones(4)), ev.encrypt(np.ones(4)))
    one, over_p = params.polynomial_bytes(params.num_q), params.polynomial_bytes(params.num_q + params.num_p)
    digits = params.active_digits(params.num_q) * over_p
    assert ev.engine.compiled.scratch_rows[-1] == [one] * 3 + [digits, over_p, over_p, one]
    lower = params.polynomial_bytes(params.num_q - 1)
    ev.mult(product, product)
    assert ev.engine.compiled.scratch_rows[-1][:7] == [lower] * 4 + [lower] * 3


def test_a_sum_of_numbers_has_the_limbs_behind_the_rescaling_of_its_terms() -> None:
    params = catalogue.get("openfhe-bench")
    ev = CompilingEvaluator(CompilingEngine(params, lambda limbs: 2.0**40))
    products = [ev.square(ev.encrypt(np.ones(4))) for _ in range(2)]
    ev.weighted(products, [0.5, 0.25], {})
    assert ev.engine.compiled.value_rows[-1] == [params.polynomial_bytes(params.num_q - 1)] * 2


WANTED = {
    **{name: Wanted.always(size) for name, size in {"process": 100, "tables": 10, "values": 50, "kept": 5}.items()},
    "keys": Wanted(all_bytes=100, least_bytes=10, saved_s=9.0),
    "constants": Wanted(all_bytes=40, least_bytes=20, saved_s=4.0),
    "inputs": Wanted(all_bytes=30, least_bytes=5, saved_s=0.1),
}


def test_bytes_go_where_a_byte_saves_most() -> None:
    room = shared_room(WANTED, 165 + 35 + 20 + 30)
    assert [room.given(name) for name in ("constants", "keys", "inputs")] == [40, 40, 5]
    assert room.total_bytes == 250
    assert why(room).startswith("constants 100% in memory")
    free = shared_room(WANTED, None)
    assert free.total_bytes == 165 + 170
    assert why(free) == ""


def test_too_little_memory_says_how_much_is_needed() -> None:
    with pytest.raises(BudgetTooSmall, match=r"process 100 B, .*inputs 5 B\); raise it to 200 bytes or more"):
        shared_room(WANTED, 199)
    assert shared_room(WANTED, 200).total_bytes == 200
