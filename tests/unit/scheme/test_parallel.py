"""Threads and the cache in a machine's price: closed forms of loops over limbs, and the written form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import MachineError
from penstock.scheme.machines import Evidence, load_machine
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.parallel import (
    CacheModel,
    ThreadModel,
    beyond_cache,
    busy_share,
    loop_starts,
    touched_bytes,
    unit_shares,
)
from penstock.scheme.machines.schema import Machine
from penstock.scheme.machines.written import write_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.work.kernels import KernelWork, kernel_work
from support.toy import toy

SMALL = toy(ring_dim=1024, q_bits=(50,) * 10, p_bits=(60,) * 4, dnum=3)
ROTATION = kernel_work(OpKind.ROTATE, SMALL, 10)
FILE = """
name = "mine"
title = "a CPU"
overlap = "in-turn"
overlap_source = "a test"

[units]
transforms = { value = "1 Gbutterflies/s", source = "a test", kind = "measured" }
multiplications = { value = "0.5 Gmult/s", source = "a test", kind = "measured" }
key_products = { value = "0.25 Gmult/s", source = "a test", kind = "measured" }

[threads]
count = 1
shared = { transforms = { value = "0.5 ns/butterflies", source = "a test", kind = "assumed" } }
loop = { value = "2 us", source = "a test", kind = "assumed" }

[cache]
size = { value = "1 MiB", source = "a test", kind = "assumed" }
beyond = { value = "4 GB/s", source = "a test", kind = "assumed" }
"""


def figure(value: float) -> Figure:
    return Figure(value=value, text=str(value), source="a test", kind=Evidence.MEASURED)


@pytest.fixture
def machine(tmp_path) -> Machine:
    (tmp_path / "mine.toml").write_text(FILE)
    return load_machine(tmp_path / "mine.toml")


def test_a_loop_keeps_no_more_threads_busy_than_it_has_limbs():
    assert busy_share(((8, 1),), 2) == 0.5
    assert busy_share(((8, 1),), 16) == busy_share(((8, 3),), 8) == 1 / 8
    assert busy_share(((1, 5),), 16) == 1.0
    # Two steps alone, eight by four threads: 2 + 2 of 10.
    assert busy_share(((1, 2), (8, 1)), 4) == pytest.approx((2 + 2) / 10)


def test_conversions_go_to_eight_threads_at_most():
    assert unit_shares(ROTATION, 32)["conversions"] == unit_shares(ROTATION, 8)["base_conversion"] == 1 / 8
    assert set(unit_shares(ROTATION, 1).values()) == {1.0}


def test_starting_threads_costs_more_the_more_there_are_and_nothing_where_there_is_one():
    assert loop_starts(ROTATION, 1) == 0
    loops = sum(count for width, count in (*ROTATION.transform_loops, *ROTATION.element_loops))
    assert loop_starts(ROTATION, 2) == loops + ROTATION.base_conversions
    one_limb = KernelWork(ring_dim=8, element_loops=((1, 7),))
    assert loop_starts(one_limb, 16) == 0
    assert loop_starts(KernelWork(ring_dim=8, element_loops=((4, 1),)), 16) == 2  # 4 threads: two doublings


def test_the_price_is_the_closed_form(machine):
    work = KernelWork(
        ring_dim=1024,
        limb_transforms=8,
        transform_loops=((8, 1),),
        elementwise_mults=3 * 8192,
        key_mults=8192,
        element_loops=((8, 3),),
        key_bytes=2**20,
    )
    butterflies = 8 * 512 * 10 * 1e-9
    products = 2 * 8192 / 0.5e9 + 8192 / 0.25e9
    beyond = 8 * 1024 * 8 / 4e9
    assert machine.price(work).seconds == pytest.approx(butterflies + products + beyond, rel=1e-12)
    shared = 0.75 * butterflies * 0.5  # half a nanosecond for each that is not the busiest thread's
    at_four = butterflies / 4 + shared + products / 4 + beyond + 4 * 2 * 2e-6  # 4 loops, two doublings
    cost = machine.at(4).price(work)
    assert cost.seconds == pytest.approx(at_four, rel=1e-12)
    assert sum(cost.per_unit.values()) == pytest.approx(cost.seconds, rel=1e-12)
    assert cost.bound_by in machine.parts
    assert set(cost.per_unit) | {"overhead"} == set(machine.parts)


def test_a_cache_costs_nothing_until_it_is_full(machine):
    assert touched_bytes(ROTATION) == ROTATION.key_bytes + 2 * 2 * 10 * 8192 + ROTATION.limb_transforms * 8192
    assert beyond_cache(ROTATION, touched_bytes(ROTATION)) == 0
    assert beyond_cache(ROTATION, 100.0) == touched_bytes(ROTATION) - 100
    small = replace(machine, cache=CacheModel(size=figure(1e12), beyond=figure(1.0)))
    assert small.price(ROTATION).seconds == replace(machine, cache=None).price(ROTATION).seconds


def test_threads_never_make_an_operation_slower_where_nothing_is_shared(machine):
    free = replace(machine, threads=ThreadModel(count=1))
    seconds = [free.at(n).price(ROTATION).seconds for n in (1, 2, 3, 4, 8, 64)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] > free.price(ROTATION).seconds / 14  # 14 limbs at most


def test_an_accelerator_has_no_threads_to_choose():
    sharp = load_machine("sharp")
    assert sharp.at(7) is sharp
    assert sharp.thread_count is None
    with pytest.raises(MachineError, match="at least one thread"):
        sharp.at(0)


def test_the_file_gives_what_was_written(machine, tmp_path):
    assert machine.threads.shared["transforms"].value == pytest.approx(0.5e-9)
    assert machine.threads.loop.value == pytest.approx(2e-6)
    assert (machine.cache.size.value, machine.cache.beyond.value) == (2**20, 4e9)
    write_machine(machine.at(3), tmp_path / "again.toml")
    assert load_machine(tmp_path / "again.toml") == machine.at(3)
    assert {path for path, _ in machine.figures()} >= {"threads.shared.transforms", "threads.loop", "cache.size"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("count = 1", "count = 0", "threads.count is 0"),
        ("shared = { transforms", "shared = { additions", "threads.shared 'additions' is none of the machine's units"),
        ("0.5 ns/butterflies", "0.5 ns/points", "unknown unit 'ns/points'"),
        ('"4 GB/s"', '"0 GB/s"', "must be more than zero"),
    ],
)
def test_a_wrong_file_is_refused_with_the_rule(old, new, message, tmp_path):
    (tmp_path / "mine.toml").write_text(FILE.replace(old, new))
    with pytest.raises(MachineError, match=message):
        load_machine(tmp_path / "mine.toml")
