"""The storage-I/O study's law: serial time is 1 + D / BW times the ideal, exactly, and its published rows follow.

D is bytes of evaluation keys per second of ideal time; the study's bandwidths are decimal GB/s.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.lab.simulation.memory.serial_law import required_hit_ratio, serial_slowdown
from penstock.lab.simulation.play import play as play_points
from penstock.lab.simulation.play import simulate
from penstock.lab.simulation.question import Point
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.machines import STUDY_TIERS, load_machine, load_tier
from penstock.scheme.params import catalogue
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import ForcedHitRatio, Lru, NoCache
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.schema import Trace, TraceMeta
from twins.laws import play

RESNET20_BYTES_PER_S = 1633e9
"""D of SHARP's ResNet-20 in the study: 1633 bytes a cycle at 1 GHz."""
HELR_BYTES_PER_S = 4452e9
"""D that reproduces all four HELR slowdowns of the study (its text says 5130)."""


def rounds_to(value: float, published: str) -> bool:
    """Whether `value` is within one unit of the last printed digit: the study's inputs are rounded too."""
    decimals = len(published.partition(".")[2])
    return abs(value - float(published)) <= 10.0**-decimals * (1 + 1e-9)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """One bootstrapping at SHARP's parameters: 1,269 operations with keys at many limbs."""
    params = catalogue.get("sharp")
    ev = SymbolicEvaluator(params)
    ev.bootstrap(ev.fresh(1))
    return ev.builder.finish(TraceMeta(workload="bootstrap", params=params.to_dict(), reading="trace"))


@pytest.mark.parametrize(
    ("demand", "published"),
    [
        (RESNET20_BYTES_PER_S, ("2.63", "5.56", "26.5", "131.7")),
        (HELR_BYTES_PER_S, ("5.5", "13.4", "70.6", "357.2")),
    ],
    ids=["ResNet-20", "HELR"],
)
def test_the_law_gives_the_published_slowdowns(demand, published):
    got = [serial_slowdown(demand, load_tier(name).bandwidth_bytes_per_s) for name in STUDY_TIERS]
    for value, text in zip(got, published, strict=True):
        assert rounds_to(value, text), f"{value} against {text}"


def test_with_binary_bandwidths_the_published_rows_break():
    gib = 2**30 / 1e9
    got = serial_slowdown(RESNET20_BYTES_PER_S, 64e9 * gib)
    assert not rounds_to(got, "26.5")


@pytest.mark.parametrize("name", STUDY_TIERS)
def test_the_engine_meets_the_law_on_the_studys_demand(name):
    # One second of ideal time in 1000 operations, 1633 MB of keys each.
    n = 1000
    accesses = Accesses.one_each(np.arange(n), np.full(n, round(RESNET20_BYTES_PER_S / n)))
    tier = load_tier(name)
    played = play(np.full(n, 1 / n), accesses, NoCache(), tier, mode="serial")
    assert played.slowdown == pytest.approx(
        serial_slowdown(RESNET20_BYTES_PER_S, tier.bandwidth_bytes_per_s), rel=1e-12
    )


@pytest.mark.parametrize("name", ["sharp", "a100-tensorfhe"])
@pytest.mark.parametrize("hit_ratio", [0.0, 0.3, 0.9, 1.0])
def test_a_priced_program_meets_the_law_at_any_hit_ratio(trace, name, hit_ratio):
    machine, tiers = load_machine(name), [load_tier(t) for t in (*STUDY_TIERS, "3.5 GB/s")]
    priced = price_trace(trace, machine)
    rows = simulate(price_trace(trace, machine), tiers, caches=[ForcedHitRatio(hit_ratio)])
    assert [row["tier"] for row in rows] == [tier.name for tier in tiers]
    for row, tier in zip(rows, tiers, strict=True):
        law = serial_slowdown(priced.demand_bytes_per_s, tier.bandwidth_bytes_per_s, hit_ratio=hit_ratio)
        assert row["slowdown"] == pytest.approx(law, rel=1e-9)
        assert row["io_bytes"] == pytest.approx((1 - hit_ratio) * priced.accessed_bytes, rel=1e-12)
        assert row["compute_s"] == pytest.approx(priced.ideal_s, rel=1e-12)


def test_a_decode_stage_adds_its_own_term(trace):
    machine, tier = load_machine("sharp"), load_tier("pcie5")
    point = Point(hold=NoCache(), tier=tier, decode_bytes_per_s=0.27e9)
    ((row,), _) = play_points(price_trace(trace, machine), [point])
    demand = price_trace(trace, machine).demand_bytes_per_s
    law = serial_slowdown(demand, tier.bandwidth_bytes_per_s, decode_bytes_per_s=0.27e9)
    assert row["slowdown"] == pytest.approx(law, rel=1e-9)
    assert row["decode_s"] == pytest.approx(row["io_bytes"] / 0.27e9, rel=1e-9)


def test_overlap_and_bound_never_take_longer_than_serial_nor_less_than_the_slower_resource(trace):
    machine, tier = load_machine("sharp"), load_tier("ddr5")
    serial, overlap, bound = simulate(price_trace(trace, machine), [tier], modes=("serial", "overlap", "bound"))
    assert bound["total_s"] == pytest.approx(max(bound["compute_s"], bound["io_s"]), rel=1e-9)
    assert bound["total_s"] <= overlap["total_s"] <= serial["total_s"]
    assert serial["total_s"] == pytest.approx(serial["compute_s"] + serial["io_s"], rel=1e-9)


def test_a_cache_that_holds_everything_loads_each_key_once(trace):
    machine = load_machine("sharp")
    priced = price_trace(trace, machine)
    largest = {}
    for obj, size in zip(priced.access_object.tolist(), priced.access_bytes.tolist(), strict=True):
        largest[obj] = max(size, largest.get(obj, 0))
    (row,) = simulate(price_trace(trace, machine), [load_tier("hbm")], caches=[Lru(2**40)])
    assert row["io_bytes"] == sum(largest.values())
    assert row["hit_ratio"] == pytest.approx(1 - row["io_bytes"] / priced.accessed_bytes)


@given(demand=st.floats(1e9, 1e14), bandwidth=st.floats(1e8, 1e13), target=st.floats(0.01, 1.0))
def test_the_required_hit_ratio_reaches_the_target_and_no_smaller_one_does(demand, bandwidth, target):
    needed = required_hit_ratio(demand, bandwidth, target)
    assert 0 <= needed <= 1
    reached = 1 / serial_slowdown(demand, bandwidth, hit_ratio=needed)
    assert reached >= target * (1 - 1e-9)
    if needed > 1e-6:
        assert reached == pytest.approx(target, rel=1e-6)
        assert 1 / serial_slowdown(demand, bandwidth, hit_ratio=needed * 0.99) < target * (1 + 1e-9)


def test_the_hit_ratios_for_80_percent_are_the_studys_within_a_point():
    # The study prints the means over ResNet-20 and HELR: 90.2, 96.2, 99.3 and 99.9 %.
    for name, published in zip(STUDY_TIERS, (0.902, 0.962, 0.993, 0.999), strict=True):
        bandwidth = load_tier(name).bandwidth_bytes_per_s
        mean = (
            required_hit_ratio(RESNET20_BYTES_PER_S, bandwidth) + required_hit_ratio(HELR_BYTES_PER_S, bandwidth)
        ) / 2
        assert mean == pytest.approx(published, abs=0.01), name


def test_a_tier_that_is_fast_enough_needs_no_hits():
    assert required_hit_ratio(1e9, 100e9) == 0.0
    assert required_hit_ratio(0.0, 1e9) == 0.0
    assert math.isclose(serial_slowdown(0.0, 1e9), 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: serial_slowdown(-1.0, 1e9), "not negative"),
        (lambda: serial_slowdown(1.0, 0.0), "more than zero"),
        (lambda: serial_slowdown(1.0, float("nan")), "more than zero"),
        (lambda: serial_slowdown(1.0, 1e9, hit_ratio=1.1), "between 0 and 1"),
        (lambda: serial_slowdown(1.0, 1e9, decode_bytes_per_s=-1.0), "more than zero"),
        (lambda: required_hit_ratio(1.0, 1e9, target=0.0), "more than 0 and at most 1"),
        (lambda: required_hit_ratio(1.0, 1e9, target=1.01), "more than 0 and at most 1"),
        (lambda: required_hit_ratio(float("nan"), 1e9), "not negative"),
    ],
)
def test_values_outside_the_law_are_refused_with_the_rule(call, message):
    with pytest.raises(UsageError, match=message):
        call()


def test_the_required_hit_ratio_counts_the_latency_that_each_read_is_charged(trace):
    machine, tier = load_machine("sharp"), load_tier("nvme-gen5")
    priced = price_trace(trace, machine)
    asked = {"reads_per_ideal_s": priced.demand_reads_per_s, "latency_s": tier.latency_s}
    needed = required_hit_ratio(priced.demand_bytes_per_s, tier.bandwidth_bytes_per_s, **asked)
    assert needed > required_hit_ratio(priced.demand_bytes_per_s, tier.bandwidth_bytes_per_s)
    (row,) = simulate(price_trace(trace, machine), [tier], caches=[ForcedHitRatio(needed)])
    assert row["slowdown"] == pytest.approx(1.25, rel=1e-9)
    with pytest.raises(UsageError, match="neither is negative"):
        required_hit_ratio(1e9, 1e9, reads_per_ideal_s=1.0, latency_s=-1.0)
