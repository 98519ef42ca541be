"""Fleets against the closed forms of queues: constant service, shared servers that miss, and streams without chance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.lab.simulation.servers.law import queue_wait_s, wait_s
from penstock.lab.simulation.servers.play import play
from penstock.lab.simulation.servers.rows import row_of
from penstock.lab.simulation.servers.stream import Application, Stream, poisson, shares
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.prices import load_prices

ONE = Application(name="one", run_s=0.5, key_bytes=1000, joules=3.0)


def fleet(arrangement: Arrangement, servers: int, **changes: Any) -> Fleet:
    made = Fleet(
        arrangement=arrangement,
        servers=servers,
        loading=Loading.WAIT,
        memory_bytes=1000,
        tier="disk",
        tier_bytes_per_s=4000.0,
        tier_j_per_byte=0.01,
    )
    return replace(made, **changes)


@pytest.mark.parametrize("zipf", [0.0, 1.0])
def test_dedicated_servers_are_queues_of_one_constant_time_each(zipf: float) -> None:
    stream = poisson([ONE], users=4, rate_per_s=3.0, runs=20_000, zipf=zipf, seed=1)
    made = fleet(Arrangement.DEDICATED, 4)
    played = play(stream, made)
    expected = wait_s(stream, made, zipf)
    assert expected is not None
    by_hand = sum(share * queue_wait_s(3.0 * share, 0.5, 0.25) for share in shares(4, zipf))
    assert expected == pytest.approx(by_hand)
    assert (played.start_s - stream.at_s).mean() == pytest.approx(expected, rel=0.08)
    assert played.loaded_bytes.sum() == played.switches == 0
    assert played.installed_bytes == 4 * 1000


@pytest.mark.parametrize("users", [1, 2, 8])
def test_one_pooled_server_that_keeps_one_set_of_keys_waits_as_pollaczek_and_khinchine_say(users: int) -> None:
    stream = poisson([ONE], users=users, rate_per_s=0.8, runs=20_000, seed=2)
    made = fleet(Arrangement.POOLED, 1)
    played = play(stream, made)
    assert (played.loaded_bytes > 0).mean() == pytest.approx(1 - 1 / users, abs=0.01)
    expected = wait_s(stream, made, 0.0)
    assert expected is not None
    assert (played.start_s - stream.at_s).mean() == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("kept", [1, 3, 5, 8])
def test_least_recently_used_keys_of_equal_users_miss_as_often_as_others_are_asked_for(kept: int) -> None:
    stream = poisson([ONE], users=8, rate_per_s=0.5, runs=8_000, seed=3)
    played = play(stream, fleet(Arrangement.POOLED, 1, memory_bytes=kept * 1000))
    assert (played.loaded_bytes > 0).mean() == pytest.approx(1 - kept / 8, abs=0.02)
    assert played.switches / 8_000 == pytest.approx(7 / 8, abs=0.015)


def regular(users: int, every_s: float, runs: int) -> Stream:
    """Users in turn at equal intervals."""
    return Stream(
        users=(ONE,) * users,
        at_s=np.arange(1, runs + 1) * every_s,
        user=np.arange(runs) % users,
        rate_per_s=1 / every_s,
    )


def test_runs_at_equal_times_that_the_pool_keeps_up_with_never_wait_for_a_server() -> None:
    """Eight users in turn, one set of keys a server: every run loads, and takes load and computing."""
    stream = regular(8, 0.25, 400)
    played = play(stream, fleet(Arrangement.POOLED, 3))
    # The first three find the keys that were installed.
    assert (played.loaded_bytes[3:] == 1000).all()
    assert (played.end_s - stream.at_s)[3:] == pytest.approx(0.5 + 0.25)
    # Keys ahead: with every server busy the load hides behind the run before.
    tight = play(regular(8, 0.25, 400), fleet(Arrangement.POOLED, 2, loading=Loading.AHEAD, memory_bytes=2000))
    assert tight.stalled_s.sum() <= 1.0
    assert tight.span_s == pytest.approx(400 * 0.25 + 0.5, abs=1.0)


def test_a_backlog_is_computed_without_stalls_where_keys_come_ahead() -> None:
    """All at once: one server loads and computes in turn, or loads behind the computing, which takes longer."""
    stream = replace(regular(4, 1.0, 40), at_s=np.zeros(40))
    waits = play(stream, fleet(Arrangement.POOLED, 1))
    assert waits.span_s == pytest.approx(40 * 0.5 + 39 * 0.25), "the first finds its keys"
    ahead = play(stream, fleet(Arrangement.POOLED, 1, loading=Loading.AHEAD, memory_bytes=2000))
    assert ahead.span_s == pytest.approx(40 * 0.5)
    assert ahead.stalled_s.sum() == 0
    # Runs of one user together: each of four users loads once.
    local = play(stream, fleet(Arrangement.LOCAL, 1, max_overtaken=100))
    assert local.span_s == pytest.approx(40 * 0.5 + 3 * 0.25)
    assert (local.loaded_bytes > 0).sum() == local.switches == 3
    switched = play(stream, fleet(Arrangement.LOCAL, 1, max_overtaken=100, switch_s=0.125))
    assert switched.span_s == pytest.approx(40 * 0.5 + 3 * (0.25 + 0.125))


def test_no_run_is_overtaken_more_often_than_the_rule_says() -> None:
    stream = replace(regular(4, 1.0, 400), at_s=np.zeros(400))
    for most in (0, 1, 7, 50):
        played = play(stream, fleet(Arrangement.LOCAL, 1, max_overtaken=most))
        assert played.most_overtaken == most
    first = play(stream, fleet(Arrangement.LOCAL, 1, max_overtaken=0))
    pooled = play(stream, fleet(Arrangement.POOLED, 1))
    assert first.end_s.tolist() == pooled.end_s.tolist()


def test_a_row_adds_up() -> None:
    stream = poisson([ONE], users=4, rate_per_s=2.0, runs=500, seed=5)
    made, prices = fleet(Arrangement.POOLED, 2), load_prices()
    played = play(stream, made)
    row = row_of(stream, made, played, prices, machine=load_machine("sharp"), is_gpu=False, zipf=0.0)
    assert row["utilisation"] + row["stalled_share"] + row["idle_share"] == pytest.approx(1)
    assert row["utilisation"] == pytest.approx(500 * 0.5 / (2 * played.span_s))
    assert row["offered_load"] == pytest.approx(0.5)
    assert row["latency_p50_s"] <= row["latency_p95_s"] <= row["latency_p99_s"]
    assert row["energy_j"] == pytest.approx(3.0 + 0.01 * row["loaded_bytes"])
    hours = 2 * played.span_s / 3600
    assert row["cost_usd"] == pytest.approx(1000 * hours * 4.10 / 500)
    assert row["closed_form_wait_s"] is None
    unknown = replace(made, tier_j_per_byte=None)
    assert (
        row_of(stream, unknown, played, prices, machine=load_machine("sharp"), is_gpu=True, zipf=0)["energy_j"] is None
    )
