"""Keys that stay at the drive, against hand counts on a small program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.lab.instorage.machine import UnitAccelerator, with_options
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.near_data import Partition, near_data
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.machines import load_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.traces.schema import Trace, TraceMeta
from penstock.scheme.work.kernels import kernel_work

PARAMS = catalogue.get("sharp")
LIMBS = PARAMS.num_q


def small() -> Trace:
    """rotate, add, mult, rescale: two operations with keys, two without, in turns."""
    ev = SymbolicEvaluator(PARAMS)
    a = ev.encrypt(np.zeros(PARAMS.slots))
    turned = ev.rotate(a, 1)
    total = ev.add(turned, a)
    ev.decrypt(ev.rescale(ev.mult(total, total)))
    return ev.builder.finish(TraceMeta(workload="small", params=PARAMS.to_dict(), reading="trace"))


def fheins() -> UnitAccelerator:
    found = load_instorage("fheins")
    assert isinstance(found, UnitAccelerator)
    return found


def test_ciphertexts_cross_once_each_time_that_the_side_changes() -> None:
    """a to the drive, turned back, total to the drive, the product back: four ciphertexts of full length."""
    host, units = load_machine("sharp"), fheins()
    found = near_data(small(), host, units, key_bytes_per_s=51.2e9)
    assert (found.operations, found.key_operations, found.crossings) == (4, 2, 4)
    assert found.crossing_bytes == 4 * PARAMS.ciphertext_bytes(LIMBS)
    kinds = (OpKind.ROTATE, OpKind.ADD, OpKind.MULT, OpKind.RESCALE)
    works = {kind: kernel_work(kind, PARAMS, LIMBS) for kind in kinds}
    assert found.key_bytes == 2 * PARAMS.key_bytes(LIMBS)
    assert found.host_compute_s == pytest.approx(sum(host.price(w).seconds for w in works.values()))
    keyed = (works[OpKind.ROTATE], works[OpKind.MULT])
    slowest = [max(units.price(w).seconds, w.key_bytes / 51.2e9) for w in keyed]
    assert found.near_drive_s == pytest.approx(sum(slowest))
    assert found.near_host_s == pytest.approx(
        host.price(works[OpKind.ADD]).seconds + host.price(works[OpKind.RESCALE]).seconds
    )
    assert found.pull_s(7.9e9) == pytest.approx(found.host_compute_s + found.key_bytes / 7.9e9)


def test_where_everything_runs_at_the_drive_only_input_and_result_travel() -> None:
    found = near_data(small(), load_machine("sharp"), fheins(), key_bytes_per_s=51.2e9, partition=Partition.ALL)
    assert found.crossings == 2
    assert found.crossing_bytes == PARAMS.ciphertext_bytes(LIMBS) + PARAMS.ciphertext_bytes(LIMBS - 1)
    assert found.near_host_s == 0.0


def test_both_ways_take_as_long_at_the_crossover() -> None:
    found = near_data(small(), load_machine("sharp"), fheins(), key_bytes_per_s=51.2e9, partition=Partition.ALL)
    at = found.crossover_bytes_per_s
    assert at is not None
    assert found.pull_s(at) == pytest.approx(found.near_s(at), rel=1e-9)
    assert found.pull_s(2 * at) < found.near_s(2 * at)
    assert found.pull_s(at / 2) > found.near_s(at / 2)


def test_a_pull_is_bound_by_the_slower_of_link_and_reading() -> None:
    """Keys at 1 GB/s: above it no link helps, and a bandwidth above it is no crossover."""
    host, rate = load_machine("sharp"), 1e9
    found = near_data(small(), host, fheins(), key_bytes_per_s=rate, partition=Partition.ALL)
    assert found.pull_s(rate / 2) == pytest.approx(found.host_compute_s + found.key_bytes / (rate / 2))
    for link in (rate, 64 * rate):
        assert found.pull_s(link) == pytest.approx(found.host_compute_s + found.key_bytes / rate)
    at = (found.key_bytes - found.crossing_bytes) / (found.near_host_s + found.near_drive_s - found.host_compute_s)
    assert found.crossover_bytes_per_s == (at if at <= rate else None)
    beyond = replace(found, key_bytes_per_s=0.9 * at)
    assert beyond.crossover_bytes_per_s is None
    assert all(beyond.near_s(link) < beyond.pull_s(link) for link in (at / 2, at, 2 * at, 1e3 * at))


def test_a_cache_on_the_host_leaves_fewer_keys_to_pull() -> None:
    full, half = (
        near_data(small(), load_machine("sharp"), fheins(), key_bytes_per_s=51.2e9, hit_ratio=ratio)
        for ratio in (0.0, 0.5)
    )
    assert half.key_bytes == full.key_bytes // 2
    assert half.near_s(1e9) == full.near_s(1e9)


def test_pulling_wins_nowhere_against_a_drive_that_computes_as_fast() -> None:
    """The drive with 10^6 accelerators and keys at once: no bandwidth makes pulling sooner."""
    found = near_data(
        small(), load_machine("sharp"), fheins(), accelerators=10**6, key_bytes_per_s=1e18, partition=Partition.ALL
    )
    assert found.crossover_bytes_per_s is None
    assert found.near_s(1e15) < found.pull_s(1e15)


def test_bad_input_is_refused() -> None:
    trace, host = small(), load_machine("sharp")
    with pytest.raises(UsageError, match="0 accelerators"):
        near_data(trace, host, fheins(), accelerators=0, key_bytes_per_s=1e9)
    with pytest.raises(UsageError, match="more than zero"):
        near_data(trace, host, fheins(), key_bytes_per_s=0)
    with pytest.raises(UsageError, match="between 0 and 1"):
        near_data(trace, host, fheins(), key_bytes_per_s=1e9, hit_ratio=1.5)
    with pytest.raises(UsageError, match="no room for one polynomial"):
        near_data(trace, host, with_options(fheins(), scratchpad_bytes=1000), key_bytes_per_s=1e9)
