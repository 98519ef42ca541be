"""The closed-form model = the engine, to 1e-9, wherever both apply."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.memory.levels import Hierarchy, Level
from penstock.lab.simulation.memory.levels_replay import replay_levels
from penstock.lab.simulation.memory.levels_time import play_levels
from penstock.lab.simulation.memory.serial_law import required_hit_ratio, serial_slowdown
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import ForcedHitRatio, Lru, NoCache, SizedCache
from penstock.scheme.play.engine import _engine
from penstock.scheme.play.hierarchy import Prefetch, Rates, replay
from twins.laws import balance_bytes_per_s, cycle_hits, play_one
from twins.roofline import (
    Channel,
    Load,
    Roofline,
    pipeline_s,
    roofline,
    under_way,
)

CLOSE = 1e-9
RATE = st.floats(1e8, 1e13)
SECONDS = st.floats(1e-6, 1e-1)
STAGES = st.lists(st.one_of(st.just(0.0), SECONDS), min_size=1, max_size=5)


@given(n=st.integers(1, 50), stages=STAGES, depth=st.one_of(st.none(), st.integers(0, 8)))
def test_pipelines_of_equal_operations(n: int, stages: list[float], depth: int | None) -> None:
    got = _engine.play_stages([np.full(n, s) for s in stages], np.zeros(n), "overlap", depth, None)
    expected = pipeline_s(n, stages, under_way=under_way(prefetch_depth=depth))
    assert got.total_s == pytest.approx(expected, rel=CLOSE, abs=1e-17)


@given(n=st.integers(1, 50), stages=STAGES, held=st.integers(1, 20), buffer=st.integers(0, 100))
def test_pipelines_within_a_buffer(n: int, stages: list[float], held: int, buffer: int) -> None:
    got = _engine.play_stages([np.full(n, s) for s in stages], np.full(n, float(held)), "overlap", None, buffer)
    expected = pipeline_s(n, stages, under_way=under_way(buffer_bytes=buffer, operation_bytes=held))
    assert got.total_s == pytest.approx(expected, rel=CLOSE, abs=1e-17)
    assert got.oversized == (n if held > buffer else 0)


OPERATIONS = st.lists(st.tuples(SECONDS, st.integers(1, 10**9)), min_size=1, max_size=40)


@given(
    operations=OPERATIONS,
    memory=RATE,
    drive=RATE,
    latency=st.floats(0, 1e-3),
    decode=st.one_of(st.none(), RATE),
    hit_ratio=st.floats(0, 1),
)
def test_any_program_over_two_levels_in_series_and_at_its_bound(
    operations: list[tuple[float, int]],
    memory: float,
    drive: float,
    latency: float,
    decode: float | None,
    hit_ratio: float,
) -> None:
    compute = [s for s, _ in operations]
    accesses = Accesses.one_each(range(len(operations)), [b for _, b in operations])
    hierarchy = Hierarchy(
        (
            Level(name="memory", cache=ForcedHitRatio(hit_ratio), tier=Rates(bandwidth_bytes_per_s=memory)),
            Level(
                name="drive",
                tier=Rates(bandwidth_bytes_per_s=drive, latency_s=latency),
                decode_bytes_per_s=decode,
            ),
        )
    )
    loaded = replay_levels(accesses, hierarchy)
    asked = float(sum(b for _, b in operations))
    deep = Channel(bandwidth_bytes_per_s=drive, latency_s=latency, decode_bytes_per_s=decode or math.inf)
    model = roofline(
        math.fsum(compute),
        {
            "drive": Load(
                channel=deep, loaded_bytes=asked * (1 - hit_ratio), transfers=len(operations) * (1 - hit_ratio)
            ),
            "memory": Load(channel=Channel(bandwidth_bytes_per_s=memory), loaded_bytes=asked),
        },
        num_operations=len(operations),
    )
    serial, bound = play_levels(compute, loaded), play_levels(compute, loaded, mode="bound")
    assert serial.total_s == pytest.approx(model.total_s("serial"), rel=CLOSE)
    assert bound.total_s == pytest.approx(model.total_s("bound"), rel=CLOSE)
    assert serial.slowdown == pytest.approx(model.slowdown("serial"), rel=CLOSE)
    busiest = max(bound.stages, key=lambda stage: stage.busy_s)
    assert model.busy_s[model.binding] == pytest.approx(busiest.busy_s, rel=CLOSE)
    # Whatever runs ahead, a program lies between the two.
    ahead = play_levels(compute, loaded, mode="overlap", prefetch=Prefetch(None, 10**8))
    assert bound.total_s * (1 - CLOSE) <= ahead.total_s <= serial.total_s * (1 + CLOSE)


@given(n=st.integers(1, 40), compute_s=SECONDS, size=st.integers(10**3, 10**9), rate=RATE, depth=st.integers(0, 4))
def test_equal_operations_over_one_tier_overlap(n: int, compute_s: float, size: int, rate: float, depth: int) -> None:
    loaded = replay(Accesses.one_each(range(n), [size] * n), NoCache())
    got = play_one([compute_s] * n, loaded, Rates(bandwidth_bytes_per_s=rate), mode="overlap", prefetch_depth=depth)
    model = roofline(
        n * compute_s,
        {"tier": Load(channel=Channel(bandwidth_bytes_per_s=rate), loaded_bytes=float(n * size))},
        num_operations=n,
    )
    assert got.total_s == pytest.approx(model.total_s("overlap", under_way=depth + 1), rel=CLOSE)


@given(demand=st.floats(1e8, 1e13), rate=RATE, decode=st.one_of(st.none(), RATE))
def test_serial_is_the_studys_law(demand: float, rate: float, decode: float | None) -> None:
    channel = Channel(bandwidth_bytes_per_s=rate, decode_bytes_per_s=decode or math.inf)
    model = roofline(1.0, {"tier": Load(channel=channel, loaded_bytes=demand)})
    assert model.slowdown("serial") == pytest.approx(
        serial_slowdown(demand, rate, decode_bytes_per_s=decode), rel=CLOSE
    )


@given(demand=st.floats(1e8, 1e13), target=st.floats(0.05, 0.99))
def test_at_the_balance_a_program_reaches_its_target_without_hits(demand: float, target: float) -> None:
    rate = balance_bytes_per_s(demand, "serial", target=target)
    assert serial_slowdown(demand, rate) == pytest.approx(1 / target, rel=CLOSE)
    assert required_hit_ratio(demand, rate, target) == pytest.approx(0, abs=CLOSE)
    rate = balance_bytes_per_s(demand, "bound", target=target)
    model = roofline(1.0, {"tier": Load(channel=Channel(bandwidth_bytes_per_s=rate), loaded_bytes=demand)})
    assert model.slowdown("bound") == pytest.approx(1 / target, rel=CLOSE)


def test_without_losses_serial_never_reaches_the_ideal_and_bound_does_at_the_demand() -> None:
    assert balance_bytes_per_s(1e12, "serial") == math.inf
    assert balance_bytes_per_s(1e12, "bound") == 1e12
    assert balance_bytes_per_s(0.0, "serial") == 0.0


def test_communication_is_a_resource_of_its_own() -> None:
    channel = Channel(bandwidth_bytes_per_s=1e9)
    model = roofline(1.0, {"tier": Load(channel=channel, loaded_bytes=2e9)}, communication_s=5.0)
    assert (model.total_s("serial"), model.total_s("bound"), model.binding) == (8.0, 5.0, "communication")
    one = Roofline(busy_s={"a": 1.0}, num_operations=1)
    assert (one.total_s("overlap"), one.slowdown("serial")) == (1.0, None)
    assert pipeline_s(0, [1.0]) == 0.0


@pytest.mark.parametrize("policy", ["lru", "fifo", "belady"])
@given(num_objects=st.integers(0, 12), room=st.integers(0, 14), rounds=st.integers(0, 6))
def test_hits_on_cycles(policy: str, num_objects: int, room: int, rounds: int) -> None:
    accesses = Accesses.one_each(list(range(num_objects)) * rounds, [100] * (num_objects * rounds))
    assert replay(accesses, SizedCache(policy, room * 100)).hits == cycle_hits(num_objects, room, rounds, policy)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Channel(bandwidth_bytes_per_s=0.0), "bandwidth 0.0: it is more than zero"),
        (lambda: Channel(bandwidth_bytes_per_s=1.0, latency_s=-1.0), "finite and not negative"),
        (lambda: Channel(bandwidth_bytes_per_s=1.0, decode_bytes_per_s=float("nan")), "decode rate nan"),
        (lambda: Roofline(busy_s={"io": -1.0}), "io takes -1.0 s"),
        (lambda: Roofline(busy_s={}, num_operations=0), "a program has one at least"),
        (lambda: pipeline_s(2, [1.0], under_way=0), "there is one at least"),
        (lambda: balance_bytes_per_s(-1.0, "serial"), "not negative"),
        (lambda: balance_bytes_per_s(1.0, "serial", target=0.0), "more than 0 and at most 1"),
    ],
)
def test_values_outside_the_theory_are_refused(call, message) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'serial'"):
        Roofline(busy_s={"io": 1.0}).total_s("seriel")
    with pytest.raises(UnknownName, match="did you mean 'bound'"):
        balance_bytes_per_s(1.0, "bund")
    with pytest.raises(UnknownName, match="did you mean 'lru'"):
        cycle_hits(1, 1, 1, "lfru")


def test_a_cache_that_holds_all_needs_no_channel() -> None:
    loaded = replay(Accesses.one_each([0, 0], [10, 10]), Lru(10))
    assert play_one([1.0, 1.0], loaded, Rates(bandwidth_bytes_per_s=10.0)).total_s == 3.0
