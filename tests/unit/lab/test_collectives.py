"""Collectives as messages: who gets what, in how many rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.cluster.collectives import (
    ALL_GATHERS,
    BROADCASTS,
    AllGather,
    Broadcast,
    Pattern,
    ReduceScatter,
    pattern_of,
)

COUNTS = [1, 2, 3, 5, 8, 16]
algorithms = pytest.mark.parametrize("algorithm", ALL_GATHERS)
members = pytest.mark.parametrize("count", COUNTS)
WORKING = [(name, m) for name in ALL_GATHERS for m in COUNTS if name != "recursive-doubling" or m & (m - 1) == 0]


def received(pattern, hosts: int) -> list[int]:
    got = [0] * hosts
    for messages in pattern.rounds():
        for _, target, size in messages:
            got[target] += size
    return got


@pytest.mark.parametrize(("algorithm", "count"), WORKING)
def test_an_all_gather_brings_every_block_to_every_member_once(algorithm, count):
    blocks = tuple(2**i for i in range(count))  # so that a sum says which blocks came
    hosts = tuple(range(10, 10 + count))
    pattern = pattern_of(AllGather(hosts, blocks), algorithm)
    assert received(pattern, 10 + count)[10:] == [sum(blocks) - own for own in blocks]


@algorithms
def test_a_reduce_scatter_is_the_all_gather_backwards(algorithm):
    blocks = (5, 4, 3, 2)
    there = pattern_of(AllGather((0, 1, 2, 3), blocks), algorithm)
    back = pattern_of(ReduceScatter((0, 1, 2, 3), blocks), algorithm)
    mirrored = [[(j, i, size) for i, j, size in messages] for messages in reversed(there.rounds())]
    assert back.rounds() == mirrored


@pytest.mark.parametrize(("algorithm", "rounds"), [("direct", 1), ("ring", 7), ("recursive-doubling", 3), ("bruck", 3)])
def test_algorithms_differ_in_rounds_and_not_in_bytes(algorithm, rounds):
    pattern = pattern_of(AllGather(tuple(range(8)), (7,) * 8), algorithm)
    assert len(pattern.round_start) - 1 == rounds
    assert pattern.sent_bytes == 8 * 7 * 7


@given(st.lists(st.integers(0, 3), max_size=9), st.integers(0, 5))
def test_direct_messages_made_as_arrays_are_those_of_the_list(blocks, first):
    members = tuple(range(first, first + len(blocks)))
    listed = [[(members[i], members[j], size) for i, j, size in ALL_GATHERS["direct"](blocks)[0]]]
    for what, rounds in ((AllGather, listed), (ReduceScatter, [[(j, i, size) for i, j, size in listed[0]]])):
        got, expected = pattern_of(what(members, tuple(blocks))), Pattern.of(rounds)
        for name in ("round_start", "source", "target", "size"):
            column = getattr(got, name)
            assert column.dtype == np.int64
            assert column.tolist() == getattr(expected, name).tolist()


@pytest.mark.parametrize("algorithm", BROADCASTS)
@members
def test_a_broadcast_brings_all_bytes_to_everyone_but_its_root(algorithm, count):
    root = count // 2
    pattern = pattern_of(Broadcast(tuple(range(count)), root, 1001), broadcast=algorithm)
    expected = [1001] * count
    expected[root] = 0
    assert received(pattern, count) == expected


def test_a_member_without_a_block_only_receives():
    pattern = pattern_of(AllGather((0, 1, 2), (4, 0, 0)))
    assert pattern.rounds() == [[(0, 1, 4), (0, 2, 4)]]


def test_what_does_not_work_is_named():
    with pytest.raises(UsageError, match="'bruck' does the same for any number"):
        pattern_of(AllGather((0, 1, 2), (1, 1, 1)), "recursive-doubling")
    with pytest.raises(UnknownName, match="did you mean 'recursive-doubling'"):
        pattern_of(AllGather((0, 1), (1, 1)), "recursive-doublin")
    with pytest.raises(UnknownName, match="broadcast algorithm"):
        pattern_of(Broadcast((0, 1), 0, 1), broadcast="multicast")
