"""The placement rule against every placement on short chains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.bootstrap import refreshed_levels
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.placement import Chain, is_covered, start_levels
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.params import catalogue


def placed(blocks: Sequence[int], levels: int, refreshed: int, reserve: int = 0) -> list[bool]:
    """Before which blocks of a chain the rule bootstraps.

    Args:   blocks: levels that each block takes; levels: of the input; refreshed: of a refreshed ciphertext;
            reserve: levels that bootstrapping takes of its input.
    Raises: ParamsError: a block takes more than a refresh gives, or the input has too few levels to be refreshed.
    >>> placed([2, 4, 4, 6, 2], 2, 8)
    [False, True, False, True, False]
    """
    made = []
    for index in range(len(blocks)):
        needed = not is_covered(levels, blocks[index:], reserve)
        if needed:
            if levels < reserve:
                raise ParamsError(
                    f"bootstrapping takes {reserve} levels of its input and {levels} are left before block {index}: "
                    "start with more levels"
                )
            levels = refreshed
            if not is_covered(levels, blocks[index:], reserve):
                raise ParamsError(
                    f"block {index} takes {blocks[index]} levels and a refreshed ciphertext has {refreshed}: take a "
                    "set with more levels after bootstrapping, or split the block"
                )
        made.append(needed)
        levels -= blocks[index]
    return made


def is_possible(choice: tuple[bool, ...], blocks: list[int], levels: int, refreshed: int, reserve: int) -> bool:
    """Whether a program with these bootstrappings runs: every block and every bootstrapping has its levels."""
    for refresh, block in zip(choice, blocks, strict=True):
        if refresh:
            if levels < reserve:
                return False
            levels = refreshed
        levels -= block
        if levels < 0:
            return False
    return True


@given(st.lists(st.integers(1, 4), min_size=1, max_size=9), st.integers(0, 6), st.integers(4, 8), st.integers(0, 2))
def test_no_placement_takes_fewer_bootstrappings_and_none_comes_later(
    blocks: list[int], levels: int, refreshed: int, reserve: int
) -> None:
    possible = [
        choice
        for choice in product((False, True), repeat=len(blocks))
        if is_possible(choice, blocks, levels, refreshed, reserve)
    ]
    try:
        found = placed(blocks, levels, refreshed, reserve)
    except ParamsError:
        assert not possible
        return
    assert is_possible(tuple(found), blocks, levels, refreshed, reserve)
    assert sum(found) == min(map(sum, possible))
    # Never too early: of the placements with so few, none has its first bootstrapping later, or then its second, …
    best = [choice for choice in possible if sum(choice) == sum(found)]
    assert tuple(found) == min(best)


def test_the_chain_of_the_published_network_refreshes_twice_a_layer_where_eight_levels_are_left() -> None:
    layer = [2, 4, 4, 5, 1]
    found = placed(layer * 3 + [1], 18, 8)
    assert [i for i, due in enumerate(found) if due] == [6, 8, 11, 13]


@pytest.mark.parametrize("params", ["sharp", "insecure-resnet20", "insecure-resnet20-multiplexed"])
def test_a_running_program_bootstraps_where_the_rule_says(params: str) -> None:
    from penstock.program.evaluator.circuits.bootstrap import input_levels

    checked = catalogue.get(params)
    ev, blocks = SymbolicEvaluator(checked), [2, 3, 1, 4, 2, 2, 3, 5, 1]
    a = ev.mod_drop(ev.encrypt(np.zeros(checked.slots)), start_levels(checked, blocks) + 1)
    expected = placed(blocks, ev.levels(a), refreshed_levels(checked), input_levels(checked))
    chain, seen = Chain(ev, blocks), []
    for block in blocks:
        before = len(ev.builder._ops)
        a = chain.before(a)
        seen.append(len(ev.builder._ops) > before)
        for _ in range(block):
            a = ev.rescale(ev.square(a))
    assert seen == expected
    with pytest.raises(UsageError, match="more blocks"):
        chain.before(a)


def test_a_block_that_no_refresh_covers_is_refused_with_the_remedy() -> None:
    params = catalogue.get("sharp")
    ev: Any = SymbolicEvaluator(params)
    with pytest.raises(ParamsError, match="more levels after bootstrapping"):
        Chain(ev, [9]).before(ev.fresh(3))
    with pytest.raises(ParamsError, match="split the block"):
        placed([9], 3, 8)
    with pytest.raises(ParamsError, match="start with more levels"):
        placed([2], 0, 8, reserve=1)


def test_inputs_keep_what_the_chain_takes_and_no_more_than_a_refresh_leaves() -> None:
    sharp = catalogue.get("sharp")
    assert start_levels(sharp, [3, 2]) == 5
    assert start_levels(sharp, [6] * 10) == refreshed_levels(sharp) == 8
    assert start_levels(catalogue.get("openfhe-demo"), [99]) == catalogue.get("openfhe-demo").depth


def test_the_clear_reading_never_bootstraps() -> None:
    ev = ClearEvaluator(catalogue.get("sharp"))
    chain, a = Chain(ev, [9] * 3), np.ones(4)
    assert all(chain.before(a) is a for _ in range(3))
